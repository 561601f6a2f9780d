"""Measured results: what is written is read, what is wrong is told with its line, metrics are those of the tables."""

import json
from dataclasses import replace

import polars as pl
import pytest

from sim import campaign
from sim.campaign import _measured
from sim.campaign._results import FIELDS, SCHEMA
from sim.errors import ScenarioError
from sim.log.frames import read_logs
from sim.metrics import METRICS, measure
from sim.replication import replicate
from sim.scenario import load_scenario

HEADER = campaign.Header("seal", "cell", 0, "arm", 0, "trace", "config", engines=2)


def lines(path):
    return path.read_text().splitlines(keepends=True)


def close(value):
    """The same but for rounding; null is null."""
    return None if value is None else pytest.approx(value, rel=1e-9)


@pytest.fixture
def path(measured, tmp_path):
    """A results file of its own."""
    own = tmp_path / "run.jsonl"
    own.write_bytes(next(iter(sorted(measured.glob("*-0-group.jsonl")))).read_bytes())
    return own


def test_a_run_reads_back(path, tmp_path):
    """Header and every field."""
    run = campaign.read(path)
    assert run.requests.columns == list(FIELDS)
    campaign.write(tmp_path / "again.jsonl", run.header, run.requests)
    again = campaign.read(tmp_path / "again.jsonl")
    assert again.header == run.header
    assert again.requests.equals(run.requests)
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_tables_hold_the_same(path, tmp_path, suffix):
    """Columns, with the header in a file beside them; the parquet to the bit."""
    run = campaign.read(path)
    table = tmp_path / f"run{suffix}"
    (run.requests.write_parquet if suffix == ".parquet" else run.requests.write_csv)(table)
    with pytest.raises(ScenarioError, match=r"run\S*: its header is missing: run.header.json beside it"):
        campaign.read(table)
    (tmp_path / "run.header.json").write_text(lines(path)[0])
    again = campaign.read(table)
    assert again.header == run.header
    assert again.requests.equals(run.requests)


def test_metrics_of_a_measured_run_are_the_simulated_ones(made, evidence, tmp_path):
    """A simulated run written as results has, in every metric that can be computed, the value of its own tables."""
    for arm, cell in evidence.scenario.arms.items():
        tables = read_logs([replicate(cell, 1)], [1])
        path = tmp_path / f"{arm}.jsonl"
        campaign.write(path, replace(HEADER, pair=1), _measured.of_tables(tables))
        trace = made.folder / "cells/slime-group-affinity/windtunnel-1.jsonl"
        known = _measured.sent(trace, int(tables.replications["prefill_tokens_ideal"][0]))
        found = _measured.measured([(campaign.read(path), known)])
        want = measure(tables)
        assert set(METRICS) - set(found.columns) == set(_measured.NOT_MEASURED)
        for name in found.columns:
            assert found[name][0] == close(want[name][0]), name


def test_turns_groups_and_warm_up(tmp_path):
    """The same with several turns, arrivals in time, a cap, and a start that is left out."""
    sets = ("workload.groups=6", "workload.turns=3", "workload.arrivals={kind: poisson, groups_per_s: 0.5}",
            "client.max_sessions_in_flight=5", "client.deadline_s=3")  # fmt: skip
    scenario = load_scenario("slime_group_affinity", sets)
    from sim.export import Plan, export
    from sim.steady import without_start

    export(scenario, tmp_path, Plan(("windtunnel",), 1, 512))
    tables = read_logs([replicate(scenario.arms["group"], 0)], [0])
    path = tmp_path / "r.jsonl"
    campaign.write(path, HEADER, _measured.of_tables(tables))
    ideal = int(tables.replications["prefill_tokens_ideal"][0])
    known = _measured.sent(tmp_path / "windtunnel-0.jsonl", ideal)
    for cut in (None, 3.0):
        found, want = _measured.measured([(campaign.read(path), known)], cut), measure(without_start(tables, cut))
        for name in found.columns:
            assert found[name][0] == close(want[name][0]), (cut, name)
    assert found["goodput_per_s"][0] < found["requests_per_s"][0]


def test_what_was_not_measured_has_no_value(path, made):
    """Without cached tokens no hit rate, without engines no load: none is made up from the rest."""
    known = _measured.sent(made.folder / "cells/slime-group-affinity/windtunnel-0.jsonl", 1)
    run = campaign.read(path)
    for field, lost, kept in (
        ("cached", ("prefix_hit_rate", "prefill_tokens", "load_tokens_cv"), "samples_per_s"),
        ("engine", ("load_requests_cv", "moved_turns_rate"), "prefix_hit_rate"),
        ("first_s", ("ttft_p95_s", "tpot_mean_s"), "e2e_p95_s"),
        ("preempted", ("preemptions",), "recomputed_tokens"),
    ):
        less = replace(run, requests=run.requests.with_columns(pl.lit(None, run.requests[field].dtype).alias(field)))
        values = _measured.measured([(less, known)])
        assert all(values[name][0] is None for name in lost), field
        assert values[kept][0] is not None, field


def spoil(path, line, **changes):
    """Some fields of one line otherwise."""
    rows = lines(path)
    rows[line] = json.dumps(json.loads(rows[line]) | changes) + "\n"
    path.write_text("".join(rows))


