"""One replication: what it draws anew, what arms share, and the hit rates that follow from arithmetic."""

import gc

import numpy as np
import pytest

from sim.engine.shell import Engine
from sim.log.record import Log
from sim.replication import Streams, build_schedulers, replicate
from tests.sim.spies import KeyedSpy, under
from tests.strategies import cell_of, world

DRAWN = {
    "groups": 6,
    "samples_per_group": 2,
    "turns": 2,
    "output_tokens": {"kind": "lognormal", "median": 30, "sigma": 0.5},
    "max_tokens": 100,
    "tool_delay_s": {"kind": "lognormal", "median": 0.1, "sigma": 1.0},
    "arrivals": {"kind": "poisson", "groups_per_s": 5.0},
}


def keys_seen(resolved, pair):
    spy = KeyedSpy()
    log = replicate(under(cell_of(resolved), spy), pair)
    return log, {request.headers["x-smg-routing-key"] for _, request in spy.asked}


def test_a_replication_redraws_what_nothing_fixes():
    """Lengths, arrivals, session keys and engine names differ from replication to replication."""
    (one, keys), (other, other_keys) = (keys_seen(world(engines=2, workload=DRAWN), pair) for pair in (0, 1))
    assert not keys & other_keys
    assert not set(one.engine_names) & set(other.engine_names)
    for column in ("output_tokens", "submitted"):
        assert one.numpy("requests")[column].tolist() != other.numpy("requests")[column].tolist()


def test_a_replication_leaves_nothing_behind():
    """Its engines are gone when it returns, without a pass over what was there before it."""

    def engines():
        return sum(isinstance(each, Engine) for each in gc.get_objects())

    gc.collect()
    before, passes = engines(), gc.get_stats()[2]["collections"]
    log = replicate(cell_of(world(engines=2, workload=DRAWN)), 0)
    assert len(log.requests) == 24
    assert engines() == before
    assert gc.get_stats()[2]["collections"] == passes


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_left_as_it_was(is_on):
    """On or off."""
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        replicate(cell_of(world(workload=DRAWN)), 0)
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()


def test_arms_see_the_same_world():
    """Another policy and another key scope shift no draw: same names, lengths and first submissions."""
    arms = [
        world(engines=2, workload=DRAWN, policy={"kind": "random"}),
        world(engines=2, workload=DRAWN, client={"key_scope": "group"}, policy={"kind": "smg.consistent_hashing"}),
    ]
    logs = [replicate(cell_of(arm), 3) for arm in arms]
    assert logs[0].engine_names == logs[1].engine_names
    firsts = []
    for log in logs:
        requests = log.numpy("requests")
        order = np.argsort(requests["request"])
        firsts.append(
            [
                requests["output_tokens"][order].tolist(),
                requests["submitted"][order][requests["turn"][order] == 0].tolist(),
            ]
        )
    assert firsts[0] == firsts[1]


def test_fewer_groups_are_the_first_ones():
    """Adding groups leaves the lengths of those that were there."""
    few, many = (replicate(cell_of(world(workload=DRAWN | {"groups": groups})), 0) for groups in (3, 6))
    lengths = []
    for log in (few, many):
        requests = log.numpy("requests")
        lengths.append(dict(zip(requests["request"].tolist(), requests["output_tokens"].tolist(), strict=True)))
    assert lengths[0].items() <= lengths[1].items()


def test_noise_is_drawn_by_engine():
    """Speeds differ between engines and replications; without noise all engines are equal."""

    def costs(sigma, pair):
        cell = cell_of(world(engines=3, noise={"engine_speed_sigma": sigma}))
        schedulers = build_schedulers(cell, Streams(cell.seed, pair), Log([]))
        for each in schedulers:
            each.cost.cover(1)
        return [each.cost.base[1] for each in schedulers]

    assert len(set(costs(0.0, 0))) == 1
    assert len(set(costs(0.1, 0) + costs(0.1, 1))) == 6
    assert costs(0.1, 0) == costs(0.1, 0)


