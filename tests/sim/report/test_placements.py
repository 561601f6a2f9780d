"""Placement classes against published and enumerated probabilities."""

from collections import Counter
from itertools import product

import polars as pl
import pytest

from sim.placement import exact
from sim.report.placements import place


def test_four_keys_on_two_engines() -> None:
    """Binomial(4, 1/2): 6/16, 8/16, 2/16, most even first."""
    assert exact(4, 2) == {"2:2": 0.375, "3:1": 0.5, "4:0": 0.125}


@pytest.mark.parametrize(("keys", "engines"), [(3, 3), (5, 2), (6, 4)])
def test_against_all_placements(keys: int, engines: int) -> None:
    """The formula equals counting every placement."""
    counted: Counter[str] = Counter()
    for placement in product(range(engines), repeat=keys):
        held = sorted((placement.count(engine) for engine in range(engines)), reverse=True)
        counted[":".join(map(str, held))] += 1
    assert exact(keys, engines) == {name: pytest.approx(n / engines**keys) for name, n in counted.items()}


def requests(*placements: tuple[int, ...]) -> pl.DataFrame:
    """Two requests a key, one session each; the second goes elsewhere and does not count."""
    rows = [
        (pair, key, 2 * key + turn, turn, engine if turn == 0 else 0)
        for pair, placement in enumerate(placements)
        for key, engine in enumerate(placement)
        for turn in range(2)
    ]
    return pl.DataFrame(rows, schema=["pair", "group", "request", "turn", "engine"], orient="row")


def test_class_of_each_pair() -> None:
    """Which engine holds how many does not matter, only how many."""
    found = place(requests((0, 1, 1, 1), (1, 1, 0, 0), (1, 1, 1, 1)), "group", 2)
    assert found is not None
    assert found.keys == 4
    assert found.classes.rows() == [(0, "3:1"), (1, "2:2"), (2, "4:0")]


@pytest.mark.parametrize(("keys", "engines"), [(9, 2), (4, 5), (1, 2), (4, 1)])
def test_no_classes_for_many_keys_or_engines(keys: int, engines: int) -> None:
    """Classes are for few keys on few engines."""
    assert place(requests((0,) * keys), "group", engines) is None


def test_no_classes_where_no_request_reached_an_engine() -> None:
    """All refused: nothing was placed."""
    assert place(requests((0, 1)).with_columns(engine=pl.lit(-1)), "group", 2) is None
