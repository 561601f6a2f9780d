"""One small sealed campaign, and copies of it to break."""

import shutil
from pathlib import Path

import pytest

from sim import campaign, review
from sim.report.contrast import Lines
from sim.scenario import load_scenario

PAIRS = 3


def gathered(out: Path, name: str | Path = "slime_group_affinity", *sets: str, pairs: int = 6) -> review.Evidence:
    scenario, _, candidate = review.choose(load_scenario(name, sets).select(pairs=pairs), None, None)
    return review.gather(scenario, candidate, Lines(), out=out)


@pytest.fixture(scope="session")
def evidence(tmp_path_factory) -> review.Evidence:
    return gathered(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def cells(evidence):
    return {evidence.scenario.name: evidence.scenario}


@pytest.fixture(scope="session")
def made(evidence, tmp_path_factory) -> campaign.Seal:
    choice = campaign.Choice(pairs=PAIRS, draws=8)
    return campaign.make({evidence.scenario.name: evidence}, tmp_path_factory.mktemp("seal") / "seal", choice)


@pytest.fixture(scope="session")
def measured(made, cells, tmp_path_factory) -> Path:
    """Results of a world that is the scenario's own, with the noise of real runs."""
    folder = tmp_path_factory.mktemp("measured")
    campaign.rehearse(made, cells, folder, campaign.World(3, run_noise=0.018))
    return folder


@pytest.fixture
def seal(made, tmp_path) -> campaign.Seal:
    """A copy of the seal."""
    shutil.copytree(made.folder, tmp_path / "seal")
    return campaign.verify(tmp_path / "seal")


@pytest.fixture
def results(measured, tmp_path) -> Path:
    """A copy of the results."""
    return Path(shutil.copytree(measured, tmp_path / "measured"))
