"""L12: queues, processor sharing, power of two and tails of groups against closed forms; the table is in theory.py."""

import pytest

from tests.laws.theory import PAGE, ROWS, line


def _params(*, is_quick):
    return [pytest.param(row, id=f"{row.name}, {row.customers:,}") for row in ROWS if row.is_quick == is_quick]


def _check(row):
    found = row.estimate()
    assert row.agrees(found), (found, row.target, row.bias)
    assert found.half < 0.03 * row.theory or not row.is_close, (found, row.theory)
    assert line(row, found) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", _params(is_quick=True))
def test_closed_forms(row):
    """L12: loads up to 0.85, intervals at a family-wise 99 %."""
    _check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", _params(is_quick=False))
def test_closed_forms_closely(row):
    """L12: higher loads, and closely what the quick cells see from afar."""
    _check(row)
