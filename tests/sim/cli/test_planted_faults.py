"""Faults planted in scenarios that ``windtunnel review`` must catch: the command is run, and its words are held."""

import json
from pathlib import Path

import pytest

from sim.cli import main
from tests.strategies import world

CROWD = {"groups": 12, "samples_per_group": 2}
ALONE = {"arrivals": {"kind": "poisson", "groups_per_s": 0.01}, "groups": 6}
SLIME = Path(__file__).parents[3] / "scenarios" / "slime_group_affinity.yaml"


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch) -> None:
    """The command as it is, but for the PNG and SVG files, which take longer than all the rest."""
    monkeypatch.setattr("sim.charts.save", lambda *_: [])


def planted(tmp_path: Path, arms: dict[str, dict], **parts) -> Path:
    """A small scenario with a fault in its arms."""
    router = parts.pop("router", {"policy": {"kind": "round_robin"}})
    metrics = parts.pop("metrics", ["makespan_s"])
    made = world(**{"engines": 4, "workload": CROWD, **parts})
    del made["seed"]
    made |= {"name": "planted", "arms": arms, "replications": {"pairs": 3}, "metrics": metrics, "router": router}
    path = tmp_path / "planted.yaml"
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


def slime(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The shipped scenario with a few words changed."""
    text = SLIME.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "planted.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def called(capsys, path: Path, *more: str) -> tuple[int, str, str, str]:
    """Exit code, output and errors of the command, and the Markdown that it wrote, if it did."""
    folder = path.parent / "review"
    words = ["review", str(path), "--sensitivity-pairs", "0", "--out", str(path.parent / "out"), "-o", str(folder)]
    with pytest.raises(SystemExit) as ended:
        main((*words, *more))
    out, err = capsys.readouterr()
    made = folder / "review.md"
    return int(ended.value.code or 0), out, err, made.read_text(encoding="utf-8") if made.is_file() else ""


def policy(kind: str, **more) -> dict:
    """An arm of another policy."""
    return {"router": {"policy": {"kind": kind, **more}}}


def test_arms_with_two_differences(tmp_path, capsys) -> None:
    """One line, exit code 1, nothing written: an effect with two causes has no explanation."""
    path = planted(tmp_path, {"one": {}, "two": {**policy("least_load"), "client": {"max_sessions_in_flight": 4}}})
    code, out, err, page = called(capsys, path)
    assert (code, out, page) == (1, "", "")
    assert err == (
        "error: arms one and two differ in 2 fields (client.max_sessions_in_flight, router.policy): "
        "a review explains one change, so that its effect has one cause\n"
    )


def test_equal_policies(tmp_path, capsys) -> None:
    """Two names of one rule decide alike: refused, and said among the warnings."""
    path = planted(tmp_path, {"plain": policy("round_robin"), "gateway": policy("smg.round_robin")})
    code, out, _, page = called(capsys, path)
    assert code == 0
    assert out.startswith(
        "No recommendation, because\n  no decision of the two arms differs: the change does not reach"
    )
    assert "- arms plain and gateway: no decision differs, but for the names of engines\n" in page


def test_an_inert_parameter(tmp_path, capsys) -> None:
    """It is named, and arms that differ in it alone are not compared."""
    tuned = policy("sglang.cache_aware", balance_abs_threshold=999)
    code, out, _, page = called(capsys, planted(tmp_path, {"base": policy("sglang.cache_aware"), "tuned": tuned}))
    assert code == 0
    assert "no decision of the two arms differs" in out
    said = "arm tuned: router.policy.balance_abs_threshold never decided: no decision was imbalanced"
    assert f"- {said}\n" in page


def test_a_dead_signal(tmp_path, capsys) -> None:
    """Engines that wait for single requests always report an empty queue."""
    arms = {"blind": {}, "reads": policy("llmd.endpoint_picker")}
    router = {"policy": {"kind": "round_robin"}, "telemetry": {"period_s": 0.05, "also": []}}
    code, _, _, page = called(capsys, planted(tmp_path, arms, router=router, workload=ALONE))
    assert code == 0
    said = "arm reads: the signal waiting never moves: every report said the same, so it told no engine from another"
    assert f"- {said}\n" in page


def test_twenty_groups_behind_a_p95(tmp_path, capsys) -> None:
    """The 95th percentile of 20 is the slowest but one."""
    arms = {"base": {}, "other": policy("least_load")}
    metrics = ["makespan_s", "group_completion_p95_s"]
    workload = {"groups": 20, "samples_per_group": 2}
    _, _, _, page = called(capsys, planted(tmp_path, arms, metrics=metrics, workload=workload))
    said = "group_completion_p95_s: 20 groups a replication, so this is close to the slowest one"
    assert f"- {said}\n" in page
    enough = planted(tmp_path, arms, metrics=metrics, workload={**workload, "groups": 60})
    assert "close to the slowest one" not in called(capsys, enough)[3]


def test_an_interval_wider_than_the_effect(tmp_path, capsys) -> None:
    """Four pairs of luck say nothing of 5 %; the number of pairs that would is named."""
    code, out, _, _ = called(capsys, slime(tmp_path), "--pairs", "4")
    assert code == 0
    head, reason = out.splitlines()[:2]
    assert head == "No recommendation, because"
    assert reason.startswith("  the interval of samples_per_s is ±")
    assert "and ±2.5% is needed to tell an effect of 5%: simulate about" in reason
    assert "pairs instead of 4 (--pairs)" in reason


def test_far_outside_the_calibration(tmp_path, capsys) -> None:
    """Contexts of 60,000 tokens on a profile that has seen 12,000."""
    _, out, _, _ = called(capsys, slime(tmp_path, ("8192", "60000")), "--pairs", "3", "--interest", "0.99")
    assert out.startswith("No recommendation, because\n  ")
    assert "of the simulated time is outside the calibrated region (most of it by " in out
    assert "measure steps of this kind (windtunnel calibrate), or take a profile that covers them" in out
