"""Every workload of the benchmarks is built and runs small; what it takes is nobody's business here."""

import json

import pytest
from click.testing import CliRunner

from benchmarks import numbers, page, workloads
from benchmarks.__main__ import main
from benchmarks.measure import Span, run
from sim.rng import Streams

SMALL = {
    "A": lambda: workloads.requests(20, 30.0),
    "B": lambda: workloads.cell("B", 2),
    "C": lambda: workloads.cell("C", 1),
    "D": lambda: workloads.replay("workload.limit=3"),
    "A, sglang": lambda: workloads.requests(20, 30.0, preset="sglang"),
    "D, sglang": lambda: workloads.replay("workload.limit=3", preset="sglang"),
    "E": lambda: workloads.cell("E", 2),
    "F": lambda: workloads.cell("F", 20),
    "growth": lambda: workloads.requests(20, 30.0, 8, numbers.KEYED),
}


@pytest.mark.parametrize("name", SMALL)
def test_workloads_run(name):
    """Built from its file, run, and written."""
    assert run(SMALL[name]()).requests > 0


def test_sessions_have_the_stated_prompts():
    """B: 20 turns with a mean prompt of 7,100 tokens."""
    workload = workloads.cell("B", 3)
    turns = workload.workload.generate(Streams(1), workload.base).session(0).turns
    lengths = [sum(length for _, length in turn.prompt) for turn in turns]
    assert len(turns) == 20
    assert sum(lengths) / 20 == 7100


def test_the_page_is_refreshed_in_place(tmp_path):
    """Between its marks, with the words around them kept, and the same rows as JSON."""
    target, rows = tmp_path / "page.md", tmp_path / "rows.json"
    target.write_text(f"before\n{page.START}\nold\n{page.END}\nafter\n")
    options = ["--scale", "0.001", "--repeat", "1", "--write", str(target), "--json", str(rows)]
    done = CliRunner().invoke(main, ["C", *options], catch_exceptions=False)
    assert done.exit_code == 0
    text = target.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| C " in text
    assert [row["number"] for row in json.loads(rows.read_text())["rows"]] == ["C", "C"]


def test_a_share_of_one_is_reached():
    """More is better for rates, less for seconds."""
    rate = numbers.Row("A", "rate", "1/s", Span(20, 10), Span(20, 10), more_is_better=True)
    time = numbers.Row("C", "time", "s", Span(2, 1), Span(2, 1), clock="wall")
    assert rate.share(10) == 2
    assert time.share(0.5) == 0.5
