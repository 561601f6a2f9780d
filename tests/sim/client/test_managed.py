"""The managed client: caps on groups, tools, the client's own work, boots, forks, followers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import replication
from sim.client import ManagedClient
from sim.log.frames import read_logs
from sim.log.record import TABLES
from sim.metrics import measure
from sim.replication import replicate
from sim.workload._model import ALONE, Child
from tests.sim.client.forking import forking
from tests.strategies import cell_of, resolved_worlds, world

MS = 1_000_000
some = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def requests_of(cell, **options):
    return replicate(cell, 0, **options).numpy("requests")


@some
@given(resolved_worlds())
def test_managing_nothing_changes_nothing(resolved):
    """Where nothing is managed, the managed client writes what the plain one writes, bit for bit."""
    cell = cell_of(resolved)
    plain = replicate(cell, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            replication,
            "Client",
            lambda *parts: ManagedClient(*parts, cell.client, replication.Streams(cell.seed, 0)),
        )
        managed = replicate(cell, 0)
    assert all(getattr(plain, table) == getattr(managed, table) for table in TABLES)


def test_a_cap_on_groups_waits_for_the_slowest_sample():
    """Of four groups of two samples with one group in flight, each starts when the one before has ended."""
    workload = {
        "groups": 4,
        "samples_per_group": 2,
        "output_tokens": {"kind": "uniform", "low": 1, "high": 40},
        "max_tokens": 40,
    }
    log = replicate(cell_of(world(workload=workload, client={"max_groups_in_flight": 1})), 0)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    starts = [requests["submitted"][requests["group"] == group].tolist() for group in range(4)]
    assert all(len(set(each)) == 1 for each in starts)
    assert [each[0] for each in starts[1:]] == groups["ended"][:-1].tolist()
    assert groups["finished"].tolist() == [2] * 4


def test_refill_by_group_leaves_places_idle():
    """With 16 places, refilling by the sample finishes earlier than by the group, whose slowest sample gates it."""
    workload = {
        "groups": 32,
        "samples_per_group": 8,
        "output_tokens": {"kind": "lognormal", "median": 20, "sigma": 1.0},
        "max_tokens": 400,
    }
    ends = [
        requests_of(cell_of(world(workload=workload, client=client)))["ended"].max()
        for client in ({"max_sessions_in_flight": 16}, {"max_groups_in_flight": 2})
    ]
    assert ends[0] * 1.2 < ends[1]


def test_tools_with_few_places():
    """D/D/c: 6 sessions want a tool of 30 ms at once, two places serve them in three rounds."""
    workload = {"groups": 6, "turns": 2, "tool_delay_s": 0.03}
    free, two = (
        requests_of(cell_of(world(workload=workload, client={"tools": tools})))
        for tools in ({"concurrency": 6}, {"concurrency": 2})
    )
    first = two["ended"][two["turn"] == 0].max()
    assert sorted(free["submitted"][free["turn"] == 1].tolist()) == [first + 30 * MS] * 6
    expected = [first + 30 * MS * k for k in (1, 1, 2, 2, 3, 3)]
    assert sorted(two["submitted"][two["turn"] == 1].tolist()) == expected


def test_tool_pool_is_an_erlang_queue():
    """M/M/c: sessions arrive as a Poisson process, exponential tools on 2 places at load 0.8 wait by Erlang's C."""
    rng = np.random.default_rng(5)
    count, places, mean = 40_000, 2, 1.0
    arrivals, service = rng.exponential(mean / (places * 0.8), count).cumsum(), rng.exponential(mean, count)
    waits = pool_waits(places, arrivals, service)
    # W = C / (c mu - lambda), with C = 0.7111 for c = 2 and load 0.8: rho^2 * 2 / (1 + rho).
    expected = (2 * 0.8**2 / 1.8) * mean / (places - places * 0.8)
    assert np.mean(waits) == pytest.approx(expected, rel=0.1)


def pool_waits(places, arrivals, service):
    """What customers of a pool wait before they are served, in a world of nothing else."""
    from sim.client._pool import Pool
    from sim.instants import SUBMIT, Clock

    env, waits, unit = Clock(), [], 1_000_000
    pool = Pool(env, places)

    def come(index):
        came = env.now
        ticks = round(service[index] * unit)
        pool.use(ticks, index, lambda _: waits.append((env.now - ticks - came) / unit), None)

    for index, at in enumerate(arrivals):
        env.at(round(at * unit), SUBMIT + 1 + index, come, index)
    env.run_out()
    return waits


