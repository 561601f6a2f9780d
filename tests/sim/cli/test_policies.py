"""``windtunnel policies``: what a reader is told of each policy."""

import importlib
from pathlib import Path

import pytest

from docs import generate
from policies._products import PRODUCTS, said_of
from sim import registry
from sim.cli._policies import describe, listing

MEMBERS = registry.scan(registry.POLICY)
ROOT = Path(__file__).parents[3]


def test_one_line_each():
    """The listing names every kind once, on a line of one sentence."""
    lines = listing().splitlines()
    assert [line.split()[0] for line in lines] == list(MEMBERS)
    assert max(len(line) for line in lines) < 160
    assert not [line for line in lines if "Cost O(" in line]


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_page_says_everything(kind):
    """Rule, cost, parameters with their docstrings, source, pathologies, what it was checked against."""
    page = " ".join(describe(kind).split())
    for word in ("Cost ", "Source:", "Known pathologies:", "Checked against:", "Routing key:", "Reads the prompt:"):
        assert word in page
    for each in registry.parameters(MEMBERS[kind]):
        assert f" {each.name}: " in page
        assert each.doc
        assert " ".join(each.doc.split()) in page
    for line in said_of(kind):
        assert line in page
    assert importlib.import_module(f"policies.{kind}").__doc__


def test_versions_are_told_on_the_page():
    """What issue 1469 of slime asks: which version takes the policy, and that a command line refuses it."""
    page = describe("sglang.consistent_hashing")
    assert "sglang-router consistent_hashing: in 0.3.1, 0.3.2, whose command line refuses it" in page
    assert "eviction_interval_secs is 120 in 0.3.0" in describe("sglang.cache_aware")
    assert "assignment_mode from 0.3.2 on" in describe("sglang.manual")


def test_docs_policies_is_the_reference():
    """docs/policies.md is the generated page, at the place where a reader of docs/ looks first."""
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    assert page == generate.pages()["policies.md"]
    for kind in MEMBERS:
        assert f"\n## `{kind}`\n" in page
    for product, each in PRODUCTS.items():
        for version in each.versions:
            assert f"| {product} | {version} | " in page
