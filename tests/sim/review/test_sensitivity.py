"""The tornado, break-evens and the joint draw, in a world whose ratio is known by hand.

Three groups of two samples on two engines, SGLang without overlap, prompts of just one chunk of C = 8,192 tokens; a
step takes t, a token of prefill c, a decoding sequence s; L tokens are generated. A key goes to the engine with fewest.

    one key a sample    each engine gets a sample of each group:  3 t + 3 C c + (L - 1)(t + 3 s)
    one key a group     one engine gets two groups:               3 t + (2 C + 2) c + (L - 1)(t + 4 s)

So the group's key wins as long as s < (C - 2) c / (L - 1). Of two groups it wins always, of one never.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import load_scenario, review
from sim.cli import main
from sim.errors import ScenarioError
from sim.log.frames import read_logs
from sim.replication import replicate
from sim.report.contrast import Lines
from sim.review._assumptions import assumptions
from sim.review._conditions import conditions
from sim.review._knobs import scaled
from sim.review.parts._widths import widths
from sim.review.parts.sensitivity import flips_said
from sim.review.sensitivity import Centre
from sim.review.sensitivity._bars import bars_of
from sim.review.sensitivity._break_evens import break_evens
from sim.review.sensitivity._joint import DRAWS, joint_of
from sim.review.sensitivity._runs import Runs
from sim.stats.sensitivity import Estimate
from sim.sweep import run
from sim.validation import RecordedRow

STEP_S, TOKEN_S, CHUNK, LENGTH = 5e-3, 1e-5, 8192, 64
BREAK_EVEN_MS = 1e3 * (CHUNK - 2) * TOKEN_S / (LENGTH - 1)

WORLD = """
name: planted
fleet:
  engines: 2
  engine:
    preset: sglang
    overlap: false
    kv_tokens: 400000
    cost: {kind: constant, step_ms: 5, prefill_ms_per_token: 0.01, per_sequence_ms: 0.5}
workload:
  kind: rollout
  groups: 3
  samples_per_group: 2
  prompt: {group_tokens: 8192}
  output_tokens: OUTPUT
  max_tokens: 200
router: {policy: {kind: sticky_least_loaded}}
client: {key_scope: session}
arms:
  sample: {}
  group: {client: {key_scope: group}}
metrics: [METRIC]
assumptions:
"""
PLANTED = "{field: fleet.engine.cost.per_sequence_ms, range: [0.2, 4.0], gpu_hours: 2}"
INERT = "{field: fleet.engine.kv_tokens, range: [300000, 500000], gpu_hours: 1}"
QUIET = [
    f"{{field: {field}, basis: measured}}"
    for field in (
        "fleet.engine.cost.step_ms",
        "fleet.engine.cost.prefill_ms_per_token",
        "fleet.engine.visibility",
        "fleet.engine.overlap",
        "router.overhead_s",
        "arms.sample.router.policy.tie",
        "arms.group.router.policy.tie",
        "workload.prompt",
        "workload.output_tokens",
        "fleet.noise.engine_speed_sigma",
        "fleet.noise.step_sigma",
    )
]
"""What the author knows: nothing but the two above is varied."""


def seconds(scope: str, per_sequence_s: float) -> float:
    prompts, sequences = {"sample": (3 * CHUNK, 3), "group": (2 * CHUNK + 2, 4)}[scope]
    return 3 * STEP_S + prompts * TOKEN_S + (LENGTH - 1) * (STEP_S + sequences * per_sequence_s)


def ratio(per_sequence_s: float) -> float:
    """Samples a second, one key a group over one a sample."""
    return seconds("sample", per_sequence_s) / seconds("group", per_sequence_s)


def gathered(tmp_path: Path, output: str, *entries: str, pairs: int = 4, varied: int = 2):
    scenario = planted(tmp_path, output, entries).select(pairs=pairs)
    return review.gather(scenario, "group", Lines(), out=tmp_path / "out", sensitivity_pairs=varied)


def planted(tmp_path: Path, output: str, entries: tuple[str, ...], metric: str = "samples_per_s", room: int = 400000):
    file = tmp_path / "planted.yaml"
    text = WORLD.replace("OUTPUT", output).replace("METRIC", metric).replace("400000", str(room))
    file.write_text(text + "".join(f"  - {each}\n" for each in entries))
    return load_scenario(file)


def runs(tmp_path: Path, *entries: str, metric: str = "samples_per_s", room: int = 400000):
    """What it takes to vary the exact world: its runs, and the assumptions that have a range."""
    scenario = planted(tmp_path, "64", entries, metric, room).select(pairs=2)
    result = run(scenario, out=tmp_path / "out")
    paired = result.comparison("group", metric).paired
    arms = result.arms["sample"], result.arms["group"]
    centre = Centre(scenario, "group", "client.key_scope", paired, arms, 0.05, 2, 6)
    made = Runs(centre, out=tmp_path / "out", jobs=1, fresh=False, progress=None)
    return made, [each for each in assumptions(scenario, "group", "client.key_scope") if each.is_varied]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """The world as the law has it: no chance in it."""
    return gathered(tmp_path_factory.mktemp("exact"), "64", PLANTED, INERT, *QUIET)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Lengths vary a little, so there are intervals."""
    path = tmp_path_factory.mktemp("drawn")
    return gathered(path, "{kind: lognormal, median: 64, sigma: 0.05}", PLANTED, INERT, *QUIET, pairs=8, varied=8)


