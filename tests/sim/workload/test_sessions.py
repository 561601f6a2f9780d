"""The replay of recorded sessions: the shipped file's published figures, what a replication draws, broken files."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from policies._content import PRIVATE, common_prefix, count
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload.sessions import Sessions

SCENARIOS = Path(__file__).parents[3] / "scenarios"
CODEX = Sessions("traces/codex_replay_like/sessions.jsonl")


def generate(spec, replication=0, base=SCENARIOS):
    return spec.generate(Streams(1, replication), base)


def sessions(workload):
    return [workload.session(index) for index in range(workload.sessions)]


def lengths(session):
    return [count(turn.prompt) for turn in session.turns]


@pytest.fixture
def folder(tmp_path):
    rows = [
        {"session_id": "a", "output_tokens": 5, "prompt_tokens": [100, 150, 400]},
        {"session_id": "b", "output_tokens": 7, "prompt_tokens": [90]},
        {"session_id": "c", "output_tokens": 9, "prompt_tokens": [120, 120]},
    ]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_shipped_sessions_have_the_published_figures():
    """610 sessions, 19,582 turns, 1,570,738,525 prompt tokens, strata and quantiles of the replay campaign."""
    workload = generate(CODEX)
    summary = workload.summary()
    assert (summary["sessions"], summary["requests"]) == (610, 19_582)
    assert summary["prompt_tokens"] == 1_570_738_525
    assert summary["output_tokens"] == 19_582 * 246
    turns = np.array([len(each.turns) for each in sessions(workload)])
    strata = [
        int(((turns >= low) & (turns <= high)).sum()) for low, high in ((6, 15), (16, 30), (31, 50), (51, 75), (76, 99))
    ]
    assert strata == [106, 222, 198, 64, 19]
    assert [int(turns.min()), int(turns.max())] == [5, 99]


@pytest.mark.parametrize(("block_tokens", "percent"), [(2080, 94.8), (16, 96.0)])
def test_the_shipped_sessions_have_the_stated_reuse(block_tokens, percent):
    """94.8 % of the prompt tokens are reusable in blocks of 2,080 tokens, 96.0 % in blocks of 16."""
    workload = generate(CODEX)
    reusable = 1 - ideal_prefill_tokens(workload, block_tokens) / workload.summary()["prompt_tokens"]
    assert round(100 * reusable, 1) == percent


def test_each_prompt_extends_the_one_before(folder):
    """Recorded lengths, own content, answers discarded and decoded to the end, no delay."""
    one, *others = sessions(generate(Sessions("trace.jsonl"), base=folder))
    assert lengths(one) == [100, 150, 400]
    assert common_prefix(one.turns[1].prompt, one.turns[2].prompt) == 150
    assert [common_prefix(one.turns[2].prompt, other.turns[0].prompt) for other in others] == [0, 0]
    assert {(turn.output_tokens, turn.max_tokens, turn.output_source, turn.delay_s) for turn in one.turns} == {
        (5, 5, PRIVATE, 0.0)
    }


def test_a_shared_prefix_is_shared_by_all(folder):
    """The first tokens are common to all prompts and the lengths stay."""
    shared = sessions(generate(Sessions("trace.jsonl", shared_prefix_tokens=90), base=folder))
    assert [lengths(each) for each in shared] == [[100, 150, 400], [90], [120, 120]]
    assert common_prefix(shared[0].turns[2].prompt, shared[2].turns[0].prompt) == 90


def test_a_shared_prefix_fits_every_prompt(folder):
    """A prefix longer than a first prompt is refused."""
    with pytest.raises(ScenarioError, match=r"^shared_prefix_tokens must be at most the shortest first prompt, 90$"):
        generate(Sessions("trace.jsonl", shared_prefix_tokens=91), base=folder)


def test_the_starting_order_is_drawn_anew():
    """Each replication starts the same sessions in an order of its own; ids keep the order of the data."""
    one, other = generate(CODEX), generate(CODEX, replication=1)
    assert sorted(one.order) == sorted(other.order) == list(range(610))
    assert one.order.tolist() != other.order.tolist()
    assert sessions(one) == sessions(other)
    assert generate(replace(CODEX, order="data")).order.tolist() == list(range(610))


def test_the_longest_may_start_first(folder):
    """By turns, and those that have as many in the order of the file, in every replication."""
    spec = Sessions("trace.jsonl", order="longest")
    assert [generate(spec, replication, folder).order.tolist() for replication in range(3)] == [[0, 2, 1]] * 3
    workload = generate(replace(CODEX, order="longest"))
    turns = [len(workload.session(index).turns) for index in workload.order]
    assert turns == sorted(turns, reverse=True)


def test_resampling_draws_whole_sessions(folder):
    """As many sessions as before, each one of the file's, with content of its own."""
    spec = Sessions("trace.jsonl", resample=True)
    drawn = [[lengths(each) for each in sessions(generate(spec, index, folder))] for index in range(20)]
    assert all(each in ([100, 150, 400], [90], [120, 120]) for sample in drawn for each in sample)
    assert {len(sample) for sample in drawn} == {3}
    assert any(sample[0] == sample[1] for sample in drawn)
    for index in range(20):
        prompts = [each.turns[0].prompt for each in sessions(generate(spec, index, folder))]
        assert len(set(prompts)) == 3


