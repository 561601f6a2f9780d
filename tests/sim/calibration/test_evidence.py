"""docs/calibration.md says what ``windtunnel calibrate --published`` prints."""

import pytest

from sim.calibration.evidence import SECTIONS, lines
from sim.errors import ScenarioError
from tests.sim.calibration.shipped import DATA, ROOT

PAGE = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8").splitlines()

SLOW = ("composed", "loops")


@pytest.mark.parametrize(
    "section", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SECTIONS]
)
def test_the_page_says_what_is_printed(section: str) -> None:
    """Every row of the table stands on the page, and the page has no row more in that table."""
    _, _, *table = lines(DATA, section)
    head = PAGE.index(table[0])
    assert PAGE[head : head + len(table)] == table
    assert not PAGE[head + len(table)].startswith("|")


def test_another_folder_is_refused(tmp_path) -> None:
    """A folder without the measurements is named."""
    with pytest.raises(ScenarioError, match=r"holds no kv_capacity_measured.csv: it is not a folder"):
        list(lines(tmp_path, "memory"))
