"""Which runs have a start-up, and what a comparison is without it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim.log import store
from sim.report import settling
from sim.report.settling import regime, settled
from sim.report.sides import Side


@pytest.mark.parametrize(
    ("workload", "kind"),
    [
        ({"kind": "rollout", "arrivals": {"kind": "at_once"}}, "terminating"),
        ({"kind": "rollout", "arrivals": {"kind": "poisson", "rate_per_s": 1}}, "steady"),
        ({"kind": "agents", "arrivals": {"kind": "diurnal"}}, "changing"),
        ({"kind": "serving_run", "file": "x"}, "changing"),
        ({"kind": "trace", "arrivals": None}, "changing"),
        ({"kind": "sessions"}, "terminating"),
    ],
)
def test_the_kind_of_run_follows_from_the_workload(workload: dict, kind: str) -> None:
    """From the arrivals where there are some, else from what is replayed."""
    assert regime(workload) == kind
    assert settling.SAYS[kind]


def side(name: str, pairs: int, level: float, start: int, count: int = 600, kind: str = "poisson") -> Side:
    """A stored side; the requests that it stands for are those of ``requests``."""
    manifest = {"cell": {"workload": {"kind": "rollout", "arrivals": {"kind": kind}}}}
    return Side(name, Path(f"{name}/{pairs}/{level}/{start}/{count}"), pl.DataFrame({"pair": range(pairs)}), manifest)


def requests(path: Path) -> pl.DataFrame:
    """End-to-end times of 5 seconds more for the first requests, then around a level."""
    name, pairs, level, start, count = str(path).split("/")
    draw = np.random.default_rng(len(name))
    frames = []
    for pair in range(int(pairs)):
        e2e = float(level) + draw.normal(0, 0.1, int(count)) + np.where(np.arange(int(count)) < int(start), 5.0, 0.0)
        order = np.arange(int(count))
        frame = {"pair": pair, "request": order, "submitted_s": order * 1.0, "status": "finished", "e2e_s": e2e}
        frames.append(pl.DataFrame(frame))
    return pl.concat(frames)


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that exist in name only."""

    class Known:
        def __init__(self, path: Path) -> None:
            self.requests = requests(path)

    monkeypatch.setattr(store, "has_tables", lambda path: not str(path).startswith("bare"))
    monkeypatch.setattr(store, "read", Known)


def test_the_start_up_is_cut_alike_in_both_arms() -> None:
    """50 slow requests in one arm and 100 in the other: both lose the later cut; the levels are left."""
    found = settled(side("a", 8, 1.0, 50), side("bb", 8, 2.0, 100))
    assert found.is_settled
    assert 95 <= found.cut <= 150
    assert found.requests == 600
    assert found.paired.ratio == pytest.approx(2.0, rel=0.01)
    assert found.batches is None


def test_one_replication_has_batch_means() -> None:
    """The level of each arm with an interval from 20 batches."""
    found = settled(side("a", 1, 1.0, 50), side("bb", 1, 2.0, 50))
    for batches, level in zip(found.batches, (1.0, 2.0), strict=True):
        assert batches.mean == pytest.approx(level, abs=0.03)
        assert batches.batches == 20


def test_where_nothing_is_cut() -> None:
    """Terminating runs, results without requests, measurements, and too few requests."""
    good = side("a", 2, 1.0, 10)
    assert settled(good, side("b", 2, 1.0, 10, kind="at_once")) is None
    assert settled(good, side("bare", 2, 1.0, 10)) is None
    assert settled(good, Side("m", Path("m"), good.values)) is None
    assert settled(good, side("b", 2, 1.0, 10, count=99)) is None