def bar(found, field: str):
    return next(each for each in found.sensitivity.bars if each.knob.fields == (field,))


def test_ends_are_what_the_law_says(exact) -> None:
    """At the centre and at both ends of the cost of a sequence, to the clock's nanosecond."""
    assert exact.primary.paired.ratio == pytest.approx(ratio(0.5e-3), rel=1e-8)
    ends = bar(exact, "fleet.engine.cost.per_sequence_ms").ends
    assert [end.ratio.ratio for end in ends] == pytest.approx([ratio(0.2e-3), ratio(4e-3)], rel=1e-8)
    assert [end.change.ratio for end in ends] == pytest.approx(
        [ratio(0.2e-3) / ratio(0.5e-3), ratio(4e-3) / ratio(0.5e-3)], rel=1e-8
    )


def test_what_has_no_effect_has_a_bar_of_exactly_nothing(exact, drawn) -> None:
    """More KV room than is ever used: the ratio changes by 1, its interval too, with chance in the world or not."""
    for found in (exact, drawn):
        for end in bar(found, "fleet.engine.kv_tokens").ends:
            assert (end.change.ratio, end.change.lo, end.change.hi) == (1.0, 1.0, 1.0)
            assert not end.flips
    row = next(row for row in review.review_of(drawn, "x").parts[8].tables[0].rows if row[1].endswith("kv_tokens"))
    assert row[6:8] == ("1 exactly", "–")


def test_the_break_even_is_the_one_known_by_hand(exact) -> None:
    """Runs on both sides of it, and the straight line between them within 3 % of it."""
    found = next(
        each
        for each in exact.sensitivity.break_evens
        if each.line == "worse" and each.knob.fields == ("fleet.engine.cost.per_sequence_ms",)
    )
    assert found.bracket[0] <= BREAK_EVEN_MS <= found.bracket[1]
    assert found.value == pytest.approx(BREAK_EVEN_MS, rel=0.03)
    assert found.loses == "above"
    assert not found.is_condition
    assert found.says.startswith("group loses if fleet.engine.cost.per_sequence_ms > 1.")


def test_the_break_even_in_a_size(exact) -> None:
    """With one group its two samples share an engine and gain nothing."""
    found = next(
        each
        for each in exact.sensitivity.break_evens
        if each.line == "worse" and each.knob.fields == ("workload.groups",)
    )
    assert found.bracket == (1.0, 2.0)
    assert (found.loses, found.is_condition) == ("below", True)
    assert found.bad == "groups < 2"
    assert "(1 an engine)" in found.says


