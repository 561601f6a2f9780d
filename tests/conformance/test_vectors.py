"""Recorded decisions of real routers, replayed: determined rows exactly, open rows by what the rule allows."""

import json
from collections import Counter
from pathlib import Path

import pytest

from sim.conform import check, judge, model_of, replay

VECTORS = Path(__file__).parent / "vectors"
NAMES = sorted(path.stem for path in VECTORS.glob("*.json") if path.stem != "distributions")
CASES = json.loads((VECTORS / "distributions.json").read_text())


def load(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_reproduced(name):
    """Every recorded row is what our policy does, or one of the things it may do."""
    vector = load(name)
    rows = replay(vector, model_of(vector))
    assert len(rows) == len(vector["requests"])
    assert [row for row in rows if not row.passes] == []


def test_most_rows_are_determined():
    """The vectors leave little to chance: a replay that allowed everything would not pass here."""
    outcome = check([VECTORS])
    kinds = sum((Counter(each.count()) for each in outcome.files), Counter())
    assert kinds == {"determined": 1392, "open": 254}
    assert [each.path.stem for each in outcome.files] == NAMES
    assert len(outcome.cases) == len(CASES)
    assert [each.reason for each in (*outcome.files, *outcome.cases) if each.reason] == []
    assert outcome.passes


def test_counts_fit_the_exact_distributions():
    """Recorded counts of random choices fit the probabilities of our policies' picks, all cases together at 1 %."""
    results = judge(CASES)
    assert [result for result in results if not result.passes] == []
    certain = [result.counts for result in results if result.p_value is None]
    assert certain == [(400, 0, 0, 0)]
    assert sum(count == 0 for result in results for count in result.counts) == 4
