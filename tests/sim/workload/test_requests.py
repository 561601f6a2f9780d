"""The open-loop replay: the shipped trace, rates and limits, broken files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from policies._content import PRIVATE, common_prefix
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload.requests import Requests

SCENARIOS = Path(__file__).parents[3] / "scenarios"
MOONCAKE = Requests("traces/mooncake/conversation_first_half.jsonl.gz")


def generate(spec, base=SCENARIOS):
    return spec.generate(Streams(1), base)


def test_the_shipped_trace_has_the_stated_reuse():
    """5,606 requests of whose prompt tokens 34.7 % are reusable with an unlimited cache in blocks of 512."""
    workload = generate(MOONCAKE)
    summary = workload.summary()
    assert summary["requests"] == 5606
    reusable = 1 - ideal_prefill_tokens(workload, 512) / summary["prompt_tokens"]
    assert round(100 * reusable, 1) == 34.7


def test_the_shipped_trace_is_short_in_spans():
    """Merging chains that never branch leaves fewer than three spans a prompt."""
    workload = generate(MOONCAKE)
    spans = [len(workload.session(index).turns[0].prompt) for index in range(workload.sessions)]
    assert sum(spans) / len(spans) < 3


@pytest.fixture
def folder(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
        {"timestamp": 1500, "input_length": 1024, "output_length": 50, "hash_ids": [0, 2]},
        {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]},
    ]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def turns(workload):
    return [turn for index in range(workload.sessions) for turn in workload.session(index).turns]


def test_rows_become_requests(folder):
    """One session and group a row, at its time, with its lengths; the answer is private and decoded to the end."""
    workload = generate(Requests("trace.jsonl"), folder)
    assert workload.arrival_s.tolist() == [0.0, 1.5, 3.0]
    assert workload.group_of.tolist() == workload.order.tolist() == [0, 1, 2]
    one, other, again = turns(workload)
    assert one == again._replace(output_tokens=5, max_tokens=5)
    assert common_prefix(one.prompt, other.prompt) == 512
    assert (other.output_tokens, other.max_tokens, other.output_source, other.delay_s) == (50, 50, PRIVATE, 0.0)
    assert ideal_prefill_tokens(workload, 512) == 600 + 512


def test_the_rate_scales_times_alone(folder):
    """L9: at half the rate every request comes after twice the time, exactly; nothing else changes."""
    usual, slow = (generate(Requests("trace.jsonl", rate_scale=scale), folder) for scale in (1.0, 0.5))
    assert np.array_equal(slow.arrival_s, 2 * usual.arrival_s)
    assert turns(slow) == turns(usual)


def test_a_client_limit_cuts_answers(folder):
    """A limit below the recorded length ends the answer; above it the client's limit is all that is known."""
    limited = turns(generate(Requests("trace.jsonl", max_tokens=20), folder))
    assert [(turn.output_tokens, turn.max_tokens) for turn in limited] == [(5, 20), (20, 20), (7, 20)]


def test_a_limit_takes_the_first_requests(folder):
    """The totals are those of the requests taken."""
    workload = generate(Requests("trace.jsonl", limit=2), folder)
    assert workload.summary() == {
        "requests": 2,
        "sessions": 2,
        "groups": 2,
        "prompt_tokens": 1624,
        "output_tokens": 55,
        "largest_request_tokens": 1074,
        "smallest_request_tokens": 605,
    }


def test_turns_hold_plain_numbers(folder):
    """No numpy scalar gets into the simulation, where it would be slow."""
    limited = turns(generate(Requests("trace.jsonl", max_tokens=20), folder))
    assert {type(value) for turn in limited for value in turn[1:4]} == {int}


def test_rows_stand_in_order_of_arrival(tmp_path: Path) -> None:
    """A row before its time is named by its line."""
    rows = [{**ROW, "timestamp": at} for at in (0, 10, 10, 9.5)]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ScenarioError, match=r"t.jsonl:4: the time 0.0095 s is before that of the call above"):
        Requests("t.jsonl").generate(Streams(1), tmp_path)


ROW = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hash_ids": [0]}, "hash_ids must hold 2 ids, one for each 512 of 600 tokens, not 1"),
        ({"hash_ids": [0, -1]}, "each of hash_ids must be a whole number from 0"),
        ({"hash_ids": "ab"}, "hash_ids must be a list"),
        ({"input_length": -600}, "input_length must be a whole number from 1"),
        ({"input_length": 10**40}, "input_length must be a whole number from 1"),
        ({"output_length": 0}, "output_length must be a whole number from 1"),
        ({"output_length": None}, "output_length must be a whole number from 1"),
        ({"timestamp": -1}, "timestamp must be a number from 0"),
        ({"timestamp": float("nan")}, "timestamp must be a number from 0"),
        ({"timestamp": "0"}, "timestamp must be a number from 0"),
    ],
)
def test_a_broken_row_is_named(tmp_path, change, reason):
    """Each row is checked; the error names file and line."""
    (tmp_path / "trace.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps({**ROW, **change})}\n")
    with pytest.raises(ScenarioError, match=rf"trace\.jsonl:2: {reason}"):
        generate(Requests("trace.jsonl"), tmp_path)


@pytest.mark.parametrize("name", ["timestamp", "input_length", "output_length"])
def test_a_missing_field_is_named(tmp_path, name):
    """Every field of the format must be there."""
    row = {key: value for key, value in ROW.items() if key != name}
    (tmp_path / "trace.jsonl").write_text(json.dumps(row))
    with pytest.raises(ScenarioError, match=rf"trace\.jsonl:1: {name} is missing"):
        generate(Requests("trace.jsonl"), tmp_path)


def test_what_is_refused(folder):
    """The message opens with the name of the field."""
    for change in ({"limit": 0}, {"max_tokens": 0}, {"block_tokens": 0}, {"rate_scale": 0.0}, {"chars_per_token": 0.0}):
        with pytest.raises(ScenarioError, match=f"^{next(iter(change))} must be"):
            replace(MOONCAKE, **change)
    with pytest.raises(ScenarioError, match=r"^rate_scale: the last arrival"):
        generate(Requests("trace.jsonl", rate_scale=1e-12), folder)