def test_the_decision_flips_where_it_does(drawn) -> None:
    """RUN as things stand; at 4 ms a sequence the group's key loses 11 %: page one and part 9 say so."""
    end = bar(drawn, "fleet.engine.cost.per_sequence_ms").ends[1]
    assert (drawn.sensitivity.centre, end.decision, end.flips) == ("RUN", "DO NOT RUN", True)
    assert end.ratio.lo < ratio(4e-3) * 1.02
    assert end.ratio.hi > ratio(4e-3) * 0.98
    assert not any(each.flips for each in bar(drawn, "fleet.engine.kv_tokens").ends)
    shown = review.review_of(drawn, "x")
    line = next(each for each in shown.page if each.field == "assumption that flips it")
    assert line.says.startswith("It becomes DO NOT RUN if fleet.engine.cost.per_sequence_ms is 4 (ratio 0.8")
    assert re.search(r"Sizes, which are yours to choose, do: group loses with groups < 2 \(here 3\)[;.]", line.says)
    interest = [each.bad for each in drawn.sensitivity.break_evens if each.line == "interest" and each.is_condition]
    lost = [each.bad for each in drawn.sensitivity.break_evens if each.line == "worse" and each.is_condition]
    assert lost
    assert not [each for each in interest if each not in lost and each in line.says]
    assert line.source.endswith("9.3")
    rows = next(part for part in shown.parts if part.number == 9).tables[0].rows
    assert [row[-1] for row in rows if row[1].endswith("per_sequence_ms")] == ["", "FLIPS"]


def test_page_one_without_a_flip(exact, drawn) -> None:
    """Which end comes nearest, or, where nothing is decided, which moves the ratio most."""
    assert flips_said(exact, exact.sensitivity).startswith(
        "The interval decides nothing that could flip. Of 2 assumptions fleet.engine.cost.per_sequence_ms moves the"
    )
    calm = [each for each in drawn.sensitivity.bars if each.width == 0]
    said = flips_said(drawn, replace(drawn.sensitivity, bars=tuple(calm)))
    assert said.startswith(
        "None of 1 uncertain inputs does within its range, one at a time. Nearest comes fleet.engine.kv_tokens: ratio 1"
    )
    wide = [replace(bar, ends=tuple(replace(end, decision="undecided") for end in bar.ends)) for bar in calm]
    open_ = flips_said(drawn, replace(drawn.sensitivity, bars=tuple(wide)))
    assert open_.startswith("Cannot be told: at all 2 ends of 1 assumption the interval is too wide to decide; ")
    assert "no assumption of this scenario has a range" in flips_said(drawn, replace(drawn.sensitivity, bars=()))


def test_an_end_too_wide_to_decide_is_no_flip(drawn) -> None:
    """The same ratio with an interval of two fifths; one that lies below the smallest effect of interest decides."""
    wide = Estimate(0.9, 0.7, 1.1, 2)
    centre = Centre(drawn.scenario, "group", "x", drawn.primary.paired, (None, None), 0.05, 8, 6)
    assert centre.decide(wide) == "undecided"
    assert centre.decide(Estimate(0.9, 0.89, 0.91, 2)) == "DO NOT RUN"
    assert centre.decide(Estimate(0.9, 0.8, 1.0, 2)) == "DO NOT RUN"
    assert centre.decide(Estimate(1.3, 1.1, 1.5, 2)) == "RUN"
    assert centre.decide(Estimate(0.9, None, None, 1)) == "undecided"


def test_where_lower_is_better_it_is_all_turned_around(tmp_path: Path) -> None:
    """The same world in its makespan: ratios are inverted, the decision and the bad side are not."""
    made, knobs = runs(tmp_path, PLANTED, *QUIET, metric="makespan_s")
    bars = bars_of(made, knobs, 2)
    ends = next(each.ends for each in bars if each.knob.fields[0].endswith("per_sequence_ms"))
    assert [end.ratio.ratio for end in ends] == pytest.approx([1 / ratio(0.2e-3), 1 / ratio(4e-3)], rel=1e-8)
    root = next(each for each in break_evens(made, bars, [], 2) if each.line == "worse")
    assert root.loses == "above"
    assert root.bracket[0] <= BREAK_EVEN_MS <= root.bracket[1]


