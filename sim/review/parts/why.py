"""Part 8: where the engine-seconds go, what arithmetic alone says of it, and what is gone without the mechanism."""

import math
from collections.abc import Iterator
from typing import Final

from sim.log.account import MECHANISMS
from sim.report.ledger import SAYS, Entry, mechanisms
from sim.report.numbers import number
from sim.report.rule import percent
from sim.review._ablations import LEAST, REMOVED, Ablation
from sim.review._arithmetic import Arithmetic, predicted
from sim.review._gather import Evidence, unequal_work
from sim.review._knobs import brief
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms, turned, value, words
from sim.stats import Ratio
from sim.stats.shares import Share

MAKESPAN: Final = {"samples_per_s": 1, "requests_per_s": 1, "output_tokens_per_s": 1, "makespan_s": -1}
"""Metrics that are the makespan of a fixed amount of work, or its inverse."""
ROUNDED: Final = 0.005
ABOVE: Final = 1.1
"""Prefill over what placement allows, from which the review says so."""


EXACT: Final = (
    "Lines of the ledger sum to its last one exactly, in each arm and in the difference; means over pairs. "
    "A mechanism is the sum of its lines."
)
NOT_WHY: Final = (
    "A line says where time went, not why: no arm says that it takes the mechanism alone away "
    "(`ablates:` in the scenario, or --ablation)."
)
SHARES: Final = "Shares of an effect are of the logarithm of its ratio, over the pairs that were run both ways."


def why(ev: Evidence) -> Part:
    """8: where the engine-seconds go, and where the difference comes from."""
    lost = unequal_work(ev)
    first = [f"The arms did not do the same work: {lost}. A line that is less may be work not done."] if lost else []
    text = [*first, EXACT, *_by_arithmetic(ev)]
    tables = [_ledger(ev), _mechanisms(ev), _first_principles(ev)]
    if ev.ablation is None:
        text += [NOT_WHY]
    else:
        made = ev.ablations.made
        text += [f"{concluded(ev, each)} {_line(ev, each)}" for each in made]
        if ev.ablation.others:
            text += [f"Further ablations of {ev.candidate}, by --ablation: {', '.join(ev.ablation.others)}."]
        text += [SHARES]
        tables += [_ablation(ev, each, f"8.{4 + at}") for at, each in enumerate(made) if not each.lost]
    text += [f"Not switched off: {each}." for each in ev.ablations.notes]
    return Part(8, "Why", text, tables, figures=("timeline_baseline", "timeline_candidate"))


def main_mechanism(ev: Evidence) -> Entry:
    """The mechanism that moved most, either way."""
    return max(mechanisms(ev.ledger, ev.moved), key=lambda each: abs(each.difference.mean or 0.0))


def held(ev: Evidence) -> str:
    """The mechanism that is held to be the cause: one that an ablation shows to be it, else that which moved most."""
    shown = next((each.mechanism for each in ev.ablations.made if each.is_cause), None)
    named = ev.ablation.mechanism if ev.ablation is not None and ev.ablation.arm else None
    return shown or named or main_mechanism(ev).line


def concluded(ev: Evidence, ablation: Ablation) -> str:
    """What an ablation says of the effect, the conclusion first."""
    where, name = _where(ev, ablation), ablation.mechanism
    if ablation.lost:
        return f"NO ABLATION: {where} {ablation.lost:,} more requests never finished, so less work was done."
    whole, share = ablation.whole.ratio, ablation.share
    if whole is None or ablation.ratio.ratio is None or share is None or share.lo is None or share.hi is None:
        return f"Whether {name} is the cause is open: {where} there is no share of the effect."
    effect = "gain" if (whole < 1) == ev.is_lower_better else "loss"
    ratio = f"the ratio is {_ratio_of(ablation.ratio)} in place of {whole:.3f}"
    if not ablation.is_off:
        if ablation.arm and ablation.stays:
            said = f"most of the {effect} stays, and so does most of {name}: {ratio}"
            return f"{where[0].upper()}{where[1:]} {said}. So what that arm changes is not the cause."
        left = f"most of {name} stays {where}, so that this does not switch it off"
        return f"It is open whether the {effect} is {name}: {left}; {ratio}."
    if share.lo > 1:
        against = ("loss", "lose") if effect == "gain" else ("gain", "gain")
        instead = f"it is a {against[0]}" if ablation.arm else f"{ev.candidate} would {against[1]}"
        return f"The {effect} is {name}, and more than all of it: {where} {instead}, {ratio}."
    gone = f"{share.value:.0%} [{share.lo:.0%}, {share.hi:.0%}] of it is gone"
    if share.lo > REMOVED:
        gone = gone if share.value < 1 else "nothing of it is left"
        return f"{'The' if share.hi >= 1 else 'Most of the'} {effect} is {name}: {where} {gone}, {ratio}."
    if share.hi < 0:
        return f"The {effect} is NOT {name}, which works against it: {where} it would be larger, {ratio}."
    if share.hi < REMOVED:
        kept = f"{1 - share.value:.0%} [{1 - share.hi:.0%}, {1 - share.lo:.0%}] of it stays"
        return f"{'The' if share.lo <= 0 else 'Most of the'} {effect} is NOT {name}: {where} {kept}, {ratio}."
    return f"It is open how much of the {effect} is {name}: {where} {gone}, {ratio}."


