"""What a user's own classes do wrong is one line that names their file, and shipped ones run unwrapped."""

import copy
from pathlib import Path

import pytest

from policies.round_robin import RoundRobin
from sim import foreign
from sim.errors import ScenarioError
from sim.scenario import Cell, check, load_scenario, shipped
from sim.sweep import run
from sim.worker import packed

POLICY = """\
from dataclasses import dataclass
from policies._protocol import Policy


@dataclass
class P(Policy):
    {extra}

    def choose(self, request, fleet, now, pick):
        {body}
"""
FINE = "return fleet.available[0], 'x', 0"


def scenario(folder: Path, body: str = FINE, extra: str = "a: int = 1", text: str = POLICY):
    (folder / "p.py").write_text(text.replace("{extra}", extra).replace("{body}", body))
    text = shipped()["smoke"].read_text().replace("kind: sticky_least_loaded", 'kind: "./p.py:P"')
    (folder / "s.yaml").write_text(text)
    return load_scenario(folder / "s.yaml")


def failure(folder: Path, body: str = FINE, extra: str = "a: int = 1") -> str:
    """The one line that a run of the user's policy ends in."""
    with pytest.raises(ScenarioError) as caught:
        packed(scenario(folder, body, extra).arms["sticky_least_loaded"], 0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('boom')", "./p.py:10: P.choose raised RuntimeError: boom"),
        ("return {}['x']", "./p.py:10: P.choose raised KeyError: 'x'"),
        ("raise SystemExit(7)", "./p.py:10: P.choose raised SystemExit: 7"),
        ("raise GeneratorExit", "./p.py:10: P.choose raised GeneratorExit"),
        ("open('/nope')", "./p.py:10: P.choose raised FileNotFoundError"),
        ("return self.choose(request, fleet, now, pick)", "./p.py:10: P.choose raised RecursionError"),
        ("return pick([]), 'x', 0", "./p.py:10: P.choose raised ValueError: pick needs at least one candidate"),
        ("return pick(fleet.available, [-1, 1]), 'x', 0", "pick needs finite weights"),
        ("return pick(fleet.available, [1]), 'x', 0", "pick needs a weight for each of 2 candidates, not 1"),
        (
            "return None",
            "./p.py:9: P.choose must return (engine or None, name of the branch, matched tokens), not None",
        ),
        ("return fleet.available[0], 'x'", "P.choose must return (engine or None"),
        ("return 0, 'x', 0", "P.choose must return an engine of fleet.available or None, not 0"),
        ("import copy; return copy.copy(fleet.available[0]), 'x', 0", "must return an engine of fleet.available"),
        ("return fleet.available[0], None, 0", "must name its branch in one line of text, not None"),
        ("return fleet.available[0], 'a\\nb', 0", "must name its branch in one line of text"),
        ("return fleet.available[0], 'x', -5", "a whole number of matched tokens, zero or more, not -5"),
        ("return fleet.available[0], 'x', 1.5", "not 1.5"),
        ("return fleet.available[0], 'x', 10**30", "not 1000000"),
        ("fleet.available[0].in_flight = 9; return fleet.available[0], 'x', 0", "P.choose must not change the request"),
        ("request.headers['x'] = 'y'; return fleet.available[0], 'x', 0", "P.choose must not change the request"),
        ("return fleet.available.pop(), 'x', 0", "P.choose must not change the request"),
    ],
)
def test_choices_that_are_none(tmp_path: Path, body: str, message: str) -> None:
    """File, line and method, whatever was raised or returned."""
    assert message in failure(tmp_path, body)


