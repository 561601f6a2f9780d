"""Profiles that users write: found, read, or refused with the file, the line and the key."""

import re
from pathlib import Path

import pytest

from sim.cost import _profiles
from sim.cost.form_d import FormD
from sim.errors import ScenarioError

PLACE = {"device": "a100-80gb", "model": "qwen3-8b", "tp": 1}
GOOD = (_profiles.FOLDER / "a100-80gb_qwen3-8b_tp1.yaml").read_text()


def load(folder: Path, text: str) -> _profiles.Profile:
    (folder / "mine.yaml").write_text(text)
    return FormD(profile="mine.yaml").load(base=folder, **PLACE)  # type: ignore[arg-type]


def test_a_users_file_counts_like_a_shipped_one(tmp_path: Path) -> None:
    """A copy of a shipped profile beside the scenario costs the same, and is among the files that a hash covers."""
    mine = load(tmp_path, GOOD)
    shipped = FormD().load(base=tmp_path, **PLACE)  # type: ignore[arg-type]
    assert (mine.times, mine.token_ms, mine.weight_gib_per_gpu) == (
        shipped.times,
        shipped.token_ms,
        shipped.weight_gib_per_gpu,
    )
    assert FormD(profile="mine.yaml").files(base=tmp_path, **PLACE) == [tmp_path / "mine.yaml"]  # type: ignore[arg-type]


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    """The file as it stands is what counts."""
    before = load(tmp_path, GOOD)
    (tmp_path / "mine.yaml").unlink()
    after = load(tmp_path, GOOD.replace("t0_ms: 11.326", "t0_ms: 12.5"))
    assert (before.times["t0_ms"], after.times["t0_ms"]) == (11.326, 12.5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("t0_ms: 11.326", "t0_ms: -1", r"mine\.yaml:\d+: t0_ms must be a number, zero or more, not -1"),
        ("t0_ms: 11.326", "t0_ms: fast", r"mine\.yaml:\d+: t0_ms must be a number"),
        ("t0_ms: 11.326", "t0_ms: .nan", r"mine\.yaml:\d+: t0_ms must be a number"),
        ("t0_ms: 11.326", "t_zero: 11.3", r"mine\.yaml:\d+: unknown key 't_zero'"),
        ("  t0_ms: 11.326\n", "", r"mine\.yaml: key 't0_ms' is missing"),
        ("licence", "license", r"unknown key 'license'; did you mean 'licence'\?"),
        ("    0: 0.0\n", "", "must start at 0"),
        ("    64: ", "    many: ", r"mine\.yaml:\d+: token_ms.many: a knot is a number of tokens"),
        ("    64: 0.052775", "    64: -0.1", r"mine\.yaml:\d+: token_ms.64 must be a number"),
        ("prefill: [3.4, 6.5]", "prefill: 3.4", "error_percent is a mapping"),
        ("prefill: [3.4, 6.5]", "prefill: [3.4, much]", "must be a number, zero or more, not 'much'"),
        ("status: measured", "status: guessed", "status is measured or estimated, not 'guessed'"),
        ("tp: 1", "tp: 0", "tp is a number of GPUs"),
        ("device: a100-80gb\n", "", "key 'device' is missing"),
        ("coefficients:", "coefficients: [", "not readable as YAML"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """One line that names the file and the key."""
    assert old in GOOD
    with pytest.raises(ScenarioError, match=message) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("coefficients", "5"), ("token_ms", "0.05"), ("token_ms", "{}")])
def test_parts_must_be_mappings(tmp_path: Path, key: str, value: str) -> None:
    """A number, or nothing, where a mapping of keys belongs."""
    text = re.sub(rf"^( *){key}:.*\n(\1 .*\n)+", rf"\1{key}: {value}\n", GOOD, flags=re.MULTILINE)
    with pytest.raises(ScenarioError, match=rf"mine\.yaml:\d+: {key} is a mapping"):
        load(tmp_path, text)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A folder in place of the file, and bytes that are no text."""
    with pytest.raises(ScenarioError, match="nothing"):
        _profiles.load(tmp_path / "nothing.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ScenarioError, match="not readable as YAML"):
        _profiles.load(tmp_path / "bytes.yaml")


def test_the_line_is_the_line_of_the_key(tmp_path: Path) -> None:
    """Counted from 1, as editors do."""
    line = GOOD[: GOOD.index("t0_ms: 11.326")].count("\n") + 1
    with pytest.raises(ScenarioError, match=rf"mine\.yaml:{line}: t0_ms"):
        load(tmp_path, GOOD.replace("t0_ms: 11.326", "t0_ms: -1"))


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    """Lists, words and nothing are no profile."""
    with pytest.raises(ScenarioError, match="a profile is a mapping"):
        load(tmp_path, text)


def test_unknown_names_get_the_nearest_known() -> None:
    """A profile that is not shipped, by name or by model, and a file that is not there."""
    with pytest.raises(ScenarioError, match="did you mean 'a100-80gb_qwen3-8b_tp1'"):
        FormD(profile="a100-80gb_qwen3-8b_tp").load(base=Path(), **PLACE)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="no shipped cost profile for qwen3-8b on a100-80gb has tp 3"):
        FormD().load(base=Path(), device="a100-80gb", model="qwen3-8b", tp=3)
    with pytest.raises(ScenarioError, match=r"nowhere\.yaml does not exist"):
        FormD(profile="nowhere.yaml").load(base=Path(), **PLACE)  # type: ignore[arg-type]


def test_inline_coefficients_are_closed_too() -> None:
    """Unknown and missing keys of inline coefficients are refused; keys that went through JSON are read."""
    good = {"t0_ms": 1.0, "token_ms": {"0": 0.1}} | dict.fromkeys(_profiles.TIMES[1:], 0.0)
    assert _profiles.inline(good).token_ms == ((0, 0.1),)
    with pytest.raises(ScenarioError, match=r"cost.coefficients: unknown key 't1_ms'; did you mean 't0_ms'"):
        _profiles.inline({**good, "t1_ms": 1.0})
    with pytest.raises(ScenarioError, match=r"cost.coefficients: key 'token_ms' is missing"):
        _profiles.inline({k: v for k, v in good.items() if k != "token_ms"})
