"""The simulator's engine against the reference where somebody aborts, flushes, pauses, changes weights or fails it."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.reference.scenarios import random_orders, random_scenario, refer, serve

PRESETS = ("vllm", "sglang")
QUICK = range(120)
MANY = range(120, 1620)


def disturbed_scenario(preset, seed):
    """A scenario of the others, and what is done to its engine."""
    scenario = random_scenario(preset, seed)
    return replace(scenario, orders=random_orders(random.Random(f"interventions/{preset}/{seed}"), scenario))


def disagreements(preset, seeds, *, step_by_step=False):
    """Scenarios, by number, that the two serve differently."""
    scenarios = ((seed, disturbed_scenario(preset, seed)) for seed in seeds)
    return [seed for seed, scenario in scenarios if serve(scenario, step_by_step=step_by_step) != refer(scenario)]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_few_interventions(preset):
    """Marks, tokens generated and status of every request, busy and down time, and the cache at the end."""
    assert disagreements(preset, QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("step_by_step", [True, False], ids=["stepping", "jumping"])
@pytest.mark.parametrize("preset", PRESETS)
def test_many_interventions(preset, step_by_step):
    """As above, hundreds of them for each scheduler, and for an engine that decides at every step."""
    assert disagreements(preset, MANY, step_by_step=step_by_step) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_the_interventions_are_worth_comparing(preset):
    """They abort who waits, prefills and decodes, lose engines with work, and take place at ends of steps."""
    statuses, generated, down = Counter(), Counter(), 0
    for seed in QUICK:
        marks, _, account = refer(disturbed_scenario(preset, seed))
        down += account[1]
        for *_, tokens, status in marks.values():
            statuses[status] += 1
            generated[status, min(tokens, 2)] += 1
    assert statuses["finished"] > 200
    assert statuses["failed"] > 30
    assert statuses["aborted"] > 30
    assert min(generated[status, tokens] for status in ("failed", "aborted") for tokens in (0, 1, 2)) > 0
    assert down > 500
