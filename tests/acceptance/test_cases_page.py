"""The page of cases names every scenario of the folder, and every case that was collected."""

import re

from sim.scenario._find import SHIPPED

PAGE = SHIPPED.parent / "docs" / "cases.md"
COLLECTED = {
    1, 2, 3, 4, 6, 8, 11, 15, 18, 20, 22, 25, 27, 28, 30, 32, 33, 35, 37, 39, 40, 41, 45, 46, 48, 50, 52, 54,
}  # fmt: skip
VERDICTS = ("shown", "order only", "missed")


def rows():
    """Cells of the first table's rows."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if re.match(r"\| P\d", line)
    ]


def test_every_scenario_of_the_folder_is_named():
    """A case without a row would be a case without a verdict."""
    linked = set(re.findall(r"\]\(\.\./scenarios/cases/(\w[\w.]*)\.yaml\)", PAGE.read_text("utf-8")))
    assert linked == {path.stem for path in (SHIPPED / "cases").glob("*.yaml")}


def test_every_case_has_a_scenario_and_a_verdict():
    """One row or more for each case, its scenarios there under its number."""
    assert {int(row[0][1:]) for row in rows()} == COLLECTED
    for number, _, scenarios, _, verdict in rows():
        assert verdict.startswith(VERDICTS), number
        for path in re.findall(r"\(\.\./scenarios/([\w/.]+)\)", scenarios):
            assert (SHIPPED / path).exists()
            numbered = re.match(r"cases/p(\d+)_", path)
            assert numbered is None or int(numbered[1]) == int(number[1:])


def test_every_case_opens_with_its_question():
    """The first line of a scenario of the folder is a comment that asks."""
    for path in (SHIPPED / "cases").glob("*.yaml"):
        head = path.read_text("utf-8").split("\n#\n")[0]
        assert all(line.startswith("#") for line in head.splitlines()), path
        assert "?" in head, path
