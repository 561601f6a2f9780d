"""The scan that finds kinds, users' files, and the nearest name."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sim import registry
from sim.errors import ScenarioError
from sim.registry import COST, POLICY, WORKLOAD

POLICY_FILE = """
from dataclasses import dataclass
from policies._protocol import Policy

@dataclass
class Mine(Policy):
    "Always the first engine."
    limit: int = 3
    def choose(self, request, fleet, now, pick):
        return fleet.available[0], "first", 0
"""


def test_kind_is_the_path_below_the_package() -> None:
    """A module's path names its member; helpers and underscored modules are none."""
    members = registry.scan(POLICY)
    assert members["sglang.consistent_hashing"].__module__ == "policies.sglang.consistent_hashing"
    assert not any(part.startswith("_") for kind in members for part in kind.split("."))
    assert {"form_d", "constant"} <= set(registry.scan(COST))
    assert "rollout" in registry.scan(WORKLOAD)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("round_robbin", "round_robin"),
        ("consistent-hashing", "sglang.consistent_hashing"),
        ("sglang.cacheaware", "sglang.cache_aware"),
        ("zzz", None),
    ],
)
def test_nearest(typed: str, meant: str | None) -> None:
    """A slip of the finger, or a name without its product, finds the name that was meant."""
    assert registry.nearest(typed, ["round_robin", "sglang.consistent_hashing", "sglang.cache_aware"]) == meant


def test_unknown_kind_names_the_nearest() -> None:
    """The error says what was meant."""
    with pytest.raises(ScenarioError, match=r"unknown policy 'round_robbin'; did you mean 'round_robin'\?"):
        registry.find(POLICY, "round_robbin", Path())


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    """A file's class is found by name, or alone by itself; changing the file changes the class."""
    file = tmp_path / "my_policy.py"
    file.write_text(POLICY_FILE)
    named = registry.find(POLICY, "./my_policy.py:Mine", tmp_path)
    assert named is registry.find(POLICY, "./my_policy.py", tmp_path)
    assert named().limit == 3
    file.write_text(POLICY_FILE.replace("3", "4"))
    assert registry.find(POLICY, "./my_policy.py:Mine", tmp_path)().limit == 4


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("x = 1", "./p.py:Mine", "holds no policy"),
        ("class Mine:\n    pass", "./p.py:Mine", "no public class in it has a method 'choose'"),
        (POLICY_FILE, "./p.py:Mien", "did you mean 'Mine'"),
        ("def broken(:", "./p.py:Mine", "cannot be imported: SyntaxError"),
        ("raise SystemExit(3)", "./p.py:Mine", "cannot be imported: SystemExit"),
        ("import nowhere_at_all", "./p.py:Mine", "cannot be imported: ModuleNotFoundError"),
        (None, "./p.py:Mine", "cannot read ./p.py: No such file"),
    ],
)
def test_a_file_without_a_policy(tmp_path: Path, content: str | None, kind: str, message: str) -> None:
    """Whatever a user's file lacks is one error with its name."""
    if content is not None:
        (tmp_path / "p.py").write_text(content)
    with pytest.raises(ScenarioError, match=message):
        registry.find(POLICY, kind, tmp_path)


@dataclass
class Base:
    """A base."""

    size: int = 1
    """How large,
    in one line."""


@dataclass
class Member(Base):
    """First sentence. Second.

    More.
    """

    rate: float = 2.0
    _hidden: int = 0
    later: list[int] = field(default_factory=list, init=False)


def test_parameters_are_the_public_fields_with_their_docs() -> None:
    """Hidden and computed fields are no parameters; inherited ones keep their docstrings."""
    found = registry.parameters(Member)
    assert [(each.name, each.default, each.doc) for each in found] == [
        ("size", 1, "How large, in one line."),
        ("rate", 2.0, ""),
    ]
    assert registry.summary(Member) == "First sentence. Second."
