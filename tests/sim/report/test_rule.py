"""The decision rule: its text, its verdicts, and how often they are wrong."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as theory

from sim.errors import ScenarioError
from sim.report.contrast import Lines
from sim.report.rule import (
    ADOPTED,
    DRAWS,
    LOOKS,
    WORDS,
    Rule,
    adopted,
    alone,
    decide,
    from_document,
    least_adopted,
    odds,
    pairs_that_adopt,
    rule_for,
)
from sim.stats.power import Design, unblocked

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
    assert word(around(1.0495, spread)) == "SMALL"
    assert word(around(1.01, spread)) == "REJECT"
    assert word(around(1.02, spread)) == "SMALL"
    assert word(around(0.8, spread)) == "REJECT"
    wide = 0.07 * np.sqrt(8) / theory.t.ppf(0.98, 7)
    assert word(around(1.06, wide)) == "ADOPT"
    assert word(around(1.03, wide)) == "INCONCLUSIVE"
    narrow = spread / 3
    assert word(around(1.024, narrow)) == "REJECT"
    assert word(around(1.026, narrow)) == "SMALL"


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


def test_a_tail_that_is_shown_to_be_worse_rejects_and_extends_nothing():
    """More than 5 % worse beyond doubt: no further pair could make it an option, whatever the gain."""
    rule = replace(RULE, tail="group_completion_p95_s")
    bad = around(1.10, 0.01)
    for mean in (0.9, 1.0, 1.04, 1.10, 1.5):
        assert word(around(mean, 0.01), rule, cell=bad) == "REJECT"
    found = decide(rule, 0, {"cell": alone(around(1.10, 0.01))}, {"cell": alone(bad)}, [])
    assert found.because[-1].endswith("shown to be worse than 1.05")


def test_cells_weigh_alike_and_each_must_hold_for_a_default():
    """Every cell clears 1 by its own interval, without correction; the pooled mean weighs cells, not pairs."""
    rule = replace(RULE, cells=("a", "b", "c"), looks=(0.05,))
    strong, long = around(1.2, 0.02), around(1.2, 0.02, pairs=40)
    edge = np.log(1.10) * np.sqrt(8) / theory.t.ppf(0.975, 7)
    weak, open_ = around(1.10, 0.97 * edge), around(1.10, 1.03 * edge)  # p a little below and above 5 %
    found = decide(rule, 0, {"a": alone(long), "b": alone(strong), "c": alone(weak)}, {}, [])
    assert np.log(found.all_cells.ratio) == pytest.approx((2 * np.log(1.2) + np.log(1.10)) / 3)
    assert found.word == "RECOMMEND"
    two_weak = decide(rule, 0, {"a": alone(strong), "b": alone(weak), "c": alone(weak)}, {}, [])
    assert two_weak.holm_p["b"] == pytest.approx(2 * two_weak.cells["b"].p)
    assert two_weak.word == "RECOMMEND"
    one_open = decide(rule, 0, {"a": alone(strong), "b": alone(weak), "c": alone(open_)}, {}, [])
    assert one_open.word == "ADOPT"
    assert one_open.because[-1] == "not shown to be above 1 in c; better in a (Holm)"


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
    for word_ in (
        "12",
        "0.96",
        "1.06",
        "1.04",
        "0.04 + 0.01",
        "2%",
        "5%",
        "1%",
        "20%",
        "a, b",
        "group_completion_p95_s",
    ):
        assert word_ in rule.text(), word_
    assert "no extension" in replace(rule, looks=(0.05,)).text()
    assert "one extension by 1 pair, then all 2 at 99%" in replace(rule, pairs=1).text()
    with pytest.raises(ScenarioError, match="no better side"):
        rule_for("moved_turns_rate", ["a"], 3, Lines(), groups=False)
    with pytest.raises(ScenarioError, match="schema must be"):
        from_document({"schema": "x"})


def test_the_text_says_which_line_comes_first_and_its_bounds_are_the_rules():
    """A default before an option before a rejection; a bound between two decimals is not rounded."""
    text = replace(RULE, interest=0.0125).text()
    assert "of the lines below the first that holds" in text
    labels = [each.label for each in RULE.lines()]
    assert labels == ["RECOMMEND default", "ADOPT as option", "REJECT", "SMALL GAIN"]
    for said in (text, replace(RULE, interest=0.0125).short()):
        places = [said.index(f"{label} ") for label in labels]
        assert places == sorted(places)
        assert places[-1] < said.index("INCONCLUSIVE")
        assert "mean > 1.0125" in said
        assert "lower bound > 0.97" in said


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


def reading(condition: str, lo: float, mean: float, hi: float) -> bool:
    """Whether a condition holds, read from its own words; of one cell, without a tail metric."""
    values, plain = {"lower bound": lo, "upper bound": hi, "mean": mean}, condition.partition(" (")[0]
    tests = [each.rsplit(" ", 2) for each in plain.split(" and ") if each[-1].isdigit()]
    compare = {"<": np.less, ">": np.greater, "<=": np.less_equal}
    return all(bool(compare[sign](values[what], float(at))) for what, sign, at in tests)


@given(st.integers(1, 200), st.integers(1, 200), st.floats(0.8, 1.3), st.floats(1e-4, 0.2))
def test_exactly_one_verdict_of_the_text_fits_any_interval(harm, interest, mean, spread):
    """Read as it is written it says what the program says; an option and a rejection never hold together."""
    lines = Lines(harm=min(harm, interest) / 1000, interest=interest / 1000)
    rule = rule_for("samples_per_s", ["cell"], 8, lines, groups=False)
    found = decide(rule, 0, {"cell": alone(around(mean, spread))}, {}, [])
    over = found.all_cells
    option, *others = rule.lines()[1:]
    default = rule.lines()[0].condition
    assert default == "all of the next line, and lower bound > 1.00"
    fits = [each.word for each in (option, *others) if reading(each.condition, over.lo, over.ratio, over.hi)]
    if "ADOPT" in fits and over.lo > 1:
        fits.insert(0, "RECOMMEND")
    assert (fits or ["INCONCLUSIVE"])[0] == found.word
    assert not {"ADOPT", "REJECT"} <= set(fits)
    assert not {"ADOPT", "SMALL"} <= set(fits)


ORDER = ("REJECT", "INCONCLUSIVE", "SMALL", "ADOPT", "RECOMMEND")


@given(
    st.lists(st.floats(0.7, 1.5), min_size=2, max_size=6),
    st.floats(1e-4, 0.3),
    st.sampled_from([0.8, 1.0, 1.2]),
    st.sampled_from([(0.03, 0.05), (0.02, 0.15), (0.05, 0.05)]),
)
def test_a_larger_mean_never_has_a_worse_verdict(means, spread, tail, lines):
    """At one spread, and with a tail that holds or fails beyond doubt, words only rise with the mean."""
    rule = replace(RULE, tail="group_completion_p95_s", harm=lines[0], interest=lines[1])
    said = [word(around(mean, spread), rule, cell=around(tail, 0.001)) for mean in sorted(means)]
    assert sorted(said, key=ORDER.index) == said
    assert tail < 1.2 or set(said) == {"REJECT"}


def test_odds_are_those_of_decided_campaigns():
    """Shares of each word at each look are what the rule says of campaigns drawn pair by pair."""
    rule, draws = replace(RULE, pairs=6), 1_000
    for ratio, spread in ((1.0, 0.06), (1.04, 0.02), (1.05, 0.04), (1.12, 0.06)):
        found = odds(rule, ratio, unblocked(spread))
        assert sum(found.looks[0].values()) == pytest.approx(1)
        assert sum(found.looks[1].values()) == pytest.approx(found.extended)
        assert found.ends(*WORDS) == pytest.approx(1)
        assert found.pairs == pytest.approx(6 * (1 + found.extended))
        counts = [dict.fromkeys(WORDS, 0) for _ in found.looks]
        for logs in np.random.default_rng(5).normal(np.log(ratio), spread, (draws, 12)):
            first = word(logs[:6], rule)
            counts[0][first] += 1
            if first == "INCONCLUSIVE":
                counts[1][word(logs, rule, 1)] += 1
        for shares, counted in zip(found.looks, counts, strict=True):
            for said, count in counted.items():
                share = shares.get(said, 0.0)
                error = math.sqrt(max(share, 1 / draws) * (1 - min(share, 1 - 1 / draws)) * (1 / draws + 1 / DRAWS))
                assert count / draws == pytest.approx(share, abs=4.5 * error), (ratio, said)


def test_odds_of_a_blocked_campaign_are_those_of_decided_ones():
    """Classes of their own means and spreads, recombined by exact weights: the same words as often."""
    shares, centres, spreads = (0.375, 0.5, 0.125), np.log([1.2, 1.03, 0.8]), (0.06, 0.09, 0.04)
    design = Design(shares, spreads, lambda pairs: [round(share * pairs) for share in shares])
    rule, draws = replace(RULE, pairs=16, looks=(0.05,)), 1_000
    found = odds(rule, math.exp(np.dot(shares, centres)), design)
    source, counts = np.random.default_rng(8), dict.fromkeys(WORDS, 0)
    for _ in range(draws):
        parts = [source.normal(*each) for each in zip(centres, spreads, (6, 8, 2), strict=True)]
        counts[decide(rule, 0, {"cell": (parts, shares)}, {}, []).word] += 1
    for said, count in counts.items():
        assert count / draws == pytest.approx(found.ends(said), abs=4.5 * math.sqrt(0.25 * (1 / draws + 1 / DRAWS)))


def test_odds_without_chance():
    """Without spread the true ratio alone decides; one pair decides nothing, its extension does."""
    still = unblocked(0.0)
    assert odds(RULE, 1.2, still).looks == [{"RECOMMEND": 1.0}, {}]
    assert odds(RULE, 1.0, still).looks == [{"REJECT": 1.0}, {}]
    assert odds(RULE, 1.04, still).looks == [{"SMALL": 1.0}, {}]
    assert odds(replace(RULE, pairs=1), 1.2, still).looks == [{"INCONCLUSIVE": 1.0}, {"RECOMMEND": 1.0}]


@pytest.mark.parametrize("looks", [LOOKS, (0.05,)])
@pytest.mark.parametrize(("pairs", "spread"), [(3, 0.05), (12, 0.05), (72, 0.14), (200, 0.05)])
def test_errors_are_at_most_what_the_text_says(looks, pairs, spread):
    """2.5 % each: shown better where nothing is gained, an option at the harm line, a rejection of a gain as large."""
    rule, drawn, draws = replace(RULE, pairs=pairs, looks=looks), unblocked(spread), 40_000
    most = 0.025 + 4 * math.sqrt(0.025 * 0.975 / draws)
    assert "at most 2.5% each" in rule.text()
    assert odds(rule, 1.0, drawn, draws=draws).ends("RECOMMEND", "SMALL") <= most
    assert odds(rule, 1 - rule.harm, drawn, draws=draws).ends(*ADOPTED) <= most
    assert odds(rule, 1 + rule.harm, drawn, draws=draws).ends("REJECT") <= most


def test_a_gain_of_just_the_threshold_is_a_coin_toss_and_what_is_adopted_with_four_in_five_is_larger():
    """At any number of pairs; the pairs that adopt a gain with 80 % are the fewest that do."""
    for pairs in (20, 72, 500):
        rule = replace(RULE, pairs=pairs)
        assert adopted(rule, 1.05, unblocked(0.1)) < 0.53
        least = least_adopted(rule, unblocked(0.1), 0.8)
        assert least > 1.05
        assert adopted(rule, least, unblocked(0.1)) >= 0.8 > adopted(rule, least - 0.003, unblocked(0.1))
    fewest = pairs_that_adopt(RULE, 1.08, unblocked(0.1), 0.8)
    assert adopted(replace(RULE, pairs=fewest), 1.08, unblocked(0.1)) >= 0.8
    assert adopted(replace(RULE, pairs=fewest - 3), 1.08, unblocked(0.1)) < 0.8
    assert pairs_that_adopt(RULE, 1.05, unblocked(0.1), 0.8) is None
    assert least_adopted(replace(RULE, pairs=1), unblocked(0.1), 0.8) is None
