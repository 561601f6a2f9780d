"""What can be said of a scenario without running it: errors that every run would meet, and warnings.

Facts of a workload come from its first replication, generated once for arms that share it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sim import registry
from sim.blocking import blocks
from sim.errors import ScenarioError
from sim.keys import group_keys
from sim.placement import MOST_ENGINES, MOST_KEYS
from sim.rng import Streams
from sim.router.reads import ask
from sim.scenario._ablates import KEY
from sim.scenario._around import idle_keys, unmatched
from sim.scenario._cell import Cell
from sim.scenario._errors import PlacedError, placed
from sim.scenario._fleet import EngineType, kv_tokens, shape_of
from sim.scenario._load import Scenario
from sim.scenario._rules import explicit_keys, queues_read_keys, reads_key

ENOUGH_GROUPS: Final = 60
"""Groups below which a 95 % quantile over them is little else than the slowest one."""
FULL_AND_HALF: Final = 1.5
"""Sessions under way over requests that fit, above which a cap is told: some are with their tools, and sizes differ."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine of a type."""

    kv_tokens: int
    """Tokens that it has room for, in whole blocks."""
    cost: str
    """Where the cost of a step comes from, and the knobs as they resolve."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one arm comes down to, before anything runs."""

    engines: dict[str, EngineFacts]
    """By type of engine; the name is empty where all are alike."""
    workload: dict[str, int]
    """Totals of the first replication."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Facts by arm, and warnings, one line each."""

    facts: dict[str, Facts]
    warnings: list[str]


def check(scenario: Scenario) -> Checked:
    """Facts and warnings of every arm; ScenarioError for what no run could survive."""
    facts: dict[str, Facts] = {}
    warnings: dict[str, list[str]] = {}
    totals: dict[str, dict[str, int]] = {}
    for name, cell in scenario.arms.items():
        try:
            world = _world(cell)
            if world not in totals:
                totals[world] = _generate(cell)
            facts[name] = Facts({kind.name: _facts(kind, cell) for kind in cell.fleet}, totals[world])
            found = [*_rooms(cell, facts[name]), *_keys(cell), *_idle_fields(cell), *idle_keys(cell)]
            found += unmatched(cell, ask(cell.router.make_policy()))
            found += _steps(cell, totals[world])
            found += _caps(cell, facts[name])
            found += [f"router.policy.{field}" for field in _said_idle(cell)]
            for kind in cell.fleet:
                found += [*_profiles(kind, cell), *_states(kind, cell)]
        except PlacedError as error:
            raise error.at(scenario.documents[name]) from None
        for each in found:
            warnings.setdefault(each, []).append(name)
    _check_blocking(scenario, facts)
    _check_ablations(scenario)
    said = [f"{'arm' if len(arms) == 1 else 'arms'} {', '.join(arms)}: {each}" for each, arms in warnings.items()]
    return Checked(facts, [*said, *_unread(scenario), *_deadline(scenario), *_tails(scenario, facts)])


def _check_blocking(scenario: Scenario, facts: dict[str, Facts]) -> None:
    """Blocking that no arm could follow would change nothing."""
    asking = [name for name, cell in scenario.arms.items() if cell.client.blocking != "none"]
    for name in asking:
        cell = scenario.arms[name]
        scope = {"group": "groups", "session": "sessions"}.get(cell.client.scope)
        keys = facts[name].workload[scope] if scope else 0
        if blocks(cell.router.policy, cell.client.header or "", keys, cell.engines):
            return
    if asking:
        where = scenario.documents[asking[0]].origin(("client", "blocking"))
        raise ScenarioError(
            f"{where}: no arm can be blocked: it takes a policy that places keys by a hash, 2 to {MOST_KEYS} keys "
            f"and 2 to {MOST_ENGINES} engines"
        )


def _check_ablations(scenario: Scenario) -> None:
    """An ablation takes one thing away, so that what is missing then has one cause."""
    for name, each in scenario.ablations.items():
        found = dict(differ(scenario.arms[each.arm].resolved, scenario.arms[name].resolved))
        if len(found) != 1:
            raise ScenarioError(
                f"arms.{name}.{KEY}: arm {name} differs from {each.arm} in {len(found)} fields ({', '.join(found)}): "
                "an ablation takes one thing away"
            )


def _world(cell: Cell) -> str:
    """What the workload's check depends on."""
    client = cell.resolved["client"]
    parts = [cell.resolved["workload"], cell.resolved["training"], client["keys"], client["key_scope"], cell.seed]
    return json.dumps(parts, sort_keys=True)


