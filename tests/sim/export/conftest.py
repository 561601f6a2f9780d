"""Exports that several tests read."""

import json

import pytest

from sim.export import Plan, export
from sim.scenario import load_scenario


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with three pairs of a small rollout, blocked by placement; nobody writes into it."""
    folder = tmp_path_factory.mktemp("exported")
    over = ("workload.groups=3", "workload.samples_per_group=2", "client.blocking=placement")
    export(load_scenario("slime_group_affinity", over), folder, Plan(("windtunnel", "mooncake"), 3, 512))
    return folder


@pytest.fixture
def manifest(exported):
    """What that folder says of itself."""
    return json.loads((exported / "manifest.json").read_text())
