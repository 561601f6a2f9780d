"""The JSON Schema of a scenario, for editors and for checking files without this program.

Made from the models that validate a scenario; components are alternatives by ``kind``. An arm is the same shape with
nothing required, since it may name any part of the base: what an arm lacks is found when the file is loaded.
"""

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from sim.log.account import MECHANISMS
from sim.scenario import _presets
from sim.scenario._model import ARM_NAME, CellModel, ScenarioModel

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_PARTIAL: Final = "Part_of_"


def schema() -> dict[str, Any]:
    """A schema in the 2020-12 dialect that every valid scenario passes."""
    _, made = models_json_schema(
        [(ScenarioModel, "validation"), (CellModel, "validation")], ref_template="#/$defs/{model}"
    )
    defs: dict[str, Any] = made["$defs"]
    top, cell = defs.pop("ScenarioModel"), defs.pop("CellModel")
    cell["properties"]["workload"]["oneOf"] += _preset_options(cell["properties"]["workload"]["oneOf"])
    control = {
        "type": "boolean",
        "description": "This arm may equal another: it shows what a comparison of equals gives.",
    }
    ablates = {
        "type": "object",
        "description": "The arm of which this one, in one field, takes a mechanism away: a review looks for its share.",
        "properties": {"arm": {"type": "string"}, "mechanism": {"type": "string", "enum": list(MECHANISMS)}},
        "required": ["arm", "mechanism"],
        "additionalProperties": False,
    }
    top["properties"] |= cell["properties"] | {
        "arms": {
            "type": "object",
            "description": top["properties"]["arms"]["description"],
            "minProperties": 1,
            "propertyNames": {"pattern": ARM_NAME},
            "additionalProperties": {
                "type": ["object", "null"],
                "properties": {**_partial(cell["properties"]), "null_control": control, "ablates": ablates},
                "additionalProperties": False,
            },
        }
    }
    whole = {
        "$schema": DIALECT,
        **top,
        "title": "windtunnel scenario",
        "required": [*top["required"], *cell["required"]],
        "$defs": defs | {f"{_PARTIAL}{name}": _partial(each) for name, each in defs.items()},
    }
    plain: dict[str, Any] = _plain_text(whole)
    return plain


def _preset_options(kinds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A workload by the name of a preset: the fields of its kind, none of them required."""
    by_kind: dict[str, list[str]] = {}
    for name in _presets.names():
        by_kind.setdefault(_presets.load(name)["workload"]["kind"], []).append(name)
    options = []
    for kind in kinds:
        named = by_kind.get(str(kind.get("title")))
        if named:
            own: dict[str, Any] = _partial(kind)
            own["title"] = f"preset of kind {kind['title']}"
            own["properties"] = {_presets.KEY: {"enum": named}, **own["properties"]}
            options.append({**own, "required": [_presets.KEY]})
    return options


def _partial(value: Any) -> Any:
    """The same shape with nothing required; a component without its kind fits whichever kind has its parameters."""
    if isinstance(value, list):
        return [_partial(each) for each in value]
    if not isinstance(value, dict):
        return value
    own_file = "pattern" in value.get("properties", {}).get("kind", {})
    partial: dict[str, Any] = {}
    for key, each in value.items():
        if key == "if":  # what it asks for may stand in the base
            partial["anyOf"] = [_partial(value["then"]), _partial(value["else"])]
        elif key in ("then", "else"):
            continue
        elif key == "$ref":
            partial[key] = each.replace("#/$defs/", f"#/$defs/{_PARTIAL}")
        elif key != "required" or own_file:
            partial["anyOf" if key == "oneOf" else key] = _partial(each)
    return partial


def _plain_text(value: Any) -> Any:
    """Descriptions come from docstrings, where names stand in double backticks."""
    if isinstance(value, dict):
        return {key: _plain_text(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain_text(each) for each in value]
    return value.replace("``", "`") if isinstance(value, str) else value
