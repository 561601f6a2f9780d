"""Table, document and warnings of small results."""

import json
import re

import jsonschema
import polars as pl
import pytest
from rich.console import Console

from sim.metrics import METRICS
from sim.report import Result, document, print_result, schema, to_json
from sim.report.numbers import number
from sim.report.placements import Placed
from sim.report.warn import digests
from tests.sim.results import CLASSES, SHOWN, arm, result, two_arms


def printed(found: Result, width: int = 80) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        print_result(found, console)
    return capture.get()


def test_document_has_the_committed_shape() -> None:
    """The JSON Schema holds, with classes, without, for one pair and for one arm."""
    small = [arm("a", 1, pairs=1), arm("b", 2, pairs=1)]
    jsonschema.Draft202012Validator.check_schema(schema())
    for found in (two_arms(), result(*small), result(arm("alone", 1)), result(*small, metrics=tuple(METRICS))):
        jsonschema.validate(json.loads(to_json(found)), schema())


def test_document_by_hand() -> None:
    """Every candidate and metric is compared; an empty class has no ratio; what a zero spoils is null."""
    found = document(two_arms())
    assert list(found) == ["scenario", "arms", "comparisons", "placements", "notes", "warnings"]
    assert [(c["candidate"], c["metric"]) for c in found["comparisons"]] == [
        ("group", metric) for metric in two_arms().metrics
    ]
    preemptions = found["comparisons"][-1]
    assert (preemptions["ratio"], preemptions["lo"], preemptions["p_worse"], preemptions["pairs"]) == (
        None,
        None,
        0.0,
        8,
    )
    assert (preemptions["p"], preemptions["caution"]) == (None, "")
    first, paired = found["comparisons"][0], two_arms().comparisons[0].paired
    assert (first["p"], first["caution"]) == (paired.p, "few")
    classes = [(p["class"], p["p_exact"], p["p_simulated"], p["pairs"]) for p in found["placements"]]
    assert classes == [("2:2", 0.375, 0.375, 3), ("3:1", 0.5, 0.625, 5), ("4:0", 0.125, 0.0, 0)]
    assert set(found["placements"][2]["ratio"].values()) == {None}


def test_ratio_within_a_class_is_of_its_pairs_alone() -> None:
    """The geometric mean over the three pairs at 2:2."""
    found = two_arms()
    base, candidate = (found.arms[name].values["samples_per_s"][:3] for name in ("sample", "group"))
    ratio = (candidate / base).log().mean()
    assert pl.Series([found.placements[0].ratio["samples_per_s"]]).log()[0] == pytest.approx(ratio)


def test_one_pair_has_null_intervals() -> None:
    """A ratio without lo and hi."""
    found = document(result(arm("a", 1, pairs=1), arm("b", 2, pairs=1)))
    assert {found["arms"]["a"]["samples_per_s"][end] for end in ("lo", "hi")} == {None}
    assert (found["comparisons"][0]["lo"], found["comparisons"][0]["pairs"]) == (None, 1)


def test_table_fits_80_columns_with_many_arms() -> None:
    """Every metric, arm and class is there, and no line is longer."""
    arms = [arm("baseline", 1), *(arm(f"cache_aware_with_threshold_{i}", 1 + i / 10) for i in range(6))]
    text = printed(result(*arms, metrics=tuple(METRICS)))
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in METRICS)
    assert all(each.name in text for each in arms)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_terminal_is_too_narrow_for_a_number(width: int) -> None:
    """Every number of the widest table is in each narrower one, whole and in one line."""
    arms = [arm("sample", 1000.0), arm("group", 1300.0, placed=Placed(4, 2, CLASSES), is_hashed=True)]
    found = result(*arms)
    wide, narrow = printed(found, 200), printed(found, width)
    numbers = re.findall(r"[\d.,]+ ± [\d.,]+|[\d.]+ \[[^]]+\]|[\d.]+%|\b\d+\.\d{3}\b", wide)
    assert len(numbers) > 20
    for each in numbers:
        assert narrow.count(each) >= wide.count(each), each
    assert "…" not in narrow


def test_ties_read_as_ties() -> None:
    """Two arms with the same numbers are not 50 % likely to be worse."""
    text = printed(result(arm("a", 1.0), arm("b", 1.0)))
    assert text.count("= (all 8 pairs equal)") == len(SHOWN)
    assert "50.0%" not in text


