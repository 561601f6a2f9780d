"""Files and folders of recorded decisions: read, replayed, and told in lines.

A folder stands for its JSON files; ``distributions.json`` among them holds counts. What cannot be replayed is named
with the reason. What is no recording at all is an error.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.conform._counts import CaseResult, judge
from sim.conform._products import NotApplicableError, model_of
from sim.conform._replay import Row, replay
from sim.errors import ScenarioError

COUNTS = "distributions.json"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FileResult:
    """One recording: its rows, or why there are none."""

    path: Path
    rows: tuple[Row, ...] = ()
    reason: str = ""
    """Why it could not be replayed."""

    @property
    def mismatches(self) -> list[Row]:
        """Rows that our policy could not have given."""
        return [row for row in self.rows if not row.passes]

    def count(self) -> dict[str, int]:
        """Rows that agree, by kind, and those that do not."""
        kinds = Counter(row.kind if row.passes else "mismatched" for row in self.rows)
        return {kind: kinds[kind] for kind in ("determined", "open", "mismatched")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """All recordings that were asked for."""

    files: tuple[FileResult, ...] = ()
    cases: tuple[CaseResult, ...] = field(default=())

    @property
    def passes(self) -> bool:
        """Whether nothing disagrees; what could not be replayed does not."""
        return not any(each.mismatches for each in self.files) and all(case.passes for case in self.cases)

    def lines(self) -> Iterator[str]:
        """What a reader wants to know: rows by file, the first mismatches with what was in flight, the counts."""
        for each in self.files:
            if each.reason:
                yield f"{each.path.name}: not replayed: {each.reason}"
                continue
            counts = each.count()
            yield f"{each.path.name}: " + ", ".join(f"{number} {kind}" for kind, number in counts.items())
            yield from (f"  {_explain(row)}" for row in each.mismatches[:_SHOWN])
        for case in self.cases:
            yield f"{COUNTS}: {case.name}: {_verdict(case)}"


def check(paths: Iterable[Path]) -> Outcome:
    """Hold recordings against the policies. Raises ``ScenarioError`` for what cannot be read."""
    files: list[FileResult] = []
    cases: list[CaseResult] = []
    for path in _expand(paths):
        content = _read(path)
        if isinstance(content, list):
            cases.extend(_guard(path, lambda content=content: judge(content)))
        else:
            files.append(_guard(path, lambda path=path, content=content: _replay(path, content)))
    return Outcome(tuple(files), tuple(cases))


def _expand(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.glob("*.json"))
        if not found:
            raise ScenarioError(f"{path} holds no recording: no file in it ends in .json")
        yield from found


def _read(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ScenarioError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, list) and not (isinstance(content, dict) and "requests" in content):
        raise ScenarioError(f"{path} is no recording: it has no list of requests")
    return content


def _replay(path: Path, vector: dict[str, Any]) -> FileResult:
    try:
        policy = model_of(vector)
    except NotApplicableError as error:
        return FileResult(path, reason=str(error))
    return FileResult(path, tuple(replay(vector, policy)))


def _guard(path: Path, work: Any) -> Any:
    """Run a part of the check; what a file lacks or contradicts is the error of who wrote it."""
    try:
        return work()
    except KeyError as error:
        raise ScenarioError(f"{path}: {error.args[0]!r} is missing") from None
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{path}: {error}") from None


def _explain(row: Row) -> str:
    seen = ", ".join(f"{url} {load}" for url, load in row.in_flight.items())
    allowed = ", ".join(str(url) for url in row.allowed)
    return f"{row.id}: recorded {row.expected}, ours {allowed} ({row.branch}); in flight: {seen}"


def _verdict(case: CaseResult) -> str:
    if not case.passes:
        return case.reason
    if case.reason:
        return f"not judged: {case.reason}"
    return "fits" if case.p_value is None else f"fits, p = {case.p_value:.3f}"
