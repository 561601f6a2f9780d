"""Sticky keys of sglang-router 0.3.2."""

from dataclasses import dataclass

from policies._manual import ManualPolicy
from policies._protocol import RequestView


@dataclass
class Manual(ManualPolicy):
    """A known key goes to the first available of at most two remembered engines; a new one is placed and stays.

    In this order: no key (absent, empty or beyond visible ASCII): placed by ``assignment_mode``, nothing remembered.
    Known key: the first available engine of its list, oldest first; if none is, it is placed anew and appended, and the
    oldest of more than two drops out, so it goes back to its first engine when that recovers. New key: placed,
    remembered. Ties of a placement are uniform. Every ``eviction_interval_secs`` the keys idle for ``max_idle_secs``
    or more are forgotten. Engines that join receive new keys only. Cost O(1) for a known key, O(engines) for a new one.

    Source: smg-project/smg ``src/policies/manual.rs`` at c7f9bf9f5 (sglang-router 0.3.2).
    Known pathologies: load never moves a placed key; ``min_group`` counts keys in flight now, so keys that are placed
    but idle between turns count nothing; with ``random`` the split of keys is multinomial.
    Checked against: recorded decisions (min_load, min_group, failover, idle limit) and counts of both modes on an idle
    pool.
    """

    def _key(self, request: RequestView) -> str:
        key = request.headers.get("x-smg-routing-key", "")
        return key if key.isascii() else ""
