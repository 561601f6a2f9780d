"""What is kept of each pair of a cell beside its tables: all metrics, how its decisions went, its placement class."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from sim import foreign, metrics, registry
from sim.log import store
from sim.log.frames import Tables
from sim.report.placements import Placed, place
from sim.report.result import Arm
from sim.report.routing import Looks, constant, notes, summaries
from sim.report.warn import digests
from sim.router.reads import COUNT, SIGNALS, ask
from sim.scenario import RESULTS_VERSION, Cell, Scenario
from sim.scenario._around import unmatched
from sim.scenario._rules import reads_key
from sim.steady import without_start

VERSIONED: Final = ("windtunnel", "simpy", "numpy", "polars", "scipy", "blake3", "xxhash")
PACKAGES: Final = ("policies", "sim")


def values_of(cell: Cell, tables: Tables, warm_up_s: float | None = None) -> pl.DataFrame:
    """One row a pair: ``groups``, digest of ``decisions``, ``class`` of hashed keys, ``routing``, every metric."""
    scope = cell.client.scope
    placed = None
    if scope != "request" and reads_key(cell) and cell.router.policy.places_by_hash:
        placed = place(tables.requests, scope, cell.engines)
    classes = placed.classes if placed else tables.replications.select("pair", pl.lit(None, pl.String).alias("class"))
    groups = tables.groups.group_by("pair").agg(pl.len().cast(pl.Int64).alias("groups"))
    measured = metrics.measure(without_start(tables, warm_up_s))
    if not _reads_reports(cell):
        measured = measured.with_columns(signal_age_mean_s=pl.lit(None, pl.Float64))
    return (
        measured.join(groups, on="pair", how="left")
        .join(digests(tables.decisions), on="pair", how="left")
        .join(classes, on="pair", how="left")
        .join(summaries(tables.decisions), on="pair", how="left")
        .join(tables.replications.select("pair", "constant_signals"), on="pair", how="left")
        .select("pair", "groups", "decisions", "class", "routing", "constant_signals", *metrics.METRICS)
        .sort("pair")
    )


def _reads_reports(cell: Cell) -> bool:
    """Reports may come although nobody looks at them; then they have no age that matters."""
    spec = cell.router
    return spec.policy.sees_all or not ask(spec.make_policy()).reads.isdisjoint(SIGNALS)


def arm_of(name: str, cell: Cell, folder: Path, pairs: int, *, null_control: bool = False) -> Arm:
    """An arm with its first pairs, as it is stored; a pair that failed has no values."""
    every = pl.DataFrame({"pair": pl.Series(range(pairs), dtype=pl.Int64)})
    rows = every.join(store.read_values(folder), on="pair", how="left").sort("pair")
    ran = rows.filter(pl.col("decisions").is_not_null())
    return Arm(
        name=name,
        hash=cell.hash,
        folder=folder,
        values=rows.select("pair", *metrics.METRICS),
        decisions=hashlib.blake2b("".join(ran["decisions"]).encode(), digest_size=16).hexdigest(),
        groups=min(ran["groups"].to_list(), default=0),
        placed=_placed(ran, cell),
        null_control=null_control,
        notes=tuple(_notes(ran, cell)),
        is_blocked=cell.client.blocking != "none",
        is_hashed=cell.router.policy.places_by_hash,
    )


def _notes(rows: pl.DataFrame, cell: Cell) -> Iterator[str]:
    spec = cell.router
    defaults = {each.name: registry.default(each) for each in registry.fields(type(spec.policy))}
    changed = [name for name, value in spec.parameters.items() if value != defaults[name]]
    texts = rows["routing"].drop_nulls()
    if not foreign.is_own(spec.policy):
        asked = ask(spec.make_policy())
        # A policy that reads prompts may match none as its parameters are, and some with others.
        matches = asked.matches or (spec.policy.reads_content and ask(type(spec.policy)()).matches)
        looks = Looks(not asked.reads.isdisjoint(SIGNALS), COUNT in asked.reads, matches)
        has_reports = spec.around.telemetry is not None or spec.policy.sees_all
        yield from notes(spec.policy, looks, changed, has_reports, texts)
        yield from unmatched(cell, asked)
        yield from constant(asked.reads, rows["constant_signals"].drop_nulls())


def _placed(rows: pl.DataFrame, cell: Cell) -> Placed | None:
    classes = rows["class"]
    if classes.is_empty() or classes.null_count():
        return None
    keys = {sum(int(count) for count in name.split(":")) for name in classes.unique()}
    return Placed(keys.pop(), cell.engines, rows.select("pair", "class")) if len(keys) == 1 else None


def manifest(scenario: Scenario, arms: Sequence[str], cell: Cell) -> dict[str, Any]:
    """What a stored cell is, and what made it; pairs and failures are added when it is complete."""
    return {
        "scenario": scenario.name,
        "real_run_noise": scenario.real_run_noise,
        "arms": list(arms),
        "baseline": scenario.baseline,
        "cell": cell.resolved,
        "hash": cell.hash,
        "seed": cell.seed,
        "warm_up_s": scenario.warm_up_s,
        "results_version": RESULTS_VERSION,
        "code": code(),
        "versions": versions(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of what numbers depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in VERSIONED}


@cache
def code() -> str:
    """Digest of the program's own source: a result of other code is run again rather than believed."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".yaml", ".json"):
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
