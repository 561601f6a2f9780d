"""Sticky keys as a layer over another policy, as smg 1.13.0 has it."""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._below import make
from policies._keys import KeysInFlight
from policies._manual import assign
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView
from policies.smg._headers import routing_key

_SUFFIX = re.compile(r"(_t\d+)?(_r\d+)?$", re.ASCII)
_REFUSED = ("consistent_hashing", "manual", "sticky_override")


@dataclass
class StickyOverride(Policy):
    """A key keeps the engine that the policy below gave it, unless 2 of its own requests are in flight there.

    The key is the body's request id if there is one, else ``X-SMG-Routing-Key``; of both one trailing ``_r<n>`` and
    then one trailing ``_t<n>`` are cut, so the attempts and turns of ``conv_t2_r1`` share the key ``conv``. Known key:
    its engine while that is available and has fewer than 2 of this key's requests in flight; otherwise it is placed as
    a new one, and the pin moves only if that gives another engine with fewer than 2 of them. New key: the policy below
    (``delegate``), or random, min_load, min_group as in ``smg.manual``; then pinned. No key: the policy below. Cost of
    the policy below, O(1) for a known key.

    Source: smg-project/smg at f8daa8835 (``--routing-key-override``, ``--sticky-sessions``). The names of key headers
    can be set in the product; here it is the default one. Left out: forgetting idle keys.
    Known pathologies: a group that shares one key with n parallel samples is spread in twos, not kept together.
    Checked against: recorded decisions of smg 1.13.0 over round_robin: keys, suffixes, request ids, requests over the
    limit.
    """

    over: str = "smg.round_robin"
    """Kind of the policy below, with its defaults; any but consistent hashing and manual."""
    assignment: Literal["delegate", "random", "min_load", "min_group"] = "delegate"
    """How a new key is placed."""
    max_in_flight: int = 2
    """Requests of a key on its engine from which the next one is placed anew."""

    key_headers = ("x-smg-routing-key",)
    arbitrary_order = True
    may_refuse = True
    deciders: ClassVar[Led] = {"max_in_flight": ("moved_key", "over_limit")}

    def __post_init__(self) -> None:
        self.refuse_negative("max_in_flight")
        self._below = make(self.over, _REFUSED)
        self._pins: dict[str, EngineView] = {}
        self._keys = KeysInFlight()

    def start(self, fleet: FleetView) -> None:
        """Start the policy below."""
        self._below.start(fleet)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Count the key's request."""
        key = _key(request)
        if key:
            self._keys.sent(key, engine)
        self._below.dispatched(request, engine)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Uncount it."""
        key = _key(request)
        if key:
            self._keys.ended(key, engine)
        self._below.completed(request, engine)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Tell the policy below."""
        self._below.joined(engine, fleet)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Unpin its keys, and tell the policy below."""
        self._pins = {key: pinned for key, pinned in self._pins.items() if pinned is not engine}
        self._keys.forget(engine)
        self._below.left(engine, fleet)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the key's engine, or place it."""
        if not fleet.available:
            return None, "no_engine", 0
        key = _key(request)
        if not key:
            return self._below.choose(request, fleet, now, pick)
        pinned = self._pins.get(key)
        if pinned is not None and pinned.is_available and self._has_room(key, pinned):
            return pinned, "pinned", 0
        engine, branch, matched = self._place(request, fleet, now, pick)
        if engine is None:
            return None, branch, 0
        if pinned is None:
            self._pins[key] = engine
            return engine, "new_key", matched
        if engine is not pinned and self._has_room(key, engine):
            self._pins[key] = engine
            return engine, "moved_key", matched
        return engine, "over_limit", matched

    def _has_room(self, key: str, engine: EngineView) -> bool:
        return self._keys.requests(key, engine) < self.max_in_flight

    def _place(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        if self.assignment == "delegate":
            return self._below.choose(request, fleet, now, pick)
        return assign(self.assignment, fleet.available, self._keys, pick), "assigned", 0


def _key(request: RequestView) -> str:
    """The request id or the routing key, without the marks of a turn and of an attempt."""
    return _SUFFIX.sub("", request.rid or routing_key(request))
