"""A policy that stands below another one, by its kind."""

import importlib
from collections.abc import Sequence

from policies._protocol import Policy


def make(kind: str, not_below: Sequence[str]) -> Policy:
    """A policy of the package with its defaults; ValueError for those that cannot stand there."""
    name = f"policies.{kind}"
    if kind.rpartition(".")[2].startswith("_") or kind.endswith(tuple(not_below)):
        raise ValueError(f"over must be a policy other than {', '.join(not_below)}, not {kind!r}")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        raise ValueError(f"over must be the kind of a policy, not {kind!r}") from None
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Policy) and each.__module__ == name:
            return each()
    raise ValueError(f"over must be the kind of a policy, not {kind!r}")
