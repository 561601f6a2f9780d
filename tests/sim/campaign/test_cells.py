"""A campaign of several cells: the variants of a sweep, weighed alike, told apart, corrected for their number."""

import numpy as np
import pytest

from sim import campaign, review
from sim.cli._main import run_command
from sim.errors import ScenarioError
from sim.report.contrast import Lines
from sim.scenario import load_sweep, locate

SWEEP = """
sweep: {cells: {few groups: {workload.groups: 4}, "8 groups": {workload.groups: 8}}}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "s.yaml"
    path.write_text(locate("slime_group_affinity").read_text("utf-8") + SWEEP, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def two(file, tmp_path_factory):
    """Evidence of both cells, and their seal."""
    root = tmp_path_factory.mktemp("two")
    cells = {}
    for variant in load_sweep(file).variants:
        chosen, _, other = review.choose(variant.scenario.select(pairs=4), None, None)
        cells[variant.name] = review.gather(chosen, other, Lines(), out=root / "r")
    return cells, campaign.make(cells, root / "seal", campaign.Choice(pairs=3, draws=2, extension=False))


def test_both_cells_are_sealed_and_scored(two, tmp_path):
    """Each with its traces and prediction; over cells the ratio is their geometric mean, p values are Holm's."""
    cells, seal = two
    assert seal.rule.cells == ("few groups", "8 groups")
    assert [seal.prediction["cells"][name]["folder"] for name in cells] == ["cells/few-groups", "cells/8-groups"]
    assert len(seal.runs) == 2 * 2 * 3
    campaign.rehearse(seal, {name: ev.scenario for name, ev in cells.items()}, tmp_path, campaign.World(3))
    found = campaign.score(seal, tmp_path)
    assert [each.cell for each in found.cells] == list(cells)
    each = found.ruling.cells
    assert found.ruling.all_cells.ratio == pytest.approx(np.sqrt(each["few groups"].ratio * each["8 groups"].ratio))
    p = sorted(cell.p for cell in each.values())
    assert sorted(found.ruling.holm_p.values()) == pytest.approx(sorted([2 * p[0], max(2 * p[0], p[1])]))
    ids = [table.id for table in campaign.part(found).tables]
    assert len(ids) == len(set(ids))
    assert {"17.2.1", "17.2.2", "17.3.1", "17.3.2"} <= set(ids)
    assert "17.2.2: Prediction and result, 8 groups" in campaign.write_score(found, tmp_path)[1].read_text()
    for path in tmp_path.glob("8-groups-*"):
        path.unlink()
    with pytest.raises(ScenarioError, match="no results of cell 8 groups, pair 0"):
        campaign.score(seal, tmp_path)


def test_results_of_another_cell_are_refused(two, tmp_path):
    """Relabelled: their trace is not that cell's."""
    cells, seal = two
    campaign.rehearse(seal, {name: ev.scenario for name, ev in cells.items()}, tmp_path, campaign.World(3))
    path = tmp_path / "8-groups-0-group.jsonl"
    path.write_text(path.read_text().replace("8 groups", "few groups", 1))
    (tmp_path / "few-groups-0-group.jsonl").unlink()
    with pytest.raises(ScenarioError, match="8-groups-0-group.jsonl: was run on another trace"):
        campaign.score(seal, tmp_path)


def test_names_that_fall_on_one_folder_are_refused(two, tmp_path):
    """Before anything is written."""
    ev = next(iter(two[0].values()))
    with pytest.raises(ScenarioError, match="must differ in more than punctuation"):
        campaign.make({"a b": ev, "a-b": ev}, tmp_path / "x", campaign.Choice(pairs=2, draws=2))


def test_variants_by_command(file, tmp_path, capsys):
    """One review a cell beside the seal."""
    command = ["seal", str(file), "--variants", "--pairs", "3", "--real-pairs", "2", "--no-extension", "--draws", "2",
               "-o", str(tmp_path / "seal"), "--out", str(tmp_path / "r")]  # fmt: skip
    assert run_command(command) == 0
    digest = capsys.readouterr().out.split()[0]
    assert campaign.verify(tmp_path / "seal", digest).rule.cells == ("few groups", "8 groups")
    assert {path.name for path in (tmp_path / "seal").glob("*review.html")} == {
        "few-groups-review.html",
        "8-groups-review.html",
    }
    assert run_command(["seal", "slime_group_affinity", "--variants"]) == 1
    assert "has no sweep block" in capsys.readouterr().err
