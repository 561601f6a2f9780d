"""What arithmetic says of an arm: published savings and hit rates, brute force over placements, the drain."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._content import PRIVATE
from sim import load_scenario
from sim.review._arithmetic import Placing, arithmetic, pieces_of, placing_of, predicted
from sim.review._controls import requests_of
from sim.workload._model import Session, Turn

WORLD = """name: little
fleet: {{engines: {engines}, engine: {{preset: vllm, kv_tokens: 900000, cost: {cost}}}}}
workload: {workload}
router: {{policy: {{kind: {policy}}}}}
client: {{key_scope: {scope}}}
"""
CONSTANT = "{kind: constant, step_ms: 10, per_sequence_ms: 1}"
SIBLINGS = (
    "{{kind: rollout, groups: 6, samples_per_group: {n}, prompt: {{group_tokens: 1600}}, "
    "output_tokens: 1, max_tokens: 1}}"
)


def cell(tmp_path: Path, **more):
    """A cell of a small world."""
    own = {"engines": 2, "cost": CONSTANT, "policy": "modulo", "scope": "session"} | more
    (tmp_path / "little.yaml").write_text(WORLD.format(**own), encoding="utf-8")
    [found] = load_scenario(tmp_path / "little.yaml").arms.values()
    return found


@pytest.mark.parametrize(
    ("engines", "n", "saved"),
    [(2, 4, 0.4667), (2, 8, 0.4980), (4, 4, 0.634), (4, 8, 0.722), (4, 16, 0.747), (8, 4, 0.698), (8, 16, 0.858)],
)
def test_prefill_that_a_group_saves(tmp_path, engines, n, saved):
    """Published arithmetic: 1 - 1/d of the shared prompt, d = N (1 - (1 - 1/N)^n)."""
    workload = SIBLINGS.format(n=n)
    one, other = (
        arithmetic(cell(tmp_path, engines=engines, workload=workload, scope=scope)) for scope in ("session", "group")
    )
    (least, most), (grouped, _) = one.prefill_tokens, other.prefill_tokens
    assert least == most
    assert 1 - grouped / least == pytest.approx(saved, abs=5e-4)
    assert grouped == pytest.approx(other.ideal_tokens)
    assert other.ideal_tokens == 6 * 1600
    assert (one.keys, other.keys) == (6 * n, 6)


@pytest.mark.parametrize(("turns", "hit"), [(2, 0.431), (5, 0.722), (10, 0.841), (29, 0.937)])
def test_hits_of_pinned_turns(tmp_path, turns, hit):
    """Published arithmetic: system 2,000, 500 a turn, answers of 300 repeated: only what is new is computed."""
    session = "prompt: {group_tokens: 2500}"
    workload = (
        f"{{kind: rollout, groups: 1, samples_per_group: 1, {session}, turns: {turns}, output_tokens: 300, "
        "max_tokens: 300, observation_tokens: 500, tool_delay_s: 0}"
    )
    found = arithmetic(cell(tmp_path, workload=workload))
    published_computed = 2000 + turns * 500 + (turns - 1) * 300
    in_replay = found.prefill_tokens[0] + (turns - 1) * 300  # the published figure computes answers again
    assert in_replay == pytest.approx(published_computed)
    assert 1 - in_replay / found.prompt_tokens == pytest.approx(hit, abs=6e-4)


def turn(prompt, output_source=PRIVATE, output=3):
    """A turn of some spans."""
    return Turn(tuple(prompt), output, output_source, output, 0.0)


spans = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=3, unique_by=lambda each: each[0]
)


@given(st.lists(st.lists(spans, min_size=1, max_size=2), min_size=1, max_size=4), st.integers(2, 3), st.booleans())
def test_brute_force_over_placements(prompts, engines, by_turn):
    """The formula is the mean, over every placement of the keys, of the distinct tokens that each engine is sent."""
    sessions = [Session(index, index, [turn(each) for each in own]) for index, own in enumerate(prompts)]
    numbers = itertools.count()
    keys = [[next(numbers) if by_turn else index for _ in own] for index, own in enumerate(prompts)]
    pieces = list(pieces_of(sessions, keys))
    flat = [
        (prompt, key) for own, names in zip(prompts, keys, strict=True) for prompt, key in zip(own, names, strict=True)
    ]
    every = sorted({key for _, key in flat})
    total = 0
    for placed in itertools.product(range(engines), repeat=len(every)):
        engine_of = dict(zip(every, placed, strict=True))
        total += len({(engine_of[key], token) for prompt, key in flat for token in tokens(prompt)})
    expected = total / engines ** len(every)
    formula = sum(each.computed(Placing("session", "hash", engines))[0] for each in pieces)
    assert formula == pytest.approx(expected)


def tokens(prompt):
    """Every token of a prompt by all that stands before it."""
    before = ()
    for source, length in prompt:
        for place in range(length):
            yield (before, source, place)
        before = (*before, (source, length))


def test_an_answer_is_free_where_it_was_generated():
    """Turn two repeats the answer: with the session's key none of it is computed, elsewhere half the time all."""
    turns = [turn([(1, 10)], output_source=1, output=4), turn([(1, 20)])]
    pinned, scattered = (
        sum(each.computed(Placing("session", "hash", 2))[0] for each in pieces_of([Session(0, 0, turns)], [keys]))
        for keys in ([0, 0], [0, 1])
    )
    assert pinned == 10 + 6
    assert scattered == 10 * 1.5 + 4 * 0.5 + 6


