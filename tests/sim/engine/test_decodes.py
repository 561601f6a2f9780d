"""Counting decodes in steps against visiting each, and the clock's search for a boundary against walking to it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine._decodes import FAR, Decodes
from sim.engine._scheduler import Plan
from tests.sim.engine.worlds import request

quick = settings(max_examples=200, deadline=None, derandomize=True)

sequences = st.lists(
    st.tuples(st.integers(1, 200), st.integers(1, 40), st.integers(0, 20), st.integers(0, 10)), min_size=1, max_size=8
)


def joined(block, overlap, drawn):
    """Sequences that join after some steps of those before; returns them with their decodes."""
    decodes, live = Decodes(block, overlap=overlap), []
    for serial, (prompt, output, spare, steps) in enumerate(drawn):
        each = request(serial, prompt, output, output + spare)
        each.base_output = 1
        if output > 1 or (overlap and spare):
            decodes.join(each)
            live.append(each)
        decodes.steps += min(steps, max(0, min((e.ends_at for e in live), default=0) - decodes.steps))
    return decodes, live


def tokens(decodes, each):
    return each.prompt_tokens + decodes.steps - each.joined_at


@quick
@given(st.sampled_from([1, 4, 16]), st.booleans(), sequences, st.integers(0, 100))
def test_blocks_that_steps_need(block, overlap, drawn, steps):
    """``need(k)`` is the sum over sequences of blocks after k tokens more less blocks now; ``affordable`` inverts."""
    decodes, live = joined(block, overlap, drawn)

    def need(more):
        return sum(-(-(tokens(decodes, e) + more) // block) - -(-tokens(decodes, e) // block) for e in live)

    assert decodes.need(steps) == need(steps)
    for free in (0, 1, len(live), 3 * len(live)):
        assert decodes.affordable(steps, free) == max(k for k in range(steps + 1) if need(k) <= free)


@quick
@given(st.sampled_from([1, 16]), st.booleans(), sequences, st.data())
def test_contexts_and_ends(block, overlap, drawn, data):
    """The context is the sum of all; the horizon is the next end, one step later for a stop token under overlap.

    It is one step at least: who has the last token already leaves with the step that is decided now. Of sequences that
    left before their end it may still count that end: a jump may be short, never long.
    """
    decodes, live = joined(block, overlap, drawn)
    assert decodes.horizon() == next_end(decodes, live)
    for each in [e for e in live if data.draw(st.booleans())]:
        each.epoch += 1
        decodes.leave(each)
        live.remove(each)
    assert decodes.count == len(live)
    assert decodes.context() == sum(tokens(decodes, each) + 1 for each in live)
    assert decodes.horizon() <= next_end(decodes, live)


def next_end(decodes, live):
    if any(each.ends_at <= each.joined_at for each in live):
        return 1  # ended with its prefill, which nobody knew
    late = [each.ends_at - decodes.steps + (decodes.overlap and not each.ends_by_limit) for each in live]
    return max(1, min(late, default=FAR - decodes.steps))


def test_a_preempted_sequence_leaves_no_end_behind():
    """The end of a sequence that left and came back later counts from its second join."""
    decodes = Decodes(16, overlap=False)
    each = request(0, 10, 8)
    each.base_output = 1
    decodes.join(each)
    decodes.steps += 3
    decodes.leave(each)
    each.rewind(4)
    decodes.steps += 5
    assert decodes.pop_stopped(decodes.steps) == []
    each.base_output += 1
    decodes.join(each)
    assert decodes.horizon() == 3  # tokens 6, 7 and 8
    assert decodes.pop_stopped(decodes.steps + 2) == []
    assert decodes.pop_stopped(decodes.steps + 3) == [each]


@quick
@given(st.integers(1, 1000), st.integers(0, 50), st.integers(0, 100_000))
def test_first_boundary_from_a_time_on(first, growth, elapsed):
    """The closed form of a boundary is the step found by walking, and its time."""
    plan = Plan((), 0, 0, 0, 0, 0, 0, first, growth, 0, (0, 0))
    end, step = 0, 0
    while end < elapsed:
        end += first + growth * step
        step += 1
    assert plan.boundary(elapsed) == (step, end)
