"""Parts 10, 14 and 15: when the candidate is worse, and the case against what the review concludes."""

import math
import re
import shlex
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import load_scenario, review
from sim.cli import main
from sim.placement import p_fullest
from sim.report.contrast import Lines, contrast
from sim.review import _risks
from sim.review._knobs import Knob
from sim.review._model import sentences
from sim.review._risks import by_pair, conditions, threshold
from sim.review.parts.opposite import arguments, disconfirming, opposite
from sim.review.parts.risk import risk
from sim.review.parts.threats import threats
from sim.review.sensitivity import Bar, BreakEven, End, Sensitivity
from sim.stats.sensitivity import Estimate
from tests.sim.review.test_record import TIGHT

COMMAND = "windtunnel review slime_group_affinity --baseline sample --candidate group --pairs 40 --seed 1"


def gathered(out, name, pairs, *names):
    """Evidence of two arms."""
    scenario, _, candidate = review.choose(load_scenario(name).select(pairs=pairs), *(names or (None, None)))
    return review.gather(scenario, candidate, Lines(), out=out)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return gathered(tmp_path_factory.mktemp("results"), "slime_group_affinity", 40)


@pytest.fixture(scope="module")
def swapped(tmp_path_factory):
    return gathered(tmp_path_factory.mktemp("results"), "slime_group_affinity", 40, "group", "sample")


@pytest.fixture(scope="module")
def tight(tmp_path_factory):
    """A world that preempts, with more keys than have classes."""
    folder = tmp_path_factory.mktemp("tight")
    (folder / "tight.yaml").write_text(TIGHT.replace("groups: 4", "groups: 12"), encoding="utf-8")
    return gathered(folder / "results", folder / "tight.yaml", 30)


def varied(ratio: float, *, flips: bool) -> Sensitivity:
    """An analysis of one assumption, whose one end has this ratio."""
    knob = Knob("host time of a step", "1.5", basis="guessed", low=0.5, high=2.5, centre=1.5, id="A3")
    decision = "DO NOT RUN" if flips else "RUN"
    estimate = Estimate(ratio, ratio - 0.02, ratio + 0.02, 20)
    end = End(2.5, "2.5", {"fleet.engine.cost.host0_ms": 2.5}, estimate, estimate, decision, flips)
    crossing = BreakEven(
        knob,
        is_condition=True,
        line="worse",
        value=2.2,
        bracket=(2.0, 2.4),
        interval=(2.1, 2.3),
        loses="above",
        bad="host time of a step > 2.2",
        bad_here="host time of a step > 2.2 (here 1.5)",
        says="group loses above 2.2",
    )
    return Sensitivity(20, 20, "RUN", (Bar(knob, (end,)),), (), (crossing,), None, (), None, ())


# -- conditions ---------------------------------------------------------------------------------------------------


def test_placement_classes_have_their_exact_frequency(evidence) -> None:
    """Four keys on two engines; 4:0 is worse, always beyond the harm line, and watched by the engines' own metric."""
    found = {each.says: each for each in conditions(evidence)}
    assert {name: each.frequency for name, each in found.items() if each.is_exact} == {
        "keys fall 2:2": 0.375,
        "keys fall 3:1": 0.5,
        "keys fall 4:0": 0.125,
    }
    worst = found["keys fall 4:0"]
    assert conditions(evidence)[0] == worst
    assert next(each.pairs for name, each in found.items() if name.startswith("the tail of load")) == 10
    assert (worst.is_worse, worst.brings_losses, worst.harmed) == (True, True, worst.pairs)
    assert worst.lo < worst.ratio < worst.hi < 1
    assert worst.live.startswith("sglang:num_running_reqs")
    assert worst.alarm == "at or above 2.00"
    assert not found["keys fall 2:2"].is_worse