def _where(ev: Evidence, ablation: Ablation) -> str:
    if ablation.change is None:
        return f"with {ablation.off} in both arms"
    return f"in arm {ablation.arm} ({ev.candidate} with {turned(*ablation.change)})"


def _line(ev: Evidence, ablation: Ablation) -> str:
    """What is gone of the mechanism's own lines of the ledger."""
    name = ablation.mechanism
    whole, own = ablation.seconds(name)
    found = ablation.gone(name)
    d = _decimals(ev.ledger[-1])
    if ablation.lost:
        return ""
    effect = "" if ablation.share is None else f"Of the effect {_share(ablation.share)} is gone. "
    if found is None:
        return f"{effect}{ev.candidate} moved nothing in {name}."
    seconds = f"{whole:+,.{d}f} engine-seconds over {ev.baseline}, {own:+,.{d}f} there"
    return f"{effect}Of {name} {_share(found)} is gone ({seconds})."


def _ratio_of(found: Ratio) -> str:
    return f"{found.ratio:.3f}" + ("" if found.lo is None else f" [{found.lo:.3f}, {found.hi:.3f}]")


def _share(found: Share) -> str:
    between = "" if found.lo is None or found.hi is None else f" [{found.lo:.0%}, {found.hi:.0%}]"
    lo, hi = (found.value if end is None else end for end in (found.lo, found.hi))
    word = "reversed, " if lo > 1 + ROUNDED else "grown, " if hi < -ROUNDED else ""
    return f"{word}{found.value:.0%}{between}"


def _between(found: Ratio) -> str:
    if found.ratio is None:
        return "–"
    return f"{found.ratio:.3f}" + ("" if found.lo is None else f" [{found.lo:.3f}, {found.hi:.3f}]")


def _decimals(total: Entry) -> int:
    """Two digits of the half-width of the whole difference's interval, three decimals at most; without one, of all."""
    lo, hi = total.difference.lo, total.difference.hi
    width = (hi - lo) / 2 if lo is not None and hi is not None and hi > lo else abs(total.baseline_s) / 1000
    return min(3, max(0, 1 - math.floor(math.log10(width)))) if width else 3


def moved_most(ev: Evidence) -> str:
    """The mechanisms that moved most, as shares of all that the baseline takes; empty where none moved by 1 %."""
    total = ev.ledger[-1].baseline_s
    found = sorted(mechanisms(ev.ledger, ev.moved), key=lambda each: -abs(each.difference.mean or 0.0))
    shares = [(each.line, (each.difference.mean or 0.0) / total) for each in found[:3]]
    told = [f"{name} {share:+.1%}" for name, share in shares if abs(share) >= LEAST]
    return words(told)


def _row(name: str, of: str, each: Entry, total: Entry) -> Row:
    d = _decimals(total)
    return (
        name,
        of,
        f"{each.baseline_s:,.{d}f}",
        f"{each.candidate_s:,.{d}f}",
        f"{each.difference.mean or 0.0:+,.{d}f}",
        "–" if each.difference.lo is None else f"[{each.difference.lo:+,.{d}f}, {each.difference.hi:+,.{d}f}]",
        f"{(each.difference.mean or 0.0) / total.baseline_s:+.1%}",
    )


def _ledger(ev: Evidence) -> Table:
    total = ev.ledger[-1]
    rows = [_row("engines x makespan" if each is total else SAYS[each.line], "", each, total) for each in ev.ledger]
    head = ("engine-seconds", *arms(ev), "difference", "95 %", "of the baseline")
    return Table("8.1", "Ledger", head, [(name, *rest) for name, _, *rest in rows])


