"""No mutation of a valid scenario ends in anything but success or one readable line."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sim.errors import ScenarioError
from sim.scenario import check, dump, load_scenario, shipped

TEXTS = {name: Path(shipped()[name]).read_text(encoding="utf-8") for name in ("slime_group_affinity", "smoke")}
DATA = {name: YAML(typ="safe", pure=True).load(text) for name, text in TEXTS.items()}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**6, 2**31, 2**63, 10**30, -1, 0.5, -0.0, 1e300, 1e-300]),
    st.sampled_from(["", "x", "null", "a.b", "../x", "./none.py:P", "vllm", "poisson", "é", "rollout", "constant"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(
        st.sampled_from(["kind", "low", "value", "x", "0"]), st.sampled_from([1, "uniform", None, []]), max_size=3
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [inner for key, each in below for inner in [(*path, key), *places(each, (*path, key))]]


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A shipped scenario with one to three nodes deleted, renamed or replaced."""
    data = copy.deepcopy(DATA[draw(st.sampled_from(sorted(DATA)))])
    for _ in range(draw(st.integers(1, 3))):
        known = places(data)
        if not known:
            break
        *above, last = draw(st.sampled_from(known))
        holder = data
        for part in above:
            holder = holder[part]
        what = draw(st.sampled_from(["delete", "rename", "replace", "replace", "copy"]))
        if what == "delete":
            del holder[last]
        elif what == "rename" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["x", 7, "kind", "engine", f"{last}s", "é"]))] = holder.pop(last)
        elif what == "copy":
            holder[last] = copy.deepcopy(draw(st.sampled_from([data.get("name", 1), holder])))
        else:
            holder[last] = draw(ODD)
    return dump(data)


def outcome(name: str | Path, *overrides: str) -> str | None:
    """What is wrong with a scenario, or None; anything but a ScenarioError is a fault of the program."""
    try:
        check(load_scenario(name, overrides))
    except ScenarioError as error:
        return str(error)
    return None


def survives(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "mutant.yaml"
    file.write_bytes(content)
    message = outcome(file)
    assert message is None or (message.strip() and "\n" not in message)


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(text=mutations())
def test_mutated_nodes(tmp_path: Path, text: str) -> None:
    """Deleted, renamed, retyped and replaced nodes."""
    survives(tmp_path, text.encode())


@quick
@given(
    name=st.sampled_from(sorted(TEXTS)), at=st.integers(0, 1400), bits=st.binary(max_size=6), drop=st.integers(0, 40)
)
def test_mutated_text(tmp_path: Path, name: str, at: int, bits: bytes, drop: int) -> None:
    """Truncated text, and bytes put in anywhere."""
    content = TEXTS[name].encode()
    survives(tmp_path, content[:at])
    survives(tmp_path, content[:at] + bits + content[at + drop :])


@quick
@given(
    content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
)
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    """Anything at all."""
    survives(tmp_path, content)


@quick
@given(path=st.sampled_from([".".join(map(str, each)) for each in places(DATA["smoke"])]), value=st.text(max_size=12))
def test_overrides(path: str, value: str) -> None:
    """Any text after --set."""
    message = outcome("smoke", f"{path}={value}")
    assert message is None or "\n" not in message


@pytest.mark.parametrize(
    "text", ["%YAML 1.1\n---\nname: yes\n", "? a\n: b\n", "name: !!binary aGk=\n", "a: !!set {b}\n", "--- >\n x\n"]
)
def test_corners_of_yaml(tmp_path: Path, text: str) -> None:
    """Legal YAML that no scenario is."""
    survives(tmp_path, text.encode())
