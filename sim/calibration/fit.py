"""Form D fitted to measured steps by non-negative least squares on relative error.

    t = t0 + g(N) + prefill_pair*A + decode_seq*n + decode_ctx*C + prefill_chunk*K

Each step counts by its relative error, and each phase (prefill, decode, mixed) as much as the others, however many
steps of it there are. g has a knot where the steps can tell its two sides apart: with enough sizes on either side, and
slopes that are known better than to their own size. A term that the steps cannot tell from the others is refused with
the names of those it moves with; a user may fix it at a value instead.

The error is that of prediction: each configuration is left out once (beyond ``FOLDS`` of them, in that many groups),
the form fitted to the rest, and the steps left out predicted. The same fits give the standard error of a coefficient,
by the jackknife. Left out: interactions, such as attention of prefill and
decode in one launch, which is about 10 % off on mixed steps, of both signs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.calibration.steps import PHASES, Floats, Ints, Steps
from sim.errors import ScenarioError

KNOTS: Final = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Where g may bend, in total tokens of a step."""
PAIR, SEQ, CTX, CHUNK = LINEAR = ("prefill_pair_ms", "decode_seq_ms", "decode_ctx_ms", "prefill_chunk_ms")
COLUMNS: Final = {PAIR: "pairs", SEQ: "decodes", CTX: "context", CHUNK: "chunks"}
FOLDS: Final = 100
RESAMPLES: Final = 40
SEED: Final = 20_250_102
ON_PIECE: Final = 3
USELESS: Final = 1.0
"""Standard error over slope from which on a slope of g is not known."""
APART: Final = 0.01
"""A term is identified if at least this share of its column is in none of the others."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients in milliseconds, what they were fitted to, and how far off they are."""

    steps: Steps
    """One for each configuration."""
    knots: tuple[int, ...]
    terms: tuple[str, ...]
    """Names of the coefficients that were fitted."""
    values: Floats
    deviations: Floats
    """Standard error of each, from the fits that leave configurations out."""
    dropped: dict[int, float]
    """Knots that g lost because the slope beyond them was not known: standard error over slope."""
    fixed: dict[str, float]
    """Terms that the user set."""
    predicted: Floats
    """Each step as the fit to the others predicts it."""
    resamples: Floats
    """Coefficients of fits to resampled configurations, one row each."""

    @property
    def errors(self) -> Floats:
        """Relative error of each prediction."""
        return np.asarray(self.predicted / self.steps.ms - 1)

    @property
    def error_percent(self) -> dict[str, tuple[float, float]]:
        """By phase, mean and 90th percentile of the absolute error of prediction."""
        return by_phase(self.errors, self.steps.phase)

    def token_ms(self, values: Floats) -> dict[int, float]:
        """Slopes of g out of a row of coefficients."""
        return {knot: float(value) for knot, value in zip(self.knots, values[1:], strict=False)}

    def linear(self, values: Floats) -> dict[str, float]:
        """The other coefficients out of a row."""
        known = dict(zip(self.terms, values.tolist(), strict=True))
        return {"t0_ms": known["t0_ms"], **{name: known.get(name, self.fixed.get(name, 0.0)) for name in LINEAR}}


def by_phase(errors: Floats, phase: Ints) -> dict[str, tuple[float, float]]:
    """Mean and 90th percentile of absolute errors in percent, of the phases that occur."""
    found = {}
    for index, name in enumerate(PHASES):
        own = np.abs(errors[phase == index]) * 100
        if own.size:
            found[name] = (float(own.mean()), float(np.quantile(own, 0.9)))
    return found


def fit(
    steps: Steps,
    *,
    fixed: Mapping[str, float] | None = None,
    knots: tuple[int, ...] | None = None,
    resamples: int = RESAMPLES,
) -> Fit:
    """Fit form D to steps; ScenarioError names a term that they do not identify."""
    steps = steps.medians()
    fixed = dict(fixed or {})
    if unknown := fixed.keys() - set(LINEAR):
        raise ScenarioError(f"{', '.join(sorted(unknown))} cannot be fixed; known: {', '.join(LINEAR)}")
    if knots is not None:
        return _fit(steps, fixed, knots, {}, resamples)
    dropped: dict[int, float] = {}
    knots = bends(steps.tokens)
    while vague := _vague(_fit(steps, fixed, knots, {}, 0)):
        if len(knots) == 1:
            known = f"the cost of a token is known to ± {100 * vague[0]:.0f} % only"
            raise ScenarioError(f"token_ms cannot be identified: {known}; {_help('token_ms')}")
        dropped |= vague
        knots = tuple(knot for knot in knots if knot not in vague)
    return _fit(steps, fixed, knots, dropped, resamples)


def _fit(
    steps: Steps, fixed: dict[str, float], knots: tuple[int, ...], dropped: dict[int, float], resamples: int
) -> Fit:
    terms, table = design(steps, knots, fixed)
    weights = _weights(steps)
    target = (steps.ms - sum(fixed[name] * getattr(steps, COLUMNS[name]) for name in fixed)) * weights
    rows = table * weights[:, None]
    _identify(terms, rows, steps)
    fold = _folds(len(steps))
    parts = _triangles(rows, target, fold)
    others = _left_out(parts)
    rest = steps.ms - target / weights
    predicted = rest + np.einsum("ij,ij->i", table, others[fold])
    deviations = np.sqrt((len(others) - 1) * others.var(axis=0))
    values = _solve(np.concatenate(parts))
    return Fit(steps, knots, terms, values, deviations, dropped, fixed, predicted, _bootstrap(parts, resamples))


