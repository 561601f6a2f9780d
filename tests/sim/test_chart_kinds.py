"""Every chart renders as PNG, SVG and HTML, and its data are the table."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim import charts
from sim.charts import _style
from sim.charts.timeline import COLOURS
from sim.cli import main
from sim.errors import ScenarioError
from sim.report.chart_tables import (
    MOST_POINTS,
    arm_names,
    completion_tables,
    frontier_table,
    save_contrast,
    slope_table,
)
from sim.report.contrast import Lines, contrast
from sim.report.sides import Side
from tests.sim.results import arm, result
from tests.sim.web import loads_nothing

DRAW = np.random.default_rng(29)

CELLS = pl.DataFrame({
    "cell": ["4 groups", "4 groups", "16 groups"],
    "candidate": ["a", "b", "a"],
    "ratio": [1.1, 0.95, 1.2],
    "lo": [1.02, 0.9, None],
    "hi": [1.18, 1.0, None],
})  # fmt: skip
LOADS = pl.DataFrame({
    "load": [1.0, 2.0, 1.0, 2.0, 2.0],
    "arm": ["a", "a", "b", "b", "a"],
    "mean": [1.0, 1.5, 1.2, 1.6, 1.4],
    "lo": [0.9, 1.4, 1.1, 1.5, None],
    "hi": [1.1, 1.6, 1.3, 1.7, None],
    "source": ["simulated"] * 4 + ["measured"],
})  # fmt: skip
WINNERS = pl.DataFrame({
    "x": [4, 8, 4, 8],
    "y": [0.5, 0.5, 0.9, 0.9],
    "winner": ["a", "b", "a", "a"],
    "ratio": [1.1, 1.02, 1.3, 1.2],
    "separable": [True, False, True, True],
})  # fmt: skip
VALUES = pl.DataFrame({"pair": [0, 1, 0, 1], "arm": ["s", "s", "g", "g"], "value": [1.0, 1.1, 1.3, 1.2]})
CURVE = pl.DataFrame({"arm": ["a", "a", "b"], "completion_s": [1.0, 2.0, 3.0], "share": [0.5, 1.0, 1.0]})
P95 = pl.DataFrame({"arm": ["a", "b"], "value": [1.9, 3.0], "lo": [1.0, 3.0], "hi": [2.0, None]})
POLICIES = charts.pareto(
    pl.DataFrame({"arm": ["rr", "hash", "aware"], "hit_rate": [0.2, 0.9, 0.9], "imbalance": [1.0, 1.5, 1.1]})
)

BARS = pl.DataFrame({
    "assumption": ["A1 slowdown", "A1 slowdown", "A2 room"],
    "value": ["1", "1.45", "× 0.9"],
    "ratio": [0.95, 1.2, 1.1],
    "lo": [0.9, 1.1, None],
    "hi": [1.0, 1.3, None],
    "outcome": [charts.FLIPS, charts.SAME, charts.OPEN],
})  # fmt: skip
TILES = pl.DataFrame({
    "x": ["1", "1.45", "1", "1.45"],
    "y": ["× 0.9", "× 0.9", "× 1.1", "× 1.1"],
    "ratio": [0.95, 1.2, 1.1, 1.0],
    "decision": ["DO NOT RUN", "RUN", "RUN", "undecided"],
})  # fmt: skip

KINDS = {
    "ratio_by_cell": (charts.ratio_by_cell(CELLS, "t"), [CELLS]),
    "metric_by_load": (charts.metric_by_load(LOADS, "t", x="rate", y="ttft", log_x=True), [LOADS]),
    "winner_map": (charts.winner_map(WINNERS, "t", x="groups", y="load"), [WINNERS]),
    "slopes": (charts.slopes(VALUES, "t", y="samples_per_s"), [VALUES]),
    "completion_cdf": (charts.completion_cdf(CURVE, P95, "t"), [CURVE, P95]),
    "tornado": (charts.tornado(BARS, "t", centre=1.08, lines=[1.0, 1.05]), [BARS]),
    "decision_map": (charts.decision_map(TILES, "t", x="slowdown", y="room"), [TILES]),
    "frontier": (charts.frontier(POLICIES, "t"), [POLICIES]),
}


@pytest.mark.parametrize("name", KINDS)
def test_renders(name: str, tmp_path: Path) -> None:
    """Three files: a PNG, an SVG with marks in it, an HTML that holds its scripts."""
    chart, _ = KINDS[name]
    png, svg, html = charts.save(chart, tmp_path / name, ("png", "svg", "html"))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<path" in svg.read_text("utf-8")
    assert loads_nothing(html.read_text("utf-8")).charts == [name]


@pytest.mark.parametrize("name", KINDS)
def test_data_are_the_table(name: str) -> None:
    """Each table stands in the chart row by row, whatever the chart adds beside its columns."""
    chart, tables = KINDS[name]
    drawn = [pl.DataFrame(rows) for rows in chart.to_dict()["datasets"].values()]
    for table in tables:
        same = [each for each in drawn if set(table.columns) <= set(each.columns) and each.height == table.height]
        assert any(each.select(table.columns).rows() == table.rows() for each in same)


@pytest.mark.parametrize(("higher", "lines"), [(True, [0.97, 1.0, 1.05]), (False, [1 / 1.05, 1.0, 1 / 0.97])])
def test_lines_of_harm_and_interest_follow_the_direction(higher: bool, lines: list[float]) -> None:
    """Where lower is better harm lies above one and interest below."""
    chart = charts.ratio_by_cell(CELLS, "t", higher_is_better=higher).to_dict()
    drawn = [row["at"] for rows in chart["datasets"].values() for row in rows if "at" in row]
    assert sorted(drawn) == pytest.approx(lines)


def test_hatching_marks_cells_that_are_not_separable() -> None:
    """One of four cells, chosen by the column."""
    [hatched] = [layer for layer in KINDS["winner_map"][0].to_dict()["layer"] if layer["mark"]["type"] == "point"]
    assert hatched["transform"] == [{"filter": "!datum.separable"}]


def contrast_of(one: str, other: str) -> float:
    """WCAG 2.2: relative luminances and their ratio."""

    def luminance(ink: str) -> float:
        parts = np.array([int(ink[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("is_dark", [False, True])
def test_inks_stand_out_from_both_grounds(is_dark: bool) -> None:
    """Marks by 3 : 1, text by 4.5 : 1, of the chart's inks as they are and as a dark page has them."""

    def seen(ink: str) -> str:
        return _style.DARK.get(ink, ink) if is_dark else ink

    ground = seen(_style.PAPER)
    recede = {_style.WAITS, _style.AFTER}  # time that nobody uses
    marks = {*_style.PALETTE, _style.PLAIN, _style.GOOD, _style.BAD, _style.OUTSIDE, *COLOURS.values()}
    for ink in marks - recede:
        assert contrast_of(seen(ink), ground) >= 3, ink
    for ink in (_style.NEUTRAL, _style.FAINT):
        assert contrast_of(seen(ink), ground) >= 4.5, ink
    for ink in (*recede, _style.GRID, _style.FRAME):
        assert seen(ink) != ground


