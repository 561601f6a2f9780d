"""Two engines, four groups: what one key a group saves, and what it costs when the keys fall together."""

from collections import Counter
from math import comb

import pytest

from sim import load_scenario, run
from sim.log.frames import read_logs
from sim.replication import replicate
from sim.report.document import document

SCENARIO = "slime_group_affinity"
BANDS = {"2:2": (1.25, 1.45), "3:1": (1.05, 1.25), "4:0": (0.75, 0.95)}
WHOLE_PROMPTS = ["fleet.engine.chunked_prefill_tokens=16384", "fleet.engine.max_prefill_tokens=8192"]
"""A batch takes one prompt of 8,192 tokens and never a part of one."""


def siblings_and_copies(overrides, arm, pair):
    """For each engine and group that meet: siblings there, and how many of them computed most of the prompt."""
    requests = read_logs([replicate(load_scenario(SCENARIO, overrides).arms[arm], pair)], [pair]).requests
    siblings, copies = Counter(), Counter()
    for engine, group, cached in requests.select("engine", "group", "cached_tokens").iter_rows():
        siblings[engine, group] += 1
        copies[engine, group] += cached < 4096
    return [(siblings[place], copies[place]) for place in siblings]


def saving(found):
    """Share of prefill tokens that group keys save, of the means over all pairs."""
    group, sample = (found["arms"][arm]["prefill_tokens"]["mean"] for arm in ("group", "sample"))
    return 1 - group / sample


def answer(tmp_path, *overrides, pairs=None):
    return document(run(load_scenario(SCENARIO, overrides), pairs=pairs, out=tmp_path))


def geometric_mean(found, metric):
    return next(each for each in found["comparisons"] if each["metric"] == metric)["ratio"]


@pytest.mark.parametrize("siblings", [4, 8])
@pytest.mark.parametrize("arm", ["sample", "group"])
def test_without_overlap_an_engine_computes_a_prompt_once(arm, siblings):
    """A batch formed after the one before has ended finds its prompts."""
    overrides = ["fleet.engine.overlap=false", f"workload.samples_per_group={siblings}"]
    for pair in range(3):
        assert all(copies == 1 for _, copies in siblings_and_copies(overrides, arm, pair))


@pytest.mark.parametrize("siblings", [4, 8])
@pytest.mark.parametrize("arm", ["sample", "group"])
def test_with_overlap_whole_prompts_are_computed_by_two_siblings(arm, siblings):
    """The second batch is fixed while the first is computed: k siblings make min(k, 2) copies."""
    overrides = ["fleet.engine.overlap=true", f"workload.samples_per_group={siblings}", *WHOLE_PROMPTS]
    for pair in range(3):
        assert all(copies == min(k, 2) for k, copies in siblings_and_copies(overrides, arm, pair))


def test_with_overlap_a_prompt_cut_into_chunks_may_be_computed_once():
    """SGLang puts a cut prompt into its tree when it forms the next batch, before the first chunk is done."""
    found = [each for pair in range(3) for each in siblings_and_copies(["fleet.engine.overlap=true"], "group", pair)]
    assert all(1 <= copies <= min(k, 2) for k, copies in found)
    assert {copies for _, copies in found} == {1, 2}


def test_an_even_split_gains_and_a_pile_loses(tmp_path):
    """The order of the published classes: 2:2 over 3:1 over none over 4:0."""
    found = answer(tmp_path, pairs=40)
    ratio = {each["class"]: each["ratio"]["samples_per_s"] for each in found["placements"]}
    assert ratio["2:2"] > ratio["3:1"] > ratio["4:0"]
    assert ratio["2:2"] > 1 > ratio["4:0"]
    assert {each["class"]: each["p_exact"] for each in found["placements"]} == {"2:2": 0.375, "3:1": 0.5, "4:0": 0.125}


@pytest.mark.slow
def test_ratios_of_the_classes_lie_in_the_published_bands(tmp_path):
    """The scenario as shipped, all 200 pairs."""
    found = answer(tmp_path)
    for each in found["placements"]:
        low, high = BANDS[each["class"]]
        assert low <= each["ratio"]["samples_per_s"] <= high
    assert sum(each["pairs"] for each in found["placements"]) == 200
    assert geometric_mean(found, "group_completion_p95_s") < 1


@pytest.mark.slow
@pytest.mark.parametrize("siblings", [4, 8])
def test_saving_without_overlap(tmp_path, siblings):
    """A group reaches 2(1 - 2^-n) engines on average under sample keys, 1 under group keys."""
    found = answer(tmp_path, f"workload.samples_per_group={siblings}")
    assert saving(found) == pytest.approx(1 - 1 / (2 * (1 - 2**-siblings)), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("siblings", [4, 8])
def test_saving_with_overlap_of_whole_prompts(tmp_path, siblings):
    """min(k, 2) copies on each of two engines under sample keys, 2 under group keys: 38.5 % for four siblings."""
    expected = 2 * sum(comb(siblings, k) / 2**siblings * min(k, 2) for k in range(siblings + 1))
    found = answer(tmp_path, "fleet.engine.overlap=true", f"workload.samples_per_group={siblings}", *WHOLE_PROMPTS)
    assert saving(found) == pytest.approx(1 - 2 / expected, abs=0.01)
