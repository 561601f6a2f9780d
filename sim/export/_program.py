"""A program of the real run: its command line, and where everything else that the scenario says of it is.

Every parameter of the scenario ends in one of three places: it is set by a flag (or a variable of the environment), it
is no flag and its value stands somewhere else (built in, in the trace, in the hardware), or the program cannot have its
value. ``lines`` fails if a parameter is in none of them, so nothing that was simulated can be lost without a word.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from sim.errors import LawError

SWITCH = ""
"""Value of a flag that takes none."""


class Settings:
    """Parameters by dotted name, and where each of them went."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self.places: dict[str, str] = {}
        """Parameter -> the flag that sets it, or the place where it is."""
        self.impossible: dict[str, str] = {}
        """Parameter -> why the program cannot have its value."""

    def place(self, name: str, where: str) -> Any:
        """Say where a parameter is; its value."""
        self.places[name] = where
        return self.values[name]

    def refuse(self, name: str, why: str) -> None:
        """Say that the program cannot have a parameter's value."""
        self.places.pop(name, None)
        self.impossible[name] = why

    def built_in(self, name: str, value: Any, why: str = "") -> None:
        """A parameter that is no flag: the program has one value."""
        if self.values[name] == value:
            self.place(name, f"built in{f', {why}' if why else ''}")
        else:
            self.refuse(name, f"the product has {shown(value)}{f', {why}' if why else ''}")

    def names(self, start: str) -> list[str]:
        """Parameters below a name."""
        return [name for name in self.values if name.startswith(f"{start}.")]

    def left(self) -> list[str]:
        """Parameters that nobody accounted for."""
        return [name for name in self.values if name not in self.places and name not in self.impossible]

    def errors(self) -> list[str]:
        """One line a parameter that the program cannot have."""
        return [f"{name} = {shown(self.values[name])}: {why}" for name, why in self.impossible.items()]

    def table(self) -> Iterator[str]:
        """One line a parameter, in the order of the scenario."""
        if self.left():
            raise LawError(f"parameters that no configuration accounts for: {', '.join(self.left())}")
        for name, value in self.values.items():
            where = f"IMPOSSIBLE: {self.impossible[name]}" if name in self.impossible else self.places[name]
            yield f"{name} = {shown(value)}: {where}"


class Program:
    """A command with its flags; ``settings`` says which parameter each of them stands for."""

    def __init__(self, title: str, command: str, settings: Settings) -> None:
        self.title = title
        self.command = command
        self.settings = settings
        self.flags: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.raw: dict[str, str] = {}
        """Flags whose values the shell fills in."""
        self.notes: list[str] = []

    def constant(self, flag: str, value: Any = SWITCH) -> None:
        """A flag that no parameter decides."""
        self.flags[flag] = shown(value)

    def flag(self, name: str, flag: str) -> None:
        """A flag that takes the parameter's value."""
        self.flags[flag] = shown(self.settings.place(name, flag))

    def switch(self, name: str, on: str, off: str = "") -> None:
        """A flag for true, and maybe one for false."""
        flag, other = (on, off) if self.settings.values[name] else (off, on)
        self.settings.place(name, flag or f"without {other}")
        if flag:
            self.flags[flag] = SWITCH

    def whole(self, name: str, flag: str, times: int = 1, unit: str = "whole numbers") -> None:
        """A flag that takes whole numbers, of the parameter times a factor."""
        value = self.settings.values[name] * times
        if abs(value - round(value)) > 1e-9 * max(abs(value), 1):
            self.settings.refuse(name, f"{flag} takes {unit}")
            return
        self.settings.place(name, flag)
        self.flags[flag] = str(round(value))

    def variable(self, name: str, variable: str) -> None:
        """A variable of the environment that takes the parameter's value."""
        self.environment[variable] = shown(self.settings.place(name, variable))

    def script(self) -> str:
        """The shell script that starts the program; one that cannot run as simulated says so and stops."""
        lines = ["#!/bin/sh", *self.head()]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        for each in self.settings.errors():
            lines.append(f"echo {shlex.quote(f'cannot run as simulated: {each}')} >&2")
        if self.settings.impossible:
            lines.append("exit 1")
        return "\n".join(lines) + "\n" + " \\\n".join([f"exec {self.command}", *self.arguments()]) + "\n"

    def head(self) -> Iterator[str]:
        """Comments: the program, what its operator should know, and where every parameter is."""
        yield f"# {self.title}"
        for note in self.notes:
            yield f"# {note}"
        yield "#"
        yield "# What the scenario says, and where it is:"
        for line in self.settings.table():
            yield f"#   {line}"

    def arguments(self) -> Iterator[str]:
        """The flags, one a line."""
        for flag, value in self.raw.items():
            yield f"  {flag} {value}"
        for flag, value in self.flags.items():
            yield f"  {flag} {shlex.quote(value)}" if value != SWITCH else f"  {flag}"


def flat(value: Any, path: str) -> dict[str, Any]:
    """Plain data as values by dotted name; lists and empty mappings are values."""
    if isinstance(value, dict) and value:
        return {name: each for key, below in value.items() for name, each in flat(below, f"{path}.{key}").items()}
    return {path: value}


def shown(value: Any) -> str:
    """A value as a flag or a comment has it."""
    return value if isinstance(value, str) else json.dumps(value)
