"""What the generators draw for the presets is what the presets state, over 10,000 draws before caps and clips."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from policies._content import count
from sim.rng import Streams
from sim.scenario import load_scenario
from sim.scenario._presets import names
from sim.workload._lengths import Constant, Lognormal, values
from sim.workload.agents import Agents

DRAWS = 10_000
Z99 = 2.3263478740408408
MOST = 10**9
ROLLOUTS = ("deep-research", "math-grpo", "search-agent", "swe-agent")


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """The workload of each preset."""
    found = {}
    for name in names():
        path = tmp_path_factory.mktemp("presets") / "scenario.yaml"
        path.write_text(
            "name: p\n"
            "fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 1000, cost: {kind: constant, step_ms: 1}}}\n"
            f"workload: {{preset: {name}}}\nrouter: {{policy: {{kind: round_robin}}}}\n"
        )
        found[name] = next(iter(load_scenario(path).arms.values())).workload
    return found


def free(law):
    """A law before its caps and clips."""
    return dataclasses.replace(law, cap=None, floor=None) if isinstance(law, Lognormal) else law


def lognormals(value, place=""):
    """Every lognormal among the fields of a workload."""
    if isinstance(value, Lognormal):
        yield place, value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from lognormals(getattr(value, field.name), f"{place}/{field.name}")


def holds_stated(drawn, law, is_whole=True):
    """Shares below the stated median and p99 in the 99.9 % binomial intervals of 0.5 and 0.99.

    A rounded draw is below a bound where the drawn one is below the half that rounds to it: the share is taken there.
    """
    for z, share in ((0.0, 0.5), (Z99, 0.99)):
        bound = law.median * math.exp(law.sigma * z)
        if is_whole:
            edge = math.ceil(bound) - 0.5
            share = stats.norm.cdf(math.log(edge / law.median) / law.sigma)
        low, high = stats.binom.interval(0.999, len(drawn), share)
        assert low <= (drawn < bound).sum() <= high, (law, share)


@pytest.mark.parametrize("name", names())
def test_median_and_p99_are_those_stated(specs, name):
    """Of each lognormal of each preset, as drawn: inside the intervals of 0.5 and 0.99 themselves."""
    found = list(lognormals(specs[name]))
    assert len(found) >= 2
    for place, law in found:
        holds_stated(values(free(law), Streams(11).column(f"{name}{place}"), DRAWS), law, is_whole=False)


@pytest.mark.parametrize("name", ROLLOUTS)
def test_generated_rollouts_have_the_stated_laws(specs, name):
    """Through the generator: task, answer, observation and tool time of 10,000 samples of two turns."""
    spec = dataclasses.replace(
        specs[name],
        groups=DRAWS,
        samples_per_group=1,
        turns=2,
        max_tokens=MOST,
        context_limit_tokens=None,
        turns_variance_share_between_groups=None,
        tool_delay_s=free(specs[name].tool_delay_s),
    )
    workload = spec.generate(Streams(5), Path())
    pairs = [workload.session(index).turns for index in range(DRAWS)]
    first = np.array([count(one.prompt) for one, _ in pairs])
    second = np.array([count(two.prompt) for _, two in pairs])
    answers = np.array([one.output_tokens for one, _ in pairs])
    holds_stated(first - spec.prompt.system_tokens, spec.prompt.group_tokens)
    holds_stated(answers, spec.output_tokens)
    if isinstance(spec.observation_tokens, Lognormal):
        holds_stated(second - first - answers, spec.observation_tokens)
        holds_stated(np.array([two.delay_s for _, two in pairs]), spec.tool_delay_s, is_whole=False)


@pytest.mark.parametrize("name", ["deep-research", "swe-agent"])
def test_generated_turns_have_the_stated_law(specs, name):
    """10,000 samples, their numbers of turns before clips and context limit."""
    law = free(specs[name].turns)
    spec = dataclasses.replace(
        specs[name],
        groups=DRAWS,
        samples_per_group=1,
        turns=law,
        context_limit_tokens=None,
        output_tokens=Constant("constant", 1),
        observation_tokens=0,
        tool_delay_s=0.0,
        variance_share_between_groups=None,
    )
    workload = spec.generate(Streams(7), Path())
    starts = np.append(workload.first_requests(), workload.summary()["requests"])
    holds_stated(np.diff(starts), law)


def test_generated_chats_have_the_stated_laws(specs):
    """Turns and calls geometric of their means, lengths and gaps lognormal, through the generator."""
    preset = specs["tool-chat-serving"]
    assert isinstance(preset, Agents)
    spec = dataclasses.replace(
        preset, sessions=DRAWS, turns=2, calls_per_turn=2, max_tokens=MOST, context_limit_tokens=None
    )
    workload = spec.generate(Streams(5), Path())
    calls = [workload.session(index).turns for index in range(DRAWS)]
    prompts = np.array([[count(call.prompt) for call in each] for each in calls])
    answers = np.array([[call.output_tokens for call in each] for each in calls])
    gaps = np.array([[call.delay_s for call in each] for each in calls])
    added = np.diff(prompts, axis=1) - answers[:, :-1]
    holds_stated(prompts[:, 0] - 2000, spec.prompt.task_tokens)
    holds_stated(answers[:, 0], spec.output_tokens)
    for after in range(3):
        holds_stated(added[:, after], spec.observation_tokens)
    holds_stated(gaps[:, 1], spec.tool_delay_s, is_whole=False)
    holds_stated(gaps[:, 2], spec.human_delay_s, is_whole=False)
    for law in (preset.turns, preset.calls_per_turn):
        drawn = values(law, Streams(3).column(f"{law.mean}"), DRAWS)
        for turns in (1, 2, 3):
            low, high = stats.binom.interval(0.999, DRAWS, (1 / law.mean) * (1 - 1 / law.mean) ** (turns - 1))
            assert low <= (drawn == turns).sum() <= high


@pytest.mark.parametrize(("name", "share"), [("math-grpo", 0.6), ("swe-agent", 0.5), ("deep-research", 0.6)])
def test_log_lengths_of_siblings_correlate_with_the_stated_share(specs, name, share):
    """5,000 pairs, before the cap: inside the 99.9 % interval of the correlation by Fisher's z."""
    spec = dataclasses.replace(
        specs[name],
        groups=5000,
        samples_per_group=2,
        turns=1,
        max_tokens=MOST,
        turns_variance_share_between_groups=None,
    )
    workload = spec.generate(Streams(9), Path())
    log = np.log([workload.session(index).turns[0].output_tokens for index in range(10_000)]).reshape(-1, 2)
    assert abs(math.atanh(np.corrcoef(log.T)[0, 1]) - math.atanh(share)) < 3.29 / math.sqrt(5000 - 3)


