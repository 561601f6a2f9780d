"""Routers as one installs them: which version takes which policy, and which of our kinds is that policy's rule.

The one place that knows products: scenarios (``router: {product, version, policy}``), recorded decisions and the
reference read it. What a version takes was read from the argument parsers of the published packages: sglang-router
0.2.3 to 0.3.2, smg 1.1.0, 1.9.0 and 1.13.0, vllm-router 0.1.12 and 0.1.17; from the tags of THUDM/slime and
NVIDIA-NeMo/Gym, and smg-project/smg between its releases. sglang-router 0.3.1 and 0.3.2 hold the code of
``consistent_hashing`` and ``prefix_hash`` and their parser refuses the names (THUDM/slime issue 1469; added to
sgl-project/sglang by pull request 17972 after 0.3.2); ``bucket`` is taken for a prefill pool alone. Versions stand
oldest first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Offer:
    """One policy of a product."""

    kind: str
    """Our policy with its rule; empty: no version's rule is modelled."""
    versions: tuple[str, ...]
    """Versions that take it by name."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of ours that say which product it is; a user of the product cannot set them."""
    option_versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that not all of these versions have, and those that do."""
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults of single versions where they differ from our kind's: version -> parameter -> value."""
    inside: tuple[str, ...] = ()
    """Versions that hold the rule but refuse its name on the command line."""
    other_rule: tuple[str, ...] = ()
    """Versions that take the name, and whose rule there has not been modelled."""


@dataclass(frozen=True, slots=True)
class Product:
    """One router."""

    versions: tuple[str, ...]
    policies: Mapping[str, Offer]
    """By the product's own names; the default policy stands first among those that a version takes."""


_SGLANG = ("0.2.3", "0.2.4", "0.3.0", "0.3.1", "0.3.2")
_SMG = ("1.1.0", "1.9.0", "1.13.0")
_VLLM = ("0.1.12", "0.1.17")
_SLIME = ("0.2.0", "0.2.1", "0.2.2", "0.2.3", "0.2.4", "0.3.0", "0.3.1")
_GYM = ("0.3.0", "0.4.0", "0.5.0", "c84b7ed4b")


def _smg(kind: str, *, since: str = "1.1.0", inside: tuple[str, ...] = ()) -> Offer:
    """A policy of smg, whose rules are modelled as those of the last version."""
    return Offer(kind, _SMG[-1:], inside=inside, other_rule=_SMG[_SMG.index(since) : -1])


def _slime(kind: str, since: str = "0.2.0", defaults: Mapping[str, Mapping[str, Any]] | None = None) -> Offer:
    """A policy of the gateway behind slime, which alone says whether a request carries its session's key."""
    adapters = {"agent_adapter": _SLIME[5:]}
    return Offer("slime.gateway", _SLIME[_SLIME.index(since) :], {"over": kind}, adapters, defaults or {})


_SLIME_THRESHOLDS: Final = {"balance_abs_threshold": 10, "balance_rel_threshold": 1.2}
"""Its own defaults, from 0.2.3 on."""


PRODUCTS: Final[Mapping[str, Product]] = {
    "sglang-router": Product(
        _SGLANG,
        {
            "cache_aware": Offer(
                "sglang.cache_aware",
                _SGLANG,
                defaults={
                    "0.2.3": {"eviction_interval_secs": 120.0, "miss": "smallest_tree"},
                    "0.2.4": {"eviction_interval_secs": 120.0},
                    "0.3.0": {"eviction_interval_secs": 120.0},
                },
                option_versions={"miss": ()},
            ),
            "random": Offer("random", _SGLANG),
            "round_robin": Offer("round_robin", _SGLANG),
            "power_of_two": Offer("power_of_two", _SGLANG[2:], {"load": "reports_only"}, other_rule=_SGLANG[:2]),
            "manual": Offer("sglang.manual", ("0.3.1", "0.3.2"), option_versions={"assignment_mode": ("0.3.2",)}),
            "bucket": Offer("sglang.bucket", (), inside=_SGLANG),
            "consistent_hashing": Offer("sglang.consistent_hashing", (), inside=("0.3.1", "0.3.2")),
            "prefix_hash": Offer("sglang.prefix_hash", (), inside=("0.3.1", "0.3.2")),
        },
    ),
    "smg": Product(
        _SMG,
        {
            "cache_aware": _smg("smg.cache_aware"),
            "random": Offer("random", _SMG),
            "round_robin": _smg("smg.round_robin"),
            "power_of_two": _smg("smg.power_of_two"),
            "manual": _smg("smg.manual"),
            "bucket": Offer("smg.bucket", (), inside=_SMG),
            "consistent_hashing": _smg("smg.consistent_hashing", since="1.9.0", inside=_SMG[:1]),
            "prefix_hash": _smg("smg.prefix_hash", since="1.9.0", inside=_SMG[:1]),
            "least_load": _smg("smg.least_load", since="1.9.0"),
            "passthrough": _smg("smg.passthrough", since="1.9.0"),
        },
    ),
    "vllm-router": Product(
        _VLLM,
        {
            "cache_aware": Offer("vllm.cache_aware", ("0.1.17",), other_rule=("0.1.12",)),
            "random": Offer("random", _VLLM),
            "round_robin": Offer("round_robin", _VLLM),
            "power_of_two": Offer("power_of_two", ("0.1.17",), {"load": "reports"}, other_rule=("0.1.12",)),
            "consistent_hash": Offer("vllm.consistent_hash", ("0.1.17",), other_rule=("0.1.12",)),
            "sticky_least_loaded": Offer("vllm.sticky_least_loaded", ("0.1.17",)),
            "kv_aware": Offer("", (), other_rule=("0.1.17",)),
        },
    ),
    "slime": Product(
        _SLIME,
        {
            "cache_aware": _slime("sglang.cache_aware", defaults=dict.fromkeys(_SLIME[3:], _SLIME_THRESHOLDS)),
            "random": _slime("random"),
            "round_robin": _slime("round_robin"),
            "power_of_two": _slime("power_of_two"),
            "manual": _slime("sglang.manual"),
            "consistent_hashing": _slime("sglang.consistent_hashing", since="0.2.3"),
            "slime_router": Offer("slime.router", _SLIME[:4]),
        },
    ),
    "nemo-gym": Product(
        _GYM,
        {
            "counter": Offer("gym.counter", _GYM[:3]),
            "sha256_mod": Offer("gym.sha256_mod", _GYM[3:]),
        },
    ),
}
"""Routers by the name of their package; NeMo Gym has no option for it, the names of its two rules are ours.
The versions of the gateway behind slime are not told apart."""


def said_of(kind: str) -> Iterator[str]:
    """One line for each product that has the rule of one of our kinds: its name for it, and the versions."""
    for product, each in PRODUCTS.items():
        for name, offer in each.policies.items():
            if offer.kind == kind:
                yield f"{product} {name}: {_versions(offer)}"


def _versions(offer: Offer) -> str:
    fixed = "".join(f" with {option} {value}" for option, value in offer.fixed.items())
    said = [f"{', '.join(offer.versions)}{fixed}"] if offer.versions else []
    for option, versions in offer.option_versions.items():
        if versions:
            said.append(f"{option} from {versions[0]} on")
    for version, defaults in offer.defaults.items():
        said += [f"{option} is {_plain(value)} in {version}" for option, value in defaults.items()]
    if offer.inside:
        said.append(f"in {', '.join(offer.inside)}, whose command line refuses it")
    if offer.other_rule:
        said.append(f"another rule, not modelled, in {', '.join(offer.other_rule)}")
    return "; ".join(said)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
