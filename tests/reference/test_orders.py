"""Queue orders, held siblings and mixed chunks: the simulator's SGLang engine against the reference."""

import random
from dataclasses import replace

import pytest

import sim.engine._queue_order
import tests.reference.queue_order
from sim.engine.spec import resolve
from tests.reference.scenarios import random_scenario, refer, serve

ORDERS = ("fcfs", "lpm", "dfs-weight", "lof", "random", "routing-key")
QUICK = range(25)
MANY = range(25, 625)


def ordered_scenario(seed):
    """A scenario of the others, with an order, a visibility, mixed chunks and routing keys."""
    r = random.Random(f"orders/{seed}")
    scenario = random_scenario("sglang", seed)
    visibility = r.choice(["after_prefill", "deferred"])
    fields = {"queue_order": r.choice(ORDERS), "visibility": visibility, "enable_mixed_chunk": r.random() < 0.5}
    if visibility == "deferred":
        fields |= {"in_batch_check_tokens": r.choice([1, 16, 32]), "in_batch_defer_tokens": r.choice([8, 32])}
    spec = resolve(replace(scenario.spec, **fields))
    return replace(
        scenario, spec=spec, asked=tuple(replace(asked, key=r.choice(["", "a", "b", "c"])) for asked in scenario.asked)
    )


def disagreements(seeds, *, step_by_step=False):
    """Scenarios, by number, that the two serve differently."""
    scenarios = ((seed, ordered_scenario(seed)) for seed in seeds)
    return [seed for seed, scenario in scenarios if serve(scenario, step_by_step=step_by_step) != refer(scenario)]


@pytest.fixture(params=[128, 2], ids=["matched", "long queues"], autouse=True)
def most_matched(request, monkeypatch):
    """Where ``lpm`` stops matching; with two it often does."""
    monkeypatch.setattr(sim.engine._queue_order, "MOST_MATCHED", request.param)
    monkeypatch.setattr(tests.reference.queue_order, "MOST_MATCHED", request.param)


def test_a_few_orders():
    """Admissions, first tokens, ends, hits, prefilled and repeated tokens, preemptions, and the cache at the end."""
    assert disagreements(QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("step_by_step", [True, False], ids=["stepping", "jumping"])
def test_many_orders(step_by_step):
    """As above, hundreds of them, and for an engine that decides at every step."""
    assert disagreements(MANY, step_by_step=step_by_step) == []
