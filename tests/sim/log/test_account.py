"""The account of engine-seconds: exact, without residual."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.cost._coefficients import Coefficients
from sim.errors import LawError
from sim.log._idle import Spans, window, with_queue
from sim.log.account import SHARES, account
from sim.log.record import Log
from tests.sim.six_requests import six_requests


def total(log: Log) -> int:
    columns = account(log)
    return sum(int(columns[name].sum()) for name in SHARES)


def test_idle_rows_by_hand() -> None:
    """Engine 0 idles 10-13: one second while r3 waits at engine 1, two for want of requests; the tails follow."""
    columns = account(six_requests())
    idle = [
        tuple(int(columns[name][i]) for name in ("engine", "start", "end", "idle_queue", "idle_client", "idle_tail"))
        for i in np.flatnonzero(columns["kind"] != 1)
    ]
    assert idle == [(0, 10, 13, 1, 2, 0), (0, 20, 25, 0, 0, 5), (1, 18, 25, 0, 0, 7)]


def test_no_residual() -> None:
    """The seven shares sum to engines times the length of the run."""
    assert total(six_requests()) == 2 * 25


def test_busy_shares_by_hand() -> None:
    """Host is host0 + host1 (n + K), decode the step without its chunk, prefill the rest, divided by tokens."""
    log = six_requests()
    log.engines.clear()
    # base(50 + 2) = 0.25 + 1 + 1.56; seq 2 * 0.2; one chunk 0.25: a cost of 3.46. Of it host 0.25 + 0.125 * 3 = 0.625,
    # decode alone 1 + 0.06 + 2 * (0.2 - 0.125) = 1.21, prefill what remains, 1.625.
    log.engines.append((0, 0, 3_460_000, 1, 1, 50, 20, 2, 100, 0, 1, 52, 0, 0, 0))
    row = {name: int(column[0]) for name, column in account(log).items()}
    assert (row["host"], row["decode"]) == (625_000, 1_210_000)
    assert (row["prefill"], row["reprefill"]) == (975_000, 650_000)


def test_queue_elsewhere_wins_over_the_tail() -> None:
    """An engine whose work is done while another still has a queue idles with a queue."""
    log = six_requests()
    log.engines.append((1, 18, 22, 1, 1, 0, 0, 1, 10, 0, 0, 1, 3, 0, 0))
    columns = account(log)
    tail = (columns["engine"] == 0) & (columns["start"] == 20)
    assert (int(columns["idle_queue"][tail][0]), int(columns["idle_tail"][tail][0])) == (2, 3)


def test_own_queue_is_not_elsewhere() -> None:
    """Requests that wait at the idle engine itself do not count."""
    one = np.array([1])
    waiting = Spans(one, np.array([0]), np.array([10]))
    assert with_queue(Spans(one, np.array([2]), np.array([6])), waiting).tolist() == [0]
    assert with_queue(Spans(one - 1, np.array([2]), np.array([6])), waiting).tolist() == [4]


def test_steps_that_overlap_break_a_law() -> None:
    """One engine computes one step at a time."""
    log = six_requests()
    log.engines.append((0, 3, 5, 1, 1, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0))
    with pytest.raises(LawError, match="engine 0 starts a step"):
        account(log)


@given(st.data())
def test_idle_against_a_walk_over_every_tick(data: st.DataObject) -> None:
    """Random busy rows and waits: shares equal a tick-by-tick count, and leave no residual."""
    engines = data.draw(st.integers(1, 4))
    log = Log([f"http://engine-{i}" for i in range(engines)], [Coefficients(1.0, ((0, 0.0),))] * engines)
    waits: list[list[bool]] = [[False] * 40 for _ in range(engines)]
    for engine in range(engines):
        for start, end, waiting in data.draw(runs()):
            log.engines.append((engine, start, end, 0, 0, 0, 0, 0, 0, 0, 0, 0, waiting, 0, 0))
            waits[engine][start:end] = [waiting or was for was in waits[engine][start:end]]
    log.requests.append((0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 39, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, -1))
    columns = account(log)
    for engine in range(engines):
        mine = columns["engine"] == engine
        others = [any(waits[k][t] for k in range(engines) if k != engine) for t in range(39)]
        assert int(columns["idle_queue"][mine].sum()) == sum(others)
    assert total(log) == engines * (window(log)[1] - window(log)[0])


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Stretches with a queue or without, in order, below 39."""
    edges = sorted(draw(st.sets(st.integers(0, 38), max_size=8)))
    return [(a, b, draw(st.integers(0, 1))) for a, b in pairwise(edges)]
