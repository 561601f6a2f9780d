"""``windtunnel calibrate`` and ``windtunnel profiles``: what they print, write and refuse."""

from pathlib import Path

import pytest

from sim.calibration.steps import write
from sim.cli import main
from sim.cost import _profiles
from tests.sim.calibration.shipped import DATA, RTX, SCENARIO, some_steps


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_fit_is_written_with_its_residuals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A profile that form_d reads, a plot beside it, what was found on stdout."""
    write(tmp_path / "steps.csv", some_steps(150, noise=0.03))
    out = tmp_path / "mine.yaml"
    code, text, err = call(
        capsys, "calibrate", str(tmp_path / "steps.csv"), "-o", str(out), "--host0-ms", "1.5", "--resamples", "5"
    )
    assert code == 0
    assert "gpu model tp 1: 150 steps, 150 configurations" in text
    assert "error of mixed steps left out: mean" in text
    assert err.count("wrote ") == 3
    assert (tmp_path / "mine_residuals.png").stat().st_size > 10_000
    profile = _profiles.load(out)
    assert (profile.slowdown, profile.host0_ms, profile.host1_ms) == (1.0, 1.5, 0.0)
    assert len(profile.resamples) == 5
    code, text, _ = call(capsys, "profiles", str(out))
    assert code == 0
    assert "error of decode steps: mean" in text


def test_a_knot_that_went_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One line, and no slope in the profile that is known to worse than its own size."""
    write(tmp_path / "steps.csv", some_steps(40, noise=0.05))
    out = tmp_path / "mine.yaml"
    code, text, _ = call(capsys, "calibrate", str(tmp_path / "steps.csv"), "-o", str(out), "--resamples", "0")
    assert code == 0
    lines = [line for line in text.splitlines() if line.startswith("no knot of token_ms at 512: a slope beside it")]
    assert len(lines) == 1
    assert 512 not in dict(_profiles.load(out).token_ms)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "error: nowhere.csv: cannot be read"),
        (("steps.csv", "--fix", "decode_seq_ms"), "error: --fix takes TERM=VALUE"),
        (("steps.csv", "--fix", "speed=1"), "error: speed cannot be fixed"),
        (("steps.csv", "--device", "tpu"), "error: steps.csv: no steps chosen"),
        (("decodes.csv",), "error: prefill_pair_ms cannot be identified"),
        (("--check", "smoke"), "error: nothing to compare with"),
        (("--check", "nowhere"), "error: no scenario 'nowhere'"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """Exit code 1, one line, nothing written."""
    monkeypatch.chdir(tmp_path)
    steps = some_steps(60)
    write(Path("steps.csv"), steps)
    write(Path("decodes.csv"), steps.select(steps.chunks == 0))
    code, out, err = call(capsys, "calibrate", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"steps.csv", "decodes.csv"}


@pytest.mark.parametrize("arguments", [(), ("steps.csv", "--check", "smoke"), ("--published", ".", "--check", "smoke")])
def test_it_fits_or_checks(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """One of the three."""
    code, _, err = call(capsys, "calibrate", *arguments)
    assert code == 2
    assert "Give MEASUREMENTS to fit, --check RUN or --published FOLDER." in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steps.csv", "--set", "seed=1"), "--set changes nothing with MEASUREMENTS."),
        (("--check", "smoke", "--slowdown", "1.0"), "--slowdown changes nothing with --check."),
        (("--published", ".", "-o", "x.yaml"), "-o changes nothing with --published."),
        (("steps.csv", "--section", "memory"), "--section changes nothing with MEASUREMENTS."),
    ],
)
def test_options_of_another_use_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """None is taken in silence."""
    code, out, err = call(capsys, "calibrate", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_published_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that were asked for, in their order; an unknown one is refused with the nearest name."""
    code, out, _ = call(capsys, "calibrate", "--published", str(DATA), "--section", "memory", "--section", "static")
    assert code == 0
    titles = [line.split(":")[0] for line in out.splitlines() if line and not line.startswith("|")]
    assert titles == ["memory", "static"]
    assert "| yi-34b, budget 2,048 | h100, 2 | 332,688 |" in out
    code, out, err = call(capsys, "calibrate", "--published", str(DATA), "--section", "memori")
    assert (code, out) == (1, "")
    assert err == "error: --section memori: no such table; did you mean 'memory'?\n"
    code, out, err = call(capsys, "calibrate", "--published", "nowhere", "--section", "static")
    assert (code, out.count("\n")) == (1, 4)
    assert err.startswith("error: nowhere holds no fit_errors_static_batch.csv")


@pytest.mark.parametrize("run", [SCENARIO, SCENARIO.parent])
def test_a_check_prints_the_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path, run: Path) -> None:
    """Makespan, TTFT, TPOT, end to end; a folder with one scenario is as good as the scenario."""
    if run.is_dir():
        text = SCENARIO.read_text().replace("../traces", str(SCENARIO.parents[1] / "traces"))
        (tmp_path / "scenario.yaml").write_text(text)
        run = tmp_path
    code, out, _ = call(capsys, "calibrate", "--check", str(run))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["makespan", "ttft", "tpot", "e2e"]
    assert "300 requests" in out


def test_profiles_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Every shipped one with status, errors and region; one in full; the nearest name."""
    code, out, _ = call(capsys, "profiles")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()[1:-1]} == set(_profiles.names())
    assert "valid for" in out
    code, out, _ = call(capsys, "profiles", RTX)
    assert code == 0
    assert "LLMServingSim" in out
    assert "resamples for uncertainty bootstrap: 20" in out
    code, _, err = call(capsys, "profiles", "h100-80gb_qwen3-8")
    assert code == 1
    assert "did you mean 'h100-80gb_qwen3-8b_tp1'" in err


def test_a_log_becomes_measurements(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Steps that ``calibrate`` reads; what they lack it names."""
    line = (
        "Decode batch, #running-req: {n}, #token: {c}, cuda graph: True, gen throughput (token/s): {r}, #queue-req: 0\n"
    )
    log, out = tmp_path / "engine.log", tmp_path / "steps.csv"
    log.write_text("".join(line.format(n=n, c=n * 100 * k, r=n * 80.0) for n in range(1, 20) for k in (1, 2, 3)))
    code, text, _ = call(capsys, "steps", str(log), "-o", str(out), "--device", "gpu", "--model", "m")
    assert (code, text) == (0, "56 decode steps of 1 to 19 sequences\n")
    code, _, err = call(capsys, "calibrate", str(out))
    assert code == 1
    assert "prefill_pair_ms cannot be identified: no step has pairs" in err
