"""The chart of paired ratios is drawn, opens offline, and shows every pair."""

import errno
import re
from pathlib import Path

import polars as pl
import pytest

from sim import charts
from sim.charts._style import OUTSIDE
from sim.errors import ScenarioError
from sim.report import save_charts
from sim.report.pictures import ratio_means, ratio_points
from tests.sim.results import arm, result, two_arms
from tests.sim.web import loads_nothing


def test_files_are_drawn_and_load_nothing(tmp_path: Path) -> None:
    """A PNG, and an HTML that holds its scripts; the candidate is named once, above."""
    png, html = save_charts(two_arms(), tmp_path / "new")
    assert png.read_bytes().startswith(b"\x89PNG")
    own = loads_nothing(html.read_text("utf-8"))
    assert own.charts == ["paired_ratios"]
    assert re.match(r".*: group over sample, pair by pair", own.described[0])


def test_a_dot_for_every_pair_that_has_a_ratio() -> None:
    """Eight pairs of four metrics; preemptions are zero and have none."""
    found = two_arms()
    points = ratio_points(found)
    assert points.group_by("title").len()["len"].to_list() == [8, 8, 8, 8]
    assert points["class"].null_count() == 0
    assert ratio_means(found).height == 4


def test_arms_with_and_without_classes_share_a_legend() -> None:
    """Dots of an arm without classes are named so."""
    found = result(two_arms().arms["sample"], two_arms().arms["group"], arm("other", 1.1))
    chart = charts.paired_ratios(ratio_points(found), ratio_means(found), "title").to_dict()
    dots = [panel["layer"][1]["encoding"]["color"] for panel in chart["vconcat"]]
    assert {str(each["scale"]["domain"]) for each in dots} == {str(["2:2", "3:1", charts.NO_CLASS])}


def test_pairs_outside_the_calibrated_region_are_grey() -> None:
    """By a column of their own, in dots and means alike; without one nothing is, and the legend says nothing of it."""
    points, means = ratio_points(two_arms()), ratio_means(two_arms())
    marked = charts.paired_ratios(points.with_columns(outside=pl.col("pair") < 2), means, "t").to_dict()
    rows = [row for rows in marked["datasets"].values() for row in rows if "jitter" in row]
    assert {row["pair"] for row in rows if row["outside"]} == {0, 1}
    for mark in (1, 2, 3):
        colour = marked["vconcat"][0]["layer"][mark]["encoding"]["color"]
        assert colour["condition"] == {"test": "datum.outside", "value": OUTSIDE}
    assert "grey" in marked["title"]["subtitle"]
    assert "grey" not in charts.paired_ratios(points, means, "t").to_dict()["title"]["subtitle"]


def test_nothing_to_draw(tmp_path: Path) -> None:
    """One arm alone has no ratios, and no chart."""
    assert save_charts(result(arm("alone", 1)), tmp_path) == []


def test_three_arms_have_a_frontier(tmp_path: Path) -> None:
    """Hits against balance, its data those of the table; none of two arms, none where nothing is hit."""
    found = result(arm("a", 0.5), arm("bb", 0.7), arm("ccc", 0.6))
    names = [path.name for path in save_charts(found, tmp_path, is_variant=True)]
    assert [name.split("-")[0] for name in names] == ["paired_ratios"] * 2 + ["frontier"] * 2
    cold = arm("ccc", 0.6).values.with_columns(prefix_hit_rate=pl.lit(0.0))
    none = result(*(arm(name, 0.5, values=cold) for name in ("a", "bb", "ccc")))
    assert len(save_charts(none, tmp_path / "none")) == 2


def test_one_pair_is_drawn_without_an_interval(tmp_path: Path) -> None:
    """No interval, still a picture."""
    assert len(save_charts(result(arm("a", 1, pairs=1), arm("b", 2, pairs=1)), tmp_path)) == 2


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    """One clear line."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match="cannot write charts in"):
        save_charts(two_arms(), tmp_path / "file" / "charts")


def test_charts_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up leaves the charts that were there, and no draft."""
    before = [path.read_bytes() for path in save_charts(two_arms(), tmp_path)]
    write = Path.write_text

    def fill_up(self, *args, **options):
        write(self, *args, **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill_up)
    with pytest.raises(ScenarioError, match="cannot write charts in .*: No space left on device"):
        save_charts(result(arm("a", 1), arm("b", 2)), tmp_path)
    names = ["paired_ratios.png", "paired_ratios.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert [(tmp_path / name).read_bytes() for name in names] == before