@pytest.mark.parametrize("method", ["start(self, fleet)", "dispatched(self, r, e)", "completed(self, r, e)"])
def test_other_methods_fail_as_clearly(tmp_path: Path, method: str) -> None:
    """What a policy hears is guarded as what it answers."""
    name = method.partition("(")[0]
    assert failure(tmp_path, extra=f"def {method}: raise OSError(2, 'gone')") == (
        f"./p.py:7: P.{name} raised FileNotFoundError: [Errno 2] gone"
    )


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("key_headers = 'x-foo'", "P.key_headers must be a tuple of names in lower case, not 'x-foo'"),
        ("key_headers = ('X-Foo',)", "P.key_headers must be a tuple of names in lower case"),
        ("reads_content = 'yes'", "P.reads_content must be True or False, not 'yes'"),
        ("kind: int = 3", "p.py:P cannot have a parameter named kind"),
        ("def __post_init__(self): raise RuntimeError('oops')", "router.policy: P raised RuntimeError: oops"),
        ("def __post_init__(self): raise SystemExit(3)", "router.policy: P raised SystemExit: 3"),
        ("a: int = 1\n    def __post_init__(self): raise ValueError('a: bad')", "router.policy.a: bad"),
    ],
)
def test_classes_that_are_no_policy(tmp_path: Path, extra: str, message: str) -> None:
    """Found when the scenario is loaded."""
    with pytest.raises(ScenarioError) as caught:
        scenario(tmp_path, extra=extra)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@dataclass\n", "", "./p.py:P must be a dataclass"),
        ("class P(Policy)", "class P", "P must extend Policy"),
        ("def choose", "def chose", "P does not define choose"),
    ],
)
def test_half_a_policy(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Each thing that is missing is named."""
    with pytest.raises(ScenarioError, match=message):
        scenario(tmp_path, text=POLICY.replace(old, new))


def test_two_policies_in_one_file_must_be_told_apart(tmp_path: Path) -> None:
    """The message writes both names as the scenario could."""
    scenario(tmp_path, text=POLICY + "\n\n@dataclass\nclass Q(P):\n    b: int = 1\n")
    (tmp_path / "s.yaml").write_text((tmp_path / "s.yaml").read_text().replace("./p.py:P", "./p.py"))
    with pytest.raises(ScenarioError, match=r"more than one policy: name one, ./p.py:P or ./p.py:Q"):
        load_scenario(tmp_path / "s.yaml")


@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_say_the_same(tmp_path: Path, jobs: int) -> None:
    """The line comes through whichever process met it."""
    made = scenario(tmp_path, "raise SystemExit(7)")
    with pytest.raises(ScenarioError, match=r"^./p.py:10: P.choose raised SystemExit: 7$"):
        run(made, pairs=2, jobs=jobs, out=tmp_path / "out")


def test_ctrl_c_in_a_policy_stays_ctrl_c(tmp_path: Path) -> None:
    """It is the user's wish, not a fault of the file."""
    with pytest.raises(KeyboardInterrupt):
        packed(scenario(tmp_path, "raise KeyboardInterrupt").arms["sticky_least_loaded"], 0)


def test_shipped_policies_are_not_wrapped() -> None:
    """Checks cost only those who need them."""
    policy = RoundRobin()
    assert foreign.checked(policy) is policy
    assert foreign.guard(policy) is policy


def test_placed_errors_pass_between_processes() -> None:
    """An error with a place is copied whole, as pickling does."""
    from sim.scenario._errors import PlacedError

    error = copy.copy(PlacedError(("client", "keys", 3), "no such session"))
    assert str(error) == "client.keys.3: no such session"


WORKLOAD = """\
from dataclasses import dataclass
from sim.workload.rollout import Rollout


@dataclass(frozen=True)
class W(Rollout):
    when: str = "files"

    def files(self, base):
        return 5 if self.when == "files" else []

    def generate(self, streams, base):
        if self.when == "generate":
            raise RuntimeError("dry")
        if self.when == "type":
            return None
        made = Rollout.generate(self, streams, base)
        made.__class__ = type("Late", (type(made),), {"session": session, "__module__": __name__})
        return made


def session(self, index):
    raise RuntimeError("late")
"""
COST = """\
from dataclasses import dataclass
from sim.cost.constant import Constant


@dataclass(frozen=True)
class C(Constant):
    when: str = "raise"

    def compile(self, tick_s, **hardware):
        if self.when == "raise":
            raise RuntimeError("cold")
        return 5
"""


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("files", "./w.py:9: W.files must return a list, not 5"),
        ("generate", "./w.py:14: W.generate raised RuntimeError: dry"),
        ("type", "./w.py:12: W.generate must return a Workload, not None"),
        ("late", "./w.py:23: session raised RuntimeError: late"),
    ],
)
def test_workloads_of_the_users_own(tmp_path: Path, when: str, message: str) -> None:
    """Built at once or late, the file is named."""
    (tmp_path / "w.py").write_text(WORKLOAD)
    text = shipped()["smoke"].read_text().replace("kind: rollout", f"kind: ./w.py:W\n  when: {when}")
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        play(tmp_path / "s.yaml")
    assert message in str(caught.value)


