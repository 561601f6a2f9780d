"""When an engine decides: between steps, or a step ahead with overlap. Steps of 10 ms, times in ms, both presets."""

import pytest

from sim.cost.constant import Constant
from tests.sim.engine.worlds import Bench, request

PRESETS = pytest.mark.parametrize("preset", ["vllm", "sglang"])
WAYS = pytest.mark.parametrize("step_by_step", [True, False], ids=["stepping", "jumping"])


@PRESETS
@WAYS
@pytest.mark.parametrize("arrival", [21, 25, 29, 30])
def test_an_arrival_enters_the_next_step(preset, step_by_step, arrival):
    """Without overlap what arrives during [20, 30], its end included, is in the step that starts at 30."""
    bench = Bench(preset, step_by_step=step_by_step).send(0, request(0, 20, 50)).send(arrival, request(1, 20))
    assert bench.run()[1].first_token == 40


@PRESETS
@WAYS
@pytest.mark.parametrize(("arrival", "first_token"), [(21, 50), (25, 50), (30, 50), (31, 60)])
def test_with_overlap_an_arrival_enters_the_step_after_the_next(preset, step_by_step, arrival, first_token):
    """The step that starts at 30 was fixed at 20: what arrives during [20, 30] is in the one that starts at 40."""
    bench = Bench(preset, step_by_step=step_by_step, overlap=True)
    bench.send(0, request(0, 20, 50)).send(arrival, request(1, 20))
    assert bench.run()[1].first_token == first_token


@PRESETS
@WAYS
@pytest.mark.parametrize("overlap", [False, True])
def test_an_idle_engine_starts_at_once(preset, step_by_step, overlap):
    """Overlap costs nothing to who comes alone; who comes at the instant of an end finds the engine idle or ready."""
    bench = Bench(preset, step_by_step=step_by_step, overlap=overlap)
    zero, one, two = bench.send(5, request(0, 20, 2)).send(100, request(1, 20)).send(110, request(2, 20)).run()
    assert (zero.first_token, zero.ended) == (15, 25)
    assert (one.first_token, two.first_token) == (110, 120)


@PRESETS
@WAYS
def test_a_foreseen_end_frees_its_place_in_time(preset, step_by_step):
    """Overlap knows an end by the limit beforehand: the next request starts when the last token is there."""
    bench = Bench(preset, step_by_step=step_by_step, overlap=True, max_num_seqs=1)
    zero, one = bench.send(0, request(0, 20, 5), request(1, 20)).run()
    assert (zero.ended, one.first_token) == (50, 60)


@PRESETS
@WAYS
def test_a_stop_token_is_noticed_one_step_late(preset, step_by_step):
    """The step [50, 60] was fixed before the stop token of 50 was known; its place is free in the one after."""
    bench = Bench(preset, step_by_step=step_by_step, overlap=True, max_num_seqs=1)
    zero, one = bench.send(0, request(0, 20, 5, 9), request(1, 20)).run()
    assert (zero.ended, one.first_token) == (50, 70)


@PRESETS
@WAYS
@pytest.mark.parametrize("overlap", [False, True])
def test_scheduled_is_the_decision(preset, step_by_step, overlap):
    """``scheduled`` is when a request is first admitted to a batch; with overlap its first step starts one step later.

    An idle engine decides and starts at once.
    """
    bench = Bench(preset, step_by_step=step_by_step, overlap=overlap).send(0, request(0, 20, 50))
    requests = bench.send(25, request(1, 20)).send(77, request(2, 20, 3)).run()
    assert [each.scheduled for each in requests] == [0, 30, 80]
    step_before = 10 if overlap else 0
    assert [each.first_token - each.scheduled - 10 for each in requests] == [0, step_before, step_before]


@PRESETS
@WAYS
def test_drain_time_of_a_closed_batch(preset, step_by_step):
    """Steps of a + b*B: after a prefill of a + c*tokens the drain takes a*Lmax + b*sum(L) exactly."""
    a, b, c = 7, 3, 2
    lengths = [1, 5, 5, 17, 40, 3]
    cost = Constant(step_ms=a, per_sequence_ms=b, prefill_ms_per_token=c)
    bench = Bench(preset, step_by_step=step_by_step, cost=cost)
    prompts = [request(serial, 30 + serial, 1 + length) for serial, length in enumerate(lengths)]
    ended = max(each.ended for each in bench.send(0, *prompts).run())
    prefill = a + c * sum(30 + serial for serial in range(len(lengths)))
    assert ended - prefill == a * max(lengths) + b * sum(lengths)


@PRESETS
@WAYS
def test_steps_that_grow_are_rounded_once(preset, step_by_step):
    """Boundaries of a run with growing steps are sums of integers: first + growth a step."""

    class Growing(Constant):
        """A cost by context beside the constant."""

        def compile(self, *arguments, **named):
            coefficients = super().compile(*arguments, **named)
            coefficients.ctx = 0.4
            return coefficients

    bench = Bench(preset, step_by_step=step_by_step, cost=Growing(step_ms=10))
    zero, one = bench.send(0, request(0, 20, 5), request(1, 20, 7)).run()
    # Prefill 10. Two sequences of 21: 10 + 0.4 * 42 = 26.8, so 27, and 0.8, so 1 more a step: 27, 28, 29, 30.
    assert zero.ended == 10 + 27 + 28 + 29 + 30
    # One sequence of 25: 10 + 0.4 * 25 = 20, and 0.4, so 0 more.
    assert one.ended == zero.ended + 20 + 20


@PRESETS
@pytest.mark.parametrize(("chunk", "copies"), [(130, 1), (260, 2), (390, 3), (2048, 6)])
def test_siblings_that_see_each_other_after_prefill(preset, chunk, copies):
    """Of n simultaneous siblings min(n, max(1, floor(chunk / P))) compute the prompt, the others hit it."""
    fields = {"max_num_batched_tokens": chunk} if preset == "vllm" else {"chunked_prefill_tokens": chunk}
    bench = Bench(preset, visibility="after_prefill", **fields)
    siblings = bench.send(0, *(request(serial, ((7, 130),)) for serial in range(6))).run()
    # Those that hit still compute the last token (SGLang) or what follows the last whole block of 16 (vLLM).
    rest = 130 - 128 if preset == "vllm" else 1
    assert sum(each.prefill_tokens for each in siblings) == 130 * copies + rest * (6 - copies)


@PRESETS
def test_what_a_chunk_leaves_over_goes_to_one_more_copy(preset):
    """A third sibling that is cut by the budget of the first step has begun without a hit: it computes all."""
    fields = {"max_num_batched_tokens": 300} if preset == "vllm" else {"chunked_prefill_tokens": 300}
    bench = Bench(preset, visibility="after_prefill", **fields)
    siblings = bench.send(0, *(request(serial, ((7, 130),)) for serial in range(6))).run()
    assert sum(each.cached_tokens == 0 for each in siblings) == 3
