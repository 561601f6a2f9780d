"""How numbers are written for people, in every table, page and sentence."""

import math

from sim.stats import Mean


def number(value: float) -> str:
    """A number for reading: thousands whole, smaller ones with four significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def mean_text(mean: Mean) -> str:
    """A mean with half of its interval."""
    if mean.mean is None:
        return "–"
    half = 0.0 if mean.hi is None else mean.hi - mean.mean
    if half <= 1e-9 * abs(mean.mean):  # no interval, or one that rounding alone made
        return number(mean.mean)
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean.mean:,.{decimals}f} ± {half:,.{decimals}f}"


def counted(count: int, of: str) -> str:
    """So many things: 1 pair, 6 pairs."""
    return f"{count:,} {of}{'' if count == 1 else 's'}"
