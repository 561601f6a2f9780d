"""The share of busy time inside the region of the cost model."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.report.region import UNSTATED, coverage, outside, outside_by_pair

REGION = {"tokens": (1, 100), "chunks": (1, 2), "decodes": (1, 10), "mean_context": (50, 1000)}


def rows(*each: tuple[int, float, int, int, int, int, int]) -> pl.DataFrame:
    names = ("engine", "length", "tokens", "chunks", "decodes", "context", "steps")
    frame = pl.DataFrame([dict(zip(names, row, strict=True)) for row in each])
    return frame.select(pl.all().exclude("length"), kind=pl.lit("busy"), start_s=pl.lit(0.0), end_s="length")


def test_by_hand() -> None:
    """Three seconds inside, one with too many tokens, four at too short a context; what is absent says nothing."""
    found = coverage(
        rows((0, 2.0, 100, 1, 0, 0, 1), (0, 1.0, 5, 0, 5, 500, 1), (0, 1.0, 200, 2, 0, 0, 1), (0, 4.0, 5, 0, 5, 20, 1)),
        [REGION],
    )
    assert found.inside_share == pytest.approx(3 / 8)
    assert found.outside == pytest.approx({"tokens": 1 / 8, "mean_context": 4 / 8})
    assert found.reached["tokens"] == (5, 200)


def test_a_long_run_of_steps_counts_by_its_middle() -> None:
    """5 decodes of 980 tokens each: after 100 steps they are beyond 1,000, after 10 they are not."""
    assert coverage(rows((0, 1.0, 5, 0, 5, 4900, 100)), [REGION]).inside_share == 0
    assert coverage(rows((0, 1.0, 5, 0, 5, 4900, 10)), [REGION]).inside_share == 1


def test_engines_have_their_own_regions() -> None:
    """An engine without one is outside."""
    found = coverage(rows((0, 1.0, 50, 1, 0, 0, 1), (1, 3.0, 50, 1, 0, 0, 1)), [REGION, None])
    assert (found.inside_share, found.outside) == (0.25, {UNSTATED: 0.75})


def test_no_busy_time() -> None:
    """Nothing is outside of nothing."""
    assert coverage(rows((0, 0.0, 50, 1, 0, 0, 1)), [REGION]).inside_share == 1


def test_rows_and_pairs() -> None:
    """By row, in the order of the table, idle rows never; by pair, as a share of its busy time."""
    table = rows((0, 1.0, 200, 1, 0, 0, 1), (1, 3.0, 50, 1, 0, 0, 1), (0, 2.0, 50, 1, 0, 0, 1)).with_columns(
        pair=pl.Series([0, 0, 1])
    )
    idle = table.head(1).with_columns(kind=pl.lit("idle"), pair=pl.lit(1, dtype=pl.Int64))
    table = pl.concat([table, idle])
    assert outside(table, [REGION]).to_list() == [True, False, False, False]
    assert outside_by_pair(table, [REGION]).rows() == [(0, 0.25), (1, 0.0)]


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.floats(0.5, 9)), min_size=1, max_size=12))
def test_shares_agree(found: list[tuple[int, int, float]]) -> None:
    """The coverage of all rows is that of the pairs weighted by their busy time."""
    table = rows(*((0, length, tokens, chunks, 0, 0, 1) for tokens, chunks, length in found)).with_columns(
        pair=pl.int_range(len(found)) % 3
    )
    weight = table.group_by("pair").agg(busy=(pl.col("end_s") - pl.col("start_s")).sum())
    joined = outside_by_pair(table, [REGION]).join(weight, on="pair")
    mean = (joined["outside"] * joined["busy"]).sum() / joined["busy"].sum()
    assert coverage(table, [REGION]).inside_share == pytest.approx(1 - mean)
