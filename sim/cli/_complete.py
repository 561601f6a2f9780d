"""What the Tab key offers: scenarios and files, arms, paths of ``--set``, policies, profiles.

Files are listed here, because a shell that is asked for files forgets the names that stand beside them. A value that
goes on (a folder, a block of a scenario) ends in ``/``, ``.`` or ``=``, and bash then adds no space.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from sim.errors import ScenarioError

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[/.=] ]] && compopt -o nospace
                ;;
        esac
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Click's completion for bash, with names beside files and without a space where a value goes on."""

    source_template = _BASH


def register() -> None:
    """Use the script above for bash."""
    add_completion_class(Bash)


def scenario(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Names of shipped scenarios, YAML files and folders."""
    from sim.scenario._find import shipped

    return _items([*(name for name in shipped() if name.startswith(start)), *_paths(start)])


def case(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Names of validation cases, YAML files and folders."""
    from sim.validation import case_names

    return _items([*(name for name in case_names() if name.startswith(start)), *_paths(start)])


def workload(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Names of presets and of shipped scenarios, YAML files and folders."""
    from sim.scenario._find import shipped
    from sim.scenario._presets import names

    return _items([*(name for name in (*names(), *shipped()) if name.startswith(start)), *_paths(start)])


def arm(context: click.Context, _: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Arms of the scenario that stands before."""
    names = (_document(context).get("arms") or {}) if start.isprintable() else {}
    return _items(str(name).replace(" ", "\\ ") for name in names if str(name).startswith(start))


def setting(context: click.Context, _: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """The next part of every path below the scenario that stands before, defaults included."""
    leaves = (leaf for leaf in _leaves(_document(context), "") if leaf.startswith(start))
    return _items(dict.fromkeys(_next(leaf, len(start)) for leaf in leaves))


def policy(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Kinds of policies with what each does."""
    from sim import registry

    members = registry.scan(registry.POLICY).items()
    return [CompletionItem(kind, help=registry.summary(cls)) for kind, cls in members if kind.startswith(start)]


def profile(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem[Any]]:
    """Shipped cost profiles, YAML files and folders."""
    from sim.cost import _profiles

    return _items([*(name for name in _profiles.names() if name.startswith(start)), *_paths(start)])


def _items(values: Iterable[str]) -> list[CompletionItem[Any]]:
    return [CompletionItem(value) for value in values]


def _paths(start: str) -> Iterator[str]:
    """Folders and YAML files that a path may go on to; hidden ones only when asked for."""
    above, name = start.rpartition("/")[::2]
    folder = Path(f"{above}/") if "/" in start else Path()
    prefix = f"{above}/" if "/" in start else ""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(name) and (name or not entry.name.startswith(".")):
            if entry.is_dir():
                yield f"{prefix}{entry.name}/"
            elif entry.suffix in {".yaml", ".yml"}:
                yield f"{prefix}{entry.name}"


def _document(context: click.Context) -> dict[str, Any]:
    from sim.scenario import load_scenario, resolved_document

    # An option that still waits for its value ends click's parsing before the arguments are named.
    name = context.params.get("scenario") or next(iter(context.args), "")
    try:
        return resolved_document(load_scenario(name))
    except (ScenarioError, OSError):
        return {}


def _leaves(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}="
    elif not value:
        yield f"{path}."
    else:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))


def _next(leaf: str, done: int) -> str:
    """The path up to the end of the part that is being typed."""
    stop = leaf.find(".", done)
    return leaf if stop < 0 else leaf[: stop + 1]
