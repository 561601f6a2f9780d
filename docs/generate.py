"""Writes docs/reference from the code: the scan of each family, the fields of each block, the table of metrics.

Run by ``make docs``; a test holds that the pages are current.
"""

import dataclasses
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from policies._products import PRODUCTS, said_of  # noqa: E402
from policies._protocol import Policy  # noqa: E402 - the checkout comes first
from sim import registry, training  # noqa: E402
from sim.cost import _devices, _models, _profiles  # noqa: E402
from sim.engine.spec import EngineSpec  # noqa: E402
from sim.metrics import METRICS  # noqa: E402
from sim.router.spec import Around  # noqa: E402
from sim.scenario import _presets  # noqa: E402
from sim.scenario._fleet import FleetModel  # noqa: E402
from sim.scenario._model import (  # noqa: E402
    AllocationModel,
    AssumptionModel,
    BudgetModel,
    PrecisionModel,
    RangeModel,
    ReplicationsModel,
    RouterModel,
    ScenarioModel,
    SelectionModel,
    SweepModel,
)
from sim.specs import Change, ClientSpec, FailuresSpec, NoiseSpec  # noqa: E402
from sim.training import TrainingSpec  # noqa: E402

MIXED = """A fleet of several types of engines names them; an arm then changes one of them by its path, as in
`fleet.engines.new.count`, and a count of 0 leaves a type out. Engines are numbered type after type, in order of the
names.

    fleet:
      engines:
        new: {count: 2, engine: {preset: sglang, device: h100-80gb, model: llama-3-8b}}
        old: {count: 4, engine: {preset: vllm, device: a100-80gb, model: llama-3-8b}}
"""
ASSUMPTIONS = """
    assumptions:
      - field: fleet.engine.cost.slowdown
        range: [1.0, 1.45]
        basis: measured
        who: two hours of step timings under load
        gpu_hours: 2
      - field: fleet.engine.visibility
        values: [at_schedule]
        says: the engine may share a prefix as soon as it is scheduled

A field with neither range nor values says how its value is known and is not varied. What the file does not mention,
`windtunnel review` takes from its own list, with ranges of its own. Cells, and so stored results, are the same with
and without this block.
"""
REFERENCE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by docs/generate.py from the code; edit the docstrings there and run `make docs`. -->\n\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n" for line in lines
    )


def type_name(annotation: Any) -> str:
    """A type as a reader would write it: the same in every version of Python."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "null"
    if annotation is Ellipsis:
        return "..."
    if origin is typing.Literal:
        return " | ".join(str(each) for each in args)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(type_name(each) for each in args)
    if origin is typing.Annotated:
        return type_name(args[0])
    name = getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(type_name(each) for each in args)}]" if args else name


def parts_of(annotation: Any) -> list[type]:
    """The dataclasses that a type mentions."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return [annotation]
    return [found for each in typing.get_args(annotation) for found in parts_of(each)]


def value(default: Any) -> str:
    """A default as YAML would show it."""
    if default is dataclasses.MISSING:
        return "required"
    if default is None or isinstance(default, bool):
        return f"`{ {None: 'null', True: 'true', False: 'false'}[default] }`"
    if dataclasses.is_dataclass(default):
        return f"`{type_name(type(default))}()`"
    return f"`{default}`"


def parameters(cls: type) -> str:
    """The fields of a class that a scenario may set, and those of the parts that they hold."""
    hints, found = typing.get_type_hints(cls, include_extras=True), registry.parameters(cls)
    rows = [(f"`{p.name}`", f"`{type_name(hints[p.name])}`", value(p.default), p.doc) for p in found]
    return table(("key", "type", "default", "means"), rows) if rows else "No parameters.\n"


def parts(cls: type) -> str:
    """The dataclasses within a class, each once, whatever the depth."""
    text: list[str] = []
    queue, seen = [cls], {cls}
    while queue:
        owner = queue.pop(0)
        inner = [part for p in registry.parameters(owner) for part in parts_of(_hint(owner, p.name))]
        for part in dict.fromkeys(part for part in inner if part not in seen):
            seen.add(part)
            queue.append(part)
            text.append(f"\n### {part.__name__}\n\n{inspect.cleandoc(part.__doc__ or '')}\n\n{parameters(part)}")
    return "".join(text)


def _hint(cls: type, name: str) -> Any:
    return typing.get_type_hints(cls, include_extras=True)[name]


def model_keys(model: Any) -> str:
    """The keys of a block that is a pydantic model of its own."""
    rows = []
    for name, info in model.model_fields.items():
        default = dataclasses.MISSING if info.is_required() else info.get_default(call_default_factory=True)
        plain = default if isinstance(default, (int, float, str, dict, type(None))) else "see below"
        rows.append((f"`{name}`", value(dataclasses.MISSING if info.is_required() else plain), info.description or ""))
    return table(("key", "default", "means"), rows)


