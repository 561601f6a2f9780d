"""``windtunnel trace``: figures against counts by hand, bounded memory, conversions that come back."""

import gzip
import json
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from sim.cli._main import run_command as main
from sim.rng import Streams
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload._traces._call import Call, Reading
from sim.workload._traces._figures import Histogram, figures
from sim.workload._traces._formats import find_format, read_calls
from sim.workload._traces._known import Known
from sim.workload.trace import Trace

DATA = Path(__file__).parents[2] / "data" / "traces"
SCENARIOS = Path(__file__).parents[3] / "scenarios"
CODEX = SCENARIOS / "traces/codex_replay_like/sessions.jsonl"
CONVERSATION = SCENARIOS / "traces/mooncake/conversation_first_half.jsonl.gz"


def info(capsys, *arguments):
    code = main(["trace", "info", *map(str, arguments)])
    out = capsys.readouterr()
    return code, out.out, out.err


def document(capsys, *arguments):
    code, out, err = info(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_replay_population_has_the_published_figures(capsys):
    """610 sessions, 19,582 calls, 1,570,738,525 prompt tokens, quantiles of turns, reuse ceilings."""
    [found] = document(capsys, CODEX, "--reuse", 16, "--reuse", 2080)
    assert (found["format"], found["sessions"], found["calls"]) == ("turns", 610, 19_582)
    assert found["prompt_tokens"]["total"] == 1_570_738_525
    assert [found["turns"][name] for name in ("p50", "p90", "p99", "p100")] == [29, 56, 86, 99]
    assert {name: round(100 * share, 1) for name, share in found["reuse"].items()} == {"16": 96.0, "2080": 94.8}


def test_the_text_says_the_same(capsys):
    """Two files, one after the other: format, calls, time, reuse in the file's own blocks."""
    code, out, _ = info(capsys, CONVERSATION, DATA / "synthetic_first_half.jsonl.gz")
    assert code == 0
    for words in (
        "5,606 calls, 5,606 sessions",
        "1,767.000 s from the first call",
        "34.7 % in blocks of 512",
        "123,192",
    ):
        assert words in out
    assert "32.2 % in blocks of 512" in out


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (DATA / "weka" / "plain", 64),
        (DATA / "weka" / "plain", 192),
        (DATA / "magagent.jsonl.gz", 64),
        (DATA / "turn_shapes.jsonl", 16),
        (DATA / "round_trace_example.jsonl", 1),
        (DATA / "synthetic_first_half.jsonl.gz", 512),
        (CODEX, 2080),
    ],
)
def test_reuse_of_a_stream_is_that_of_the_sessions(file, block):
    """The streamed count equals the count over spans, but where a file interleaves its sessions otherwise."""
    form = find_format(file, "auto")
    found = figures(read_calls(file, form, Reading()), (block,))
    workload = Trace(str(file)).generate(Streams(1), Path())
    tokens = workload.summary()["prompt_tokens"]
    assert found.input.total == tokens
    assert found.rows == workload.summary()["requests"]
    assert found.computed == [pytest.approx(ideal_prefill_tokens(workload, block), rel=2e-3)]


