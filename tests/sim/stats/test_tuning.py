"""Searches of known noisy responses: the optimum is found, its interval covers, flat and cut-off ones are told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.stats.paired import Floats
from sim.stats.response import fit, pool
from sim.stats.tuning import Found, Parameter, Point, fewest_runs, search

SHARE = (Parameter("share", 0.0, 1.0),)


class World:
    """A response whose pairs have noise of their own, and noise that all points share, as a baseline's is."""

    def __init__(self, response, seed: int, *, noise: float = 0.03, shared: float = 0.05) -> None:  # type: ignore[no-untyped-def]
        self.response, self.seed, self.noise = response, seed, noise
        self.shared = np.random.default_rng(seed).normal(0, shared, 1000)
        self.most: dict[Point, int] = {}

    def __call__(self, points: list[Point], pairs: list[int]) -> list[Floats]:
        return [self.values(point, count) for point, count in zip(points, pairs, strict=True)]

    def values(self, point: Point, count: int) -> Floats:
        """The same values for the same point, however often it is asked for."""
        self.most[point] = max(self.most.get(point, 0), count)
        own = np.random.default_rng([self.seed, *(int(1e6 * abs(value)) for value in point)])
        values: Floats = self.response(*point) + self.shared[:count] + own.normal(0, self.noise, 1000)[:count]
        return values


def hill(top: float):  # type: ignore[no-untyped-def]
    """A parabola whose ends are up to 32 % worse than its top."""
    return lambda x: -0.8 * (x - top) ** 2


def searches(response, count: int, *, runs: int = 150, noise: float = 0.03) -> list[Found]:  # type: ignore[no-untyped-def]
    """The searches of a budget of 200, a quarter of which confirms."""
    return [search(SHARE, World(response, seed, noise=noise), runs, seed=seed) for seed in range(count)]


def test_the_optimum_of_a_hill_is_found() -> None:
    """Within 5 % of the range for nine searches in ten, at 2 % noise; the stated interval covers it as often."""
    found = [each for top in (0.3, 0.62) for each in searches(hill(top), 12, noise=0.02)]
    tops = np.repeat([0.3, 0.62], 12)
    apart = np.abs([each.optimum[0] for each in found] - tops)
    assert (apart <= 0.05 + 1e-9).mean() >= 0.9
    assert np.mean([each.lo[0] <= top <= each.hi[0] for each, top in zip(found, tops, strict=True)]) >= 0.9
    assert not any(each.loose or each.at_edge for each in found)


def test_the_place_of_a_flat_response_is_not_known() -> None:
    """Nearly every search of no response says that its optimum may lie anywhere."""
    assert sum(bool(each.loose) for each in searches(lambda _: 0.0, 6)) >= 5


def test_an_optimum_at_the_end_of_the_range_is_told() -> None:
    """A response that rises to the end is best there."""
    for each in searches(lambda x: 0.2 * x, 5):
        assert [value for _, value in each.at_edge] == [1.0]


def test_runs_go_where_the_optimum_may_be() -> None:
    """The third of the range with the top gets more than half of all pairs."""
    found = searches(hill(0.5), 1)[0]
    inside = sum(len(each.values) for each in found.tried if 1 / 3 <= each.point[0] <= 2 / 3)
    assert inside > sum(len(each.values) for each in found.tried) / 2


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2]), st.integers(45, 90))
def test_a_search_keeps_its_budget_and_its_answers(seed: int, parameters: int, runs: int) -> None:
    """What is spent is counted, is within the budget, and the same values lead to the same search."""
    space = tuple(Parameter(str(index), 0.0, 1.0) for index in range(parameters))

    def response(*x: float) -> float:
        return -float(sum((each - 0.4) ** 2 for each in x))

    world = World(response, seed)
    runs = max(runs, fewest_runs(parameters))
    found = search(space, world, runs, seed=seed)
    assert found.runs == sum(world.most.values()) + max(world.most.values()) <= runs
    assert {each.point: len(each.values) for each in found.tried} == world.most
    again = search(space, World(response, seed), runs, seed=seed)
    assert (again.optimum, again.lo, again.hi, again.runs) == (found.optimum, found.lo, found.hi, found.runs)
    for low, at, high in zip(found.lo, found.optimum, found.hi, strict=True):
        assert 0 <= low <= at <= high <= 1


