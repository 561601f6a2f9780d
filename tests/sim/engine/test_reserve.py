"""What running requests may still say by their limits: counted, against a walk over all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine._reserve import LimitedDecodes, Reserve
from sim.engine.spec import EngineSpec, resolve
from tests.sim.engine.worlds import request

CLIP = 20
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(1, 60)),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("steps"), st.integers(1, 15)),
    ),
    max_size=40,
)


def crowd(happenings):
    """Decodes after what happened, and what each sequence has left of its limit."""
    decodes, present = LimitedDecodes(1, overlap=False, clip=CLIP), []
    for serial, (what, number) in enumerate(happenings):
        if what == "join":
            one = request(serial, 10, 1000, number)
            one.base_output = 1
            decodes.join(one)
            present.append(one)
        elif what == "leave" and present:
            decodes.leave(present.pop(number % len(present)))
        elif what == "steps":
            decodes.steps += number
    return decodes, [each.max_tokens - 1 - decodes.steps + each.joined_at for each in present]


@settings(deadline=None)
@given(HAPPENINGS, st.integers(1, 50))
def test_limits_are_those_of_a_walk(happenings, most):
    """The sum, each limit counted up to the clip, and when those beyond it come below."""
    decodes, left = crowd(happenings)
    assert decodes.limits() == sum(min(each, CLIP) for each in left)
    assert decodes.coming(most)[::-1] == sorted(each - CLIP for each in left if CLIP < each < CLIP + most)


@settings(deadline=None)
@given(HAPPENINGS, st.integers(1, 30), st.integers(0, 400), st.integers(0, 600))
def test_the_step_at_which_somebody_may_come_in(happenings, most, need, pool):
    """As asked step by step, with a share that falls; a token a step for each sequence."""
    decodes, left = crowd(happenings)
    spec = resolve(EngineSpec("sglang", kv_tokens=1000, clip_max_new_tokens=CLIP, new_token_ratio_decay_steps=9))
    reserve = Reserve(spec)
    reserve.set(0.6, decodes.steps + 2)
    free = [pool - ahead * len(left) for ahead in range(1, most)]

    def is_open(ahead):
        limits = sum(min(each - ahead, CLIP) for each in left)
        return need < free[ahead - 1] - limits * reserve.share(decodes.steps + ahead)

    expected = next((ahead for ahead in range(1, most) if is_open(ahead)), most)
    assert reserve.steps_until(decodes, most, need, free) == expected