def family(title: str, family: registry.Family, opening: str) -> str:
    """One page for a scanned package."""
    text = [HEAD, f"# {title}\n\n{opening}\n"]
    for kind, cls in registry.scan(family).items():
        text.append(f"\n## `{kind}`\n\n{inspect.cleandoc(cls.__doc__ or '')}\n")
        if issubclass(cls, Policy):
            header = ", ".join(f"`{name}`" for name in cls.key_headers) or "none"
            text.append(
                f"\nRouting key read from: {header}. Reads the content: {'yes' if cls.reads_content else 'no'}.\n"
            )
            products = "".join(f"- {line}\n" for line in said_of(kind))
            text.append(f"\nAs `router: {{product, version, policy}}`:\n\n{products}" if products else "")
        text.append(f"\n{parameters(cls)}{parts(cls)}")
    return "".join(text)


def products() -> str:
    """What each version of a router takes."""
    rows = [
        (product, version, ", ".join(f"`{name}`" for name, offer in each.policies.items() if version in offer.versions))
        for product, each in PRODUCTS.items()
        for version in each.versions
    ]
    return (
        "A router can be named as one installs it:\n"
        "`router: {product: sglang-router, version: 0.3.1, policy: manual}`.\n"
        "A policy with options is `{kind: manual, max_idle_secs: 600}`, and what the version lacks is refused.\n"
        "Policies that a version takes, and whose rule there is modelled:\n\n"
        + table(("product", "version", "policies"), rows)
    )


def _host(times: tuple[float, float]) -> str:
    return f"{times[0]} + {times[1]} n" if times[1] else f"{times[0]}"


def _region(profile: _profiles.Profile) -> str:
    return ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in (profile.region or {}).items())


def _shapes() -> list[tuple[str, ...]]:
    shapes = [_models.load(_models.FOLDER / f"{name}.yaml") for name in _models.names()]
    return [
        (
            f"`{each.name}`",
            f"{each.weight_gib_per_gpu(1):.1f}",
            f"{each.kv_bytes_per_token_per_gpu(1):,.0f}",
            f"{each.state_mib_per_sequence:g}" if each.state_mib_per_sequence else "",
        )
        for each in shapes
    ]


def profiles() -> str:
    """The shipped cost profiles with their source and error."""
    rows = []
    for name in _profiles.names():
        each = _profiles.load(_profiles.FOLDER / f"{name}.yaml")
        errors = each.error_percent or {}
        cells = [
            " / ".join(f"{x:g}" for x in errors[kind]) if kind in errors else ""
            for kind in ("prefill", "decode", "mixed")
        ]
        rows.append((f"`{name}`", each.status, *cells, _region(each)))
    devices = [
        (f"`{name}`", f"{each.memory_gib}", f"{each.slowdown}", _host(each.host_ms), _host(each.host_overlap_ms))
        for name, each in _devices.DEVICES.items()
    ]
    return (
        f"{HEAD}# Cost profiles\n\n"
        "Shipped in `sim/cost/profiles/`, one file each with its source and licence. Errors of the fit in percent,\n"
        "mean and 90th percentile, on batches that it has not seen; beyond what was measured a step is extrapolated.\n"
        "An *estimated* profile was never measured. Reviews hold the same coefficients against 600 batches of their\n"
        "own (table 6.1), which agrees within two points; `uncertainty: stated` draws from the errors below. How\n"
        "profiles were made: [calibration.md](../calibration.md).\n\n"
        f"{table(('profile', 'status', 'prefill', 'decode', 'mixed', 'measured'), rows)}\n# Models\n\n"
        "Shapes in `sim/cost/models/`, for the cost model `roofline` and for memory; on one GPU, in 16 bits where the\n"
        "model does not say otherwise. State: what a sequence of a hybrid model holds whatever its length.\n\n"
        f"{table(('model', 'weights, GiB', 'KV bytes a token', 'state, MiB a sequence'), _shapes())}\n# Devices\n\n"
        "Memory that a framework can use, and the defaults that a profile or a scenario may override; n is the\n"
        "number of sequences and chunks of a step.\n\n"
        f"{table(('device', 'memory, GiB', 'slowdown', 'host time, ms', 'with overlap, ms'), devices)}"
    )


