"""Join the shortest queue, by the router's own count."""

from dataclasses import dataclass

from policies._load import Tie, first_least, next_least, random_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class LeastLoad(Policy):
    """The available engine with fewest requests in flight, counted exactly by the router itself.

    Cost O(engines). ``tie`` says who gets a request when several engines share the lowest count.

    Source: verl-project/verl ``verl/workers/rollout/llm_server.py`` at 1dda039b9 (``first``); THUDM/slime's router
    before 2026-03-27 (``first``); smg 1.13.0 ``least_load`` without engine reports (``random``).
    Known pathologies: no prefix affinity; a count of requests is not an amount of work; with ``first``, requests that
    never overlap all go to the first engine (200 of 200 sequential ones).
    Checked against: recorded decisions and counts of smg 1.13.0 (``random``).
    """

    tie: Tie = "first"
    """Among engines with equal counts: first in the router's order, random, or rotate."""

    def __post_init__(self) -> None:
        self._cursor = 0

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine with fewest requests in flight."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if self.tie == "first":
            return first_least(available), "least_loaded", 0
        if self.tie == "random":
            return random_least(available, pick), "least_loaded", 0
        engine, self._cursor = next_least(available, self._cursor)
        return engine, "least_loaded", 0
