"""L12: the waits of every single customer follow the recursions of queueing theory, to the tick.

The closed forms are what these recursions give on average; here nothing is left to chance.
"""

from heapq import heapreplace

import pytest

from tests.laws.theory_worlds import EXPONENTIAL, FINE, Queue, run

CUSTOMERS = 2000
STEP = round(1e9 / FINE)


def _starts(arrived, service, servers):
    """Starts of service, first come first served at any of so many servers (Kiefer-Wolfowitz)."""
    free = [0] * servers
    starts = []
    for at, length in zip(arrived, service, strict=True):
        starts.append(max(at, free[0]))
        heapreplace(free, starts[-1] + length)
    return starts


def _columns(load, engines, seed, **world):
    """Arrivals, services and starts in ticks, in order of arrival."""
    log = run(Queue(EXPONENTIAL, load * engines, CUSTOMERS), seed, engines=engines, **world)
    requests = log.numpy("requests")
    arrived = dict(zip(*(log.numpy("groups")[name].tolist() for name in ("group", "arrived")), strict=True))
    rows = sorted(zip(*(requests[name].tolist() for name in ("group", "output_tokens", "scheduled")), strict=True))
    return [arrived[group] for group, _, _ in rows], [tokens * STEP for _, tokens, _ in rows], [row[2] for row in rows]


@pytest.mark.parametrize("load", [0.5, 0.95])
def test_round_robin_is_one_queue_an_engine(load):
    """L12: each engine serves every fourth customer, by Lindley's recursion."""
    arrived, service, starts = _columns(load, 4, seed=31)
    for engine in range(4):
        assert starts[engine::4] == _starts(arrived[engine::4], service[engine::4], 1)


@pytest.mark.parametrize("load", [0.5, 0.95])
def test_a_capped_client_is_a_central_queue(load):
    """L12: four sessions at most on four engines, least loaded first: four servers of one queue."""
    arrived, service, starts = _columns(load, 4, seed=32, policy="least_load", cap=4)
    assert starts == _starts(arrived, service, 4)


@pytest.mark.parametrize("load", [0.5, 0.95])
def test_a_batch_of_four_is_a_central_queue(load):
    """L12: one engine whose steps take as long for four as for one serves four at a time.

    Who arrives during a step starts at its end: late, by fewer than 20 steps (0.2 % of a service) on average, since
    those behind him are late with him.
    """
    arrived, service, starts = _columns(load, 1, seed=33, seqs=4)
    ideal = _starts(arrived, service, 4)
    assert all(0 <= start - best for start, best in zip(starts, ideal, strict=True))
    assert sum(starts) - sum(ideal) < 20 * STEP * CUSTOMERS