def presets() -> str:
    """The shipped presets of workloads, with what their values rest on."""
    rows = []
    for name in _presets.names():
        rows.append((f"`{name}`", f"`{_presets.load(name)['workload']['kind']}`", _presets.about(name)))
    return (
        "\n# Presets\n\n"
        "`workload: {preset: NAME, ...}` is a workload of the preset's kind; what a scenario says comes first,\n"
        "key by key. Files in `sim/workload/presets/`; some give `client`, `training` too. `windtunnel check` shows\n"
        "what comes of it, `windtunnel workload NAME` what it generates.\n\n"
        f"{table(('preset', 'kind', 'what it is, and what it rests on'), rows)}"
    )


def metrics() -> str:
    """Every metric with its definition."""
    rows = [(f"`{m.name}`", m.unit, m.better, m.definition) for m in METRICS.values()]
    opening = "Each is computed from the log's tables once a replication; arms are compared by ratios within pairs."
    return f"{HEAD}# Metrics\n\n{opening}\n\n" + table(("metric", "unit", "better", "is"), rows)


ARMS = """\
Each arm is the base with its overrides laid over it: mappings are merged key by key, lists and plain values replace,
and a component of another `kind` replaces the whole component. `--set PATH=VALUE` lays a value over the file in the
same way, so `{}` would change nothing and is refused; `null` takes away what the file says.

Two arms that come to the same cell compare nothing and are refused. An arm with `null_control: true` must equal another
one: it shows what a comparison of equals gives, a ratio of 1 in every pair and a warning that no decision differs.
"""


SWEEP = """\

Fields are named by their path, as `--set` names them, and a value list is `[2, 4, 8]` or a range:

    sweep:
      vary:
        fleet.engines: [2, 4, 8]
        workload.tool_delay_s: {first: 1, last: 8, steps: 4, scale: log}
      exclude:
        - {fleet.engines: 8, workload.tool_delay_s: 1}
"""


def said(cls: type, text: str) -> str:
    """What a block is, then its keys."""
    return f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{text}"


def stops() -> str:
    """The ways to stop, each with its keys."""
    kinds = (PrecisionModel, SelectionModel, AllocationModel, BudgetModel)
    return "".join(
        f"\n### `stop: {{kind: {type_name(kind.model_fields['kind'].annotation)}}}`\n\n{said(kind, model_keys(kind))}"
        for kind in kinds
    )


def scenario() -> str:
    """The keys of a scenario file, block by block."""
    blocks = [
        ("The file", model_keys(ScenarioModel)),
        ("`fleet`", f"{model_keys(FleetModel)}\n{MIXED}"),
        ("`arms`", ARMS),
        ("`fleet.engine`", f"{parameters(EngineSpec)}\nCost models: [costs.md](costs.md).\n"),
        ("`fleet.noise`", parameters(NoiseSpec)),
        ("`fleet.changes`, a list", said(Change, parameters(Change))),
        ("`fleet.failures`", said(FailuresSpec, parameters(FailuresSpec))),
        ("`client`", f"{parameters(ClientSpec)}{parts(ClientSpec)}"),
        (
            "`training`",
            f"{inspect.cleandoc(training.__doc__ or '')}\n\n{parameters(TrainingSpec)}{parts(TrainingSpec)}",
        ),
        ("`router`", f"{model_keys(RouterModel)}\nPolicies: [policies.md](policies.md).\n{parts(Around)}"),
        ("`replications`", f"{model_keys(ReplicationsModel)}{stops()}"),
        ("`assumptions`, a list", f"{said(AssumptionModel, model_keys(AssumptionModel))}{ASSUMPTIONS}"),
        ("`sweep`", f"{said(SweepModel, model_keys(SweepModel))}{SWEEP}\n### A range\n\n{model_keys(RangeModel)}"),
    ]
    opening = (
        "# Keys of a scenario\n\n"
        "Unknown keys are refused. `workload` is one of the kinds of [workloads.md](workloads.md).\n"
        "`windtunnel schema` prints the same as a JSON Schema for editors.\n"
    )
    return HEAD + opening + "".join(f"\n## {title}\n\n{text}" for title, text in blocks)


def pages() -> dict[str, str]:
    """File name -> text of every reference page."""
    return {
        "policies.md": family(
            "Policies",
            registry.POLICY,
            "Each models one product's rule and names its source. `kind` is its name in a scenario;\n"
            "`./file.py:Class` is one of your own. `windtunnel policies KIND` prints the same.\n\n" + products(),
        ),
        "workloads.md": family("Workloads", registry.WORKLOAD, "What the clients ask for, and when.") + presets(),
        "costs.md": family("Cost models", registry.COST, "What one engine step costs."),
        "profiles.md": profiles(),
        "metrics.md": metrics(),
        "scenario.md": scenario(),
    }


def main() -> None:
    """Write all pages."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    print(f"{len(pages())} pages in {REFERENCE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
