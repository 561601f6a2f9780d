"""Placement blocking: session and group ids drawn until the keys fall into the class that is planned for a pair.

The class of a pair is planned by its number (``sim.placement``), so a campaign of any length holds each class as often
as it should, and luck does not decide how many pairs fall 4:0. Which engine a key goes to is asked of the policy itself
on an idle fleet. Ids are drawn anew, all at once, until the class fits: given its class a pair is an ordinary pair, so
class means under exact weights are unbiased. The first draw is the one that an unblocked pair would have used.

What blocks: a policy that places keys by a hash alone, 2 to 8 keys, 2 to 4 engines, no explicit keys. An arm without
that (its keys are many, or its policy looks at loads) draws its ids as ever; ``blocks`` says which it is.

A ring is not quite uniform. Its shares are drawn with the addresses of a pair; over pairs, of V points an engine, four
keys on two engines fall 4:0 with 1/8 + 3 / (4 (2 V + 1)), 1.9 % more often at 160 points. By uniform weights published
effects are off by a thousandth then, which is left out. So are engines that are down when a key comes for the first
time.
"""

from collections.abc import Callable, Sequence
from typing import Final

from policies._protocol import EngineView, FleetView, Policy, RequestView, pick_first
from sim.errors import ScenarioError
from sim.placement import class_name, has_classes, planned

MOST_DRAWS: Final = 10_000
"""Draws after which a class counts as out of reach; the rarest stratum takes about 20."""

Keys = Callable[[str], list[str]]
"""The routing key of each session when ids are drawn from streams whose purpose ends so."""


def blocks(policy: Policy, header: str, keys: int, engines: int) -> bool:
    """Whether placement classes of so many keys in this header can be planned."""
    read = header in [each.lower() for each in policy.key_headers]
    return policy.places_by_hash and read and has_classes(keys, engines)


def planned_keys(policy: Policy, header: str, urls: Sequence[str], keys: Keys, pair: int) -> list[str]:
    """The routing key of each session of a pair, in the class that is planned for it."""
    first = keys("")
    if not all(first) or not blocks(policy, header, len(set(first)), len(urls)):
        return first
    stratum = planned(len(set(first)), len(urls), pair)
    views = [EngineView(index, url) for index, url in enumerate(urls)]
    fleet = FleetView(views, [*views])
    policy.start(fleet)
    drawn, attempt = first, 0
    while placement_class(policy, header, fleet, drawn) not in stratum.classes:
        attempt += 1
        if attempt == MOST_DRAWS:
            raise ScenarioError(f"no keys fall {stratum.name} in {MOST_DRAWS:,} draws: this policy cannot be blocked")
        drawn = keys(f"/{attempt}")
    return drawn


def placement_class(policy: Policy, header: str, fleet: FleetView, keys: Sequence[str]) -> str:
    """The class into which the distinct ones of these keys fall on an idle fleet."""
    held = [0] * len(fleet.engines)
    for key in dict.fromkeys(keys):
        request = RequestView(0, {header: key}, ((0, 1),), 1)
        chosen, _, _ = policy.choose(request, fleet, 0.0, pick_first)
        if chosen is None:
            raise ScenarioError("the policy refuses a key on an idle fleet: it cannot be blocked by placement")
        held[chosen.index] += 1
    return class_name(held)
