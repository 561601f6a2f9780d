"""Validation cases: how rows are read, measured and judged, and that a rerun gives the stored verdicts."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim.errors import ScenarioError
from sim.validation import case_names, load_case, page, run_case, run_cases
from sim.validation._expression import parse
from sim.validation._measures import Arm, Estimate
from sim.validation._run import judge

ROOT = Path(__file__).parents[3]
WORLD = """question: Does it work?
source: nobody
scenario:
  name: little
  fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 10000, cost: {kind: constant, step_ms: 1}}}
  workload:
    {kind: rollout, groups: 5, samples_per_group: 2, prompt: {group_tokens: 64}, output_tokens: 9, max_tokens: 9}
  router: {policy: {kind: round_robin}}
  arms:
    one: {}
    two: {fleet: {engines: 1}}
pairs: {quick: 2, full: 3}
rows:
"""
ROW = "  - {name: requests, truth: 10, measure: 'mean(total(one, \"is_last\"))', verdict: reproduced}\n"
QUICK = ("siblings", "drain", "bounded_loads", "equal_arms", "nothing_to_reuse", "ties")
SHORT = [name for name in case_names() if name not in QUICK and load_case(name).quick_pairs]
"""Cases with a short form that takes seconds."""


def written(tmp_path, rows=ROW, world=WORLD):
    """The file of a case."""
    path = tmp_path / "little.yaml"
    path.write_text(world + rows, encoding="utf-8")
    return path


def row(**changes):
    """A row of a published ratio."""
    known = load_case("slime_groups").rows[0]
    return replace(known, **{"value": 1.3, "band": (1.2, 1.4), "neutral": 1.0, "kind": "published", **changes})


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Estimate(1.25, 0.9, 1.6), "reproduced"),
        (Estimate(1.1, 1.05, 1.15), "order only"),
        (Estimate(1.6, 1.5, 1.7), "order only"),
        (Estimate(1.1, 0.95, 1.25), "not separable"),
        (Estimate(0.9, 0.85, 0.95), "missed"),
        (Estimate(1.1), "order only"),
        (Estimate(float("nan")), "missed"),
    ],
)
def test_verdicts(found, verdict):
    """By band, by the side of no effect, by the interval."""
    assert judge(row(), found) == verdict


@pytest.mark.parametrize("kind", ["truth", "null"])
def test_a_truth_has_no_half_verdict(kind):
    """It is in its band or missed, and without a value of no effect so is a measured one."""
    assert judge(row(kind=kind), Estimate(1.1, 1.05, 1.15)) == "missed"
    assert judge(row(neutral=None), Estimate(1.1, 1.05, 1.15)) == "missed"


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("mean(metric(three, 'makespan_s'))", "unknown arm 'three'"),
        ("men(metric(one, 'makespan_s'))", "unknown function 'men'; did you mean 'mean'"),
        ("mean(metric(one, 'makespan_s')", "cannot be read"),
        ("one.__class__", "Attribute is not taken"),
        ("[one]", "List is not taken"),
        ("mean(metric(one, name='x'))", "Call is not taken"),
        ("1 < 2 < 3", "Compare is not taken"),
        ("3 + 4", "names no arm"),
    ],
)
def test_measures_say_little(measure, said):
    """What is no arithmetic over arms is refused as it is read, with its place."""
    with pytest.raises(ScenarioError, match="here.yaml:3: .*" + re.escape(said)):
        parse(measure, ["one", "two"], "here.yaml:3")


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("mean(metric(one, 'makespan'))", "unknown metric 'makespan'; did you mean 'makespan_s'"),
        ("mean(total(one, 'nothing'))", "unknown column"),
        ("mean(requests_per_engine(one, 'odd'))", "unknown spread"),
        ("mean(keys_per_engine(one, 'turn', 'most'))", "the key must be session or group"),
        ("mean(in_class(one, '2:2'))", "no placement classes"),
        ("metric(one, 'makespan_s')", "take its mean"),
        ("mean(metric(one))", "missing 1 required positional argument"),
        ("mean(where(metric(one, 'makespan_s') < 0, metric(one, 'makespan_s')))", "no pair has a value"),
    ],
)
def test_measures_that_do_not_fit(tmp_path, measure, said):
    """A function says what it was given wrongly."""
    found = written(tmp_path, f'  - {{name: a, truth: 1, measure: "{measure}", verdict: reproduced}}\n')
    with pytest.raises(ScenarioError, match=r"little.yaml:14: rows\.0\.measure: .*" + re.escape(said)):
        run_case(load_case(found), out=tmp_path)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "  - {name: a, measure: 'mean(total(one, 1))', verdict: reproduced}\n",
            "needs one of published, predicted, truth, null",
        ),
        (ROW.replace("truth: 10", "truth: 10, null: 2"), "needs one of published, predicted, truth, null"),
        (ROW.replace("truth: 10", "truth: ten"), "must be a number, not 'ten'"),
        (ROW.replace("truth: 10", "truth: 10, band: [3, 2]"), "two numbers, the lower one first"),
        (ROW.replace("truth: 10", "truth: 10, bend: 3"), "unknown key; did you mean 'band'"),
        (ROW.replace("reproduced", "reproducd"), "unknown verdict 'reproducd'; did you mean 'reproduced'"),
        (ROW.replace("name: requests, ", ""), "required key is missing"),
    ],
)
def test_rows_that_are_wrong(tmp_path, rows, said):
    """One line with the place."""
    with pytest.raises(ScenarioError, match=r"^little.yaml:14: rows\.0.*" + re.escape(said)):
        load_case(written(tmp_path, rows))


@pytest.mark.parametrize("pairs", ["{}", "{quick: 0}", "{full: many}", "{quik: 3}", "4"])
def test_pairs_that_are_wrong(tmp_path, pairs):
    """One line with the place."""
    with pytest.raises(ScenarioError, match=r"^little.yaml:12: pairs"):
        load_case(written(tmp_path, world=WORLD.replace("{quick: 2, full: 3}", pairs)))


def test_only_the_arms_that_rows_name_run(tmp_path):
    """A short run of one row runs one arm, its short number of pairs."""
    case = load_case(written(tmp_path))
    world = case.world(case.rows_of(full=False), full=False)
    assert (list(world.arms), world.pairs) == (["one"], 2)
    assert case.world(case.rows, full=True).pairs == 3


def test_measures_of_a_small_world(tmp_path):
    """Ten requests of 64 and 9 tokens, dealt in turn."""
    measures = {
        "mean(total(one, 'output_tokens'))": 90,
        "highest(largest(one, 'prompt_tokens')) / lowest(average(one, 'output_tokens'))": 64 / 9,
        "lowest(requests_per_engine(one, 'most'))": 5,
        "mean(requests_per_engine(two, 'cv'))": 0,
        "mean(sum_per_engine(one, 'output_tokens', 'most'))": 5 * 9,
        "mean(sum_per_engine(one, 'request', 'most') - sum_per_engine(one, 'request', 'least'))": 5,
        "mean(keys_per_engine(one, 'session', 'most_over_least'))": 1,
        "median(agreement(one, one))": 1,
        "rms(agreement(one, two))": 0.5,
        "gmean(metric(two, 'makespan_s')) ** 0 + -1": 0,
        "mean(hits(one))": 0,
        "mean(over_bound(two, 1.0))": 0,
        "spearman(total(one, 'request'), total(one, 'request'))": float("nan"),
        "mean(quantile_between(one, 'prompt_tokens', 0.5, 0, 1))": 64,
        "mean(throughput_between(one, 0, 1) * metric(one, 'makespan_s'))": 90,
        "mean(group_latency(one, 1.0) <= metric(one, 'makespan_s'))": 1,
        "mean(sessions_ended(one, 10) / metric(one, 'makespan_s'))": 1,
        "mean(keys_in_lots(one, 'session', 2, 'most'))": 1,
        "mean(keys_in_lots(one, 'session', 10, 'most', 0.5))": 5,
        "mean(drained(one, 0.001, 0, 0) - metric(one, 'makespan_s'))": 0,
        "mean(drained(one, 0, 1, 0) + drained(one, 0, 0, 1))": 5 * 8 + 5 * 64,
        "mean(average(one, 'delay_s') - average(one, 'wait_s'))": 0,
    }
    rows = "".join(f'  - {{name: a, published: 0, measure: "{each}", verdict: missed}}\n' for each in measures)
    found = run_case(load_case(written(tmp_path, rows)), out=tmp_path)
    assert [each.found.value for each in found.outcomes] == pytest.approx([*measures.values()], nan_ok=True)


def test_cases_that_run_together(tmp_path):
    """Two give what each gives alone, although they write below one folder; the one of fewer pairs comes first."""
    one = written(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text((WORLD + ROW.replace("one", "two")).replace("quick: 2", "quick: 1"), encoding="utf-8")
    cases = [load_case(one), load_case(other)]
    found = []
    run_cases(cases, found.append, out=tmp_path / "together")
    assert [(each.case.name, each.pairs) for each in found] == [("other", 1), ("little", 2)]
    apart = [run_case(case, out=tmp_path / "apart" / case.name) for case in reversed(cases)]
    assert [each.outcomes for each in found] == [each.outcomes for each in apart]


def test_cases_of_one_name_are_refused(tmp_path):
    """The second would stand in the place of the first."""
    case = load_case(written(tmp_path))
    with pytest.raises(ScenarioError, match="^2 cases are called little: give each once$"):
        run_cases([case, case], print, out=tmp_path)


ORDER = """orders:
  - {name: requests, calibrated: two, published: {one: 20, two: 5}, measure: "mean(total(arm, 'is_last'))"}
  - {name: fullest, published: {one: 1, two: 3}, measure: "mean(requests_per_engine(arm, 'most'))"}
