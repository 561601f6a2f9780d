"""Of page one: how likely the candidate is worse, by which uncertainty, and what brings the losses.

A trigger is a condition of part 10 with more losses than chance would deal to it. That losses come with it and that the
mean is worse there are two things; the second is said by its interval alone.
"""

import math
from collections.abc import Sequence

from sim.report.numbers import counted
from sim.report.rule import percent
from sim.review._gather import Evidence
from sim.review._judge import oriented, standing
from sim.review._risks import Condition, conditions
from sim.review.parts._widths import widths
from sim.review.parts._words import probability, words
from sim.review.parts.calibration import recorded
from sim.review.parts.predictions import harmed, odds_said
from sim.review.parts.risk import worst_pairs
from sim.validation import agreement


def chance(ev: Evidence) -> str:
    """Of a pair, and of the mean by each width that has a probability; the record stands for the third."""
    said = odds_said(ev)
    if not said:
        return "No pair has a ratio."
    _, inputs, _ = widths(ev)
    if inputs.p_worse is not None:
        said += f" With uncertain inputs drawn together, as normal, the mean is worse in {probability(inputs.p_worse)}."
    return f"{said} {_by_record(ev)}"


def _by_record(ev: Evidence) -> str:
    """How often the model itself was farther off than the effect that it predicts."""
    rows, of = recorded(ev)
    found, ratio = agreement(rows), ev.primary.paired.ratio
    if found is None or ratio is None:
        return "How often the model itself is wrong is on no record."
    farther = sum(abs(math.log(row.error)) > abs(math.log(ratio)) for row in rows)
    return (
        f"The model's own errors come on top: of {of}, {farther} were missed by more than this effect and "
        f"{found.ratios - found.ordered} came out in the other order."
    )


def trigger(ev: Evidence) -> str:
    """What brings the losses."""
    found = conditions(ev)
    bringing = [each for each in found if each.brings_losses]
    if placed := [each for each in bringing if each.placement]:
        return _placed(ev, placed)
    if bringing:
        first = bringing[0]
        often = f"in {first.frequency:.1%} of {'all jobs' if first.is_exact else 'the pairs'}"
        return f"Mostly when {first.says}, {often}: {_lost(ev, [first])}. {_on_average(ev, [first])}"
    return _none(ev, found)


def _placed(ev: Evidence, bad: Sequence[Condition]) -> str:
    names, likely = words([str(each.placement) for each in bad]), sum(each.frequency for each in bad)
    return (
        f"Mostly when the hash puts the keys on the engines as {names}, in {likely:.1%} of all jobs: {_lost(ev, bad)}. "
        f"{_on_average(ev, bad)}"
    )


def _lost(ev: Evidence, bad: Sequence[Condition]) -> str:
    inside, every = sum(each.harmed for each in bad), sum(each.pairs for each in bad)
    first = bad[0]
    others, of_others = first.elsewhere[0] + first.harmed - inside, first.elsewhere[1] + first.pairs - every
    return f"{inside} of {every} such pairs lose more than {percent(ev.lines.harm)}, {others} of the {of_others} others"


def _on_average(ev: Evidence, bad: Sequence[Condition]) -> str:
    """The ratio in each, and on which side of 1 it is told to be."""
    said = []
    for each in bad:
        if each.ratio is None:
            continue
        turned = oriented(each.ratio, each.lo, each.hi, lower_is_better=ev.is_lower_better)
        stands = None if turned is None else standing(*turned[1:])
        mean = {"above": "still better", "below": "worse", "open": "a tie", None: "no interval"}[stands]
        where = f"at {each.placement} " if len(bad) > 1 else ""
        said.append(f"{where}{each.ratio:.3f} [{each.lo:.3f}, {each.hi:.3f}], {mean} on average")
    return f"The ratio there is {words(said)}." if said else ""


def _none(ev: Evidence, found: Sequence[Condition]) -> str:
    lost = harmed(ev, ev.primary)
    if lost is None or not lost.count:
        [(_, ratio), *_] = worst_pairs(ev) or [("–", "–")]
        return f"None: no pair loses more than {percent(ev.lines.harm)}. The worst of them has a ratio of {ratio}."
    said = (
        f"None is known: the {counted(lost.count, 'pair')} that lose come with no condition of part 10 beyond chance."
    )
    if rare := [str(each.placement) for each in found if each.placement and each.harmed and each.ratio is None]:
        said += f" Of them {_harmed_in(ev, rare)} fell {words(rare)}: too few to tell a trigger from chance."
    return said


def _harmed_in(ev: Evidence, classes: Sequence[str]) -> int:
    return sum(each.harmed for each in conditions(ev) if each.placement in classes)
