"""Siblings that reach one engine together: what each visibility makes of n equal prompts. Steps of 10 ms."""

import pytest

from tests.sim.engine.worlds import Bench, request

PROMPT = 100


def siblings(count, *, step_by_step, **fields):
    """How many of ``count`` equal prompts find nothing in the cache, and when each was scheduled."""
    bench = Bench("sglang", step_by_step=step_by_step, **fields)
    served = bench.send(0, *(request(serial, ((7, PROMPT),), 5) for serial in range(count))).run()
    assert {each.cached_tokens for each in served} <= {0, PROMPT - 1}
    return sum(not each.cached_tokens for each in served), [each.scheduled for each in served]


@pytest.fixture(params=[True, False], ids=["stepping", "jumping"])
def serve(request):
    """Serve siblings step by step and by jumps."""
    return lambda count, **fields: siblings(count, step_by_step=request.param, **fields)


@pytest.mark.parametrize("overlap", [False, True])
def test_visible_at_schedule(serve, overlap):
    """One computes the prompt, n - 1 hit it in the same batch."""
    assert serve(8, visibility="at_schedule", overlap=overlap) == (1, [0] * 8)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("fit", [1, 2, 3])
def test_visible_after_the_prefill(serve, count, fit):
    """As many compute it as fit into the first batch; with overlap the second batch is fixed before they are done."""
    fields = {"visibility": "after_prefill", "chunked_prefill_tokens": fit * PROMPT}
    assert serve(count, overlap=False, **fields)[0] == min(count, fit)
    assert serve(count, overlap=True, **fields)[0] == min(count, 2 * fit)


def test_a_prompt_that_is_longer_than_a_chunk(serve):
    """It is computed once without overlap: the first sibling's chunks fill the batches."""
    assert serve(4, visibility="after_prefill", overlap=False, chunked_prefill_tokens=50)[0] == 1


@pytest.mark.parametrize("order", ["fcfs", "lpm", "dfs-weight"])
def test_deferred(serve, order):
    """The first runs, its siblings are held one step and then hit, all of them."""
    assert serve(8, visibility="deferred", overlap=False, queue_order=order) == (1, [0] + [10] * 7)


def test_deferred_with_overlap(serve):
    """The second decision is made before the first prompt is computed: a sibling computes it again, the others wait."""
    assert serve(8, visibility="deferred", overlap=True) == (2, [0, 0] + [10] * 6)


@pytest.mark.parametrize("overlap", [False, True])
def test_never(serve, overlap):
    """Prefix caching is off: each computes the whole prompt, in the first batch that has room."""
    assert serve(8, visibility="never", overlap=overlap) == (8, [0] * 8)


def test_little_in_common_holds_nobody(serve):
    """Siblings share at least as many tokens as the threshold says."""
    fields = {"visibility": "deferred", "overlap": False}
    assert serve(3, in_batch_defer_tokens=PROMPT, **fields)[0] == 1
    assert serve(3, in_batch_defer_tokens=PROMPT + 1, **fields) == (3, [0, 0, 0])