@pytest.mark.parametrize("name", KINDS)
def test_inks_are_those_of_the_style(name: str) -> None:
    """No chart brings a colour of its own, which a dark page would not know."""
    known = {*_style.PALETTE, *_style.DARK, *COLOURS.values(), _style.OUTSIDE}
    assert set(re.findall(r'"(#[0-9a-f]{3,8}|black|white)"', json.dumps(KINDS[name][0].to_dict()))) <= known


def test_what_no_other_policy_beats() -> None:
    """Hits and balance: round robin for its balance, the cache-aware one for both; the hash is beaten."""
    assert POLICIES["on_frontier"].to_list() == [True, False, True]


def test_a_table_without_its_columns_is_refused() -> None:
    """By name, and an empty one too."""
    with pytest.raises(ValueError, match="has no column hi"):
        charts.ratio_by_cell(CELLS.drop("hi"), "t")
    with pytest.raises(ValueError, match="no rows"):
        charts.slopes(VALUES.clear(), "t", y="v")


def side(name: str, pairs: range, groups: int) -> Side:
    """A measured side with group completions."""
    return Side(
        name,
        Path(name),
        pl.DataFrame({"pair": pairs, "samples_per_s": DRAW.uniform(1, 2, len(pairs))}),
        completions=pl.DataFrame({"pair": 0, "completion_s": DRAW.uniform(1, 2, groups)}),
    )


def test_tables_of_two_sides() -> None:
    """Shared pairs alone; each group's share; no upper end of a percentile of few groups."""
    a, b = side("a", range(8), 30), side("a", range(2, 10), 300)
    table = slope_table(a, b, "samples_per_s")
    assert table.group_by("arm", maintain_order=True).agg("pair")["pair"].to_list() == [[*range(2, 8)]] * 2
    curve, marks = completion_tables(a, b)
    assert marks["hi"].is_null().to_list() == [True, False]
    assert curve.filter(pl.col("arm") == "a (measured) B")["share"].to_list()[-1] == 1.0
    assert arm_names(a, b) == ("a (measured) A", "a (measured) B")
    assert completion_tables(a, Side("c", Path(), b.values)) is None
    assert completion_tables(a, side("c", range(2), 1)) is None


