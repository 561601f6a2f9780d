"""What ``compare`` and ``power`` print, and their exit codes."""

import json
import shutil
from pathlib import Path

import pytest

from sim import load_scenario, run
from sim.cli import main
from sim.report.sides import of_two_arms


@pytest.fixture(scope="module")
def arms(tmp_path_factory) -> tuple[str, str]:
    result = run(load_scenario("slime_group_affinity"), pairs=24, out=tmp_path_factory.mktemp("results"))
    return str(result.arms["sample"].folder), str(result.arms["group"].folder)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_compare_prints_what_the_pairs_say(capsys, arms) -> None:
    """Ratio with interval, verdict, permutation p and the correlation of the arms, for each metric."""
    code, out, err = call(capsys, "compare", *arms)
    assert (code, err) == (0, "")
    assert "group over sample, 24 pairs" in out
    for label in ("ratio", "exact classes", "verdict", "permutation p", "pairing", "with imbalance"):
        assert f"\n  {label} " in out
    assert out.count("higher is better") == 1


def test_compare_as_a_document(capsys, arms) -> None:
    """The same numbers for a program; other lines of harm and interest give other verdicts."""
    code, out, _ = call(capsys, "compare", *arms, "--metric", "makespan_s", "--json")
    [finding] = json.loads(out)["findings"]
    assert (code, finding["metric"], finding["pairs"]) == (0, "makespan_s", 24)
    assert finding["lo"] < finding["ratio"] < finding["hi"]
    texts = [
        json.loads(call(capsys, "compare", *arms, "--metric", "makespan_s", "--json", *more)[1])["findings"][0][
            "verdict"
        ]
        for more in ((), ("--interest", "0.5"), ("--equal", "0.5"))
    ]
    assert len(set(texts)) == 3


@pytest.mark.parametrize(
    ("more", "says"),
    [(("--metric", "samples_per_sec"), "unknown metric 'samples_per_sec'"), (("--metric", "x"), "unknown metric")],
)
def test_wrong_names_are_one_line_and_1(capsys, arms, more: tuple[str, ...], says: str) -> None:
    """Nothing on stdout."""
    code, out, err = call(capsys, "compare", *arms, *more)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert says in err
    assert call(capsys, "power", *arms, *more)[0] == 1


def test_nothing_in_common(capsys, tmp_path) -> None:
    """Two files with one metric each."""
    for name in ("samples_per_s", "makespan_s"):
        (tmp_path / f"{name}.csv").write_text(f"pair,{name}\n0,1\n1,2\n")
    code, _, err = call(capsys, "compare", *(str(tmp_path / f"{name}.csv") for name in ("samples_per_s", "makespan_s")))
    assert code == 1
    assert "have no metric in common" in err


def test_power_prints_pairs_with_and_without_noise_and_blocking(capsys, arms) -> None:
    """From the folder of both arms, or from the two; the noise of the real system stands in the text."""
    code, out, err = call(capsys, "power", str(Path(arms[0]).parent))
    assert (code, err) == (0, "")
    assert "with 1.8% noise in each real" in out
    assert "pairs for a power of 80%" in out
    assert "probability to show +5.0%" in out
    assert "rough; store 100 or more" in out
    document = json.loads(call(capsys, "power", *arms, "--json", "--noise", "0.1", "--effect", "0.04")[1])
    assert (document["spread"]["run_noise"], document["effect"]) == (0.1, 0.04)


def test_a_folder_of_both_arms_says_which_is_the_baseline(capsys, arms, tmp_path) -> None:
    """Not the names of the folders, which are digests: in either order, for both commands, the scenario's own."""
    for first, second in (("a", "b"), ("b", "a")):
        folder = tmp_path / first
        shutil.copytree(arms[0], folder / first)
        shutil.copytree(arms[1], folder / second)
        (folder / "paired_ratios.png").touch()
        assert "group over sample, 24 pairs" in call(capsys, "compare", str(folder), "--metric", "makespan_s")[1]
        assert "samples_per_s: group over sample, 24 " in call(capsys, "power", str(folder))[1]
    for name in "ab":
        path = folder / name / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "baseline": "gone"}))
    code, out, err = call(capsys, "power", str(folder))
    assert (code, out) == (1, "")
    assert "does not say which of its two results is the baseline" in err


