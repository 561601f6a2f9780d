"""What a scenario says of the router around its policy, as plain values.

The defaults of each block are those of sglang-router 0.3.2 and smg 1.13.0, where these have the part; a block that is
absent is off. Source: smg-project/smg ``src/core``, ``src/config`` and ``src/middleware`` at c7f9bf9f5.
"""

import copy
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from policies._protocol import Policy

Moment = Literal["choice", "delivery", "first_token", "report"]
Unit = Literal["requests", "tokens"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a decision costs: the router is a queue of its own, first come first served, before the choice.

    A decision holds one core for ``fixed_s + per_token_s * prompt tokens + per_candidate_s * available engines``; the
    policy is asked at its end. Requests that find no free core wait.
    """

    fixed_s: float = 0.0
    """Core time of any decision."""
    per_token_s: float = 0.0
    """Core time for each token of the prompt, as hashing it takes."""
    per_candidate_s: float = 0.0
    """Core time for each engine that is available when the decision begins."""
    cores: int = field(default=1, metadata={"min": 1})
    """Decisions that one replica makes at once."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Further tries of a request that an engine failed, or that found no engine (503); each selects again."""

    attempts: int = field(default=5, metadata={"min": 1})
    """Tries in all."""
    backoff_s: float = 0.05
    """Wait before the second try."""
    factor: float = field(default=1.5, metadata={"min": 1})
    """By which each further wait is longer."""
    max_backoff_s: float = 30.0
    """Longest wait, before jitter."""
    jitter_share: float = 0.2
    """A wait is this much longer or shorter at most, drawn evenly."""


@dataclass(frozen=True, slots=True)
class Health:
    """Probes of every engine: one that does not answer in time is not chosen from the ``fall``-th time on."""

    period_s: float = 60.0
    """Between two probes of an engine; the first is sent at this time."""
    timeout_s: float = 5.0
    """After which a probe without an answer has failed. An engine that is up answers at once."""
    fall: int = field(default=3, metadata={"min": 1})
    """Failures in a row that make an engine unavailable."""
    rise: int = field(default=2, metadata={"min": 1})
    """Answers in a row that make it available again."""

    def __post_init__(self) -> None:
        """Refuse probes that never come, or overtake each other."""
        _refuse_zero("period_s", self.period_s)
        if self.timeout_s > self.period_s:
            raise ValueError(f"timeout_s must be at most period_s ({self.period_s:g}), not {self.timeout_s:g}")


@dataclass(frozen=True, slots=True)
class Breaker:
    """A circuit breaker for each engine: after many failures it is left alone for a while, then tried."""

    failures: int = field(default=10, metadata={"min": 1})
    """Failed requests within ``window_s`` that open it."""
    window_s: float = 120.0
    """Seconds for which a failure counts."""
    half_open_s: float = 60.0
    """Seconds after which an open one lets requests through again; a failure then opens it anew."""
    successes: int = field(default=3, metadata={"min": 1})
    """Answers in a row that close a half-open one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on requests under way in one replica, with a queue before it."""

    concurrency: int = field(metadata={"min": 1})
    """Requests of one replica between their admission and their end, waits for a retry included."""
    queue_requests: int = field(default=100, metadata={"min": 0})
    """Requests that may wait; one more is refused at once (429)."""
    wait_s: float = 60.0
    """Longest wait; who is still there is refused (408)."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a signal is read and when it is known; what is absent is as ``telemetry`` says for all."""

    period_s: float | None = None
    """Between two readings of an engine."""
    delay_s: float | None = None
    """From a reading until the router knows it."""
    loss_share: float | None = None
    """Share of readings that never come."""
    jitter_s: float | None = None
    """A reading is this much late at most, drawn evenly for each replica, engine and reading."""


@dataclass(frozen=True, slots=True)
class Reported(Timing):
    """A signal that engines report and that the router may add to meanwhile."""

    visibility: Moment = "report"
    """When a request that the router dispatched counts: with the next report, or before it at its choice, its delivery
    or its first token; what was added is taken back by the first reading made after it."""


@dataclass(frozen=True, slots=True)
class Counted(Reported):
    """A reported signal whose unit differs between products."""

    unit: Unit | None = None
    """What is counted; absent: requests for ``waiting``, tokens for ``tokens``."""


@dataclass(frozen=True, slots=True)
class OwnCount(Timing):
    """The router's own count of what is in flight on each engine."""

    visibility: Moment = "choice"
    """When a dispatched request counts; ``report``: the count is read like a report, and policies see the last one."""
    unit: Unit = "requests"
    """Requests, or the tokens of their prompts."""

    def __post_init__(self) -> None:
        """Refuse times that would change nothing."""
        if self.visibility != "report":
            for each in fields(Timing):
                if getattr(self, each.name) is not None:
                    raise ValueError(f"{each.name}: the own count is read at times with visibility report alone")


SIGNALS: Final = ("running", "waiting", "tokens", "kv_share", "in_flight")


@dataclass(frozen=True, slots=True)
class TelemetrySpec:
    """What engines report and when the router knows it. The first readings are made before any request.

    Signals of equal timing come in one report, and are lost together. An engine that is down reports nothing.
    """

    period_s: float = 10.0
    """Between two readings of an engine."""
    delay_s: float = 0.0
    """From a reading until the router knows it."""
    loss_share: float = 0.0
    """Share of readings that never come."""
    jitter_s: float = 0.0
    """A reading is this much late at most."""
    running: Reported = field(default_factory=Reported)
    """Requests in the batch."""
    waiting: Counted = field(default_factory=Counted)
    """Requests in the queue."""
    tokens: Counted = field(default_factory=Counted)
    """Tokens of running and waiting requests."""
    kv_share: Timing = field(default_factory=Timing)
    """Share of the KV pool in use."""
    in_flight: OwnCount = field(default_factory=OwnCount)
    """The router's own count."""
    also: tuple[Literal["queued_tokens", "tokens_per_s", "busy_share", "ended"], ...] = (
        "queued_tokens", "tokens_per_s", "busy_share", "ended",
    )  # fmt: skip
    """What engines say besides, if they do: prompt tokens that wait uncached (comes with ``waiting``); and, with
    ``running``, how fast they generate, for what share of the time since the reading before they computed, and the mean
    size and times of the requests that finished there so far."""

    def __post_init__(self) -> None:
        """Refuse readings that never come, or overtake each other."""
        _refuse_zero("period_s", self.period_s)
        if self.jitter_s > self.period_s:
            raise ValueError(f"jitter_s must be at most period_s ({self.period_s:g}), not {self.jitter_s:g}")
        for name in SIGNALS:
            timing = self.timing(name)
            if timing.period_s == 0:
                raise ValueError(f"{name}: period_s must be more than 0")
            if timing.jitter_s > timing.period_s:
                raise ValueError(f"{name}: jitter_s must be at most the period of {timing.period_s:g} s")

    def timing(self, signal: str) -> "Times":
        """The timing of one signal, whole."""
        own: Timing = getattr(self, signal)
        return Times(*(getattr(self if getattr(own, name) is None else own, name) for name in _TIMING))


@dataclass(frozen=True, slots=True)
class Times:
    """A timing with nothing absent."""

    period_s: float
    delay_s: float
    loss_share: float
    jitter_s: float


_TIMING: Final = tuple(each.name for each in fields(Times))


@dataclass(frozen=True, slots=True)
class ExactIndex:
    """Knowledge of every engine's prefix cache by its KV events, exact but for the lag."""

    kind: Literal["exact"] = "exact"
    lag_s: float = 0.0
    """From a change in a cache until the router knows it."""


@dataclass(frozen=True, slots=True)
class Around:
    """Everything about the router but the rule it asks."""

    overhead_s: float = 0.0
    """From the choice until the request reaches its engine; it holds no core, see ``decision``."""
    replicas: int = field(default=1, metadata={"min": 1, "max": 10_000})
    """Routers, or client processes that route: each with its own policy, counts, order and random choices."""
    assignment: Literal["random", "session", "connection"] = "random"
    """How requests come to replicas: each by lot; all of a session to one, by lot; or by kept-alive connections: a
    request takes the free connection used last, and a new one goes to the next replica in turn."""
    decision: Decision | None = None
    """What a decision costs; absent: nothing."""
    telemetry: TelemetrySpec | None = None
    """What engines report; absent: nothing, and the own count is exact."""
    cache_index: ExactIndex | Literal["approximate", "none"] = "approximate"
    """What the policy knows of the engines' caches: ``{kind: exact, lag_s}`` by KV events; ``approximate``: its own
    index; ``none``: it is shown no content."""
    retries: Retries | None = None
    """Further tries after a failure; absent: none."""
    health: Health | None = None
    """Probes of engines; absent: none."""
    breaker: Breaker | None = None
    """A circuit breaker for each engine; absent: none."""
    limit: Limit | None = None
    """A limit on requests under way, with a queue; absent: none."""
    record_regret: bool = False
    """Whether each decision is held against the best one in hindsight, in the log; it changes nothing else, and costs
    a look at every engine for each decision."""

    @property
    def is_plain(self) -> bool:
        """Whether one process with exact counts and no cost is all that is asked for."""
        return all(getattr(self, each.name) == each.default for each in fields(self) if each.name not in _FREE)


_FREE: Final = ("overhead_s", "assignment")
"""Keys that a plain router knows, or that need no other router by themselves."""


@dataclass(frozen=True, slots=True)
class RouterSpec:
    """The router: the rule it asks and what is around it."""

    policy: Policy = field(compare=False)
    """The policy with its parameters; it is never asked, ``make_policy`` gives the one that is."""
    parameters: dict[str, Any]
    around: Around = field(default_factory=Around)

    def make_policy(self) -> Policy:
        """A new policy that has seen nothing."""
        return type(self.policy)(**copy.deepcopy(self.parameters))


def _refuse_zero(name: str, value: float) -> None:
    if value == 0:
        raise ValueError(f"{name} must be more than 0")
