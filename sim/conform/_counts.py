"""Recorded counts of random choices against the exact probabilities of our policy.

Per case: an outcome that our policy cannot have must not have been counted, and the counts are held against the
expected ones by a chi-square test. Over all cases the tests are held together by Holm's step-down at 1 %: ordered by
p-value, the k-th smallest of m must exceed 0.01 / (m - k + 1), or it and all smaller ones are rejected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policies._protocol import RequestView
from sim.conform._products import NotApplicableError, model_of
from sim.conform._replay import distribution, open_world

_LEVEL = 0.01
_FIRST_PORT = 21001
_KEYED = ("manual",)
"""Policies whose counts were recorded with a new key each time; the others' without one."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One recorded case and what became of it."""

    name: str
    counts: tuple[int, ...]
    expected: tuple[float, ...] = ()
    p_value: float | None = None
    """Of the chi-square test; None where only one outcome is possible, or the case was not judged."""
    passes: bool = True
    reason: str = ""
    """Why it does not pass, or was not judged."""


def judge(cases: Sequence[Mapping[str, Any]]) -> list[CaseResult]:
    """Judge recorded counts, all together at 1 %."""
    results = [_judge(case) for case in cases]
    rejected = _holm({place: result.p_value for place, result in enumerate(results) if result.p_value is not None})
    return [_reject(result) if place in rejected else result for place, result in enumerate(results)]


def _judge(case: Mapping[str, Any]) -> CaseResult:
    name = " ".join(str(case[key]) for key in ("router", "policy", "note") if case.get(key))
    counts = tuple(case["counts"])
    try:
        policy = model_of(case)
    except NotApplicableError as error:
        return CaseResult(name, counts, reason=str(error))
    urls = [f"http://127.0.0.1:{_FIRST_PORT + place}" for place in range(case["workers"])]
    world = open_world(policy, urls, case["inflight_throughout"])
    headers = {"x-smg-routing-key": "new"} if case["policy"] in _KEYED else {}
    shares = distribution(world, RequestView(0, headers, ((0, 10),), 10))
    expected = tuple(shares[url] * case["requests"] for url in urls)
    possible = [(count, mean) for count, mean in zip(counts, expected, strict=True) if mean > 0]
    if sum(count for count, _ in possible) != case["requests"]:
        return CaseResult(name, counts, expected, None, passes=False, reason="an impossible outcome was counted")
    if len(possible) == 1:
        return CaseResult(name, counts, expected)
    return CaseResult(name, counts, expected, _chi_square(possible))


def _chi_square(possible: list[tuple[int, float]]) -> float:
    from scipy.stats import chi2

    statistic = sum((count - mean) ** 2 / mean for count, mean in possible)
    return float(chi2.sf(statistic, len(possible) - 1))


def _holm(p_values: Mapping[int, float]) -> set[int]:
    """Places of the tests that Holm's step-down rejects."""
    rejected: set[int] = set()
    for rank, (place, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p_value > _LEVEL / (len(p_values) - rank):
            break
        rejected.add(place)
    return rejected


def _reject(result: CaseResult) -> CaseResult:
    reason = f"the counts do not fit: p = {result.p_value:.2g}"
    return CaseResult(result.name, result.counts, result.expected, result.p_value, passes=False, reason=reason)
