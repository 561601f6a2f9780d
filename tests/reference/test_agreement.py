"""The simulator's engine against the reference: the same schedule, hits, evictions and times on random scenarios."""

import pytest

from tests.reference.scenarios import random_scenario, refer, serve

PRESETS = ("vllm", "sglang")
QUICK = range(60)
MANY = range(60, 2060)


def disagreements(preset, seeds, *, step_by_step=False):
    """Scenarios, by number, that the two serve differently."""
    scenarios = ((seed, random_scenario(preset, seed)) for seed in seeds)
    return [seed for seed, scenario in scenarios if serve(scenario, step_by_step=step_by_step) != refer(scenario)]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_few_scenarios(preset):
    """Admissions, first tokens, ends, hits, prefilled and repeated tokens, preemptions, and the cache at the end."""
    assert disagreements(preset, QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("step_by_step", [True, False], ids=["stepping", "jumping"])
@pytest.mark.parametrize("preset", PRESETS)
def test_many_scenarios(preset, step_by_step):
    """As above, hundreds of them for each scheduler, and for an engine that decides at every step."""
    assert disagreements(preset, MANY, step_by_step=step_by_step) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_the_scenarios_are_worth_comparing(preset):
    """They hit, preempt, recompute, wait, and begin exactly at the ends of steps."""
    calls = [call for seed in QUICK for call in refer(random_scenario(preset, seed))[0].values()]
    ends = {end for _, _, first, end, *_ in calls for end in (first, end)}
    assert len(calls) > 300
    assert sum(cached > 0 for *_, cached, _, _, _, _, _ in calls) > 100
    assert sum(preemptions > 0 for *_, preemptions, _, _ in calls) > 5
    assert sum(repeated > 0 for *_, repeated, _, _, _ in calls) > 5
    assert sum(decided > arrived for arrived, decided, *_ in calls) > 100
    assert sum(arrived in ends for arrived, *_ in calls) > 50
