"""Sweeps: cells shared and stored once, equal bytes however they are run, rules that say when to stop."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim import load_scenario, results, run
from sim.cli import main
from sim.cli.text.sweep import BestSoFar
from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.replication import replicate
from sim.report.numbers import number
from sim.scenario import load_sweep
from sim.stats.stopping import half_width
from sim.sweep import Winner, sweep, winner
from sim.sweep.charts import frontier_cells, save_sweep_charts, winner_table
from tests.sim.results import arm
from tests.sim.results import result as by_hand

WORLD = """
name: small-world
fleet: {engines: 4, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 4, per_sequence_ms: 2}}}
workload:
  kind: rollout
  groups: 12
  samples_per_group: 2
  prompt: {group_tokens: 64}
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  max_tokens: 64
router: {policy: {kind: round_robin}}
arms:
  turns: {}
  chance: {router: {policy: {kind: random}}}
  hash: {router: {policy: {kind: sglang.consistent_hashing}}}
sweep: {vary: {workload.groups: [12, 24], arms.chance.fleet.engines: [2, 4]}}
replications: {pairs: 6, seed: 3}
metrics: [samples_per_s, load_requests_max_over_mean]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(WORLD)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def test_the_table_of_a_sweep(path: Path, tmp_path: Path) -> None:
    """One row a variant, candidate and metric; each number is that of the variant run alone."""
    made = load_sweep(path)
    found = sweep(made, out=tmp_path / "out")
    table = found.table
    assert table.height == 4 * 2 * 2
    assert table.columns[:3] == ["variant", "workload.groups", "arms.chance.fleet.engines"]
    variant = made.variants[3]
    alone = run(variant.scenario, out=tmp_path / "alone")
    row = table.filter(
        pl.col("variant") == variant.name, pl.col("candidate") == "hash", pl.col("metric") == "samples_per_s"
    ).row(0, named=True)
    paired = alone.comparison("hash", "samples_per_s").paired
    assert (row["ratio"], row["lo"], row["hi"], row["pairs"]) == (paired.ratio, paired.lo, paired.hi, 6)


