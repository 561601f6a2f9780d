"""Session routing of vLLM's production-stack."""

from dataclasses import dataclass

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies.production_stack._session import Sessions


@dataclass
class Session(Policy):
    """The session's engine on a hash ring; without a session id the engine with the lowest request rate.

    The ring is uhashring's default: 160 points an engine at MD5 of ``{url}-{i}``, the session at MD5 of its id, next
    point clockwise. Engines that are down are off the ring, so their sessions go to the next points and return.
    Without an id (an empty one is one): the first engine that never had a request, else the fewest requests in the
    last ``request_stats_window_s``, first on a tie. Cost O(log engines), O(engines) without an id.

    Source: vllm-project/production-stack ``src/vllm_router/routers/routing_logic.py`` at a6c01db05; uhashring 2.5,
    whose default is the ring of MD5 values, not the one of ketama. Left out: session ids in the body; removed engines
    keep their statistics there.
    Known pathologies: blind to load: few heavy sessions collide and a saturated engine keeps its own; the rate of
    requests says nothing of their length.
    Checked against: uhashring 2.5 itself for the ring, with an engine removed; decision tables for the rest.
    """

    session_key: str = "x-session-id"
    """Header that holds the session id; the product has no default."""
    request_stats_window_s: float = 60.0
    """Seconds over which the request rate is counted."""

    key_headers = ("x-session-id",)
    places_by_hash = True

    def __post_init__(self) -> None:
        self.refuse_negative("request_stats_window_s")
        self._sessions = Sessions(self.session_key, self.request_stats_window_s)

    def start(self, fleet: FleetView) -> None:
        """Put the engines on the ring."""
        self._sessions.build(fleet)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Add its points."""
        self._sessions.build(fleet)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Remove its points."""
        self._sessions.leave(engine, fleet)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by session, or by rate."""
        if not fleet.available:
            return None, "no_engine", 0
        engine, branch, matched = self._sessions.choose(request, fleet, now)
        assert engine is not None, "an engine is available"
        self._sessions.sent(engine, now)
        return engine, branch, matched