def _generate(cell: Cell) -> dict[str, int]:
    with placed("workload"):
        workload = cell.workload.generate(Streams(cell.seed), cell.base)
        totals: dict[str, int] = workload.summary()
    if cell.training is not None:
        with placed("training"):
            cell.training.check(workload)
    explicit = explicit_keys(cell, workload.keys)
    if cell.client.scope == "group":
        with placed("client", "key_scope"):
            group_keys(workload.group_of, explicit)
    return totals


def _facts(kind: EngineType, cell: Cell) -> EngineFacts:
    """A user's own cost model need not describe itself."""
    block = kind.engine.block_tokens or 1
    room = kv_tokens(kind, cell.base) // block * block
    describe = getattr(kind.engine.cost, "describe", None)
    with placed(*kind.place, "cost"):
        if describe is not None:
            return EngineFacts(room, str(describe(**kind.hardware, base=cell.base, overlap=kind.engine.overlap)))
    shown: Any = cell.resolved
    for key in kind.place:
        shown = shown[key]
    return EngineFacts(room, str(shown["cost"]["kind"]))


def _states(kind: EngineType, cell: Cell) -> Iterator[str]:
    """What is known of a model and has no place in the scheduler of its engine."""
    described = shape_of(kind, cell.base)
    if kind.engine.preset == "sglang" and described and described[1].state_mib_per_sequence:
        yield f"{described[1].name} keeps a state for each sequence; {kind.label} runs it as if it kept none"


def _profiles(kind: EngineType, cell: Cell) -> Iterator[str]:
    """Numbers that rest on an estimate, or on other hardware than the engine's, say so wherever they are shown."""
    engine = kind.engine
    if not hasattr(engine.cost, "load"):
        return
    with placed(*kind.place, "cost"):
        profile = engine.cost.load(**kind.hardware, base=cell.base)
    if profile.status == "estimated":
        yield f"the cost of a step is estimated, not measured: profile {profile.name}"
    made, asked = (profile.device, profile.model, profile.tp), (engine.device, engine.model, engine.tp)
    if profile.device and made != asked:
        yield (
            f"cost profile {profile.name} is of {_hardware_name(*made)}, {kind.label} of {_hardware_name(*asked)}: "
            "step times, slowdown and weights are the profile's, the memory is the engine's"
        )


def _hardware_name(device: str, model: str, tp: int) -> str:
    return f"{device}, {model}, tp {tp}"


