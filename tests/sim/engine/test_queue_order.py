"""SGLang's queue orders and mixed chunks on scenarios worked by hand: one request a batch, steps of 10 ms."""

from dataclasses import replace

import pytest

from tests.sim.engine.worlds import Bench, request

ALONE = {"max_num_seqs": 1}
"""One at a time: the order of service is the order of the queue."""


def keyed(serial, key, *args):
    """A request that carries a routing key."""
    each = request(serial, *args)
    each.view = replace(each.view, headers={"x-smg-routing-key": key})
    return each


@pytest.fixture(params=[True, False], ids=["stepping", "jumping"])
def order(request):
    """Serial numbers of requests in the order of their first tokens; what ``first`` names is served before."""

    def serve(queue_order, requests, first=(), **fields):
        bench = Bench("sglang", step_by_step=request.param, queue_order=queue_order, **ALONE | fields)
        bench.send(0, *first)
        served = bench.send(1000, *requests).run()[len(first) :]
        return [each.view.id for each in sorted(served, key=lambda each: each.first_token)]

    return serve


def test_longest_prefix_first(order):
    """40 cached tokens before 20 before none."""
    for name, served in (("fcfs", [1, 2, 3]), ("lpm", [3, 2, 1])):
        waiting = [request(1, 60), request(2, ((7, 20), (8, 40))), request(3, ((7, 40), (9, 20)))]
        assert order(name, waiting, [request(0, ((7, 40),))]) == served


def test_long_queues_are_not_matched(order):
    """With 129 waiting the order is that of arrival; once 128 are left the longest prefix comes first."""
    first = [request(0, ((7, 40),))]
    waiting = [*(request(serial, 60) for serial in range(1, 129)), request(129, ((7, 40), (9, 20)))]
    assert order("lpm", waiting, first)[:3] == [1, 129, 2]


def test_siblings_are_put_last(order):
    """Not held, but behind who came later, they wait where the batch is full without them."""
    waiting = [request(0, ((7, 40),)), request(1, ((7, 40),)), request(2, 30)]
    fields = {"visibility": "after_prefill", "chunked_prefill_tokens": 70, "max_num_seqs": 9}
    assert order("lpm", waiting, **fields) == [0, 2, 1]
    assert [each.cached_tokens for each in waiting] == [0, 39, 0]


def test_down_the_tree(order):
    """The branch with more waiting first, its deeper part before its end; who matches nothing comes last."""
    first = [request(0, ((7, 40), (8, 40))), request(1, ((9, 40),))]
    waiting = [
        request(2, 60),
        request(3, ((9, 40), (10, 5))),
        request(4, ((7, 40), (11, 5))),
        request(5, ((7, 40), (8, 40), (12, 5))),
    ]
    # Below 7: two, of which 5 is deeper; below 9: one; at the root: 2.
    assert order("dfs-weight", waiting, first) == [5, 4, 3, 2]


def test_longest_output_first(order):
    """By the client's limit, not by what it will say; equals as they came."""
    waiting = [request(0, 20, 1, 5), request(1, 20, 1, 50), request(2, 20, 4, 5)]
    assert order("lof", waiting) == [1, 0, 2]


def test_keys_that_run_first():
    """Two of key b run, one of a: b before a, then who has another key or none, by key."""
    bench = Bench("sglang", queue_order="routing-key", max_num_seqs=4)
    bench.send(0, *(keyed(serial, key, 20, 50) for serial, key in enumerate("bba")))
    waiting = [keyed(10 + place, key, 20, 1) for place, key in enumerate(["c", "", "a", "b"])]
    bench.send(95, *waiting)
    served = bench.run()[3:]
    ordered = sorted(served, key=lambda each: each.first_token)
    assert [each.view.headers["x-smg-routing-key"] for each in ordered] == ["b", "a", "", "c"]


def test_random_needs_a_source_of_chance():
    """Without one the order cannot be drawn."""
    with pytest.raises(ValueError, match="source of chance"):
        Bench("sglang", queue_order="random")


def test_decodes_go_on_in_a_mixed_batch():
    """Who decodes is not held up by the chunks of another, and takes a token of their budget."""
    bench = Bench("sglang", enable_mixed_chunk=True, chunked_prefill_tokens=64)
    zero, one = bench.send(0, request(0, 20, 5)).send(5, request(1, 150, 2)).run()
    assert bench.steps == [
        (0, {0: 20}, 0), (10, {1: 63}, 1), (20, {1: 63}, 1), (30, {1: 24}, 1), (40, {}, 2),
    ]  # fmt: skip
    assert (zero.first_token, zero.ended, one.first_token, one.ended) == (10, 50, 40, 50)


def test_a_mixed_batch_leaves_the_reserve_alone():
    """The share that is reserved falls with decode steps only."""
    bench = Bench("sglang", enable_mixed_chunk=True, chunked_prefill_tokens=64, new_token_ratio_decay_steps=10)
    shares, form = [], bench.scheduler.form

    def noting(now):
        plan = form(now)
        shares.append(round(bench.scheduler.reserve.share(bench.scheduler.decodes.steps), 4))
        return plan

    bench.scheduler.form = noting
    bench.send(0, request(0, 20, 5)).send(5, request(1, 150, 2)).run()
    assert shares[:5] == [0.7, 0.7, 0.7, 0.7, 0.6398]
