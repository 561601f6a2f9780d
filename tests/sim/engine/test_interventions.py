"""What an engine does that is told to abort, flush, pause, fail or change weights. Steps of 10 ms, times in ms."""

import pytest

from sim.instants import FAILURE, SUBMIT
from sim.log.record import ABORTED, BUSY, DOWN, FAILED, FINISHED, FLUSH, REJECTED
from tests.sim.engine.worlds import Bench, request

PRESETS = pytest.mark.parametrize("preset", ["vllm", "sglang"])
WAYS = pytest.mark.parametrize("step_by_step", [True, False], ids=["stepping", "jumping"])


def at(bench, when, action, priority=SUBMIT + (1 << 40)):
    """Let something be done to an engine."""
    bench.env.at(when, priority, action, bench.engine)
    return bench


@WAYS
@pytest.mark.parametrize(("when", "ended", "tokens"), [(25, 30, 2), (30, 30, 3), (31, 40, 3)])
def test_vllm_aborts_before_the_output_is_looked_at(step_by_step, when, ended, tokens):
    """A token a step from 10 on; what comes during a step ends with it and without its token."""
    aborted = request(0, 20, 50)
    bench = at(Bench("vllm", step_by_step=step_by_step).send(0, aborted), when, lambda engine: engine.abort(aborted))
    bench.run()
    assert (aborted.status, aborted.ended, aborted.generated) == (ABORTED, ended, tokens)
    assert bench.scheduler.cache.usage() == (0, 1)


@WAYS
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("when", "ended", "tokens"), [(25, 40, 4), (30, 40, 4), (31, 50, 5)])
def test_sglang_lets_an_aborted_request_make_one_more_token(step_by_step, overlap, when, ended, tokens):
    """What comes during a step is seen at its end; the next step gives the last token."""
    aborted = request(0, 20, 50)
    bench = Bench("sglang", step_by_step=step_by_step, overlap=overlap).send(0, aborted)
    at(bench, when, lambda engine: engine.abort(aborted)).run()
    assert (aborted.status, aborted.ended, aborted.generated) == (ABORTED, ended, tokens)
    assert aborted.output_tokens == 50
    # With overlap the step after that was decided before the end was seen.
    assert bench.ran()[-1][1] == ended + 10 * overlap


@PRESETS
@WAYS
def test_who_waits_is_aborted_at_once(preset, step_by_step):
    """And makes way for the next at the next decision."""
    big, small = request(1, 300, 5), request(2, 30, 5)
    bench = Bench(preset, 400, step_by_step=step_by_step, block_tokens=16).send(0, request(0, 200, 20), big, small)
    at(bench, 25, lambda engine: engine.abort(big)).run()
    assert (big.status, big.ended, big.generated, big.scheduled) == (ABORTED, 25, 0, -1)
    assert small.scheduled == 30


@PRESETS
@WAYS
def test_a_flush_forgets_what_runs_too(preset, step_by_step):
    """After a flush a sibling computes all, though the first still runs; the third hits what the second computed."""
    shared = ((7, 160),)
    first, second, third = (request(serial, shared, 30) for serial in range(3))
    bench = Bench(preset, step_by_step=step_by_step).send(0, first).send(50, second).send(90, third)
    at(bench, 45, lambda engine: engine.flush()).run()
    assert [each.cached_tokens > 0 for each in (first, second, third)] == [False, False, True]
    assert {each.status for each in (first, second, third)} == {FINISHED}
    assert [tuple(row) for row in zip(*bench.log.numpy("changes").values(), strict=True)] == [(50, FLUSH, 0)]


@PRESETS
@WAYS
def test_content_belongs_to_the_weights_that_computed_it(preset, step_by_step):
    """Version 1 does not find what version 0 computed, also by who began before; version 0 finds it again."""
    shared = ((7, 160),)
    requests = [request(serial, shared, 2) for serial in range(4)]
    bench = Bench(preset, step_by_step=step_by_step)
    for serial, when in enumerate((0, 50, 100, 150)):
        bench.send(when, requests[serial])
    at(at(bench, 40, lambda engine: engine.set_version(1)), 140, lambda engine: engine.set_version(0)).run()
    assert [each.cached_tokens > 0 for each in requests] == [False, False, True, True]


