"""Whole campaigns with a known effect, scored file by file: verdicts come as often as the plan's odds say."""

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats as theory

from sim import campaign
from sim.campaign._results import TIMES, read_folder, write
from sim.report.rule import WORDS, odds
from sim.stats.power import unblocked

PAIRS, CAMPAIGNS, SPREAD = 4, 40, 0.02
RARE = 0.001


@pytest.fixture(scope="module")
def four(evidence, tmp_path_factory) -> campaign.Seal:
    choice = campaign.Choice(pairs=PAIRS, draws=2)
    return campaign.make({evidence.scenario.name: evidence}, tmp_path_factory.mktemp("four") / "seal", choice)


@pytest.fixture(scope="module")
def runs(four, cells, tmp_path_factory):
    """Results of both looks: of each pair the baseline's requests, and the headers of both arms."""
    folder = tmp_path_factory.mktemp("runs")
    campaign.rehearse(four, cells, folder, campaign.World(3), looks=2)
    return read_folder(folder, set())


def played(seal, runs, folder, logs, looks):
    """Write a campaign in which the candidate does the baseline's requests exp(log) times as fast."""
    folder.mkdir()
    base = {run.header.pair: run for run in runs if run.header.arm == seal.prediction["baseline"]}
    for run in runs:
        header = run.header
        if header.pair < PAIRS * looks:
            requests, factor = base[header.pair].requests, 1.0
            if header.arm == seal.prediction["candidate"]:
                factor = math.exp(-logs[header.pair])
            start = requests["arrive_s"].min()
            stretched = requests.with_columns((start + (pl.col(name) - start) * factor).alias(name) for name in TIMES)
            write(folder / f"{header.pair}-{header.arm}.jsonl", header, stretched)
    return campaign.score(seal, folder)


@pytest.mark.parametrize("ratio", [1.0, 1.045])
def test_scored_campaigns_end_as_often_with_each_word_as_the_plan_says(four, runs, tmp_path, ratio):
    """A look that stays open is extended; words of forty campaigns are within their binomial bands."""
    found = odds(four.rule, ratio, unblocked(SPREAD))
    source, counts, extended = np.random.default_rng(round(1000 * ratio)), dict.fromkeys(WORDS, 0), 0
    for number in range(CAMPAIGNS):
        logs = source.normal(math.log(ratio), SPREAD, 2 * PAIRS)
        scored = played(four, runs, tmp_path / f"{number}-1", logs, 1)
        assert scored.ruling.all_cells.ratio == pytest.approx(math.exp(logs[:PAIRS].mean()), rel=1e-6)
        if scored.ruling.word == "INCONCLUSIVE":
            extended += 1
            scored = played(four, runs, tmp_path / f"{number}-2", logs, 2)
            assert (scored.look, scored.ruling.all_cells.pairs) == (1, 2 * PAIRS)
        counts[scored.ruling.word] += 1
    for share, count in [(found.extended, extended), *((found.ends(word), counts[word]) for word in WORDS)]:
        low, high = theory.binom.ppf([RARE, 1 - RARE], CAMPAIGNS, share)
        assert low <= count <= high, (counts, found)


def test_a_campaign_that_loses_many_pairs_to_its_gates_stops(four, runs, tmp_path):
    """One of four is more than a fifth: those that are left may be a choice, so no ratio decides."""
    logs = np.full(2 * PAIRS, 0.1) + np.linspace(-0.001, 0.001, 2 * PAIRS)
    assert played(four, runs, tmp_path / "whole", logs, 1).ruling.word == "RECOMMEND"
    path = tmp_path / "whole" / f"0-{four.prediction['candidate']}.jsonl"
    header, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps(json.loads(header) | {"engine_restarts": 1}) + "\n" + rest)
    found = campaign.score(four, tmp_path / "whole")
    assert (found.ruling.word, len(found.excluded)) == ("STOPPED", 1)
    assert found.ruling.because == ["1 of 4 pairs left out by gates, the guardrail is 20%"]