def test_curves_of_many_groups_are_drawn(tmp_path: Path) -> None:
    """20,000 groups: each point is on the curve of all, both ends are there, and files are written."""
    a, b = side("a", range(2), 20_000), side("b", range(2), 30)
    curve, marks = completion_tables(a, b)
    drawn = curve.filter(pl.col("arm") == "a (measured)")
    times = a.completions["completion_s"].sort()
    assert drawn.height == MOST_POINTS
    assert (drawn["completion_s"].item(0), drawn["completion_s"].item(-1)) == (times.min(), times.max())
    ranks = (drawn["share"] * 20_000).round().cast(pl.Int64)
    assert times.gather(ranks - 1).to_list() == drawn["completion_s"].to_list()
    many = pl.concat([curve] * 10)
    paths = charts.save(charts.completion_cdf(many, marks, "many"), tmp_path / "many", ("html", "svg"))
    assert all(path.stat().st_size for path in paths)


def test_frontier_of_a_result() -> None:
    """Means of the arms by their names."""
    found = frontier_table(result(arm("a", 1.0), arm("bb", 1.2)))
    assert found["arm"].to_list() == ["a", "bb"]
    assert found["hit_rate"].to_list()[1] == pytest.approx(1.2, rel=0.2)


def test_compare_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--charts`` writes the slopes of each metric and the completions, and names the files."""
    for name in ("a", "b"):
        start = DRAW.uniform(0, 1, 40)
        frame = {"pair": np.arange(40) // 20, "group": np.arange(40) // 4, "submitted_s": start, "ended_s": start + 2}
        pl.DataFrame(frame).write_csv(tmp_path / f"{name}.csv")
    files = [str(tmp_path / f"{name}.csv") for name in ("a", "b")]
    with pytest.raises(SystemExit) as ended:
        main(["compare", *files, "--metric", "makespan_s", "--charts", str(tmp_path / "charts")])
    assert not ended.value.code
    names = {f"{stem}.{kind}" for stem in ("slopes_makespan_s", "group_completion") for kind in ("png", "svg", "html")}
    assert {path.name for path in (tmp_path / "charts").iterdir()} == names
    assert capsys.readouterr().err.count("wrote ") == 6


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    """One clear line."""
    (tmp_path / "file").write_text("")
    found = contrast(side("a", range(4), 4), side("b", range(4), 4), ["samples_per_s"], Lines())
    with pytest.raises(ScenarioError, match="cannot write charts in"):
        save_contrast(found, tmp_path / "file" / "charts")


def test_bars_begin_at_the_ratio_as_things_stand() -> None:
    """Ends of one assumption stand below each other, coloured by what is decided there."""
    chart = KINDS["tornado"][0].to_dict()
    rows = next(rows for rows in chart["datasets"].values() if "outcome" in rows[0])
    assert [(row["centre"], row["place"]) for row in rows] == [(1.08, 0), (1.08, 1), (1.08, 0)]
    [rods] = [layer for layer in chart["layer"] if layer["mark"]["type"] == "bar"]
    assert rods["encoding"]["color"]["scale"]["domain"] == [charts.SAME, charts.FLIPS, charts.OPEN]


@pytest.mark.parametrize("name", ["tornado", "decision_map"])
def test_what_is_outside_the_calibrated_region_is_grey(name: str) -> None:
    """Where the table says so; what is merely undecided has a colour of its own."""
    chart = (
        charts.tornado(BARS.with_columns(outside=pl.int_range(pl.len()) == 0), "t", centre=1.08, lines=[1.0])
        if name == "tornado"
        else charts.decision_map(TILES.with_columns(outside=pl.int_range(pl.len()) == 0), "t", x="x", y="y")
    ).to_dict()
    [colour] = [
        own["encoding"]["color"] for own in chart["layer"] if "condition" in own.get("encoding", {}).get("color", {})
    ]
    assert colour["condition"] == {"test": "datum.outside", "value": _style.OUTSIDE}
    assert _style.OUTSIDE not in colour["scale"]["range"]
    assert "grey: outside" in chart["title"]["subtitle"]
    assert "grey" not in KINDS[name][0].to_dict()["title"]["subtitle"]
