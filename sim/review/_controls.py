"""Null controls: worlds in which a known nothing must come out, run for the very scenario that is reviewed.

equal arms    the baseline's cell under another name gives the baseline's own requests: every ratio is 1
one engine    both arms on a fleet of one give the same requests: routing has nothing to decide there
no reuse      prompts that share nothing: no arm finds a token, and both compute the same prompts
endless KV    memory for everything: no arm preempts or computes a token twice

Each runs replication 0 alone. A control that the scenario cannot have (a router that refuses or holds requests, a mixed
fleet, a change that acts on one engine too) says so instead of holding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from policies._content import PRIVATE, Content, count
from sim.log.frames import Tables, read_logs
from sim.replication import replicate
from sim.review._model import Check
from sim.rng import Streams
from sim.scenario import Cell
from sim.workload._model import Session, Workload

NAME: Final = "null control"
MOST_ALONE: Final = 5_000
"""Requests that are run on one engine; more would take longer than the answer is worth."""
MOST_AGAIN: Final = 20_000
"""Requests of a replication that is run again with something taken away."""
ENDLESS_TOKENS: Final = 1_000_000_000
ROUTING: Final = {
    "router": ("policy", "telemetry", "cache_index", "record_regret"),
    "client": ("key_scope", "header", "keys", "key_salt", "unkeyed_share", "blocking"),
}
"""Fields that say which engine a request goes to, and so nothing on a fleet of one."""
UNSHARED: Final = 1 << 48
"""Sources from here on name prompts that nothing else holds."""


def controls(cells: tuple[Cell, Cell], names: tuple[str, str], tables: dict[str, Tables]) -> list[Check]:
    """Every control of the two arms."""
    sizes = [tables[name].requests.filter(pl.col("pair") == 0).height for name in names]
    if max(sizes) > MOST_AGAIN:
        says = f"equal arms, no reuse, endless KV: not run, {max(sizes):,} requests are too many to run again"
        return [Check(NAME, says, held=None), _on_one(cells, names, tables, max(sizes))]
    return [
        _equal(cells[0], tables[names[0]]),
        _on_one(cells, names, tables, max(sizes)),
        _without_reuse(cells),
        _without_limit(cells),
    ]


def requests_of(cell: Cell) -> pl.DataFrame:
    """The requests of replication 0."""
    return read_logs([replicate(cell, 0)], [0]).requests


def _equal(cell: Cell, stored: Tables) -> Check:
    other = Cell.from_resolved(cell.resolved, cell.base, f"{cell.arm} under another name")
    own = stored.requests.filter(pl.col("pair") == 0)
    return Check(
        NAME,
        f"equal arms: {cell.arm} against itself, under another name, is the same to the last request",
        requests_of(other).equals(own),
    )


def _on_one(cells: tuple[Cell, Cell], names: tuple[str, str], tables: dict[str, Tables], most: int) -> Check:
    """On one engine no routing can differ, as long as no router refuses or holds."""
    says = "one engine: both arms give the same requests"
    if reason := next(filter(None, (_unfit(cell, tables[name]) for cell, name in zip(cells, names, strict=True))), ""):
        return Check(NAME, f"{says}: not run, {reason}", held=None)
    if most > MOST_ALONE:
        return Check(NAME, f"{says}: not run, {most:,} requests are too many for one", held=None)
    if changed := _beyond_routing(cells):
        return Check(NAME, f"{says}: not run, {changed} differs, which acts on one engine too", held=None)
    alone = [read_logs([replicate(_of_one(cell), 0)], [0]) for cell in cells]
    if alone[0].requests.equals(alone[1].requests):
        return Check(NAME, says, held=True)
    # An arm may refuse or hold on one engine though it did not on many.
    reason = next(filter(None, (_withheld(cell, each) for cell, each in zip(cells, alone, strict=True))), "")
    return Check(NAME, f"{says}: not run, {reason}" if reason else says, held=None if reason else False)


def _beyond_routing(cells: tuple[Cell, Cell]) -> str:
    """The first field that differs and is not about which engine takes a request; empty with none."""
    one, other = (cell.resolved for cell in cells)
    for section in one:
        if section not in ROUTING:
            if one[section] != other[section]:
                return str(section)
            continue
        for name, own in one[section].items():
            if name not in ROUTING[section] and own != other[section][name]:
                return f"{section}.{name}"
    return ""


def _unfit(cell: Cell, tables: Tables) -> str:
    fleet = cell.resolved["fleet"]
    if not isinstance(fleet["engines"], int) or fleet["changes"] or fleet["failures"]:
        return "the fleet is mixed or changes"
    return _withheld(cell, tables)


def _withheld(cell: Cell, tables: Tables) -> str:
    """Why routing is not all that an arm does to its requests; empty where it is."""
    if tables.decisions.select(((pl.col("engine") < 0) | (pl.col("waited_s") > 0)).any()).item():
        return f"the router of arm {cell.arm} refuses or holds requests"
    if (failed := int((tables.requests["status"].cast(pl.String) == "failed").sum())) > 0:
        return f"arm {cell.arm} refuses or fails requests ({failed:,})"
    return ""


def _of_one(cell: Cell) -> Cell:
    fleet = {**cell.resolved["fleet"], "engines": 1}
    return Cell.from_resolved({**cell.resolved, "fleet": fleet}, cell.base, cell.arm)


def _without_reuse(cells: tuple[Cell, Cell]) -> Check:
    says = "no reuse: prompts that share nothing hit nothing, and each is computed once"
    found = pl.concat([requests_of(replace(cell, workload=Unshared(cell.workload))) for cell in cells])
    once = (pl.col("prefill_tokens") - pl.col("recomputed_tokens")).is_between(
        pl.col("prompt_tokens"),
        pl.col("prompt_tokens") + pl.col("preemptions"),  # the last token comes back as prompt
    )
    held = found.select((once | (pl.col("status") != "finished")).all() & (pl.col("cached_tokens") == 0).all()).item()
    return Check(NAME, says, bool(held))


def _without_limit(cells: tuple[Cell, Cell]) -> Check:
    says = "endless KV: no arm preempts or computes a token twice"
    found = [requests_of(_endless(cell)) for cell in cells]
    lost = sum(int(each[name].sum()) for each in found for name in ("preemptions", "recomputed_tokens"))
    return Check(NAME, says, not lost)


def _endless(cell: Cell) -> Cell:
    """The same cell with room for everything in each of its engines."""
    fleet = dict(cell.resolved["fleet"])
    if isinstance(fleet["engines"], int):
        fleet["engine"] = roomy(fleet["engine"])
    else:
        fleet["engines"] = {name: {**each, "engine": roomy(each["engine"])} for name, each in fleet["engines"].items()}
    return Cell.from_resolved({**cell.resolved, "fleet": fleet}, cell.base, cell.arm)


def roomy(engine: Mapping[str, Any]) -> dict[str, Any]:
    """An engine with room for everything."""
    sized = ("memory_share", "other_gib", "kv_bits")
    return {**engine, **dict.fromkeys(sized), "kv_tokens": ENDLESS_TOKENS}


@dataclass(frozen=True, slots=True)
class Unshared:
    """A workload whose prompts, each as long as it was, share nothing with one another."""

    whole: Any

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The same groups, sessions, lengths and times."""
        workload: Workload = self.whole.generate(streams, base)
        session = workload.session

        def unshared(index: int) -> Session:
            own = session(index)
            turns = [
                turn._replace(prompt=_alone(turn.prompt, index, place), output_source=PRIVATE)
                for place, turn in enumerate(own.turns)
            ]
            return own._replace(turns=turns)

        workload.session = unshared  # type: ignore[method-assign]
        return workload


def _alone(prompt: Content, session: int, turn: int) -> Content:
    return ((UNSHARED + (session << 20) + turn, count(prompt)),)
