"""``windtunnel policies``: the reference of the policies, made from the same scan that scenarios use."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from policies._products import said_of
from sim import registry
from sim.cli import _complete
from sim.registry import POLICY, Parameter


@click.command(short_help="List the policies, or show one.")
@click.argument("kind", required=False, shell_complete=_complete.policy)
def policies(kind: str | None) -> None:
    """List the policies, or show KIND: what it does, its parameters and the headers it reads."""
    click.echo(listing() if kind is None else describe(kind))


def listing() -> str:
    """One line a policy."""
    members = registry.scan(POLICY)
    width = max(len(kind) for kind in members)
    return "\n".join(f"{kind:<{width}}  {_sentence(registry.summary(cls))}" for kind, cls in members.items())


def _sentence(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def describe(kind: str) -> str:
    """Everything that is known of one policy; the kind may be a file of the user's own."""
    from sim import foreign

    cls = registry.find(POLICY, kind, Path())
    foreign.check_policy(cls)
    doc = inspect.cleandoc(cls.__doc__ or "")
    return "\n".join([kind, "", doc, "", *_parameters(cls), *_traits(cls), *_products(kind)])


def _parameters(cls: type) -> Iterator[str]:
    found = registry.parameters(cls)
    yield "Parameters:" if found else "Parameters: none"
    for each in found:
        yield f"  {each.name}: {_type(each)}"
        if each.doc:
            yield f"      {each.doc}"


def _type(parameter: Parameter) -> str:
    annotation = parameter.annotation
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
    return f"{name}, required" if parameter.default is dataclasses.MISSING else f"{name} = {parameter.default!r}"


def _traits(cls: type) -> Iterator[str]:
    headers = ", ".join(getattr(cls, "key_headers", ()))
    yield f"Routing key: {f'the header {headers}' if headers else 'not read'}"
    yield f"Reads the prompt: {'yes' if getattr(cls, 'reads_content', False) else 'no'}"
    if getattr(cls, "min_engines", 1) > 1:
        yield f"Engines: at least {cls.min_engines}"  # type: ignore[attr-defined]


def _products(kind: str) -> Iterator[str]:
    lines = list(said_of(kind))
    if lines:
        yield "As router: {product, version, policy}:"
        yield from (f"  {line}" for line in lines)