def play(path: Path) -> None:
    """Everything that is done with a scenario's workload."""
    made = load_scenario(path)
    check(made)
    packed(next(iter(made.arms.values())), 0)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("raise", "./c.py:11: C.compile raised RuntimeError: cold"),
        ("type", "./c.py:9: C.compile must return a Coefficients, not 5"),
    ],
)
def test_cost_models_of_the_users_own(tmp_path: Path, when: str, message: str) -> None:
    """What a step costs is compiled when the scenario is loaded, so it fails there."""
    (tmp_path / "c.py").write_text(COST)
    (tmp_path / "s.yaml").write_text(shipped()["smoke"].read_text())
    cost = f"fleet.engine.cost={{kind: ./c.py:C, step_ms: 1, when: {when}}}"
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tmp_path / "s.yaml", (cost, "fleet.engine.kv_tokens=100000"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        "fleet.noise.step_sigma=10",
        "fleet.noise.engine_speed_sigma=10",
        "router.overhead_s=1e9",
        "fleet.engine.cost={kind: constant, step_ms: 1e12}",
        "fleet.engine.cost={kind: constant, step_ms: 1e-300}",
    ],
)
def test_numbers_within_their_bounds_overflow_in_one_line_or_not_at_all(override: str) -> None:
    """Each field is bounded; what many of them add up to may still be too much, and says so."""
    made = load_scenario("smoke", (override, "fleet.engine.kv_tokens=1000000"))
    for cell in made.arms.values():
        assert outcome(cell) in {"done", "the numbers of this scenario overflow"}


def outcome(cell: Cell) -> str:
    """How one replication ends; a traceback is none."""
    try:
        packed(cell, 0)
    except ScenarioError as error:
        return str(error).removeprefix(f"arm {cell.arm}: ").partition(" (")[0]
    return "done"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("fleet.noise.step_sigma=50", "must be 10 or less, not 50"),
        ("router.overhead_s=1e12", "must be 1,000,000,000 or less"),
        ("workload.tool_delay_s=1e10", "tool_delay_s"),
        ("fleet.engine.cost={kind: constant, step_ms: 1e300}", "step_ms: must be 1,000,000,000,000 or less"),
        ("fleet.engine.cost={kind: form_d, slowdown: 1e308}", "slowdown"),
    ],
)
def test_numbers_beyond_their_bounds_are_refused(override: str, message: str) -> None:
    """At the place where they stand, without a run."""
    with pytest.raises(ScenarioError, match=message):
        load_scenario("smoke", (override,))


def test_times_that_add_up_to_more_than_there_is() -> None:
    """Twelve turns of 30 years each do not fit an int64 of nanoseconds."""
    made = load_scenario("smoke", ("workload.turns=12", "workload.tool_delay_s=1e9"))
    with pytest.raises(ScenarioError, match="the numbers of this scenario overflow"):
        packed(next(iter(made.arms.values())), 0)
