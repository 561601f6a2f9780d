"""Distributions of counts, of recordings and mixtures of them: laws, files, what is refused."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._distributions import Binomial, Empirical, Geometric
from sim.workload._lengths import Constant, Lognormal, Mixture, Share, Uniform, lengths, values
from sim.workload._located import files_within, located
from sim.workload._prompt import Prompt
from sim.workload.rollout import Rollout

DRAWS = 10_000
LAWS = {
    "binomial": Binomial("binomial", 3, 0.6, least=1),
    "geometric": Geometric("geometric", 4),
    "mixture": Mixture("mixture", (Share(3, Lognormal("lognormal", 8, 1.0)), Share(1, 500.0))),
    "uniform mixture": Mixture("mixture", (Share(1, Uniform("uniform", 1, 2)),)),
}


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def fits(drawn, chances):
    """Whether the counts of 0, 1, 2 ... all lie in the 99.9 % binomial intervals of their chances."""
    for value, chance in chances.items():
        low, high = stats.binom.interval(0.999, len(drawn), chance)
        assert low <= (drawn == value).sum() <= high, value


def test_search_turns_are_one_and_a_binomial():
    """1 + Binomial(3, 0.6): each number of turns as often as the law says."""
    drawn = lengths("turns", LAWS["binomial"], generator(), DRAWS, 1)
    fits(drawn, {1 + k: stats.binom.pmf(k, 3, 0.6) for k in range(4)})
    assert drawn.max() == 4


@pytest.mark.parametrize("chance", [0, 1])
def test_a_binomial_without_chance_is_constant(chance):
    """All trials fail, or all succeed."""
    assert set(values(Binomial("binomial", 5, chance), generator(), 100)) == {5 * chance}


@pytest.mark.parametrize("least", [0, 1])
def test_geometric_counts_have_their_mean_and_no_memory(least):
    """Mean 4 from 0 or 1 on: chances fall by the same factor from each value to the next."""
    drawn = values(Geometric("geometric", 4, least), generator(), DRAWS)
    more = 4 - least
    factor = more / (1 + more)
    fits(drawn, {least + k: (1 - factor) * factor**k for k in range(6)})
    assert drawn.mean() == pytest.approx(4, abs=4 * math.sqrt(more * (1 + more) / DRAWS))


def test_a_geometric_law_of_its_least_is_constant():
    """A mean of the least leaves nothing else."""
    assert set(values(Geometric("geometric", 1), generator(), 100)) == {1}


def test_floor_and_cap_clip():
    """LN(30, 0.5) clipped to 5..100 moves only what lies outside."""
    free = values(Lognormal("lognormal", 30, 0.5), generator(), DRAWS)
    clipped = values(Lognormal("lognormal", 30, 0.5, cap=60, floor=20), generator(), DRAWS)
    assert np.array_equal(clipped, np.clip(free, 20, 60))


def test_a_mixture_draws_its_parts_by_weight():
    """A quarter are the constant; the others have the lognormal's median."""
    drawn = values(LAWS["mixture"], generator(), DRAWS)
    fits(drawn, {500: 0.25})
    rest = drawn[drawn != 500]
    low, high = stats.binom.interval(0.999, len(rest), 0.5)
    assert low <= (rest < 8).sum() <= high


def test_uniform_parts_are_whole_for_lengths_and_not_for_times():
    """Lengths include both ends alike; times fill the range."""
    part = LAWS["uniform mixture"]
    fits(lengths("turns", part, generator(), DRAWS, 1), {1: 0.5, 2: 0.5})
    assert len(set(values(part, generator(), 100))) == 100


@given(st.sampled_from(sorted(LAWS)), st.integers(1, 50), st.integers(1, 50))
def test_draws_stay_when_their_number_grows(name, few, more):
    """L5: element i of a column is the same however long the column is."""
    assert values(LAWS[name], generator(), few).tolist() == values(LAWS[name], generator(), few + more).tolist()[:few]


@given(st.integers(0, 9))
def test_a_higher_chance_lowers_no_draw(seed):
    """Counts come from their inverse distribution function: parameters reorder nothing."""
    low, high = (values(Binomial("binomial", 10, p), generator(seed), 200) for p in (0.3, 0.5))
    assert (low <= high).all()
    low, high = (values(Geometric("geometric", mean), generator(seed), 200) for mean in (2, 5))
    assert (low <= high).all()


def csv_of(folder: Path, text: str, name: str = "lengths.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_empirical_draws_are_those_of_the_column(tmp_path):
    """Each value as often as it stands in the file, scaled."""
    csv_of(tmp_path, "prompt,out\n9,1\n9,2\n9,2\n9,7\n")
    law = located(Empirical("empirical", "lengths.csv", "out", scale=10), tmp_path)
    fits(values(law, generator(), DRAWS), {10: 0.25, 20: 0.5, 70: 0.25})


def test_json_lines_and_gzip_are_read_alike(tmp_path):
    """One object a line; a list counts as so many values."""
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.write('{"out": [1, 2]}\n{"out": 4}\n')
    law = located(Empirical("empirical", "rows.jsonl.gz", "out"), tmp_path)
    fits(values(law, generator(), DRAWS), {1: 1 / 3, 2: 1 / 3, 4: 1 / 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("in\n1\n", r"lengths.csv: has no column 'out'; known: in"),
        ("out\n", r"lengths.csv: the column out holds no number"),
        ("out\n1\nnan\n", r"lengths.csv:3: out must be a number from 0 on, not 'nan'"),
        ("out\n-1\n", r"lengths.csv:2: out must be a number"),
        ("in,out\n1\n", r"lengths.csv:2: out must be a number from 0 on, not 'None'"),
    ],
)
def test_a_column_that_cannot_be_drawn_from_says_where(tmp_path, text, message):
    """One line with file and row."""
    csv_of(tmp_path, text)
    with pytest.raises(ScenarioError, match=message):
        values(located(Empirical("empirical", "lengths.csv", "out"), tmp_path), generator(), 1)


def test_a_workload_names_the_files_of_its_distributions(tmp_path):
    """They count for the cell's hash, wherever they stand among the fields, and are found from its folder."""
    csv_of(tmp_path, "out\n7\n")
    out = Empirical("empirical", "lengths.csv", "out")
    mixed = Mixture("mixture", (Share(1, out), Share(1, 3.0)))
    spec = Rollout(2, 2, Prompt(mixed), out, 100)
    assert files_within(spec, tmp_path) == spec.files(tmp_path) == [tmp_path / "lengths.csv"] * 2
    workload = spec.generate(Streams(1), tmp_path)
    assert {turn.output_tokens for index in range(4) for turn in workload.session(index).turns} == {7}


def test_what_names_no_file_is_left_as_it_is():
    """Most workloads read none: they are not copied."""
    spec = Rollout(2, 2, Prompt(100), Constant("constant", 5), 100)
    assert located(spec, Path("/x")) is spec


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Binomial("binomial", 0, 0.5), "trials"),
        (lambda: Binomial("binomial", 3, 1.5), "chance"),
        (lambda: Geometric("geometric", 0.5), "mean"),
        (lambda: Mixture("mixture", ()), "parts"),
        (lambda: Share(0, 3.0), "weight"),
        (lambda: Empirical("empirical", "f", "c", scale=-1), "scale"),
        (lambda: Lognormal("lognormal", 3, 1, cap=4, floor=5), "floor"),
        (lambda: Share(1, -1.0), "value must be from 0"),
        (lambda: Share(1e308, 1.0), "weight must be from 0"),
    ],
)
def test_what_is_no_law_is_refused(make, rule):
    """At construction, by the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        make()
