"""Part 14: how this may be wrong."""

from typing import Final

from sim.review._gather import Evidence
from sim.review._model import Part

NOT_MODELLED: Final = (
    "token values and sampling; output lengths are drawn or recorded, whatever the model would say",
    "attention of prefill and decode in one launch: about 10 % off on mixed batches, of both signs",
    "CUDA-graph padding, speculative decoding, LoRA, KV offload, pipeline and expert parallelism, skew of MoE experts",
    "the network, tokenisation and detokenisation, CPU contention between processes of one machine",
)


def threats(ev: Evidence) -> Part:
    """14: how this may be wrong."""
    outside = 1 - min(each.inside_share for each in ev.coverage.values())
    found = [f"Not modelled: {each}." for each in NOT_MODELLED]
    found += [f"Construct: one metric decides ({ev.primary.metric}); a policy may win in it and lose what users feel."]
    found += [f"External: {outside:.1%} of the simulated time is outside what the cost model was fitted in."]
    found += [f"Statistical: {len(ev.found.findings) - 1} other metrics are shown without correction for their number."]
    found += [_internal(ev)]
    return Part(14, "Threats to validity", found)


def _internal(ev: Evidence) -> str:
    if ev.sensitivity is None:
        return f"Internal: which assumption would turn the decision is unknown: they were {ev.no_sensitivity}."
    still = [each.id for each in ev.assumptions if not each.is_varied and each.basis != "measured"]
    return (
        "Internal: assumptions were varied one at a time and all together, as independent of each other; "
        f"{len(still)} guessed or documented ones were not varied ({', '.join(still)}: table 4.1 says why)."
    )