@pytest.mark.parametrize(
    ("kind", "named", "left_out"),
    [("sticky_least_loaded", "bounded_loads", "sticky_least_loaded"), ("random", "sticky_least_loaded", "–")],
)
def test_what_is_not_hashed_has_no_classes_and_no_remedy_is_the_candidate(tmp_path, kind, named, left_out) -> None:
    """Few keys on few engines, and none placed by a hash: no law of a hash, no blocks, no planned weights."""
    made = load_scenario("smoke", [f"arms.sticky_least_loaded.router.policy.kind={kind}"]).select(pairs=6)
    scenario, _, candidate = review.choose(made, None, None)
    ev = review.gather(scenario, candidate, Lines(), out=tmp_path)
    assert ev.result.placements == []
    assert ev.plan.blocked is None
    assert ev.primary.exact is None
    found = conditions(ev)
    assert not any(each.is_exact for each in found)
    [spread] = [each for each in found if each.says.startswith("the fullest engine has")]
    assert named in spread.mitigation
    assert left_out not in spread.mitigation


def row(ev, field: str) -> str:
    return next(each.says for each in review.review_of(ev, COMMAND).page if each.field == field)


def test_page_one_names_no_trigger_that_part_10_does_not(evidence, tmp_path) -> None:
    """With pairs enough a class; with one pair in it none is named; where nothing is lost there is no trigger."""
    said = row(evidence, "what triggers it")
    assert re.match(
        r"Mostly when the hash puts the keys on the engines as 4:0, in 12.5% of all jobs: (\d+) of \1 ", said
    )
    assert re.search(r"The ratio there is 0\.\d+ \[0\.\d+, 0\.\d+\], worse on average\.", said)
    few = gathered(tmp_path, "slime_group_affinity", 6)
    rare = next(each for each in conditions(few) if each.says == "keys fall 4:0")
    assert (rare.pairs, rare.ratio, rare.brings_losses) == (1, None, False)
    assert "Of them 1 fell 4:0: too few to tell a trigger from chance." in row(few, "what triggers it")
    calm = gathered(tmp_path, "smoke", 6)
    assert "more than 3% in 0 of 6 simulated pairs" in row(calm, "chance of a regression")
    assert row(calm, "what triggers it").startswith("None: no pair loses more than 3%.")


def shifted(ev, logs: dict[str, float]):
    """The evidence with the candidate's pairs moved, by their placement: its contrast made again."""
    classes = ev.result.arms[ev.candidate].placed.classes
    moves = classes.select(
        "pair", move=pl.col("class").replace_strict(logs, default=0.0, return_dtype=pl.Float64).exp()
    )
    side = ev.found.candidate
    joined = side.values.join(moves, on="pair", maintain_order="left")
    values = joined.with_columns(pl.col("samples_per_s") * pl.col("move")).drop("move")
    names = [each.metric for each in ev.found.findings]
    return replace(ev, found=contrast(ev.found.baseline, replace(side, values=values), names, ev.lines))


