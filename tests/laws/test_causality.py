"""L2: nothing happens before its cause."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from sim.replication import Streams, replicate
from tests.strategies import cell_of, resolved_worlds

some = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@some
@given(resolved_worlds())
def test_marks_of_a_request_stand_in_order(resolved):
    """L2: submitted, arrived a router's overhead later, scheduled, first token, ended."""
    requests = replicate(cell_of(resolved), 0).numpy("requests")
    overhead = round(resolved["router"]["overhead_s"] * 1e9)
    done = requests["status"] == 0
    assert (requests["arrived"] == requests["submitted"] + overhead).all()
    marks = [requests[name][done] for name in ("arrived", "scheduled", "first_token", "ended")]
    assert (marks[0] <= marks[1]).all()
    assert (marks[1] < marks[2]).all()
    assert (marks[2] <= marks[3]).all()
    assert ((marks[2] == marks[3]) == (requests["output_tokens"][done] == 1)).all()


@some
@given(resolved_worlds())
def test_a_turn_follows_the_end_of_the_one_before(resolved):
    """L2: turn k+1 is submitted when turn k ended plus its delay, to the tick; no first turn comes before its group."""
    cell = cell_of(resolved)
    log = replicate(cell, 0)
    workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    ended = dict(zip(zip(requests["session"], requests["turn"], strict=True), requests["ended"], strict=True))
    arrived = dict(zip(groups["group"].tolist(), groups["arrived"].tolist(), strict=True))
    for session, group, turn, submitted in zip(
        *(requests[name].tolist() for name in ("session", "group", "turn", "submitted")), strict=True
    ):
        if turn:
            delay = round(workload.session(session).turns[turn].delay_s * 1e9)
            assert submitted == ended[session, turn - 1] + delay
        elif not cell.client.cap(cell.engines):
            assert submitted == arrived[group] == round(float(workload.arrival_s[group]) * 1e9)
        else:
            assert submitted >= arrived[group]


@some
@given(resolved_worlds())
def test_a_group_ends_with_its_last_session(resolved):
    """L2: the end of a group is the last end of its requests."""
    log = replicate(cell_of(resolved), 0)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    for group, ended in zip(groups["group"], groups["ended"], strict=True):
        assert ended == requests["ended"][requests["group"] == group].max()


@some
@given(resolved_worlds())
def test_routers_count_what_is_in_flight(resolved):
    """L2: a decision sees the requests that were sent and have not ended, and none of later."""
    log = replicate(cell_of(resolved), 0)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    assert (np.diff(decisions["at"]) >= 0).all()
    ended = dict(zip(requests["request"].tolist(), requests["ended"].tolist(), strict=True))
    sent = []
    for request, at, engine, here, everywhere in zip(
        *(decisions[name].tolist() for name in ("request", "at", "engine", "in_flight", "total_in_flight")), strict=True
    ):
        open_now = [to for other, to in sent if ended[other] > at]
        # At the instant of a decision answers go out before submissions; what is rejected there and then may count.
        assert len(open_now) <= everywhere <= len([1 for other, to in sent if ended[other] >= at])
        assert open_now.count(engine) <= here <= len([1 for other, to in sent if ended[other] >= at and to == engine])
        sent.append((request, engine))
