"""Lays one document over another: arms over the base, ``--set`` over the file.

Mappings merge key by key, lists and plain values replace, and a component whose ``kind`` differs replaces the one below
whole, so that the parameters of another kind never linger. Origins travel with the keys.
"""

import re
from typing import Any

from sim.errors import ScenarioError
from sim.scenario._yaml import Document, Origin, Place, parse_value


def cut(document: Document, place: Place) -> Document:
    """The part of a document below a place, with paths that start there."""
    data = document.data
    for part in place:
        data = data[part]
    size = len(place)
    origins = {path[size:]: origin for path, origin in document.origins.items() if path[:size] == place}
    return Document(data, origins)


def merge(base: Document, over: Document) -> Document:
    """A document with ``over`` laid over ``base``; neither changes."""
    origins = dict(base.origins)
    data = _merge(base.data, over.data, (), over, origins)
    return Document(data, origins)


def _merge(base: Any, over: Any, place: Place, source: Document, origins: dict[Place, Origin]) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict) or _is_other_kind(base, over):
        size = len(place)
        for path in [path for path in origins if path and path[:size] == place]:
            del origins[path]
        origins.update({path: origin for path, origin in source.origins.items() if path and path[:size] == place})
        return over
    data = dict(base)
    for key, value in over.items():
        path = (*place, key)
        data[key] = _merge(base.get(key), value, path, source, origins) if key in base else value
        if key not in base:
            origins.update({each: origin for each, origin in source.origins.items() if each[: len(path)] == path})
        elif path in source.origins:
            origins[path] = source.origins[path]
    return data


def _is_other_kind(base: dict[Any, Any], over: dict[Any, Any]) -> bool:
    return "kind" in base and "kind" in over and base["kind"] != over["kind"]


def set_path(document: Document, assignment: str) -> Document:
    """The document with ``path=value`` of the command line laid over it."""
    dotted, equals, text = assignment.partition("=")
    parts = place_of(dotted)
    if not equals or "" in parts or not dotted.isprintable():
        raise ScenarioError(f"--set {' '.join(assignment.split())}: must be path=value, as in fleet.engines=4")
    try:
        value = parse_value(text)
    except ScenarioError as error:
        message = re.sub(r"^:\d+:? *", "", str(error))
        raise ScenarioError(f"--set {dotted.strip()}: {message}") from None
    if value == {} and _holds(document.data, parts):
        raise ScenarioError(
            f"--set {dotted.strip()}: {{}} would change nothing, as mappings are merged; set a key in it, "
            f"or write {dotted.strip()}=null"
        )
    return lay(document, parts, value, "--set")


def lay(document: Document, parts: Place, value: Any, source: str, line: int = 0) -> Document:
    """The document with one value laid over it; ``source`` is what errors in it name."""
    below = [parts[:length] for length in range(1, len(parts) + 1)] + [(*parts, *path) for path in _paths(value)]
    origins = {path: Origin(source, line, path) for path in below}
    for part in reversed(parts):
        value = {part: value}
    return merge(document, Document(value, origins))


def place_of(dotted: str) -> Place:
    """The parts of a dotted path; numbers are indices."""
    return tuple(int(part) if part.isdecimal() else part for part in dotted.strip().split("."))


def _holds(data: Any, parts: Place) -> bool:
    """Whether something stands at a place already."""
    for part in parts:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return bool(data)


def _paths(value: Any) -> list[Place]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, each in pairs for path in [(key,), *((key, *rest) for rest in _paths(each))]]


def pick(document: Document, keys: tuple[str, ...]) -> Document:
    """The part of a document below some of its top-level keys."""
    data = {key: value for key, value in document.data.items() if key in keys}
    origins = {path: origin for path, origin in document.origins.items() if not path or path[0] in keys}
    return Document(data, origins)
