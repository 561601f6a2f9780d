"""One side of a comparison, from disk: a stored result, or measurements of a real run.

    a folder with manifest.json     a result that ``windtunnel run`` stored
    .csv or .parquet, wide          one row a pair: ``pair`` and columns named as metrics
    .csv or .parquet, a log         one row a request: ``submitted_s``, ``ended_s`` and what else was measured, under
                                    the names of the requests table; several runs are told apart by ``pair``

A measured log has those metrics whose columns it has. Where a column is missing, this stands for it: ``pair`` 0, each
row a session and a request of its own with one turn, ``status`` finished, a group where ``group`` is given.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sim.errors import ScenarioError
from sim.log import store
from sim.metrics import METRICS, evaluate
from sim.report.placements import Placed

REQUIRED = ("submitted_s", "ended_s")


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of one arm."""

    name: str
    path: Path
    values: pl.DataFrame
    """One row a pair, ``pair`` first, then those metrics that there are."""
    manifest: dict[str, Any] | None = None
    """Of a stored result; None: measured."""
    placed: Placed | None = None
    completions: pl.DataFrame | None = None
    """``pair`` and ``completion_s`` of each group that finished, where there are groups."""
    decisions: pl.DataFrame | None = None
    """``pair`` and a digest of its decisions, of a stored result."""

    @property
    def is_measured(self) -> bool:
        """Comes from a real run."""
        return self.manifest is None

    @property
    def is_blocked(self) -> bool:
        """Its pairs were planned by placement class."""
        return self.manifest is not None and self.manifest["cell"]["client"].get("blocking", "none") != "none"

    @property
    def metrics(self) -> list[str]:
        """Metrics that this side has in at least one pair, in their usual order."""
        return [
            name for name in METRICS if name in self.values.columns and self.values[name].null_count() < self.height
        ]

    @property
    def height(self) -> int:
        """Number of pairs."""
        return self.values.height


def read_side(path: Path) -> Side:
    """Read a stored result or a file of measurements; ScenarioError, one line, for what is neither."""
    if path.is_dir():
        return _stored(path)
    if not path.exists():
        raise ScenarioError(f"no result and no file of measurements: {path}")
    frame = _file(path)
    return _log(path, frame) if set(REQUIRED) <= set(frame.columns) else _wide(path, frame)