def _vague(found: Fit) -> dict[int, float]:
    """The knot whose slope is known worst, with its error over its slope, if that is no better than to its own size.

    Where it is the first slope, the knot that ends it. A slope of 0 is known: these steps show no cost of a token.
    """
    slopes, errors = (column[1 : len(found.knots) + 1] for column in (found.values, found.deviations))
    share = np.divide(errors, slopes, out=np.zeros_like(errors), where=slopes > 0)
    worst = int(np.argmax(share))
    return (
        {found.knots[max(worst, 1) if len(slopes) > 1 else 0]: float(share[worst])} if share[worst] >= USELESS else {}
    )


def bends(tokens: Floats) -> tuple[int, ...]:
    """The knots that steps of these sizes can tell: ``ON_PIECE`` sizes on every piece of g, its ends included.

    Two would do for a line, but then leaving one out leaves a slope to chance.
    """
    sizes = np.unique(tokens)
    kept = [0]
    for knot in KNOTS[1:]:
        on_piece = np.count_nonzero((sizes >= kept[-1]) & (sizes <= knot))
        if on_piece >= ON_PIECE and sizes[-1] > knot:
            kept.append(knot)
    if len(kept) > 1 and np.count_nonzero(sizes >= kept[-1]) < ON_PIECE:
        kept.pop()
    return tuple(kept)


def design(steps: Steps, knots: tuple[int, ...], fixed: Mapping[str, float]) -> tuple[tuple[str, ...], Floats]:
    """Names and columns of the terms that are to be fitted."""
    tokens = steps.tokens
    ends = (*knots[1:], np.inf)
    pieces = [np.clip(tokens - start, 0, end - start) for start, end in zip(knots, ends, strict=True)]
    free = [name for name in LINEAR if name not in fixed]
    columns = [np.ones(len(steps)), *pieces, *(getattr(steps, COLUMNS[name]) for name in free)]
    return ("t0_ms", *(f"token_ms.{knot}" for knot in knots), *free), np.stack(columns, axis=1)


def _weights(steps: Steps) -> Floats:
    counts = np.bincount(steps.phase, minlength=len(PHASES))
    share = len(steps) / (np.count_nonzero(counts) * counts[steps.phase])
    return np.asarray(np.sqrt(share) / steps.ms)


def _identify(terms: tuple[str, ...], rows: Floats, steps: Steps) -> None:
    """Refuse a term whose column is made of the others'."""
    norms = np.linalg.norm(rows, axis=0)
    for name, norm in zip(terms, norms, strict=True):
        if norm == 0:
            raise ScenarioError(
                f"{name} cannot be identified: no step has {COLUMNS.get(name, 'such tokens')}; {_help(name)}"
            )
    scaled = rows / norms
    # A term that a user can do something about comes first: the slopes move with it as it moves with them.
    for index, name in sorted(enumerate(terms), key=lambda each: each[1] not in LINEAR):
        others = np.delete(scaled, index, axis=1)
        mix, *_ = np.linalg.lstsq(others, scaled[:, index], rcond=1e-12)
        if np.linalg.norm(scaled[:, index] - others @ mix) < APART:
            names = np.delete(np.array(terms), index)
            moves = [str(each) for each in names[np.abs(mix) > 0.1 * np.abs(mix).max()]]
            found = f"over the {len(steps)} steps it moves with {', '.join(moves)}"
            raise ScenarioError(f"{name} cannot be identified: {found}; {_help(name)}")


_VARY: Final = {
    PAIR: "measure prompts of several lengths, some on a cached prefix",
    SEQ: "measure decodes beside prefill chunks, and decodes of several contexts",
    CTX: "measure decodes of several contexts",
    CHUNK: "measure one chunk and several chunks of the same tokens",
}


def _help(name: str) -> str:
    if name in _VARY:
        return f"{_VARY[name]}, or set it with --fix {name}=VALUE"
    return "measure steps of more sizes"


def _folds(count: int) -> Ints:
    """Fold of each configuration: dealt out in a fixed random order, the same for the same steps."""
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(count)
    return np.asarray(order % min(count, FOLDS))


def _triangles(rows: Floats, target: Floats, fold: Ints) -> list[Floats]:
    """The least-squares problem of each fold, reduced to a triangle: [R | Q'y], so that folds can be joined cheaply."""
    whole = np.column_stack([rows, target])
    return [np.asarray(np.linalg.qr(whole[fold == index], mode="r")) for index in range(int(fold.max()) + 1)]


def _solve(problem: Floats) -> Floats:
    from scipy.optimize import nnls

    rows, target = problem[:, :-1], problem[:, -1]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1
    return np.asarray(nnls(rows / scale, target, maxiter=100 * rows.shape[1])[0] / scale)


def _left_out(parts: list[Floats]) -> Floats:
    """Coefficients without each fold in turn."""
    if len(parts) < 2:
        raise ScenarioError("one configuration cannot be fitted: measure steps of several sizes")
    return np.stack([_solve(np.concatenate(parts[:index] + parts[index + 1 :])) for index in range(len(parts))])


def _bootstrap(parts: list[Floats], resamples: int) -> Floats:
    """Coefficients of fits to folds drawn with replacement."""
    chance = np.random.Generator(np.random.PCG64(SEED))
    draws = chance.integers(0, len(parts), size=(resamples, len(parts)))
    solved = [_solve(np.concatenate([parts[index] for index in draw])) for draw in draws]
    return np.stack(solved) if solved else np.zeros((0, parts[0].shape[1] - 1))