def test_token_ids_and_exports_are_counted_too(tmp_path, capsys):
    """Token ids in pieces of 16; a workload of this program by its spans."""
    rows = [
        {"input_toks": 40, "output_toks": 2, "arrival_time_ns": 0, "input_tok_ids": [*range(40)]},
        {"input_toks": 40, "output_toks": 2, "arrival_time_ns": 5, "input_tok_ids": [*range(35), *[7] * 5]},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    [found] = document(capsys, tmp_path / "t.jsonl", "--reuse", 16)
    assert found["reuse"] == {"16": 32 / 80}
    assert main(["trace", "convert", str(tmp_path / "t.jsonl"), str(tmp_path / "w.jsonl"), "--to", "windtunnel"]) == 0
    [found] = document(capsys, tmp_path / "w.jsonl", "--reuse", 1)
    assert found["reuse"] == {"1": 35 / 80}


def test_histograms_are_exact_and_then_nearly():
    """Quantiles are values that occurred; beyond 131,072 different ones they keep eleven bits."""
    histogram = Histogram()
    for value in (5, 1, 3, 2, 4):
        histogram.add(value)
    assert (histogram.quantiles(), histogram.mean) == ([3, 5, 5, 5], 3.0)
    for value in range(1_000_000, 1_200_000):
        histogram.add(value)
    assert histogram.quantiles()[0] == pytest.approx(1_100_000, rel=1e-3)
    assert len(histogram.counts) < 5_000
    assert histogram.total == 15 + sum(range(1_000_000, 1_200_000))


def test_known_numbers_stay_known():
    """Small numbers stay exact beyond the limit of a set; hashes are never forgotten and seldom mistaken."""
    small = Known(most_exact=100)
    small.add(range(0, 4000, 2))
    assert (small.count, small.is_exact) == (2000, True)
    assert small.leading([0, 2, 4, 5, 7]) == 3
    assert not any(number in small for number in range(1, 4000, 2))
    chance = random.Random(1)
    numbers = [chance.getrandbits(64) | 1 << 40 for _ in range(20_000)]
    large = Known(most_exact=100)
    large.add(numbers[:10_000])
    assert all(number in large for number in numbers[:10_000])
    assert sum(number in large for number in numbers[10_000:]) < 10
    assert not large.is_exact


def stream(rows):
    """Calls of a Mooncake trace that never ends, made as they are read; ids dense and two thirds of them new."""
    path = DATA / "synthetic_first_half.jsonl.gz"
    [first] = [next(read_calls(path, find_format(path, "auto"), Reading()))]
    new = 0
    for index in range(rows):
        ids = [*range(8), *range(8 + new, 8 + new + 16)]
        new += 16
        yield Call(first.row, 24 * 512, 300 + index % 500, ids=ids, block_tokens=512, at_s=index / 10)


def test_memory_does_not_grow_with_the_file():
    """Twice the rows beyond the exact limit take no more than the table of bits: nothing is kept a row."""
    peaks = []
    for rows in (2_000, 4_000, 8_000):
        tracemalloc.start()
        found = figures(stream(rows), (512,))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.rows == rows
    # Ids cost what they cost while they are kept one by one, up to a million; rows themselves cost nothing.
    growth = (peaks[2] - peaks[1]) / 4_000
    assert growth < 16 * 120
    found = figures(stream(200), (512,))
    assert round(found.reuse[512], 3) == round(8 / 24 * 199 / 200, 3)


@pytest.mark.slow
def test_a_large_file_streams_in_bounded_memory(tmp_path):
    """60 MB of Mooncake rows with 5 million new blocks stay under 400 MiB in a process of their own."""
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        for index, call in enumerate(stream(300_000)):
            ids = ",".join(map(str, call.ids))
            file.write(f'{{"timestamp":{100 * index},"input_length":12288,"output_length":300,"hash_ids":[{ids}]}}\n')
    code = (
        "import resource, sys; from sim.cli._main import run_command as do; code = do(['trace', 'info', sys.argv[1]]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "300,000 calls" in lines[1]
    assert int(lines[-1]) < 400


@pytest.mark.parametrize("to", ["mooncake", "dynamo", "windtunnel"])
def test_a_conversion_comes_back(to, tmp_path, capsys):
    """Sessions with lengths, waits and shared blocks survive; packed if the name says so."""
    target = tmp_path / "t.jsonl.gz"
    assert main(["trace", "convert", str(DATA / "miniswe.jsonl.gz"), str(target), "--to", to]) == 0
    notes = capsys.readouterr().err
    assert ("whole blocks of 64" in notes) == (to != "windtunnel")
    assert gzip.decompress(target.read_bytes()).startswith(b"{")
    block = {} if to == "windtunnel" else {"block_tokens": 64}
    one, other = (
        Trace(str(path), **more).generate(Streams(1), Path())
        for path, more in ((DATA / "miniswe.jsonl.gz", {}), (target, block))
    )
    for index in range(one.sessions):
        for mine, theirs in zip(one.session(index).turns, other.session(index).turns, strict=True):
            assert mine.output_tokens == theirs.output_tokens
            assert mine.delay_s == pytest.approx(theirs.delay_s, abs=1e-8)
    assert ideal_prefill_tokens(one, 64) == ideal_prefill_tokens(other, 64)


def test_a_conversion_selects_and_scales(tmp_path, capsys):
    """Windows, samples, rates and limits are those of the workload."""
    source, target = str(CONVERSATION), str(tmp_path / "t.jsonl")
    assert (
        main(["trace", "convert", source, target, "--to", "mooncake", "--window", "60", "120", "--rate-scale", "2"])
        == 0
    )
    rows = [json.loads(line) for line in Path(target).read_text().splitlines()]
    assert 50 < len(rows) < 400
    assert 0 <= rows[0]["timestamp"] <= rows[-1]["timestamp"] < 30_000
    assert main(["trace", "convert", source, target, "--to", "mooncake", "--limit", "50", "--sample", "0.5"]) == 0
    assert 10 < len(Path(target).read_text().splitlines()) < 40
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["info", "nowhere.jsonl"], "nowhere.jsonl:1: cannot be read: No such file"),
        (["info", str(CODEX), "--format", "moonkake"], "unknown format 'moonkake'; did you mean 'mooncake'?"),
        (["info", str(CODEX), "--rows", "add"], "rows: has no effect on how turns is read"),
        (["convert", str(CODEX), "t.jsonl", "--to", "aiperf"], "aiperf adds to a history"),
        (["convert", str(DATA / "weka" / "plain"), "t.jsonl", "--to", "mooncake"], "mooncake cannot say that sessions"),
    ],
)
def test_what_cannot_be_is_one_line_and_no_file(arguments, reason, tmp_path, monkeypatch, capsys):
    """Exit code 1, no traceback, nothing half-written."""
    monkeypatch.chdir(tmp_path)
    assert main(["trace", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {reason}") or reason in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_calls_is_named(tmp_path, capsys):
    """A rollout that failed before its first call is a row, and no call."""
    row = {"responses_create_params": {"input": "x"}, "response": {"output": []}}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    code, _, err = info(capsys, tmp_path / "t.jsonl")
    assert (code, err) == (1, f"error: {tmp_path / 't.jsonl'}: holds no calls\n")


def test_a_file_is_not_converted_onto_itself(tmp_path, capsys):
    """The source stays as it is."""
    path = tmp_path / "t.jsonl"
    path.write_text(CODEX.read_text())
    assert main(["trace", "convert", str(path), str(path), "--to", "windtunnel"]) == 1
    assert "is the file that is read" in capsys.readouterr().err
    assert path.read_text() == CODEX.read_text()