@pytest.mark.parametrize("processes", [1, 2])
def test_the_stage_bounds_the_tokens_sent(processes):
    """A process sends its prompts one after the other: the job sends no more than processes * rate, and nearly that."""
    rate, turns = 50_000.0, 5
    workload = {"groups": 100, "turns": turns, "prompt": {"group_tokens": 2000, "system_tokens": 0}}
    client = {"processes": processes, "tokens_per_s": rate}
    engine = {"kv_tokens": 10**8, "max_num_seqs": 1024, "max_num_batched_tokens": 10**7}
    requests = requests_of(cell_of(world(engine=engine, workload=workload, client=client)))
    tokens, last = requests["prompt_tokens"].sum(), requests["submitted"].max() * 1e-9
    assert tokens / last <= processes * rate
    assert tokens / last >= 0.9 * processes * rate


def test_the_stage_is_a_queue_then_a_delay():
    """One process, 1,000 tokens a second, 0.5 s a turn: three prompts of 100 tokens go out 0.6, 0.7 and 0.8 s on."""
    client = {"tokens_per_s": 1000.0, "turn_s": 0.5}
    requests = requests_of(cell_of(world(workload={"groups": 3}, client=client)))
    assert requests["submitted"].tolist() == [600 * MS, 700 * MS, 800 * MS]


# -- forks ---------------------------------------------------------------------------------------------------------


def test_children_start_after_a_turn_and_are_joined():
    """Session 0 starts 1 after its first turn; its third waits for it, its second does not; 2 is joined by nobody."""
    workload = {"groups": 1, "samples_per_group": 3, "turns": 3, "tool_delay_s": 0.02}
    children = {0: [Child(1, 0, 0.1, 2), Child(2, 1, 0.0, ALONE)]}
    requests = requests_of(forking(cell_of(world(workload=workload)), children))
    at = {
        (s, t): (a, b)
        for s, t, a, b in zip(
            *(requests[name].tolist() for name in ("session", "turn", "submitted", "ended")), strict=True
        )
    }
    assert at[1, 0][0] == at[0, 0][1] + 100 * MS
    assert at[0, 1][0] == at[0, 0][1] + 20 * MS
    assert at[2, 0][0] == at[0, 1][1]
    assert at[0, 2][0] == at[1, 2][1] > at[0, 1][1] + 20 * MS
    assert dict(zip(requests["session"].tolist(), requests["parent"].tolist(), strict=True)) == {0: -1, 1: 0, 2: 0}


def test_children_hold_no_place():
    """Under a cap of one a parent that waits for its child does not wait for ever; the next sample waits for it."""
    workload = {"groups": 2, "samples_per_group": 2, "turns": 2}
    children = {0: [Child(1, 0, 0.0, 1)], 2: [Child(3, 0, 0.0, ALONE)]}
    cell = forking(cell_of(world(workload=workload, client={"max_sessions_in_flight": 1})), children)
    log = replicate(cell, 0)
    requests = log.numpy("requests")
    end = requests["ended"][requests["session"] == 0].max()
    assert requests["submitted"][requests["session"] == 2].min() == end
    assert log.numpy("groups")["finished"].tolist() == [2, 2]
    (found,) = measure(read_logs([log], [0])).to_dicts()
    assert found["samples_per_s"] * found["makespan_s"] == pytest.approx(2)


def test_children_of_a_lost_turn_never_start():
    """The parent's second turn does not fit: the child after it, and that one's child, end with the group."""
    workload = {
        "groups": 1,
        "samples_per_group": 4,
        "turns": 3,
        "observation_tokens": 400,
        "prompt": {"group_tokens": 100, "system_tokens": 0},
    }
    children = {0: [Child(1, 0, 0.0, ALONE), Child(2, 1, 0.0, 2)], 2: [Child(3, 0, 0.0, ALONE)]}
    log = replicate(forking(cell_of(world(engine={"kv_tokens": 320}, workload=workload)), children), 0)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    assert set(requests["session"].tolist()) == {0, 1}
    assert groups["sessions"].tolist() == [4]
    assert groups["finished"].tolist() == [0]
    assert groups["ended"].tolist() == [requests["ended"].max()]


def test_followers_arrive_after_the_end():
    """Group 2 arrives 1 s after group 0 has ended, group 1 by the clock."""
    workload = {"groups": 3, "arrivals": {"kind": "poisson", "groups_per_s": 1.0}}
    cell = forking(cell_of(world(workload=workload)), follows={0: 2})
    groups = replicate(cell, 0).numpy("groups")
    arrival_s = cell.workload.generate(replication.Streams(1, 0), cell.base).arrival_s
    row = {group: i for i, group in enumerate(groups["group"].tolist())}
    arrived, ended = groups["arrived"], groups["ended"]
    assert arrived[row[2]] == ended[row[0]] + round(arrival_s[2] * 1e9)
    assert arrived[row[1]] == round(arrival_s[1] * 1e9)


