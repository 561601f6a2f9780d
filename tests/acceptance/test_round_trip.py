"""Fifty campaigns each: sealed, played by the simulator under other costs and noise, and scored.

What must come out: nineteen intervals in twenty hold the result when the world is one of those taken into account; the
order of arms is right where it can be told; equal arms are adopted as rarely as their luck allows.
"""

import numpy as np
import pytest
from scipy import stats as theory

from sim import campaign, review
from sim.report.contrast import Lines
from sim.report.rule import Rule, alone, decide
from sim.scenario import load_scenario

pytestmark = pytest.mark.slow
REPETITIONS = 50
RARE = 0.001


def gathered(root, name, *sets, seed, pairs=8, arms=(None, None)):
    scenario, _, candidate = review.choose(load_scenario(name, sets).select(pairs=pairs, seed=seed), *arms)
    return review.gather(scenario, candidate, Lines(), out=root)


@pytest.mark.parametrize(
    ("name", "sets", "arms"),
    [
        ("slime_group_affinity", (), (None, None)),
        ("slime_group_affinity", ("workload.groups=8", "fleet.engine.overlap=true"), (None, None)),
        (
            "slime_multi_turn",
            ("fleet.engines=2", "workload.groups=4", "workload.samples_per_group=4", "workload.turns=6"),
            ("round_robin", "cache_aware"),
        ),
    ],
)
def test_intervals_cover_and_orders_are_right(tmp_path, name, sets, arms):
    """Five seals, ten worlds each, drawn from the ranges of the register: inputs, names, ties, noise.

    The count of intervals that hold the primary ratio lies in its binomial band; errors are as large as was said.
    """
    inside, orders, scaled = 0, [0, 0], []
    for seed in range(1, 6):
        ev = gathered(tmp_path / "r", name, *sets, seed=seed, arms=arms)
        folder = tmp_path / f"seal-{seed}"
        seal = campaign.make({"cell": ev}, folder, campaign.Choice(pairs=6, extension=False))
        for world in range(REPETITIONS // 5):
            into = tmp_path / f"{seed}-{world}"
            campaign.rehearse(seal, {"cell": ev.scenario}, into, campaign.drawn_world(ev, 1000 * seed + world))
            found = campaign.score(seal, into)
            held = found.primary("cell")
            inside += held.is_inside
            orders = [a + b for a, b in zip(orders, found.orders, strict=True)]
            middle, lo, hi = np.log(held.predicted)
            scaled.append((np.log(held.measured.ratio) - middle) / ((hi - lo) / 2 / theory.t.ppf(0.975, 47)))
    low, high = theory.binom.ppf([RARE, 1 - RARE], REPETITIONS, 0.95)
    assert low <= inside <= high, inside
    assert orders[0] == orders[1] > REPETITIONS
    spread = float(np.std(scaled))
    assert 0.65 < spread < 1.4, spread
    assert abs(float(np.mean(scaled))) < 0.6


def test_equal_arms_are_adopted_by_luck_alone(tmp_path):
    """Arms that differ in the salt of their keys are equal in law, and four keys on two engines fall by luck.

    Fifty campaigns of their own seeds: ADOPT and RECOMMEND come as often as a t test of as noisy pairs lets through.
    """
    other = "arms.other={client: {key_scope: group, key_salt: again}}"
    logs, words = [], []
    for seed in range(REPETITIONS):
        ev = gathered(tmp_path / "r", "slime_group_affinity", other, seed=seed, pairs=6, arms=("group", "other"))
        seal = campaign.make({"cell": ev}, tmp_path / f"s{seed}", campaign.Choice(pairs=6, draws=2, extension=False))
        campaign.rehearse(seal, {"cell": ev.scenario}, tmp_path / f"m{seed}", campaign.World(seed, run_noise=0.018))
        found = campaign.score(seal, tmp_path / f"m{seed}")
        words.append(found.ruling.word)
        logs += [np.log(measured) for _, _, measured in found.cells[0].by_pair]
    spread = float(np.std(logs))
    rule = Rule("samples_per_s", ("cell",), 6, looks=(0.05,), tail=None)
    draw = np.random.Generator(np.random.PCG64(3))
    lucky = [
        decide(rule, 0, {"cell": alone(spread * draw.standard_normal(6))}, {}, []).word in ("ADOPT", "RECOMMEND")
        for _ in range(4000)
    ]
    most = theory.binom.ppf(1 - RARE, REPETITIONS, np.mean(lucky))
    assert sum(word in ("ADOPT", "RECOMMEND") for word in words) <= most
    assert abs(float(np.mean(logs))) < 3.3 * spread / len(logs) ** 0.5
    assert words.count("INCONCLUSIVE") > REPETITIONS / 2


def test_a_wrong_cost_model_is_told_every_time(tmp_path):
    """Prefill twice and a half as slow as on any known GPU: all fifty campaigns say so, and name the slowdown first."""
    ev = gathered(tmp_path / "r", "slime_group_affinity", seed=1)
    seal = campaign.make({"cell": ev}, tmp_path / "seal", campaign.Choice(pairs=6, extension=False))
    for world in range(REPETITIONS):
        into = tmp_path / str(world)
        settings = {"fleet.engine.cost.slowdown": 3.2}
        campaign.rehearse(seal, {"cell": ev.scenario}, into, campaign.World(world, settings, 0.018))
        first = campaign.score(seal, into).cells[0].recalibrate[0]
        assert "steady rate over burst rate" in first.what, world