@given(st.floats(-0.3, 0.3), st.floats(-0.2, 0.2), st.floats(-0.2, 0.2), st.sampled_from([0.05, 0.2, 0.6]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sentences_of_page_one_agree(evidence, four, three, two, interest) -> None:
    """Whatever the pairs say: better and worse of the whole, of a condition and of the rule come from one interval."""
    ev = replace(
        shifted(evidence, {"4:0": four, "3:1": three, "2:2": two}),
        plan=None,
        lines=replace(evidence.lines, interest=interest),
    )
    shown = review.review_of(ev, COMMAND)
    rows = {line.field: line.says for line in shown.page}
    paired = ev.primary.paired
    whole = "better" if paired.lo > 1 else "worse" if paired.hi < 1 else "either way"
    assert f"{paired.lo:.3f} to {paired.hi:.3f} ({whole})" in rows["uncertainty of the ratio"]
    if "predicted to be" in shown.judgement.headline:
        assert f"predicted to be {whole}" in shown.judgement.headline
        assert "the answer survives simulation noise" in shown.judgement.sure
    conditions_ = {row[0]: row for row in next(part for part in shown.parts if part.number == 10).tables[0].rows}
    told = rows["what triggers it"]
    named = [name for name in conditions_ if name.removeprefix("keys fall ") in told]
    if told.startswith("Mostly when"):
        assert named
        assert all("losses come with it" in conditions_[name][5] for name in named)
        assert ("worse on average" in told) == any(conditions_[name][5].startswith("worse") for name in named)
    else:
        assert not any("losses come with it" in row[5] for row in conditions_.values())
    lost = int(re.search(r"% in (\d+) of", rows["chance of a regression"]).group(1))
    assert lost == sum(ev.primary.logs < math.log(1 - ev.lines.harm))
    assert told.startswith("None: no pair") == (not lost)


def test_every_row_leads_with_a_short_answer(evidence, tight) -> None:
    """The answer first, and few sentences more; no row is a page."""
    for ev in (evidence, tight):
        for line in review.review_of(ev, COMMAND).page:
            assert line.says == f"{line.lead} {line.rest}".strip()
            assert line.lead
            assert len(sentences(line.says)) <= 5, line
            assert len(line.says) <= 800, line
            assert len(line.lead) <= 260, line


def test_many_keys_have_a_threshold(tight) -> None:
    """Of the fullest engine's keys, by the law of the hash; memory that runs out is a condition of its own."""
    found = {each.says.split(":")[0].split(" draws")[0]: each for each in conditions(tight)}
    keys = found["one engine"]
    least = int(re.search(r"draws (\d+) or more of the 12 keys", keys.says).group(1))
    assert keys.frequency == pytest.approx(p_fullest(12, 2, least / 12))
    lost = found["KV pressure"]
    frame = by_pair(tight)
    assert lost.pairs == (frame["lost"] > frame["lost_before"]).sum() > 0
    assert "vllm:num_preemptions_total" in lost.live
    assert "the tail of load" not in found  # all lengths are fixed


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(-1, 1)), min_size=3, max_size=30))
def test_a_threshold_is_the_lowest_with_a_loss_beyond(pairs) -> None:
    """Beyond it the mean is negative where any value has that, and no lower value has it."""
    values, logs = (np.array(each, dtype=float) for each in zip(*pairs, strict=True))
    found = threshold(values, logs)

    def is_worse(value: float) -> bool:
        beyond = logs[values >= value]
        return beyond.size >= _risks.FEWEST and beyond.mean() < 0

    known = [value for value in np.unique(values) if is_worse(value)]
    assert found == (min(known) if known else found)
    assert found in values


