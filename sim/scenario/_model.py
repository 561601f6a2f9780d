"""The shape of a scenario: closed models of its blocks, and one readable line for whatever does not fit them."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from sim import registry
from sim.closed import Closed, Component, built, model, refuse
from sim.errors import ScenarioError
from sim.router.spec import Around
from sim.scenario import _products
from sim.scenario._fleet import FleetModel
from sim.scenario._yaml import Document, Place
from sim.specs import ClientSpec
from sim.training import TrainingSpec

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
MOST_PAIRS = 1_000_000
ARM_NAME = r"^[A-Za-z0-9]([A-Za-z0-9 ._+=:-]{0,58}[A-Za-z0-9])?$"
ArmName = Annotated[str, StringConstraints(pattern=ARM_NAME)]


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


def _is_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refuse(f"must be a finite number, not {_shown(value)}")
    return value


Number = Annotated[Any, BeforeValidator(_is_number), WithJsonSchema({"type": "number"})]
"""Whole or not, and kept as it was written."""


class RouterModel(model(Around)):  # type: ignore[misc]
    """The router: the rule it asks, and what is around it."""

    model_config = ConfigDict(json_schema_extra=_products.widen)
    policy: Component(registry.POLICY).annotation = Field(description="The rule that chooses an engine.")  # type: ignore[valid-type]
    product: str | None = Field(default=None, description="Router whose name for the policy is used; see policies.md.")
    version: str | None = Field(default=None, description="Version of the product; absent: the last one known.")

    @model_validator(mode="before")
    @classmethod
    def _of_product(cls, value: Any) -> Any:
        return _products.resolve(value)


class CellModel(Closed):
    """What one arm fixes: everything that a number can depend on, but the seed."""

    fleet: FleetModel
    workload: Component(registry.WORKLOAD).annotation = Field(description="The requests.")  # type: ignore[valid-type]
    client: built(ClientSpec) = Field(default_factory=ClientSpec, description="Who sends.")  # type: ignore[valid-type]
    router: RouterModel
    training: built(TrainingSpec) | None = Field(  # type: ignore[valid-type]
        default=None, description="Rollout steps; null: groups start as they arrive, and weights never change."
    )


class PrecisionModel(Closed):
    """Stops when the ratio of every candidate, in the first metric, is known this well."""

    kind: Literal["precision"]
    half_width_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.0125, description="Half of the width of the 95 % interval; 0.0125 is a quarter of an effect of 5 %."
    )
    most_pairs: Annotated[int, Field(ge=2, le=MOST_PAIRS)] = Field(
        default=1000, description="Stops here at the latest."
    )


class SelectionModel(Closed):
    """Drops arms that are clearly behind in the first metric, until one is left (Kim and Nelson)."""

    kind: Literal["selection"]
    indifference_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.02, description="Arms whose means differ by less are as good as each other."
    )
    confidence_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.95, description="Probability that the arm left is the best, or as good."
    )
    most_pairs: Annotated[int, Field(ge=10, le=MOST_PAIRS)] = Field(
        default=1000, description="Stops here at the latest."
    )


class AllocationModel(Closed):
    """Divides a number of replications between the arms so that the best is most likely found (OCBA)."""

    kind: Literal["allocation"]
    replications: Annotated[int, Field(ge=10, le=MOST_PAIRS)] = Field(description="Replications of all arms together.")
    indifference_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.02, description="Arms whose means differ by less are as good as each other."
    )


class BudgetModel(Closed):
    """Stops when the time is over, with as many pairs as there are then."""

    kind: Literal["budget"]
    seconds: Annotated[float, Field(gt=0, le=1e7)] = Field(description="Wall time of the command.")
    most_pairs: Annotated[int, Field(ge=1, le=MOST_PAIRS)] = Field(
        default=1000, description="Stops here at the latest."
    )


StopModel = Annotated[PrecisionModel | SelectionModel | AllocationModel | BudgetModel, Field(discriminator="kind")]


class ReplicationsModel(Closed):
    """How often each arm runs: replication i of every arm sees the same workload."""

    pairs: Annotated[int, Field(ge=1, le=MOST_PAIRS)] = Field(default=20, description="Replications of each arm.")
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(default=1, description="Seed of all random streams.")
    stop: StopModel | None = Field(
        default=None,
        description="When to stop; absent: after the number of pairs. With it, `pairs` is where it begins.",
    )
    warm_up_s: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        default=None,
        description="Time at the start of each replication that is not measured. Absent: none is left out.",
    )

    @model_validator(mode="after")
    def _check_stop(self) -> "ReplicationsModel":
        most = getattr(self.stop, "most_pairs", self.pairs)
        if "pairs" in self.model_fields_set and most < self.pairs:
            raise refuse(f"must be at least the pairs to begin with ({self.pairs}), not {most}", "stop", "most_pairs")
        return self


class RangeModel(Closed):
    """Values from one number to another, both included."""

    first: float = Field(description="The first value.")
    last: float = Field(description="The last value.")
    steps: Annotated[int, Field(ge=2, le=1000)] = Field(description="How many values.")
    scale: Literal["linear", "log"] = Field(default="linear", description="Whether differences or ratios are equal.")


def _form(value: Any) -> str:
    return "range" if isinstance(value, dict | RangeModel) else "list"


Values = Annotated[
    Annotated[RangeModel, Tag("range")] | Annotated[list[Any], Field(min_length=1), Tag("list")], Discriminator(_form)
]


class SweepModel(Closed):
    """Fields that a sweep varies, by path; each combination is a variant with all the arms."""

    vary: dict[str, Values] = Field(default_factory=dict, description="A grid: every combination of these values.")
    zip: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Lists of one length that are read side by side; a row beside each of the grid.",
    )
    cells: dict[ArmName, Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        default_factory=dict, description="Variants by name, each with the fields that it sets."
    )
    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(
        default_factory=list, description="Combinations that are left out: those that agree in all fields named here."
    )

    @model_validator(mode="after")
    def _check_any(self) -> "SweepModel":
        if not (self.vary or self.zip or self.cells):
            raise refuse("names nothing that varies: give vary, zip or cells, or take the block away")
        return self


class AssumptionModel(Closed):
    """Something that the scenario takes for given: how it is known, and within which range it may lie."""

    field: Annotated[str, Field(min_length=1)] = Field(
        description="Path of the field, as `--set` has it; `arms.NAME.path` for a field of one arm."
    )
    range: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="Lowest and highest value that it may have."
    )
    values: Annotated[list[Any], Field(min_length=1)] | None = Field(
        default=None, description="Other values that it may have, instead of a range."
    )
    basis: Literal["measured", "documented", "guessed"] = Field(
        default="guessed", description="How the value is known."
    )
    who: str | None = Field(default=None, description="Who could measure it, or how.")
    gpu_hours: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="GPU-hours that measuring it takes."
    )
    says: str | None = Field(default=None, description="What is assumed, in words.")

    @model_validator(mode="after")
    def _check_range(self) -> "AssumptionModel":
        if self.range is not None and self.values is not None:
            raise refuse("has no place beside range: give one of them", "values")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise refuse(
                f"the low end must be below the high end, not {self.range[0]:g} and {self.range[1]:g}", "range"
            )
        return self


class ScenarioModel(Closed):
    """The blocks of a file. The five of a cell are checked arm by arm, once the overrides are laid over them."""

    name: Name = Field(description="Name of the scenario, and of the folder of its results.")
    fleet: Any = None
    workload: Any = None
    client: Any = None
    router: Any = None
    training: Any = None
    arms: Annotated[
        dict[ArmName, Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty)]], Field(min_length=1)
    ] = Field(default={"base": {}}, description="What is compared: each arm is the base with these overrides.")
    baseline: str | None = Field(default=None, description="The arm that others are compared with; absent: the first.")
    replications: ReplicationsModel = Field(default_factory=ReplicationsModel)
    sweep: SweepModel | None = Field(default=None, description="Variants of the scenario, for `windtunnel sweep`.")
    assumptions: list[AssumptionModel] = Field(
        default_factory=list,
        description="What is taken for given, for `windtunnel review`: each is varied there, and the answer watched.",
    )
    metrics: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="What is compared, by name."
    )
    real_run_noise: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.018,
        description="Relative standard deviation of one real run of one arm, for ``windtunnel power``: what a GPU run "
        "repeated with the same requests varies by. 0.018 is published of a rollout step's wall time, 0.15 of others.",
    )


def validate_cell(document: Document, base: Path) -> CellModel:
    """The model of a cell."""
    try:
        return CellModel.model_validate(document.data, context={"base": base})
    except ValidationError as error:
        raise _first(error, document) from None


def validate_scenario(document: Document) -> ScenarioModel:
    """The model of a whole file, its cells not yet looked at."""
    try:
        return ScenarioModel.model_validate(document.data)
    except ValidationError as error:
        raise _first(error, document) from None


def _first(error: ValidationError, document: Document) -> ScenarioError:
    """The error that stands first in the file, as one line."""
    return min((_locate(each, document) for each in error.errors()), key=lambda pair: pair[0])[1]


def _locate(error: ErrorDetails, document: Document) -> tuple[int, ScenarioError]:
    place = _place(error["loc"], document.data)
    origin = document.origin(place)
    message = " ".join(explain(error).split())
    return origin.line, ScenarioError(f"{origin}: {message}")


def _place(loc: Place, data: Any) -> Place:
    """Where an error stands in the file: a tag of a union is no key of it."""
    place: list[str | int] = []
    for part in loc:
        is_tag = (
            part == "list" if isinstance(data, list) else isinstance(data, dict) and part in (data.get("kind"), "range")
        )
        if part == "[key]" or (is_tag and not (isinstance(data, dict) and part in data)):
            continue
        place.append(part)
        is_there = isinstance(data, dict | list) and (
            part in data if isinstance(data, dict) else part in range(len(data))
        )
        data = data[part] if is_there else None
    return tuple(place)


_RULES: dict[str, str] = {
    "missing": "required key is missing",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "greater_than": "must be more than {gt}",
    "literal_error": "must be {expected}",
    "string_too_long": "must be {max_length} characters or fewer",
    "too_short": "must hold {min_length} or more, not {actual_length}",
    "string_pattern_mismatch": "must be a plain name (letters, digits, . _ -)",
    "union_tag_invalid": "kind must be {expected_tags}",
    "union_tag_not_found": "needs a kind",
}


def explain(error: ErrorDetails) -> str:
    """The rule that a value breaks, and the value."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "refused":
        return error["msg"]
    rule = _RULES.get(kind)
    if rule is None:
        return error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    text = rule.format(**{name: _number(each) for name, each in context.items()})
    if kind in ("missing", "too_short", "union_tag_not_found"):
        return text
    if kind == "union_tag_invalid":
        value, context = context["tag"], {"expected": context["expected_tags"]}
    near = registry.nearest(value, re.findall(r"'([^']+)'", context.get("expected", "")))
    return f"{text}, not {_shown(value)}" + (f"; did you mean {near!r}?" if near else "")


def _number(value: Any) -> Any:
    """A limit for reading: whole, and in thousands."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}" if isinstance(value, float) else value


def _shown(value: Any) -> str:
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
