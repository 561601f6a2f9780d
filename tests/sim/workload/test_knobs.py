"""Every field of an agent workload, of an arrival process and of a distribution moves what is generated."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.rng import Streams
from sim.workload._arrivals import Arrivals, Diurnal, Gamma, Ladder, OnOff, Poisson, Recorded, Rung
from sim.workload._closed import Closed
from sim.workload._context import Context
from sim.workload._distributions import Binomial, Empirical, Geometric
from sim.workload._lengths import Lognormal, Mixture, Share, values
from sim.workload._sub_agents import SubAgents
from sim.workload.agents import Agents

LN = Lognormal("lognormal", 20, 0.5)
BASE = Agents(
    sessions=12,
    prompt=Context(LN, tenant_tokens=30, tenants=3, system_tokens=5),
    output_tokens=LN,
    max_tokens=40,
    turns=Lognormal("lognormal", 3, 0.5),
    calls_per_turn=2,
    observation_tokens=LN,
    tool_delay_s=1.0,
    human_delay_s=9.0,
    sub_agents=SubAgents(0.5, turns=2, task_tokens=3),
)
AGENTS = {
    "sessions": 13,
    "prompt": replace(BASE.prompt, task_tokens=7),
    "output_tokens": 9,
    "max_tokens": 20,
    "turns": 2,
    "calls_per_turn": 3,
    "observation_tokens": 8,
    "user_tokens": 6,
    "tool_delay_s": 2.0,
    "human_delay_s": 8.0,
    "growth_exponent": 0.57,
    "observation_turns_correlation": 0.5,
    "context_limit_tokens": 150,
    "arrivals": Poisson("poisson", 1.0),
    "sub_agents": None,
    "mode": "replay",
    "encoding": "text",
    "chars_per_token": 3.0,
}
PROMPT = {"task_tokens": 7, "tenant_tokens": 31, "tenants": 4, "tenant_exponent": 3.0, "system_tokens": 0}
SUBS = {"turn_share": 0.9, "turns": 1, "count": 2, "task_tokens": 4, "context": "fresh", "waits": False, "delay_s": 1.0}


def seen(spec):
    """All that a client sees of a workload."""
    made = spec.generate(Streams(3), Path())
    sessions = [made.session(index) for index in range(made.sessions)]
    owner = None if made.key_owner is None else made.key_owner.tolist()
    travel = (made.encoding, made.chars_per_token)
    return sessions, made.children, owner, made.arrival_s.tolist(), made.follows, made.order.tolist(), travel


def names(cls):
    return {field.name for field in dataclasses.fields(cls)} - {"kind"}


def test_every_field_is_in_the_tables():
    """A new field needs a line here."""
    assert set(AGENTS) == names(Agents)
    assert set(PROMPT) == names(Context)
    assert {*SUBS, "keys"} == names(SubAgents)


@pytest.mark.parametrize("name", AGENTS)
def test_fields_of_agents(name):
    """Changed, the workload is another."""
    assert seen(replace(BASE, **{name: AGENTS[name]})) != seen(BASE)


@pytest.mark.parametrize("name", PROMPT)
def test_fields_of_the_prompt(name):
    """The same below ``prompt``."""
    assert seen(replace(BASE, prompt=replace(BASE.prompt, **{name: PROMPT[name]}))) != seen(BASE)


@pytest.mark.parametrize(("name", "value"), [*SUBS.items(), ("keys", "own")])
def test_fields_of_sub_agents(name, value):
    """The same below ``sub_agents``."""
    assert BASE.sub_agents is not None
    assert seen(replace(BASE, sub_agents=replace(BASE.sub_agents, **{name: value}))) != seen(BASE)


PROCESSES: list[tuple[Arrivals | Closed, dict[str, object]]] = [
    (Poisson("poisson", 1.0), {"groups_per_s": 2.0}),
    (Gamma("gamma", 1.0, 2.0), {"groups_per_s": 2.0, "cv": 1.0}),
    (
        OnOff("on_off", 1.0, 2.0, 3.0),
        {"groups_per_s": 2.0, "on_s": 1.0, "off_s": 1.0, "off_groups_per_s": 0.5, "periods": "exponential"},
    ),
    (
        Diurnal("diurnal", 1.0, 0.5, period_s=10.0),
        {"groups_per_s": 2.0, "swing": 0.9, "period_s": 5.0, "start_s": 2.0},
    ),
    (Ladder("ladder", (Rung(1.0, 3.0), Rung(5.0, 3.0))), {"rungs": (Rung(1.0, 2.0), Rung(5.0, 3.0))}),
    (Closed("closed", 3), {"users": 4, "think_s": 1.0, "ramp_s": 2.0}),
]


@pytest.mark.parametrize(
    ("process", "name", "value"),
    [(process, name, value) for process, changes in PROCESSES for name, value in changes.items()],
)
def test_fields_of_arrivals(process, name, value):
    """Every field of every process that draws."""
    changed = replace(process, **{name: value})
    assert seen(replace(BASE, arrivals=changed)) != seen(replace(BASE, arrivals=process))


def test_every_field_of_arrivals_is_in_the_table():
    """A new one needs a line above."""
    for process, changes in PROCESSES:
        assert set(changes) == names(type(process))


def test_fields_of_recordings(tmp_path):
    """File, column, unit and rate of recorded arrivals; scale of recorded lengths."""
    (tmp_path / "a.csv").write_text("x,y\n1,1\n2,5\n3,9\n")
    (tmp_path / "b.csv").write_text("x,y\n1,1\n3,5\n9,9\n")
    base = Recorded("recorded", str(tmp_path / "a.csv"), "x")
    changes = {"file": str(tmp_path / "b.csv"), "column": "y", "unit": "ms", "rate_scale": 2.0}
    assert set(changes) == names(Recorded)
    generator = np.random.Generator(np.random.PCG64(1))
    for name, value in changes.items():
        assert replace(base, **{name: value}).times(generator, 3).tolist() != base.times(generator, 3).tolist()


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        (Binomial("binomial", 9, 0.5), {"trials": 12, "chance": 0.2, "least": 1}),
        (Geometric("geometric", 4.0), {"mean": 8.0, "least": 0}),
        (Lognormal("lognormal", 30, 0.5), {"median": 40, "sigma": 0.9, "cap": 30, "floor": 30}),
        (Mixture("mixture", (Share(1, 5.0), Share(1, LN))), {"parts": (Share(9, 5.0), Share(1, LN))}),
    ],
)
def test_fields_of_distributions(law, changes):
    """Every field of every law."""
    drawn = values(law, Streams(1).column("x"), 50).tolist()
    assert set(changes) == names(type(law))
    for name, value in changes.items():
        assert values(replace(law, **{name: value}), Streams(1).column("x"), 50).tolist() != drawn


def test_fields_of_empirical_laws(tmp_path):
    """File, column and scale."""
    (tmp_path / "a.csv").write_text("x,y\n1,4\n2,5\n")
    (tmp_path / "b.csv").write_text("x,y\n7,4\n8,5\n")
    law = Empirical("empirical", str(tmp_path / "a.csv"), "x")
    drawn = values(law, Streams(1).column("x"), 9).tolist()
    for name, value in {"file": str(tmp_path / "b.csv"), "column": "y", "scale": 3.0}.items():
        assert values(replace(law, **{name: value}), Streams(1).column("x"), 9).tolist() != drawn