def test_the_part_names_the_worst_pair_and_how_to_replay_it(evidence, tmp_path, capsys) -> None:
    """The command that it prints is run: it writes the trace of that pair."""
    part = risk(evidence, COMMAND)
    assert part.text[0].startswith("1 of 5 conditions make group worse; the one that costs most: keys fall 4:0, 12.5%")
    pair, ratio, command = part.tables[1].rows[0]
    logs = evidence.primary.logs
    assert float(ratio) == pytest.approx(np.exp(logs.min()), abs=5e-4)
    assert int(pair) == int(np.argmin(logs))
    assert f"`{command}`" in part.text[-1]
    words = shlex.split(command)
    words[words.index("-o") + 1] = str(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert not ended.value.code
    capsys.readouterr()
    assert [each.name for each in tmp_path.glob("windtunnel-*.jsonl")] == [f"windtunnel-{pair}.jsonl"]


def test_settings_of_the_review_are_those_of_the_replay(evidence) -> None:
    """Overrides and the seed go along."""
    said = risk(evidence, f"{COMMAND} --set fleet.engines=2").tables[1].rows[0][2]
    assert said.startswith("windtunnel export slime_group_affinity --seed 1 --set fleet.engines=2 --first-pair ")


def test_break_evens_are_regressions_elsewhere(evidence) -> None:
    """With an analysis they are listed; without one there is no table."""
    assert len(risk(evidence, COMMAND).tables) == 2
    found = risk(replace(evidence, sensitivity=varied(0.9, flips=True)), COMMAND).tables[2]
    assert found.rows == [("host time of a step > 2.2", "1.5 there", "group loses above 2.2")]


def test_no_condition_is_worse_where_none_is(evidence) -> None:
    """All ratios turned to gains: said, with the number of conditions that were looked at."""
    columns = evidence.found.candidate.values.with_columns(pl.col("samples_per_s") * 2)
    better = replace(
        evidence, found=replace(evidence.found, candidate=replace(evidence.found.candidate, values=columns))
    )
    assert risk(better, COMMAND).text[0] == "In none of the 5 conditions that were looked at is group worse on average."


# -- the opposite case --------------------------------------------------------------------------------------------


def case(ev) -> str:
    """The three sentences."""
    return opposite(ev).text[0]


def test_the_case_turns_with_the_conclusion(evidence, swapped) -> None:
    """A gain is argued against by where it is lost, a loss by where there is a gain."""
    assert case(evidence).startswith("The case to leave sample as it is: ")
    assert "Where keys fall 4:0 (12.5%, exactly) the ratio is 0.9" in case(evidence)
    assert case(swapped).startswith("The case to take sample all the same: ")
    assert "4:0" not in case(swapped)
    assert case(evidence) != case(swapped)


def test_too_small_a_gain_is_argued_for(evidence) -> None:
    """Not worth running at an interest of half: the case is for running, and a gain of nine tenths elsewhere is it."""
    small = replace(evidence, lines=replace(evidence.lines, interest=0.5), sensitivity=varied(1.9, flips=True))
    assert review.review_of(small, COMMAND).judgement.headline.startswith("DO NOT RUN: group is predicted to gain less")
    assert case(small).startswith("The case to run group all the same, as its gain may be worth having: ")
    weights = {each.of: each.weight for each in arguments(small)}
    assert weights["closest flip: host time of a step"] > 1 > weights["smallest n"]
    assert case(replace(small, lines=evidence.lines)) != case(small)


def test_a_flip_is_argued_first(evidence) -> None:
    """An assumption that undoes the effect outweighs a class; one that hardly moves it is left out."""
    flipped = replace(evidence, sensitivity=varied(0.7, flips=True))
    said = "host time of a step is guessed; at 2.5 in place of 1.5 the ratio is 0.7 [0.68, 0.72]"
    assert f"{said} and the decision is another one" in case(flipped)
    own = evidence.primary.paired.ratio
    assert "host time" not in case(replace(evidence, sensitivity=varied(own, flips=False)))


def test_a_weak_calibration_and_few_pairs_are_argued(evidence) -> None:
    """More time outside the region, or a wider interval, weighs more."""
    weights = {each.of: each.weight for each in arguments(evidence)}
    outside = {name: replace(each, inside_share=0.1) for name, each in evidence.coverage.items()}
    far = replace(evidence, coverage=outside)
    assert {each.of: each.weight for each in arguments(far)}["weakest calibration"] > weights["weakest calibration"]
    assert "90% of the simulated time is outside" in case(far)
    first = evidence.primary
    wide = replace(first, paired=replace(first.paired, lo=0.5, hi=2.5))
    unsure = replace(evidence, found=replace(evidence.found, findings=[wide, *evidence.found.findings[1:]]))
    assert {each.of: each.weight for each in arguments(unsure)}["smallest n"] > 1 > weights["smallest n"]
    assert "40 simulated pairs leave the ratio anywhere in [0.500, 2.500]" in case(unsure)


def test_what_would_refute_the_mechanism(evidence, swapped) -> None:
    """Prefill is what moved most: more of it than three pairs may show refutes it, on the other side if it is lost."""
    said = disconfirming(evidence)
    limit, centre, lo, hi = (float(each) for each in re.findall(r"\d\.\d{3}", said))
    assert "saved prefill" in said
    assert "is above" in said
    assert lo < centre < hi == limit < 1
    logs = np.log(evidence.found.candidate.values["prefill_tokens"] / evidence.found.baseline.values["prefill_tokens"])
    assert centre == pytest.approx(float(np.exp(logs.mean())), abs=5e-4)
    assert "is below" in disconfirming(swapped)


def test_three_pairs_may_show_nothing(evidence, tight) -> None:
    """An interval that holds 1 refutes nothing, and says so."""
    values = evidence.found.candidate.values.with_columns(evidence.found.baseline.values["prefill_tokens"])
    noisy = values.with_columns(pl.col("prefill_tokens") * (1 + 0.1 * (pl.col("pair") % 3 - 1)))
    same = replace(evidence, found=replace(evidence.found, candidate=replace(evidence.found.candidate, values=noisy)))
    assert "3 pairs cannot refute it" in disconfirming(same)
    assert disconfirming(tight) != disconfirming(evidence)


def test_threats_are_those_of_this_review(evidence) -> None:
    """Assumptions that turn it are named; those that nobody searched are said not to be known."""
    assert any("is not known (not searched" in each for each in threats(evidence).text)
    found = threats(replace(evidence, sensitivity=varied(0.7, flips=True))).text
    assert (
        "Internal: 1 of 1 assumptions that were varied turn the decision within their ranges: host time of a step."
        in found
    )
