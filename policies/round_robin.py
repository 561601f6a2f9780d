"""Cyclic routing."""

from dataclasses import dataclass

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class RoundRobin(Policy):
    """The available engines in turn, in the router's order: ``available[c mod len(available)]``, then ``c += 1``.

    Cost O(1). The one counter starts at 0, moves on with each attempt (retries too), and is not reset when engines
    come or go, so a change of the pool shifts the phase. Keys, content and load are ignored.

    Source: smg-project/smg ``src/policies/round_robin.rs`` at c7f9bf9f5 (sglang-router 0.3.2). smg 1.13.0 and
    vllm-router 0.1.17 behave so while the pool is stable; their phase after a change is not modelled.
    Known pathologies: every turn of a session lands elsewhere, so its prefix is computed on every engine; equal
    counts are not equal work.
    Checked against: recorded decisions of sglang-router 0.3.2 (with engines failing, joining and leaving), smg 1.13.0
    and vllm-router 0.1.17 (stable pool).
    """

    def __post_init__(self) -> None:
        self._turn = 0

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the next engine in the cycle."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        engine = available[self._turn % len(available)]
        self._turn += 1
        return engine, "turn", 0
