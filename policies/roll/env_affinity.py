"""ROLL's environment affinity."""

from dataclasses import dataclass

from policies._costs import lowest
from policies._keys import HEADERS, key_of
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class EnvAffinity(Policy):
    """An environment keeps its rank; a new one goes to the rank with the fewest assigned environments, first on a tie.

    What is counted are assigned environments, not requests; they stay assigned. The environment is the session. An
    environment whose rank is down is assigned anew. When a rank joins, environments are taken from the old ranks, one
    from each in turn, oldest first, until ``total * old ranks / new ranks`` are left; they are new when they return.
    Without an id: the rank with fewest environments, nothing assigned. Cost O(1) for a known environment, O(engines)
    for a new one.

    Source: alibaba/ROLL ``roll/distributed/scheduler/router.py`` at 8eb27cc2d. Left out: requests of environments that
    move are aborted there; here they end where they are.
    Known pathologies: environments that ended still count, so late ones are placed by history; equal numbers of
    environments are not equal work.
    Checked against: decision tables by hand, and the source.
    """

    key_headers = HEADERS

    def __post_init__(self) -> None:
        self._ranks: dict[str, EngineView] = {}
        self._assigned: dict[EngineView, int] = {}

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Take from each old rank in turn what the new one should have."""
        ranks = len(fleet.engines)
        spare = len(self._ranks) - len(self._ranks) * (ranks - 1) // ranks
        queues: dict[EngineView, list[str]] = {}
        for key, rank in self._ranks.items():
            queues.setdefault(rank, []).append(key)
        while spare > 0:
            for rank, keys in queues.items():
                if keys and spare > 0:
                    del self._ranks[keys.pop(0)]
                    self._assigned[rank] -= 1
                    spare -= 1

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its environments are new when they return."""
        self._ranks = {key: rank for key, rank in self._ranks.items() if rank is not engine}
        self._assigned.pop(engine, None)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the environment's rank, or assign one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = key_of(request)
        rank = self._ranks.get(key)
        if rank is not None and rank.is_available:
            return rank, "known_env", 0
        assigned = self._assigned
        engine = lowest(available, lambda each: assigned.get(each, 0))[0]
        if not key:
            return engine, "no_env", 0
        if rank is not None:
            assigned[rank] -= 1
        self._ranks[key] = engine
        assigned[engine] = assigned.get(engine, 0) + 1
        return engine, "new_env" if rank is None else "moved_env", 0
