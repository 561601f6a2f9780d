"""What each command prints, and the exit code that it leaves."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from sim.calibration.fit import RESAMPLES
from sim.campaign import DRAWS
from sim.cli import main
from sim.cli._commands import COMMANDS
from sim.export import FORMATS
from sim.log.packed import unpack
from sim.log.store import Journal
from sim.report.contrast import Lines
from sim.scenario import load_scenario, schema, shipped

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-c", "from sim.cli import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(*arguments: str, **options) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*PROGRAM, *arguments], env=ENVIRONMENT, text=True, **pipes)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "nowhere.yaml"),
        ("check", "smoke", "--set", "fleet.enginez=3"),
        ("run", "smoke", "--set", "fleet.engines=0"),
        ("run", "smoke", "--arm", "round_robbin"),
        ("run", "smoke", "--set", "fleet.engine.kv_tokens=64"),
        ("policies", "round_robbin"),
        ("policies", "./nowhere.py:P"),
    ],
)
def test_what_a_user_wrote_wrong_is_one_line_and_1(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Nothing on stdout, one line on stderr."""
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("run",), ("run", "smoke", "--pairs", "0"), ("nothing",), ("completion", "tcsh")]
)
def test_wrong_usage_is_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """The command line itself was wrong."""
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Usage:" in err


def test_check_prints_a_scenario_its_differences_and_warnings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Standard output is a scenario file that loads to the same cells."""
    code, out, err = call(capsys, "check", "slime_group_affinity")
    assert code == 0
    assert "# arm group against sample:\n#   client.key_scope: session -> group\n" in out
    assert err == "warning: group_completion_p95_s: 4 groups a replication, so this is close to the slowest one\n"
    file = tmp_path / "again.yaml"
    file.write_text(out)
    before = load_scenario("slime_group_affinity").arms
    assert {name: cell.hash for name, cell in load_scenario(file).arms.items()} == {
        n: c.hash for n, c in before.items()
    }


def test_check_looks_at_the_variants_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    """A path that a sweep varies and no scenario has is found before anything runs."""
    code, out, err = call(capsys, "check", "smoke", "--set", "sweep={vary: {fleet.engins: [1, 2]}}")
    assert (code, out) == (1, "")
    assert err == "error: --set fleet.engins: unknown key; did you mean 'engines'?\n"


def test_schema_is_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, alone on stdout."""
    code, out, err = call(capsys, "schema")
    assert (code, err) == (0, "")
    assert json.loads(out) == schema()


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    """The list has one line a policy; one policy shows parameters, defaults and headers."""
    _, listed, _ = call(capsys, "policies")
    assert [line.split()[0] for line in listed.splitlines()] == sorted(line.split()[0] for line in listed.splitlines())
    assert "sglang.consistent_hashing" in listed
    _, shown, _ = call(capsys, "policies", "sticky_least_loaded")
    assert "count: Literal['sessions', 'requests'] = 'sessions'" in shown
    assert "Routing key: the header x-smg-routing-key, x-session-id" in shown


def test_completion(capsys: pytest.CaptureFixture[str]) -> None:
    """The script names the command; names of scenarios and policies complete."""
    code, out, _ = call(capsys, "completion", "zsh")
    assert code == 0
    assert "compdef _windtunnel_completion windtunnel" in out
    for words, expected in (("run slime", "slime_group_affinity"), ("policies sglang.", "sglang.consistent_hashing")):
        asked = {"_WINDTUNNEL_COMPLETE": "bash_complete", "COMP_WORDS": f"windtunnel {words}", "COMP_CWORD": "2"}
        done = subprocess.run(PROGRAM, env=ENVIRONMENT | asked, capture_output=True, text=True, check=False)
        assert f"plain,{expected}" in done.stdout, done.stderr


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    code, out, _ = call(capsys, "--version")
    assert (code, out.split()[0]) == (0, "windtunnel")


