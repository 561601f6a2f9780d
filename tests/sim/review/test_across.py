"""Cells of one question side by side: corrected for their number, weighed equally, one rule over all."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from sim import load_scenario, review
from sim.cli import main
from sim.errors import ScenarioError
from sim.report.contrast import Lines
from sim.review._across import Across, Place, p_of
from sim.stats import compare
from sim.stats.strata import pooled

BASE = np.full(12, 10.0)


def place(name: str, logs: np.ndarray, p_holm: float = 0.0) -> Place:
    paired = compare(BASE, BASE * np.exp(logs), "higher")
    turned = None if paired.lo is None else (paired.ratio, paired.lo, paired.hi)
    return Place(name, paired, turned, p_holm, p_holm, "RUN", 1.0)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Four and six groups on two engines, five pairs each."""
    out = tmp_path_factory.mktemp("results")
    found = []
    for groups in (4, 6):
        scenario = load_scenario("slime_group_affinity", [f"workload.groups={groups}"]).select(pairs=5)
        chosen, _, candidate = review.choose(scenario, None, None)
        found.append((f"groups={groups}", review.gather(chosen, candidate, Lines(), out=out)))
    return found


def test_p_is_students(cells) -> None:
    """From the ratio and its interval comes the p of the t test on the logs."""
    for _, each in cells:
        found = each.primary.paired
        wanted = scipy_stats.ttest_1samp(each.primary.logs, 0).pvalue
        assert p_of((found.ratio, found.lo, found.hi), found.pairs) == pytest.approx(wanted, rel=1e-9)


def test_nothing_is_claimed_without_an_interval() -> None:
    """No interval, one pair: p is 1. Pairs that are equal and not 1 leave no doubt."""
    assert p_of(None, 10) == 1.0
    assert p_of((1.2, 1.1, 1.3), 1) == 1.0
    assert p_of((1.0, 1.0, 1.0), 5) == 1.0
    assert p_of((1.2, 1.2, 1.2), 5) == 0.0


def test_cells_stand_side_by_side(cells) -> None:
    """A row a cell in their order and one for all; Holm's p is no less than a cell's own; all is the pooled ratio."""
    found = review.across(cells)
    assert [row[0] for row in found.table.rows] == ["groups=4", "groups=6", "all, equally"]
    assert all(each.p <= each.p_holm <= 2 * each.p for each in found.places)
    assert max(each.p_holm for each in found.places) == max(each.p for each in found.places)
    assert found.whole == pooled([each.primary.logs for _, each in cells])
    assert {len(row) for row in found.table.rows} == {len(found.table.head)}


def test_lower_is_better_is_turned(cells) -> None:
    """With a metric whose lower values are better, the same cells are better where their ratio is below 1."""
    flipped = []
    for name, each in cells:
        worse = next(one for one in each.found.findings if one.metric == "group_completion_p95_s")
        rest = [one for one in each.found.findings if one is not worse]
        flipped.append((name, replace(each, found=replace(each.found, findings=[worse, *rest]))))
    found = review.across(flipped)
    assert "old over new" in found.table.title
    for one, (_, each) in zip(found.places, flipped, strict=True):
        assert one.oriented[0] == pytest.approx(1 / each.primary.paired.ratio)
    assert found.whole.ratio == pytest.approx(1 / pooled([each.primary.logs for _, each in flipped]).ratio)


def test_a_default_asks_for_every_cell() -> None:
    """One cell whose interval reaches 1 is enough to withhold it, and is named; a worse one is counted."""
    rng = np.random.default_rng(1)
    good, bad = 0.2 + 0.02 * rng.standard_normal(12), -0.2 + 0.02 * rng.standard_normal(12)
    open_logs = 0.3 * rng.standard_normal(12)
    both = Across("samples_per_s", "group", [place("a", good), place("b", good)], pooled([good, good]))
    assert both.holds_everywhere
    assert both.says.endswith("which is what a default asks for")
    some = replace(both, places=[place("a", good), place("b", open_logs, 0.5), place("c", bad)])
    assert not some.holds_everywhere
    assert "better in 1 of 3 cells and worse in 1" in some.says
    assert some.says.endswith("not above 1 in b, c: no default")


def test_a_cell_that_holm_does_not_grant_is_not_separable() -> None:
    """Its own interval leaves out 1; beside others that is not enough."""
    logs = 0.2 + 0.02 * np.random.default_rng(1).standard_normal(12)
    assert place("a", logs, 0.04).says == "better"
    assert place("a", logs, 0.06).says == "not separable"


def test_cells_of_different_questions_are_refused(cells) -> None:
    """Another candidate, metric or baseline is another question."""
    (_, one), (_, other) = cells
    with pytest.raises(ScenarioError, match="cells of one question"):
        review.across([("a", one), ("b", replace(other, candidate="sample"))])


def test_the_command_reviews_each_cell(tmp_path: Path, monkeypatch, capsys) -> None:
    """--vary: a review in a folder of each cell, with a command that makes it alone, and the cells side by side."""
    monkeypatch.chdir(tmp_path)
    words = ["review", "slime_group_affinity", "--pairs", "2", "--sensitivity-pairs", "0", "--jobs", "1", "-o", "made"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--vary", "workload.groups=4,6"])
    assert not end.value.code
    said = capsys.readouterr().out
    assert "no default" in said or "which is what a default asks for" in said
    for groups in (4, 6):
        assert f"--set workload.groups={groups}" in (tmp_path / f"made/groups={groups}/review.md").read_text()
    cells = (tmp_path / "made/cells.md").read_text()
    assert [line.split(" | ")[0] for line in cells.splitlines()[-3:]] == ["| groups=4", "| groups=6", "| all, equally"]


def test_cells_that_cannot_be_written_are_one_line(cells, tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(ScenarioError, match="cannot write cells in"):
        review.write_across(review.across(cells), "slime", tmp_path / "taken")
