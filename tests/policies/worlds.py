"""Small worlds for policies: every member of the package, fleets, requests and streams of picks."""

import importlib
import inspect
import pkgutil
import random
from collections.abc import Iterator, Sequence

import policies
from policies._content import Content, count
from policies._protocol import EngineView, FleetView, Policy, Report, RequestView


def members() -> dict[str, type[Policy]]:
    """Each policy of the package by its kind."""
    return {
        name.removeprefix("policies."): cls
        for name in _modules()
        for cls in vars(importlib.import_module(name)).values()
        if inspect.isclass(cls) and cls.__module__ == name and not cls.__name__.startswith("_")
    }


def _modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(policies.__path__, "policies."):
        if not found.ispkg and not found.name.rsplit(".", 1)[1].startswith("_"):
            yield found.name


def fleet_of(size: int, loads: Sequence[int] = ()) -> FleetView:
    """Available engines with some requests in flight."""
    engines = [EngineView(place, f"http://engine-{place}:8000") for place in range(size)]
    for engine, load in zip(engines, loads, strict=False):
        engine.in_flight = load
    return FleetView(engines, list(engines))


def set_available(fleet: FleetView, up: Sequence[bool]) -> None:
    """Say which engines are available."""
    for engine, is_up in zip(fleet.engines, up, strict=True):
        engine.is_available = is_up
    fleet.available[:] = [engine for engine in fleet.engines if engine.is_available]


def ask(serial: int, content: Content = ((0, 10),), encoding: str = "text", **headers: str) -> RequestView:
    """A request; ``x_session_id="s"`` becomes the header ``x-session-id``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RequestView(serial, named, content, count(content), None, encoding, 1.0)


class Picks:
    """A stream of picks from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, candidates, weights=None):
        if weights is None:
            return candidates[self._random.randrange(len(candidates))]
        return self._random.choices(candidates, weights)[0]


def send(policy: Policy, fleet: FleetView, request: RequestView, picks: Picks, now: float = 0.0) -> EngineView:
    """Choose an engine and put the request in flight there."""
    engine = policy.choose(request, fleet, now, picks)[0]
    assert engine is not None
    engine.in_flight += 1
    policy.dispatched(request, engine)
    return engine


def finish(policy: Policy, request: RequestView, engine: EngineView) -> None:
    """End a request."""
    engine.in_flight -= 1
    policy.completed(request, engine)


class Desk:
    """A started policy to be asked for one choice after another; chance takes the first candidate and is noted."""

    def __init__(self, policy: Policy, *loads: int) -> None:
        self.policy = policy
        self.fleet = fleet_of(len(loads), loads)
        self.tied: list[int] = []
        """Engines, or other candidates, that the last choice left to chance; empty where it did not."""
        self.weights: Sequence[float] | None = None
        self.serial = 0
        policy.start(self.fleet)

    def load(self, *loads: int) -> None:
        """Set the requests in flight."""
        for engine, load in zip(self.fleet.engines, loads, strict=True):
            engine.in_flight = load

    def up(self, *up: bool) -> None:
        """Set which engines are available."""
        set_available(self.fleet, up)

    def report(self, place: int, at: float = 0.0, running: int = 0, waiting: int = 0, **more) -> None:
        """What an engine says of itself."""
        share, tokens = more.pop("kv_share", 0.0), more.pop("tokens", 0)
        self.fleet.engines[place].report = Report(at, running, waiting, share, tokens, **more)

    def join(self, engine: EngineView | None = None) -> EngineView:
        """Add an engine at the end."""
        engines = self.fleet.engines
        place = 1 + max(each.index for each in engines)
        engine = engine or EngineView(place, f"http://engine-{place}:8000")
        engines.append(engine)
        self.fleet.available[:] = [each for each in engines if each.is_available]
        self.policy.joined(engine, self.fleet)
        return engine

    def leave(self, index: int) -> EngineView:
        """Remove an engine."""
        engine = next(each for each in self.fleet.engines if each.index == index)
        self.fleet.engines.remove(engine)
        self.fleet.available[:] = [each for each in self.fleet.engines if each.is_available]
        self.policy.left(engine, self.fleet)
        return engine

    def request(self, content: Content = ((0, 10),), encoding: str = "text", **headers: str) -> RequestView:
        """A request with a serial number of its own."""
        self.serial += 1
        return ask(self.serial, content, encoding, **headers)

    def choose(self, request: RequestView | None = None, now: float = 0.0, **headers: str) -> tuple[int | None, str]:
        """Index of the chosen engine (None: refused) and the branch; nothing is sent."""
        self.tied, self.weights = [], None
        engine, branch, _ = self.policy.choose(request or self.request(**headers), self.fleet, now, self._pick)
        return (engine.index if engine else None), branch

    def send(self, request: RequestView | None = None, now: float = 0.0, **headers: str) -> tuple[int, RequestView]:
        """Choose, and put the request in flight; index and request."""
        request = request or self.request(**headers)
        index = self.choose(request, now)[0]
        engine = next(each for each in self.fleet.engines if each.index == index)
        engine.in_flight += 1
        self.policy.dispatched(request, engine)
        return engine.index, request

    def end(self, index: int, request: RequestView) -> None:
        """End a request."""
        engine = next(each for each in self.fleet.engines if each.index == index)
        finish(self.policy, request, engine)

    def _pick(self, candidates, weights=None):
        self.tied = [getattr(each, "index", each) for each in candidates]
        self.weights = weights
        return candidates[0]
