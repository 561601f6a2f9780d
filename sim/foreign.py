"""A user's own policy, workload or cost model: what it raises or returns wrongly is one line that names its place.

Shipped members are tested and run as they are; a class from a user's file is wrapped. Each call is guarded, each answer
of a policy is held against the protocol, and the views that it was shown must be as they were. What slips through (a
session built late, a helper called from elsewhere) is told by the frames of its traceback, where a replication ends.

Left out: a file that prints, sleeps or draws its own random numbers does so unhindered.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter, index
from typing import Any, Final, NoReturn

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from sim import registry
from sim.cost._coefficients import Coefficients
from sim.errors import LawError, ScenarioError
from sim.workload._model import Session, Workload

FAILURES: Final = (Exception, SystemExit, GeneratorExit)
"""What ends a call; Ctrl-C is not the user's code."""
MOST_MATCHED: Final = 2**53
TRAITS: Final = ("key_headers", "reads_content", "fallback", "arbitrary_order", "min_engines", "may_refuse")
RETURNS: Final[dict[str, type | tuple[type, ...]]] = {
    "generate": Workload,
    "session": Session,
    "compile": Coefficients,
    "files": list,
}
"""What methods of workloads and cost models give; a wrong type is found where it is made."""

_ENGINE = attrgetter("index", "url", "in_flight", "is_available", "report")
_REQUEST = attrgetter("id", "content", "prompt_tokens", "max_tokens", "encoding", "chars_per_token", "rid")


def is_own(value: object) -> bool:
    """Whether a value's class comes from a user's file."""
    return type(value).__module__ in registry.OWN


def culprit(error: BaseException) -> tuple[str, str] | None:
    """``file:line`` and function of the user's code that an error came through; None: it was not theirs."""
    entered, place = "", ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        shown = registry.OWN.get(trace.tb_frame.f_globals.get("__name__", ""))
        if shown is not None:
            entered, place = entered or code.co_qualname, f"{shown}:{trace.tb_lineno}"
        trace = trace.tb_next
    return (place, entered) if entered else None


