"""Compaction: contexts grow to a threshold, are summed up, and grow again behind the head."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies._content import PRIVATE, count
from sim.errors import ScenarioError
from sim.replication import Streams, replicate
from sim.workload import _reuse
from tests.strategies import cell_of, world

JOB = {
    "groups": 2,
    "samples_per_group": 2,
    "turns": 7,
    "prompt": {"group_tokens": 100, "system_tokens": 50},
    "output_tokens": 30,
    "max_tokens": 40,
    "observation_tokens": 70,
}


def sessions_of(workload):
    cell = cell_of(world(workload=JOB | workload))
    made = cell.workload.generate(Streams(1, 0), cell.base)
    return made, [made.session(index) for index in range(made.sessions)]


def test_a_context_by_hand():
    """Head 150, growth 100, threshold 400: prompts 150 250 350 450, whose answer is the summary of 60; then 210 ..."""
    _, sessions = sessions_of({"compaction": {"at_tokens": 400, "summary_tokens": 60}})
    for session in sessions:
        assert [count(turn.prompt) for turn in session.turns] == [150, 250, 350, 450, 210, 310, 410]
        assert [turn.output_tokens for turn in session.turns] == [30, 30, 30, 60, 30, 30, 30]
        assert [turn.max_tokens for turn in session.turns] == [40, 40, 40, 60, 40, 40, 40]
        head = session.turns[0].prompt
        sources = [turn.prompt[-1][0] for turn in session.turns[1:]]
        assert len(set(sources[:3])) == 1
        assert len(set(sources[3:])) == 1
        assert sources[2] != sources[3]
        assert all(turn.prompt[: len(head)] == head for turn in session.turns)
        assert session.turns[-1].output_source == sources[-1]


def test_sources_are_nobody_elses():
    """After any number of compactions no two sessions share anything behind their head."""
    _, sessions = sessions_of({"turns": 60, "compaction": {"at_tokens": 400, "summary_tokens": 60}})
    seen = [{turn.prompt[-1][0] for turn in session.turns[1:]} for session in sessions]
    assert all(len(each) > 10 for each in seen)
    assert sum(map(len, seen)) == len(set().union(*seen))


def test_only_the_head_is_found_after_a_compaction():
    """An engine finds the head alone for the turn behind a summary."""
    workload = JOB | {"groups": 1, "samples_per_group": 1, "prompt": {"group_tokens": 160, "system_tokens": 0}}
    workload["compaction"] = {"at_tokens": 400, "summary_tokens": 60}
    requests = replicate(cell_of(world(workload=workload)), 0).numpy("requests")
    assert requests["prompt_tokens"].tolist() == [160, 260, 360, 460, 220, 320, 420]
    assert requests["cached_tokens"].tolist()[4] == 160
    assert requests["cached_tokens"].tolist()[3] >= 352


def test_a_threshold_below_the_head_is_refused():
    """It would be reached for ever."""
    with pytest.raises(ScenarioError, match="at_tokens must be above head and summary, 210"):
        sessions_of({"compaction": {"at_tokens": 200, "summary_tokens": 60}})


def test_a_context_limit_ends_before_the_first_turn_that_does_not_fit():
    """Also where later contexts would fit again."""
    change = {"compaction": {"at_tokens": 400, "summary_tokens": 60}, "context_limit_tokens": 490}
    _, sessions = sessions_of(change)
    assert {len(session.turns) for session in sessions} == {3}


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(240, 700),
    st.one_of(st.integers(1, 80), st.just({"kind": "uniform", "low": 1, "high": 80})),
    st.sampled_from(("live", "replay")),
)
def test_prompts_and_reuse(turns, at, summary, mode):
    """Each prompt is the one before with its answer and observation, or head and summary."""
    workload, sessions = sessions_of(
        {
            "turns": turns,
            "mode": mode,
            "observation_tokens": {"kind": "uniform", "low": 0, "high": 90},
            "compaction": {"at_tokens": at, "summary_tokens": summary},
        }
    )
    for session in sessions:
        for before, after in zip(session.turns, session.turns[1:], strict=False):
            grown = count(after.prompt) - count(before.prompt)
            if count(before.prompt) > at:
                assert count(after.prompt) == 150 + before.output_tokens
            else:
                assert before.output_tokens == 30
                assert 30 <= grown <= 120
            assert (after.output_source == PRIVATE) == (mode == "replay")
    assert all(len(session.turns) == turns for session in sessions)
    assert _reuse.ideal_prefill_tokens(workload, 1) <= sum(count(t.prompt) for s in sessions for t in s.turns)
