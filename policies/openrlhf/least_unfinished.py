"""OpenRLHF's assignment of a batch of prompts to engines."""

from dataclasses import dataclass

from policies._keys import HEADERS, key_of
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class LeastUnfinished(Policy):
    """Prompts of a batch, one by one, to the engine with the smallest count; each adds ``n_samples_per_prompt`` to it.

    Before a batch the counts are the engines' unfinished requests. The prompt is the key (the client's scope
    ``group``): its samples stay together, and nothing is revised later. A batch is what arrives at one instant: at the
    next one the counts are read anew. Ties go to the lower place in the list. A prompt whose engine is down is
    assigned anew; a request without a key is a prompt of its own. Cost O(engines) for a new prompt (the product keeps
    a heap).

    Source: OpenRLHF/OpenRLHF ``openrlhf/trainer/ppo_utils/samples_generator.py`` at 3c3be6234.
    Known pathologies: a count of samples is not work: long answers gather by chance, and the batch waits for the
    slowest engine.
    Checked against: decision tables by hand.
    """

    n_samples_per_prompt: int = 1
    """Samples that each prompt adds to the count of its engine."""

    key_headers = HEADERS

    def __post_init__(self) -> None:
        self.refuse_negative("n_samples_per_prompt")
        self._engines: dict[str, EngineView] = {}
        self._counts: dict[EngineView, int] = {}
        self._batch: float | None = None

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its prompts are new when they return."""
        self._engines = {key: owner for key, owner in self._engines.items() if owner is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the prompt's engine, or assign one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = key_of(request)
        owner = self._engines.get(key)
        if owner is not None and owner.is_available:
            return owner, "known_prompt", 0
        if now != self._batch:
            self._batch = now
            self._counts = {engine: engine.in_flight for engine in fleet.engines}
        counts = self._counts
        engine = min(available, key=lambda each: counts.get(each, each.in_flight))
        counts[engine] = counts.get(engine, engine.in_flight) + self.n_samples_per_prompt
        if key:
            self._engines[key] = engine
        return engine, "smallest_count", 0