def test_cells_that_variants_share_run_once(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four variants of three arms: the arms that a field leaves alone run for one of them."""
    ran: list[str] = []

    def counted(cell, pair):
        ran.append(cell.hash)
        return replicate(cell, pair)

    monkeypatch.setattr("sim.worker.replicate", counted)
    sweep(load_sweep(path), out=tmp_path / "out")
    assert len(ran) == 6 * (2 + 4 + 2)
    sweep(load_sweep(path), out=tmp_path / "out")
    assert len(ran) == 6 * 8


def test_same_bytes_whatever_the_workers(path: Path, tmp_path: Path) -> None:
    """One process or two, kept values or kept tables: the same numbers; the same files for the same request."""
    one = sweep(load_sweep(path), out=tmp_path / "one")
    two = sweep(load_sweep(path), jobs=2, out=tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    kept = sweep(load_sweep(path), keep_tables=True, out=tmp_path / "kept")
    assert one.table.equals(two.table)
    assert one.table.equals(kept.table)


def test_stored_results_as_frames(path: Path, tmp_path: Path) -> None:
    """Values of every cell, tables of those that kept them."""
    sweep(load_sweep(path), out=tmp_path / "out")
    values = results.scan(out=tmp_path / "out").collect()
    assert values.height == 6 * 8
    assert {"scenario", "arm", "hash", "pair", "samples_per_s"} <= set(values.columns)
    with pytest.raises(ScenarioError, match="no table requests is stored"):
        results.scan("requests", tmp_path / "out")
    run(load_scenario(path), out=tmp_path / "out")
    requests = results.scan("requests", tmp_path / "out").collect()
    assert requests.group_by("hash", "pair").len()["len"].to_list() == [24] * 18
    with pytest.raises(ScenarioError, match="no table 'request'"):
        results.scan("request", tmp_path / "out")


def stopped(path: Path, tmp_path: Path, stop: str, jobs: int = 1, pairs: int = 6):
    path.write_text(path.read_text().replace("{pairs: 6, seed: 3}", f"{{pairs: {pairs}, seed: 3, stop: {stop}}}"))
    return run(load_scenario(path), jobs=jobs, out=tmp_path / f"out{jobs}")


@pytest.mark.parametrize("width", [0.04, 0.02])
def test_precision_ends_at_the_width_that_was_asked_for(path: Path, tmp_path: Path, width: float) -> None:
    """The interval of each candidate is that narrow, and was not with far fewer pairs."""
    result = stopped(path, tmp_path, f"{{kind: precision, half_width_share: {width}}}")
    pairs = result.arms["turns"].values.height
    assert pairs >= 20
    widths = []
    for name in ("chance", "hash"):
        logs = np.log(result.arms[name].column("samples_per_s") / result.arms["turns"].column("samples_per_s"))
        assert half_width(logs) <= width
        widths.append(half_width(logs[: pairs // 3]))
    assert pairs == 20 or max(widths) > width
    assert f"stopped at {pairs} pairs" in result.notes[0]


def test_a_rule_gives_the_same_whatever_the_workers(path: Path, tmp_path: Path) -> None:
    """It looks at pairs by number, not at what was quick."""
    stop = "{kind: precision, half_width_share: 0.03}"
    one = stopped(path, tmp_path, stop)
    path.write_text(WORLD)
    two = stopped(path, tmp_path, stop, jobs=2)
    assert one.values.equals(two.values)
    assert tree(tmp_path / "out1") == tree(tmp_path / "out2")


def test_precision_that_is_out_of_reach(path: Path, tmp_path: Path) -> None:
    """It ends at the most pairs allowed, and says how many it would take."""
    result = stopped(path, tmp_path, "{kind: precision, half_width_share: 0.0001, most_pairs: 30}")
    assert result.arms["hash"].values.height == 30
    assert "the most allowed" in result.notes[0]


def test_selection_drops_arms_that_are_behind(path: Path, tmp_path: Path) -> None:
    """Taking turns is the best of the three here; one of the others drops out, and stops, before the last one."""
    path.write_text(WORLD.replace("{kind: random}", "{kind: power_of_two}"))
    result = stopped(path, tmp_path, "{kind: selection, indifference_share: 0.01}")
    heights = {name: arm.values.height for name, arm in result.arms.items()}
    assert min(heights.values()) < heights["turns"] == max(heights.values())
    assert result.notes[0].startswith("turns is selected as the best")
    paired = result.comparison("hash", "samples_per_s").paired
    assert paired.pairs == heights["hash"]


def test_an_allocation_spends_what_it_was_given(path: Path, tmp_path: Path) -> None:
    """All replications, most of them on the arms that are hard to tell apart."""
    result = stopped(path, tmp_path, "{kind: allocation, replications: 120}")
    heights = {name: arm.values.height for name, arm in result.arms.items()}
    assert sum(heights.values()) == 120
    assert heights["hash"] == min(heights.values())
    assert "turns leads; best" in result.notes[0]


def test_a_budget_ends_in_time_with_equal_arms(path: Path, tmp_path: Path) -> None:
    """A very short one leaves the pairs that were done, the same for every arm but for those under way."""
    result = stopped(path, tmp_path, "{kind: budget, seconds: 1.5, most_pairs: 100000}")
    heights = [arm.values.height for arm in result.arms.values()]
    assert 10 <= min(heights) < 100000
    calm = run(load_scenario(path), pairs=min(heights), out=tmp_path / "calm")
    assert calm.arms["hash"].values.equals(result.arms["hash"].values.head(min(heights)))


def test_the_winner_and_whether_it_can_be_told(path: Path, tmp_path: Path) -> None:
    """Clear with taking turns against a hash; not between arms that are equal in law."""
    result = run(load_scenario(path), pairs=20, out=tmp_path / "out")
    best = winner(result, "load_requests_max_over_mean")
    assert (best.arm, best.is_separable) == ("turns", True)
    path.write_text(
        WORLD.replace("{kind: round_robin}", "{kind: random}")
        .replace(
            "  chance: {router: {policy: {kind: random}}}\n",
            "  other: {router: {policy: {kind: random}}, client: {deadline_s: 9}}\n",
        )
        .replace("arms.chance", "arms.other")
        .replace("  hash: {router: {policy: {kind: sglang.consistent_hashing}}}\n", "")
    )
    alike = run(load_scenario(path), pairs=20, out=tmp_path / "alike")
    assert not winner(alike, "samples_per_s").is_separable


def test_a_winner_needs_a_direction_and_a_value() -> None:
    """An arm without a value is last; what is the same in all pairs is sure; a zero says nothing."""
    values = arm("a", 1.0).values
    none = values.with_columns(samples_per_s=pl.lit(None, pl.Float64), makespan_s=pl.lit(None, pl.Float64))
    for metric in ("samples_per_s", "makespan_s"):
        assert winner(by_hand(arm("none", 1, values=none), arm("a", 1.0), metrics=(metric,)), metric).arm == "a"
    twice = values.with_columns(pl.exclude("pair") * 2)
    found = by_hand(arm("a", 1.0, values=values), arm("bb", 1.0, values=twice))
    assert winner(found, "samples_per_s") == Winner("bb", is_separable=True, ratio_to_next=pytest.approx(2))
    assert not winner(found, "preemptions").is_separable
    flat = [pl.DataFrame({"pair": range(8), **dict.fromkeys(METRICS, level)}) for level in (1.0, 1.5)]
    alike = by_hand(arm("a", 1, values=flat[0]), arm("bb", 1, values=flat[1]))
    assert winner(alike, "samples_per_s").is_separable


def test_nobody_wins_what_has_no_direction(path: Path, tmp_path: Path) -> None:
    """Neither in the table nor in the chart; other metrics of the same sweep have their winners."""
    path.write_text(
        WORLD.replace("load_requests_max_over_mean]", "prefill_tokens_ideal]").replace("pairs: 6", "pairs: 2")
    )
    result = sweep(load_sweep(path), out=tmp_path / "out")
    by = {name: frame for (name,), frame in result.table.group_by("metric")}
    assert by["prefill_tokens_ideal"]["winner"].null_count() == by["prefill_tokens_ideal"].height > 0
    assert by["samples_per_s"]["winner"].null_count() == 0
    assert winner_table(result, "prefill_tokens_ideal").is_empty()
    assert not winner_table(result, "samples_per_s").is_empty()


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_commands(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table, a file of it, a list of what is stored, and each stored cell."""
    out = str(tmp_path / "out")
    code, text, err = call(capsys, "sweep", str(path), "--out", out)
    assert code == 0
    assert "groups=24, engines=4" in text
    assert "sweep.csv" in err
    assert "frontier" not in err  # siblings that come together find nothing here
    assert pl.read_csv(tmp_path / "out" / "small-world" / "sweep.csv").height == 16
    code, text, _ = call(capsys, "ls", "--out", out)
    hashes = [line.split()[0] for line in text.splitlines()[1:]]
    assert (code, len(hashes)) == (0, 8)
    code, text, _ = call(capsys, "show", hashes[0][:6], "--out", out)
    assert code == 0
    assert "samples_per_s" in text
    assert "round_robin" in text or "random" in text or "consistent_hashing" in text
    code, _, err = call(capsys, "show", "zzz", "--out", out)
    assert (code, err.count("\n")) == (1, 1)
    code, _, err = call(capsys, "ls", "--out", str(tmp_path / "none"))
    assert (code, err.count("\n")) == (1, 1)


def test_hits_against_balance_and_the_best_so_far(path: Path, tmp_path: Path) -> None:
    """Every arm of every variant is a point; the leader changes where a later variant has a better one, never back."""
    found = sweep(load_sweep(path, ["fleet.engine.visibility=at_schedule"]), out=tmp_path)
    assert tmp_path / "f" / "s_frontier.png" in save_sweep_charts(found, "samples_per_s", tmp_path / "f", stem="s")
    points = frontier_cells(found)
    assert points.height == 4 * 3
    assert set(points["arm"]) == {
        f"{variant}: {arm}" for variant in found.results for arm in ("turns", "chance", "hash")
    }
    held = [means["hit_rate"] for means in points.iter_rows(named=True)]
    assert held == [
        each.values["prefix_hit_rate"].mean() for one in found.results.values() for each in one.arms.values()
    ]
    for metric, pick in (("samples_per_s", max), ("load_requests_max_over_mean", min)):
        best, seen = BestSoFar(metric), []
        for variant, result in found.results.items():
            seen += [(means[metric].mean, arm, variant) for arm, means in result.means.items()]
            value, arm, where = pick(seen, key=lambda each: each[0])
            assert best.hear(variant, result).startswith(f"best so far: {arm} in {where}, {number(value)}")
    assert BestSoFar("queries_per_prompt_token").hear(variant, result) == ""


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_somebody_looks_on(command: str, path: Path, tmp_path: Path) -> None:
    """On a terminal there is a line of progress before anything is done, and a sweep says who is best where."""
    path.write_text(WORLD.replace("pairs: 6", "pairs: 2"))
    program = "import sys; from sim.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, command, str(path), "--jobs", "1", "--out", str(tmp_path / "out")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux ends a terminal with an error
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
    assert process.returncode == 0, shown.decode()
    assert b"small-world" in shown
    assert b"0/" in shown
    assert (b"groups=24, engines=4: " in shown) == (command == "sweep")
    assert (b"best so far: " in shown) == (command == "sweep")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metric", "ttft_p95_s"), "not among the scenario's metrics"),
        (("--address", "auto"), "--address has no effect"),
        (("--vary", "fleet.engines"), "must be path=a,b,c"),
        (("--vary", "fleet.engines=0"), "fleet.engines"),
    ],
)
def test_wrong_words(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """One line, exit code 1, nothing written."""
    code, _, err = call(capsys, "sweep", str(path), *arguments, "--out", str(tmp_path / "out"))
    assert (code, err.count("\n")) == (1, 1)
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_variant_of_which_an_arm_does_not_run(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are shown, and the exit code says that something failed."""
    (tmp_path / "own.py").write_text(
        "from policies._protocol import Policy\nfrom dataclasses import dataclass\n@dataclass\nclass Own(Policy):\n"
        "    def choose(self, request, fleet, now, pick):\n"
        "        return fleet.engines[2], 'third', 0\n"
    )
    world = json.dumps({"kind": "./own.py:Own"})
    path.write_text(
        WORLD.replace("{kind: sglang.consistent_hashing}", world).replace("arms.chance.fleet", "arms.hash.fleet")
    )
    code, text, _ = call(capsys, "sweep", str(path), "--out", str(tmp_path / "out"))
    assert code == 1
    assert "failed: groups=12, engines=2" in text
    assert "groups=12, engines=4" in text
