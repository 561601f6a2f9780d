"""The timeline is the ledger laid out in time: its parts nest, and their lengths sum to the lines."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import charts, load_scenario, run
from sim.charts._style import OUTSIDE
from sim.charts.timeline import MARKS
from sim.cli import main
from sim.errors import ScenarioError
from sim.log.account import SHARES
from sim.log.frames import read_logs
from sim.log.record import CHANGE, FLUSH
from sim.report import timeline
from sim.report.ledger import ledger
from tests.sim.six_requests import six_requests


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    found = run(load_scenario("smoke"), pairs=2, out=tmp_path_factory.mktemp("results"))
    return found.arms["round_robin"]


def slices(found: dict) -> list[tuple[int, str, int, int]]:
    return [
        (each["pid"], each["name"], round(each["ts"] * 1000), round((each["ts"] + each["dur"]) * 1000))
        for each in found["traceEvents"]
        if each["ph"] == "X"
    ]


def test_parts_sum_to_the_ledger_and_nest(arm) -> None:
    """Leaves are lines; each lies within the row before it, and rows follow each other without gap or overlap."""
    tables = arm.tables()
    for pair in (0, 1):
        spent: Counter[str] = Counter()
        rows: dict[int, list[tuple[int, int]]] = {}
        for engine, name, start, end in slices(timeline.trace(tables, pair)):
            if name in SHARES:
                spent[name] += end - start
                assert rows[engine][-1][0] <= start <= end <= rows[engine][-1][1]
            else:
                rows.setdefault(engine, []).append((start, end))
        own = ledger(tables).row(pair, named=True)
        assert {name: spent[name] for name in SHARES} == {name: own[name] for name in SHARES}
        for each in rows.values():
            assert all(one[1] == two[0] for one, two in pairwise(each))
        assert [each[0][0] for each in rows.values()] == [0, 0]


def test_bins_sum_to_the_ledger(arm) -> None:
    """Whatever their number; running requests are those of the rows."""
    own = ledger(arm.tables()).row(0, named=True)
    for count in (1, 7, 120):
        found = timeline.binned(arm.tables(), 0, count)
        assert found.height == 2 * count
        for name in SHARES:
            assert found[name].sum() == pytest.approx(own[name] / 1e9, abs=1e-9)
    assert timeline.binned(arm.tables(), 0, 1)["running"].min() > 0


def test_what_changes_is_marked() -> None:
    """A failure at its second, on the engine that failed; weights on all."""
    log = six_requests()
    log.changes.clear()
    log.changes.append((12, 0, 1))
    log.steps.clear()
    log.steps.append((0, 0, 0, 20, 22, 1, 0, 2, 10, 0, 0, 0))
    tables = read_logs([log], [0])
    assert timeline.marks(tables, 0).rows() == [(12.0, 1, "fail"), (22.0, -1, "weights updated")]
    marks = [each for each in timeline.trace(tables, 0)["traceEvents"] if each["ph"] == "i"]
    assert [(each["name"], each["pid"], each["s"], each["ts"]) for each in marks] == [
        ("fail", 1, "p", 12e6),
        ("weights updated", 0, "g", 22e6),
    ]


def test_flushes_are_marked() -> None:
    """On its engine where one cache is emptied; once for all of them; with the new weights where it comes with them."""
    log = six_requests()
    for table in (log.changes, log.steps):
        table.clear()
    for at, engine in ((5, 0), (12, 0), (12, 1), (22, 1), (22, 0)):
        log.changes.append((at, FLUSH, engine))
    for number, (end, updated) in enumerate(((8, 9), (20, 22))):
        log.steps.append((number, number, 0, end, updated, 1, 0, 2, 10, 0, 0, 0))
    tables = read_logs([log], [0])
    assert timeline.marks(tables, 0).rows() == [
        (5.0, 0, "flush"),
        (9.0, -1, "weights updated"),
        (12.0, -1, "flush"),
        (22.0, -1, "weights updated, caches flushed"),
    ]
    drawn = charts.timeline(timeline.binned(tables, 0, 10), timeline.marks(tables, 0), "t").to_dict()
    colours = [
        layer["encoding"]["color"]["scale"]["domain"]
        for panel in drawn["vconcat"]
        for layer in panel["layer"]
        if layer["mark"]["type"] == "rule"
    ]
    assert len(colours) == 6
    assert colours[0] == ["flush", "weights updated", "weights updated, caches flushed"]


def test_every_change_has_a_colour() -> None:
    """Whatever the log may say."""
    assert set(CHANGE) < set(MARKS)


def test_the_chart_has_three_panels_an_engine(arm) -> None:
    """Of which the first shows the lines that took time, and no other."""
    tables = arm.tables()
    drawn = charts.timeline(timeline.binned(tables, 0), timeline.marks(tables, 0), "a run").to_dict()
    assert len(drawn["vconcat"]) == 6
    own = ledger(tables).row(0, named=True)
    shown = drawn["vconcat"][0]["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert set(shown) <= {name for name in SHARES if own[name]}


def test_the_command(arm, tmp_path: Path, capsys) -> None:
    """A trace that is JSON, the same bytes again, and a pair that is not there in one line."""
    out, file = str(arm.folder.parent.parent), tmp_path / "t.json"
    texts = []
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(["timeline", arm.hash, "--out", out, "-o", str(file), "--chart", str(tmp_path / "chart")])
        assert not ended.value.code
        texts.append(file.read_text("utf-8"))
    assert texts[0] == texts[1]
    assert {each["ph"] for each in json.loads(texts[0])["traceEvents"]} == {"M", "X", "C"}
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["timeline", arm.hash, "--out", out, "-o", str(tmp_path / "no.json"), "--pair", "9"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: no pair 9 is stored; there are 2, from 0 on\n"
    assert not (tmp_path / "no.json").exists()


def test_nothing_submitted() -> None:
    """No time, no timeline."""
    log = six_requests()
    log.requests.clear()
    log.engines.clear()
    with pytest.raises(ScenarioError, match="has no time"):
        timeline.trace(read_logs([log], [0]), 0)


def test_what_is_outside_the_calibrated_region_is_grey(arm) -> None:
    """A bin whose busy time is mostly outside has a grey ground in all panels, and its share to read; no other has."""
    tables = arm.tables()
    bins = timeline.binned(tables, 0, 10).with_columns(outside=pl.int_range(20) / 19)
    drawn = charts.timeline(bins, timeline.marks(tables, 0), "a run").to_dict()
    for panel in drawn["vconcat"]:
        [shade] = [each for each in panel["layer"] if each["mark"].get("color") == OUTSIDE]
        rows = drawn["datasets"][shade["data"]["name"]]
        assert all(row["outside"] > 0.2 for row in rows)
        assert len(rows) == (6 if rows[0]["engine"] == 0 else 10)
    assert "grey" in drawn["title"]["subtitle"]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=20),
    st.integers(1, 6),
)
def test_engines_that_tell_the_story(found: list[tuple[float, int]], most: int) -> None:
    """All of a small fleet; of a large one as many as fit, the fullest first among them, then the emptiest."""
    rows = [
        {"engine": engine, "waiting": float(waiting)} | dict.fromkeys(SHARES, 0.0) | {"decode": busy}
        for engine, (busy, waiting) in enumerate(found)
    ]
    chosen = timeline.telling(pl.DataFrame(rows), most)
    assert list(chosen) == sorted(chosen)
    assert len(chosen) == min(most, len(found))
    if len(found) <= most:
        assert not any(chosen.values())
        return
    times = [busy for busy, _ in found]
    assert {times[engine] for engine, role in chosen.items() if role == "fullest"} == {max(times)}
    if most > 1:
        assert {times[engine] for engine, role in chosen.items() if role == "emptiest"} == {min(times)}
    if most > 3:
        longest = max(waiting for _, waiting in found)
        assert any(found[engine][1] == longest for engine in chosen)
        for gone in (0, len(found) - 1):
            changes = pl.DataFrame({"at_s": [1.0, 2.0], "engine": [-1, gone], "mark": ["flush", "fail"]})
            assert gone in timeline.telling(pl.DataFrame(rows), most, changes)


def test_idle_stretches_are_laid_out_in_time() -> None:
    """Engine 0 idles from 10 to 13, while a request waits at engine 1 until 11: first the queue elsewhere, then not."""
    tables = read_logs([six_requests()], [0])
    found = timeline.binned(tables, 0, 25)
    first = found.filter(pl.col("engine") == 0)
    assert first["idle_queue"].to_list() == pytest.approx([0] * 10 + [1] + [0] * 14)
    assert first["idle_client"].to_list() == pytest.approx([0] * 11 + [1, 1] + [0] * 12)
    assert first["idle_tail"].to_list() == pytest.approx([0] * 20 + [1] * 5)
    own = ledger(tables).row(0, named=True)
    for name in SHARES:
        assert found[name].sum() == pytest.approx(own[name] / 1e9, abs=1e-9)