@pytest.mark.parametrize("name", names())
def test_new_tokens_of_a_session_sum_to_its_growth(specs, name):
    """Last context less first prompt is the sum of answers and of what was added, with every preset as it is."""
    size = "sessions" if name == "tool-chat-serving" else "groups"
    workload = dataclasses.replace(specs[name], **{size: 8}).generate(Streams(2), Path())
    for index in range(workload.sessions):
        turns = workload.session(index).turns
        sizes = [count(turn.prompt) for turn in turns]
        added = [b - a - turn.output_tokens for a, b, turn in zip(sizes, sizes[1:], turns, strict=False)]
        assert all(each >= 0 for each in added)
        assert sizes[-1] - sizes[0] == sum(added) + sum(turn.output_tokens for turn in turns[:-1])


def test_coding_contexts_look_like_the_recorded_ones(specs):
    """swe-agent against the card of codex on SWE-bench Pro: calls a session, first and last prompts, within a third."""
    workload = dataclasses.replace(specs["swe-agent"], groups=200).generate(Streams(1), Path())
    prompts = [[count(turn.prompt) for turn in workload.session(i).turns] for i in range(workload.sessions)]
    assert np.median([len(each) for each in prompts]) == pytest.approx(30, rel=0.34)
    assert np.median([each[0] for each in prompts]) == pytest.approx(12_278, rel=0.34)
    assert np.median([each[-1] for each in prompts]) == pytest.approx(80_488, rel=0.34)
