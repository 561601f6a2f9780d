"""How a router finds out that an engine does not serve: probes, and a circuit breaker over failed answers."""

from collections import deque
from collections.abc import Callable, Sequence

from sim.engine.shell import Engine
from sim.instants import FAILURE, TELEMETRY, Clock
from sim.router._watch import Watch, whisper
from sim.router.spec import Breaker, Health

Bar = Callable[[int, bool], None]
"""Called with an engine's index and whether it is not to be chosen."""


class Probes:
    """Asks every engine again and again whether it is up; who is down does not answer in time."""

    def __init__(self, env: Clock, spec: Health, tick_s: float, engines: Sequence[Engine], bar: Bar) -> None:
        self.env = env
        self.engines = engines
        """All that ever were; the list grows when one joins."""
        self.fall, self.rise = spec.fall, spec.rise
        self.period, self.timeout = round(spec.period_s / tick_s) or 1, round(spec.timeout_s / tick_s)
        self.bar = bar
        self.streaks: dict[int, int] = {}
        """By engine: answers in a row, or failures in a row as a negative number."""
        self.barred: set[int] = set()
        self.watch = Watch(env, self._probe, TELEMETRY)

    def start(self) -> None:
        """Send the first probes one period from now."""
        self.watch.start(self.env._now + self.period)

    def _probe(self) -> int:
        now = self.env._now
        for engine in self.engines:
            if engine.is_up:
                self._note(engine.index, True)
            else:
                whisper(self.env, now + self.timeout, TELEMETRY + 1 + engine.index, self._miss, engine.index)
        return now + self.period

    def _miss(self, index: int) -> None:
        self._note(index, False)

    def _note(self, index: int, is_up: bool) -> None:
        streak = self.streaks.get(index, 0)
        self.streaks[index] = streak = max(streak, 0) + 1 if is_up else min(streak, 0) - 1
        if index in self.barred and streak >= self.rise:
            self.barred.discard(index)
            self.bar(index, False)
        elif index not in self.barred and -streak >= self.fall:
            self.barred.add(index)
            self.bar(index, True)

    def forget(self, index: int) -> None:
        """Another process serves there now."""
        self.streaks.pop(index, None)
        self.barred.discard(index)


class Circuits:
    """A circuit breaker for each engine: closed, open (barred), half open (tried)."""

    def __init__(self, env: Clock, spec: Breaker, tick_s: float, bar: Bar) -> None:
        self.env = env
        self.spec = spec
        self.window, self.half_open = round(spec.window_s / tick_s), round(spec.half_open_s / tick_s)
        self.bar = bar
        self.failures: dict[int, deque[int]] = {}
        """By engine: ticks of its failures within the window."""
        self.successes: dict[int, int] = {}
        """By half-open engine: answers in a row."""
        self.open: dict[int, int] = {}
        """By open engine: serial number of the call that lets it half open."""

    def note(self, index: int, is_failure: bool) -> None:
        """An answer came; answers of requests that were sent before it opened change nothing."""
        if index in self.open:
            return
        if is_failure:
            now, failures = self.env._now, self.failures.setdefault(index, deque())
            failures.append(now)
            while failures[0] <= now - self.window:
                failures.popleft()
            if index in self.successes or len(failures) >= self.spec.failures:
                self._open(index)
        elif index in self.successes:
            self.successes[index] += 1
            if self.successes[index] >= self.spec.successes:
                self.forget(index)

    def _open(self, index: int) -> None:
        self.forget(index)
        self.open[index] = self.env.at(self.env._now + self.half_open, FAILURE + index, self._half_open, index)
        self.bar(index, True)

    def _half_open(self, index: int) -> None:
        if self.open.get(index) == self.env.happening:
            del self.open[index]
            self.successes[index] = 0
            self.bar(index, False)

    def forget(self, index: int) -> None:
        """Close: nothing is held against the engine."""
        self.failures.pop(index, None)
        self.successes.pop(index, None)
        self.open.pop(index, None)
