"""What a policy looks at, found by asking it: which signals, which counts, which caches; whether it matches prompts.

A few requests are shown to a policy of its own, over engines that note what is read of them: idle ones, then very
uneven ones, so that what is read only under load is read too, then prompts that come again in every encoding. A user's
own policy that fails here is taken to read all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policies._content import Content, count
from policies._protocol import Ended, EngineView, FleetView, Policy, Report, RequestView, pick_first
from sim.foreign import FAILURES

SIGNALS: Final = ("running", "waiting", "kv_share", "tokens", "queued_tokens", "tokens_per_s", "busy_share", "ended")
COUNT: Final = "in_flight"
CACHE: Final = "cached_tokens"
ALL: Final = frozenset({*SIGNALS, COUNT, CACHE})

_LOADS: Final = ((0, 0), (0, 0), (200, 0), (3, 90), (90, 3), (200, 150))
_PROMPTS: Final[tuple[Content, ...]] = (((1, 4096),), ((1, 4096), (2, 512)), ((3, 4096),))
_ENCODINGS: Final[tuple[Any, ...]] = ("text", "chat", "input_ids", "text")

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a policy looked at, and which prompts it matched."""

    reads: frozenset[str]
    """Names of signals of reports, ``in_flight``, ``cached_tokens``."""
    encodings: frozenset[str]
    """Ways for a prompt to travel (text, chat, input_ids) in which it was matched when it came again."""

    @property
    def matches(self) -> bool:
        """Whether it ever matched a prompt."""
        return bool(self.encodings)


class _Report(Report):
    """A report that notes which of its signals are read."""

    __slots__ = ("_note",)

    def __init__(self, note: Note, load: int) -> None:
        object.__setattr__(self, "_note", note)
        share, ended = min(load / 100, 0.9), Ended(100.0 + load, 50.0 + load, 0.1 + load, 1.0 + load)
        super().__init__(1.0, load, load, share, 100 * load, 10 * load, 100.0, share, ended)

    def __getattribute__(self, name: str) -> Any:
        if name in SIGNALS:
            object.__getattribute__(self, "_note")(name)
        return object.__getattribute__(self, name)


class _Engine(EngineView):
    """An engine that notes what is read of it."""

    __slots__ = ("_load", "_note")

    def __init__(self, index: int, note: Note) -> None:
        self._note = note
        self._load = 0
        super().__init__(index, f"http://engine-{index}:30000")

    @property
    def in_flight(self) -> int:
        self._note(COUNT)
        return self._load

    @in_flight.setter
    def in_flight(self, value: int) -> None:
        self._load = value

    @property
    def report(self) -> Report:
        return _Report(self._note, self._load)

    @report.setter
    def report(self, value: Report | None) -> None:
        pass

    @property
    def cached_tokens(self) -> Callable[[Content], int]:
        self._note(CACHE)
        return lambda content: count(content) * (self.index + 1) // 4

    @cached_tokens.setter
    def cached_tokens(self, value: Callable[[Content], int] | None) -> None:
        pass


def reads(policy: Policy) -> frozenset[str]:
    """Names of what a new policy reads of engines."""
    return ask(policy).reads


def ask(policy: Policy) -> Asked:
    """Show a new policy some requests; it keeps what it is asked."""
    noted: set[str] = set()
    engines: list[EngineView] = [_Engine(index, noted.add) for index in range(max(3, policy.min_engines))]
    fleet = FleetView(engines, list(engines))
    encodings = set()
    try:
        policy.start(fleet)
        for serial, loads in enumerate(_LOADS):
            engines[0].in_flight, engines[1].in_flight = loads
            headers = {name: f"key-{serial // 3}" for name in policy.key_headers if serial % 2}
            content: Content = ((0, 1000), (1 + serial // 2, 500))
            _ask(policy, fleet, RequestView(serial, headers, content, 1500, 100))
        engines[0].in_flight = engines[1].in_flight = 0
        for place, encoding in enumerate(_ENCODINGS):
            for content in _PROMPTS:
                serial += 1
                keyed = (*policy.key_headers, "x-smg-routing-key") if place else ()
                headers = dict.fromkeys(keyed, f"key {serial % 2}")
                if _ask(policy, fleet, RequestView(serial, headers, content, count(content), 16, encoding)):
                    encodings.add(encoding)
    except FAILURES:
        return Asked(ALL, frozenset())
    return Asked(frozenset(noted), frozenset(encodings))


def _ask(policy: Policy, fleet: FleetView, request: RequestView) -> bool:
    chosen, _, matched = policy.choose(request, fleet, float(request.id), pick_first)
    if chosen is not None:
        policy.dispatched(request, chosen)
        policy.first_token(request, chosen)
        policy.completed(request, chosen)
    return matched > 0