def test_help_imports_nothing_slow() -> None:
    """What a run needs is not loaded to print help."""
    slow = ("numpy", "polars", "pydantic", "simpy", "rich")
    code = f"import sys; from sim.cli import _commands; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_each_command_stands_in_a_file_of_its_own() -> None:
    """Whoever looks for a command finds it, with its options, under its name."""
    assert [each.callback.__module__ for each in COMMANDS] == [f"sim.cli._{each.name}" for each in COMMANDS]
    found = {path.stem.removeprefix("_") for path in (ROOT / "sim" / "cli").glob("_*.py")}
    assert found - {each.name for each in COMMANDS} == {
        "_init__",
        "commands",
        "complete",
        "main",
        "options",
        "progress",
    }


def test_run_as_json_is_alone_on_stdout_and_without_places(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same document in any folder and with any number of jobs; charts lie beside the results."""
    code, one, _ = call(capsys, "run", "smoke", "--json", "--out", str(tmp_path / "one"))
    assert code == 0
    _, two, _ = call(capsys, "run", "smoke", "--json", "--out", str(tmp_path / "two"), "--jobs", "2")
    assert one == two
    document = json.loads(one)
    assert list(document) == ["scenario", "arms", "comparisons", "placements", "notes", "warnings"]
    assert str(tmp_path) not in one
    assert {path.suffix for path in (tmp_path / "one" / "smoke").iterdir() if path.is_file()} == {".png", ".html"}


def test_run_options_reach_the_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Pairs, arms and overrides; what check warns of stands among the result's warnings."""
    arguments = ("--pairs", "2", "--arm", "sample", "--set", "fleet.engines=3", "--json", "--out", str(tmp_path))
    _, out, _ = call(capsys, "run", "slime_group_affinity", *arguments)
    document = json.loads(out)
    assert list(document["arms"]) == ["sample"]
    assert document["arms"]["sample"]["samples_per_s"]["n"] == 2
    assert sum("4 groups a replication" in each for each in document["warnings"]) == 1


def test_a_policy_of_the_users_own_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file beside the scenario, in worker processes too."""
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom policies._protocol import Policy\n\n\n"
        "@dataclass\nclass Mine(Policy):\n"
        "    index: int = 0\n\n    def choose(self, request, fleet, now, pick):\n"
        "        return fleet.available[self.index], 'fixed', 0\n"
    )
    text = shipped()["smoke"].read_text().replace("kind: sticky_least_loaded", 'kind: "./mine.py:Mine", index: 1')
    (tmp_path / "own.yaml").write_text(text)
    code, out, err = call(
        capsys, "run", str(tmp_path / "own.yaml"), "--json", "--jobs", "2", "--out", str(tmp_path / "out")
    )
    assert code == 0, err
    assert json.loads(out)["arms"]["sticky_least_loaded"]["load_requests_max_over_mean"]["mean"] == 2.0


def test_an_output_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file in the way: one line, before anything is simulated."""
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, "run", "smoke", "--out", str(tmp_path / "file"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path, jobs: str) -> None:
    """One line, exit code 130; what is there are finished replications, each whole."""
    process = start(
        "run",
        "slime_group_affinity",
        "--pairs",
        "100000",
        "--jobs",
        jobs,
        "--out",
        str(tmp_path),
        start_new_session=True,
    )
    folder = tmp_path / "slime-group-affinity"
    while not folder.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "interrupted: nothing half-written is left"
    assert "Traceback" not in err
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert all(path.suffix == ".part" and path.parent.name.startswith(".") for path in left)
    journal = [entry for part in folder.iterdir() for entry in Journal(folder / part.name[1:]).read()]
    assert all(unpack(data) is not None for _, data in journal)


def test_a_closed_pipe_is_quiet() -> None:
    """Who reads the first line only is not told of the rest."""
    with start("schema") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("delay_s", [0.1, 0.2, 0.4])
def test_ctrl_c_during_imports_is_one_line(tmp_path: Path, delay_s: float) -> None:
    """From the first moment of the program on; before that the interpreter itself is starting."""
    program = (
        "from sim import cli, interrupts\n"
        "install = interrupts.install\n"
        "interrupts.install = lambda: (install(), print('here', flush=True))\n"
        "cli.main()"
    )
    waiting = [sys.executable, "-c", program]
    arguments = ("run", "slime_group_affinity", "--pairs", "100000", "--out", str(tmp_path))
    with subprocess.Popen(
        [*waiting, *arguments], env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err.strip()) == (130, "interrupted: nothing half-written is left")


def test_ctrl_c_that_python_drops_ends_the_run_all_the_same(tmp_path: Path) -> None:
    """An exception in a destructor is printed and forgotten; the run still ends."""
    code = (
        "import os, signal, sim.replication as r\n"
        "class Trap:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"
        "def client_start(self, start=r.Client.start):\n"
        "    Trap()\n"
        "    start(self)\n"
        "r.Client.start = client_start\n"
        f"from sim.cli import main; main(['run', 'smoke', '--out', {str(tmp_path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "interrupted" in done.stderr


def test_a_terminal_without_signs_gets_plainer_ones(tmp_path: Path) -> None:
    """ASCII has no plus-minus and no arrows."""
    ascii_only = ENVIRONMENT | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX", "COLUMNS": "80"}
    command = [*PROGRAM, "run", "smoke", "--out", str(tmp_path)]
    done = subprocess.run(command, env=ascii_only, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b" +- " in done.stdout
    assert b"samples_per_s ^" in done.stdout


def test_closed_output_is_no_fault() -> None:
    """``>&-`` is a way to ask for nothing."""
    command = " ".join(["exec", *(shlex.quote(word) for word in PROGRAM), "schema", ">&-"])
    done = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_output_folder_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be the current one."""
    code, _, err = call(capsys, "run", "smoke", "--out", "")
    assert code == 2
    assert "the current folder is ." in err


def test_a_run_that_changes_something_keeps_the_charts_of_the_scenario(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each variant has charts of its own, and says where they are."""
    for more in ((), ("--set", "fleet.engines=3"), ("--pairs", "2"), ("--set", "fleet.engines=3")):
        code, _, err = call(capsys, "run", "smoke", "--out", str(tmp_path), *more)
        assert code == 0
        named = [Path(line.removeprefix("wrote ")) for line in err.splitlines() if line.startswith("wrote ")]
        assert len(named) == 2
        assert all(path.is_file() for path in named)
    names = sorted(path.name for path in (tmp_path / "smoke").glob("*.png"))
    assert len(names) == 3
    assert names[-1] == "paired_ratios.png"


def test_the_baseline_alone_compares_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And says so."""
    _, out, _ = call(capsys, "run", "smoke", "--arm", "round_robin", "--json", "--out", str(tmp_path))
    assert "only the baseline round_robin ran: nothing is compared" in json.loads(out)["warnings"]


def test_more_pairs_than_a_scenario_may_say(capsys: pytest.CaptureFixture[str]) -> None:
    """The bound of the file holds on the command line."""
    code, _, err = call(capsys, "run", "smoke", "--pairs", "1000001")
    assert code == 2
    assert "1000001 is not in the range" in err


def test_conform_holds_recordings_against_the_policies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A recording that agrees is named and passes; one whose choice was changed is shown, and the exit code says so."""
    recording = ROOT / "tests/conformance/vectors/sgl_consistent_hashing_keys.json"
    code, out, _ = call(capsys, "conform", str(recording))
    assert (code, recording.name in out) == (0, True)
    changed = json.loads(recording.read_text(encoding="utf-8"))
    changed["requests"][0]["worker"] = changed["workers"][0]
    changed["requests"][0]["worker_index"] = 0
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    code, out, _ = call(capsys, "conform", str(path))
    assert code == 1
    assert "mismatch" in out


def test_defaults_of_commands_are_those_of_what_they_call() -> None:
    """They stand in the commands for the sake of their start."""
    wanted = {**asdict(Lines()), "draws": DRAWS, "resamples": RESAMPLES}
    found = [(each.name, each.default) for command in COMMANDS for each in command.params if each.name in wanted]
    assert {name for name, _ in found} == wanted.keys()
    assert all(default == wanted[name] for name, default in found), found


def test_formats_offered_are_those_that_are_written() -> None:
    """The list stands in the command for the sake of its start."""
    for command in COMMANDS:
        if command.name in ("export", "seal"):
            [option] = [each for each in command.params if each.name == "formats"]
            assert tuple(option.type.choices) == FORMATS