@pytest.mark.parametrize("turns", [2, 5, 10, 29])
@pytest.mark.parametrize("preset", ["vllm", "sglang"])
def test_hits_of_a_growing_context(preset, turns):
    """System 2000, user 500, output 300: hit = 1 - (S + T u + (T-1) o) / sum(S + t u + (t-1) o), in whole blocks."""
    S, u, o, block = 2000, 500, 300, 16 if preset == "vllm" else 1
    workload = {
        "prompt": {"group_tokens": S + u},
        "turns": turns,
        "observation_tokens": u,
        "output_tokens": o,
        "max_tokens": o,
        "mode": "replay",
    }
    cell = cell_of(world(engine={"preset": preset, "kv_tokens": 10**6}, workload=workload))
    requests = replicate(cell, 0).numpy("requests")
    hit = requests["cached_tokens"].sum() / requests["prompt_tokens"].sum()
    prompts = [S + t * u + (t - 1) * o for t in range(1, turns + 1)]
    assert requests["prompt_tokens"].tolist() == prompts
    assert hit == pytest.approx(sum(p // block * block for p in prompts[:-1]) / sum(prompts), abs=1e-12)
    if preset == "sglang":
        assert hit == pytest.approx(1 - (S + turns * u + (turns - 1) * o) / sum(prompts), abs=1e-12)
        assert hit == pytest.approx({2: 0.431, 5: 0.722, 10: 0.841, 29: 0.937}[turns], abs=5e-4)


def test_live_turns_hit_the_output_but_its_last_token():
    """Where prompt and output come back, only the last generated token and what was added are computed."""
    workload = {"prompt": {"group_tokens": 100}, "turns": 4, "observation_tokens": 20, "output_tokens": 30}
    cell = cell_of(world(engine={"preset": "sglang"}, workload=workload | {"max_tokens": 30}))
    assert replicate(cell, 0).numpy("requests")["prefill_tokens"].tolist() == [100, 21, 21, 21]


@pytest.mark.parametrize("siblings", [4, 16])
def test_prefix_work_is_a_copy_for_each_engine_touched(siblings):
    """A group's prompt is computed once on each engine that its samples reach: 1 - 1/d is saved by one key a group."""
    prompt, rest, engines = 321, 1, 4  # 20 whole blocks of 16; the last token is computed by each sample
    workload = {"groups": 50, "samples_per_group": siblings, "prompt": {"group_tokens": prompt}}
    copies = {}
    for scope in ("session", "group"):
        cell = cell_of(
            world(
                engines=engines,
                engine={"max_num_batched_tokens": 10**6, "kv_tokens": 10**6},
                workload=workload,
                client={"key_scope": scope},
                policy={"kind": "sglang.consistent_hashing"},
            )
        )
        requests = replicate(cell, 0).numpy("requests")
        touched = len(set(zip(requests["group"].tolist(), requests["engine"].tolist(), strict=True)))
        samples = 50 * siblings
        assert requests["prefill_tokens"].sum() == prompt * touched + rest * (samples - touched)
        copies[scope] = touched
    assert copies["group"] == 50
    # Engines touched by n samples: N (1 - (1 - 1/N)^n) = 2.734 of 4 at n = 4, 3.96 at 16; its standard error is < 0.1.
    assert copies["session"] / 50 == pytest.approx(engines * (1 - (1 - 1 / engines) ** siblings), abs=0.35)


def uncertain(uncertainty, policy="round_robin"):
    engine = {"kv_tokens": None, "cost": {"kind": "form_d", "uncertainty": uncertainty}}
    return cell_of(world(engines=2, engine=engine, workload=DRAWN, policy={"kind": policy}))


def test_the_cost_is_drawn_by_replication():
    """Within its stated error the cost of a step moves from pair to pair, and with it the times."""
    certain, drawn = ([replicate(uncertain(each), pair) for pair in (0, 1)] for each in ("none", "stated"))
    assert certain[0].costs[0].seq == certain[1].costs[0].seq
    assert len({log.costs[0].seq for log in (certain[0], *drawn)}) == 3
    assert drawn[0].engines != certain[0].engines


def test_arms_of_a_pair_share_the_draw_of_the_cost():
    """Arms, and the engines of each, run on the same hardware."""
    logs = [replicate(uncertain("stated", policy), 3) for policy in ("round_robin", "random")]
    assert len({(cost.t0, cost.seq, cost.pair) for log in logs for cost in log.costs}) == 1
