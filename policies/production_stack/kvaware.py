"""KV-aware routing of vLLM's production-stack, which asks LMCache who holds a prompt."""

from dataclasses import dataclass
from typing import ClassVar

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies.production_stack._session import Sessions


@dataclass
class Kvaware(Policy):
    """The first engine that holds any of the prompt, if it holds nearly all of it; else the session's engine.

    The LMCache controller is asked who holds a prefix of the prompt. The first engine of its answer serves, unless it
    matches fewer than ``tokens - kv_aware_threshold`` tokens or nobody holds any: then the engine of
    ``production_stack.session``, or without a session id the lowest request rate. Later engines of the answer, which
    may hold more, are not looked at. Cost O(engines); the time of the question is left out.

    What an engine holds is its exact cache, as its KV events tell. Where there are none, the answer is empty and the
    policy is its fallback for every request.

    Source: vllm-project/production-stack ``src/vllm_router/routers/routing_logic.py`` at a6c01db05. The order of the
    answer is the controller's; here it is the router's order of engines.
    Known pathologies: prompts of up to 2,000 tokens follow any match, however small; load is ignored on a match, so a
    common prefix gathers all on the first engine that has it.
    Checked against: decision tables from the source.
    """

    kv_aware_threshold: int = 2000
    """Tokens of the prompt that the engine need not hold."""
    session_key: str = "x-session-id"
    """Header that holds the session id, for the fallback."""
    request_stats_window_s: float = 60.0
    """Seconds over which the request rate is counted."""

    key_headers = ("x-session-id",)
    reads_content: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "production_stack.session"

    def __post_init__(self) -> None:
        self.refuse_negative("kv_aware_threshold", "request_stats_window_s")
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
        """Choose the first holder, or by session, or by rate."""
        if not fleet.available:
            return None, "no_engine", 0
        engine, branch, matched = self._holder(request, fleet) or self._sessions.choose(request, fleet, now)
        assert engine is not None, "an engine is available"
        self._sessions.sent(engine, now)
        return engine, branch, matched

    def _holder(self, request: RequestView, fleet: FleetView) -> Choice | None:
        for engine in fleet.available:
            held = engine.cached_tokens(request.content) if engine.cached_tokens else 0
            if held > 0:
                return (engine, "holder", held) if held >= request.prompt_tokens - self.kv_aware_threshold else None
        return None
