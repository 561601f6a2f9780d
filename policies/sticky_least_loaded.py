"""Sessions stay where their first request was placed, and that is where there was most room."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._load import all_least, first_least, is_uneven
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class StickyLeastLoaded(Policy):
    """A known key keeps its engine; a new key goes to the available engine with the lowest count.

    Cost O(1) for a known key, O(engines) for a new one. ``count`` says what is low: live sessions (keys placed there
    and not idle for ``idle_s``) or requests in flight. A session whose engine is unavailable or gone is placed anew
    and stays at its new place. A request without a key is placed by the same rule and nothing is remembered. Two
    margins, off by default, un-stick known keys: ``break_margin`` moves a key whose own engine is more than that many
    requests above the least loaded one; ``balance_abs_threshold`` and ``balance_rel_threshold`` place every key anew
    while the pool as a whole is uneven by both. A key that a margin moves goes where the fewest requests are in flight.

    Source: the rule of verl-project/verl ``verl/workers/rollout/llm_server.py`` at 1dda039b9 (``requests``,
    ``first``) and of vllm-project/router's ``sticky_least_loaded`` (``sessions``; there ties go to the largest hash).
    The margins are verl's open pull requests 7435 and 6533.
    Known pathologies: equal numbers of sessions are not equal work; placement is never revised, so one long session
    keeps its engine full; with ``requests`` and ``first``, sessions that start one by one on an idle pool all go to
    one engine; a key that a margin moves leaves its whole prefix behind, at most in the drain, when it is longest.
    Checked against: the rule by property tests, and the idle-pool facts of each tie rule.
    """

    count: Literal["sessions", "requests"] = "sessions"
    """What is compared for a new key."""
    tie: Literal["first", "random", "rotate", "sessions"] = "first"
    """Among equal counts: first in the router's order, random, rotate, or the one with fewest sessions (then first)."""
    idle_s: float | None = 7200.0
    """A session without a request for this long is forgotten; null: never."""
    break_margin: int | None = None
    """Requests in flight above the least loaded engine beyond which a known key moves there; null: it never does."""
    balance_abs_threshold: int | None = None
    """Requests between the most and the least loaded engine above which known keys are placed anew; null: never."""
    balance_rel_threshold: float = 1.0
    """Ratio of the most to the least loaded engine that must be exceeded as well."""

    key_headers = ("x-smg-routing-key", "x-session-id")
    deciders: ClassVar[Led] = dict.fromkeys(
        ("break_margin", "balance_abs_threshold", "balance_rel_threshold"), ("moved_key",)
    )

    def __post_init__(self) -> None:
        if self.idle_s is not None:
            self.refuse_negative("idle_s")
        for name in ("break_margin", "balance_abs_threshold"):
            if getattr(self, name) is not None:
                self.refuse_negative(name)
        self.refuse_negative("balance_rel_threshold")
        self._placed: dict[str, tuple[EngineView, float]] = {}
        self._sessions: dict[EngineView, int] = {}
        self._cursor = 0

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine of a known key, or place a new one."""
        if not fleet.available:
            return None, "no_engine", 0
        if self.idle_s is not None:
            self._forget(now - self.idle_s)
        headers = request.headers
        key = headers.get("x-smg-routing-key") or headers.get("x-session-id")
        if not key:
            return self._place(fleet.available, pick, self.count), "no_key", 0
        known = self._placed.pop(key, None)
        by = self.count
        if known is not None:
            engine = known[0]
            if engine.is_available:
                if not self._breaks(engine, fleet.available):
                    self._placed[key] = (engine, now)
                    return engine, "known_key", 0
                by = "requests"  # what the margins compare: by sessions it might stay where it does not fit
            self._sessions[engine] -= 1
        engine = self._place(fleet.available, pick, by)
        self._placed[key] = (engine, now)
        self._sessions[engine] = self._sessions.get(engine, 0) + 1
        return engine, "new_key" if known is None else "moved_key", 0

    def _breaks(self, engine: EngineView, available: list[EngineView]) -> bool:
        """Whether a margin un-sticks a key from its engine."""
        margin = self.break_margin
        if margin is not None and engine.in_flight - first_least(available).in_flight > margin:
            return True
        if self.balance_abs_threshold is None:
            return False
        return is_uneven(available, self.balance_abs_threshold, self.balance_rel_threshold)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its sessions are unknown from now on."""
        self._placed = {key: place for key, place in self._placed.items() if place[0] is not engine}
        self._sessions.pop(engine, None)

    def _forget(self, before: float) -> None:
        """Drop sessions last seen at or before a time; the map is in order of last use."""
        while self._placed:
            key = next(iter(self._placed))
            engine, seen = self._placed[key]
            if seen > before:
                return
            del self._placed[key]
            self._sessions[engine] -= 1

    def _place(self, available: list[EngineView], pick: Pick, by: str) -> EngineView:
        sessions = self._sessions
        if by == "requests":
            tied = all_least(available)
        else:
            least = min(sessions.get(engine, 0) for engine in available)
            tied = [engine for engine in available if sessions.get(engine, 0) == least]
        if len(tied) == 1:
            return tied[0]
        if self.tie == "random":
            chosen: EngineView = pick(tied)
            return chosen
        if self.tie == "sessions":
            return min(tied, key=lambda engine: sessions.get(engine, 0))
        return self._next(tied, available) if self.tie == "rotate" else tied[0]

    def _next(self, tied: list[EngineView], available: list[EngineView]) -> EngineView:
        """The first tied engine after the last one that a tie went to."""
        places = [available.index(engine) for engine in tied]
        place = next((place for place in places if place >= self._cursor), places[0])
        self._cursor = place + 1
        return available[place]
