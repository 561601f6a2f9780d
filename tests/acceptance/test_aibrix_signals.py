"""AIBrix policies that read what ended, or how busy engines were: with telemetry they decide by it, on real engines."""

import numpy as np
import pytest

from sim import load_scenario
from sim.replication import replicate
from sim.scenario import check

WORLD = """\
name: aibrix-signals
fleet:
  engines:
    fast:
      count: 1
      engine: {preset: vllm, kv_tokens: 100000, overlap: false, cost: {kind: constant, step_ms: 5}}
    slow:
      count: 1
      engine: {preset: vllm, kv_tokens: 100000, overlap: false, cost: {kind: constant, step_ms: 15}}
workload:
  kind: rollout
  groups: 300
  samples_per_group: 1
  prompt: {system_tokens: 0, group_tokens: {kind: lognormal, median: 500, sigma: 0.8}}
  output_tokens: {kind: lognormal, median: 50, sigma: 0.5}
  max_tokens: 300
  arrivals: {kind: poisson, groups_per_s: 3}
router:
  policy: %s
  telemetry: %s
replications: {pairs: 1, seed: 1}
metrics: [e2e_p95_s]
"""


def placed(tmp_path, policy, telemetry="{period_s: 1}"):
    """Branches taken, and the share of the requests of the second half that the fast engine has."""
    path = tmp_path / "world.yaml"
    path.write_text(WORLD % (policy, telemetry))
    scenario = load_scenario(path)
    assert [line for line in check(scenario).warnings if "no effect" in line] == []
    (cell,) = scenario.arms.values()
    log = replicate(cell, 0)
    decisions = log.numpy("decisions")
    return log, decisions, float(np.mean(decisions["engine"][150:] == 0))


@pytest.mark.parametrize(
    ("policy", "branch"),
    [
        ("{kind: aibrix.throughput, reads_queries: true}", "throughput"),
        ("{kind: aibrix.least_latency}", "least_latency"),
        ("{kind: aibrix.least_busy_time, has_metric: true}", "least_busy_time"),
        ("{kind: aibrix.least_utilization, engine: xllm}", "least_utilization"),
    ],
)
def test_reports_decide(tmp_path, policy, branch):
    """From the second reading on no choice is for want of a report; without the signal all are."""
    log, decisions, _ = placed(tmp_path, policy)
    late = decisions["branch"][100:]
    assert {log.branches[code] for code in late} == {branch}
    log, decisions, _ = placed(tmp_path, policy, "{period_s: 1, also: []}")
    assert {log.branches[code] for code in decisions["branch"]} == {"no_report"}


def test_least_latency_finds_the_fast_engine(tmp_path):
    """Steps of 5 ms against 15: nearly all go there."""
    assert placed(tmp_path, "{kind: aibrix.least_latency}")[2] > 0.95


def test_throughput_goes_where_requests_were_small(tmp_path):
    """Each choice is the engine of lower 2 * mean prompt + mean output, of what had finished by the last reading."""
    log, decisions, _ = placed(tmp_path, "{kind: aibrix.throughput, reads_queries: true}")
    requests = log.numpy("requests")
    seen = 0
    for row in range(100, 300):
        read = int(decisions["at"][row] - decisions["signal_age"][row])
        sizes = []
        for engine in (0, 1):
            done = (requests["engine"] == engine) & (requests["ended"] <= read)
            sizes.append(2 * requests["prompt_tokens"][done].mean() + requests["output_tokens"][done].mean())
        assert decisions["engine"][row] == int(np.argmin(sizes))
        seen |= 1 << int(np.argmin(sizes))
    assert seen
