"""Replays recorded decisions of real routers against a policy.

A vector is a scripted sequence of requests, with what a published router binary chose for each. A row is *determined*
where the policy's rule leaves one engine and *open* where it leaves a random choice: determined rows must agree
exactly, for open rows the recorded engine must be among those the rule allows. Either way the replay goes on from the
recorded choice, with the state that the policy has when it made it.

To find what a rule allows, a choice is run once for each way its random picks can fall, on copies of the whole world.
The same enumeration gives the exact distribution of a choice, which recorded counts are held against.

Left out: which policy models which router, and its parameters; the caller knows that.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from policies._content import Content, Spans, count
from policies._protocol import EngineView, FleetView, Policy, RequestView

Vector = Mapping[str, Any]
"""One recorded sequence, as read from JSON."""

_ROW_S = 0.001
"""Time that passes between two rows; pauses that matter are written in the vector."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded decision, and what the policy makes of it. Engines are named by address, None is a refusal."""

    id: str
    kind: Literal["determined", "open"]
    expected: str | None
    """What the router did."""
    got: str | None
    """What the policy did: the recorded choice, wherever the rule allows it."""
    allowed: tuple[str | None, ...]
    """All that the policy's rule allows."""
    branch: str
    """Way through the policy that led to what it did."""
    in_flight: Mapping[str, int]
    """Requests in flight on each engine when it was asked, in the router's order."""

    @property
    def passes(self) -> bool:
        """Whether the policy could have done what the router did."""
        return self.expected == self.got


@dataclass
class World:
    """A policy, the fleet it sees, and the requests in flight."""

    policy: Policy
    fleet: FleetView
    now: float = 0.0
    in_flight: dict[str, tuple[RequestView, EngineView]] = field(default_factory=dict)

    def dispatch(self, name: str, request: RequestView, engine: EngineView) -> None:
        """Send a request to an engine."""
        engine.in_flight += 1
        self.in_flight[name] = (request, engine)
        self.policy.dispatched(request, engine)

    def complete(self, name: str) -> None:
        """End a request."""
        request, engine = self.in_flight.pop(name)
        engine.in_flight -= 1
        self.policy.completed(request, engine)

    def engine(self, url: str) -> EngineView:
        """The engine at an address."""
        for engine in self.fleet.engines:
            if engine.url == url:
                return engine
        raise ValueError(f"no engine at {url}; there are {[engine.url for engine in self.fleet.engines]}")

    def refresh(self) -> None:
        """Bring the list of available engines up to date, in place."""
        self.fleet.available[:] = [engine for engine in self.fleet.engines if engine.is_available]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way a choice can fall."""

    url: str | None
    branch: str
    probability: float
    world: World
    """The world after the choice; the request is not yet sent."""


def open_world(policy: Policy, urls: Sequence[str], in_flight: Sequence[int] = ()) -> World:
    """A started policy over fresh engines, in the router's order."""
    engines = [EngineView(place, url) for place, url in enumerate(urls)]
    for engine, load in zip(engines, in_flight, strict=False):
        engine.in_flight = load
    world = World(policy, FleetView(engines, list(engines)))
    policy.start(world.fleet)
    return world


def replay(vector: Vector, policy: Policy) -> list[Row]:
    """Hold a fresh policy against a recorded sequence; one row for each recorded request."""
    world = open_world(policy, vector["workers"])
    listed: Sequence[str] = vector["workers"]
    spans = Spans()
    rows = []
    for serial, record in enumerate(vector["requests"]):
        for event in record.get("events_before", ()):
            _apply(event, world)
            listed = event.get("order_after", listed)
        _check(record, listed, world)
        request = _request(serial, record, vector, spans)
        row, world = _decide(record, request, world)
        rows.append(row)
        world.now += _ROW_S
    return rows


def outcomes(world: World, request: RequestView) -> Iterator[Outcome]:
    """Every way the next choice can fall, each on a copy of the world."""
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        script = scripts.pop()
        copy = deepcopy(world)
        picker = _Picker(script)
        engine, branch, _ = copy.policy.choose(request, copy.fleet, copy.now, picker)
        scripts.extend(picker.others())
        yield Outcome(engine.url if engine else None, branch, picker.probability, copy)


def distribution(world: World, request: RequestView) -> dict[str | None, float]:
    """Exact probability of each engine being chosen next."""
    shares: dict[str | None, float] = {engine.url: 0.0 for engine in world.fleet.engines}
    for outcome in outcomes(world, request):
        shares[outcome.url] = shares.get(outcome.url, 0.0) + outcome.probability
    return shares


