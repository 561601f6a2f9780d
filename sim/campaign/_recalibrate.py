"""What a campaign says of the simulator: which input, setting or noise its results call into question, and by what.

Stages of requests (seconds of prefill a token, of a token decoded undisturbed and beside others) are held against the
prediction, which says how each moves with the inputs; a step's time is linear in them, so are these. Where a stage is
off by more than ``FAR`` standard deviations, that one input is named whose shift d explains all stages best,

    min over inputs and d   sum ((stage - slope d) / sd)^2 + (d / its range's sd)^2

and a second one, given the first, where a stage is still off. So a mistake is laid where it costs least. Hit rates,
preemptions and placement are looked at first: where the work itself is not as predicted, its times say nothing of its
cost. What none of these explains is left to the model's form, and said so.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import chdtrc

from sim.stats import Floats

FAR: Final = 3.0
"""Standard deviations beyond which a stage is off."""
FORM: Final = 0.03
"""Relative error of a stage that the best of inputs leaves: mixed steps are off by as much."""
MOST_NAMED: Final = 2
ROOM: Final = "fleet.engine.kv_tokens"
HITS: Final = f"fleet.engine.visibility, or {ROOM}"
POINTS: Final = 0.01
"""Difference of shares that is worth a word."""
RARE: Final = 0.001


@dataclass(frozen=True, slots=True)
class Recalibration:
    """One thing to look at."""

    what: str
    """The setting, by its name in a scenario where it has one."""
    evidence: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one arm's requests over the pairs that count."""

    arm: str
    name: str
    predicted_s: float
    measured_s: float
    off: float
    """Measured over predicted, less 1, mean over pairs."""
    slopes: Sequence[float]
    """By how much of itself it moves with one unit of each assumption."""
    sd: float

    def __str__(self) -> str:
        """In words."""
        what, took = _STAGES[self.name], f"{1e3 * self.measured_s:.4g} ms"
        return f"{what} of {self.arm} takes {took}, predicted {1e3 * self.predicted_s:.4g} ms"


def stages(
    predicted: Mapping[str, Mapping[str, Any]], measured: Mapping[str, Mapping[int, Mapping[str, float]]]
) -> list[Stage]:
    """Predicted by arm and stage, measured by arm, pair and stage; those that every pair has."""
    found = []
    for arm, each in predicted.items():
        for name, says in each.items():
            pairs = measured[arm]
            if all(name in pair for pair in pairs.values()):
                centre = np.array([says["pairs_s"][pair] for pair in pairs])
                took = np.array([pair[name] for pair in pairs.values()])
                off = float((took / centre).mean()) - 1
                found.append(
                    Stage(arm, name, float(centre.mean()), float(took.mean()), off, says["slopes"], says["sd"])
                )
    return found


def of_stages(found: Sequence[Stage], drawn: Sequence[Mapping[str, float]], run_sd: float) -> Iterator[Recalibration]:
    """Which assumption the stages call into question; ``drawn``: the sealed draws of the assumptions, by name."""
    if not found:
        return
    knobs = [*drawn[0]]
    x = np.array([[each[name] for name in knobs] for each in drawn])
    spread = x.std(axis=0, ddof=1)
    slopes = np.array([each.slopes for each in found])
    off = np.array([each.off for each in found])
    sd = np.array([math.hypot(each.sd, run_sd, FORM) for each in found])
    wide = np.sqrt(sd**2 + ((slopes * spread) ** 2).sum(axis=1))
    far = np.abs(off) / wide
    if far.max() <= FAR:
        return
    said = "; ".join(str(found[index]) for index in np.argsort(-far)[:2] if far[index] > FAR)
    if not knobs:
        yield Recalibration("fleet.engine.cost", f"{said}: this cost model has no assumption whose range is known")
        return
    named: list[int] = []
    while len(named) < MOST_NAMED and (np.abs(off) / sd).max() > FAR:
        index, shift = _best(slopes, off, sd, x, named)
        if index is None or abs(shift) < spread[index]:
            break
        others = [] if named else _others(slopes, off, sd, x, index)
        named.append(index)
        off = off - slopes[:, index] * shift
        value = float(x[:, index].mean()) + shift
        reached = f"{x[:, index].min():.3g} to {x[:, index].max():.3g}"
        also = "".join(f"; so would {knobs[other]} at {x[:, other].mean() + by:.3g}" for other, by in others)
        yield Recalibration(knobs[index], f"{said}: {value:.3g} explains it, drawn from {reached}{also}")
    if not named or (np.abs(off) / sd).max() > 2 * FAR:
        worst = found[int(np.argmax(np.abs(off) / sd))]
        yield Recalibration("model form", f"{worst}: no shift of the assumptions explains it")


