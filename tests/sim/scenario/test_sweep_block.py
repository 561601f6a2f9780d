"""Variants: grids, rows, ranges, names, exclusions, and what is refused."""

from pathlib import Path

import pytest

from sim.errors import ScenarioError
from sim.scenario import load_sweep

WORLD = """
name: small-world
fleet: {engines: 2, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 10}}}
workload:
  kind: rollout
  groups: 4
  samples_per_group: 2
  prompt: {group_tokens: 64}
  output_tokens: 16
  max_tokens: 64
router: {policy: {kind: round_robin}}
arms:
  turns: {}
  least: {router: {policy: {kind: least_load}}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small.yaml"


def variants(path: Path, block: str = "", **vary: str) -> list[tuple[str, dict]]:
    path.write_text(WORLD + block)
    found = load_sweep(path, (), [f"{name.replace('__', '.')}={values}" for name, values in vary.items()])
    return [(variant.name, dict(variant.settings)) for variant in found.variants]


def test_a_grid_is_every_combination_in_the_order_of_the_file(path: Path) -> None:
    """The last field varies fastest; names are the shortest that tell fields apart."""
    found = variants(path, "sweep: {vary: {fleet.engines: [2, 3], workload.groups: [4, 8]}}")
    assert [name for name, _ in found] == [
        "engines=2, groups=4",
        "engines=2, groups=8",
        "engines=3, groups=4",
        "engines=3, groups=8",
    ]


def test_rows_of_lists_stand_beside_each_cell_of_the_grid(path: Path) -> None:
    """Two lists of two and a grid of two: four variants."""
    block = "sweep: {vary: {fleet.engines: [2, 3]}, zip: {workload.groups: [4, 8], workload.samples_per_group: [2, 1]}}"
    assert [tuple(settings.values()) for _, settings in variants(path, block)] == [
        (2, 4, 2),
        (2, 8, 1),
        (3, 4, 2),
        (3, 8, 1),
    ]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("{first: 1, last: 8, steps: 4, scale: log}", [1, 2, 4, 8]),
        ("{first: 2, last: 8, steps: 4}", [2, 4, 6, 8]),
        ("{first: 1, last: 3, steps: 9}", [1, 2, 3]),
    ],
)
def test_ranges(path: Path, words: str, values: list[int]) -> None:
    """Even steps or even ratios, both ends included; whole numbers once each."""
    assert [settings["fleet.engines"] for _, settings in variants(path, fleet__engines=words)] == values


def test_ranges_of_fractions(path: Path) -> None:
    """Ends that are no whole numbers."""
    found = variants(path, fleet__noise__step_sigma="{first: 0.1, last: 0.4, steps: 4}")
    assert [settings["fleet.noise.step_sigma"] for _, settings in found] == [0.1, 0.2, 0.3, 0.4]


def test_names_and_exclusions(path: Path) -> None:
    """Named variants follow the grid; a combination that agrees with an exclusion is left out."""
    block = """
sweep:
  vary: {fleet.engines: [2, 3], workload.groups: [4, 8]}
  exclude: [{fleet.engines: 3, workload.groups: 8}]
  cells:
    large: {fleet.engines: 8, workload.groups: 64}
"""
    assert [name for name, _ in variants(path, block)] == [
        "engines=2, groups=4",
        "engines=2, groups=8",
        "engines=3, groups=4",
        "large",
    ]


def test_components_and_arms_can_be_varied(path: Path) -> None:
    """A component by kind, a field of one arm alone; the baseline of both variants is one cell."""
    path.write_text(WORLD)
    made = load_sweep(path, (), ["arms.least.router.policy.tie=first,random"])
    first, second = (variant.scenario for variant in made.variants)
    assert first.arms["turns"].hash == second.arms["turns"].hash
    assert first.arms["least"].hash != second.arms["least"].hash
    found = variants(path, "sweep: {vary: {arms.least.router.policy: [{kind: random}, {kind: power_of_two}]}}")
    assert [name for name, _ in found] == ["policy=random", "policy=power_of_two"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            "sweep: {vary: {fleet.engines: [2, 2]}}",
            r"small.yaml:15: sweep.vary.fleet.engines: the value 2 is named twice",
        ),
        ("sweep: {vary: {fleet.engnes: [2, 3]}}", r"fleet.engnes: unknown key; did you mean 'engines'"),
        ("sweep: {vary: {engines: [2, 3]}}", r"'engines' cannot be varied; paths begin with a block"),
        ("sweep: {vary: {fleet.engines: []}}", "must hold 1 or more"),
        ("sweep: {vary: {fleet.engines: [2]}, exclude: [{fleet.engines: 7}]}", "leaves nothing out"),
        ("sweep: {vary: {fleet.engines: [2]}, exclude: [{fleet.engines: 2}]}", "no variant is left"),
        ("sweep: {zip: {fleet.engines: [2, 3], workload.groups: [4]}}", "must be as long: fleet.engines has 2"),
        ("sweep: {vary: {fleet.engines: [2]}, zip: {fleet.engines: [3]}}", "stands in vary too"),
        ("sweep: {vary: {fleet.engines: 3}}", "must be a list"),
        ("sweep: {vary: {fleet.engines: {first: 0, last: 8, steps: 3, scale: log}}}", "needs ends above 0"),
        ("sweep: {vary: {fleet.engines: {first: 1, last: 8, steps: 3, scle: log}}}", "did you mean 'scale'"),
        ("sweep: {cells: {one: {fleet.engines: 3}, two: {fleet.engines: 3}}}", "'two' is the same world as 'one'"),
        ("sweep: {vry: {fleet.engines: [3]}}", "did you mean 'vary'"),
        ("sweep: {}", r"small.yaml:15: sweep: names nothing that varies"),
        ("sweep: {exclude: [{fleet.engines: 2}]}", "names nothing that varies"),
        ("", "has no sweep block"),
    ],
)
def test_what_is_refused(path: Path, block: str, message: str) -> None:
    """One line with the place."""
    with pytest.raises(ScenarioError, match=message) as caught:
        variants(path, block)
    assert "\n" not in str(caught.value)


def test_an_arm_that_sets_the_field_itself(path: Path) -> None:
    """It would not be varied, which nobody expects."""
    with pytest.raises(
        ScenarioError, match="this arm sets router.policy.kind itself, so varying that does not reach it"
    ):
        variants(path, "sweep: {vary: {router.policy.kind: [random, power_of_two]}}")


@pytest.mark.parametrize("word", ["fleet.engines", "=2,3", "fleet.engines=", "fleet.engines={first: 1}"])
def test_words_that_name_no_variation(path: Path, word: str) -> None:
    """Said of the option that they came with."""
    path.write_text(WORLD)
    with pytest.raises(ScenarioError, match="--vary"):
        load_sweep(path, (), [word])