def test_two_parameters() -> None:
    """The top of a hill over two ranges, one of them logarithmic, one of whole numbers."""
    space = (Parameter("threshold", 1.0, 1000.0, is_log=True), Parameter("slots", 1, 20, is_integer=True))

    def response(threshold: float, slots: float) -> float:
        return -0.5 * (np.log10(threshold) / 3 - 0.5) ** 2 - 0.5 * ((slots - 8) / 19) ** 2

    found = search(space, World(response, 3, noise=0.01), 300)
    assert abs(np.log10(found.optimum[0]) / 3 - 0.5) <= 0.12
    assert isinstance(found.optimum[1], int)
    assert abs(found.optimum[1] - 8) <= 3


def test_whole_numbers_are_tried_once_each() -> None:
    """A range of four numbers has four points, and the budget repeats them."""
    space = (Parameter("slots", 1, 4, is_integer=True),)
    found = search(space, World(lambda x: -0.05 * abs(x - 2), 1), 100)
    assert sorted(each.point for each in found.tried) == [(1,), (2,), (3,), (4,)]
    assert found.optimum == (2,)


def test_points_without_values_are_left_out() -> None:
    """Where the upper half of a range cannot run, the best of the lower half is found."""
    world = World(lambda x: 0.2 * x if x <= 0.5 else float("nan"), 1)
    found = search(SHARE, world, 100)
    assert max(each.point[0] for each in found.tried) <= 0.5
    assert not any(np.isnan(each.values).any() for each in found.tried)


def test_too_small_a_budget_is_refused() -> None:
    """Fewer runs than the first points take are no search."""
    with pytest.raises(ValueError, match="too few"):
        search(SHARE, World(hill(0.5), 1), fewest_runs(1) - 1)


def test_variances_and_means_of_a_table() -> None:
    """Both are recovered, and a point on few pairs is compared within these: the pairs' share does not enter."""
    rng = np.random.default_rng(4)
    truth = np.array([0.0, 0.1, 0.3, 0.2])
    values = truth + rng.normal(0, 0.5, (400, 1)) + rng.normal(0, 0.02, (400, 4))
    values[5:, 3] = np.nan
    pooled = pool(values)
    assert pooled.noise == pytest.approx(0.02, rel=0.1)
    assert pooled.shared == pytest.approx(0.5, rel=0.1)
    assert np.diff(pooled.means) == pytest.approx(np.diff(truth), abs=0.03)


def test_a_fit_without_noise_passes_through_its_points() -> None:
    """Equal pairs leave no doubt at the points, and some between them."""
    x = np.linspace(0, 1, 6)[:, None]
    y = np.sin(4 * x[:, 0])
    response = fit(x, np.tile(y, (3, 1)))
    assert response.mean(x) == pytest.approx(y, abs=1e-4)
    spread = np.sqrt(np.maximum(np.diag(response.covariance(np.array([[0.2], [0.1]]))), 0))
    assert spread[0] < 1e-3 < spread[1]


@given(st.floats(0, 1), st.booleans(), st.booleans())
def test_a_value_lies_where_its_unit_says(unit: float, is_log: bool, is_integer: bool) -> None:
    """Within half a step, and never beyond the ends."""
    parameter = Parameter("p", 1, 1000, is_integer=is_integer, is_log=is_log)
    value = parameter.value(unit)
    assert 1 <= value <= 1000
    if is_integer:
        nearest = 1000**unit if is_log else 1 + 999 * unit
        assert abs(value - nearest) <= 0.5 + 1e-9
    else:
        assert parameter.unit(value) == pytest.approx(unit, abs=0.005)
