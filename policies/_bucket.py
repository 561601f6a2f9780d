"""Intervals of prompt lengths, one an engine, re-cut to equal shares of the characters seen lately.

The rule of the gateway's ``bucket`` policy; the products' files carry it as their reference. Lengths are characters.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_OPEN = (1 << 64) - 1
"""End of the last interval."""
_FIRST_RANGE = 4096


class Intervals:
    """The upper bound of each engine's interval, both ends included; the last one is open."""

    def __init__(self) -> None:
        self.engines: list[EngineView] = []
        self.bounds: list[int] = []
        self._range = _FIRST_RANGE
        self._share = 0

    def divide(self, engines: list[EngineView]) -> None:
        """Give each engine an equal part.

        Only the first division is of 4096: later ones are of the whole range, so the first engine has everything until
        the next re-cut.
        """
        self.engines = list(engines)
        if engines:
            part = self._range // len(engines)
            self._range = _OPEN
            self.bounds = [part * (place + 1) - 1 for place in range(len(engines) - 1)] + [_OPEN]

    def owner(self, length: int) -> EngineView:
        """The engine whose interval holds a length."""
        return self.engines[bisect_left(self.bounds, length)]

    def recut(self, lengths: list[int], total: int) -> None:
        """Cut anew from the lengths of the window, if the share of an engine changed by more than a factor of 2."""
        if not lengths or not self.engines:
            return
        share, before = total // len(self.engines), self._share
        if share <= 2 * before and before <= 2 * share and before != 0:
            return
        self._share = share
        self.bounds = _cut(sorted(lengths), share, len(self.engines))


def _cut(lengths: list[int], share: int, engines: int) -> list[int]:
    """Upper bounds such that each interval takes lengths, in ascending order, until they sum to a share."""
    bounds: list[int] = []
    lower = taken = 0
    for _ in range(engines - 1):
        load, upper = 0, lower + share
        while taken < len(lengths):
            length = lengths[taken]
            load += length
            taken += 1
            if load >= share:
                # Lengths of one value may fill several intervals; those after the first begin beyond it.
                upper = length if length > lower else upper
                break
        bounds.append(upper)
        lower = upper + 1
    return [*bounds, _OPEN]


@dataclass
class BucketPolicy(Policy):
    """The rule; see the products' files."""

    balance_abs_threshold: int = 64
    """Characters between the engines with most and fewest in the window above which the pool may be uneven."""
    balance_rel_threshold: float = 1.5
    """Ratio of most to fewest above which it may be."""
    bucket_adjust_interval_secs: float = 5
    """Seconds between re-cuts, and length of the window."""

    arbitrary_order = True
    may_refuse = True

    def __post_init__(self) -> None:
        self.refuse_negative("balance_abs_threshold", "balance_rel_threshold", "bucket_adjust_interval_secs")
        self._passes = Passes(self.bucket_adjust_interval_secs)
        self._intervals = Intervals()
        self._chars: dict[EngineView, int] = {}
        self._window: deque[tuple[float, int, EngineView]] = deque()
        self._total = 0

    def start(self, fleet: FleetView) -> None:
        """Give each engine an interval."""
        self._divide(fleet.engines)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Divide anew; all counts start at 0."""
        self._divide([*self._intervals.engines, engine])

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Divide anew; all counts start at 0."""
        self._divide([each for each in self._intervals.engines if each is not engine])

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the owner of the length's interval, or the engine with fewest characters."""
        if not fleet.available:
            return None, "no_engine", 0
        if self._passes.are_due(now):
            self._intervals.recut([chars for _, chars, _ in self._window], self._total)
        length = self._length(request)
        least, most = min(self._chars.values()), max(self._chars.values())
        if most - least > self.balance_abs_threshold and most > self.balance_rel_threshold * least:
            tied = [engine for engine, chars in self._chars.items() if chars == least]
            engine, branch = (tied[0] if len(tied) == 1 else pick(tied)), "fewest_chars"
        else:
            engine, branch = self._intervals.owner(length), "interval"
        self._count(engine, length, now)
        if not engine.is_available:
            return None, "unavailable", 0
        return engine, branch, 0

    def _length(self, request: RequestView) -> int:
        """Size of a prompt; its characters."""
        return int(request.prompt_tokens * request.chars_per_token)

    def _divide(self, engines: list[EngineView]) -> None:
        self._intervals.divide(engines)
        self._chars = dict.fromkeys(engines, 0)

    def _count(self, engine: EngineView, chars: int, now: float) -> None:
        """Add a request to the window, and drop what is older than it."""
        self._chars[engine] += chars
        window = self._window
        while window and now - window[0][0] > self.bucket_adjust_interval_secs:
            _, old, owner = window.popleft()
            self._total -= old
            if owner in self._chars:
                self._chars[owner] = max(0, self._chars[owner] - old)
        window.append((now, chars, engine))
        self._total += chars
