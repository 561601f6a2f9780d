"""The simulator's engine against the reference on crowds that hypothesis draws, and shrinks where the two differ.

Beside the numbered scenarios: arrivals one tick before and after the ends of steps, one place in the batch, pools that
are never short, reserves next to nothing, prompts of which much or little is shared.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies._content import PRIVATE, canonical, count, extend
from sim.engine.spec import EngineSpec, resolve
from tests.reference.scenarios import COSTS, Asked, Scenario, refer, serve

many = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=100, derandomize=True)


@st.composite
def calls(draw, serial):
    """A request around the ends of steps of 10 ticks, and perhaps one that goes on from its answer."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    group, is_live = draw(st.integers(0, 2)), draw(st.booleans())
    # A live output continues the last span, so no other request may have that: it would know the answer beforehand.
    own = 1000 + serial if is_live else 100 + 10 * group + draw(st.integers(0, 3))
    content = canonical(((0, one(0, 20, 33)), (10 + group, one(0, 16, 50)), (own, draw(st.integers(1, 60)))))
    source = own if is_live else PRIVATE
    output = draw(st.integers(1, 50))
    when = 10 * draw(st.integers(0, 20)) + one(0, 0, 1, 9)
    first = Asked(serial, content, output, output + one(0, 1, 30), source, when)
    if not is_live or draw(st.booleans()):
        return [first]
    longer = extend(content, own, output + draw(st.integers(1, 20)))
    return [first, Asked(serial + 1, longer, 5, 5, own, one(0, 1, 10), serial)]


@st.composite
def vllm_fields(draw):
    """Fields of a vLLM engine."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    block = one(4, 16)
    return {
        "block_tokens": block,
        "kv_tokens": block * one(300, 60, 240 // block + 1),
        "visibility": one("at_schedule", "after_prefill"),
        "max_num_batched_tokens": one(2048, 200, 64),
        "max_num_seqs": one(16, 3, 1),
        "long_prefill_token_threshold": one(0, 32),
        "reserve_full_prompt": one(True, False),
        "watermark_share": one(0.0, 0.1),
    }


@st.composite
def sglang_fields(draw):
    """Fields of an SGLang engine."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    return {
        "block_tokens": one(1, 16),
        "kv_tokens": one(5008, 608, 304),
        "max_num_seqs": one(16, 3, 1),
        "chunked_prefill_tokens": one(8192, 100, 64),
        "max_prefill_tokens": one(16384, 150, 80),
        "schedule_conservativeness": one(1.0, 0.3, 0.05),
        "new_token_ratio_decay_steps": one(600, 20),
        "clip_max_new_tokens": one(4096, 16, 1),
    }


FIELDS = {"vllm": vllm_fields(), "sglang": sglang_fields()}


@st.composite
def crowds(draw, preset):
    """A scenario of up to a dozen requests that the pool can hold one by one."""
    fields = draw(FIELDS[preset])
    spec = resolve(EngineSpec(preset, overlap=draw(st.booleans()), **fields))
    asked = []
    for serial in range(0, 2 * draw(st.integers(1, 12)), 2):
        turns = draw(calls(serial))
        if all(count(each.content) + each.limit + spec.block_tokens <= spec.kv_tokens for each in turns):
            asked += turns
    return Scenario(spec, draw(st.sampled_from(sorted(COSTS))), tuple(asked))


def assert_agreement(scenario, *, step_by_step):
    assert serve(scenario, step_by_step=step_by_step) == refer(scenario)


@pytest.mark.parametrize("preset", FIELDS)
def test_crowds(preset):
    """Stepping or jumping, every mark of every request and the cache at the end are the reference's."""

    @some
    @given(crowds(preset), st.booleans())
    def hold(scenario, step_by_step):
        assert_agreement(scenario, step_by_step=step_by_step)

    hold()


@pytest.mark.slow
@pytest.mark.parametrize("preset", FIELDS)
def test_many_crowds(preset):
    """The same for many more."""

    @many
    @given(crowds(preset), st.booleans())
    def hold(scenario, step_by_step):
        assert_agreement(scenario, step_by_step=step_by_step)

    hold()