class _Picker:
    """A ``pick`` that follows a script of places, then takes the first, and remembers what else could be."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self._taken: list[int] = []
        self._widths: list[int] = []
        self.probability = 1.0

    def __call__(self, candidates: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        step = len(self._taken)
        place = self._script[step] if step < len(self._script) else 0
        share = weights[place] / sum(weights) if weights else 1 / len(candidates)
        self._taken.append(place)
        self._widths.append(len(candidates))
        self.probability *= share
        return candidates[place]

    def others(self) -> Iterator[tuple[int, ...]]:
        """Scripts that differ from what was taken at a step after the script's end."""
        for step in range(len(self._script), len(self._taken)):
            for place in range(1, self._widths[step]):
                yield (*self._taken[:step], place)


def _decide(record: Mapping[str, Any], request: RequestView, world: World) -> tuple[Row, World]:
    """Compare one choice, and go on from what the router did."""
    expected = record["worker"]
    found = list(outcomes(world, request))
    allowed = tuple(dict.fromkeys(outcome.url for outcome in found))
    outcome = next((outcome for outcome in found if outcome.url == expected), found[0])
    in_flight = {engine.url: engine.in_flight for engine in world.fleet.engines}
    kind: Literal["determined", "open"] = "determined" if len(allowed) == 1 else "open"
    row = Row(record["id"], kind, expected, outcome.url, allowed, outcome.branch, in_flight)
    if expected is not None:
        outcome.world.dispatch(record["id"], request, outcome.world.engine(expected))
        if not record["hold"]:
            outcome.world.complete(record["id"])
    return row, outcome.world


def _check(record: Mapping[str, Any], listed: Sequence[str], world: World) -> None:
    """Refuse a vector whose recorded loads are not those of its own script."""
    loads = {engine.url: engine.in_flight for engine in world.fleet.engines}
    recorded = dict(zip(listed, record["inflight"], strict=True))
    if any(recorded[url] != load for url, load in loads.items()):
        raise ValueError(f"row {record['id']}: in flight by the script {loads}, recorded {recorded}")


def _apply(event: Mapping[str, Any], world: World) -> None:
    """What happened to the world between two rows."""
    fleet = world.fleet
    if "complete" in event:
        world.complete(event["complete"])
    elif "wait_s" in event:
        world.now += event["wait_s"]
    elif "health" in event:
        world.engine(event["health"]).is_available = event["ok"]
        world.refresh()
    elif "add" in event:
        joining = EngineView(1 + max(engine.index for engine in fleet.engines), event["add"])
        fleet.engines.append(joining)
        fleet.engines.sort(key=lambda engine: event["order_after"].index(engine.url))
        world.refresh()
        world.policy.joined(joining, fleet)
    elif "remove" in event:
        leaving = world.engine(event["remove"])
        fleet.engines.remove(leaving)
        world.refresh()
        world.policy.left(leaving, fleet)
    else:
        raise ValueError(f"unknown event {dict(event)}")


def _request(serial: int, record: Mapping[str, Any], vector: Vector, spans: Spans) -> RequestView:
    """The request as the router received it, one token for each symbol that the router counts."""
    body = record.get("extra_body") or {}
    encoding: Literal["text", "chat", "input_ids"] = "text"
    if vector["endpoint"].endswith("/chat/completions"):
        encoding = "chat"
    elif "input_ids" in body:
        encoding = "input_ids"
    content: Content = spans.encode(_symbols(record, vector["router"], encoding))
    headers = {name.lower(): value for name, value in record["headers"].items()}
    return RequestView(serial, headers, content, count(content), None, encoding, 1.0, body.get("rid"))


def _symbols(record: Mapping[str, Any], router: str, encoding: str) -> Sequence[Any]:
    """What a router compares: characters of its routing text, or token ids."""
    if encoding == "input_ids":
        ids = record["extra_body"]["input_ids"]
        return " ".join(map(str, ids)) if router == "sglang-router" else tuple(ids)
    if encoding == "text":
        return str(record.get("text") or "")
    messages = record.get("messages") or [{"role": "user", "content": record.get("text", "")}]
    if router == "vllm-router":
        return "".join(f"<{message['role']}>{_text(message)}\n" for message in messages)
    return " ".join(text for text in map(_text, messages) if text)


def _text(message: Mapping[str, Any]) -> str:
    """Text of a message; of a content in parts, the text parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part.get("type") == "text")
