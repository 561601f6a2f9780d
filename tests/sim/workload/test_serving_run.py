"""Replay of a measured serving run: arrivals and lengths as recorded, prompts that share nothing."""

from pathlib import Path

import pytest

from policies._content import PRIVATE, common_prefix, count
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload.serving_run import ServingRun

SCENARIOS = Path(__file__).parents[3] / "scenarios"
RUN = "traces/rtxpro6000/llama-3.1-8b_requests.csv"


def test_the_shipped_run() -> None:
    """300 requests, the first of 2,358 tokens in and 531 out at time 0; nothing is drawn, nothing is reusable."""
    workload = ServingRun(RUN).generate(Streams(1), SCENARIOS)
    totals = workload.summary()
    assert (totals["requests"], workload.arrival_s[0]) == (300, 0)
    [turn] = workload.session(0).turns
    assert (count(turn.prompt), turn.output_tokens, turn.max_tokens, turn.output_source) == (2358, 531, 531, PRIVATE)
    assert workload.arrival_s[299] == pytest.approx(29.171481)
    assert ideal_prefill_tokens(workload, 16) == totals["prompt_tokens"]
    again = ServingRun(RUN).generate(Streams(2, 7), SCENARIOS)
    assert [again.session(i) for i in range(300)] == [workload.session(i) for i in range(300)]


def test_prompts_share_nothing() -> None:
    """Equal lengths are not equal content."""
    workload = ServingRun(RUN, limit=20).generate(Streams(1), SCENARIOS)
    prompts = [workload.session(i).turns[0].prompt for i in range(20)]
    assert all(common_prefix(a, b) == 0 for i, a in enumerate(prompts) for b in prompts[:i])
    assert workload.summary()["requests"] == 20


def test_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    """No file, no such column, no choice."""
    with pytest.raises(ScenarioError, match=r"nowhere\.csv: cannot be read"):
        ServingRun("nowhere.csv").generate(Streams(1), tmp_path)
    (tmp_path / "bare.csv").write_text("request_id,input_toks\na,1\n")
    with pytest.raises(ScenarioError, match="has no column output_toks, queued_s"):
        ServingRun("bare.csv").generate(Streams(1), tmp_path)
    with pytest.raises(ScenarioError, match="limit must be from 1"):
        ServingRun(RUN, limit=0)
