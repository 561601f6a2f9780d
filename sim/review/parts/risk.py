"""Part 10: when the candidate is worse, how often that is, how it shows, and the pair to replay."""

import math
import shlex
from collections.abc import Iterator
from typing import Final

from sim.metrics import METRICS
from sim.report.contrast import log_ratios
from sim.report.rule import percent
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review._risks import Condition, conditions, least_hits
from sim.review.parts._words import share, value

WORST: Final = 5
"""Pairs shown."""


def risk(ev: Evidence, command: str) -> Part:
    """10: when the candidate is worse, and how often that is; ``command`` is that of the review."""
    found = conditions(ev)
    tables = [_conditions(ev, found), _worst(ev, command)]
    if elsewhere := list(_elsewhere(ev)):
        head = ("condition", "in the stated workload", "says")
        note = "From part 9: runs at other sizes and assumptions, same random numbers."
        tables.append(Table("10.3", "Where else it turns", head, elsewhere, note))
    return Part(10, "Regression risk", list(_text(ev, found, command)), tables)


def _text(ev: Evidence, found: list[Condition], command: str) -> Iterator[str]:
    worse = [each for each in found if each.is_worse]
    if worse:
        first = worse[0]
        yield (
            f"{len(worse)} of {len(found)} conditions make {ev.candidate} worse; the one that costs most: "
            f"{first.says}, {_often(first)}, ratio {_ratio(first)}."
        )
    elif found:
        yield f"In none of the {len(found)} conditions that were looked at is {ev.candidate} worse on average."
    if any(each.is_exact for each in found):
        yield "Where keys fall is luck of the hash: it can be planned in a real campaign (part 11), not in production."
    if (hits := least_hits(ev)) is not None:
        yield f"An alarm for all of them: {hits[0]} below {hits[1]:.3f}, the lowest of any simulated pair."
    worst = worst_pairs(ev)
    if worst:
        pair, ratio = worst[0]
        yield f"The worst pair, {pair} (ratio {ratio}), as a trace to replay: `{_replay(pair, command)}`"


def _conditions(ev: Evidence, found: list[Condition]) -> Table:
    head = (
        "condition",
        "in the stated workload",
        "pairs",
        f"ratio of {ev.primary.metric}",
        f"pairs with harm > {percent(ev.lines.harm)}",
        "on average",
        "live",
        "alarm",
        "mitigation",
    )
    rows = [
        (
            each.says,
            _often(each),
            str(each.pairs),
            _ratio(each),
            share(each.harmed / each.pairs) if each.pairs else "–",
            _says(each),
            *((each.live, each.alarm, each.mitigation) if _is_watched(each) else ("–", "–", "–")),
        )
        for each in found
    ]
    note = (
        "Thresholds of keys and of load are the lowest beyond which these pairs are worse on average, if any: "
        "the ratio beyond reads too bad rather than too good."
    )
    return Table("10.1", "Conditions", head, rows, note)


def _says(each: Condition) -> str:
    if each.is_always:
        return "in (nearly) every pair: no trigger"
    average = "worse" if each.is_worse else "too few pairs" if each.ratio is None else "not told to be worse"
    return f"{average}; losses come with it" if each.brings_losses else average


def _is_watched(each: Condition) -> bool:
    """What is worse or brings losses, or was seen too seldom to know."""
    return each.is_worse or each.brings_losses or each.ratio is None


def _often(each: Condition) -> str:
    return f"{each.frequency:.1%}{', exact' if each.is_exact else ' of the pairs'}"


def _ratio(each: Condition) -> str:
    return "–" if each.ratio is None else value(each.ratio, each.lo, each.hi)


def _worst(ev: Evidence, command: str) -> Table:
    rows = [(*row, _replay(row[0], command)) for row in worst_pairs(ev)]
    title = f"The pairs in which {ev.candidate} does worst"
    note = "The command writes the trace of that pair alone, for a load generator."
    return Table("10.2", title, ("pair", f"ratio of {ev.primary.metric}", "to replay"), rows, note)


def _replay(pair: str, command: str) -> str:
    """The command that writes the trace of a pair; the scenario and its settings are those of the review's command."""
    words = shlex.split(command)
    kept = [words[2]] if len(words) > 2 else []
    for option in ("--seed", "--set"):
        for place, word in enumerate(words[:-1]):
            if word == option:
                kept += [option, words[place + 1]]
    return shlex.join(["windtunnel", "export", *kept, "--first-pair", pair, "-o", f"worst-pair-{pair}"])


def _elsewhere(ev: Evidence) -> Iterator[Row]:
    """Break-evens of the sensitivity analysis, and ends of its bars at which the decision is not to run."""
    if ev.sensitivity is None:
        return
    for each in ev.sensitivity.break_evens:
        yield (each.bad, f"{each.knob.value} there", each.says)
    known = {each.knob.name for each in ev.sensitivity.break_evens}
    for bar in (*ev.sensitivity.bars, *ev.sensitivity.conditions):
        for end in bar.ends:
            if end.decision == "DO NOT RUN" and bar.knob.name not in known:
                ratio = "–" if end.ratio.ratio is None else value(end.ratio.ratio, end.ratio.lo, end.ratio.hi)
                yield (bar.knob.name, f"{bar.knob.value} there", f"at {end.value} the ratio is {ratio}: do not run")


def worst_pairs(ev: Evidence) -> list[tuple[str, str]]:
    """The pairs with the worst ratios, worst first."""
    metric = ev.primary.metric
    found = log_ratios(ev.found.baseline, ev.found.candidate, metric)
    rows = found.sort("log_ratio", descending=METRICS[metric].better == "lower").head(WORST).rows()
    return [(str(pair), f"{math.exp(log_ratio):.3f}") for pair, log_ratio in rows]
