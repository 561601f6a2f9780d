"""Records of AIPerf, in the shape that its documentation gives, as the requests of a run."""

import json

import pytest

from sim import campaign
from sim.errors import ScenarioError
from sim.export import Plan, export
from sim.log.frames import read_logs
from sim.metrics import measure
from sim.replication import replicate
from sim.scenario import load_scenario

BEGAN_NS = 1_759_813_207_532_900_363


def record(row, prompt, session, turn):
    """One request of a simulated run, as AIPerf would have written it."""
    at = BEGAN_NS + round(1e9 * row["submitted_s"])
    return {
        "metadata": {
            "session_num": 3, "x_request_id": "7609a2e7", "x_correlation_id": "32ee4f33",
            "conversation_id": f"s{session}", "turn_index": turn, "request_start_ns": at, "request_ack_ns": at + 1000,
            "request_end_ns": BEGAN_NS + round(1e9 * row["ended_s"]), "worker_id": "worker_1",
            "benchmark_phase": "profiling", "was_cancelled": False, "cancellation_time_ns": None,
        },
        "metrics": {
            "input_sequence_length": {"value": prompt, "unit": "tokens"},
            "time_to_first_token": {"value": 1e3 * (row["first_token_s"] - row["submitted_s"]), "unit": "ms"},
            "output_sequence_length": {"value": row["output_tokens"], "unit": "tokens"},
        },
        "error": None,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """A simulated run of several turns, as records, with its tables."""
    scenario = load_scenario(
        "slime_group_affinity", ("workload.groups=2", "workload.turns=2", "workload.observation_tokens=100")
    )
    export(scenario, tmp_path, Plan(("windtunnel", "aiperf"), 1, 512))
    tables = read_logs([replicate(scenario.arms["group"], 0)], [0])
    rows = [
        record(row, row["prompt_tokens"], row["session"], row["turn"]) for row in tables.requests.iter_rows(named=True)
    ]
    path = tmp_path / "profile_export.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    return path, tmp_path / "windtunnel-0.jsonl", tables, rows


def test_metrics_of_records_are_those_of_the_run(run, tmp_path):
    """To the microsecond; what a client cannot see has no value."""
    path, trace, tables, _ = run
    frame = campaign.from_aiperf(path, trace)
    header = campaign.Header("s", "c", 0, "a", 0, "t", "x", engines=2)
    campaign.write(tmp_path / "r.jsonl", header, frame)
    from sim.campaign import _measured

    found = _measured.measured([(campaign.read(tmp_path / "r.jsonl"), _measured.sent(trace, 1))])
    want = measure(tables)
    for name in ("samples_per_s", "makespan_s", "ttft_p95_s", "tpot_mean_s", "e2e_p95_s", "group_completion_p95_s"):
        assert found[name][0] == pytest.approx(want[name][0], rel=1e-5), name
    for name in ("prefix_hit_rate", "prefill_tokens", "load_tokens_cv", "preemptions"):
        assert found[name][0] is None, name


def test_failed_and_cancelled_records(run):
    """A failed one has no metrics; the length of its prompt is the trace's."""
    path, trace, _, rows = run
    prompt = rows[0]["metrics"]["input_sequence_length"]["value"]
    rows[0] |= {"metrics": {"error_isl": {"value": 550, "unit": "tokens"}}, "error": {"code": 500, "message": "x"}}
    rows[1]["metadata"]["was_cancelled"] = True
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = campaign.from_aiperf(path, trace)
    assert sorted(frame["status"].to_list())[:3] == ["aborted", "failed", "finished"]
    failed = frame.filter(status="failed")
    assert failed["first_s"].to_list() == [None]
    assert failed["input_tokens"].to_list() == [prompt]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            lambda row: row["metadata"].update(conversation_id="77aa5b0e"),
            "conversation '77aa5b0e', turn 0 is none of the",
        ),
        (lambda row: row["metadata"].update(turn_index=9), "turn 9 is none of the trace"),
        (lambda row: row.pop("metadata"), "is no record of AIPerf: KeyError"),
    ],
)
def test_what_is_no_record_of_the_trace_is_told(run, spoil, says):
    """With its line."""
    path, trace, _, rows = run
    spoil(rows[2])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ScenarioError, match=says) as found:
        campaign.from_aiperf(path, trace)
    assert "profile_export.jsonl:3" in str(found.value)