"""


def test_orders_compare_arms(tmp_path):
    """Both arms end ten requests, and ties have no order; five and ten on one engine agree, but not in ratio."""
    case = load_case(written(tmp_path, ROW + ORDER))
    assert not run_case(case, out=tmp_path).orders  # the short form runs one arm
    requests, fullest = run_case(case, full=True, out=tmp_path).orders
    assert np.isnan(requests.tau)
    assert requests.ratio_errors == {"one": pytest.approx(1 / 4 - 1)}
    assert requests.reference_error == 1
    assert (fullest.tau, fullest.ratio_errors) == (1, {"two": pytest.approx(2 / 3 - 1)})
    text = page([run_case(case, full=True, out=tmp_path)])
    assert "| little | requests | nan | one 20 (10 here), two 5 (10 here) | two, calibrated, +100% | one -75% |" in text


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (ORDER.replace("two: 5", "three: 5"), "published.three: unknown key"),
        (
            ORDER.replace("calibrated: two", "calibrated: too"),
            "calibrated: not among those published; did you mean 'two'",
        ),
        (ORDER.replace("calibrated: two, published: {one: 20, two: 5}", "published: {one: 20}"), "two arms or more"),
        (ORDER.replace("total(arm", "total(one"), "measure: unknown arm 'one'"),
        ("orders: 3\n", "must be a list of orders"),
    ],
)
def test_orders_that_are_wrong(tmp_path, order, said):
    """One line with the place."""
    with pytest.raises(ScenarioError, match=r"^little.yaml:1\d: orders.*" + re.escape(said)):
        load_case(written(tmp_path, ROW + order))


def test_agreement_knows_no_names():
    """Two arms that deal alike to engines of other numbers agree; one request elsewhere is its share."""

    def arm(*engines):
        made = Arm.__new__(Arm)
        made.requests = pl.DataFrame({"pair": [0] * 4, "request": range(4), "engine": engines})
        return made

    measure = parse("mean(agreement(one, two))", ["one", "two"], "")
    assert measure.evaluate({"one": arm(0, 0, 1, 1), "two": arm(5, 5, 2, 2)}).value == 1
    assert measure.evaluate({"one": arm(0, 0, 1, 1), "two": arm(0, 0, 1, 0)}).value == 0.75
    assert np.isnan(measure.evaluate({"one": arm(0, 0, 1, 1), "two": arm(0, 0, 1, 0)}).lo or np.nan)


@pytest.mark.parametrize("name", case_names())
def test_the_page_holds_every_row_with_its_stored_verdict(name):
    """docs/validation.md is of a run that gave what the cases store."""
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for each in load_case(name).rows:
        assert re.search(rf"^\| {re.escape(each.name)} \|.*\| {each.verdict} \|$", section, re.MULTILINE), each.name


@pytest.mark.parametrize("name", case_names())
def test_misses_are_explained(name):
    """Every row that is not reproduced names the unknown that decides it, itself or by its case; truths hold."""
    case = load_case(name)
    for each in case.rows:
        assert each.verdict == "reproduced" or each.unknown or case.unknown, each.name
        assert each.verdict == "reproduced" or not each.must_hold, each.name


def holds(name, out, *, full):
    """A rerun gives every row the stored verdict."""
    found = run_case(load_case(name), full=full, out=out)
    assert not [(each.row.name, each.found, each.verdict) for each in found.outcomes if each.has_changed]
    return found


@pytest.mark.parametrize("name", QUICK)
def test_short_cases_hold(name, tmp_path):
    """Truths and null controls of seconds; the page can be written of them."""
    found = holds(name, tmp_path, full=False)
    assert f"\n## {name}\n" in page([found])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_cases_hold_in_their_short_form(name, tmp_path):
    """Stored verdicts are those of a short run too."""
    holds(name, tmp_path, full=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in case_names() if name not in QUICK])
def test_cases_hold_in_full(name, tmp_path):
    """Stored verdicts come again; conservation, placement and hit rates of the replays are among the reproduced."""
    found = holds(name, tmp_path, full=True)
    for each in found.outcomes:
        if name.startswith("nemo_gym_1") and re.match(
            "requests that|prompt tokens|first turns|tokens found", each.row.name
        ):
            assert each.verdict == "reproduced"