def _mechanisms(ev: Evidence) -> Table:
    total = ev.ledger[-1]
    used = {each.line for each in ev.ledger}
    rows = [
        _row(each.line, "; ".join(SAYS[line] for line in MECHANISMS[each.line] if line in used), each, total)
        for each in mechanisms(ev.ledger, ev.moved)
    ]
    rows.append(_row("engines x makespan", "", total, total))
    head = ("mechanism", "lines of the ledger", *arms(ev), "difference", "95 %", "of the baseline")
    note = "engine-seconds; below 0: the candidate spends less. Time on the way and in the router is in its line."
    return Table("8.2", "Mechanisms", head, rows, note)


def _ablation(ev: Evidence, ablation: Ablation, number: str) -> Table:
    rows = []
    d, every = _decimals(ev.ledger[-1]), {name: ablation.seconds(name) for name in (*MECHANISMS, "total")}
    least = LEAST * max(abs(whole) for whole, _ in every.values())
    for name, (whole, own) in every.items():
        if whole or own:
            found = ablation.gone(name)
            tells = found is not None and found.lo is not None and abs(whole) >= least
            label = "engines x makespan" if name == "total" else name
            rows.append((label, f"{whole:+,.{d}f}", f"{own:+,.{d}f}", _share(found) if tells and found else "–"))
    title = f"The ablation arm {ablation.arm}" if ablation.arm else f"Both arms with {ablation.off}"
    head = ("engine-seconds over the baseline", ev.candidate, ablation.arm or f"with {ablation.off}", "gone, 95 %")
    off, as_is = _between(ablation.ratio), _between(ablation.whole)
    note = f"Ratio of {ev.primary.metric}: {off}, in place of {as_is}. "
    note += "Fieller's interval over pairs; no share of a difference that is not told from 0, or is next to nothing."
    if ablation.settings is not None:
        said = "; ".join(f"{path}: {brief(value)}" for path, value in ablation.settings.items())
        note = f"{ablation.ratio.pairs} pairs. Set in both arms: {said}. {note}"
    return Table(number, title, head, rows, note)


# -- first principles ---------------------------------------------------------------------------------------------


def _first_principles(ev: Evidence) -> Table:
    head = ("quantity", "formula, with its inputs", "arithmetic", "simulated", "simulated over arithmetic")
    note = "Means over the first workloads, and over all pairs. Memory without end, and no waiting."
    return Table("8.3", "What arithmetic alone says", head, list(_principles(ev)), note)


def _principles(ev: Evidence) -> Iterator[Row]:
    for name in arms(ev):
        own = ev.arithmetic[name]
        if own.placing is not None and own.prefill_tokens is not None:
            says = (
                f"sum over pieces of length x {_reached(own)}: {own.prompt_tokens:,.0f} prompt tokens, "
                f"{own.keys:,} keys (one a {own.placing.of}), N = {own.placing.engines}"
            )
            yield _compared(f"prefill tokens, {name}", says, own.prefill_tokens, _mean(ev, name, "prefill_tokens"))
        else:
            says = f"each piece once, its placement follows no closed form: {own.prompt_tokens:,.0f} prompt tokens"
            yield _compared(f"least prefill, {name}", says, own.ideal_tokens, _mean(ev, name, "prefill_tokens"))
    yield from _saved(ev)
    for name in arms(ev):
        own = ev.arithmetic[name]
        if own.fullest is not None and own.placing is not None:
            law = "E[max/mean] of a multinomial" if own.placing.law == "hash" else "ceil(K/N) N/K"
            says = f"{law}: K = {own.keys:,}, N = {own.placing.engines}"
            simulated = _mean(ev, name, "load_requests_max_over_mean")
            yield _compared(f"fullest engine over the mean, {name}", says, own.fullest, simulated)
    for name in arms(ev):
        own = ev.arithmetic[name]
        ceiling = 1 - own.ideal_tokens / own.prompt_tokens
        says = f"1 - {own.ideal_tokens:,.0f} / {own.prompt_tokens:,.0f}: one cache that forgets nothing"
        yield _compared(f"hit rate, ceiling, {name}", says, ceiling, _mean(ev, name, "prefix_hit_rate"))
    for name in arms(ev):
        drain = ev.arithmetic[name].drain
        if drain is not None:
            says = (
                f"E[max over engines of a Lmax + b sum(L) + c U]: a = {1e3 * drain.a_s:.4g} ms, b = "
                f"{1e3 * drain.b_s:.4g} ms, c = {1e6 * drain.c_s:.4g} us, longest answer {drain.longest:,.0f}"
            )
            yield _compared(f"makespan, s, {name}", says, drain.seconds, _mean(ev, name, "makespan_s"))
    if (ratio := _ratio(ev)) is not None and ev.primary.paired.ratio is not None:
        says = "of the two makespans above"
        yield _compared(f"ratio of {ev.primary.metric}", says, ratio, ev.primary.paired.ratio)


