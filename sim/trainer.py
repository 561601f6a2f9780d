"""The trainer: draws groups, makes batches of those that are complete, and puts new weights into the engines.

    roll --batch complete--> settle --aborts answered--> train --train_s--> drain --nothing open--> update --time_s-->
     ^                                                                                                               |
     +---------------------------------------------------------------------------------------------------------------+

With version v and step s (both count from 0; s runs ahead while the weights of step v are being made) at most

    (v + 1 + max_staleness - s) * groups_per_step

groups may be in flight or complete and unused; whenever fewer are, a lot of ``oversampling_batch`` is drawn. With
``max_staleness`` 0 that is one step's groups while it rolls and none while it trains, as slime has it; with more it is
the bound of asynchronous trainers (AReaL). A group is complete when ``samples_needed`` of its samples have finished (or
were cut off by their time limit), and lost when it ends before. All of it is decided after the ends of steps of an
instant and before its submissions, so jumping and stepping engines see the same.

Left out: the time to send samples to the trainer, evaluation, checkpoints; a trainer that shares the engines' devices
is ``max_staleness`` 0.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from sim.client._managed import DROP, KEEP, ManagedClient
from sim.instants import SUBMIT, Clock
from sim.log.record import Log
from sim.training import TrainingSpec

ROLLING, SETTLING, TRAINING, DRAINING, UPDATING, OVER = range(6)
NEVER: Final = -1


class Weights(Protocol):
    """What a trainer needs of an engine."""

    def pause(self) -> None:
        """Start no further step; requests stay."""

    def resume(self) -> None:
        """Go on."""

    def flush(self) -> None:
        """Forget the prefix cache."""

    def set_version(self, version: int) -> None:
        """From now on what is computed matches only what was computed under the same version."""


class Trainer:
    """Rollout steps over the groups of a workload, in the order of its data."""

    def __init__(
        self,
        env: Clock,
        client: ManagedClient,
        engines: Sequence[Weights],
        spec: TrainingSpec,
        passes: Sequence[bool],
        log: Log,
    ) -> None:
        """``passes`` says of each group whether it passes the filter once it is complete."""
        self.env = env
        self.client = client
        self.engines = engines
        self.spec = spec
        self.passes = passes
        self.rows = log.steps
        self.phase = ROLLING
        self.step = self.version = 0
        self.fresh = deque(client.order)
        self.returned: deque[int] = deque()
        """Suspended groups, to be continued before fresh ones start."""
        self.deferred: deque[int] = deque()
        self.is_long = False
        """Whether this step begins deferred groups anew, and nothing else."""
        self.in_flight: dict[int, int] = {}
        """Groups under way, and how many of their samples make them complete."""
        self.born: dict[int, int] = {}
        """Version under which a group began."""
        self.ready: list[int] = []
        """Groups that are complete and accepted, and in no batch yet; the oldest are used first."""
        self.heard: set[int] = set()
        self.is_due = False
        self.started = 0
        self.rejected = self.aborted = 0
        self.row: list[int] | None = None
        """The row of the step whose weights are being made."""
        client.trainer = self

    def start(self) -> None:
        """Draw the first groups at the beginning of time."""
        self._wake()

    # -- told by the client ------------------------------------------------------------------------------------------

    def hear(self, group: int) -> None:
        """A session of a group has ended."""
        self.heard.add(group)
        self._wake()

    def answered(self) -> None:
        """A request has been answered: what waits for the last one may go on."""
        if self.phase in (SETTLING, DRAINING):
            self._wake()

    def _wake(self) -> None:
        if not self.is_due:
            self.is_due = True
            self.env.at(self.env._now, SUBMIT, self._decide)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self, _: None) -> None:
        self.is_due = False
        self._collect()
        while self._go_on():
            pass

    def _collect(self) -> None:
        """Groups that have become complete, or are lost."""
        client = self.client
        for group in sorted(self.heard):
            needed = self.in_flight.get(group)
            if needed is None:
                continue
            if client.usable[group] >= needed:
                del self.in_flight[group]
                if client.left[group]:
                    self.aborted += client.abort_group(group, DROP)
                if self.passes[group]:
                    self.ready.append(group)
                else:
                    self.rejected += 1
            elif not client.left[group]:
                del self.in_flight[group]
                self.rejected += 1
        self.heard.clear()

    def _go_on(self) -> bool:
        """Take the next step of the cycle if it is due; draw groups otherwise."""
        client = self.client
        if self.phase == ROLLING and self._has_batch():
            self._end_step()
        elif self.phase == SETTLING and not client.aborting:
            self._train()
        elif self.phase == DRAINING and not client.open_requests:
            self._update()
        else:
            self._draw()
            return False
        return True

    def _has_batch(self) -> bool:
        spec, ready = self.spec, len(self.ready)
        if ready >= spec.groups_per_step:
            return not (spec.unfinished == "wait" or self.is_long) or not self._over_age(self.in_flight)
        is_exhausted = not (self.in_flight or self.returned or self.deferred or self.fresh)
        return is_exhausted and ready > 0

    def _over_age(self, groups: Iterable[int]) -> list[int]:
        """Those of some groups that the next version would make too old."""
        oldest = self.version + 1 - self.spec.max_staleness
        return [group for group in groups if self.born[group] < oldest]

    def _end_step(self) -> None:
        """Take the batch; what is too old, or at the end of the run whatever is left, is aborted."""
        now, client, spec = self.env._now, self.client, self.spec
        self.ready.sort(key=self.born.__getitem__)
        batch, self.ready = self.ready[: spec.groups_per_step], self.ready[spec.groups_per_step :]
        self.step += 1
        is_over = self.step == spec.steps
        for group in list(self.in_flight) if is_over else self._over_age(self.in_flight):
            self._abandon(group, "drop" if is_over else spec.unfinished)
        if spec.unfinished == "drop":
            for group in self._over_age(self.ready):
                self.ready.remove(group)
                self.rejected += 1
        ages = [self.version - self.born[group] for group in batch]
        members = [session for group in batch for session in client.members[group]]
        self.row = [
            self.step - 1, self.version, self.started, now, NEVER, len(batch), self.rejected,
            sum(client.usable[group] for group in batch),
            sum(client.generated[session] for session in members if client.is_used[session]),
            self.aborted, sum(ages), max(ages),
        ]  # fmt: skip
        self.rejected = self.aborted = 0
        if is_over:
            self._write_row()
            self.phase = OVER
        else:
            self.phase = SETTLING

    def _abandon(self, group: int, how: str) -> None:
        del self.in_flight[group]
        self.aborted += self.client.abort_group(group, DROP if how == "drop" else KEEP)
        if how == "resume":
            self.returned.append(group)
        elif how == "defer":
            self.deferred.append(group)

    def _write_row(self) -> None:
        assert self.row is not None
        self.rows.append(self.row)
        self.row = None

    # -- new weights -------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        self.phase = TRAINING
        self.env.at(self.env._now + self._ticks(self.spec.train_s), SUBMIT, self._trained)

    def _trained(self, _: None) -> None:
        """New weights are there: let requests in flight end, or stand still."""
        how, client = self.spec.update.in_flight, self.client
        if how != "continue":
            client.close_gate()
            if how == "abort":
                client.resend_all()
        self.phase = DRAINING
        if how == "continue":
            self._update()
        else:
            self._wake()

    def _update(self) -> None:
        self.phase = UPDATING
        for engine in self.engines:
            engine.pause()
        self.env.at(self.env._now + self._ticks(self.spec.update.time_s), SUBMIT, self._updated)

    def _updated(self, _: None) -> None:
        """The weights are in place: a new version, and what is held goes on."""
        self.version += 1
        cache = self.spec.update.cache
        for engine in self.engines:
            if cache == "flush":
                engine.flush()
            elif cache == "version":
                engine.set_version(self.version)
            engine.resume()
        if self.row is not None:
            self.row[4] = self.env._now
            self._write_row()
        self.started = self.env._now
        self.client.open_gate()
        self.phase = ROLLING
        self.is_long = self._begins_long_step()
        self._wake()

    def _ticks(self, seconds: float) -> int:
        return round(seconds * self.client.ticks)

    # -- groups ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Start lots of groups while there is room."""
        if self.phase in (SETTLING, OVER):
            return  # what is being suspended is drawn again once it stands still
        spec = self.spec
        steps = self.version + 1 + spec.max_staleness - self.step
        if spec.steps is not None:
            steps = min(steps, spec.steps - self.step)
        while len(self.in_flight) + len(self.ready) < steps * spec.groups_per_step:
            if not self._draw_lot(1 if self.is_long else spec.oversampling_batch):
                return

    def _draw_lot(self, groups: int) -> bool:
        """Start so many groups, if there are so many; False when there were none."""
        has_drawn = False
        for _ in range(groups):
            if self.returned:
                self._begin(self.returned.popleft())
            elif self.deferred and (self.is_long or not self.fresh):
                group = self.deferred.popleft()
                self.client.forget(group)
                del self.born[group]
                self._begin(group)
            elif self.fresh:
                self._begin(self.fresh.popleft())
            else:
                return has_drawn
            has_drawn = True
        return has_drawn

    def _begins_long_step(self) -> bool:
        return len(self.deferred) >= self.spec.groups_per_step or (bool(self.deferred) and not self.fresh)

    def _begin(self, group: int) -> None:
        client = self.client
        samples = client.samples_of(group)
        needed = min(self.spec.samples_needed or samples, samples)
        self.born.setdefault(group, self.version)
        self.in_flight[group] = needed
        if client.left[group]:
            client.draw(group, needed if self.is_long else None)
        else:  # the last answers came while it was being suspended
            client.suspended.discard(group)
        if client.usable[group] >= needed or not client.left[group]:
            self.hear(group)
