"""Round robin of vLLM's production-stack."""

from dataclasses import dataclass

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Roundrobin(Policy):
    """The available engines in turn, in order of their addresses, with a counter for each set of engines.

    A set that was available before goes on where it was left; a new one begins at its first address. Cost O(engines).

    Source: vllm-project/production-stack ``src/vllm_router/routers/routing_logic.py`` at a6c01db05. Left out: counters
    are forgotten when there are 1,024 sets.
    Known pathologies: no affinity; every change of the set begins anew at the first address, so under churn the first
    ones get more.
    Checked against: decision tables from the source.
    """

    arbitrary_order = True

    def __post_init__(self) -> None:
        self._turns: dict[tuple[str, ...], int] = {}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the next engine of this set."""
        if not fleet.available:
            return None, "no_engine", 0
        engines = sorted(fleet.available, key=lambda engine: engine.url)
        urls = tuple(engine.url for engine in engines)
        turn = self._turns.get(urls, 0)
        self._turns[urls] = turn + 1
        return engines[turn % len(engines)], "turn", 0
