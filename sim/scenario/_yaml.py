"""Reads a scenario's YAML and keeps the line of every key.

The tree of nodes is walked here, so that what YAML allows and a scenario does not (duplicate keys, tags, keys that are
no text, recursive aliases) is refused with its line. Anchors and aliases work; merge keys (``<<``) do not.
"""

import copy
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sim.errors import ScenarioError

Place = tuple[str | int, ...]

MOST_NODES: Final = 100_000
"""Nodes of a document with its aliases written out: a limit for documents that explode."""
MOST_DIGITS: Final = 300

_PLAIN: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value")}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a key was written: what an error shows before its message."""

    file: str
    line: int
    path: Place

    def __str__(self) -> str:
        dotted = ".".join(str(part) for part in self.path)
        if not self.line:
            return f"{self.file} {dotted}".rstrip()
        return f"{self.file}:{self.line}: {dotted}" if dotted else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the origin of every key, by path."""

    data: Any
    origins: dict[Place, Origin]

    def origin(self, place: Place) -> Origin:
        """Origin of a key; of a key that is not written, its parent's line with the key's own path."""
        if place in self.origins:
            return self.origins[place]
        for length in range(len(place) - 1, -1, -1):
            near = self.origins.get(place[:length])
            if near is not None:
                return Origin(near.file, near.line, (*near.path, *place[length:]))
        raise KeyError(place)


def read(path: Path, shown: str) -> Document:
    """The document of a file; whatever is wrong with it is one line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{shown}: not a UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, shown)


def parse(text: str, shown: str) -> Document:
    """The document of a text."""
    reader = YAML(typ="safe", pure=True)
    try:
        root = reader.compose(text)
        walk = _Walk(reader, shown)
        data = walk.value(root, ()) if root is not None else None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(f"{shown}{at}: not YAML: {_flat(error.problem or error.context)}") from None
    except RecursionError:
        raise ScenarioError(f"{shown}: nested too deeply") from None
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # The reader itself breaks on some texts that are not YAML; to the user they are just that.
        raise ScenarioError(f"{shown}: not YAML: {_flat(error)}") from None
    return Document(data, walk.origins | {(): Origin(shown, 1, ())})


def parse_value(text: str) -> Any:
    """A value as YAML reads it, for the command line."""
    return parse(text, "").data


def dump(data: Any, notes: Mapping[Place, str] | None = None) -> str:
    """Plain data as YAML; ``notes`` by place become comments at the end of its line."""
    data = copy.deepcopy(data) if notes else data
    for place, note in (notes or {}).items():
        data = _commented(data, place, note)
    text = io.StringIO()
    writer = YAML(typ="rt")
    writer.width = 120
    writer.dump(data, text)
    return text.getvalue()


def _commented(data: Any, place: Place, note: str) -> Any:
    """A mapping, or what is below it, with a comment behind the key at a place."""
    key, *below = place
    if not isinstance(data, CommentedMap):
        data = CommentedMap(data)
    if below:
        data[key] = _commented(data[key], tuple(below), note)
    else:
        data.yaml_add_eol_comment(note, key)
    return data


def _flat(text: object) -> str:
    return " ".join(str(text).split())


class _Walk:
    """Turns nodes into plain data and notes the origin of each key."""

    def __init__(self, reader: Any, shown: str) -> None:
        self._construct = reader.constructor.construct_object
        self._shown = shown
        self._nodes = 0
        self._open: set[int] = set()
        self.origins: dict[Place, Origin] = {}

    def value(self, node: Node, path: Place) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise self._refuse(node, path, f"more than {MOST_NODES} values")
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise self._refuse(node, path, "an alias cannot contain itself")
        self._open.add(id(node))
        value = self._mapping(node, path) if isinstance(node, MappingNode) else self._list(node, path)
        self._open.discard(id(node))
        return value

    def _refuse(self, node: Node, path: Place, message: str) -> ScenarioError:
        return ScenarioError(f"{Origin(self._shown, node.start_mark.line + 1, path)}: {message}")

    def _scalar(self, node: ScalarNode, path: Place) -> Any:
        tag = str(node.tag)
        if tag not in _PLAIN:
            raise self._refuse(node, path, f"the tag {tag!r} is not known here")
        if tag.endswith((":timestamp", ":str", ":value")):
            return node.value
        if len(node.value) > MOST_DIGITS:
            raise self._refuse(node, path, "a number of that many digits is not a quantity")
        value = self._construct(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refuse(node, path, f"must be a finite number, not {node.value}")
        return value

    def _list(self, node: Node, path: Place) -> list[Any]:
        if not isinstance(node, SequenceNode) or str(node.tag) != "tag:yaml.org,2002:seq":
            raise self._refuse(node, path, f"the tag {str(node.tag)!r} is not known here")
        for index, each in enumerate(node.value):
            self.origins[(*path, index)] = Origin(self._shown, each.start_mark.line + 1, (*path, index))
        return [self.value(each, (*path, index)) for index, each in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: Place) -> dict[Any, Any]:
        if str(node.tag) != "tag:yaml.org,2002:map":
            raise self._refuse(node, path, f"the tag {str(node.tag)!r} is not known here")
        data: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            place = (*path, key)
            if key in data:
                raise self._refuse(key_node, place, f"the key is written twice (line {self.origins[place].line})")
            self.origins[place] = Origin(self._shown, key_node.start_mark.line + 1, place)
            data[key] = self.value(value_node, place)
        return data

    def _key(self, node: Node, path: Place) -> str | int:
        if not isinstance(node, ScalarNode):
            raise self._refuse(node, path, "a key must be a name")
        if str(node.tag) == "tag:yaml.org,2002:merge" or node.value == "<<":
            raise self._refuse(node, path, "merge keys (<<) are not supported; name the values")
        if not node.value.isprintable() or not node.value:
            raise self._refuse(node, path, f"a key must be a name, not {node.value!r}")
        value = self._scalar(node, path)
        return value if isinstance(value, int) and not isinstance(value, bool) else node.value
