"""Files of measured steps: read back as written, refused where they are wrong, with the line."""

from pathlib import Path

import numpy as np
import pytest

from sim.calibration.steps import NUMBERS, join, read, write
from sim.errors import ScenarioError
from tests.sim.calibration.shipped import some_steps

HEAD = "device,model,tp,prefill_tokens,pairs,decodes,context,chunks,ms"
GOOD = f"{HEAD}\ngpu,m,1,100,5050,2,300,1,9.5\ngpu,m,1,0,0,3,900,0,7.25\ngpu,m,1,50,1275,0,0,1,8\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "steps.csv"
    path.write_text(text)
    return path


def test_steps_come_back_as_written(tmp_path: Path) -> None:
    """Every column, to ten figures."""
    steps = some_steps(40)
    write(tmp_path / "steps.csv", steps)
    again = read(tmp_path / "steps.csv")
    assert (again.device, again.model, again.tp) == ("gpu", "model", 1)
    for name in NUMBERS:
        assert getattr(again, name) == pytest.approx(getattr(steps, name), rel=1e-9)


def test_phases_tokens_and_medians(tmp_path: Path) -> None:
    """Mixed, decode, prefill; N = P + n; repeats become one step."""
    steps = read(file(tmp_path, GOOD))
    assert steps.phase.tolist() == [2, 1, 0]
    assert steps.tokens.tolist() == [102, 3, 50]
    thrice = join([steps, steps, steps.select([0])])
    assert np.sort(thrice.medians().ms).tolist() == [7.25, 8, 9.5]
    assert len(thrice.medians()) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("chunks,ms", "chunks", "has no column ms"),
        ("9.5", "nan", r"steps\.csv:2: ms must be a number"),
        ("9.5", "0", r"steps\.csv:2: ms must be more than 0"),
        ("5050", "-1", r"steps\.csv:2: pairs must be a number from 0"),
        ("5050", "99", r"steps\.csv:2: pairs: each new token attends to itself"),
        ("100,5050,2,300,1,", "100,5050,2,300,0,", r"steps\.csv:2: prefill_tokens and chunks go together"),
        ("0,0,3,900,0", "0,0,0,0,0", r"steps\.csv:3: a step without"),
        ("1275,0,0,1", "1275,0,77,1", r"steps\.csv:4: context without decodes"),
        ("gpu,m,1,50", "gpu,m,2,50", "more than one device, model and tp"),
        ("7.25\n", "7.25,1\n", r"steps\.csv:3: must have 9 fields"),
        ("gpu,m,1", "gpu,m,x", "tp must be a number of GPUs"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """One line: the file, the line, the rule."""
    with pytest.raises(ScenarioError, match=message):
        read(file(tmp_path, GOOD.replace(old, new)))


def test_one_place_is_chosen(tmp_path: Path) -> None:
    """A file of several sizes needs the choice of one; what there is gets listed."""
    path = file(tmp_path, f"{GOOD}gpu,m,2,0,0,3,900,0,4.5\n")
    assert len(read(path, tp=1)) == 3
    assert read(path, tp=2).ms.tolist() == [4.5]
    with pytest.raises(ScenarioError, match=r"no steps chosen.*there are: gpu m 1; gpu m 2"):
        read(path, tp=4)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The system's reason, in one line."""
    with pytest.raises(ScenarioError, match="No such file"):
        read(tmp_path / "nowhere.csv")