def _rooms(cell: Cell, facts: Facts) -> Iterator[str]:
    """An engine rejects what it has no room for; where that is everything, everywhere, no run makes sense."""
    largest, smallest = (facts.workload[f"{which}_request_tokens"] for which in ("largest", "smallest"))
    rooms = []
    for kind in cell.fleet:
        room, block = facts.engines[kind.name].kv_tokens, kind.engine.block_tokens or 1
        room -= -(-(kind.engine.state_tokens_per_seq or 0) // block) * block
        if kind.engine.preset == "sglang":
            room -= 1  # a request must stay below the pool
        if -(-largest // block) * block > room:
            yield (
                f"some requests will be rejected: the largest needs {largest} tokens with its limit, "
                f"{kind.label} has {room}"
            )
        rooms.append((room, -(-smallest // block) * block))
    if all(need > room for room, need in rooms):
        raise PlacedError(
            ("workload",),
            f"no request fits: the smallest needs {smallest} tokens with its limit, an engine has {max(rooms)[0]}",
        )


def _caps(cell: Cell, facts: Facts) -> Iterator[str]:
    """A cap far above what memory holds makes requests wait, or lose what they computed."""
    cap = cell.client.cap(cell.engines)
    if cap is None:
        return
    totals = facts.workload
    mean = (totals["prompt_tokens"] + totals["output_tokens"]) / max(totals["requests"], 1)
    under_way = min(cap, totals["sessions"])
    fit = sum(kind.count * int(facts.engines[kind.name].kv_tokens // mean) for kind in cell.fleet)
    if under_way > FULL_AND_HALF * fit:
        yield (
            f"the client keeps up to {under_way:,} sessions under way, the fleet has room for {fit:,} requests of mean "
            f"size ({mean:,.0f} tokens): the others wait, or lose their memory"
        )


def _keys(cell: Cell) -> Iterator[str]:
    headers = cell.router.policy.key_headers
    kind = cell.resolved["router"]["policy"]["kind"]
    if headers and cell.client.scope == "request":
        yield f"{kind} is keyed, and key_scope request gives every request a key of its own: no affinity"
    elif headers and not reads_key(cell):
        yield f"unkeyed requests: the client sends {cell.client.header}, {kind} reads {', '.join(headers)}"
    elif not headers and cell.client.keys and not queues_read_keys(cell):
        yield f"client.keys has no effect: {kind} reads no routing key"


def _idle_fields(cell: Cell) -> Iterator[str]:
    """What a workload says of its own fields that change nothing, if it says anything."""
    say = getattr(cell.workload, "idle_fields", None)
    for field in say() if say is not None else ():
        yield f"workload.{field}"
    tools = cell.client.tools
    if tools and tools.concurrency and getattr(cell.workload, "tool_delay_s", None) == 0:
        yield "client.tools.concurrency has no effect: turns follow each other without delay"
    if tools and tools.boots and getattr(cell.workload, "boot_s", 0) == 0:
        yield "client.tools.boots has no effect: sessions start without a boot time"


def _steps(cell: Cell, totals: dict[str, int]) -> Iterator[str]:
    """Rollout steps that cannot be made, and keys of the trainer that change nothing."""
    training = cell.training
    if training is None:
        return
    for field in training.idle_fields(getattr(cell.workload, "samples_per_group", None)):
        yield f"training.{field}"
    wanted = (training.steps or 1) * training.groups_per_step
    if totals["groups"] < wanted:
        yield f"training wants {wanted} groups or more, the workload has {totals['groups']}: a step will be short"


def _said_idle(cell: Cell) -> Iterator[str]:
    """What a policy says of its parameters that decide nothing, of those that the file does not leave alone."""
    defaults = {each.name: registry.default(each) for each in registry.fields(type(cell.router.policy))}
    set_here = [name for name, value in cell.router.parameters.items() if value != defaults[name]]
    for field in cell.router.policy.idle_fields():
        if field.partition(" ")[0] in set_here:
            yield field


def _unread(scenario: Scenario) -> Iterator[str]:
    """A scope, a header or a salt that somebody wrote down should matter to some arm, its policy or its engines."""
    cells = scenario.arms.values()
    if any(cell.router.policy.key_headers for cell in cells) or any(map(queues_read_keys, cells)):
        return
    for key in ("key_scope", "header", "key_salt"):
        if any((each.data.get("client") or {}).get(key) for each in scenario.documents.values()):
            yield f"client.{key} has no effect: the policy of no arm reads a routing key"


def _deadline(scenario: Scenario) -> Iterator[str]:
    if "goodput_per_s" not in scenario.metrics and any(cell.client.deadline_s for cell in scenario.arms.values()):
        yield "client.deadline_s has no effect: goodput_per_s is not among the metrics"


def _tails(scenario: Scenario, facts: dict[str, Facts]) -> Iterator[str]:
    tails = [name for name in scenario.metrics if name.startswith("group_completion_p9")]
    groups = min(each.workload["groups"] for each in facts.values())
    if tails and groups < ENOUGH_GROUPS:
        yield f"{', '.join(tails)}: {groups} groups a replication, so this is close to the slowest one"


def differences(scenario: Scenario) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By arm and dotted path, what differs from the baseline: (baseline's value, arm's value).

    A component of another kind is one difference, its parameters included.
    """
    base = scenario.arms[scenario.baseline].resolved
    others = {name: cell for name, cell in scenario.arms.items() if name != scenario.baseline}
    return {name: dict(differ(base, cell.resolved)) for name, cell in others.items()}


def differ(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """By dotted path, where two pieces of plain data differ; components of other kinds differ as a whole."""
    if one == other:
        return
    mappings = isinstance(one, dict) and isinstance(other, dict)
    if not mappings or one.keys() != other.keys() or one.get("kind") != other.get("kind"):
        yield path, (one, other)
        return
    for key, value in one.items():
        yield from differ(value, other[key], f"{path}.{key}" if path else str(key))


def resolved_document(scenario: Scenario) -> dict[str, Any]:
    """The scenario with every default named, as a file could say it: the baseline's cell, and what the arms change."""
    cell = {key: value for key, value in scenario.arms[scenario.baseline].resolved.items() if key != "seed"}
    arms: dict[str, Any] = {name: {} for name in scenario.arms}
    for name, found in differences(scenario).items():
        for path, (_, value) in found.items():
            *above, last = path.split(".")
            place = arms[name]
            for part in above:
                place = place.setdefault(part, {})
            place[last] = value
        if name in scenario.null_controls:
            arms[name]["null_control"] = True
        if name in scenario.ablations:
            arms[name][KEY] = scenario.ablations[name].document
    stated = {"assumptions": [each.document for each in scenario.assumptions]} if scenario.assumptions else {}
    replications = {
        "pairs": scenario.pairs,
        "seed": scenario.seed,
        "stop": None if scenario.stop is None else scenario.stop.model_dump(),
        "warm_up_s": scenario.warm_up_s,
    }
    return {
        "name": scenario.name,
        **cell,
        "arms": arms,
        "baseline": scenario.baseline,
        "replications": replications,
        "sweep": None if scenario.sweep is None else scenario.sweep.model_dump(exclude_defaults=True),
        **stated,
        "metrics": list(scenario.metrics),
        "real_run_noise": scenario.real_run_noise,
    }
