"""The gallery is of the scenarios as they stand: cheap to tell, as no review is run."""

import re
from pathlib import Path

import pytest

from docs import gallery
from sim.scenario import RESULTS_VERSION, check

ROOT = Path(__file__).parent.parent
NAMED = pytest.mark.parametrize("entry", gallery.ENTRIES, ids=lambda entry: entry.name)


def page(name: str) -> str:
    return (gallery.FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_every_scenario_of_the_gallery_has_a_review() -> None:
    """One entry a file, and one page; nothing else lies there."""
    names = {entry.name for entry in gallery.ENTRIES}
    assert {path.stem for path in gallery.SCENARIOS.glob("*.yaml")} == names
    assert {path.stem for path in gallery.FOLDER.glob("*.md")} == {"README", *names}


@NAMED
def test_scenarios_load_and_ask(entry: gallery.Entry) -> None:
    """Every cell loads with the arms that are reviewed, which differ as a review wants it; the file asks a question."""
    head = (gallery.SCENARIOS / f"{entry.name}.yaml").read_text(encoding="utf-8").split("\nname:")[0]
    assert "?" in head
    for _, _, scenario in entry.chosen():
        assert {scenario.baseline, entry.candidate} <= set(scenario.arms)
        check(scenario)


@NAMED
def test_pages_are_of_the_worlds_as_they_stand(entry: gallery.Entry) -> None:
    """Every cell and arm by its hash, which covers files and profiles too, and the version of results."""
    text = page(entry.name)
    assert f"\nResults version {RESULTS_VERSION}.\n" in text, "run python docs/gallery.py"
    stamped = text[text.index("## What this page was made of") :]
    assert stamped.rstrip().endswith(
        "\n".join(gallery.table([("cell", "arm", "hash", "pairs"), *gallery.stamps(entry)]))
    ), "run python docs/gallery.py"


@NAMED
def test_refusals_are_those_that_are_documented(entry: gallery.Entry) -> None:
    """Each cell recommends, or is named as one of which nothing can be recommended."""
    found = re.findall(r"^\*\*(RUN|DO NOT RUN|No recommendation)\b", page(entry.name), flags=re.MULTILINE)
    cells = [name for name, _, _ in entry.chosen()]
    assert [each == "No recommendation" for each in found] == [name in entry.refused for name in cells]


@NAMED
def test_every_cell_was_searched_for_what_would_change_it(entry: gallery.Entry) -> None:
    """Its tornado is shown, its ends stand in a table, and page one says what flips it."""
    text = page(entry.name)
    said = re.findall(r"^\| [^|]*flips[^|]* \| (.*)", text, flags=re.MULTILINE)
    cells = entry.chosen()
    assert len(said) == len(cells)
    assert not any("Not searched" in each for each in said)
    assert len(re.findall(r"-tornado\.png\)", text)) == text.count("Table 9.1: ") == len(cells)


def test_pictures_are_shown_and_small() -> None:
    """Every picture that a page shows is there and has words for who cannot see it; none lies about, none is large."""
    texts = "".join(path.read_text(encoding="utf-8") for path in gallery.FOLDER.glob("*.md"))
    shown = {name: says for says, name in re.findall(r"!\[([^\]]*)\]\(images/([\w.-]+)\)", texts)}
    there = {path.name: path.stat().st_size for path in (gallery.FOLDER / "images").iterdir()}
    assert shown.keys() == there.keys()
    assert all(shown.values())
    assert max(there.values()) <= gallery.MOST_BYTES


def test_the_index_says_all_of_each_review() -> None:
    """Question, answer, what next, what others measured; a link to the page; the command."""
    text = page("README")
    for entry in gallery.ENTRIES:
        part = text[text.index(f"]({entry.name}.md)") :].split("\n## ")[0]
        for wanted in ("**Question.**", "**Answer.**", "**Next.**", "Measured by others", "    windtunnel review "):
            assert wanted in part, (entry.name, wanted)


def test_commands_of_pages_are_of_the_files() -> None:
    """A page's command names a scenario that is there, from the root of a checkout."""
    for entry in gallery.ENTRIES:
        for path in re.findall(r"windtunnel review ([^-\s]\S*)", page(entry.name) + page("README")):
            assert (ROOT / path).is_file()