@st.composite
def forks(draw, sessions, groups, turns):
    """Forks inside groups: each session may start out of an earlier one of its group."""
    size, children = sessions // groups, {}
    for session in range(sessions):
        first = session - session % size
        if session == first or not draw(st.booleans()):
            continue
        parent = draw(st.integers(first, session - 1))
        after = draw(st.integers(0, turns - 1))
        joins = draw(st.sampled_from([ALONE, *range(after + 1, turns)]))
        children.setdefault(parent, []).append(Child(session, after, draw(st.sampled_from((0.0, 0.01, 0.05))), joins))
    return children


@st.composite
def forked_worlds(draw):
    """Small worlds in which sessions fork, under caps, tools and client processes."""
    resolved = draw(resolved_worlds(policies=("round_robin", "least_load", "sticky_least_loaded")))
    turns = draw(st.integers(1, 4))
    resolved["workload"] |= {"groups": 3, "samples_per_group": draw(st.sampled_from((2, 4))), "turns": turns}
    resolved["client"] |= {
        "tools": draw(st.sampled_from((None, {"concurrency": 2}))),
        "turn_s": draw(st.sampled_from((0.0, 0.01))),
        **draw(st.sampled_from(({}, {"tokens_per_s": 20_000.0}, {"tokens_per_s": 9000.0, "processes": 3}))),
        "max_groups_in_flight": draw(st.sampled_from((None, 1, 2))),
    }
    sessions = 3 * resolved["workload"]["samples_per_group"]
    return resolved, draw(forks(sessions, 3, turns))


@some
@given(forked_worlds())
def test_forks_keep_the_laws(case):
    """L1, L2, L11: every session is offered or has a lost ancestor; children and joins come after their causes."""
    resolved, children = case
    cell = forking(cell_of(resolved), children)
    log, stepping = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    assert all(getattr(log, table) == getattr(stepping, table) for table in TABLES)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    names = ("session", "turn", "submitted", "ended", "status")
    rows = {(s, t): rest for s, t, *rest in zip(*(requests[name].tolist() for name in names), strict=True)}
    assert len(rows) == len(requests["request"])
    assert sorted(groups["group"].tolist()) == [0, 1, 2]
    assert (groups["ended"] >= 0).all()
    turns = resolved["workload"]["turns"]
    parents = {child.session: (parent, child) for parent, born in children.items() for child in born}
    ends = {session: max((row[1] for (s, _), row in rows.items() if s == session), default=None) for session, _ in rows}
    for (session, turn), (submitted, *_) in rows.items():
        if turn:
            assert submitted >= rows[session, turn - 1][1]
            assert rows[session, turn - 1][2] == 0
        elif session in parents:
            parent, child = parents[session]
            assert submitted >= rows[parent, child.after_turn][1] + round(child.delay_s * 1e9)
        for child in children.get(session, ()):
            if child.joins_turn == turn and child.session in ends:
                assert submitted >= ends[child.session]
    for session in range(cell.workload.inner.groups * cell.workload.inner.samples_per_group):
        if (session, 0) in rows:
            continue
        parent, child = parents[session]
        assert (parent, child.after_turn) not in rows or rows[parent, child.after_turn][2] != 0
    whole = sum((s, turns - 1) in rows and rows[s, turns - 1][2] == 0 for s in {s for s, _ in rows})
    assert groups["finished"].sum() == whole
    assert all(a <= b for a, b in pairwise(log.numpy("decisions")["at"].tolist()))


# -- boots ---------------------------------------------------------------------------------------------------------


def test_boots_come_before_first_turns_and_hold_a_place():
    """Of four samples two at a time may boot for 30 ms, and three may be under way."""
    workload = {"groups": 4, "boot_s": 0.03}
    free = requests_of(cell_of(world(workload=workload)))
    assert free["submitted"].tolist() == [30 * MS] * 4
    client = {"tools": {"boots": 2}, "max_sessions_in_flight": 3}
    requests = requests_of(cell_of(world(engine={"kv_tokens": 10**6}, workload=workload, client=client)))
    # A request takes 50 ms, so the fourth sample starts at 80 ms and finds a free place for its boot.
    assert sorted(requests["submitted"].tolist()) == [30 * MS, 30 * MS, 60 * MS, 110 * MS]


def test_drawn_boots_belong_to_their_samples():
    """Sample i keeps its boot time when samples are added."""
    boots = {"kind": "lognormal", "median": 10, "sigma": 0.8}
    few, many = (requests_of(cell_of(world(workload={"groups": groups, "boot_s": boots}))) for groups in (5, 9))
    starts = [dict(zip(each["session"].tolist(), each["submitted"].tolist(), strict=True)) for each in (few, many)]
    assert starts[0].items() <= starts[1].items()
    assert len(set(starts[0].values())) == 5
