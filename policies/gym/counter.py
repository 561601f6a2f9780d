"""The endpoint that NeMo Gym's client picked for a session before it hashed: a counter in each server process."""

from dataclasses import dataclass

from policies._keys import key_of
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Counter(Policy):
    """The k-th new session that a server process sees goes to endpoint ``k mod N``, and stays there for that process.

    Each of ``processes`` server processes keeps a dictionary of its own; k is its size. Which process serves a request
    depends on the pooled connection that carries it: with probability ``stay_share`` that of the session's request
    before, otherwise a random one. N is the configured number of endpoints; one that is down is not replaced. Gym's
    sessions always have an id; a request without one is a new session. Cost O(1).

    The processes are part of this policy, so it needs one router in front of the fleet; with several routers that keep
    their own state, each is a process, and ``processes`` is 1.

    Source: NVIDIA-NeMo/Gym ``responses_api_models/vllm_model/app.py`` before c84b7ed4b (2026-08-07). That change also
    raised the number of processes to 8; one process is the default before it (v0.3.0 to v0.5.0).
    Known pathologies: with W processes a session is pinned to up to W different engines, and a turn that changes
    process misses its whole prefix; it grows with W and with the churn of connections.
    Checked against: the description, by decision tables.
    """

    processes: int = 1
    """Server processes, each with a dictionary of its own."""
    stay_share: float = 0.0
    """Probability that a turn is served by the process of the turn before; otherwise by any process."""

    key_headers = ("x-session-id", "x-smg-routing-key")
    may_refuse = True

    def __post_init__(self) -> None:
        self.refuse_negative("processes", "stay_share")
        self._ledgers: list[dict[str, int]] = [{} for _ in range(max(self.processes, 1))]
        self._process: dict[str, int] = {}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the endpoint in the ledger of the process that serves the request."""
        if not fleet.available:
            return None, "no_engine", 0
        key = key_of(request) or f"request {request.id}"
        process = self._serving(key, pick)
        ledger = self._ledgers[process]
        branch = "known_session" if key in ledger else "new_session"
        place = ledger.setdefault(key, len(ledger))
        engine: EngineView = fleet.engines[place % len(fleet.engines)]
        if not engine.is_available:
            return None, "unavailable", 0
        return engine, branch, 0

    def _serving(self, key: str, pick: Pick) -> int:
        """The process that serves the session's next request."""
        if len(self._ledgers) == 1:
            return 0
        before = self._process.get(key)
        stay = min(self.stay_share, 1.0)
        if before is not None and (stay == 1 or (stay > 0 and pick((True, False), (stay, 1 - stay)))):
            return before
        process: int = pick(range(len(self._ledgers)))
        self._process[key] = process
        return process
