"""What a search for flips may cost: laws of the budget, and what is bought with how much of it.

The planted world with twelve groups: 24 requests a replication, so that two pairs of a setting are 96 requests, and of
one with twice the groups 192.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import load_scenario, results
from sim.cli._review import review as command
from sim.review._knobs import Knob
from sim.review.parts.sensitivity import flips_said
from sim.review.parts.sensitivity import text as sensitivity_text
from sim.review.sensitivity import BUDGET, Budget, Centre, Sensitivity, study
from sim.review.sensitivity._nearest import CLOSE, SCREENED, likely, ranked
from sim.review.sensitivity._runs import Runs
from sim.sweep import run
from tests.sim.review.test_sensitivity import INERT, PLANTED, QUIET, planted

SCREEN = 96
"""Requests of a setting with two pairs."""
KNOWN = [each for each in QUIET if "visibility" not in each]
OUTPUT = "{kind: lognormal, median: 64, sigma: 0.05}"
LIMITS = (SCREEN, 2 * SCREEN, 5 * SCREEN, 9 * SCREEN, 40 * SCREEN)


@dataclass(frozen=True)
class Searched:
    """What a budget bought, and what that was in requests that were simulated."""

    limit: int
    found: Sensitivity | None
    why: str
    requests: int

    @property
    def pairs(self) -> dict[tuple[str, str], int]:
        """Of each end."""
        bars = (*self.found.bars, *self.found.conditions) if self.found else ()
        return {(bar.knob.id, end.value): end.ratio.pairs for bar in bars for end in bar.ends}


@pytest.fixture(scope="module")
def centre(tmp_path_factory) -> Centre:
    folder = tmp_path_factory.mktemp("centre")
    planted(folder, OUTPUT, (PLANTED, INERT, *KNOWN))
    scenario = load_scenario(folder / "planted.yaml", ["workload.groups=12"]).select(pairs=20)
    result = run(scenario, out=folder / "out")
    paired = result.comparison("group", "samples_per_s").paired
    return Centre(
        scenario, "group", "client.key_scope", paired, (result.arms["sample"], result.arms["group"]), 0.05, 20, 24
    )


@pytest.fixture(scope="module")
def searches(centre, tmp_path_factory) -> list[Searched]:
    """The same search with more and more to spend."""
    found = []
    for limit in LIMITS:
        out = tmp_path_factory.mktemp("search")
        searched, why = study(centre, None, out=out, requests=limit)
        there = out / "sensitivity" / "planted"
        requests = results.scan("requests", there.parent).collect().height if there.exists() else 0
        found.append(Searched(limit, searched, why, requests))
    return found


@given(st.lists(st.integers(0, 50)), st.integers(0, 200), st.integers(0, 200))
def test_what_is_bought_with_less_is_bought_with_more(prices: list[int], one: int, other: int) -> None:
    """In the same order, never for more than there is; after the first that was too dear only what costs nothing."""
    small, large = (Budget(limit) for limit in sorted((one, other)))
    bought = [[place for place, price in enumerate(prices) if each.buy(price)] for each in (small, large)]
    for budget, places in zip((small, large), bought, strict=True):
        assert budget.spent == sum(prices[place] for place in places) <= budget.limit
        missed = [place for place, price in enumerate(prices) if place not in places]
        assert all(not prices[place] for place in places if missed and place > missed[0])
    assert set(bought[0]) <= set(bought[1])


def test_no_more_is_simulated_than_there_is(searches) -> None:
    """Counted in the tables that were stored, sizes that are larger with what they take."""
    for each in searches:
        if each.found is not None and each.found.budget is not None:
            assert each.requests <= each.found.budget.spent <= each.limit
    assert any(each.requests > 0.9 * each.limit for each in searches)


def test_more_to_spend_takes_nothing_away(searches) -> None:
    """Every end that was searched still is, with as many pairs or more; every break-even, map and draw too."""
    assert searches[-1].pairs.keys() > searches[2].pairs.keys()
    for less, more in pairwise(searches):
        assert all(more.pairs[end] >= pairs for end, pairs in less.pairs.items())
        if less.found is not None:
            assert more.found is not None
            assert {(each.knob.id, each.line) for each in less.found.break_evens} <= {
                (each.knob.id, each.line) for each in more.found.break_evens
            }
            assert less.found.grid is None or more.found.grid is not None
            assert less.found.joint is None or more.found.joint is not None


def test_what_the_first_does_not_fit_in_searches_nothing(searches) -> None:
    """One end of two of the first assumption can be paid for: neither is run, and it says what they take."""
    assert searches[0].found is None
    assert searches[0].requests == 0
    assert searches[0].why == (
        "not searched: the ends of fleet.engine.cost.per_sequence_ms alone take 192 requests with 2 pairs, "
        "more than 96 (--sensitivity-requests)"
    )


def test_more_pairs_go_to_what_the_screen_puts_first(searches, centre, tmp_path: Path) -> None:
    """The assumptions' ends with more pairs are the first of the order that two pairs gave."""
    alone = next(each for each in searches if each.limit == 5 * SCREEN).found
    assert {end.ratio.pairs for bar in alone.bars for end in bar.ends} == {SCREENED}
    runs = Runs(centre, out=tmp_path, jobs=1, fresh=False, progress=None)
    order = [(knob.id, end.value) for knob, end in ranked(runs, alone.bars)]
    assert order[0] == ("A1", "4")  # a dear sequence is where the group's key gains least
    some = next(each for each in searches if each.limit == 9 * SCREEN).pairs
    close = [end for end in order if some[end] > SCREENED]
    assert close == order[: len(close)]
    assert 0 < len(close) < len(order)
    assert {some[end] for end in close} == {CLOSE}


