"""Frames: names, seconds, words."""

from sim.log import frames
from sim.log.record import TABLES, UNSEEN, Log
from tests.sim.six_requests import six_requests


def test_columns_are_those_of_the_log_in_seconds() -> None:
    """Every column of the record is there, ticks with ``_s`` behind."""
    tables = frames.read_logs([six_requests()], [7])
    for table, columns in TABLES.items():
        frame = getattr(tables, table)
        assert frame.columns[0] == "pair"
        times = frames.TIMES[table]
        assert {f"{name}_s" if name in times else name for name in columns} <= set(frame.columns)


def test_never_is_null_and_codes_are_words() -> None:
    """A refused request has no first token; its status and branch can be read."""
    tables = frames.read_logs([six_requests()], [0])
    last = tables.requests.row(5, named=True)
    assert (last["first_token_s"], last["ttft_s"], last["ended_s"], last["status"]) == (None, None, 25.0, "rejected")
    assert tables.decisions["branch"].to_list()[:2] == ["consistent_hash", "random_fallback"]
    assert set(tables.engines["kind"]) == {"busy", "idle", "tail"}


def test_branches_are_those_of_each_log() -> None:
    """One code may stand for different branches in two logs."""
    one, two = Log(["a"]), Log(["a"])
    for log, name in ((one, "hit"), (two, "miss")):
        log.decisions.append((0, 0, 0, 0, log.branch_code(name), 0, 0, 0, *UNSEEN))
    assert frames.read_logs([one, two], [0, 1]).decisions["branch"].to_list() == ["hit", "miss"]


def test_a_doubled_tick_doubles_every_time() -> None:
    """L9 at the edge: seconds are ticks times the length of a tick, exactly."""
    slow = six_requests()
    slow.tick_s = 2.0
    one, two = (frames.read_logs([log], [0]) for log in (six_requests(), slow))
    for table, columns in frames.TIMES.items():
        for name in columns:
            assert (getattr(one, table)[f"{name}_s"] * 2).equals(getattr(two, table)[f"{name}_s"])


def test_concat_equals_reading_at_once() -> None:
    """Chunks put together are the whole."""
    parts = frames.concat([frames.read_logs([six_requests()], [pair]) for pair in (0, 1)])
    whole = frames.read_logs([six_requests(), six_requests()], [0, 1])
    assert all(getattr(parts, name).equals(getattr(whole, name)) for name in frames.NAMES)
