"""Sticky keys of smg 1.13.0."""

from dataclasses import dataclass

from policies._manual import ManualPolicy
from policies._protocol import RequestView
from policies.smg._headers import routing_key


@dataclass
class Manual(ManualPolicy):
    """A known key goes to the first available of at most two remembered engines; a new one is placed and stays.

    The rule of ``sglang.manual``; keys may be any UTF-8 here, and one of more than 128 bytes counts as absent. No key:
    placed by ``assignment_mode``, nothing remembered. Known key: the first available engine of its list, oldest first;
    if none is, it is placed anew and appended, and the oldest of more than two drops out. Ties of a placement are
    uniform. Cost O(1) for a known key, O(engines) for a new one.

    Source: smg-project/smg ``model_gateway/src/policies/manual.rs`` at f8daa8835.
    Known pathologies: load never moves a placed key; ``min_group`` counts keys in flight now, so keys that are placed
    but idle between turns count nothing; with ``random`` the split of keys is multinomial.
    Checked against: recorded decisions (min_load, min_group, failover, idle limit) and counts of both modes on an idle
    pool of smg 1.13.0.
    """

    def _key(self, request: RequestView) -> str:
        return routing_key(request)
