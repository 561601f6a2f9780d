"""The sglang gateway as slime feeds it: which requests carry their session's key."""

from dataclasses import dataclass, replace
from typing import ClassVar

from policies._below import make
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_KEYED = "consistent_hashing"
_HEADER = "x-smg-routing-key"


@dataclass
class Gateway(Policy):
    """A policy of the sglang gateway that sees a routing key only where slime sends one.

    The built-in generation sends the sample's session id as ``X-SMG-Routing-Key`` exactly if the gateway's policy is
    called ``consistent_hashing``; with ``manual``, too, it sends none. The agent adapters always send it, but for the
    id ``default``. What else the client of a scenario says of keys stands as it is: samples of a group have keys of
    their own unless its scope is ``group``. Cost of the policy below.

    Source: THUDM/slime ``slime/rollout/sglang_rollout.py``, ``slime/agent/adapters/common.py`` and
    ``slime/backends/sglang_utils/arguments.py`` at 624b824a8; the key came with 0.2.3 (2026-03-12), and so did slime's
    own defaults of the balance thresholds, 10 and 1.2; the adapters came with 0.3.0.
    Known pathologies: ``manual``, which remembers keys, gets none from the built-in generation and is random there;
    slime switches the gateway's health checks and its circuit breaker off, so a dead engine keeps being chosen.
    Checked against: the source at the tags 0.2.3 to 0.3.1, by decision tables; the policy below as its own page says.
    """

    over: str = "sglang.cache_aware"
    """Kind of the gateway's policy, with its defaults but for the thresholds below."""
    agent_adapter: bool = False
    """Whether the agent adapters generate; they are there from slime 0.3.0 on."""
    balance_abs_threshold: int | None = None
    """That of the gateway's policy, where it has one (10 is slime's default from 0.2.3 on); null: as it is there."""
    balance_rel_threshold: float | None = None
    """The other threshold (1.2 from 0.2.3 on)."""

    key_headers: ClassVar[tuple[str, ...]] = (_HEADER,)
    arbitrary_order = True
    may_refuse = True

    def __post_init__(self) -> None:
        thresholds = {name: getattr(self, name) for name in ("balance_abs_threshold", "balance_rel_threshold")}
        set_here = {name: value for name, value in thresholds.items() if value is not None}
        self._below = make(self.over, not_below=("gateway", "sticky_override"), **set_here)
        self.min_engines = self._below.min_engines  # type: ignore[misc]
        self.reads_content = self._below.reads_content  # type: ignore[misc]
        self.places_by_hash = self._below.places_by_hash  # type: ignore[misc]
        sends = self.agent_adapter or self.over.rpartition(".")[2] == _KEYED
        self.key_headers = self._below.key_headers if sends else ()  # type: ignore[misc]
        self._hides = bool(self._below.key_headers) and not sends

    def start(self, fleet: FleetView) -> None:
        """Start the policy below."""
        self._below.start(fleet)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Tell the policy below."""
        self._below.dispatched(self._seen(request), engine)

    def first_token(self, request: RequestView, engine: EngineView) -> None:
        """Tell the policy below."""
        self._below.first_token(self._seen(request), engine)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Tell the policy below."""
        self._below.completed(self._seen(request), engine)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Tell the policy below."""
        self._below.joined(engine, fleet)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Tell the policy below."""
        self._below.left(engine, fleet)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Ask the policy below."""
        return self._below.choose(self._seen(request), fleet, now, pick)

    def _seen(self, request: RequestView) -> RequestView:
        """The request as it reaches the gateway."""
        if not self._hides and request.headers.get(_HEADER) != "default":
            return request
        return replace(request, headers={name: text for name, text in request.headers.items() if name != _HEADER})
