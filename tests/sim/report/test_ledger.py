"""The ledger closes to the nanosecond, arm by arm and line by line of their difference."""

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import load_scenario, run
from sim.errors import LawError
from sim.log.frames import Tables, read_logs
from sim.metrics import measure
from sim.report.ledger import LINES, differences, entries, ledger
from tests.sim.six_requests import six_requests


@pytest.fixture(scope="module")
def arms(tmp_path_factory) -> tuple[Tables, Tables]:
    found = run(load_scenario("slime_group_affinity"), pairs=6, out=tmp_path_factory.mktemp("results"))
    return found.arms["sample"].tables(), found.arms["group"].tables()


def test_by_hand() -> None:
    """Two engines of 25 seconds; engine 0 idles a second beside a queue, two for clients, tails of 5 and 7 seconds."""
    row = ledger(read_logs([six_requests()], [0])).row(0, named=True)
    assert (row["idle_queue"], row["idle_client"], row["idle_tail"]) == (1e9, 2e9, 12e9)
    assert row["total"] == 50e9 == sum(row[line] for line in LINES)


def test_a_tail_beside_a_queue_is_in_the_metric_and_not_in_the_line() -> None:
    """A third engine that never works: 25 seconds of tail, in 3 of which another engine has a queue."""
    log = six_requests()
    log.engine_names.append("http://engine-2")
    log.costs.append(log.costs[0])
    tables = read_logs([log], [0])
    row = ledger(tables).row(0, named=True)
    assert (row["idle_tail"], row["total"]) == ((5 + 7 + 25 - 3) * 1e9, 75e9)
    assert measure(tables)["tail_idle_share"][0] == pytest.approx((row["idle_tail"] + 3e9) / row["total"])


def test_what_runs_on_after_the_last_answer_is_taken_off() -> None:
    """A step of three seconds for nobody: both engines are in the account that much longer, the makespan is not."""
    log = six_requests()
    log.engines.append((1, 25, 28, 1, 1, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0))
    row = ledger(read_logs([log], [0])).row(0, named=True)
    assert (row["after_end"], row["total"]) == (-6e9, 50e9)


def test_stored_arms_close_exactly(arms) -> None:
    """Engines times the stored makespan, to 1e-9 seconds; the difference is that of the totals, line by line."""
    ledgers = [ledger(each) for each in arms]
    for found, tables in zip(ledgers, arms, strict=True):
        runs = tables.replications.sort("pair")
        spans = (runs["engines"] * runs["makespan_s"]).to_list()
        sums = found.select(pl.sum_horizontal(LINES).alias("lines"))["lines"].to_list()
        assert [each / 1e9 for each in sums] == pytest.approx(spans, abs=1e-9, rel=0)
    moved = differences(*ledgers)
    assert moved.select(pl.sum_horizontal(LINES).alias("lines"))["lines"].to_list() == moved["total"].to_list()
    found = {each.line: each for each in entries(*ledgers)}
    total = found.pop("total")
    assert sum(each.difference.mean for each in found.values()) == pytest.approx(total.difference.mean, abs=1e-9)
    assert total.candidate_s - total.baseline_s == pytest.approx(total.difference.mean, abs=1e-9)
    assert found["prefill"].difference.hi < 0  # a group's prompt is computed on fewer engines
    assert "reprefill" not in found


def test_a_line_that_is_lost_is_no_residual(arms) -> None:
    """A table that misses a row raises instead of closing with something left over."""
    broken = replace(arms[0], engines=arms[0].engines.slice(1))
    with pytest.raises(LawError, match="lines of the ledger make"):
        ledger(broken)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9), st.integers(0, 4), st.integers(0, 3)), max_size=8))
def test_closes_for_any_rows(rows: list[tuple[int, int, int, int]]) -> None:
    """Whatever engines do and for how long."""
    log = six_requests()
    log.engines.clear()
    ends = [0, 0]
    for engine, length, gap, waiting in rows:
        start = ends[engine] + gap
        ends[engine] = start + length
        log.engines.append((engine, start, ends[engine], 1, 1, 50, 20, 2, 100, 0, 1, 52, waiting, 0, 0))
    found = ledger(read_logs([log], [0]))
    assert found.select(pl.sum_horizontal(LINES)).item() == found["total"][0] == 50e9


def test_pairs_of_one_side_alone() -> None:
    """They are no difference."""
    one, two = ledger(read_logs([six_requests()], [0])), ledger(read_logs([six_requests()], [1]))
    assert differences(one, two).is_empty()
