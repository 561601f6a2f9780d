"""What a policy is asked, what it may see, and what it answers.

A policy sees what a router sees: the headers and the content of a request, the limit the client set (never the
realised length), the router's own count of requests in flight, and what engines reported, as old as the telemetry
makes it. It answers with an engine and the name of the branch that led there. It is a dataclass: its fields are its
parameters, its class docstring is its entry in the reference. It draws no random numbers of its own: every random
choice goes through ``pick``, so recorded decisions of a real router can be put in its place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from policies._content import Content

T = TypeVar("T")

Pick = Callable[..., Any]
"""``pick(candidates, weights=None)`` returns one of the candidates, uniformly or by weight."""


@dataclass(slots=True)
class RequestView:
    """One request as a router receives it."""

    id: int
    """Serial number of the request; a retry keeps it."""
    headers: Mapping[str, str]
    """HTTP headers, names in lower case."""
    content: Content
    """The prompt as spans, counted in tokens."""
    prompt_tokens: int
    max_tokens: int | None = None
    """The client's limit on generated tokens. The realised length is not known to a router."""
    encoding: Literal["text", "chat", "input_ids"] = "text"
    """How the prompt travels: a text, chat messages, or token ids."""
    chars_per_token: float = 4.0
    """Characters that one token takes in the routing text."""
    rid: str | None = None
    """The request id that the client put into the body; few do."""


@dataclass(slots=True)
class Ended:
    """Means over the requests that ended on an engine."""

    prompt_tokens: float
    output_tokens: float
    prefill_s: float
    """From its first step to its first token."""
    decode_s: float
    """From the first token to the last."""


@dataclass(slots=True)
class Report:
    """What an engine last said of itself."""

    at: float
    """Time of the reading, seconds."""
    running: int
    waiting: int
    kv_share: float
    """Share of the KV pool in use, 0..1."""
    tokens: int
    """Tokens held by running and waiting requests."""
    queued_tokens: int | None = None
    """Prompt tokens of waiting requests that are not cached; None: the engine does not say."""
    tokens_per_s: float | None = None
    """Rate of generation; None: the engine does not say."""
    busy_share: float | None = None
    """Share of the time since the reading before in which it computed, 0..1; None: the engine does not say."""
    ended: Ended | None = None
    """What ended there so far; None: nothing did, or the engine does not say."""


@dataclass(slots=True, eq=False)
class EngineView:
    """One engine as the router knows it."""

    index: int
    """Position in the fleet (not in the router's order)."""
    url: str
    in_flight: int = 0
    """Requests this router dispatched and has not seen end."""
    is_available: bool = True
    report: Report | None = None
    cached_tokens: Callable[[Content], int] | None = None
    """Tokens of a prompt that the engine's cache holds, as its KV events tell; None: there are no such events."""


@dataclass(slots=True)
class FleetView:
    """The engines in the router's own order; the lists are live, kept by the router."""

    engines: list[EngineView]
    available: list[EngineView] = field(default_factory=list)


Choice = tuple[EngineView | None, str, int]
"""Chosen engine (None: refused, 503), name of the branch, matched tokens (0 where nothing was matched)."""


Led = Mapping[str, tuple[str, ...]]
"""Parameter -> names of branches."""


class Policy:
    """Base of all policies. Only ``choose`` must be written; what it may want to hear does nothing by default."""

    key_headers: ClassVar[tuple[str, ...]] = ()
    """Headers read as routing key, first one preferred; empty: the policy reads no key."""
    reads_content: ClassVar[bool] = False
    fallback: ClassVar[str | None] = None
    """Kind of the policy whose decisions a content reader makes when no two prompts share anything; None where no other
    policy decides so: prompts are hashed, or their size has a part in it."""
    arbitrary_order: ClassVar[bool] = False
    """True where the product iterates engines in an arbitrary order, drawn anew at each start."""
    min_engines: ClassVar[int] = 1
    places_by_hash: ClassVar[bool] = False
    """True where a routing key alone decides the engine, by a hash that spreads keys evenly but for the luck of it."""
    may_refuse: ClassVar[bool] = False
    """True where the product refuses some requests though an engine is available."""
    sees_all: ClassVar[bool] = False
    """True for a rule that no router could follow: reports are of this instant, and caches are known exactly."""

    keyless: ClassVar[tuple[str, ...]] = ("no_key", "no_session", "no_env", "random_fallback", "lowest_qps")
    """Branches of requests that came without a key, in a policy that reads one."""
    deciders: ClassVar[Led] = {}
    """Parameter -> branches that it leads to: a run that took none would be the same without the parameter."""
    vetoes: ClassVar[Led] = {}
    """Parameter -> branches where it turns a match down: a run without such a match would be the same without it."""

    def idle_fields(self) -> Iterator[str]:
        """Parameters as they are set that change no decision whatever happens, each with the reason."""
        yield from ()

    def refuse_negative(self, *names: str) -> None:
        """Refuse parameters below zero, for a policy's own construction."""
        for name in names:
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name} must be zero or more, not {value}")

    def start(self, fleet: FleetView) -> None:
        """Called once, before the first request."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose an engine for a request at ``now`` seconds."""
        raise NotImplementedError

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """The request was sent; ``engine.in_flight`` already counts it."""

    def first_token(self, request: RequestView, engine: EngineView) -> None:
        """The first token of the answer passed; only a router that streams answers can tell."""

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """The answer ended, well or not; ``engine.in_flight`` no longer counts it."""

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """An engine was added; ``fleet`` already holds it."""

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """An engine was removed; ``fleet`` no longer holds it."""


def pick_first(candidates: Sequence[T], weights: Sequence[float] | None = None) -> T:  # noqa: ARG001 - a Pick's signature
    """A ``pick`` without chance, for tests and for asking what a policy would do."""
    return candidates[0]
