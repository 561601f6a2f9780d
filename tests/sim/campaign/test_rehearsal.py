"""Campaigns without GPUs: worlds within the stated ranges are covered, others are told, with what is off."""

import pytest

from sim import campaign
from tests.sim.campaign.conftest import gathered

COST = "fleet.engine.cost"


@pytest.fixture(scope="module")
def overlapped(tmp_path_factory):
    """Asynchronous scheduling: siblings miss each other's prefix, so when it is seen matters."""
    root = tmp_path_factory.mktemp("overlap")
    ev = gathered(root / "r", "slime_group_affinity", "fleet.engine.overlap=true")
    choice = campaign.Choice(pairs=3, draws=12, extension=False)
    return ev, campaign.make({ev.scenario.name: ev}, root / "seal", choice)


def played(ev, seal, folder, world):
    campaign.rehearse(seal, {ev.scenario.name: ev.scenario}, folder, world)
    return campaign.score(seal, folder)


def test_worlds_within_the_ranges_are_covered(overlapped, tmp_path):
    """Of six worlds drawn from the register of assumptions, with the noise of runs, five or six; orders are right."""
    ev, seal = overlapped
    found = [played(ev, seal, tmp_path / str(i), campaign.drawn_world(ev, i)) for i in range(6)]
    assert sum(each.primary(ev.scenario.name).is_inside for each in found) >= 5
    assert all(each.orders[0] == each.orders[1] for each in found)
    assert sum(each.orders[1] for each in found) >= 6
    assert len({each.primary(ev.scenario.name).measured.ratio for each in found}) == 6


@pytest.mark.parametrize(
    ("settings", "names", "says"),
    [
        ({f"{COST}.slowdown": 3.0}, "steady rate over burst rate", "prefill a token of sample takes"),
        ({f"{COST}.host0_ms": 12.0}, "host time of a step", "a token decoded undisturbed"),
        ({"fleet.engine.visibility": "at_schedule"}, "fleet.engine.visibility", "sample: hit rate 5"),
    ],
)
def test_a_wrong_model_is_told_by_name(overlapped, tmp_path, settings, names, says):
    """Slow prefill, slow steps, prefixes seen too early: each is named first, with its evidence."""
    ev, seal = overlapped
    found = played(ev, seal, tmp_path, campaign.World(5, settings, 0.018))
    first = found.cells[0].recalibrate[0]
    assert names in first.what
    assert says in first.evidence


@pytest.mark.parametrize(("knob", "value"), [("slowdown", 3.0), ("host0_ms", 12.0)])
def test_the_value_that_explains_it_is_the_true_one(overlapped, tmp_path, knob, value):
    """Within 15 %, from stages of requests alone."""
    ev, seal = overlapped
    found = played(ev, seal, tmp_path, campaign.World(6, {f"{COST}.{knob}": value}))
    said = found.cells[0].recalibrate[0].evidence.split(" explains it")[0].rsplit(" ", 1)[1]
    assert float(said) == pytest.approx(value, rel=0.15)


def test_noisier_runs_are_told(overlapped, tmp_path):
    """Pairs that scatter more than runs were said to: of 25 % instead of 1.8 %, three pairs show half or more."""
    ev, seal = overlapped
    found = played(ev, seal, tmp_path, campaign.World(11, {}, 0.25))
    first = found.cells[0].recalibrate[0]
    assert first.what == "real_run_noise"
    assert float(first.evidence.split("about ")[1].split()[0]) > 0.125


def test_keys_that_are_hashed_otherwise_are_told(overlapped, tmp_path):
    """A router with another hash puts keys elsewhere: pairs fall into other classes than their traces say."""
    ev, seal = overlapped
    campaign.rehearse(seal, {ev.scenario.name: ev.scenario}, tmp_path, campaign.World(1))
    engines = {}
    for path in tmp_path.glob("*-group.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        for line in lines[1:]:
            engines.setdefault(line.split('"engine": "')[1][0], None)
        path.write_text(lines[0] + "".join(line.replace('"engine": "1"', '"engine": "0"') for line in lines[1:]))
    assert set(engines) == {"0", "1"}
    found = campaign.score(seal, tmp_path)
    again = {each.what: each.evidence for each in found.cells[0].recalibrate}
    assert "keys fell into another class than simulated" in again["placement of keys"]


def test_a_second_world_is_another_one(overlapped, tmp_path):
    """The seed moves noise, settings move times; the same world gives the same bytes."""
    ev, seal = overlapped
    cells = {ev.scenario.name: ev.scenario}
    texts = []
    worlds = (campaign.World(1, run_noise=0.02), campaign.World(1, run_noise=0.02), campaign.World(2, run_noise=0.02),
              campaign.World(1, {f"{COST}.slowdown": 2.0}, 0.02))  # fmt: skip
    for number, world in enumerate(worlds):
        campaign.rehearse(seal, cells, tmp_path / str(number), world)
        texts.append([path.read_bytes() for path in sorted((tmp_path / str(number)).iterdir())])
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert texts[0] != texts[3]