@PRESETS
@WAYS
@pytest.mark.parametrize(("overlap", "tokens"), [(False, 3), (True, 4)])
def test_a_pause_starts_no_step(preset, step_by_step, overlap, tokens):
    """From 25 to 1000: the step under way ends, and with overlap the one that is decided; then all goes on."""
    one = request(0, 20, 10)
    bench = Bench(preset, step_by_step=step_by_step, overlap=overlap).send(0, one)
    at(at(bench, 25, lambda engine: engine.pause()), 1000, lambda engine: engine.resume()).run()
    assert one.ended == 1000 + 10 * (10 - tokens)
    assert sum(end - start for start, end, *_ in bench.ran()) == 100


@PRESETS
@WAYS
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("when", "tokens"), [(5, 0), (10, 1), (25, 2), (30, 3)])
def test_a_failure_loses_everything_at_once(preset, step_by_step, overlap, when, tokens):
    """Nobody is answered later; who comes meanwhile fails; after the restart the cache is empty."""
    lost, refused, late = request(0, 20, 50), request(1, 20, 2), request(2, 20, 2)
    bench = Bench(preset, step_by_step=step_by_step, overlap=overlap)
    bench.send(0, lost).send(when + 1, refused).send(200, late)
    at(bench, when, lambda engine: engine.fail(), FAILURE)
    at(bench, 100, lambda engine: engine.restart(), FAILURE).run()
    assert (lost.status, lost.ended, lost.generated) == (FAILED, when, tokens)
    assert lost.first_token == (10 if tokens else -1)
    assert (refused.status, refused.ended, refused.scheduled) == (FAILED, when + 1, -1)
    assert (late.status, late.cached_tokens) == (FINISHED, 0)
    rows = bench.log.numpy("engines")
    spans = list(zip(*(rows[name].tolist() for name in ("kind", "start", "end")), strict=True))
    assert (DOWN, when, 100) in spans
    assert sum(end - start for kind, start, end in spans if kind == BUSY and start < 100) == when
    assert rows["chunk_tokens"].sum() == lost.prefill_tokens + late.prefill_tokens


@PRESETS
def test_a_request_may_be_tried_again(preset):
    """What an engine lost is forgotten by ``renew`` and served as if it were new."""
    one = request(0, 200, 5)
    bench = Bench(preset).send(0, one)
    at(bench, 25, lambda engine: engine.fail(), FAILURE)
    at(bench, 50, lambda engine: engine.restart(), FAILURE)
    bench.env.run(60)
    one.renew()
    bench.send(100, one).run()
    assert (one.status, one.ended, one.generated, one.prefill_tokens, one.preemptions) == (FINISHED, 150, 5, 200, 0)


@PRESETS
def test_what_has_ended_is_left_alone(preset):
    """An abort after the end, of who was rejected, or twice, changes nothing."""
    done, large, twice = request(0, 20, 1), request(1, 500_000, 1), request(2, 20, 50)
    bench = Bench(preset).send(0, done, large, twice)
    for when in (20, 21, 100):
        for each in (done, large, twice):
            at(bench, when, lambda engine, each=each: engine.abort(each))
    bench.run()
    assert (done.status, large.status, twice.status) == (FINISHED, REJECTED, ABORTED)
    assert twice.ended < 50


@PRESETS
@WAYS
def test_a_look_at_an_engine(preset, step_by_step):
    """Two run with 40 + 3 tokens at 25, a third waits for a place with 32 of its 60 tokens cached."""
    bench = Bench(preset, 1600, step_by_step=step_by_step, block_tokens=16, max_num_seqs=2)
    shared = ((7, 32),)
    sent = [request(serial, (*shared, (50 + serial, tokens)), 20) for serial, tokens in enumerate((8, 8, 28))]
    loads = []
    bench.send(0, sent[0]).send(10, sent[1], sent[2])
    at(bench, 25, lambda engine: loads.append(engine.peek(25))).run()
    (load,) = loads
    assert (load.running, load.waiting, load.queued_tokens) == (2, 1, 28)
    # Of three blocks each the two requests share the first two.
    assert load.kv_share == 4 / 100
    assert load.tokens == 4 * 16 + 60


@WAYS
def test_look_ups_until_the_abort_are_counted(step_by_step):
    """The head of the queue is looked up at 0, 10, ... 50, and is answered at 55 with the count of these."""
    big, seen = request(1, 300, 5), []
    bench = Bench("vllm", 400, step_by_step=step_by_step).send(0, request(0, 200, 20), big)
    big.done = lambda answered: seen.append(answered.queried_tokens)
    at(bench, 55, lambda engine: engine.abort(big)).run()
    assert seen == [6 * 300]
