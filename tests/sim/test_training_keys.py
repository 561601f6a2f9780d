"""Every key of ``training`` and of the managed client moves an output; what cannot work or does nothing is said."""

import pytest

from sim.errors import ScenarioError
from sim.log.record import TABLES
from sim.replication import replicate
from sim.scenario import check, load_scenario
from sim.training import TrainingSpec
from tests.strategies import cell_of, world

BUSY = {
    "groups": 24,
    "samples_per_group": 3,
    "turns": 2,
    "prompt": {"group_tokens": 64, "system_tokens": 256},
    "output_tokens": {"kind": "lognormal", "median": 20, "sigma": 1.0},
    "max_tokens": 200,
    "tool_delay_s": 0.05,
    "boot_s": 0.02,
}
TRAINING = {
    "groups_per_step": 4,
    "oversampling_batch": 6,
    "max_staleness": 1,
    "unfinished": "resume",
    "train_s": 0.1,
    "update": {"time_s": 0.05, "in_flight": "continue", "cache": "keep"},
}
CHANGES = [
    {"groups_per_step": 3},
    {"steps": 2},
    {"samples_needed": 2},
    {"oversampling_batch": 2},
    {"acceptance_rate": 0.6},
    {"max_staleness": 0},
    {"max_staleness": 2},
    {"unfinished": "wait"},
    {"unfinished": "drop"},
    {"max_staleness": 0, "unfinished": "defer"},
    {"train_s": 0.3},
    {"update": {"time_s": 0.2, "in_flight": "continue", "cache": "keep"}},
    {"update": {"time_s": 0.05, "in_flight": "drain", "cache": "keep"}},
    {"update": {"time_s": 0.05, "in_flight": "abort", "cache": "keep"}},
    {"update": {"time_s": 0.05, "in_flight": "continue", "cache": "flush"}},
    {"update": {"time_s": 0.05, "in_flight": "continue", "cache": "version"}},
]
CLIENT = [
    {"max_groups_in_flight": 2},
    {"sample_time_limit_s": 0.3},
    {"tools": {"concurrency": 2}},
    {"tools": {"boots": 1}},
    {"tokens_per_s": 5000.0},
    {"tokens_per_s": 5000.0, "processes": 3},
    {"turn_s": 0.02},
    {"group_as_one_request": True},
    {"feedback_cap": {"start": 5}},
    {"unkeyed_share": 0.5},
]


def bytes_of(training, client=None):
    resolved = world(engines=2, workload=BUSY, client=client or {}, policy={"kind": "vllm.consistent_hash"})
    log = replicate(cell_of(resolved | {"training": training}), 0)
    return tuple(bytes(getattr(log, table).data) for table in TABLES)


def test_every_key_of_training_moves_the_log():
    """One key changed at a time gives another log each, and all keys are among them."""
    logs = [bytes_of(TRAINING | change) for change in ({}, *CHANGES)]
    assert len(set(logs)) == len(logs)
    assert {key for change in CHANGES for key in change} == set(TrainingSpec.__dataclass_fields__)


@pytest.mark.parametrize("training", [None, TRAINING])
def test_every_key_of_the_managed_client_moves_the_log(training):
    """With and without a trainer."""
    logs = [bytes_of(training, client) for client in ({}, *CLIENT)]
    assert len(set(logs)) == len(logs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.acceptance_rate=0", "no step would ever end"),
        ("training.groups_per_step=0", "must be 1 or more"),
        ("training.unfinished=defer", "needs max_staleness 0"),
        ("training.update.cache=clear", "must be 'flush', 'keep' or 'version'"),
        ("training.grups=3", "unknown key"),
        ("client.processes=4", "needs tokens_per_s"),
        ("client={unkeyed_share: 0.1, key_scope: request}", "needs key_scope session or group"),
        ("client={feedback_cap: {start: 4}, max_sessions_in_flight: 4}", "caps of one thing"),
        ("client={group_as_one_request: true, feedback_cap: {start: 4}}", "needs max_groups_in_flight"),
        ("workload.arrivals={kind: poisson, groups_per_s: 1}", "draws the groups itself"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path, change, message):
    """The file, the line and the rule."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    with pytest.raises(ScenarioError, match=message) as raised:
        check(load_scenario(path, [change]))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ("training={groups_per_step: 2, unfinished: drop}", "training.unfinished has no effect"),
        ("training={groups_per_step: 2, update: {in_flight: abort}}", "training.update.in_flight has no effect"),
        ("training={groups_per_step: 2, samples_needed: 4}", "training.samples_needed has no effect"),
        ("training={groups_per_step: 9}", "training wants 9 groups or more, the workload has 8"),
        ("client.tools.boots=3", "client.tools.boots has no effect"),
        ("client.tools.concurrency=3", "client.tools.concurrency has no effect"),
    ],
)
def test_what_has_no_effect_is_said(tmp_path, change, warning):
    """Each is one warning."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("  max_staleness: 1\n", ""), encoding="utf-8")
    assert any(warning in each for each in check(load_scenario(path, [change])).warnings)


JOB = """\
name: job
fleet:
  engines: 1
  engine: {preset: vllm, kv_tokens: 100000, cost: {kind: constant, step_ms: 10}}
workload:
  kind: rollout
  groups: 8
  samples_per_group: 4
  prompt: {group_tokens: 100}
  output_tokens: 5
  max_tokens: 5
router: {policy: {kind: round_robin}}
training:
  groups_per_step: 4
  max_staleness: 1
metrics: [step_time_mean_s]
"""
