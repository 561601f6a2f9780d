"""Sticky sessions of vllm-router 0.1.17."""

from dataclasses import dataclass

from policies._hashes import furc_u64
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_SWEEP_S = 60.0


@dataclass
class StickyLeastLoaded(Policy):
    """A known session keeps its engine; a new one goes to the available engine with the fewest live sessions.

    Ties go to the largest ``F("{session}:{url}")``, F being the furc hash. A session whose engine is unavailable is
    placed anew and stays there. Sessions idle for ``session_expiration_s`` are dropped by a sweep, at most every 60 s.
    Without a session header the same choice is made for an empty id, and nothing remembered. Cost O(1) for a known
    session, O(engines) for a new one.

    Source: vllm-project/router ``src/policies/sticky_least_loaded.rs`` at 335c57e2e. Left out: the explicit call that
    finishes a session, and session ids in the body.
    Known pathologies: equal numbers of sessions are not equal work; sessions that ended without the explicit call count
    for two hours; requests without a header all go to one engine while session counts are equal.
    Checked against: recorded decisions of vllm-router 0.1.17.
    """

    session_expiration_s: float = 7200.0
    """A session without a request for this long is dropped at the next sweep."""

    key_headers = ("x-session-id",)
    arbitrary_order = True

    def __post_init__(self) -> None:
        self.refuse_negative("session_expiration_s")
        self._placed: dict[str, tuple[EngineView, float]] = {}
        self._sessions: dict[EngineView, int] = {}
        self._swept = 0.0

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its sessions are placed anew when they return."""
        self._placed = {key: place for key, place in self._placed.items() if place[0] is not engine}
        self._sessions.pop(engine, None)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the session's engine, or place it."""
        if not fleet.available:
            return None, "no_engine", 0
        if now - self._swept >= _SWEEP_S:
            self._sweep(now)
        key = request.headers.get("x-session-id")
        if not key:
            return self._place("", fleet.available), "no_session", 0
        known = self._placed.pop(key, None)
        if known is not None:
            if known[0].is_available:
                self._placed[key] = (known[0], now)
                return known[0], "known_session", 0
            self._sessions[known[0]] -= 1
        engine = self._place(key, fleet.available)
        self._placed[key] = (engine, now)
        self._sessions[engine] = self._sessions.get(engine, 0) + 1
        return engine, "new_session" if known is None else "moved_session", 0

    def _place(self, key: str, available: list[EngineView]) -> EngineView:
        sessions = self._sessions
        least = min(sessions.get(engine, 0) for engine in available)
        tied = [engine for engine in available if sessions.get(engine, 0) == least]
        return tied[0] if len(tied) == 1 else max(tied, key=lambda engine: furc_u64(f"{key}:{engine.url}"))

    def _sweep(self, now: float) -> None:
        """Drop expired sessions; the map is in order of last use."""
        self._swept = now
        while self._placed:
            key = next(iter(self._placed))
            engine, seen = self._placed[key]
            if now - seen < self.session_expiration_s:
                return
            del self._placed[key]
            self._sessions[engine] -= 1