def _at(value: object, method: str) -> tuple[str, str]:
    """Where the class of a value writes a method."""
    cls = type(value)
    code = getattr(getattr(cls, method, None), "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None else ""
    return f"{registry.OWN[cls.__module__]}{line}", f"{cls.__name__}.{method}"


def _raised(place: tuple[str, str], error: BaseException) -> ScenarioError:
    text = registry.first_line(error)
    return ScenarioError(f"{place[0]}: {place[1]} raised {type(error).__name__}{f': {text}' if text else ''}")


def _call(value: object, method: str, *arguments: Any, **named: Any) -> Any:
    """Call a method of the user's; what it refuses as a scenario's error passes as it is."""
    try:
        return getattr(value, method)(*arguments, **named)
    except ScenarioError:
        raise
    except FAILURES as error:
        raise _raised(culprit(error) or _at(value, method), error) from None


class Guarded:
    """A workload or cost model of the user's: every method call is guarded, all else passes."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._value, name)
        return partial(self._ask, name) if callable(found) else found

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        answer = _call(self._value, method, *arguments, **named)
        wanted = RETURNS.get(method, object)
        if not isinstance(answer, wanted):
            place, name = _at(self._value, method)
            raise ScenarioError(f"{place}: {name} must return a {RETURNS[method].__name__}, not {_short(answer)}")  # type: ignore[union-attr]
        return guard(answer)


def guard(value: Any) -> Any:
    """The value, wrapped if its class is the user's."""
    return Guarded(value) if is_own(value) else value


class CheckedPolicy(Policy):
    """A policy of the user's, asked through checks that shipped policies do not pay for."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._engines: set[EngineView] = set()
        for name in TRAITS:
            setattr(self, name, getattr(policy, name))

    def start(self, fleet: FleetView) -> None:
        self._engines = set(fleet.engines)
        before = _fleet(fleet)
        _call(self._policy, "start", fleet)
        self._compare("start", before, _fleet(fleet))

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        before = _fleet(fleet), _request(request)
        choice = _call(self._policy, "choose", request, fleet, now, partial(_pick, pick))
        self._compare("choose", before, (_fleet(fleet), _request(request)))
        return self._valid(choice)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        self._tell("dispatched", request, engine)

    def first_token(self, request: RequestView, engine: EngineView) -> None:
        self._tell("first_token", request, engine)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        self._tell("completed", request, engine)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        self._engines.add(engine)
        _call(self._policy, "joined", engine, fleet)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        self._engines.discard(engine)
        _call(self._policy, "left", engine, fleet)

    def _tell(self, method: str, request: RequestView, engine: EngineView) -> None:
        before = _request(request), _ENGINE(engine)
        _call(self._policy, method, request, engine)
        self._compare(method, before, (_request(request), _ENGINE(engine)))

    def _compare(self, method: str, before: Any, after: Any) -> None:
        if before != after:
            self._refuse("must not change the request and the engines that it is shown", method)

    def _valid(self, choice: Any) -> Choice:
        """The choice, if it is one: an engine of the fleet or None, a branch, a number of tokens."""
        if not isinstance(choice, tuple) or len(choice) != 3:
            self._refuse(f"must return (engine or None, name of the branch, matched tokens), not {_short(choice)}")
        engine, branch, matched = choice
        if engine is not None and not (isinstance(engine, EngineView) and engine in self._engines):
            self._refuse(f"must return an engine of fleet.available or None, not {_short(engine)}")
        if engine is not None and not engine.is_available:
            self._refuse(f"chose {engine.url}, which is not available")
        if not isinstance(branch, str) or not branch or not branch.isprintable():
            self._refuse(f"must name its branch in one line of text, not {_short(branch)}")
        try:
            tokens = index(matched)
        except TypeError:
            tokens = -1
        if not 0 <= tokens <= MOST_MATCHED:
            self._refuse(f"must return a whole number of matched tokens, zero or more, not {_short(matched)}")
        return engine, branch, tokens

    def _refuse(self, rule: str, method: str = "choose") -> NoReturn:
        place, name = _at(self._policy, method)
        raise ScenarioError(f"{place}: {name} {rule}")


def checked(policy: Policy) -> Policy:
    """The policy, in checks if its class is the user's."""
    return CheckedPolicy(policy) if is_own(policy) else policy


def hears(policy: Policy, method: str) -> bool:
    """Whether a policy overwrites what by default does nothing."""
    return getattr(type(unwrapped(policy)), method) is not getattr(Policy, method)


def unwrapped(policy: Policy) -> Policy:
    """The policy itself, out of its checks."""
    return policy._policy if isinstance(policy, CheckedPolicy) else policy


def check_policy(policy: Any) -> None:
    """Refuse a policy of the user's, or its class, that is none or says of itself what cannot be."""
    cls = policy if isinstance(policy, type) else type(policy)
    if cls.__module__ not in registry.OWN:
        return
    if not issubclass(cls, Policy):
        raise ScenarioError(f"{cls.__name__} must extend Policy (from policies._protocol import Policy)")
    if cls.choose is Policy.choose:
        raise ScenarioError(f"{cls.__name__} does not define choose")
    headers = policy.key_headers
    if not isinstance(headers, tuple) or not all(isinstance(h, str) and h and h == h.lower() for h in headers):
        raise ScenarioError(f"{cls.__name__}.key_headers must be a tuple of names in lower case, not {_short(headers)}")
    for name in ("reads_content", "arbitrary_order", "may_refuse"):
        if not isinstance(value := getattr(policy, name), bool):
            raise ScenarioError(f"{cls.__name__}.{name} must be True or False, not {_short(value)}")
    if type(policy.min_engines) is not int:
        raise ScenarioError(f"{cls.__name__}.min_engines must be a whole number, not {_short(policy.min_engines)}")


@contextmanager
def explained(arm: str) -> Iterator[None]:
    """Around replications of an arm: errors of the user's code and numbers beyond all bounds become one line each."""
    try:
        yield
    except (ScenarioError, LawError):
        raise
    except FAILURES as error:
        if (place := culprit(error)) is not None:
            raise _raised(place, error) from None
        if _is_overflow(error):
            raise ScenarioError(
                f"arm {arm}: the numbers of this scenario overflow ({registry.first_line(error)}): "
                "a time, a size or a sigma is far too large"
            ) from None
        if isinstance(error, MemoryError):
            raise ScenarioError(f"arm {arm}: needs more memory than this machine has") from None
        raise


def _is_overflow(error: BaseException) -> bool:
    # A NaN comes of an infinity, and converting it is a ValueError; packing a long integer is a struct.error.
    return isinstance(error, OverflowError) or (isinstance(error, ValueError | struct.error) and _is_range(str(error)))


def _is_range(text: str) -> bool:
    return any(words in text for words in ("NaN", "too large", "out of range", "format requires"))


def _fleet(fleet: FleetView) -> tuple[Any, ...]:
    return [*map(_ENGINE, fleet.engines)], fleet.engines[:], fleet.available[:]


def _request(request: RequestView) -> tuple[Any, ...]:
    return _REQUEST(request), dict(request.headers)


def _pick(pick: Callable[..., Any], candidates: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
    """A random candidate; arguments that have no answer are refused."""
    if len(candidates) == 0:
        raise ValueError("pick needs at least one candidate")
    if weights is None:
        return pick(candidates)
    if len(weights) != len(candidates):
        raise ValueError(f"pick needs a weight for each of {len(candidates)} candidates, not {len(weights)}")
    if not all(0 <= weight < float("inf") for weight in weights) or not sum(weights) > 0:
        raise ValueError("pick needs finite weights, zero or more, not all zero")
    return pick(candidates, weights)


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except FAILURES:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
