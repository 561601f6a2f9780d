"""What a scenario says of the client, of changes of the fleet and of the noise, as plain values.

They stand on the lowest floor so that the parts that act on them need not know the scenario.
"""

from dataclasses import dataclass, field
from typing import Literal

KeyScope = Literal["request", "session", "group", "sample"]

DEFAULT_HEADER = "x-smg-routing-key"


@dataclass(frozen=True, slots=True)
class ToolsSpec:
    """Environments with limited room, shared by all sessions; who comes waits in order of arrival."""

    concurrency: int | None = field(default=None, metadata={"min": 1})
    """Tool calls at once: the wait before a later turn holds a place for its time. Null: no limit."""
    boots: int | None = field(default=None, metadata={"min": 1})
    """Environments that start at once, each for its session's boot time. Null: no limit."""


@dataclass(frozen=True, slots=True)
class FeedbackCap:
    """A cap on samples in flight that follows what the engines say, as prime-rl's adaptive concurrency does."""

    start: int = field(metadata={"min": 1})
    """The first cap."""
    least: int = field(default=1, metadata={"min": 1})
    """The cap never falls below this."""
    most: int | None = field(default=None, metadata={"min": 1})
    """The cap never rises above this; null: no limit."""
    poll_s: float = field(default=5.0, metadata={"min": 1e-6})
    """Time between two looks at the engines."""
    growth: float = field(default=0.2, metadata={"min": 0, "max": 10})
    """Growth of the cap a turnover while no KV memory is in use; less the more is."""
    soft_share: float = field(default=0.8, metadata={"min": 0.01})
    """Share of the fullest engine's KV memory in use from which the cap is trimmed instead."""
    cut: float = field(default=0.75, metadata={"min": 0.01, "max": 1})
    """What the samples in flight are cut to when requests lose their memory."""

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other."""
        if self.most is not None and not self.least <= self.start <= self.most:
            raise ValueError(f"start must be from least to most, {self.least} to {self.most}, not {self.start}")
        if self.start < self.least:
            raise ValueError(f"start must be at least least, {self.least}, not {self.start}")


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """Who sends: how requests are keyed and how many may be under way."""

    key_scope: KeyScope = "session"
    """Requests that share a routing key: none (``request``), a session's, a group's; ``sample`` means ``session``."""
    header: str | None = None
    """Header that carries the key; absent: the first one that the policy reads, else ``x-smg-routing-key``."""
    max_sessions_in_flight: int | None = field(default=None, metadata={"min": 1})
    """Sessions under way at once, in the whole job; absent: no cap."""
    max_sessions_per_engine: int | None = field(default=None, metadata={"min": 1})
    """The same cap, given for each engine."""
    feedback_cap: FeedbackCap | None = None
    """A cap on samples in flight that follows the engines, in place of a fixed one. Null: none."""
    max_groups_in_flight: int | None = field(default=None, metadata={"min": 1})
    """Groups under way at once: the next one starts when all samples of one have ended. Null: no cap."""
    group_as_one_request: bool = False
    """Send the first turns of a group as one request for several answers: one decision, one engine, and all samples
    hold their places until the last answer of the group is there. It passes the client's processes once."""
    sample_time_limit_s: float | None = field(default=None, metadata={"min": 1e-9})
    """A sample ends this long after its start; a request in flight is aborted. Null: no limit."""
    tools: ToolsSpec | None = None
    """Limits of tools and environments. Null: none."""
    processes: int = field(default=1, metadata={"min": 1, "max": 1_000_000})
    """Client processes that prepare and send prompts; each request goes through one, drawn at random."""
    tokens_per_s: float | None = field(default=None, metadata={"min": 1e-6})
    """Prompt tokens that one process prepares a second, one prompt after the other. Null: no time."""
    turn_s: float = 0.0
    """Time that a turn takes in the client besides, however busy its process is."""
    deadline_s: float | None = None
    """A request that ends within this time counts for ``goodput_per_s``; absent: every finished one does."""
    keys: dict[int, str] | None = None
    """Explicit keys by session index; under group scope the whole group inherits the key of one of its sessions."""
    blocking: Literal["none", "placement"] = "none"
    """``placement``: random ids are drawn so that each placement class, as 2:2 or 3:1, gets a planned number of pairs;
    ratios and means are recombined by exact weights. For hashed keys, up to 8 on up to 4 engines."""
    key_salt: str = ""
    """Another draw of the random ids: arms that differ in it alone are equal in law and not in draws."""

    unkeyed_share: float = 0.0
    """Share of sessions whose requests carry no routing key, drawn for each session; explicit keys stay."""

    def __post_init__(self) -> None:
        """Refuse two caps, and keys or headers that cannot be sent."""
        if self.max_sessions_in_flight is not None and self.max_sessions_per_engine is not None:
            raise ValueError("max_sessions_per_engine and max_sessions_in_flight are two caps of one thing: give one")
        if self.unkeyed_share > 0 and self.scope == "request":
            raise ValueError(
                "unkeyed_share needs key_scope session or group: under request no two requests share a key"
            )
        if self.feedback_cap is not None and self.caps_sessions:
            raise ValueError("feedback_cap and max_sessions_in_flight or _per_engine are caps of one thing: give one")
        if self.group_as_one_request and (self.caps_sessions or self.feedback_cap is not None):
            raise ValueError("group_as_one_request needs max_groups_in_flight as its cap: a group starts as a whole")
        if self.processes > 1 and self.tokens_per_s is None:
            raise ValueError("processes needs tokens_per_s: without a rate they are not told apart")
        if self.header is not None and not _is_token(self.header):
            raise ValueError(f"header must be the name of an HTTP header, not {self.header!r}")
        for session, key in (self.keys or {}).items():
            if session < 0 or not key or not key.isascii() or not key.isprintable():
                raise ValueError(f"keys maps a session index to visible text, not {session} to {key!r}")

    @property
    def caps_sessions(self) -> bool:
        """Whether sessions wait for places."""
        return self.max_sessions_in_flight is not None or self.max_sessions_per_engine is not None

    @property
    def is_managed(self) -> bool:
        """Whether anything is asked for beyond keys and a cap on sessions."""
        asked = (self.feedback_cap, self.max_groups_in_flight, self.sample_time_limit_s, self.tools, self.tokens_per_s)
        return any(value is not None for value in asked) or self.turn_s > 0 or self.group_as_one_request

    @property
    def scope(self) -> Literal["request", "session", "group"]:
        """The key scope without its other name."""
        return "session" if self.key_scope == "sample" else self.key_scope

    def cap(self, engines: int) -> int | None:
        """Sessions under way at once in a fleet of this size; None: no cap."""
        if self.max_sessions_per_engine is not None:
            return self.max_sessions_per_engine * engines
        return self.max_sessions_in_flight


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in text)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens to the fleet at a given time.

    ``fail``: the engine is gone at once with its cache, and every request inside fails. ``leave``: the router chooses
    it no more; what it has may end within ``drain_s``, then it is gone. ``join``: new engines, cold.
    """

    what: Literal["fail", "leave", "join"]
    """What happens."""
    at_s: float
    """When, in seconds of the run."""
    engine: int | None = field(default=None, metadata={"min": 0})
    """The engine that fails or leaves, by its number; engines that join are numbered after those of the beginning."""
    restart_after_s: float | None = None
    """Time until an engine that failed is back, cold. Null: it does not come back."""
    drain_s: float | None = None
    """Time that an engine which leaves has for its requests. Null: as long as they take."""
    count: int = field(default=1, metadata={"min": 1, "max": 10_000})
    """Engines that join."""
    type: str | None = None
    """Their type, in a fleet of several."""

    def __post_init__(self) -> None:
        """Refuse what does not belong to the change."""
        known = {"fail": ("engine", "restart_after_s"), "leave": ("engine", "drain_s"), "join": ("count", "type")}
        empty = {"engine": None, "restart_after_s": None, "drain_s": None, "count": 1, "type": None}
        for name, default in empty.items():
            if name not in known[self.what] and getattr(self, name) != default:
                raise ValueError(f"{name} has no effect when the change is {self.what}")
        if self.what != "join" and self.engine is None:
            raise ValueError(f"engine is missing: the one that is to {self.what}")


@dataclass(frozen=True, slots=True)
class FailuresSpec:
    """Engines fail at random, each for itself, whatever they are doing; times are exponential."""

    mean_between_s: float = field(metadata={"min": 1e-3})
    """Mean time that an engine is up."""
    mean_repair_s: float = field(metadata={"min": 0})
    """Mean time until it is back, cold."""


@dataclass(frozen=True, slots=True)
class NoiseSpec:
    """What no recording fixes: standard deviations of the log of an engine's speed and of a step's time."""

    engine_speed_sigma: float = field(default=0.0, metadata={"min": 0, "max": 10})
    """Between engines, drawn once for each engine of a replication."""
    step_sigma: float = field(default=0.0, metadata={"min": 0, "max": 10})
    """Between stretches of equal steps."""