def test_another_baseline_is_told_to_what_is_stored(tmp_path) -> None:
    """The same cells under a scenario with another baseline: nothing is run again, the order turns."""
    for name in ("round_robin", "sticky_least_loaded"):
        run(load_scenario("smoke", [f"baseline={name}"]), pairs=2, out=tmp_path)
        assert of_two_arms([tmp_path / "smoke"])[0].name == name


def test_power_needs_two_arms(capsys, arms, tmp_path) -> None:
    """One result alone, three, a folder of one or of none: each says what is missing, and names what is there."""
    both = Path(arms[0]).parent
    for path in map(Path, arms):
        shutil.copytree(path, tmp_path / "three" / path.name)
    shutil.copytree(arms[0], tmp_path / "three" / "again")
    shutil.copytree(arms[0], tmp_path / "one" / "alone")
    (tmp_path / "none").mkdir()
    for asked, said in (
        ([arms[0]], f"{arms[0]} is the result of one arm: name that of the other one too, baseline first"),
        ([*arms, arms[0]], "name two results, baseline first, not 3"),
        ([both / "nowhere"], "no such result"),
        (
            [tmp_path / "one"],
            "holds 1 results, not those of two arms: name two of them, baseline first: alone (sample, 24 pairs)",
        ),
        ([tmp_path / "none"], "holds 0 results, not those of two arms: run the scenario"),
        ([tmp_path / "three"], "again (sample, 24 pairs)"),
    ):
        code, out, err = call(capsys, "power", *map(str, asked))
        assert (code, out) == (1, "")
        assert said in err
    assert call(capsys, "power")[0] == 2
    assert call(capsys, "power", *arms, "--power", "1")[0] == 2


def test_pairs_that_do_not_vary(capsys, tmp_path) -> None:
    """A plan from nothing but noise says so; equal columns compare as equal."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("pair,samples_per_s\n0,1\n1,2\n2,3\n")
    files = [str(tmp_path / f"{name}.csv") for name in ("a", "b")]
    assert "rests on the noise alone" in call(capsys, "power", *files)[1]
    assert "1 exactly, in all 3 pairs" in call(capsys, "compare", *files)[1]
    (tmp_path / "b.csv").write_text("pair,samples_per_s\n0,1.02\n1,1.96\n2,3.03\n")
    assert "harm not excluded" in call(capsys, "compare", *files)[1]
    assert "harm not excluded" not in call(capsys, "compare", *files, "--harm", "0.2")[1]
    (tmp_path / "b.csv").write_text("pair,samples_per_s\n0,0\n1,2\n2,3\n")
    assert "none: zero in 1 pair" in call(capsys, "compare", *files)[1]


def test_a_steady_load_loses_its_start_up(capsys, tmp_path) -> None:
    """Poisson arrivals: what is cut stands in text and document; a rollout says that nothing is."""
    overrides = ["workload.arrivals={kind: poisson, groups_per_s: 0.5}", "workload.groups=60"]
    result = run(load_scenario("slime_group_affinity", overrides), pairs=3, out=tmp_path)
    folders = [str(result.arms[name].folder) for name in ("sample", "group")]
    _, out, _ = call(capsys, "compare", *folders)
    assert "of 240 requests are start-up (MSER-5, alike in both arms)" in out
    assert "mean end-to-end time after it: ratio " in out
    after = json.loads(call(capsys, "compare", *folders, "--json")[1])["steady"]
    assert after["requests"] == 240
    assert after["lo"] <= after["ratio"] <= after["hi"]
    one = run(load_scenario("slime_group_affinity", overrides), pairs=1, out=tmp_path / "one")
    assert "batch means" in call(capsys, "compare", *(str(one.arms[name].folder) for name in ("sample", "group")))[1]


def test_terminating_runs_lose_nothing(capsys, arms) -> None:
    """Said by ``compare`` and by ``run``."""
    assert "terminating runs: nothing is cut" in call(capsys, "compare", *arms)[1]
    assert json.loads(call(capsys, "compare", *arms, "--json")[1])["steady"] is None
