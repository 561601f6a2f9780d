"""Part 14: how this may be wrong: in its causes, its reach, its measure and its statistics, and in what is left out."""

from collections.abc import Iterator
from typing import Final

from sim.review._gather import Evidence
from sim.review._model import Part
from sim.review.parts.calibration import resembling
from sim.validation import agreement

NOT_MODELLED: Final = (
    "token values and sampling; output lengths are drawn or recorded, whatever the model would say",
    "attention of prefill and decode in one launch: about 10 % off on mixed batches, of both signs",
    "CUDA-graph padding, speculative decoding, LoRA, KV offload, pipeline and expert parallelism, skew of MoE experts",
    "the network, tokenisation and detokenisation, CPU contention between processes of one machine",
)


def threats(ev: Evidence) -> Part:
    """14: how this may be wrong."""
    found = [*_internal(ev), *_external(ev), *_construct(ev), *_statistical(ev)]
    return Part(14, "Threats to validity", found + [f"Not modelled: {each}." for each in NOT_MODELLED])


def _internal(ev: Evidence) -> Iterator[str]:
    """Whether the cause is the one that is held."""
    if ev.ablation is None:
        yield "Internal: no ablation takes the mechanism away, so the cause is read off the ledger alone."
    if ev.sensitivity is None:
        yield f"Internal: which assumption would turn the decision is not known ({ev.no_sensitivity})."
    else:
        turned = list(dict.fromkeys(bar.knob.name for bar, _ in ev.sensitivity.flips))
        said = f"{len(turned)} of {len(ev.sensitivity.bars)} assumptions that were varied turn the decision"
        yield f"Internal: {said} within their ranges{': ' + ', '.join(turned) if turned else ''}."
        still = [each.id for each in ev.assumptions if not each.is_varied and each.basis != "measured"]
        yield (
            "Internal: assumptions were varied one at a time and all together, as independent of each other; "
            f"{len(still)} guessed or documented ones were not varied ({', '.join(still)}: table 4.1 says why)."
        )
    guessed = [each.name for each in ev.assumptions if each.basis == "guessed"]
    yield f"Internal: {len(guessed)} of {len(ev.assumptions)} assumptions are guessed (part 4)."


def _external(ev: Evidence) -> Iterator[str]:
    """Whether it holds elsewhere."""
    outside = 1 - min(each.inside_share for each in ev.coverage.values())
    yield f"External: {outside:.1%} of the simulated time is outside what the cost model was fitted in."
    near = resembling(ev)
    found = agreement([row for case, _ in near for row in case.ratios])
    if found is None:
        yield f"External: of {len(near)} published cases that resemble this one none has a ratio of arms."
    else:
        yield (
            f"External: {len(near)} published cases resemble this one; of their {found.ratios} ratios {found.ordered} "
            f"came out in the published order, half of them within {found.median:.0%}."
        )


def _construct(ev: Evidence) -> Iterator[str]:
    """Whether the metric is what matters."""
    other = [each.metric for each in ev.found.findings[1:] if each.verdict and each.verdict.direction == "worse"]
    yield f"Construct: one metric decides ({ev.primary.metric}); a policy may win in it and lose what users feel."
    if other:
        yield f"Construct: {', '.join(other)} of the candidate are worse here."


def _statistical(ev: Evidence) -> Iterator[str]:
    """What the intervals do not say."""
    yield f"Statistical: {len(ev.found.findings) - 1} other metrics are shown without correction for their number."
    if ev.primary.paired.caution:
        words = {"few": "few pairs", "skewed": "skewed ratios"}[ev.primary.paired.caution]
        yield f"Statistical: {words} ({ev.pairs}): Student's interval alone, the bootstrap is refused."