def test_what_may_matter_comes_first() -> None:
    """What the author names, then by how it is known; else as in the register."""
    knobs = [Knob(name, "", basis) for name, basis in zip("abcde", BASES, strict=True)]
    assert [each.name for each in likely(knobs, 1)] == ["a", "c", "e", "b", "d"]


BASES = ("measured", "documented", "guessed", "measured", "guessed")


def test_a_setting_costs_what_its_workload_has(centre, tmp_path: Path) -> None:
    """Twice the groups, twice the requests; other engines, as many; pairs that are paid for cost nothing."""
    runs = Runs(centre, out=tmp_path, jobs=1, fresh=False, progress=None, budget=Budget(1000))
    more, other = {"workload.groups": 24}, {"fleet.engines": 3}
    assert runs.price([more], 2) == 2 * SCREEN
    assert runs.price([other, {}], 2) == SCREEN
    assert runs.buy([more], 2)
    assert runs.price([more, other], 4) == 2 * SCREEN + 2 * SCREEN
    assert not runs.buy([more, other], 20)
    assert runs.budget.spent == 2 * SCREEN


def test_more_pairs_of_a_setting_are_added_to_those_it_has(centre, tmp_path: Path) -> None:
    """Also where stored results are not to be used: the first two pairs are run once, and the estimate is of all."""
    heard: list[tuple[int, int]] = []
    runs = Runs(centre, out=tmp_path, jobs=1, fresh=True, progress=lambda done, total: heard.append((done, total)))
    setting = {"fleet.engine.cost.step_ms": 6.0}
    runs.at([setting], ["step"], 2)
    heard.clear()
    [found] = runs.at([setting], ["step"], 4)
    assert heard[0] == (4, 8)
    assert found is not None
    assert found[0].pairs == 4
    assert runs.done == 8


def test_a_page_says_what_was_not_searched(searches) -> None:
    """No decision is claimed for an end that is too wide to tell, or for what the budget did not reach."""
    evidence = SimpleNamespace(is_lower_better=False, primary=SimpleNamespace(metric="samples_per_s"))
    for each in searches[1:]:
        assert each.found is not None
        assert each.found.budget is not None
        said, text = flips_said(evidence, each.found), " ".join(sensitivity_text(evidence, each.found))
        is_open = any(end.decision == "undecided" for bar in each.found.bars for end in bar.ends)
        assert ("None of" in said) == (not is_open and not each.found.missed)
        assert ("Not searched: " in said) == bool(each.found.missed)
        assert all(knob.id in said and knob.name in text for knob in each.found.missed)
        assert f"Searched with {each.found.budget.spent:,} of {each.limit:,} requests" in text
    assert any(each.found.missed for each in searches[1:])


def test_the_option_has_the_budget_of_the_library() -> None:
    """The command's help is made without loading a review."""
    [option] = [each for each in command.params if each.name == "sensitivity_requests"]
    assert option.default == BUDGET