def test_pairs_are_those_of_the_centre(drawn) -> None:
    """A setting's pair is that pair of the varied cells, run by hand."""
    end = bar(drawn, "fleet.engine.cost.per_sequence_ms").ends[1]
    there = drawn.scenario.varied(end.settings)
    logs = []
    for pair in range(8):
        spans = [read_logs([replicate(there.arms[arm], pair)], [pair]).replications for arm in ("sample", "group")]
        now = math.log(spans[0]["makespan_s"].item() / spans[1]["makespan_s"].item())
        logs.append(now - drawn.found.findings[0].logs[pair])
    assert end.change.ratio == pytest.approx(math.exp(np.mean(logs)), rel=1e-9)


def test_what_matters_is_worth_measuring_first(exact) -> None:
    """What flips the decision has worth, and by its GPU-hours; what does nothing has none."""
    first, *others = exact.sensitivity.worth
    assert first.knob.fields == ("fleet.engine.cost.per_sequence_ms",)
    assert 0 < first.chance < 1
    assert first.per_gpu_hour == pytest.approx(first.loss / 2)
    assert [each.loss for each in others] == [0.0]
    text = next(part for part in review.review_of(exact, "x").parts if part.number == 9).text
    assert any(each.startswith("Measure this first: fleet.engine.cost.per_sequence_ms") for each in text)


def test_the_joint_draw_spreads_as_the_law_does(exact) -> None:
    """One input that matters, uniform over its range: the SD of the law's log ratio over 20 strata."""
    law = np.log([ratio(1e-3 * (0.2 + 3.8 * (i + 0.5) / 200)) for i in range(200)])
    joint = exact.sensitivity.joint
    assert joint.spread.sd == pytest.approx(law.std(), rel=0.1)
    assert joint.spread.noise == pytest.approx(0, abs=1e-9)
    assert joint.root_sum_square == pytest.approx(law.std(), rel=0.25)  # straight lines between three runs


def test_three_widths_stay_apart(exact, drawn) -> None:
    """Table 7.2 has each by itself, and page one says all three."""
    for found in (exact, drawn):
        shown = review.review_of(found, "x")
        part = next(each for each in shown.parts if each.number == 7)
        assert [row[0] for row in part.tables[1].rows] == ["simulation noise", "input uncertainty", "model form"]
        line = next(each.says for each in shown.page if each.field == "uncertainty of the ratio")
        for row, width in zip(part.tables[1].rows, widths(found), strict=True):
            assert row[1].startswith(width.ends)
            assert f"{width.of} {width.ends}".lower() in line.lower()
    assert part.tables[1].rows[1][1] != part.tables[1].rows[0][1]


def test_model_form_is_what_the_record_says(exact) -> None:
    """Ten ratios of which nine are met within 1.25 and five within 1.1; no record, no width."""

    def row(off: float) -> RecordedRow:
        return RecordedRow(f"{off}", "published", 1.5, (1, 2), 1.5 * off, None, None, "missed", is_ratio=True)

    offs = [1.0, 1.0, 1.1, 1 / 1.1, 1.1, 1 / 1.1, 1.2, 1.2, 1.25, 1 / 1.25, 1.9]
    case = replace(exact.record.cases[0], rows=tuple(map(row, offs)))
    shown = [*widths(replace(exact, record=replace(exact.record, cases=(case,))))]
    assert [each.of for each in shown] == ["simulation noise", "input uncertainty", "model form"]
    assert shown[2].says.endswith("(9 in 10 of 11 published ratios are met within a factor of 1.25)")
    assert shown[2].says.startswith(f"{ratio(0.5e-3) / 1.25:.3f} to {ratio(0.5e-3) * 1.25:.3f}")
    assert "within a factor of 1.10" in shown[2].what
    assert widths(replace(exact, record=replace(exact.record, cases=())))[2].says == "not quantified"


def test_the_map_has_every_pair_of_levels(drawn) -> None:
    """Nothing but one assumption moves here, so there is no second; with its tie rule varied there is."""
    assert drawn.sensitivity.grid is None


