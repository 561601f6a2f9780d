"""ROLL's prompt affinity."""

from collections.abc import Iterator
from dataclasses import dataclass

from policies._keys import HEADERS, key_of
from policies._load import first_least
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class PromptAffinity(Policy):
    """All samples of a prompt go to one rank: the one with fewest running requests when the first of them came.

    The prompt is the key, so it wants the client's scope ``group``. A rank counts as free below
    ``max_running_requests``; the product lets a new prompt wait while no rank is, and later requests of a prompt wait
    for their rank. Here a router cannot hold requests: they go to the least loaded rank, to their own rank, and wait
    in the engine. Ties go to the first rank. A prompt whose rank is down is placed anew; without a key each request is
    placed for itself. Cost O(engines) for a new prompt.

    Source: alibaba/ROLL ``roll/distributed/scheduler/router.py`` at 8eb27cc2d, by description.
    Known pathologies: a prompt's samples start together on one rank, n at once; placement is never revised.
    Checked against: decision tables by hand.
    """

    max_running_requests: int = 128
    """Running requests from which a rank is not free; tells the branch, not the choice."""

    key_headers = HEADERS

    def __post_init__(self) -> None:
        self.refuse_negative("max_running_requests")
        self._ranks: dict[str, EngineView] = {}

    def idle_fields(self) -> Iterator[str]:
        """A router cannot hold a request back."""
        yield "max_running_requests has no effect: it names a branch, and a full rank's requests wait in its engine"

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its prompts are new when they return."""
        self._ranks = {key: rank for key, rank in self._ranks.items() if rank is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the prompt's rank, or the least loaded one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = key_of(request)
        rank = self._ranks.get(key)
        if rank is not None and rank.is_available:
            return rank, "known_prompt", 0
        engine = first_least(available)
        if key:
            self._ranks[key] = engine
        is_full = engine.in_flight >= self.max_running_requests
        return engine, "all_full" if is_full else "least_running", 0
