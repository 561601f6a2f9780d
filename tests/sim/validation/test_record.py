"""The record of a validation: what ships is of this version and of the page, and its errors are what they say."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import ScenarioError
from sim.scenario import RESULTS_VERSION
from sim.validation import (
    agreement,
    case_names,
    dump,
    load_case,
    merged,
    page,
    read_record,
    recall,
    record_of,
    run_case,
)
from sim.validation._page import number
from sim.validation._sources import SOURCES
from tests.sim.validation.test_cases import ROW, written

PAGE = Path(__file__).parents[3] / "docs" / "validation.md"


def ratio(ours, published, lo=None, hi=None):
    """A measured ratio of two arms."""
    known = next(row for row in read_record().ratios)
    return replace(known, ours=ours, value=published, lo=lo, hi=hi)


def test_the_shipped_record_is_of_this_version_and_holds_every_row():
    """With the verdicts that the cases store; a change of numbers asks for a new record."""
    found = read_record()
    assert found.results_version == RESULTS_VERSION
    assert not found.is_stale
    assert [case.name for case in found.cases] == list(case_names())
    for case in found.cases:
        own = load_case(case.name)
        assert [(row.name, row.value, row.verdict, row.is_ratio) for row in case.rows] == [
            (row.name, row.value, row.verdict, row.is_ratio) for row in own.rows
        ]
        assert case.pairs == own.full_pairs


def test_the_page_and_the_record_are_of_one_run():
    """Every value of ours stands on the page as the record has it."""
    text = PAGE.read_text(encoding="utf-8")
    for case in read_record().cases:
        section = text.split(f"\n## {case.name}\n")[1].split("\n## ")[0]
        for row in case.rows:
            [line] = [each for each in section.splitlines() if each.startswith(f"| {row.name} | ")]
            shown = float(line.split(" | ")[1].split()[0].replace(",", ""))
            assert shown == pytest.approx(row.ours, rel=1e-3, abs=1e-12) or number(row.ours) in line, row.name


def test_the_page_is_the_record_in_words():
    """To the letter: nothing on it is older or newer."""
    every = [recall(load_case(case.name), case) for case in read_record().cases]
    assert page(every) == PAGE.read_text(encoding="utf-8")


def test_every_row_is_of_a_published_result_or_a_law():
    """And the table at the top of the page has each of them, with a place where it was published or a reason."""
    rows = [row for name in case_names() for row in load_case(name).rows]
    assert {row.of for row in rows} <= SOURCES.keys()
    covered = {row.of for row in rows}
    assert [name for name, each in SOURCES.items() if name not in covered and not each.uncovered] == []
    assert all(row.of.startswith("T") for row in rows if row.kind == "truth" and row.of not in ("R1", "R11"))
    assert not any(row.of.startswith("T") for row in rows if row.kind == "published")


def test_a_record_takes_a_case_in():
    """One of the same version; a case whose rows have changed since is not shown as if they had not."""
    found = read_record()
    old = replace(found, cases=found.cases[:3])
    new = replace(found, cases=(replace(found.cases[1], pairs=7), found.cases[-1]))
    made = merged(old, new)
    assert [case.name for case in made.cases] == [found.cases[place].name for place in (0, 1, 2, -1)]
    assert made.cases[1].pairs == 7
    with pytest.raises(ScenarioError, match="run all cases again"):
        merged(replace(old, results_version=RESULTS_VERSION - 1), new)
    case = load_case("ties")
    recorded = next(each for each in found.cases if each.name == "ties")
    changed = replace(case, rows=(replace(case.rows[0], value=1.0), *case.rows[1:]))
    with pytest.raises(ScenarioError, match="^case ties: its rows are not those of the record: run it again$"):
        recall(changed, recorded)


def test_the_width_of_the_others_is_tried_on_each_case():
    """Equal errors are all held; a case that is further off than all others is not, and it is out of its own width."""
    known = next(case for case in read_record().cases if case.ratios)
    cases = tuple(replace(known, name=str(off), rows=(ratio(off, 1.0), ratio(1 / off, 1.0))) for off in (1.1, 1.1, 1.1))
    assert replace(read_record(), cases=cases).held_out == (6, 6)
    far = replace(known, name="far", rows=(ratio(2.0, 1.0), ratio(1.05, 1.0)))
    assert replace(read_record(), cases=(*cases, far)).held_out == (7, 8)
    held, ratios = read_record().held_out
    assert 0.8 < held / ratios < 0.95


def test_errors_of_ratios():
    """Half of an effect of 2 as 1, and one of 1/2 that is exaggerated: the bias is the middle, the sizes are not."""
    found = agreement([ratio(1.0, 2.0, 0.9, 1.1), ratio(0.25, 0.5, 0.2, 0.3), ratio(1.5, 1.5), ratio(0.9, 1.2)])
    assert found.median == pytest.approx((1 + 1 / 3) / 2)
    assert found.bias == pytest.approx((0.5 * 2 * 1 * 0.75) ** 0.25 - 1)
    assert (found.ratios, found.ordered, found.separable) == (4, 2, 3)
    assert found.tau == 0
    assert agreement([]) is None


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=8))
def test_an_error_does_not_know_which_arm_stands_on_top(pairs):
    """Turning ratios over, ours and theirs, changes nothing of their errors."""
    one = agreement([ratio(ours, published) for ours, published in pairs])
    other = agreement([ratio(1 / ours, 1 / published) for ours, published in pairs])
    assert (one.median, one.p90) == (pytest.approx(other.median), pytest.approx(other.p90))
    if all(abs(published - 1) > 1e-9 and abs(ours - 1) > 1e-9 for ours, published in pairs):
        assert one.bias == pytest.approx(other.bias)
        assert one.tau == other.tau


def test_what_counts():
    """Published ratios of two arms; not truths, not one arm alone, not a value under other assumptions."""
    case = load_case("slime_groups")
    counted = {row.name for row in case.rows if row.is_ratio}
    assert counted == {"ratio, 2:2", "ratio, 3:1", "ratio, 4:0", "ratio, all keys"}
    assert not any(row.is_ratio for row in load_case("slime_turns").rows)
    assert not any(row.is_ratio for row in load_case("equal_arms").rows)


def test_a_record_is_read_as_it_was_written(tmp_path):
    """Also a value that is none; an older version is stale, another file none at all."""
    row = ROW.replace('mean(total(one, "is_last"))', 'spearman(total(one, "request"), total(one, "request"))')
    case = load_case(written(tmp_path, row.replace("truth", "published")))
    made = record_of([run_case(case, out=tmp_path)])
    path = tmp_path / "record.json"
    path.write_text(dump(made), encoding="utf-8")
    found = read_record(path)
    assert math.isnan(found.cases[0].rows[0].ours)
    assert json.loads(path.read_text())["cases"][0]["rows"][0]["ours"] is None
    assert replace(found, cases=()) == replace(made, cases=())
    assert found.cases[0].traits == made.cases[0].traits
    assert found.cases[0].traits.shapes == ("shared prompts, one turn, all at once",)
    assert replace(found, results_version=RESULTS_VERSION - 1).is_stale
    path = tmp_path / "other.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"other.json is no record of a validation"):
        read_record(path)


def test_cases_that_resemble():
    """Most traits in common first; those that hold no measurement never."""
    found = read_record()
    slime = next(case for case in found.cases if case.name == "slime_groups")
    assert any(case is slime and len(shared) == 5 for case, shared in found.resembling(slime.traits))
    sizes = [len(shared) for _, shared in found.resembling(slime.traits)]
    assert sizes == sorted(sizes, reverse=True)
    assert "equal_arms" not in {case.name for case, _ in found.resembling(slime.traits)}
