"""Files of recorded decisions that disagree, cannot be replayed, or are none."""

import json
from pathlib import Path

import pytest

from sim.conform import check, judge
from sim.errors import ScenarioError

VECTORS = Path(__file__).parent / "vectors"


def changed(tmp_path, name, change):
    """A copy of a vector with something changed."""
    vector = json.loads((VECTORS / f"{name}.json").read_text())
    change(vector)
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(vector))
    return path


def swap(vector):
    """Record another engine for the third request."""
    row = vector["requests"][2]
    row["worker"] = next(url for url in vector["workers"] if url != row["worker"])


def test_a_mismatch_is_shown_with_what_was_seen(tmp_path):
    """The row, what was recorded, what ours gives by which branch, and the requests in flight."""
    outcome = check([changed(tmp_path, "sgl_round_robin_plain", swap)])
    assert not outcome.passes
    (result,) = outcome.files
    assert result.count() == {"determined": 10, "open": 0, "mismatched": 1}
    first, second = list(outcome.lines())
    assert first == "sgl_round_robin_plain.json: 10 determined, 0 open, 1 mismatched"
    (row,) = result.mismatches
    assert second.startswith(f"  {row.id}: recorded {row.expected}, ours {row.got} (turn); in flight: ")
    assert second.count(" 0") == 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"router": "traefik"}, "no model of the router 'traefik'; known: sglang-router, smg, vllm-router"),
        ({"policy": "weighted"}, "no model of the policy 'weighted' of sglang-router"),
        ({"params": {"colour": 3}}, "our round_robin has no parameter colour"),
        ({"endpoint": "grpc://generate"}, "recorded over gRPC: the router saw token values"),
        ({"other_settings": {"kv_events": True}}, "recorded with kv_events, which vectors do not carry"),
    ],
)
def test_what_cannot_be_replayed_is_named(tmp_path, change, reason):
    """Each with its reason; it is no mismatch."""
    outcome = check([changed(tmp_path, "sgl_round_robin_plain", lambda vector: vector.update(change))])
    (line,) = outcome.lines()
    assert line.startswith(f"sgl_round_robin_plain.json: not replayed: {reason}")
    assert outcome.passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("{}", "is no recording: it has no list of requests"),
        ('{"requests": []}', "'router' is missing"),
        ('[{"router": "smg"}]', "'counts' is missing"),
    ],
)
def test_what_is_no_recording(tmp_path, text, message):
    """One line that says what is wrong with the file."""
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        check([path])


def test_a_script_that_contradicts_itself(tmp_path):
    """Loads that are not those of the recorded sequence are refused."""

    def change(vector):
        vector["requests"][3]["inflight"][0] += 1

    with pytest.raises(ScenarioError, match="in flight by the script"):
        check([changed(tmp_path, "sgl_round_robin_plain", change)])


def test_folders_and_files_that_are_not_there(tmp_path):
    """An empty folder and a missing file are errors."""
    with pytest.raises(ScenarioError, match="holds no recording"):
        check([tmp_path])
    with pytest.raises(ScenarioError, match="cannot read"):
        check([tmp_path / "gone.json"])


def case(counts, **more):
    record = {"router": "smg", "policy": "random", "params": {}, "workers": 4, "inflight_throughout": [0] * 4}
    return {**record, "requests": sum(counts), "counts": counts, "note": "", **more}


def test_counts_that_do_not_fit(tmp_path):
    """Counts off by far are rejected, near ones are not, and what is impossible fails whatever its number."""
    good, bad = judge([case([104, 96, 99, 101]), case([160, 80, 80, 80])])
    assert good.passes
    assert not bad.passes
    assert bad.reason.startswith("the counts do not fit: p = ")
    (impossible,) = judge([case([1, 399], policy="least_load", workers=2, inflight_throughout=[1, 0])])
    assert impossible.reason == "an impossible outcome was counted"
    (unknown,) = judge([case([1, 1, 1, 1], router="other")])
    assert unknown.passes
    path = tmp_path / "distributions.json"
    path.write_text(json.dumps([case([160, 80, 80, 80]), case([1, 1, 1, 1], router="other")]))
    first, second = check([path]).lines()
    assert first.startswith("distributions.json: smg random: the counts do not fit: p = ")
    assert second.startswith("distributions.json: other random: not judged: no model of the router")
    path.write_text(json.dumps([case([100] * 4), case([400, 0], policy="passthrough", workers=2)]))
    assert [line.partition(": smg ")[2] for line in check([path]).lines()] == [
        "random: fits, p = 1.000",
        "passthrough: fits",
    ]


def test_holm_holds_all_cases_together():
    """One p-value of 0.7 % is rejected alone and kept among ten, where 0.1 % is asked of the smallest."""
    odd = case([129, 96, 89, 86])  # chi-square 11.74 with 3 degrees of freedom
    (alone,) = judge([odd])
    assert alone.p_value == pytest.approx(0.0083, abs=1e-4)
    assert not alone.passes
    assert judge([odd] + [case([100] * 4)] * 9)[0].passes
