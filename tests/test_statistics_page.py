"""docs/statistics.md says what the code computes, and what it computes keeps its promises."""

import math
import re

import numpy as np
import pytest

from docs import statistics_tables as tables

PAGE = tables.PAGE.read_text(encoding="utf-8")
QUICK = ("published", "more_groups", "formula", "equality")


def numbers(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"-?\d[\d,]*\.?\d*", text)]


@pytest.mark.parametrize("name", QUICK)
def test_quick_tables_are_current(name: str) -> None:
    """To a fifth of a point, as other machines may add in another order."""
    assert numbers(tables.table_of(PAGE, name)) == pytest.approx(
        numbers(tables.markdown(tables.TABLES[name]())), abs=0.2, rel=1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in tables.TABLES if name not in QUICK])
def test_slow_tables_are_current(name: str) -> None:
    """Minutes: every campaign of the page again."""
    assert numbers(tables.table_of(PAGE, name)) == pytest.approx(
        numbers(tables.markdown(tables.TABLES[name]())), abs=0.2, rel=1e-3
    )


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_stands_in_the_page(name: str) -> None:
    """With its head and at least one row."""
    rows = tables.table_of(PAGE, name).strip().splitlines()
    assert len(rows) >= 3
    assert all(row.startswith("| ") and row.endswith(" |") for row in rows)


@pytest.mark.parametrize(("law", "n"), [*(("normal", n) for n in tables.SIZES), ("t3", 20), ("t3", 80), ("t3", 200)])
def test_students_interval_covers(law: str, n: int) -> None:
    """93 to 97 % of 2,000 experiments: normal noise from 8 pairs, symmetric heavy tails from 20."""
    assert 0.93 <= tables.covered(law, n, "t") <= 0.97


def test_bootstrap_covers_normal_noise() -> None:
    """92 to 97 % from 80 pairs on; the quick version of 1,000 experiments."""
    assert 0.92 <= tables.covered("normal", 80, "BCa", 1000) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [80, 200])
def test_bootstrap_covers_normal_noise_in_full(n: int) -> None:
    """2,000 experiments."""
    assert 0.92 <= tables.covered("normal", n, "BCa") <= 0.97


def test_the_formula_agrees_with_simulated_power() -> None:
    """Within 3 points in every row of the page."""
    for row in tables.table_of(PAGE, "formula").strip().splitlines()[2:]:
        formula, simulated = numbers(row)[-3::2] if "4,000" in row else numbers(row)[-2:]
        assert formula == pytest.approx(simulated, abs=3)


def test_selection_and_equality_keep_their_promises() -> None:
    """Each row: the best arm in 95 % or more; at the bound 5 % are called equal, to 99 % bounds."""
    for row in tables.table_of(PAGE, "selection").strip().splitlines()[2:]:
        assert numbers(row)[3] >= 95
    [bound] = [row for row in tables.table_of(PAGE, "equality").splitlines() if row.startswith("| 1.02")]
    for share in numbers(bound)[1:]:
        assert share == pytest.approx(5, abs=1)


def test_stopping_by_precision_ends_at_the_asked_width_and_still_covers() -> None:
    """Half-width at most 0.0125, coverage 93 to 97 %."""
    for row in tables.table_of(PAGE, "precision").strip().splitlines()[2:]:
        _, pairs, width, cover = numbers(row)
        assert pairs >= 20
        assert width <= 0.0125
        assert 93 <= cover <= 97


def test_blocking_is_unbiased_and_cuts_the_spread() -> None:
    """Blocked, plain, and plain under exact weights agree to 2.6 standard errors; the cut is the printed one."""
    plain, exact, blocked, last = (numbers(row) for row in tables.table_of(PAGE, "blocking").strip().splitlines()[2:])
    for other in (plain, exact):
        assert math.log(blocked[0]) == pytest.approx(math.log(other[0]), abs=2.6 * math.hypot(blocked[1], other[1]))
    assert plain[2] / blocked[2] == pytest.approx(last[-1], rel=0.01)
    assert last[-1] > 1.5


def test_few_claims_where_there_is_nothing() -> None:
    """At most 18 of 200, the 99 % bound of a binomial count at 5 %."""
    [row] = tables.table_of(PAGE, "null").strip().splitlines()[2:]
    sweeps, claims, bound = numbers(row)
    assert (sweeps, bound) == (200, 18)
    assert claims <= bound


def test_one_small_campaign() -> None:
    """Five pairs in one cell with keys of their own: classes by keys, effects by pair."""
    world = tables.load_scenario("slime_four_cells")
    logs, loads, classes = tables.effects(world, range(5, 10))
    assert len(logs) == len(loads) == len(classes) == 5
    assert set(classes) <= {"2:2", "3:1", "4:0"}
    assert np.isfinite(logs).all()
    assert tables._multinomial((1, 1), (0.5, 0.5)) == 0.5
