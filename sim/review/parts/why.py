"""Part 8: where the engine-seconds go, what arithmetic alone says of it, and what is gone without the mechanism."""

import math
from collections.abc import Iterator
from typing import Final

from sim.log.account import MECHANISMS
from sim.report.ledger import SAYS, Entry, mechanisms
from sim.report.numbers import number
from sim.report.rule import percent
from sim.review._arithmetic import Arithmetic, predicted
from sim.review._gather import Ablation, Evidence, unequal_work
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms, turned, value, words
from sim.stats.shares import Share

MAKESPAN: Final = {"samples_per_s": 1, "requests_per_s": 1, "output_tokens_per_s": 1, "makespan_s": -1}
"""Metrics that are the makespan of a fixed amount of work, or its inverse."""
LEAST: Final = 0.01
"""Share of the largest difference below which one has no shares."""
ROUNDED: Final = 0.005
REMOVED: Final = 0.5
"""Share of a mechanism that an ablation must take away to have taken it."""
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


def why(ev: Evidence) -> Part:
    """8: where the engine-seconds go, and where the difference comes from."""
    lost = unequal_work(ev)
    first = [f"The arms did not do the same work: {lost}. A line that is less may be work not done."] if lost else []
    text = [*first, EXACT, *_by_arithmetic(ev)]
    tables = [_ledger(ev), _mechanisms(ev), _first_principles(ev)]
    if ev.ablation is None:
        text += [NOT_WHY]
    else:
        text += [ablated(ev, ev.ablation)]
        if ev.ablation.others:
            text += [f"Further ablations of {ev.candidate}, by --ablation: {', '.join(ev.ablation.others)}."]
        if not ev.ablation.lost:
            tables.append(_ablation(ev, ev.ablation))
    return Part(8, "Why", text, tables, figures=("timeline_baseline", "timeline_candidate"))


def main_mechanism(ev: Evidence) -> Entry:
    """The mechanism that moved most, either way."""
    return max(mechanisms(ev.ledger, ev.moved), key=lambda each: abs(each.difference.mean or 0.0))


def ablated(ev: Evidence, ablation: Ablation) -> str:
    """What is gone of the mechanism that the arm takes away, or of the one that moved most."""
    path, one, other = ablation.change
    head = f"Arm {ablation.arm} is {ev.candidate} with {turned(path, one, other)}"
    if ablation.lost:
        return f"{head}. It is NO ABLATION: {ablation.lost:,} more of its requests never finished, so it did less work."
    name = ablation.mechanism or main_mechanism(ev).line
    whole, own = ablation.seconds(name)
    found = ablation.gone(name)
    d = _decimals(ev.ledger[-1])
    said = f"{ev.candidate} moved nothing in {name}" if found is None else f"{_share(found)} of {name} is gone"
    end = "" if found is None else f" ({whole:+,.{d}f} engine-seconds over {ev.baseline}, {own:+,.{d}f} without)"
    return f"{head}: {said}{end}. {_verdict(found)} {_effect(ev, ablation)}"


def _verdict(found: Share | None) -> str:
    if found is None or found.lo is None or found.hi is None:
        return "So the ablation says nothing of this mechanism."
    if found.lo > REMOVED:
        return "So the mechanism is what the arm says."
    if found.hi < REMOVED:
        return "So the mechanism is NOT what the arm says: most of it stays."
    return "So it is open whether this is the mechanism."


def _effect(ev: Evidence, ablation: Ablation) -> str:
    ratio, metric = ablation.ratio, ev.primary.metric
    if ratio.ratio is None or ev.primary.paired.ratio is None:
        return ""
    between = "" if ratio.lo is None else f" [{ratio.lo:.3f}, {ratio.hi:.3f}]"
    return f"Without it the ratio of {metric} is {ratio.ratio:.3f}{between} in place of {ev.primary.paired.ratio:.3f}."


def _share(found: Share) -> str:
    between = "" if found.lo is None or found.hi is None else f" [{found.lo:.0%}, {found.hi:.0%}]"
    lo, hi = (found.value if end is None else end for end in (found.lo, found.hi))
    word = "reversed, " if lo > 1 + ROUNDED else "grown, " if hi < -ROUNDED else ""
    return f"{word}{found.value:.0%}{between}"


def _decimals(total: Entry) -> int:
    """Two digits of the half-width of the whole difference's interval, three decimals at most; without one, of all."""
    lo, hi = total.difference.lo, total.difference.hi
    width = (hi - lo) / 2 if lo is not None and hi is not None and hi > lo else abs(total.baseline_s) / 1000
    return min(3, max(0, 1 - math.floor(math.log10(width)))) if width else 3


def moved_most(ev: Evidence) -> str:
    """The mechanisms that moved most, as shares of all that the baseline takes."""
    total = ev.ledger[-1].baseline_s
    found = sorted(mechanisms(ev.ledger, ev.moved), key=lambda each: -abs(each.difference.mean or 0.0))
    shares = [(each.line, (each.difference.mean or 0.0) / total) for each in found[:3]]
    told = [f"{name} {share:+.1%}" for name, share in shares if abs(share) >= LEAST]
    return words(told) or f"nothing by {LEAST:.0%} or more"


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


def _ablation(ev: Evidence, ablation: Ablation) -> Table:
    rows = []
    d, every = _decimals(ev.ledger[-1]), {name: ablation.seconds(name) for name in (*MECHANISMS, "total")}
    least = LEAST * max(abs(whole) for whole, _ in every.values())
    for name, (whole, own) in every.items():
        if whole or own:
            found = ablation.gone(name)
            tells = found is not None and found.lo is not None and abs(whole) >= least
            label = "engines x makespan" if name == "total" else name
            rows.append((label, f"{whole:+,.{d}f}", f"{own:+,.{d}f}", _share(found) if tells and found else "–"))
    head = ("engine-seconds over the baseline", ev.candidate, ablation.arm, "gone, 95 %")
    note = "Fieller's interval over pairs; no share of a difference that is not told from 0, or is next to nothing."
    return Table("8.4", f"The ablation arm {ablation.arm}", head, rows, note)


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
