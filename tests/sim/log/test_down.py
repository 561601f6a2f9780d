"""Time in which an engine is down is neither busy nor idle, and every engine-second is still accounted for."""

from sim.cost.constant import Constant
from sim.log.account import KINDS, SHARES, account
from sim.log.record import BUSY, DOWN, Log

STEP = (1, 0, 0, 1, 5, 0, 1, 1, 0, 0, 0)
DOWN_ROW = (0,) * 11


def test_down_time_has_its_own_column():
    """Two engines over 100 ticks: one fails at 40, comes back at 60 and works until 100, one never works."""
    cost = Constant(step_ms=10.0).compile(1e-3, device="", model="", tp=1, overlap=False, base=None)
    log = Log(["one", "two"], [cost, cost], tick_s=1e-3)
    request = dict.fromkeys(log.requests.columns, 0) | {"submitted": 0, "arrived": 0, "ended": 100, "engine": 0}
    log.requests.append(request[name] for name in log.requests.columns)
    log.engines.append((0, 10, 40, BUSY, *STEP))
    log.engines.append((0, 40, 60, DOWN, *DOWN_ROW))
    log.engines.append((0, 60, 100, BUSY, *STEP))
    log.engines.append((1, 90, 250, DOWN, *DOWN_ROW))
    columns = account(log)
    rows = zip(*(columns[name].tolist() for name in ("engine", "start", "end", "kind", "down")), strict=True)
    assert [(engine, start, end, KINDS[kind], down) for engine, start, end, kind, down in rows] == [
        (0, 0, 10, "idle", 0),
        (0, 10, 40, "busy", 0),
        (0, 40, 60, "down", 20),
        (0, 60, 100, "busy", 0),
        (1, 0, 90, "tail", 0),
        (1, 90, 100, "down", 10),
    ]
    assert sum(int(columns[name].sum()) for name in SHARES) == 200