def test_a_limit_takes_the_first_sessions(folder):
    """No more than asked for, no more than there are."""
    assert [len(each.turns) for each in sessions(generate(Sessions("trace.jsonl", limit=2), base=folder))] == [3, 1]
    assert generate(Sessions("trace.jsonl", limit=10), base=folder).sessions == 3


def test_a_compressed_file_says_the_same(folder):
    """Plain and gzip are read alike."""
    (folder / "trace.jsonl.gz").write_bytes(gzip.compress((folder / "trace.jsonl").read_bytes()))
    plain, packed = (generate(Sessions(name), base=folder) for name in ("trace.jsonl", "trace.jsonl.gz"))
    assert sessions(plain) == sessions(packed)


def test_a_changed_file_is_read_again(folder):
    """What was read before is not taken for what stands there now."""
    assert generate(Sessions("trace.jsonl"), base=folder).sessions == 3
    (folder / "trace.jsonl").write_text('{"session_id": "z", "output_tokens": 1, "prompt_tokens": [8]}\n')
    assert generate(Sessions("trace.jsonl"), base=folder).sessions == 1


GOOD = '{"session_id": "x", "output_tokens": 5, "prompt_tokens": [10, 20]}\n'


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ('{"session_id": "y", "output_tokens": 5, "prompt_tok', "not a whole JSON object"),
        ("\n", "the line is empty"),
        ("[1, 2]\n", "not a JSON object"),
        ("[" * 100_000 + "\n", "not a whole JSON object"),
        ('{"output_tokens": 5, "prompt_tokens": [10]}\n', "session_id is missing"),
        (
            '{"session_id": "x", "output_tokens": 5, "prompt_tokens": [10]}\n',
            "session_id must be a text that no earlier",
        ),
        ('{"session_id": "y", "prompt_tokens": [10]}\n', "output_tokens is missing"),
        (
            '{"session_id": "y", "output_tokens": 0, "prompt_tokens": [10]}\n',
            "output_tokens must be a whole number from 1",
        ),
        ('{"session_id": "y", "output_tokens": 5, "prompt_tokens": []}\n', "prompt_tokens must be a list"),
        ('{"session_id": "y", "output_tokens": 5, "prompt_tokens": [10, -1]}\n', "each of prompt_tokens must be"),
        ('{"session_id": "y", "output_tokens": 5, "prompt_tokens": [10, 1.5]}\n', "each of prompt_tokens must be"),
        ('{"session_id": "y", "output_tokens": 5, "prompt_tokens": [10, true]}\n', "each of prompt_tokens must be"),
        ('{"session_id": "y", "output_tokens": 5, "prompt_tokens": [20, 10]}\n', "prompt_tokens must not fall"),
    ],
)
def test_a_broken_line_is_named(tmp_path, second, reason):
    """One line that names file, line and reason."""
    (tmp_path / "trace.jsonl").write_text(GOOD + second)
    with pytest.raises(ScenarioError, match=rf"^\S*trace\.jsonl:2: {reason}") as error:
        generate(Sessions("trace.jsonl"), base=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no rows"),
        (b"\xff\xfe\n", "1: starts with a byte-order mark"),
        (b"\x00\x01\n", "1: is no text file"),
        (b"\xc3\n", "1: not a whole JSON object"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-9], "cannot be read"),
        (b"not gzip", "cannot be read"),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, reason):
    """An empty, a binary and a truncated file."""
    name = "trace.jsonl.gz" if reason == "cannot be read" else "trace.jsonl"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ScenarioError, match=reason):
        generate(Sessions(name), base=tmp_path)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "", "nul\0.jsonl"])
def test_a_missing_file_is_named(tmp_path, name):
    """No file, a folder, and no name at all are errors of one line."""
    with pytest.raises(ScenarioError, match="cannot be read"):
        generate(Sessions(name), base=tmp_path)


def test_what_is_refused():
    """The message opens with the name of the field."""
    for change in ({"limit": 0}, {"shared_prefix_tokens": -1}, {"chars_per_token": -1.0}):
        with pytest.raises(ScenarioError, match=f"^{next(iter(change))} must be"):
            replace(CODEX, **change)
