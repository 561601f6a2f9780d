"""What production-stack's session and kvaware routing share: a ring of sessions, and request rates without one."""

from policies._hash_ring import HashRing
from policies._hashes import md5_u128
from policies._protocol import Choice, EngineView, FleetView, RequestView
from policies._qps import Qps

_POINTS = 160


class Sessions:
    """uhashring's default ring: 160 points an engine at MD5 of ``{url}-{i}``; and the QPS of each engine."""

    def __init__(self, header: str, window_s: float) -> None:
        self._header = header.lower()
        self._ring = HashRing(_POINTS, _label, md5_u128)
        self._qps = Qps(window_s)

    def build(self, fleet: FleetView) -> None:
        """Put the engines on the ring."""
        self._ring.build(fleet.engines)

    def leave(self, engine: EngineView, fleet: FleetView) -> None:
        """Take an engine off the ring, and its statistics."""
        self._ring.build(fleet.engines)
        self._qps.forget(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float) -> Choice:
        """The session's engine on a ring of the available ones; without a session the lowest QPS."""
        session = request.headers.get(self._header)
        if session is None:
            return self._qps.lowest(fleet.available, now), "lowest_qps", 0
        return self._ring.find(session), "session", 0

    def sent(self, engine: EngineView, now: float) -> None:
        """Count a request."""
        self._qps.sent(engine, now)


def _label(url: str, point: int) -> str:
    return f"{url}-{point}"