def test_nothing_is_varied_where_nothing_is_asked_for(tmp_path: Path) -> None:
    """And part 9, page one and the threats say so."""
    scenario = planted(tmp_path, "64", (PLANTED,)).select(pairs=2)
    found = review.gather(scenario, "group", Lines(), out=tmp_path / "out")
    assert found.sensitivity is None
    assert not (tmp_path / "out" / "sensitivity").exists()
    shown = review.review_of(found, "x")
    assert next(each.says for each in shown.page if each.field == "assumption that flips it").startswith("Not searched")
    assert next(part for part in shown.parts if part.number == 9).text[0].startswith("Assumptions were not searched")


def test_an_assumption_about_what_is_asked_is_refused(tmp_path: Path) -> None:
    """With one key scope in both arms there would be nothing to review."""
    entry = "{field: client.key_scope, values: [group]}"
    with pytest.raises(ScenarioError, match=r"planted.yaml:24: .* sample and group are the same"):
        runs(tmp_path, entry)


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    """A prompt that no engine has room for, at the low end; the other end has its bar."""
    made, knobs = runs(tmp_path, "{field: fleet.engine.kv_tokens, range: [2000, 20000]}", *QUIET, room=17000)
    bars = bars_of(made, knobs, 2)
    room = next(each for each in bars if each.knob.fields[0].endswith("kv_tokens"))
    assert [end.level for end in room.ends] == [20000]
    assert any("kv_tokens 2,000 cannot be run: " in each for each in made.notes)
    before = len(made.notes)
    assert joint_of(made, [room], 2).spread.draws < DRAWS
    [said] = [*made.notes][before:]
    assert re.match(r"[1-9]\d? of 20 draws cannot be run; the first: a draw of all assumptions cannot be run: ", said)


@pytest.mark.slow
def test_the_command_says_how_many_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beforehand; the figures are there; without the option as many pairs as the budget allows."""
    planted(tmp_path, "{kind: lognormal, median: 64, sigma: 0.05}", (PLANTED, INERT, *QUIET))
    out = ["--pairs", "8", "--out", str(tmp_path / "results"), "-o", str(tmp_path / "r")]
    with pytest.raises(SystemExit) as ended:
        main(["review", str(tmp_path / "planted.yaml"), *out])
    assert not ended.value.code
    said = capsys.readouterr().err
    assert "sensitivity: 14 settings of 2 assumptions and 6 sizes x 2 arms x 8 pairs = 224 runs, and up to" in said
    assert {"tornado.png", "tornado.svg"} <= {path.name for path in (tmp_path / "r" / "figures").iterdir()}
    assert "FLIPS" in (tmp_path / "r" / "tables" / "9.1.csv").read_text("utf-8")


# -- the register ----------------------------------------------------------------------------------------------------

WIDE = """
name: wide
fleet:
  engines: 2
  engine: {preset: sglang, kv_tokens: 5000, overlap: false}
  noise: {engine_speed_sigma: 0.01, step_sigma: 0.01}
workload:
  kind: rollout
  groups: 6
  samples_per_group: 3
  prompt: {group_tokens: {kind: uniform, low: 400, high: 900}, system_tokens: 200}
  turns: {kind: geometric, mean: 3}
  output_tokens:
    kind: mixture
    parts: [{weight: 1, value: 60}, {weight: 1, value: {kind: uniform, low: 20, high: 90}}]
  observation_tokens: {kind: lognormal, median: 60, sigma: 0.5}
  tool_delay_s: {kind: lognormal, median: 0.2, sigma: 0.5}
  arrivals: {kind: poisson, groups_per_s: 4.0}
  max_tokens: 128
client: {max_sessions_in_flight: 12}
router:
  policy: {kind: sticky_least_loaded, tie: random}
  telemetry: {period_s: 0.5, delay_s: 0.1, jitter_s: 0.3}
  decision: {fixed_s: 0.01}
arms:
  sticky: {}
  queue: {router: {policy: {kind: smg.least_load}}}
