"""What engines report, and when a router knows it.

Every engine is read at times of its own or of all (``period``, ``jitter``); a reading arrives ``delay`` later, or is
lost. Between readings a router may add the requests that it dispatched itself; the first reading that was made after a
request was added takes it back. Signals of equal timing travel in one report.

Left out: the load that polling puts on engines.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from policies._protocol import Ended, EngineView, Report
from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.instants import TELEMETRY, Clock
from sim.router._watch import Watch, whisper
from sim.router.spec import SIGNALS, Counted, Moment, Reported, TelemetrySpec, Times

EMPTY: Final = {
    "running": 0, "waiting": 0, "kv_share": 0.0, "tokens": 0, "queued_tokens": None, "tokens_per_s": None,
    "busy_share": None, "ended": None,
}  # fmt: skip
"""What a report says of signals that never came."""

Reading = dict[str, Any]


class Finished:
    """What engines know of the requests that finished there: totals of prompt, output and ticks, whoever sent them."""

    def __init__(self) -> None:
        self.totals: dict[int, list[int]] = {}
        """By engine: requests, prompt tokens, generated tokens, ticks of prefill, ticks of decode."""

    def add(self, request: Request) -> None:
        """A request finished."""
        total = self.totals.setdefault(request.engine, [0, 0, 0, 0, 0])
        total[0] += 1
        total[1] += request.prompt_tokens
        total[2] += request.output_tokens
        total[3] += request.first_token - request.scheduled
        total[4] += request.ended - request.first_token

    def means(self, index: int, tick_s: float) -> Ended | None:
        """Means of an engine; None: nothing finished there."""
        total = self.totals.get(index)
        if total is None:
            return None
        count, prompt, output, prefill, decode = total
        return Ended(prompt / count, output / count, prefill * tick_s / count, decode * tick_s / count)


class Signals:
    """Signals that are read together."""

    def __init__(self, names: tuple[str, ...], times: Times, tick_s: float) -> None:
        self.names = names
        self.period = round(times.period_s / tick_s) or 1
        self.delay = round(times.delay_s / tick_s)
        self.jitter = times.jitter_s / tick_s
        self.loss = times.loss_share


class Telemetry:
    """Keeps the reports in the views of one router, and its own count where policies see it as late as a report."""

    def __init__(
        self,
        env: Clock,
        spec: TelemetrySpec,
        tick_s: float,
        engines: Sequence[Engine],
        views: Sequence[EngineView],
        own: Sequence[int],
        chance: Callable[[str], random.Random],
        finished: "Finished",
        moved: dict[str, bool],
    ) -> None:
        """``own`` is the router's count by engine, ``chance`` gives a generator by name, all share ``finished``."""
        self.env = env
        self.spec = spec
        self.tick_s = tick_s
        self.engines, self.views, self.own = engines, views, own
        self.make_chance = chance
        self.moved = moved
        """Signals that were read, and whether two readings ever differed."""
        self.first: Reading = {}
        self.finished = finished
        by_times: dict[Times, list[str]] = {}
        for name in SIGNALS:
            if name != "in_flight" or spec.in_flight.visibility == "report":
                by_times.setdefault(spec.timing(name), []).append(name)
        self.groups = [Signals(tuple(names), times, tick_s) for times, names in by_times.items()]
        self.chances: dict[tuple[int, int], random.Random] = {}
        """By group and engine: whether readings are lost, and how late they are."""
        self.watched: set[int] = set()
        """Engines that are read again and again."""
        self.read_at: dict[int, int] = {}
        """By engine: tick of the newest reading that arrived."""
        self.last_generated: dict[int, tuple[int, int]] = {}
        """By engine: tick and generated tokens of the last reading."""
        self.last_busy: dict[int, tuple[int, int]] = {}
        """By engine: tick of the last reading, and ticks in which it had computed by then."""
        self.credited: dict[Moment, list[str]] = {}
        """By moment: signals in which a dispatched request counts from then on."""
        for name in ("running", "waiting", "tokens"):
            signal: Reported = getattr(spec, name)
            if signal.visibility != "report":
                self.credited.setdefault(signal.visibility, []).append(name)
        self.credits: dict[tuple[int, str], deque[tuple[int, int]]] = {}
        """By engine and signal: tick and amount of what was added since the last reading that could know it."""

    def start(self) -> None:
        """Read everything once, while nothing has happened yet, and then again and again."""
        self._begin(range(len(self.engines)))

    def add(self, index: int) -> None:
        """An engine joined: what was known of its place is forgotten, it is read at once and from now on."""
        self.views[index].report = None
        self.read_at.pop(index, None)
        self.last_generated.pop(index, None)
        self.last_busy.pop(index, None)
        self._begin([index])

    def _begin(self, indices: Sequence[int]) -> None:
        new = [index for index in indices if index not in self.watched]
        self.watched.update(new)
        for number, group in enumerate(self.groups):
            for index in indices:
                self._read(number, index, delay=0)
            if group.jitter:
                for index in new:
                    self._watch_late(number, index)
            elif new:
                self._watch(number, new)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _watch(self, number: int, indices: Sequence[int]) -> None:
        """Read some engines at the same times."""
        group, env = self.groups[number], self.env

        def act() -> int:
            for index in indices:
                self._read(number, index, delay=group.delay)
            return env._now + group.period

        Watch(env, act, TELEMETRY).start(env._now + group.period)

    def _watch_late(self, number: int, index: int) -> None:
        """Read one engine at times of its own, late by chance."""
        group, env = self.groups[number], self.env
        chance = self._chance(number, index)
        begun = env._now
        turn = 0

        def due() -> int:
            nonlocal turn
            turn += 1
            return begun + turn * group.period + int(chance.random() * group.jitter)

        def act() -> int:
            self._read(number, index, delay=group.delay)
            return max(due(), env._now)

        Watch(env, act, TELEMETRY + 1 + index).start(due())

    def _chance(self, number: int, index: int) -> random.Random:
        found = self.chances.get((number, index))
        if found is None:
            found = self.chances[number, index] = self.make_chance(f"telemetry/{self.groups[number].names[0]}/{index}")
        return found

    def _read(self, number: int, index: int, *, delay: int) -> None:
        """Read one engine; what it says arrives later, or never."""
        group, engine, now = self.groups[number], self.engines[index], self.env._now
        if group.loss and self._chance(number, index).random() < group.loss:
            return
        if not engine.is_up:
            return
        reading = self._values(engine, group.names, now)
        self._compare(reading)
        if delay:
            arrived = (index, now, reading)
            whisper(self.env, now + delay, TELEMETRY + 1 + index, self._arrive, arrived)
        else:
            self._arrive((index, now, reading))

    def _compare(self, reading: Reading) -> None:
        """Note which signals say anything: one that is the same in every reading cannot tell engines apart."""
        for name, value in reading.items():
            if value is not None and not self.moved.get(name, False):
                self.moved[name] = self.first.setdefault(name, value) != value

    def _values(self, engine: Engine, names: Sequence[str], now: int) -> Reading:
        load, spec = engine.peek(now), self.spec
        values: Reading = {}
        for name in names:
            if name == "running":
                values["running"] = load.running
                if "tokens_per_s" in spec.also:
                    values["tokens_per_s"] = self._rate(engine.index, load.generated, now)
                if "busy_share" in spec.also:
                    values["busy_share"] = self._busy_share(engine.index, load.busy, now)
                if "ended" in spec.also:
                    values["ended"] = self.finished.means(engine.index, self.tick_s)
            elif name == "waiting":
                values["waiting"] = load.queued_tokens if spec.waiting.unit == "tokens" else load.waiting
                if "queued_tokens" in spec.also:
                    values["queued_tokens"] = load.queued_tokens
            elif name == "tokens":
                in_requests = spec.tokens.unit == "requests"
                values["tokens"] = load.running + load.waiting if in_requests else load.tokens
            elif name == "kv_share":
                values["kv_share"] = load.kv_share
            else:
                values["in_flight"] = self.own[engine.index]
        return values

    def _rate(self, index: int, generated: int, now: int) -> float | None:
        """Tokens a second since the reading before; None at the first, and where the engine restarted meanwhile."""
        before = self.last_generated.get(index)
        self.last_generated[index] = (now, generated)
        if before is None or before[0] == now or generated < before[1]:
            return None
        return (generated - before[1]) / ((now - before[0]) * self.tick_s)

    def _busy_share(self, index: int, busy: int, now: int) -> float | None:
        """Share of the time since the reading before; None at the first."""
        before = self.last_busy.get(index)
        self.last_busy[index] = (now, busy)
        if before is None or before[0] == now:
            return None
        return (busy - before[1]) / (now - before[0])

    # -- knowing -----------------------------------------------------------------------------------------------------

    def _arrive(self, arrived: tuple[int, int, Reading]) -> None:
        index, read, reading = arrived
        view = self.views[index]
        self.read_at[index] = max(read, self.read_at.get(index, read))
        if "in_flight" in reading:
            view.in_flight = reading.pop("in_flight")
        if not reading:
            return
        old = view.report
        known = EMPTY if old is None else {name: getattr(old, name) for name in EMPTY}
        report = Report(at=self.read_at[index] * self.tick_s, **{**known, **reading})
        for name in reading:
            for _, amount in self._later_than(index, name, read):
                setattr(report, name, getattr(report, name) + amount)
        view.report = report

    def _later_than(self, index: int, name: str, read: int) -> Sequence[tuple[int, int]]:
        """What was added to a signal after a reading; the rest is forgotten, the reading knows it."""
        credits = self.credits.get((index, name))
        while credits and credits[0][0] <= read:
            credits.popleft()
        return credits or ()

    def credit(self, moment: Moment, request: Request) -> None:
        """A dispatched request reached a moment from which it counts in some signals."""
        view = self.views[request.engine]
        for name in self.credited.get(moment, ()):
            signal = getattr(self.spec, name)
            amount = request.prompt_tokens if self._counts_tokens(name, signal) else 1
            self.credits.setdefault((view.index, name), deque()).append((self.env._now, amount))
            if view.report is not None:
                setattr(view.report, name, getattr(view.report, name) + amount)

    @staticmethod
    def _counts_tokens(name: str, signal: Reported) -> bool:
        unit = signal.unit if isinstance(signal, Counted) else None
        return unit == "tokens" if unit is not None else name == "tokens"

    def age(self, index: int, now: int) -> int:
        """Ticks since the newest reading of an engine that arrived; -1: none did."""
        read = self.read_at.get(index)
        return -1 if read is None else now - read


def exact_report(engine: Engine, now: int, tick_s: float) -> Report:
    """What an engine is at this moment."""
    load = engine.peek(now)
    return Report(now * tick_s, load.running, load.waiting, load.kv_share, load.tokens, load.queued_tokens)
