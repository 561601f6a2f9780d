"""A policy that stands below another one, by its kind."""

import importlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from policies._protocol import Policy


def make(kind: str, not_below: Sequence[str], **parameters: Any) -> Policy:
    """A policy of the package, its defaults but for these parameters; ValueError for what cannot stand there."""
    name = f"policies.{kind}"
    if kind.rpartition(".")[2].startswith("_") or kind.endswith(tuple(not_below)):
        raise ValueError(f"over must be a policy other than {', '.join(not_below)}, not {kind!r}")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        raise ValueError(f"over must be the kind of a policy, not {kind!r}") from None
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Policy) and each.__module__ == name:
            lacking = parameters.keys() - {field.name for field in fields(each)}  # type: ignore[arg-type]
            if lacking:
                raise ValueError(f"{min(lacking)} is no parameter of {kind}")
            return each(**parameters)
    raise ValueError(f"over must be the kind of a policy, not {kind!r}")