def _reached(own: Arithmetic) -> str:
    assert own.placing is not None
    return "N(1 - (1 - 1/N)^u)" + ("" if own.placing.law == "hash" else " to min(u, N)")


def _saved(ev: Evidence) -> Iterator[Row]:
    """Prefill saved, in seconds, against its line of the ledger."""
    one, other = (ev.arithmetic[name] for name in arms(ev))
    if one.prefill_tokens is None or other.prefill_tokens is None or one.prefill_tokens == other.prefill_tokens:
        return
    saved = one.prefill_tokens[0] - other.prefill_tokens[1], one.prefill_tokens[1] - other.prefill_tokens[0]
    line = next((each for each in ev.ledger if each.line == "prefill"), None)
    simulated = None if line is None or line.difference.mean is None else -line.difference.mean
    says = f"tokens saved x seconds a token: {_range(saved)} x {1e6 * one.prefill_s:.4g} us"
    seconds = saved[0] * one.prefill_s, saved[1] * one.prefill_s
    yield _compared("prefill saved, engine-seconds", says, seconds, simulated)


def _range(found: tuple[float, float]) -> str:
    least, most = found
    return number(least) if least == most else f"{number(least)} to {number(most)}"


def _compared(name: str, says: str, by_arithmetic: float | tuple[float, float], simulated: float | None) -> Row:
    """A range is held against its nearer end; what lies within it is as arithmetic says."""
    ends = by_arithmetic if isinstance(by_arithmetic, tuple) else (by_arithmetic, by_arithmetic)
    if simulated is None:
        return (name, says, _range(ends), "–", "–")
    near = min(max(simulated, ends[0]), ends[1])
    within = ends[0] != ends[1] and near == simulated
    over = "within" if within else f"{simulated / near:.3f}" if near else "–"
    return (name, says, _range(ends), number(simulated), over)


def _mean(ev: Evidence, arm: str, metric: str) -> float | None:
    values = ev.result.arms[arm].values[metric].drop_nulls().to_numpy()[: ev.pairs]
    return float(values.mean()) if len(values) else None


def _ratio(ev: Evidence) -> float | None:
    """Candidate over baseline in the metric that decides, by the drain alone."""
    sign = MAKESPAN.get(ev.primary.metric)
    gain = predicted(ev.arithmetic, ev.baseline, ev.candidate)
    return None if sign is None or gain is None else gain**sign


def _by_arithmetic(ev: Evidence) -> Iterator[str]:
    """How far the simulation is from arithmetic; surprising is said of nothing else."""
    paired, metric = ev.primary.paired, ev.primary.metric
    ratio = _ratio(ev)
    if ratio is None or paired.ratio is None:
        yield (
            f"Arithmetic gives no ratio of {metric} here (it has one where single turns start together and keys or "
            "turns place them), so nothing is called surprising; tokens, placement and ceilings are in table 8.3."
        )
    else:
        apart = paired.ratio / ratio - 1
        interval = value(paired.ratio, paired.lo, paired.hi)
        said = f"Arithmetic alone gives a ratio of {metric} of {ratio:.3f}; simulated {interval}, {apart:+.1%} from it"
        if abs(apart) > ev.lines.interest:
            yield f"{said}: SURPRISING, by more than the smallest effect of interest ({percent(ev.lines.interest)})."
        else:
            yield f"{said}: no surprise."
    for name in arms(ev):
        own, simulated = ev.arithmetic[name], _mean(ev, name, "prefill_tokens")
        if own.prefill_tokens and simulated and simulated > ABOVE * own.prefill_tokens[1]:
            over = simulated / own.prefill_tokens[1]
            yield (
                f"{name} computes {over:.2f} times the tokens that its placement asks for: evictions and preemptions, "
                "or prompts under way that do not see each other."
            )