"""


def test_each_knob_moves_something(tmp_path: Path) -> None:
    """In a world that has all of it, every entry that can be varied changes what is logged, at both its ends."""
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE)
    scenario = load_scenario(file)
    stuck = []
    knobs = [each for each in assumptions(scenario, "queue", "router.policy") if each.is_varied]
    knobs += conditions(scenario.arms["sticky"], "router.policy", 100, 1)
    names = {each.name for each in knobs}
    assert {"KV room", "cost of prefill", "cost of decode", "siblings see a prefix", "overlap"} <= names
    assert {"router: time between reports, s", "router: cost of a decision", "client: max_sessions_in_flight"} <= names
    assert {"workload: arrivals", "workload: turns", "workload: prompt", "workload: tool_delay_s"} <= names
    assert {"groups", "samples a group", "turns of a session", "engines", "rate of arrivals"} <= names
    centre = {arm: logged(cell) for arm, cell in scenario.arms.items()}
    for knob in knobs:
        for level in knob.ends:
            there = scenario.varied(knob.settings(level)).arms
            if all(logged(there[arm]).equals(centre[arm]) for arm in centre):
                stuck.append((knob.name, level))
    assert stuck == []


def logged(cell):
    return read_logs([replicate(cell, 0)], [0]).requests


def test_entries_that_are_not_varied_say_why(tmp_path: Path) -> None:
    """Every row has a field and a range, or a reason; ids run through."""
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE)
    found = assumptions(load_scenario(file), "queue", "router.policy")
    assert [each.id for each in found] == [f"A{number}" for number in range(1, len(found) + 1)]
    for each in found:
        assert each.is_varied == bool(each.fields and not each.fixed)
    ties = next(each for each in found if each.name == "arm sticky: rule for ties")
    assert ties.options == ("first", "rotate", "sessions")


def test_what_the_arms_differ_in_is_not_varied(tmp_path: Path) -> None:
    """Neither in both nor in one arm; another field of the policy of one arm is, where the whole policies differ."""
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE.replace("{kind: smg.least_load}", "{kind: sticky_least_loaded, tie: first}"))
    found = assumptions(load_scenario(file), "queue", "router.policy.tie")
    assert [each.fixed for each in found if "rule for ties" in each.name] == ["the arms differ in it"] * 2
    assert all("router.policy.tie" not in each.fields for each in found if each.is_varied)


def test_what_the_author_says_takes_the_place_of_ours(exact) -> None:
    """The entry of the same field is gone, also where theirs is a part of it; what is measured is not varied."""
    fields = [field for each in exact.assumptions for field in each.fields]
    assert len(fields) == len(set(fields))
    varied = [each.fields for each in exact.assumptions if each.is_varied]
    assert varied == [("fleet.engine.cost.per_sequence_ms",), ("fleet.engine.kv_tokens",)]
    known = next(each for each in exact.assumptions if each.fields == ("workload.output_tokens",))
    assert (known.basis, known.fixed) == ("measured", "no range is given")


@pytest.mark.parametrize(
    ("value", "factor", "becomes"),
    [
        (10, 1.25, 12),
        (1, 0.1, 1),
        (0, 2, 0),
        (0.5, 2, 1.0),
        ({"kind": "lognormal", "median": 10.0, "sigma": 0.5, "cap": 30.0}, 2, {"median": 20.0, "cap": 30.0}),
        ({"kind": "uniform", "low": 1.0, "high": 3.0}, 2, {"low": 2.0, "high": 6.0}),
        ({"kind": "geometric", "mean": 1.2, "least": 1}, 0.5, {"mean": 1.0}),
        ({"kind": "binomial", "trials": 8, "chance": 0.5, "least": 1}, 0.5, {"trials": 4, "chance": 0.5}),
        ({"group_tokens": 100, "system_tokens": 0}, 0.8, {"group_tokens": 80, "system_tokens": 0}),
    ],
)
def test_what_is_drawn_is_scaled(value, factor: float, becomes) -> None:
    """Numbers, and the parts of a distribution that multiply its draws; caps and shapes stay."""
    found = scaled(value, factor)
    if isinstance(becomes, dict):
        assert {key: found[key] for key in becomes} == becomes
        assert found.keys() == value.keys()
    else:
        assert found == becomes
        assert type(found) is type(becomes)


def test_what_is_outside_the_calibrated_region_is_known_of_every_end(drawn) -> None:
    """A cost that nothing was fitted for has no region: all of its time is outside, at every end."""
    assert {end.outside for each in drawn.sensitivity.bars for end in each.ends} == {1.0}
    assert review.figures(drawn)["tornado"].data["outside"].all()
