"""Files that are named inside a workload's fields, found from the scenario's folder.

A distribution that reads a file knows the name that the scenario gives it, not the folder. ``located`` gives the same
workload with whole paths in place of the names, ``files_within`` lists the files for the cell's hash.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def files_within(value: Any, base: Path) -> list[Path]:
    """Every file that a value, or a value in it, names in a field ``file``."""
    return [base / each for each in _names(value)]


def located(value: _Value, base: Path) -> _Value:
    """The value with every such name made a path; the value itself where none is named."""
    if isinstance(value, tuple):
        items = tuple(located(each, base) for each in value)
        return value if all(map(_is, items, value)) else items  # type: ignore[return-value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        new = str(base / old) if field.name == "file" else located(old, base)
        if new is not old:
            changed[field.name] = new
    return dataclasses.replace(value, **changed) if changed else value


def _is(one: object, other: object) -> bool:
    return one is other


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for each in value:
            yield from _names(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name == "file":
                yield inner
            else:
                yield from _names(inner)
