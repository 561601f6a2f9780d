"""Fleets that change: what becomes of requests, of keys and of caches, against what can be said beforehand."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from sim import load_scenario, run
from sim.errors import ScenarioError
from sim.log.frames import Tables, read_logs
from sim.log.record import Log
from sim.metrics import measure
from sim.moves import recoveries, with_moves
from sim.replication import replicate

WORLD = """
name: small-world
fleet:
  engines: 3
  engine: {preset: PRESET, kv_tokens: 20000, cost: {kind: constant, step_ms: 20, prefill_ms_per_token: 0.05}}
CHANGES
workload:
  kind: rollout
  groups: 24
  samples_per_group: 1
  prompt: {system_tokens: 64, group_tokens: 200}
  turns: 6
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  observation_tokens: 40
  tool_delay_s: 0.5
  max_tokens: 64
router: {policy: {kind: POLICY}AROUND}
metrics: [samples_per_s]
"""
RETRIES = ", retries: {attempts: 5}"


def world(
    folder: Path, changes: str = "", *, policy: str = "smg.consistent_hashing", around: str = "", preset: str = "vllm"
):
    path = folder / "small.yaml"
    text = WORLD.replace("CHANGES", "\n".join(f"  {line}" for line in changes.splitlines()))
    path.write_text(text.replace("POLICY", policy).replace("AROUND", around).replace("PRESET", preset))
    return load_scenario(path).arms["base"]


def tables(cell, pair: int = 0) -> Tables:
    return read_logs([replicate(cell, pair)], [pair])


def counts(found: Tables) -> dict[str, int]:
    return dict(found.requests.group_by("status").len().iter_rows())


def placed(found: Tables, start: float, end: float) -> dict[int, int]:
    """Engine of the last turn of each session that began within a stretch of time."""
    turns = found.requests.filter(pl.col("arrived_s").is_between(start, end)).sort("turn")
    return dict(turns.group_by("session", maintain_order=True).agg(pl.col("engine").last()).iter_rows())


def test_an_engine_fails(tmp_path: Path) -> None:
    """Without retries what was inside has failed, and later turns go to the others; nothing disappears."""
    found = tables(world(tmp_path, "changes: [{what: fail, at_s: 2, engine: 1}]"))
    lost = found.requests.filter(pl.col("status") == "failed")
    assert lost.height > 0
    assert lost["engine"].unique().to_list() == [1]
    assert lost["ended_s"].unique().to_list() == [2]
    assert lost["reason"].cast(pl.String).unique().to_list() == ["engine_failed"]
    assert found.requests.filter(pl.col("arrived_s") > 2)["engine"].unique().sort().to_list() == [0, 2]
    down = found.engines.filter(pl.col("kind") == "down")
    assert (down["engine"].to_list(), down["start_s"].to_list()) == ([1], [2])
    assert found.changes.select("at_s", pl.col("change").cast(pl.String), "engine").rows() == [(2.0, "fail", 1)]


def test_retries_save_what_was_inside(tmp_path: Path) -> None:
    """Each is tried again on another engine, with one more decision, and finishes."""
    found = tables(world(tmp_path, "changes: [{what: fail, at_s: 2, engine: 1}]", around=RETRIES))
    assert counts(found) == {"finished": 24 * 6}
    again = found.decisions.filter(pl.col("retry") > 0)
    assert again.height > 0
    assert 1 not in again["engine"].to_list()


def test_an_engine_comes_back_cold(tmp_path: Path) -> None:
    """Its sessions return to it by their hash, and compute their prompts anew."""
    found = tables(world(tmp_path, "changes: [{what: fail, at_s: 2, engine: 1, restart_after_s: 1}]", around=RETRIES))
    before, after = placed(found, 0, 1.9), placed(found, 3.1, 99)
    assert all(after[session] == engine for session, engine in before.items() if session in after)
    back = with_moves(found.requests).filter(pl.col("is_moved"), pl.col("engine") == 1)
    assert back.height > 0
    first = back.sort("arrived_s").row(0, named=True)
    assert first["reprefilled_tokens"] > 0.5 * first["prompt_tokens"]
    assert [word for _, word, _ in found.changes.select("at_s", pl.col("change").cast(pl.String), "engine").rows()] == [
        "fail",
        "restart",
    ]


def test_one_of_n_leaves_and_only_its_keys_move(tmp_path: Path) -> None:
    """Consistent hashing: no key between two that stay. With a drain long enough nothing is lost."""
    found = tables(world(tmp_path, "changes: [{what: leave, at_s: 3, engine: 0, drain_s: 60}]"))
    assert counts(found) == {"finished": 24 * 6}
    before, after = placed(found, 0, 3), placed(found, 3.001, 99)
    moved = {session for session, engine in before.items() if session in after and after[session] != engine}
    assert moved == {session for session, engine in before.items() if engine == 0 and session in after}


def test_a_drain_that_is_too_short(tmp_path: Path) -> None:
    """What has not ended by then fails when the engine is stopped."""
    found = tables(world(tmp_path, "changes: [{what: leave, at_s: 3, engine: 0, drain_s: 0.01}]"))
    lost = found.requests.filter(pl.col("status") == "failed")
    assert lost.height > 0
    assert lost["ended_s"].round(6).unique().to_list() == [3.01]


def test_engines_join(tmp_path: Path) -> None:
    """Only keys that now belong to the new one move; until it joins its time counts as down."""
    found = tables(world(tmp_path, "changes: [{what: join, at_s: 3, count: 1}]"))
    before, after = placed(found, 0, 3), placed(found, 3.001, 99)
    moved = {session for session, engine in before.items() if session in after and after[session] != engine}
    assert moved
    assert {after[session] for session in moved} == {3}
    down = found.engines.filter(pl.col("kind") == "down")
    assert down.select("engine", "start_s", "end_s").rows() == [(3, 0.0, 3.0)]


def test_modulo_moves_nearly_all(tmp_path: Path) -> None:
    """Of keys on 3 engines, a fourth moves 3 of 4; the ring moves 1 of 4."""
    changes = "changes: [{what: join, at_s: 3}]"
    shares = {}
    for policy in ("modulo", "rendezvous"):
        moved = known = 0
        for pair in range(12):
            found = tables(world(tmp_path, changes, policy=policy), pair)
            before, after = placed(found, 0, 3), placed(found, 3.001, 99)
            known += len(before.keys() & after.keys())
            moved += sum(after[session] != engine for session, engine in before.items() if session in after)
        shares[policy] = moved / known
    assert shares["modulo"] == pytest.approx(0.75, abs=0.12)  # 280 keys: four standard errors
    assert shares["rendezvous"] == pytest.approx(0.25, abs=0.12)


def test_who_finds_out_and_when(tmp_path: Path) -> None:
    """A manager that takes a second, probes, or a circuit breaker: until then the policy still chooses the dead one."""
    changes = "changes: [{what: fail, at_s: 2, engine: 1}]\n"

    def last(changes: str, around: str = "") -> float:
        found = tables(world(tmp_path, changes, around=around))
        return found.decisions.filter(pl.col("engine") == 1)["at_s"].max()

    assert last(changes) < 2
    assert 2 < last(f"{changes}noticed_after_s: 1") <= 3
    probed = last(changes, ", health: {period_s: 0.5, timeout_s: 0.1, fall: 3, rise: 2}")
    assert 2 < probed <= 3.1
    assert last(changes, ", breaker: {failures: 2, window_s: 60, half_open_s: 600}") < probed


def test_random_failures(tmp_path: Path) -> None:
    """Each engine up for 4 s and down for 1 s in the mean: down a fifth of the time, whatever the policy does."""
    changes = "failures: {mean_between_s: 4, mean_repair_s: 1}"
    down, total, times = 0.0, 0.0, []
    for policy in ("smg.consistent_hashing", "least_load"):
        starts = []
        for pair in range(15):
            found = tables(world(tmp_path, changes, policy=policy, around=RETRIES), pair)
            end = found.replications["makespan_s"][0]
            rows = found.engines.filter(pl.col("kind") == "down")
            down += (rows["end_s"] - rows["start_s"]).sum()
            total += 3 * end
            starts.append([row for row in found.changes.select("at_s", "engine").rows() if row[0] < 3])
        times.append(starts)
    assert down / total == pytest.approx(0.2, abs=0.06)
    assert times[0] == times[1]


CHANGE = st.one_of(
    st.builds(
        lambda at, engine, back: f"{{what: fail, at_s: {at}, engine: {engine}, restart_after_s: {back}}}",
        st.integers(0, 80).map(lambda x: x / 10),
        st.integers(0, 2),
        st.sampled_from(["null", "0", "0.02", "0.5", "2"]),
    ),
    st.builds(
        lambda at, engine, drain: f"{{what: leave, at_s: {at}, engine: {engine}, drain_s: {drain}}}",
        st.integers(0, 80).map(lambda x: x / 10),
        st.integers(0, 2),
        st.sampled_from(["null", "0", "0.3", "5"]),
    ),
    st.builds(
        lambda at, count: f"{{what: join, at_s: {at}, count: {count}}}",
        st.integers(0, 80).map(lambda x: x / 10),
        st.integers(1, 2),
    ),
)
POLICIES = [
    "round_robin",
    "smg.consistent_hashing",
    "sglang.cache_aware",
    "smg.manual",
    "sticky_least_loaded",
    "oracle",
]


@settings(max_examples=40, deadline=None)
@given(
    changes=st.lists(CHANGE, min_size=1, max_size=5),
    policy=st.sampled_from(POLICIES),
    around=st.sampled_from(["", RETRIES, f"{RETRIES}, breaker: {{}}", f"{RETRIES}, replicas: 2"]),
    preset=st.sampled_from(["vllm", "sglang"]),
    noticed=st.sampled_from(["", "\nnoticed_after_s: 0.3"]),
)
def test_laws_of_a_fleet_that_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[str], policy: str, around: str, preset: str, noticed: str
) -> None:
    """L1 nothing disappears and every engine-second is accounted for; L4 same bytes; L11 jumping is stepping."""
    noticed = noticed if any("fail" in change for change in changes) else ""
    folder = tmp_path_factory.mktemp("world")
    try:
        cell = world(folder, f"changes: [{', '.join(changes)}]{noticed}", policy=policy, around=around, preset=preset)
    except ScenarioError:  # a change of an engine that is not there by then
        reject()
    log, step = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    assert tables_of(log) == tables_of(replicate(cell, 0))
    found, stepped = read_logs([log], [0]), read_logs([step], [0])
    assert found.requests.sort("request").equals(stepped.requests.sort("request"))
    assert found.decisions.equals(stepped.decisions)
    assert found.changes.equals(stepped.changes)
    # A session whose turn fails ends: all requests that were submitted have ended, each in one way.
    ended = found.requests.group_by("session").agg(pl.len(), (pl.col("status") == "finished").sum().alias("finished"))
    assert found.requests["ended_s"].null_count() == 0
    assert ended.filter((pl.col("finished") < 6) & (pl.col("finished") + 1 != pl.col("len"))).is_empty()
    span = (found.engines["end_s"] - found.engines["start_s"]).sum()
    first, last = found.engines["start_s"].min(), found.engines["end_s"].max()
    assert span == pytest.approx((last - first) * found.replications["engines"][0])


def tables_of(log: Log) -> tuple[bytes, ...]:
    return tuple(bytes(table.data) for table in (log.requests, log.decisions, log.engines, log.changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("changes: [{what: fail, at_s: 2}]", "engine: is missing: the one that is to fail"),
        ("changes: [{what: fail, at_s: 2, engine: 7}]", "there is no engine 7: they are 0 to 2"),
        ("changes: [{what: fail, at_s: 2, engine: 1, drain_s: 3}]", "drain_s has no effect when the change is fail"),
        ("changes: [{what: join, at_s: 2, engine: 1}]", "engine has no effect when the change is join"),
        ("changes: [{what: join, at_s: 2, type: new}]", "no such type; all engines of this fleet are alike"),
        ("changes: [{what: jion, at_s: 2}]", "did you mean 'join'"),
        ("changes: [{what: leave, at_s: -1, engine: 1}]", "must be 0 or more"),
        (
            "changes: [{what: leave, at_s: 2, engine: 1}, {what: leave, at_s: 1, engine: 1}]",
            r"changes.0.engine: engine 1 leaves at 1 s already",
        ),
        (
            "changes: [{what: leave, at_s: 1, engine: 1, drain_s: 2}, {what: fail, at_s: 3, engine: 1}]",
            r"changes.1.engine: engine 1 is gone since 3 s",
        ),
        (
            "changes: [{what: join, at_s: 5}, {what: leave, at_s: 1, engine: 3}]",
            r"changes.1.engine: engine 3 joins at 5 s, so there is none yet",
        ),
        (
            "changes: [{what: fail, at_s: 1, engine: 1}, {what: fail, at_s: 5, engine: 1}]",
            r"changes.1.engine: engine 1 is still down at 5 s",
        ),
        ("noticed_after_s: 3", "has no effect: no engine fails"),
        ("failures: {mean_between_s: 0, mean_repair_s: 1}", "must be"),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: str, message: str) -> None:
    """One line with the place of the change."""
    with pytest.raises(ScenarioError, match=message) as caught:
        world(tmp_path, changes)
    assert "\n" not in str(caught.value)


def test_a_change_that_nobody_lived_to_see(tmp_path: Path) -> None:
    """It is warned of; one that happens is not."""
    world(tmp_path, "changes: [{what: join, at_s: 3}, {what: join, at_s: 100000}]")
    warnings = run(load_scenario(tmp_path / "small.yaml"), pairs=2, out=tmp_path / "out").warnings
    [late] = [each for each in warnings if "did not happen" in each]
    assert late.startswith("arm base: fleet.changes.1 did not happen: it is to come after 100000 s")


def test_moves_by_hand() -> None:
    """Session 0: engines 0, 1, 1; its second prompt of 150 holds the 100 of the first, of which 16 were cached."""
    columns = ("pair", "session", "turn", "attempt", "engine", "prompt_tokens", "cached_tokens", "scheduled_s")
    rows = [(0, 0, 0, 0, 0, 100, 0, 0.0), (0, 0, 1, 0, 1, 150, 16, 1.0), (0, 0, 2, 0, 1, 200, 144, 2.0)]
    found = with_moves(pl.DataFrame(rows, schema=columns, orient="row"))
    assert found["is_moved"].to_list() == [False, True, False]
    assert found["is_later"].to_list() == [False, True, True]
    assert found["reprefilled_tokens"].to_list() == [0, 84, 0]


def test_recovery_is_measured_from_the_change(tmp_path: Path) -> None:
    """One row a change, at its time; the metric is the longest, and there is none where one has not recovered."""
    cell = world(tmp_path, "changes: [{what: fail, at_s: 3, engine: 1, restart_after_s: 0.2}]", around=RETRIES)
    found = tables(cell)
    rows = recoveries(found)
    assert rows["at_s"].to_list() == pytest.approx([3, 3.2])
    longest = None if rows["recovery_s"].null_count() else rows["recovery_s"].max()
    assert measure(found)["recovery_s"][0] == longest


def test_recovery_by_hand(tmp_path: Path) -> None:
    """80 % of each prompt cached, a change, 50 prompts with nothing, then 80 % again, one a second.

    Of 50 prompts k warm ones make a rate of 0.8 k / 50, which is 0.72 at k = 45: the 95th prompt after the change.
    """
    found = tables(world(tmp_path, "changes: [{what: join, at_s: 3}]"))
    cached = [80] * 60 + [0] * 50 + [80] * 60
    requests = pl.DataFrame(
        {
            "pair": [0] * len(cached),
            "scheduled_s": [float(second - 60) for second in range(1, len(cached) + 1)],
            "prompt_tokens": [100] * len(cached),
            "cached_tokens": cached,
        }
    )
    changes = found.changes.with_columns(at_s=pl.lit(0.0))
    assert recoveries(replace(found, requests=requests, changes=changes))["recovery_s"].to_list() == [95.0]
    flushed = pl.concat([changes, changes.with_columns(pl.lit("flush").cast(changes["change"].dtype).alias("change"))])
    assert recoveries(replace(found, requests=requests, changes=flushed)).height == 1  # a cache is no member
    early = requests.head(150)
    assert recoveries(replace(found, requests=early, changes=changes))["recovery_s"].to_list() == [None]
