"""What an interval does not say: too few pairs, ratios too skewed for their number, too many arms for single claims."""

from collections.abc import Iterator, Sequence

from sim.report.comparison import Comparison
from sim.report.numbers import counted
from sim.stats.many import holm
from sim.stats.paired import ENOUGH_PAIRS


def cautions(comparisons: Sequence[Comparison]) -> list[str]:
    """One line each, in a fixed order."""
    return [*_few(comparisons), *_skewed(comparisons), *_many(comparisons)]


def _few(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if few := [each.paired.pairs for each in comparisons if each.paired.caution == "few"]:
        pairs = counted(min(few), "pair")
        yield f"{pairs}, fewer than {ENOUGH_PAIRS}: intervals are Student's t; a bootstrap would be too sure"


def _skewed(comparisons: Sequence[Comparison]) -> Iterator[str]:
    for candidate in dict.fromkeys(each.candidate for each in comparisons):
        names = [each.metric for each in comparisons if each.candidate == candidate and each.paired.caution == "skewed"]
        if names:
            yield f"skewed ratios of arm {candidate} ({', '.join(names)}): their intervals are rough, run more pairs"


def _many(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Effects that one comparison alone would claim, and Holm's correction over all arms does not."""
    for metric in dict.fromkeys(each.metric for each in comparisons):
        arms = [each for each in comparisons if each.metric == metric and each.paired.p is not None]
        adjusted = holm([each.paired.p or 0.0 for each in arms])
        names = [
            each.candidate
            for each, p in zip(arms, adjusted, strict=True)
            if each.paired.p is not None and each.paired.p < 0.05 <= p
        ]
        if names:
            yield f"{metric}: {', '.join(names)} would not be claimed after Holm's correction over {len(arms)} arms"
