"""Static sharding: the key's hash modulo the number of engines."""

from dataclasses import dataclass
from typing import Literal

from policies._hashes import xxh3_u64
from policies._keys import HEADERS, key_of
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Modulo(Policy):
    """``engines[XXH3-64(key) mod N]`` over all engines in the router's order.

    ``unavailable`` says what happens to keys of an engine that is down: ``next`` in order takes them all, ``refuse``
    fails them, ``rehash`` takes the modulus of the available engines instead, for every key. A request without a key
    is placed at random. Cost O(1), no state.

    Source: the rule of static sharding, as in verl's ``full_determinism``, SkyRL's sample integration and NeMo Gym's
    client; those products' own kinds have their own hashes.
    Known pathologies: a join or a leave moves 1 - 1/N of the keys; with ``next`` one engine carries two shares, with
    ``rehash`` nearly all keys move on each failure and back; blind to load.
    Checked against: the definition; shares of moved keys and multinomial counts by property tests.
    """

    unavailable: Literal["next", "refuse", "rehash"] = "next"
    """What becomes of the keys of an engine that is not available."""

    key_headers = HEADERS
    places_by_hash = True
    may_refuse = True

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the key's hash."""
        available, engines = fleet.available, fleet.engines
        if not available:
            return None, "no_engine", 0
        key = key_of(request)
        if not key:
            return pick(available), "no_key", 0
        if self.unavailable == "rehash":
            return available[xxh3_u64(key) % len(available)], "key", 0
        count = len(engines)
        place = xxh3_u64(key) % count
        if engines[place].is_available:
            return engines[place], "key", 0
        if self.unavailable == "refuse":
            return None, "unavailable", 0
        others = (engines[(place + step) % count] for step in range(1, count))
        return next(engine for engine in others if engine.is_available), "next_in_order", 0
