"""The words of the project hold: commands exist, examples run, everything is in the reference."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import generate
from sim import campaign, registry
from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.scenario import check, load_scenario, schema

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), flags=re.MULTILINE | re.DOTALL)


def policy_block(page: str) -> str:
    [block] = [block for block in blocks(page, "python") if "(Policy)" in block]
    return block


def scenario_block() -> str:
    [block] = blocks("README.md", "yaml")
    return block


def windtunnel(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("windtunnel")
    return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", [*PAGES, *(f"docs/reference/{name}" for name in generate.pages())])
def test_links_lead_somewhere(page: str) -> None:
    """Relative links of a page name files that exist."""
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text(page)):
        assert "://" in target or (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    """Paths in code font exist, but for the examples' own."""
    examples = {"policies/lowest_index.py"}
    for path in re.findall(r"`((?:sim|policies|tests|docs|scenarios|benchmarks)/[\w./-]*)`", text(page)):
        assert path in examples or (ROOT / path).exists() or (ROOT / f"{path}.py").exists(), path


def test_make_targets_exist() -> None:
    """Every ``make`` command in the words is a target."""
    targets = set(re.findall(r"^(\w+):", text("Makefile"), flags=re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make (\w+)", text(page))) | set(
            re.findall(r"^make (\w+)", text(page), flags=re.MULTILINE)
        )
        assert named <= targets, page


def test_commands_exist(tmp_path: Path) -> None:
    """Every ``windtunnel`` command of the README, and each of its options, is in that command's help."""
    lines = [line.split("#")[0].split() for block in blocks("README.md", "sh") for line in block.splitlines()]
    lines = [line for line in lines if line[:1] == ["windtunnel"]]
    assert lines
    for _, command, *arguments in lines:
        shown = windtunnel(command, "--help", cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        for option in arguments:
            assert not option.startswith("--") or option in shown.stdout, (command, option)


def test_the_scenario_of_the_readme_is_right(tmp_path: Path) -> None:
    """It loads, and opens with its question."""
    (tmp_path / "my_question.yaml").write_text(scenario_block())
    assert scenario_block().startswith("# ")
    assert set(load_scenario(tmp_path / "my_question.yaml").arms) == {"turns", "in_flight", "sticky"}


def _expanded(word: str, folder: Path) -> list[str]:
    """The folders that a pattern stands for, as a shell gives them."""
    found = sorted(str(path.relative_to(folder)) for path in folder.glob(word) if path.is_dir()) if "*" in word else []
    return found or [word]


def _measure(sealed: Path, folder: Path) -> None:
    """Results files of the real runs, from the simulator in the GPUs' place."""
    seal = campaign.verify(sealed)
    [cell] = seal.prediction["cells"]
    campaign.rehearse(seal, {cell: load_scenario("slime_group_affinity")}, folder, campaign.World(seed=1))


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """As written, on the scenario as written, with few pairs."""
    (tmp_path / "my_question.yaml").write_text(scenario_block())
    shutil.copy(ROOT / "tests/conformance/vectors/sgl_manual_ttl.json", tmp_path / "recorded.json")
    for block in blocks("README.md", "sh"):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["windtunnel"]:
                if words[1] == "score":
                    _measure(tmp_path / "sealed", tmp_path / "measured")
                few = ["--pairs", "4"] if words[1] == "run" else []
                words = [path for word in words for path in _expanded(word, tmp_path)]
                done = windtunnel(*words[1:], *few, cwd=tmp_path)
                assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_policies_of_the_pages_run(page: str, tmp_path: Path) -> None:
    """The file is found by path and runs against round robin on a small fleet."""
    (tmp_path / "mine.py").write_text(policy_block(page))
    name = re.findall(r"class (\w+)\(Policy\)", policy_block(page))[0]
    fewer = scenario_block().replace("groups: 8", "groups: 2").replace("turns: 6", "turns: 2")
    fewer = fewer.replace("kind: sticky_least_loaded", f"kind: ./mine.py:{name}").replace("pairs: 10", "pairs: 2")
    (tmp_path / "mine.yaml").write_text(fewer)
    done = windtunnel("run", "mine.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"sticky"' in done.stdout


def test_the_python_example_runs(tmp_path: Path) -> None:
    """Loading and running from Python, as written."""
    [code] = [block for block in blocks("README.md", "python") if "(Policy)" not in block]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_reference_is_current() -> None:
    """The pages are what the code says now: run ``make docs``."""
    for name, page in generate.pages().items():
        assert text(f"docs/reference/{name}") == page, f"docs/reference/{name} is stale: run make docs"


@pytest.mark.parametrize("family", [registry.POLICY, registry.WORKLOAD, registry.COST], ids=lambda f: f.noun)
def test_every_member_is_documented(family: registry.Family) -> None:
    """A class docstring, and one for each parameter but the ``kind`` of an alternative."""
    for kind, cls in registry.scan(family).items():
        assert cls.__doc__, kind
        assert not cls.__doc__.startswith(f"{cls.__name__}("), f"{kind} has no docstring of its own"
        for parameter in registry.parameters(cls):
            assert parameter.doc, f"{kind}.{parameter.name}"


def test_every_key_that_is_accepted_is_in_the_reference() -> None:
    """Whatever key the schema has stands in a table: a user need not read the source to find one."""
    pages = "".join(generate.pages().values())
    parts = {name: part for name, part in schema()["$defs"].items() if not name.startswith("Part_of_")}
    keys = {(name, key) for name, part in parts.items() for key in part.get("properties", {})}
    assert len(keys) > 300
    missing = sorted((name, key) for name, key in keys if f"\n| `{key}` |" not in pages)
    assert missing == []


def test_every_policy_names_its_source() -> None:
    """Where the rule comes from, and what goes wrong with it."""
    for kind, cls in registry.scan(registry.POLICY).items():
        assert "Source:" in str(cls.__doc__), kind
        assert "Known pathologies:" in str(cls.__doc__), kind


def test_every_metric_is_defined() -> None:
    """Name, unit and a definition that ends in a full stop."""
    for name, metric in METRICS.items():
        assert name == metric.name
        assert metric.unit, name
        assert metric.definition.endswith("."), name


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_scenario_opens_with_its_question(path: Path) -> None:
    """The first line is a comment, and a question mark comes before the first key."""
    head = path.read_text(encoding="utf-8").split("\nname:")[0]
    assert head.startswith("# ")
    assert "?" in head


def test_versions_agree() -> None:
    """The changelog, the project and the package name one version."""
    [version] = re.findall(r'^version = "([^"]+)"', text("pyproject.toml"), flags=re.MULTILINE)
    assert f"\n## {version}\n" in text("CHANGELOG.md")
    code = "import sim; print(sim.__version__)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == version


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_comes_out(tmp_path: Path) -> None:
    """The README shows the table that its first command prints."""
    [shown] = blocks("README.md", "text")
    printed = windtunnel("run", "slime_group_affinity", "--out", str(tmp_path), cwd=tmp_path).stdout
    assert [line.rstrip() for line in printed.splitlines()][: len(shown.splitlines())] == shown.splitlines()


def test_what_the_readme_asks_of_a_profile_of_an_unknown_device_is_enough(tmp_path: Path) -> None:
    """Each figure that it names is needed, and no other one."""
    own = (ROOT / "sim/cost/profiles/a100-80gb_qwen3-8b_tp1.yaml").read_text().replace("a100-80gb", "l40s")
    more = {"slowdown": 1.1, "host0_ms": 1.5, "host1_ms": 0, "device_gib": 44.5}
    overrides = ("fleet.engine.device=l40s", "fleet.engine.cost={kind: form_d, profile: ./my_gpu.yaml}")
    (tmp_path / "smoke.yaml").write_text(text("scenarios/smoke.yaml"))
    for left_out in (None, *more):
        lines = [f"{key}: {figure}\n" for key, figure in more.items() if key != left_out]
        (tmp_path / "my_gpu.yaml").write_text(own + "".join(lines))
        if left_out is None:
            assert check(load_scenario(tmp_path / "smoke.yaml", overrides)).warnings == []
        else:
            with pytest.raises(ScenarioError, match=left_out):
                check(load_scenario(tmp_path / "smoke.yaml", overrides))
