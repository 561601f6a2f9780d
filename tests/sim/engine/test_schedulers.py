"""Both schedulers against plain ones that visit every request at every step: same times, hits, preemptions."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies._content import PRIVATE
from sim.engine.spec import EngineSpec, resolve
from tests.sim.engine.naive_engines import Job, PlainSglang, PlainVllm
from tests.sim.engine.worlds import STEP, Bench, request

many = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=100, derandomize=True)


@st.composite
def calls(draw):
    """Arrival, content, output, limit and source of a request, in whole or broken steps."""
    arrival = draw(st.integers(0, 20)) * STEP + draw(st.sampled_from([0, 0, 1, 9]))
    group, session = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    spans = ((0, draw(st.sampled_from([0, 20, 33]))), (10 + group, draw(st.sampled_from([0, 16, 50]))))
    source = 100 + 10 * group + session
    content = (*(span for span in spans if span[1]), (source, draw(st.integers(1, 60))))
    output = draw(st.integers(1, 50))
    limit = output + draw(st.sampled_from([0, 1, 30]))
    return arrival, content, output, limit, draw(st.sampled_from([source, PRIVATE]))


@st.composite
def vllm_fields(draw):
    """Fields of a vLLM engine; budgets have a token for each sequence beside the longest chunk."""
    block = draw(st.sampled_from([4, 16]))
    return {
        "block_tokens": block,
        "kv_tokens": block * draw(st.sampled_from([300, 60, 240 // block + 1])),
        "visibility": draw(st.sampled_from(["at_schedule", "after_prefill"])),
        "max_num_batched_tokens": draw(st.sampled_from([2048, 200, 64])),
        "max_num_seqs": draw(st.sampled_from([16, 3, 1])),
        "long_prefill_token_threshold": draw(st.sampled_from([0, 32])),
        "reserve_full_prompt": draw(st.booleans()),
        "watermark_share": draw(st.sampled_from([0.0, 0.1])),
    }


@st.composite
def sglang_fields(draw):
    """Fields of an SGLang engine."""
    return {
        "kv_tokens": draw(st.sampled_from([5000, 600, 300])),
        "max_num_seqs": draw(st.sampled_from([16, 3, 1])),
        "chunked_prefill_tokens": draw(st.sampled_from([8192, 100, 64])),
        "max_prefill_tokens": draw(st.sampled_from([16384, 150, 80])),
        "schedule_conservativeness": draw(st.sampled_from([1.0, 0.3, 0.05])),
        "new_token_ratio_decay_steps": draw(st.sampled_from([600, 20])),
        "clip_max_new_tokens": draw(st.sampled_from([4096, 16, 1])),
    }


def assert_same(preset, fields, drawn, *, step_by_step):
    plain = {"vllm": PlainVllm, "sglang": PlainSglang}[preset]
    spec = resolve(EngineSpec(preset, overlap=False, **fields))
    tokens = fields.pop("kv_tokens")
    bench = Bench(preset, tokens, step_by_step=step_by_step, **fields)
    for serial, (arrival, content, output, limit, source) in enumerate(drawn):
        bench.send(arrival, request(serial, content, output, limit, source))
    served = [each for each in bench.run() if each.status == 0]
    jobs = {}
    for each in served:
        arrival, content, output, limit, source = drawn[each.view.id]
        source = -2 - each.view.id if source == PRIVATE else source
        jobs[each.view.id] = Job(each.view.id, arrival, content, output, limit, source)
    plain(jobs.values(), spec).run()
    for each in served:
        marks = (
            each.scheduled, each.first_token, each.ended, each.cached_tokens, each.prefill_tokens,
            each.recomputed_tokens, each.preemptions,
        )  # fmt: skip
        assert marks == jobs[each.view.id].marks(), each


worlds = {"vllm": vllm_fields(), "sglang": sglang_fields()}
crowds = st.lists(calls(), min_size=1, max_size=12)


@pytest.mark.parametrize("preset", worlds)
def test_against_a_plain_engine(preset):
    """Stepping or jumping, every mark of every request is the plain engine's."""

    @some
    @given(worlds[preset], crowds, st.booleans())
    def hold(fields, drawn, step_by_step):
        assert_same(preset, fields, drawn, step_by_step=step_by_step)

    hold()


@pytest.mark.slow
@pytest.mark.parametrize("preset", worlds)
def test_against_a_plain_engine_at_length(preset):
    """The same for many more crowds."""

    @many
    @given(worlds[preset], crowds, st.booleans())
    def hold(fields, drawn, step_by_step):
        assert_same(preset, fields, drawn, step_by_step=step_by_step)

    hold()