def test_keys_that_are_dealt_have_a_range(tmp_path):
    """Siblings in a row reach as many engines as they are; among others they fall as by chance, and no better."""
    workload = SIBLINGS.format(n=4)
    found = arithmetic(cell(tmp_path, engines=4, workload=workload, policy="round_robin"))
    assert found.prefill_tokens == (pytest.approx(6 * 1600 * 4 * (1 - 0.75**4)), 6 * 1600 * 4)
    simulated = requests_of(cell(tmp_path, engines=4, workload=workload, policy="round_robin"))["prefill_tokens"].sum()
    assert found.prefill_tokens[0] <= simulated <= found.prefill_tokens[1]


def test_a_drain_by_hand(tmp_path):
    """Even shares on two engines at constant cost: the simulated makespan is a Lmax + b sum(L), and so is ours."""
    workload = (
        "{kind: rollout, groups: 8, samples_per_group: 1, prompt: {group_tokens: 1}, output_tokens: 50, max_tokens: 50}"
    )
    own = cell(tmp_path, workload=workload, policy="round_robin", scope="session")
    found = arithmetic(own)
    requests = requests_of(own)
    makespan = requests["ended_s"].max() - requests["submitted_s"].min()
    drain = found.drain
    assert (drain.a_s, drain.b_s, drain.longest) == (pytest.approx(0.010), pytest.approx(0.001), 50)
    assert drain.a_s * 50 + drain.b_s * 4 * 50 == pytest.approx(0.7)
    assert drain.seconds == pytest.approx(makespan, abs=0.06)  # but for the prompts, four tokens an engine


def test_what_has_no_closed_form(tmp_path):
    """Content, delays and caps: a ceiling is left, and no ratio."""
    workload = SIBLINGS.format(n=2)
    aware = arithmetic(cell(tmp_path, workload=workload, policy="sglang.cache_aware"))
    assert (aware.placing, aware.prefill_tokens, aware.drain, aware.fullest) == (None, None, None, None)
    assert aware.ideal_tokens == 6 * 1600
    keyed = arithmetic(cell(tmp_path, workload=workload))
    assert predicted({"a": keyed, "b": aware}, "a", "b") is None
    assert predicted({"a": keyed, "b": keyed}, "a", "b") == 1
    assert placing_of(cell(tmp_path, workload=workload, policy="random")).of == "request"
    assert placing_of(cell(tmp_path, workload=workload, policy="sticky_least_loaded")).law == "even"
    turns = workload.replace("output_tokens: 1,", "output_tokens: 1, turns: 2, observation_tokens: 1, tool_delay_s: 1,")
    assert arithmetic(cell(tmp_path, workload=turns)).drain is None
