"""Finds the kinds: a file in a scanned package is a member, its path is its ``kind``, its fields are its parameters.

A family is a package whose modules without a leading underscore each define one public class with the family's verb
(``choose``, ``generate``, ``compile``); modules without such a class are helpers. A user's own file is a member too:
``./my_policy.py:MyPolicy``, relative to the scenario. Finding one kind imports one module; a full scan is for listing
and for naming the nearest kind in an error. Validation of parameters is in ``sim.closed``.
"""

import ast
import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sim.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of component: where its members live and what they must be able to do."""

    noun: str
    package: str
    verb: str

    def owns(self, member: object) -> bool:
        """Whether an object is a class of this family."""
        return inspect.isclass(member) and callable(getattr(member, self.verb, None))


OWN: dict[str, str] = {}
"""Modules that users' files became: name of the module -> the file as a scenario names it."""

POLICY = Family("policy", "policies", "choose")
WORKLOAD = Family("workload", "sim.workload", "generate")
COST = Family("cost model", "sim.cost", "compile")


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that a user most likely meant, or None when nothing is close."""
    names = list(known)
    text = str(name)
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.6)
    if not close:
        last = [(each.rpartition(".")[2], each) for each in names]
        close = [each for short, each in last if short == text.rpartition(".")[2].replace("-", "_")][:1]
    return close[0] if close else None


def suggest(name: object, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the nearest one, or all of them when nothing is close."""
    names = list(known)
    close = nearest(name, names)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(sorted(names))}"


def _root(family: Family) -> Path:
    package = importlib.import_module(family.package)
    return Path(package.__path__[0])


@cache
def _paths(family: Family) -> dict[str, Path]:
    """Kind -> file of each module that may be a member; nothing is imported."""
    root = _root(family)
    files = {path.relative_to(root).with_suffix(""): path for path in sorted(root.rglob("*.py"))}
    return {".".join(name.parts): path for name, path in files.items() if not any(p[0] in "_." for p in name.parts)}


def _classes(module: ModuleType, family: Family) -> dict[str, type]:
    """Public classes of the family that the module itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and family.owns(value) and value.__module__ == module.__name__
    }


@cache
def _member(family: Family, kind: str) -> type | None:
    classes = _classes(importlib.import_module(f"{family.package}.{kind}"), family)
    if len(classes) > 1:
        raise TypeError(f"{family.package}.{kind} defines more classes than one: {', '.join(classes)}")
    return next(iter(classes.values()), None)


@cache
def scan(family: Family) -> dict[str, type]:
    """Kind -> class of every shipped member, in order of their names."""
    members = {kind: _member(family, kind) for kind in _paths(family)}
    return {kind: member for kind, member in members.items() if member is not None}


def is_file(kind: str) -> bool:
    """Whether a kind names a user's own file."""
    return kind.partition(":")[0].endswith(".py")


def file_of(kind: str, base: Path) -> Path:
    """The user's file that a kind names, relative to the scenario's folder."""
    return base / kind.partition(":")[0]


def find(family: Family, kind: str, base: Path) -> type:
    """The class of a kind; an unknown kind, or a file that holds none, is an error that names what is known."""
    if is_file(kind):
        return _from_file(family, kind, file_of(kind, base))
    if "/" in kind or ":" in kind:
        raise ScenarioError(f"{kind!r} is no file of Python: one of your own ends in .py, as ./my_file.py:MyClass")
    path = _paths(family).get(kind)
    member = _member(family, kind) if path else None
    if member is None:
        raise ScenarioError(f"unknown {family.noun} {kind!r}; {suggest(kind, scan(family))}")
    return member


def _from_file(family: Family, kind: str, path: Path) -> type:
    """The class in a user's file, by name or because it is the only one."""
    shown, _, name = kind.partition(":")
    classes = _classes(_load(path, shown), family)
    if not classes:
        raise ScenarioError(f"{shown} holds no {family.noun}: no public class in it has a method {family.verb!r}")
    if not name and len(classes) > 1:
        some = " or ".join(f"{shown}:{each}" for each in classes)
        raise ScenarioError(f"{shown} holds more than one {family.noun}: name one, {some}")
    name = name or next(iter(classes))
    if name not in classes:
        raise ScenarioError(f"{shown} holds no {family.noun} {name!r}; {suggest(name, classes)}")
    cls = classes[name]
    if not dataclasses.is_dataclass(cls):
        raise ScenarioError(f"{shown}:{name} must be a dataclass: write @dataclass above the class")
    if any(field.name == "kind" for field in fields(cls)):
        raise ScenarioError(f"{shown}:{name} cannot have a parameter named kind: that names the {family.noun} itself")
    return cls


def _load(path: Path, shown: str) -> ModuleType:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"cannot read {shown}: {reason}") from None
    digest = hashlib.blake2b(str(path.resolve()).encode() + b"\0" + content, digest_size=8).hexdigest()
    name = f"windtunnel_file_{digest}"
    OWN[name] = shown
    return sys.modules.get(name) or _run(name, path, shown)


def _run(name: str, path: Path, shown: str) -> ModuleType:
    """Import a user's file under a name that its content decides, so that a changed file is a new module."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"{shown} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - a user's file may fail in any way
        del sys.modules[name]
        raise ScenarioError(f"{shown} cannot be imported: {type(error).__name__}: {first_line(error)}") from None
    return module


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return next(iter(str(error).splitlines()), "")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a member, as the reference shows it."""

    name: str
    annotation: Any
    default: Any
    doc: str

    @property
    def is_required(self) -> bool:
        """A parameter without a default."""
        return self.default is dataclasses.MISSING


def fields(cls: type) -> list["dataclasses.Field[Any]"]:
    """The dataclass fields that a user may set: given at construction and public."""
    if not dataclasses.is_dataclass(cls):
        return []
    return [field for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")]


def default(field: "dataclasses.Field[Any]") -> Any:
    """The default of a field, or ``dataclasses.MISSING``."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def parameters(cls: type) -> list[Parameter]:
    """The parameters of a member with their defaults and, where the source is at hand, their docstrings."""
    docs = field_docs(cls)
    return [Parameter(each.name, each.type, default(each), docs.get(each.name, "")) for each in fields(cls)]


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Docstrings that stand below the fields of a class, its bases included; empty where no source is found."""
    docs: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        docs |= _own_docs(each)
    return docs


def _own_docs(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for above, below in itertools.pairwise(body):
        if not (isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[above.target.id] = inspect.cleandoc(str(below.value.value)).replace("\n", " ")
    return docs


def summary(cls: type) -> str:
    """The first sentence of a class's docstring, or of its module's."""
    doc = inspect.cleandoc(cls.__dict__.get("__doc__") or sys.modules[cls.__module__].__doc__ or "")
    return doc.split("\n\n")[0].replace("\n", " ")