def test_a_policy_that_does_not_hash_has_no_expected_share() -> None:
    """Its classes are shown, an expectation is not."""
    text = printed(result(arm("a", 1.0), arm("b", 1.3, placed=Placed(4, 2, CLASSES))))
    assert "uniform hash" not in text
    assert "simulated" in text


def test_values_are_one_frame() -> None:
    """Every metric of every arm and pair, for a reader's own analysis."""
    values = two_arms().values
    assert values.columns[:2] == ["arm", "pair"]
    assert values["arm"].unique(maintain_order=True).to_list() == ["sample", "group"]
    assert set(values.columns[2:]) == set(METRICS)


def test_table_shows_ratio_interval_and_classes() -> None:
    """The numbers of the document can be read off the table."""
    found = two_arms()
    text = printed(found)
    ratio = found.comparison("group", "samples_per_s").paired
    assert f"{ratio.ratio:.3f} [{ratio.lo:.3f}, {ratio.hi:.3f}]" in text
    assert "= (all 8 pairs equal)" in text
    assert "uniform hash" in text
    assert "37.5%" in text


def test_deterministic_arms_show_no_interval() -> None:
    """Equal replications: n = 1 and a warning that says why."""
    found = result(arm("a", 1, noise=0), arm("b", 2, noise=0))
    assert "2.000 (n = 1)" in printed(found)
    assert "arm a: deterministic, n = 1 (all replications are equal)" in found.warnings
    assert document(found)["arms"]["b"]["samples_per_s"] == {"mean": 2.0, "lo": None, "hi": None, "n": 1}


def test_equal_decisions_are_told_and_of_a_null_control_that_they_are_meant() -> None:
    """Two arms that decide alike compare nothing; of a null control it is what was to be shown."""
    alike = [arm("a", 1, decisions="x"), arm("b", 1, decisions="x")]
    assert any("no decision differs" in warning for warning in result(*alike).warnings)
    control = [arm("a", 1, decisions="x"), arm("b", 1, decisions="x", null_control=True)]
    assert any("(a null control, as meant)" in warning for warning in result(*control).warnings)


def test_latency_of_an_arm_that_lost_requests_is_flagged() -> None:
    """The warning names the arm, the numbers and the metrics that leave requests out."""
    lossy = arm("lossy", 1)
    values = lossy.values.with_columns(rejected=pl.Series([2.0, 1.0, 0, 0, 0, 0, 0, 0]))
    found = result(arm("a", 1), arm("lossy", 1, values=values))
    assert (
        "arm lossy did not finish every request (3 rejected in 8 replications); "
        "group_completion_p95_s cover the others only"
    ) in found.warnings


def test_few_groups_behind_a_tail() -> None:
    """Fewer than 60 groups make a p95 the slowest one; 60 do not."""
    assert any("4 groups a replication" in warning for warning in two_arms().warnings)
    many = result(arm("a", 1, groups=60), arm("b", 2, groups=60))
    assert not any("groups a replication" in warning for warning in many.warnings)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234567, "0.01235"), (12.3456, "12.35"), (131072.4, "131,072"), (999.96, "1000")],
)
def test_numbers_read_well(value: float, text: str) -> None:
    """Four significant digits, thousands whole."""
    assert number(value) == text


def test_digest_is_blind_to_names_of_engines() -> None:
    """Swapped engines are the same decisions, in any order of rows; one request moved is another one."""
    columns = ["pair", "request", "attempt", "retry", "engine"]
    rows = [(0, 0, 0, 0, 1), (0, 1, 0, 0, 0), (0, 2, 0, 0, 1), (0, 2, 0, 1, 0), (0, 3, 0, 0, -1)]
    swapped = [(0, 3, 0, 0, -1), (0, 2, 0, 1, 1), (0, 0, 0, 0, 0), (0, 2, 0, 0, 0), (0, 1, 0, 0, 1)]
    moved = [*rows[:2], (0, 2, 0, 0, 0), *rows[3:]]
    one, two, three = (
        digests(pl.DataFrame(each, schema=columns, orient="row"))["decisions"].to_list()
        for each in (rows, swapped, moved)
    )
    assert one == two
    assert one != three
