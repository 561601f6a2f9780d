"""An engine of its own for a rollout: all turns of a session on one engine that serves as few sessions as can be."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._costs import random_lowest
from policies._keys import HEADERS, key_of
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class Dedicated(Policy):
    """Each session has one engine for all its turns, and an engine holds at most ``sessions_per_engine`` live sessions.

    A new session takes an engine with room, the one with fewest live sessions, ties uniform. When none has room,
    ``when_full`` decides: ``share`` puts it where fewest are, ``refuse`` fails it. A session is live until
    ``idle_s`` after its last request, since nothing tells a router that a rollout ended. A session whose engine is down
    is placed anew. Requests without a key are sessions of their own that end with the answer. Cost O(1) for a known
    session, O(engines) for a new one.

    Source: the baseline of users who pin each long agent rollout to an engine of its own and see several times the
    throughput per engine of per-request routing (THUDM/slime discussion of long rollouts). A client that holds
    back sessions until an engine is free is a limit of the client (``max_sessions_per_engine``), not of a policy.
    Known pathologies: engines idle while their session waits for a tool; long sessions keep theirs, so the slowest
    session decides.
    Checked against: decision tables by hand.
    """

    sessions_per_engine: int = 1
    """Live sessions that an engine takes."""
    when_full: Literal["share", "refuse"] = "share"
    """What becomes of a new session when no engine has room."""
    idle_s: float = 600.0
    """Seconds without a request after which a session no longer counts."""

    key_headers = HEADERS
    may_refuse = True
    deciders: ClassVar[Led] = {"sessions_per_engine": ("shared", "all_taken"), "when_full": ("shared", "all_taken")}

    def __post_init__(self) -> None:
        self.refuse_negative("sessions_per_engine", "idle_s")
        self._placed: dict[str, EngineView] = {}
        self._seen: dict[str, float] = {}
        """Time of the last answer or request of each session that has nothing in flight, in that order."""
        self._busy: dict[str, int] = {}
        self._sessions: dict[EngineView, int] = {}
        self._now = 0.0

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its sessions are new when they return."""
        for key in [key for key, placed in self._placed.items() if placed is engine]:
            self._drop(key)
        self._sessions.pop(engine, None)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """The session is not idle while a request is in flight."""
        key = _name(request)
        if key not in self._placed:
            return
        self._busy[key] = self._busy.get(key, 0) + 1
        self._seen.pop(key, None)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """The session idles from now on; one without a key is over."""
        key = _name(request)
        left = self._busy.get(key, 0) - 1
        if left > 0:
            self._busy[key] = left
            return
        self._busy.pop(key, None)
        if key not in self._placed:
            return
        if key_of(request):
            self._seen[key] = self._now
        else:
            self._drop(key)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the session's engine, or give it one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        self._now = now
        self._forget(now - self.idle_s)
        key = _name(request)
        placed = self._placed.get(key)
        if placed is not None:
            if placed.is_available:
                if key in self._seen:
                    del self._seen[key]
                    self._seen[key] = now
                return placed, "own_engine", 0
            self._drop(key)
        sessions = self._sessions
        engine = random_lowest(available, lambda each: sessions.get(each, 0), pick)
        is_full = sessions.get(engine, 0) >= self.sessions_per_engine
        if is_full and self.when_full == "refuse":
            return None, "all_taken", 0
        self._placed[key] = engine
        self._seen[key] = now
        sessions[engine] = sessions.get(engine, 0) + 1
        return engine, "shared" if is_full else "taken", 0

    def _forget(self, before: float) -> None:
        """End the sessions that were last heard of before a time."""
        while self._seen:
            key = next(iter(self._seen))
            if self._seen[key] >= before:
                return
            self._drop(key)

    def _drop(self, key: str) -> None:
        self._sessions[self._placed.pop(key)] -= 1
        self._seen.pop(key, None)
        self._busy.pop(key, None)


def _name(request: RequestView) -> str:
    """The session's key, or the request's own number."""
    return key_of(request) or f"request {request.id}"
