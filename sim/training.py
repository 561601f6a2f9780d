"""What a scenario says of the trainer: rollout steps, what completes one, and how new weights reach the engines.

One rollout step ends when ``groups_per_step`` groups are complete and pass the filter. A group carries the version of
the weights under which it started; its age is counted in versions. Recipes, in these words:

    synchronous (slime, verl)      max_staleness 0, unfinished wait
    over-sampling (slime, DAPO)    oversampling_batch above groups_per_step, unfinished drop
    partial rollouts (APRIL)       the same, unfinished resume
    short and long rounds          the same, unfinished defer, samples_needed below the samples of a group (RollPacker)
    asynchronous (AReaL, NeMo-RL)  max_staleness 1 and more, update.in_flight continue or abort
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from sim.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """How new weights reach the engines, and what becomes of requests and caches meanwhile."""

    time_s: float = 0.0
    """Time that an update takes; no engine computes meanwhile."""
    in_flight: Literal["drain", "continue", "abort"] = "drain"
    """Requests in flight: the update waits for them and no turn is sent until it is over (``drain``); they stand still
    and go on with the KV of old weights (``continue``); they are aborted and re-sent afterwards with what they had
    generated (``abort``)."""
    cache: Literal["flush", "keep", "version"] = "flush"
    """Prefix caches: emptied (``flush``), kept (``keep``), or kept and matched only by prompts of the same version
    (``version``)."""


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """Rollout steps: which groups start, when a step is complete, what becomes of the rest."""

    groups_per_step: int = field(metadata={"min": 1})
    """Groups that make a batch: a rollout step ends when so many are complete and accepted."""
    steps: int | None = field(default=None, metadata={"min": 1})
    """Rollout steps of the run; null: as many as the groups of the workload give, the last one maybe short."""
    samples_needed: int | None = field(default=None, metadata={"min": 1})
    """Samples that complete a group; when so many have finished the others are aborted. Null: all."""
    oversampling_batch: int = field(default=1, metadata={"min": 1})
    """Groups that start at a time: whenever fewer groups are in flight or accepted than the step still needs, so many
    are drawn (slime's over_sampling_batch_size)."""
    acceptance_rate: float = field(default=1.0, metadata={"min": 0, "max": 1})
    """Share of complete groups that pass the filter (slime drops groups of equal rewards); drawn for each group."""
    max_staleness: int = field(default=0, metadata={"min": 0})
    """Versions of the weights that a group in flight may fall behind; 0: every step is a barrier."""
    unfinished: Literal["wait", "drop", "resume", "defer"] = "wait"
    """Groups in flight that would exceed ``max_staleness`` when a batch is there: the step lasts until they are
    complete (``wait``); they are aborted and lost (``drop``); aborted, and continued first in the next step, each
    request sent again with its partial answer (``resume``); aborted, gathered, and begun anew in a step of their own,
    without over-sampling or abort, as soon as they fill one (``defer``)."""
    train_s: float = 0.0
    """Time from a complete batch to the new weights; groups that are young enough go on meanwhile."""
    update: UpdateSpec = field(default_factory=UpdateSpec)
    """How new weights reach the engines."""

    def __post_init__(self) -> None:
        """Refuse a filter that no group passes."""
        if self.acceptance_rate == 0:
            raise ValueError("acceptance_rate must be above 0: no step would ever end")
        if self.unfinished == "defer" and self.max_staleness > 0:
            raise ValueError("unfinished: defer needs max_staleness 0, where every step is a barrier")

    def idle_fields(self, samples_per_group: int | None) -> list[str]:
        """Fields that change nothing, and why; ``samples_per_group`` where all groups have as many."""
        plain = UpdateSpec()
        is_barrier = self.max_staleness == 0
        nothing_left = is_barrier and self.oversampling_batch == 1
        found = {
            "unfinished": nothing_left and self.unfinished != "wait" and "no group is in flight at the end of a step",
            "update.in_flight": is_barrier
            and self.update.in_flight != plain.in_flight
            and "with max_staleness 0 nothing is in flight at an update",
            "samples_needed": samples_per_group is not None
            and (self.samples_needed or 0) >= samples_per_group
            and "a group has no more samples",
        }
        return [f"{name} has no effect: {why}" for name, why in found.items() if why]

    def check(self, workload: Any) -> None:
        """Refuse a workload whose groups a trainer cannot draw."""
        if workload.follows or workload.arrival_s.any():
            raise ScenarioError("a trainer draws the groups itself: they must arrive at once, and follow no other")
        if self.unfinished == "defer" and workload.children:
            raise ScenarioError("unfinished defer needs sessions that do not fork")
