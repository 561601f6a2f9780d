"""Three widths of the predicted ratio, each by itself: of the simulation, of its inputs, of the model's form."""

import math
from dataclasses import dataclass

from sim.review._gather import Evidence
from sim.review._judge import Standing, oriented, standing
from sim.review.parts._words import probability
from sim.validation import agreement


@dataclass(frozen=True, slots=True)
class Width:
    """One width, as a table and as page one have it."""

    of: str
    says: str
    """The width, or that there is none."""
    what: str
    """What it is, and how it was found."""
    lo: float | None = None
    hi: float | None = None
    """Its ends, as ratios candidate over baseline; None where it is not quantified."""
    p_worse: float | None = None
    """Share of draws in which the mean is worse, where inputs are drawn together."""

    @property
    def ends(self) -> str:
        """The two ends alone, or what is said where there are none."""
        return self.says.partition(" (")[0]

    def stands(self, ev: Evidence, line: float = 1.0) -> Standing | None:
        """On which side of a line it lies, turned so that above is better; None where it is not quantified."""
        found = oriented(ev.primary.paired.ratio, self.lo, self.hi, lower_is_better=ev.is_lower_better)
        return None if found is None else standing(*found[1:], line)


def widths(ev: Evidence) -> tuple[Width, Width, Width]:
    """Simulation noise, input uncertainty, model form; never merged."""
    return _noise(ev), _inputs(ev), _form(ev)


def _noise(ev: Evidence) -> Width:
    paired = ev.primary.paired
    what = f"95 % interval of the mean of {ev.primary.metric} over {ev.pairs} pairs; more pairs narrow it"
    if paired.lo is None or paired.hi is None:
        return Width("simulation noise", "no interval", paired.reason or what)
    says = f"{paired.lo:.3f} to {paired.hi:.3f} (±{(paired.hi - paired.lo) / 2:.2%})"
    return Width("simulation noise", says, what, paired.lo, paired.hi)


def _inputs(ev: Evidence) -> Width:
    drawn = any(getattr(kind.engine.cost, "uncertainty", "none") != "none" for kind in ev.cell(ev.baseline).fleet)
    part = "; coefficients of the cost model are drawn in each replication, so their part is in the line above"
    said = part if drawn else ""
    found, ratio = ev.sensitivity, ev.primary.paired.ratio
    if found is None:
        return Width("input uncertainty", "not quantified", f"assumptions were {ev.no_sensitivity}{said}")
    if found.joint is None or ratio is None:
        told = {each.knob.id for each in found.worth}  # the others have pairs enough for a rank alone
        close = [bar.width for bar in found.bars if bar.knob.id in told]
        what = f"no joint draw; the widest of {len(close)} assumptions alone moves the ratio by that{said}"
        apart = f"±{math.expm1(max(close)):.1%} or more" if close else "not quantified"
        return Width("input uncertainty", apart, what)
    own = found.joint.spread
    if not own.sd:
        low, high = (ratio * math.exp(sign * own.most) for sign in (-1, 1))
        what = (
            f"{own.draws} draws of all {len(found.bars)} assumptions over their ranges (Latin hypercube) differ by no "
            f"more than {found.joint.pairs} pairs each do by chance; more pairs tell them apart{said}"
        )
        return Width("input uncertainty", f"no wider than {low:.3f} to {high:.3f}", what, low, high)
    low, high = (ratio * math.exp(own.mean + sign * own.half) for sign in (-1, 1))
    below = own.p_below(-math.log(ratio))
    p_worse = 1 - below if ev.is_lower_better else below
    what = (
        f"95 % of {own.draws} draws of all {len(found.bars)} assumptions over their ranges (Latin hypercube), "
        f"{found.joint.pairs} pairs each with the noise of pairs taken out; SD {own.sd:.1%}, where bars one at a time "
        f"add up to {found.joint.root_sum_square:.1%}; single draws {ratio * own.lowest:.3f} to "
        f"{ratio * own.highest:.3f}; its middle is the mean of the draws, not the "
        f"case as stated; the mean is worse in {probability(p_worse)}, draws taken as normal; "
        f"measuring narrows it (part 9){said}"
    )
    return Width("input uncertainty", f"{low:.3f} to {high:.3f}", what, low, high, p_worse)


def _form(ev: Evidence) -> Width:
    """From the record: how far published ratios of arms are met, by a factor either way."""
    found, ratio = agreement(ev.record.ratios), ev.primary.paired.ratio
    what = "what is not modelled (part 14) and errors beyond the fit"
    if found is None or ratio is None:
        return Width("model form", "not quantified", f"{what}; no published ratio is on record")
    old = "; the record is of an older version (part 6)" if ev.record.is_stale else ""
    factor = 1 + found.p90
    held, ratios = ev.record.held_out
    return Width(
        "model form",
        f"{ratio / factor:.3f} to {ratio * factor:.3f} (9 in 10 of {found.ratios} published ratios are met within a "
        f"factor of {factor:.2f})",
        f"{what}: half of the published ratios are met within a factor of {1 + found.median:.2f}, on other fleets and "
        f"workloads (part 6){old}; the factor of all other cases holds {held} of the {ratios} ratios of a case that is "
        "left out; no number of pairs narrows it",
        ratio / factor,
        ratio * factor,
    )
