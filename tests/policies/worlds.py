"""Small worlds for policies: every member of the package, fleets, requests and streams of picks."""

import importlib
import inspect
import pkgutil
import random
from collections.abc import Iterator, Sequence

import policies
from policies._content import Content, count
from policies._protocol import EngineView, FleetView, Policy, RequestView


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
