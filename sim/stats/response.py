"""A smooth response fitted to noisy paired measures of some points: Gaussian process regression over a unit cube.

    y[i, p] = f(x[p]) + b[i] + e[i, p]

Row i is a pair, column p a point, NaN where it was not measured. ``b`` is what all points share within a pair (they are
divided by the same run of the baseline), ``e`` what is left; the variances of both are taken from the table itself, so
a point on few pairs weighs little, and two points on the same pairs are compared within them. ``f`` has a constant mean
and Matern's covariance of order 5/2, a length a parameter; amplitude and lengths maximise the likelihood, under a
lognormal prior of the lengths around 0.4 of the range.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.2, 4.2, 5.4. Left out: a noise that
differs from point to point, and steps in the response, which come out as steep slopes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from sim.stats.paired import Floats

LENGTH, LENGTH_SPREAD = 0.4, 0.7
"""Median and log standard deviation of the prior of the lengths."""
SHORTEST, LONGEST = 0.05, 3.0
EXACT = 1e-4
"""Least noise, over the largest value seen: what is measured exactly is taken to be a little unsure."""
VAGUE = 10.0
"""Standard deviation of the constant mean, over the largest value seen."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """What a table of measures says about its points: weights A and A times the means, as of least squares."""

    precision: Floats
    weighted: Floats
    noise: float
    """Standard deviation of one measure, the pair's share taken out."""
    shared: float
    """Standard deviation of what points share within a pair."""

    @property
    def means(self) -> Floats:
        """Best means of the points, each pair's share taken out as far as it is known."""
        return np.asarray(np.linalg.solve(self.precision, self.weighted))


def pool(values: Floats) -> Pooled:
    """Estimate both variances, and from them the points."""
    seen = ~np.isnan(values)
    if not seen.any(axis=0).all():
        raise ValueError("a point has no measure")
    filled = np.where(seen, values, 0.0)
    noise, shared = _variances(filled, seen)
    height = max(float(np.abs(filled).max()), shared**0.5, 1e-12)
    return weigh(values, max(noise**0.5, EXACT * height), shared**0.5)


def weigh(values: Floats, noise: float, shared: float, weights: Floats | None = None) -> Pooled:
    """The same with known standard deviations; ``weights`` says how often each pair counts."""
    seen = ~np.isnan(values)
    filled = np.where(seen, values, 0.0)
    counts = np.ones(len(values)) if weights is None else weights
    part = shared**2 / (noise**2 + seen.sum(axis=1) * shared**2) * counts
    mask = seen.astype(float)
    precision = np.diag(counts @ mask) - mask.T @ (part[:, None] * mask)
    weighted = counts @ filled - mask.T @ (part * filled.sum(axis=1))
    return Pooled(precision / noise**2, weighted / noise**2, noise, shared)


def _variances(filled: Floats, seen: Any) -> tuple[float, float]:
    """Mean squares of the additive fit: of what is left, and of the pairs."""
    mask = seen.astype(float)
    many = np.maximum(mask.sum(axis=1), 1)
    system = np.diag(mask.sum(axis=0)) - mask.T @ (mask / many[:, None])
    points = np.linalg.pinv(system) @ (filled.sum(axis=0) - mask.T @ (filled.sum(axis=1) / many))
    left = np.where(seen, filled - points, 0.0)
    rows = left.sum(axis=1) / many
    used = seen.any(axis=1)
    free = int(seen.sum()) - seen.shape[1] - int(used.sum()) + 1
    noise = float((np.where(seen, left - rows[:, None], 0.0) ** 2).sum()) / max(free, 1)
    pairs = int(used.sum())
    between = float(rows[used].var(ddof=1)) if pairs > 1 else 0.0
    return noise, max(between - noise * float((1 / many[used]).mean()), 0.0)


@dataclass(frozen=True, slots=True)
class Response:
    """The fitted response; ``x`` are points of the unit cube, a row each."""

    x: Floats
    pooled: Pooled
    amplitude: float
    lengths: Floats
    vague: float

    def mean(self, at: Floats, pooled: Pooled | None = None) -> Floats:
        """Its best value at some points; with other measures of the same points, what these would say."""
        of = pooled or self.pooled
        inner = np.eye(len(self.x)) + of.precision @ self._between(self.x, self.x)
        return np.asarray(self._between(at, self.x) @ np.linalg.solve(inner, of.weighted))

    def covariance(self, at: Floats) -> Floats:
        """How unsure the values at some points are."""
        across = self._between(at, self.x)
        inner = np.eye(len(self.x)) + self.pooled.precision @ self._between(self.x, self.x)
        known = across @ np.linalg.solve(inner, self.pooled.precision @ across.T)
        return np.asarray(self._between(at, at) - known)

    def draws(self, at: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Responses that agree with the measures, a row each."""
        values, axes = np.linalg.eigh(self.covariance(at))
        root = axes * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.mean(at) + rng.standard_normal((count, len(at))) @ root.T)

    def _between(self, a: Floats, b: Floats) -> Floats:
        return self.vague**2 + self.amplitude**2 * _matern(a, b, self.lengths)


def fit(x: Floats, values: Floats) -> Response:
    """Fit the response to a table of measures."""
    pooled = pool(values)
    means = pooled.means
    errors = np.linalg.inv(pooled.precision)
    vague = VAGUE * max(float(np.abs(means).max()), pooled.noise)
    centred = means - means.mean()
    typical = max(float(centred.std()), pooled.noise / 10)
    dimensions = x.shape[1]

    def cost(theta: Floats) -> float:
        lengths = np.exp(theta[1:])
        whole = vague**2 + np.exp(2 * theta[0]) * _matern(x, x, lengths) + errors
        try:
            factor = cho_factor(whole + 1e-10 * typical**2 * np.eye(len(x)), lower=True)
        except np.linalg.LinAlgError:
            return 1e12
        likelihood = 0.5 * centred @ cho_solve(factor, centred) + np.log(np.diag(factor[0])).sum()
        prior = 0.5 * (((theta[1:] - np.log(LENGTH)) / LENGTH_SPREAD) ** 2).sum()
        return float(likelihood + prior)

    bounds = [(np.log(typical) - 4, np.log(typical) + 3)] + [(np.log(SHORTEST), np.log(LONGEST))] * dimensions
    starts = [np.array([np.log(typical), *[np.log(length)] * dimensions]) for length in (0.2, 0.6)]
    best = min((minimize(cost, start, bounds=bounds) for start in starts), key=lambda found: float(found.fun))
    return Response(x, pooled, float(np.exp(best.x[0])), np.exp(best.x[1:]), vague)


def _matern(a: Floats, b: Floats, lengths: Floats) -> Floats:
    apart = (a[:, None, :] - b[None, :, :]) / lengths
    r = np.sqrt(5 * (apart**2).sum(axis=2))
    return np.asarray((1 + r + r**2 / 3) * np.exp(-r))
