"""What is said of intervals that say too much."""

import numpy as np
from scipy import stats as scipy_stats

from sim import stats
from sim.report.cautions import cautions
from sim.report.comparison import Comparison

EVEN = 0.1 * scipy_stats.norm.ppf((np.arange(40) + 0.5) / 40)
TAIL = 0.1 * scipy_stats.expon.ppf((np.arange(40) + 0.5) / 40)


def compared(**logs: np.ndarray) -> list[Comparison]:
    """Candidates by name with their log ratios of one metric."""
    return [
        Comparison("base", name, "samples_per_s", stats.compare(np.ones(len(each)), np.exp(each), "higher"))
        for name, each in logs.items()
    ]


def test_enough_symmetric_pairs_need_no_caution() -> None:
    """40 pairs of normal noise, one arm."""
    assert cautions(compared(a=EVEN + 0.1)) == []


def test_few_pairs_are_counted_once() -> None:
    """Two arms of 10 and 15 pairs: the smaller number."""
    [line] = cautions(compared(a=EVEN[:15], b=EVEN[:10]))
    assert line.startswith("10 pairs, fewer than 20")


def test_skewed_ratios_are_named() -> None:
    """One arm with a long tail, with its metric."""
    [line] = cautions(compared(a=EVEN, b=TAIL))
    assert line.startswith("skewed ratios of arm b (samples_per_s)")


def test_a_claim_that_holds_alone_and_not_among_four() -> None:
    """P of 0.03 times four arms; a clear one stays."""
    unit = (EVEN - EVEN.mean()) / EVEN.std(ddof=1)
    shift = scipy_stats.t.isf(0.015, 39) / 40**0.5
    lines = cautions(compared(a=unit + shift, b=unit, c=unit, d=unit + 1))
    assert lines == ["samples_per_s: a would not be claimed after Holm's correction over 4 arms"]
    assert cautions(compared(a=unit + shift)) == []
