"""The charts of a sweep are made of its results."""

from pathlib import Path

import pytest

from sim.errors import ScenarioError
from sim.scenario import load_sweep
from sim.sweep import sweep, winner
from sim.sweep.charts import cell_table, curve_table, save_sweep_charts, winner_table

TWO = ["workload.prompt.group_tokens=4096,8192", "workload.samples_per_group=4,8"]
METRIC = "samples_per_s"


def swept(folder: Path, *vary: str):
    return sweep(load_sweep("slime_four_cells", ["replications.pairs=3"], vary), out=folder)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two fields of two values each."""
    return swept(tmp_path_factory.mktemp("two"), *TWO)


def test_two_fields_make_a_map_of_winners(two) -> None:
    """A tile a variant with its winner, lead, and whether it can be told."""
    table = winner_table(two, METRIC)
    assert table.select("x", "y").rows() == [(4096, 4), (4096, 8), (8192, 4), (8192, 8)]
    for row, result in zip(table.iter_rows(named=True), two.results.values(), strict=True):
        best = winner(result, METRIC)
        assert (row["winner"], row["ratio"], row["separable"]) == (best.arm, best.ratio_to_next, best.is_separable)
    assert curve_table(two, METRIC).is_empty()


def test_cells_hold_the_paired_ratios(two) -> None:
    """One row a variant and candidate, in the order of the file."""
    table = cell_table(two, METRIC)
    assert table["cell"].to_list() == list(two.results)
    ratios = [result.comparison("group", METRIC).paired.ratio for result in two.results.values()]
    assert table["ratio"].to_list() == ratios


def test_one_number_makes_curves_and_one_text_does_not(tmp_path) -> None:
    """Means of every arm over the field, in its order; names have no scale."""
    found = swept(tmp_path, "workload.samples_per_group=8,4")
    table = curve_table(found, METRIC)
    assert table.select("load", "arm").rows() == [(4.0, "sample"), (4.0, "group"), (8.0, "sample"), (8.0, "group")]
    assert winner_table(found, METRIC).is_empty()
    assert curve_table(swept(tmp_path, "workload.mode=live,replay"), METRIC).is_empty()


def test_files_of_two_fields(two, tmp_path) -> None:
    """Ratios and winners as PNG and HTML; a place that is no folder is one clear line."""
    names = {path.name for path in save_sweep_charts(two, METRIC, tmp_path, stem="sweep")}
    assert names == {f"sweep_{kind}.{form}" for kind in ("ratios", "winners", "frontier") for form in ("png", "html")}
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="cannot write charts in"):
        save_sweep_charts(two, METRIC, tmp_path / "file" / "charts", stem="sweep")