def _fit(slopes: Floats, off: Floats, sd: Floats, drawn: Floats) -> Iterator[tuple[int, float, Floats]]:
    """By assumption that was drawn: the shift that explains what is off best, and what is left in units of ``sd``.

    No assumption goes below zero: they are times, factors, rooms and spreads.
    """
    for index in np.flatnonzero(drawn.std(axis=0) > 0):
        a = slopes[:, index] / sd
        if a.any():
            shift = max(float(a @ (off / sd)) / float(a @ a), -float(drawn[:, index].mean()))
            yield int(index), shift, (off - slopes[:, index] * shift) / sd


def _others(slopes: Floats, off: Floats, sd: Floats, drawn: Floats, named: int) -> list[tuple[int, float]]:
    """Other assumptions that alone would explain every stage, and their shifts: stages cannot tell them apart."""
    fits = _fit(slopes, off, sd, drawn)
    return [(index, shift) for index, shift, left in fits if index != named and np.abs(left).max() <= FAR]


def _best(slopes: Floats, off: Floats, sd: Floats, drawn: Floats, named: Sequence[int]) -> tuple[int | None, float]:
    """The assumption whose shift explains most of what is off at the price of its range."""
    spread = drawn.std(axis=0, ddof=1)
    fits = [
        (float((left**2).sum()) + (shift / float(spread[index])) ** 2, index, shift)
        for index, shift, left in _fit(slopes, off, sd, drawn)
        if index not in named
    ]
    least, index, shift = min(fits, default=(math.inf, None, 0.0))
    return (index, shift) if least < float(((off / sd) ** 2).sum()) else (None, 0.0)


_STAGES: Final = {
    "prefill_s_per_token": "prefill a token",
    "decode_fast_s": "a token decoded undisturbed (10 %)",
    "decode_slow_s": "a token decoded beside others (90 %)",
}


def of_values(
    arm: str, measured: Mapping[str, float | None], predicted: Mapping[str, tuple[float, float, float]]
) -> Iterator[Recalibration]:
    """Hit rate and preemptions of one arm against their predicted mean and interval."""
    hit, memory = _outside("prefix_hit_rate", measured, predicted), _outside("preemptions", measured, predicted)
    if memory is not None:
        value, mean = memory
        yield Recalibration(
            ROOM,
            f"{arm}: {value:.3g} preemptions a run, predicted {mean:.3g}: the engines have "
            f"{'less' if value > mean else 'more'} room for KV than stated",
        )
    if hit is not None and abs(hit[0] - hit[1]) > POINTS:
        value, mean = hit
        yield Recalibration(
            HITS if memory is None else ROOM,
            f"{arm}: hit rate {value:.1%}, predicted {mean:.1%} ({100 * (value - mean):+.1f} points): when siblings "
            "see a prefix, and how many requests there is room for, decide it",
        )


def _outside(
    name: str, measured: Mapping[str, float | None], predicted: Mapping[str, tuple[float, float, float]]
) -> tuple[float, float] | None:
    value = measured.get(name)
    if value is None or name not in predicted:
        return None
    mean, lo, hi = predicted[name]
    slack = 1e-6 * max(abs(mean), 1.0)
    return None if lo - slack <= value <= hi + slack else (value, mean)


def of_placement(arm: str, moved: Sequence[int], pairs: int) -> Iterator[Recalibration]:
    """Pairs whose keys fell otherwise than the traces say."""
    if moved:
        yield Recalibration(
            "placement of keys",
            f"{arm}: in {len(moved)} of {pairs} pairs keys fell into another class than simulated (pair {moved[0]} "
            "first): the router hashes otherwise, or engines have other names",
        )


def excess(rest: Floats, sd: float) -> float | None:
    """Standard deviation of what pairs are off, where it is more than the assumed one can be by chance; else None."""
    n = rest.size
    if n < 3:
        return None
    found = float(rest.std(ddof=1))
    if found <= max(sd, 1e-9):
        return None
    return found if sd <= 0 or float(chdtrc(n - 1, (n - 1) * (found / sd) ** 2)) < RARE else None


def of_spread(found: float, sd: float, metric: str, pairs: int) -> Recalibration:
    """Pairs that scatter around what is predicted of each more than the noise that was assumed."""
    return Recalibration(
        "real_run_noise",
        f"log ratios of {pairs} pairs in {metric} scatter by {found:.3f} around those predicted of them, {sd:.3f} was "
        f"assumed: about {found / 2**0.5:.3f} a run",
    )
