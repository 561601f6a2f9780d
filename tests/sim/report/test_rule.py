"""The decision rule: its text, its verdicts, and how often they are wrong."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as theory

from sim.errors import ScenarioError
from sim.report.contrast import Lines
from sim.report.rule import LOOKS, Rule, alone, decide, from_document, odds, rule_for

RULE = Rule("samples_per_s", ("cell",), 8, tail=None)


def around(mean: float, spread: float, pairs: int = 8) -> np.ndarray:
    """Log ratios with exactly this mean and standard deviation."""
    draws = np.linspace(-1, 1, pairs)
    return np.log(mean) + spread * draws / draws.std(ddof=1)


def word(logs: np.ndarray, rule: Rule = RULE, look: int = 0, **tail: np.ndarray) -> str:
    return decide(rule, look, {"cell": alone(logs)}, {c: alone(t) for c, t in tail.items()}, []).word


def test_each_verdict_at_its_threshold():
    """Half widths of 1.4 %: what lies on either side of 0.97, 1.00, 1.03 and 1.05 decides."""
    half = 0.014
    spread = half * np.sqrt(8) / theory.t.ppf(0.98, 7)
    assert word(around(1.08, spread)) == "RECOMMEND"
    assert word(around(1.0505, spread)) == "RECOMMEND"
    assert word(around(1.0495, spread)) == "INCONCLUSIVE"
    assert word(around(1.01, spread)) == "REJECT"
    assert word(around(1.02, spread)) == "INCONCLUSIVE"
    assert word(around(0.8, spread)) == "REJECT"
    wide = 0.07 * np.sqrt(8) / theory.t.ppf(0.98, 7)
    assert word(around(1.06, wide)) == "ADOPT"
    assert word(around(1.03, wide)) == "INCONCLUSIVE"


def test_the_level_of_a_look():
    """A first look is held to 96 %, the second to 99 %, one alone to 95 %: ends that clear 1 by less decide so."""
    for looks, look, level in ((LOOKS, 0, 0.96), (LOOKS, 1, 0.99), ((0.05,), 0, 0.95)):
        rule = replace(RULE, looks=looks)
        edge = np.log(1.08) * np.sqrt(8) / theory.t.ppf((1 + level) / 2, 7)
        assert rule.level(look) == pytest.approx(level)
        assert word(around(1.08, 0.99 * edge), rule, look) == "RECOMMEND"
        assert word(around(1.08, 1.01 * edge), rule, look) != "RECOMMEND"


def test_lower_is_better_turns_the_ratio():
    """A makespan of 0.92 of the old one is a gain of 8.7 %."""
    rule = replace(RULE, primary="makespan_s")
    found = decide(rule, 0, {"cell": alone(around(0.92, 0.01))}, {}, [])
    assert found.word == "RECOMMEND"
    assert found.all_cells.ratio == pytest.approx(1 / 0.92)


def test_the_tail_guards_an_option():
    """A p95 that may be 5 % worse keeps a gain from being adopted; absent values do too."""
    rule = replace(RULE, tail="group_completion_p95_s")
    gain = around(1.10, 0.01)
    assert word(gain, rule, cell=around(1.0, 0.01)) == "RECOMMEND"
    assert word(gain, rule, cell=around(1.04, 0.03)) == "INCONCLUSIVE"
    assert word(gain, rule) == "INCONCLUSIVE"


def test_cells_weigh_alike_and_holm_corrects():
    """Every cell must clear 1 at its Holm level; the pooled mean weighs cells, not pairs."""
    rule = replace(RULE, cells=("a", "b", "c"), looks=(0.05,))
    strong, long = around(1.2, 0.02), around(1.2, 0.02, pairs=40)
    edge = np.log(1.10) * np.sqrt(8) / theory.t.ppf(0.975, 7)
    weak = around(1.10, 0.97 * edge)  # p a little below 5 %
    found = decide(rule, 0, {"a": alone(long), "b": alone(strong), "c": alone(weak)}, {}, [])
    assert np.log(found.all_cells.ratio) == pytest.approx((2 * np.log(1.2) + np.log(1.10)) / 3)
    assert found.word == "RECOMMEND"
    two_weak = decide(rule, 0, {"a": alone(strong), "b": alone(weak), "c": alone(weak)}, {}, [])
    assert two_weak.holm_p["b"] == pytest.approx(2 * two_weak.cells["b"].p)
    assert two_weak.word == "ADOPT"


def test_a_guardrail_stops_whatever_the_ratio():
    """And says why."""
    found = decide(RULE, 0, {"cell": alone(around(1.5, 0.01))}, {}, ["failures 3 %"])
    assert (found.word, found.because, found.all_cells) == ("STOPPED", ["failures 3 %"], None)


def test_one_pair_has_no_interval():
    """Nothing is decided by it."""
    assert word(np.log([1.5])) == "INCONCLUSIVE"


def test_a_rule_reads_back_and_its_text_says_its_numbers():
    """What is written is what is read; a changed number changes the text."""
    rule = rule_for("samples_per_s", ["a", "b"], 12, Lines(harm=0.04, interest=0.06), groups=True)
    again = from_document(json.loads(json.dumps(rule.document())))
    assert again == rule
    for word_ in ("12", "0.96", "1.06", "1.04", "0.04 + 0.01", "2%", "5%", "1%", "a, b", "group_completion_p95_s"):
        assert word_ in rule.text(), word_
    assert "no extension" in replace(rule, looks=(0.05,)).text()
    assert "one extension by 1 pair, alpha" in replace(rule, pairs=1).text()
    with pytest.raises(ScenarioError, match="no better side"):
        rule_for("moved_turns_rate", ["a"], 3, Lines(), groups=False)
    with pytest.raises(ScenarioError, match="schema must be"):
        from_document({"schema": "x"})


def test_the_text_says_which_line_comes_first_and_its_bounds_are_the_rules():
    """A default before an option before a rejection; a bound between two decimals is not rounded."""
    text = replace(RULE, interest=0.0125).text()
    assert "of the lines below the first that holds" in text
    assert text.index("RECOMMEND default") < text.index("ADOPT as option") < text.index("REJECT  ")
    assert "mean > 1.0125" in text
    assert "lower bound > 0.97" in text


@given(st.floats(0.001, 0.2), st.floats(0.001, 0.2), st.floats(0.8, 1.3), st.floats(1e-4, 0.2))
def test_no_result_is_adopted_and_rejected(harm, interest, mean, spread):
    """Lines under which one could be are refused; under all others the order of the lines does not matter."""
    lines = Lines(harm=harm, interest=interest)
    if harm > interest:
        with pytest.raises(ScenarioError, match="one result could be adopted and rejected"):
            rule_for("samples_per_s", ["cell"], 8, lines, groups=False)
        return
    rule = rule_for("samples_per_s", ["cell"], 8, lines, groups=False)
    found = decide(rule, 0, {"cell": alone(around(mean, spread))}, {}, [])
    assert not (found.word in ("ADOPT", "RECOMMEND") and found.all_cells.hi < 1 + harm)


def test_a_null_effect_passes_as_rarely_as_the_levels_say():
    """No effect: over both looks at most 5 % are shown either way, within three standard errors of 4,000 campaigns."""
    draw = np.random.Generator(np.random.PCG64(5))
    campaigns, wrong = 4000, 0
    for _ in range(campaigns):
        logs = 0.05 * draw.standard_normal(16)
        first, second = (decide(RULE, look, {"cell": alone(logs[: 8 * (look + 1)])}, {}, []) for look in (0, 1))
        wrong += any(
            abs(np.sign(np.log(f.all_cells.lo)) + np.sign(np.log(f.all_cells.hi))) == 2 for f in (first, second)
        )
    assert wrong / campaigns < 0.05 + 3 * np.sqrt(0.05 * 0.95 / campaigns)
    assert wrong / campaigns > 0.03


def reading(text: str, lo: float, mean: float, hi: float) -> list[str]:
    """The verdicts whose line of the text holds of an interval in one cell, in the order of the lines."""
    bounds = [float(each) for each in re.findall(r"bound [<>] ([\d.]+)|mean > ([\d.]+)", text) for each in each if each]
    above_one, safe, worth, harmless = bounds
    adopt = lo > safe and mean > worth
    holds = {"RECOMMEND": adopt and lo > above_one, "ADOPT": adopt, "REJECT": hi < harmless}
    assert sorted(holds, key=lambda each: text.index(f"\n{each} ")) == list(holds)
    return [each for each, is_so in holds.items() if is_so] or ["INCONCLUSIVE"]


@given(st.integers(1, 200), st.integers(1, 200), st.floats(0.8, 1.3), st.floats(1e-4, 0.2))
def test_exactly_one_verdict_of_the_text_fits_any_interval(harm, interest, mean, spread):
    """Read as it is written it says what the program says; an option and a rejection never hold together."""
    lines = Lines(harm=min(harm, interest) / 1000, interest=interest / 1000)
    rule = rule_for("samples_per_s", ["cell"], 8, lines, groups=False)
    found = decide(rule, 0, {"cell": alone(around(mean, spread))}, {}, [])
    over = found.all_cells
    fits = reading(rule.text(), over.lo, over.ratio, over.hi)
    assert fits[0] == found.word
    assert fits in (["RECOMMEND", "ADOPT"], ["ADOPT"], ["REJECT"], ["INCONCLUSIVE"])


def test_odds_are_those_of_decided_campaigns():
    """Shares of each word at each look are what the rule says of campaigns drawn pair by pair."""
    rule, draws = replace(RULE, pairs=6), 1_000
    for ratio, spread in ((1.0, 0.06), (1.05, 0.04), (1.12, 0.06)):
        found = odds(rule, ratio, spread)
        assert sum(found[0].values()) == pytest.approx(1)
        assert sum(found[1].values()) == pytest.approx(found[0]["INCONCLUSIVE"])
        counts = [dict.fromkeys(each, 0) for each in found]
        for logs in np.random.default_rng(5).normal(np.log(ratio), spread, (draws, 12)):
            first = word(logs[:6], rule)
            counts[0][first] = counts[0].get(first, 0) + 1
            if first == "INCONCLUSIVE":
                second = word(logs, rule, 1)
                counts[1][second] = counts[1].get(second, 0) + 1
        for shares, counted in zip(found, counts, strict=True):
            for said, count in counted.items():
                assert shares.get(said, 0) == pytest.approx(count / draws, abs=0.065)


def test_odds_without_chance():
    """Without spread the true ratio alone decides; one pair decides nothing, its extension does."""
    assert odds(RULE, 1.2, 0.0) == [{"RECOMMEND": 1.0}, {}]
    assert odds(RULE, 1.0, 0.0) == [{"REJECT": 1.0}, {}]
    assert odds(RULE, 1.04, 0.0)[1] == {"INCONCLUSIVE": 1.0}
    assert odds(replace(RULE, pairs=1), 1.2, 0.0) == [{"INCONCLUSIVE": 1.0}, {"RECOMMEND": 1.0}]