@pytest.mark.parametrize(
    ("line", "changes", "says"),
    [
        (0, {"schema": "x"}, f":1: the header's schema must be '{SCHEMA}'"),
        (0, {"pair": "0"}, ":1: pair must be a whole number, not '0'"),
        (0, {"engines": 0}, "engines 1 or more"),
        (0, {"cold_hit_rate": 2}, "cold_hit_rate must lie in 0..1"),
        (2, {"last_s": float("nan")}, ":3: is no line of JSON: NaN is no number; what was not measured is null"),
        (2, {"first_s": "1"}, ":3: first_s must be a number or null, not '1'"),
        (2, {"rid": None}, ":3: rid is missing"),
        (2, {"rid": -1}, ":3: rid must be a whole number, 0 or more, not -1"),
        (2, {"status": "done"}, ":3: status must be one of finished, failed"),
        (2, {"last_s": None}, ":3: a request that finished has a last_s"),
        (2, {"cached": 10**9}, ":3: cached is more than input_tokens"),
        (2, {"engine": 1.5}, ":3: engine must be a name, a number or null"),
        (2, {"latency": 1}, ":3: unknown field 'latency'"),
        (0, {"engine_restart": 1}, ":1: unknown field 'engine_restart' in the header; known are schema, seal"),
        (2, {"last_s": 1e300}, ":3: last_s must be seconds of a clock, not 1e+300"),
        (2, {"arrive_s": -1_700_000_000_000}, ":3: arrive_s must be seconds of a clock, not -1.7e+12"),
        (2, {"rid": 1}, "request 1 stands twice"),
    ],
)
def test_a_wrong_line_is_told(path, line, changes, says):
    """With file and line; the whole file is refused."""
    spoil(path, line, **changes)
    with pytest.raises(ScenarioError) as found:
        campaign.read(path)
    assert says in str(found.value)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value)


def test_a_run_that_was_cut_short_is_told(path):
    """At any byte of its last line."""
    whole = path.read_bytes()
    for cut in (1, 20, len(lines(path)[-1]) - 1):
        path.write_bytes(whole[:-cut])
        with pytest.raises(ScenarioError, match=r"run.jsonl:\d+: the last line is cut short"):
            campaign.read(path)
    path.write_bytes(b"")
    with pytest.raises(ScenarioError, match="is empty"):
        campaign.read(path)
    path.write_text(whole.splitlines(keepends=True)[0].decode())
    with pytest.raises(ScenarioError, match="holds no requests"):
        campaign.read(path)


def test_clocks_that_run_backwards_are_counted(path):
    """By more than a millisecond; less is two clocks."""
    run = campaign.read(path)
    assert run.out_of_order == 0
    row = run.requests.row(3, named=True)
    spoil(path, 4, last_s=row["first_s"] - 0.5)
    assert campaign.read(path).out_of_order == 1
    spoil(path, 4, last_s=row["first_s"] - 0.0005)
    assert campaign.read(path).out_of_order == 0
    spoil(path, 5, prefill_s=None, queue_s=None, last_s=0.0, arrive_s=10.0, first_s=None)
    assert campaign.read(path).out_of_order == 1


def test_no_results_are_told(tmp_path):
    """An empty folder, and none."""
    with pytest.raises(ScenarioError, match="no .jsonl, .parquet or .csv has the schema"):
        campaign.read_folder(tmp_path)
    with pytest.raises(ScenarioError, match="does not exist"):
        campaign.read_folder(tmp_path / "x")


def test_blank_lines_at_the_end_are_none(path):
    """An editor leaves them; between lines they are told."""
    run, whole = campaign.read(path), path.read_text()
    path.write_text(whole + "\n  \n\n")
    assert campaign.read(path).requests.equals(run.requests)
    rows = whole.splitlines(keepends=True)
    path.write_text("".join([*rows[:2], "\n", *rows[2:]]))
    with pytest.raises(ScenarioError, match=r"run.jsonl:3: is empty, and lines follow"):
        campaign.read(path)


def test_lines_of_another_schema_are_no_results(path):
    """A log beside them, a trace; a header of another version or a broken one is told."""
    beside = path.with_name("router.jsonl")
    for first in ('{"level": "info"}', "[1]", '{"schema": "windtunnel.trace/1"}'):
        beside.write_text(first + "\n")
        assert [run.path for run in campaign.read_folder(path.parent)] == [path]
    for first, says in (('{"schema": "windtunnel.results/9"}', "schema must be"), ("{", "is no line of JSON")):
        beside.write_text(first + "\n")
        with pytest.raises(ScenarioError, match=f"router.jsonl:1: .*{says}"):
            campaign.read_folder(path.parent)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_tables_of_other_columns_are_no_results(path, suffix):
    """A table of one's own beside them; requests whose header is missing, and a table that cannot be read, are told."""
    run = campaign.read(path)
    beside = path.with_name(f"power{suffix}")
    write = pl.DataFrame.write_parquet if suffix == ".parquet" else pl.DataFrame.write_csv
    write(pl.DataFrame({"second": [0, 1], "watts": [310.0, 402.5]}), beside)
    assert [each.path for each in campaign.read_folder(path.parent)] == [path]
    write(run.requests, beside)
    with pytest.raises(ScenarioError, match=f"power{suffix}: its header is missing: power.header.json beside it"):
        campaign.read_folder(path.parent)
    beside.write_bytes(b"")
    with pytest.raises(ScenarioError, match=f"power{suffix}: its header is missing"):
        campaign.read_folder(path.parent)