def first(side: Side, pairs: int) -> Side:
    """The side with its pairs 0 to ``pairs`` alone: more may be stored than were asked for."""

    def cut(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        return None if frame is None else frame.filter(pl.col("pair") < pairs)

    kept = side.values.filter(pl.col("pair") < pairs)
    return replace(side, values=kept, completions=cut(side.completions), decisions=cut(side.decisions))


def of_two_arms(paths: Sequence[Path]) -> tuple[Side, Side]:
    """Baseline and candidate: two results or files of measurements, or one folder that holds the results of both.

    In a folder the baseline is the arm that the scenario names so. ScenarioError, one line, for anything else.
    """
    if len(paths) == 2:
        return read_side(paths[0]), read_side(paths[1])
    if len(paths) > 2:
        raise ScenarioError(
            f"a pair is one run of each of two arms: name two results, baseline first, not {len(paths)}"
        )
    [path] = paths
    if not path.exists():
        raise ScenarioError(f"no such result: {path}")
    found = results_below(path) if path.is_dir() else []
    if found == [path] or not path.is_dir():
        raise ScenarioError(f"{path} is the result of one arm: name that of the other one too, baseline first")
    if len(found) != 2:
        names = ", ".join(f"{each.name} ({arm_of(each)}, {_manifest(each).get('pairs', '?')} pairs)" for each in found)
        raise ScenarioError(
            f"{path} holds {len(found)} results, not those of two arms: "
            + (f"name two of them, baseline first: {names}" if found else "run the scenario, or name its results")
        )
    one, other = sorted(map(read_side, found), key=_is_candidate)
    if _is_candidate(one) == _is_candidate(other):
        raise ScenarioError(
            f"{path} does not say which of its two results is the baseline: name both, baseline first: "
            f"{one.path.name} ({one.name}), {other.path.name} ({other.name})"
        )
    return one, other


def _is_candidate(side: Side) -> bool:
    return side.manifest is not None and side.manifest.get("baseline") not in (side.manifest.get("arms") or ())


def results_below(path: Path) -> list[Path]:
    """The folder itself if it is a result, else the results right below it, by name."""
    if (path / "manifest.json").is_file():
        return [path]
    return sorted(each.parent for each in path.glob("*/manifest.json") if not each.parent.name.startswith("."))


def arm_of(result: Path) -> str:
    """The arm, or arms, that a stored result is of."""
    return _arm(_manifest(result), result)


def _stored(path: Path) -> Side:
    found = results_below(path)
    if not found:
        raise ScenarioError(f"{path} holds no result: no manifest.json there or one folder below")
    if len(found) > 1:
        names = ", ".join(f"{each.name} ({arm_of(each)})" for each in found)
        raise ScenarioError(f"{path} holds {len(found)} results, name one: {names}")
    manifest, rows = _manifest(found[0]), store.read_values(found[0])
    known = [name for name in METRICS if name in rows.columns]
    if not {"pair", "class", "decisions"} <= set(rows.columns) or not known:
        raise ScenarioError(f"{found[0]} was stored by another version: run it again")
    return Side(
        name=_arm(manifest, found[0]),
        path=found[0],
        values=rows.select("pair", *known).sort("pair"),
        manifest=manifest,
        placed=_placed(rows),
        completions=_completions(store.read(found[0]).groups) if store.has_tables(found[0]) else None,
        decisions=rows.select("pair", "decisions"),
    )


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        known = (manifest["cell"]["fleet"]["engines"], manifest["cell"]["workload"], manifest["seed"], manifest["hash"])
        if None in known:
            raise ValueError("fleet, workload, seed or hash is missing")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScenarioError(f"{folder / 'manifest.json'} is not the manifest of a result: {error}") from None
    return dict(manifest)


def _arm(manifest: dict[str, Any], folder: Path) -> str:
    return next(iter(manifest.get("arms") or []), folder.name)


def _placed(rows: pl.DataFrame) -> Placed | None:
    classes = rows.select("pair", "class").drop_nulls().sort("pair")
    keys = {sum(map(int, name.split(":"))) for name in classes["class"].unique()}
    engines = {name.count(":") + 1 for name in classes["class"].unique()}
    return Placed(keys.pop(), engines.pop(), classes) if len(keys) == len(engines) == 1 else None


def _completions(groups: pl.DataFrame) -> pl.DataFrame:
    return groups.filter(pl.col("finished") == pl.col("sessions")).select("pair", "completion_s")


def _file(path: Path) -> pl.DataFrame:
    if path.suffix not in (".csv", ".parquet"):
        raise ScenarioError(f"{path} is neither a folder nor a .csv or .parquet file")
    try:
        frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScenarioError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    if frame.is_empty():
        raise ScenarioError(f"{path} has no rows")
    return frame


def _wide(path: Path, frame: pl.DataFrame) -> Side:
    known = [name for name in METRICS if name in frame.columns]
    if not known:
        wanted = "submitted_s and ended_s (a log), or pair and columns named as metrics"
        raise ScenarioError(f"{path} has neither {wanted}; it has {', '.join(frame.columns)}")
    pairs = frame if "pair" in frame.columns else frame.with_row_index("pair")
    if pairs["pair"].is_duplicated().any():
        raise ScenarioError(f"{path} has a pair twice: one row a pair")
    return Side(path.stem, path, _numbers(path, pairs, ["pair"], known).sort("pair"))


def _log(path: Path, frame: pl.DataFrame) -> Side:
    given = [name for name in frame.columns if name not in (*REQUIRED, "pair", "status")]
    frame = _numbers(
        path, frame if "pair" in frame.columns else frame.with_columns(pair=0), ["pair"], list(REQUIRED)
    ).hstack(frame.select([*given, *(["status"] if "status" in frame.columns else [])]))
    missing = {
        "status": pl.lit("finished"),
        "session": pl.int_range(pl.len()).over("pair"),
        "is_last": pl.lit(1),
        "parent": pl.lit(-1),
    }
    requests = frame.with_columns(value.alias(name) for name, value in missing.items() if name not in frame.columns)
    if "first_token_s" in requests.columns:
        requests = requests.with_columns(ttft_s=pl.col("first_token_s") - pl.col("submitted_s"))
    requests = requests.with_columns(
        e2e_s=pl.col("ended_s") - pl.col("submitted_s"), deadline_s=pl.lit(None, pl.Float64)
    )
    replications = requests.group_by("pair").agg(
        start_s=pl.col("submitted_s").min(), makespan_s=pl.col("ended_s").max() - pl.col("submitted_s").min()
    )
    requests = requests.join(replications, on="pair")
    sources = {"requests": requests, "replications": replications}
    if "group" in requests.columns:
        sources["groups"] = _groups(requests)
    values = evaluate(replications.select("pair").sort("pair"), sources)
    return Side(path.stem, path, values, completions=_completions(sources["groups"]) if "groups" in sources else None)


def _groups(requests: pl.DataFrame) -> pl.DataFrame:
    finished = (pl.col("status") == "finished") & (pl.col("is_last") == 1)
    return requests.group_by("pair", "group").agg(
        completion_s=pl.col("ended_s").max() - pl.col("submitted_s").min(),
        sessions=pl.col("session").n_unique(),
        finished=pl.col("session").filter(finished).n_unique(),
    )


def _numbers(path: Path, frame: pl.DataFrame, whole: list[str], floats: list[str]) -> pl.DataFrame:
    try:
        return frame.select(
            *(pl.col(name).cast(pl.Int64) for name in whole), *(pl.col(name).cast(pl.Float64) for name in floats)
        )
    except pl.exceptions.PolarsError as error:
        raise ScenarioError(f"{path}: a column holds what is no number: {str(error).splitlines()[0]}") from None
