"""Part 5: whether the simulator did what it says: checks and null controls of these runs, and truths on record."""

from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import value
from sim.validation import Record, RecordedRow

WORDS = {True: "holds", False: "FAILS", None: "not applicable"}


def verification(ev: Evidence) -> Part:
    """5: whether the simulator did what it says."""
    rows = [(check.name, check.says, WORDS[check.held]) for check in ev.checks]
    held = sum(row.verdict == "reproduced" for _, row in ev.record.truths)
    count = f"{held} of {len(ev.record.truths)} hold"
    said = f"Analytic truths and null controls on record: {count}; `windtunnel validate` runs them again."
    text = [said, *stale(ev.record)]
    tables = [
        Table("5.1", "Checks of these runs", ("check", "says", "verdict"), rows),
        Table("5.2", "Analytic truths and null controls on record", HEAD, _truths(ev.record)),
    ]
    return Part(5, "Verification", text, tables)


HEAD = ("case", "says", "kind", "known", "ours", "verdict")


def _truths(record: Record) -> list[Row]:
    kinds = {"truth": "analytic", "null": "null control"}
    return [
        (case.name, row.name, kinds[row.kind], _known(row), value(row.ours, row.lo, row.hi), row.verdict)
        for case, row in record.truths
    ]


def _known(row: RecordedRow) -> str:
    """What is known of a value: the value itself, or what it may not exceed where the band ends there."""
    lo, hi = row.band
    if lo < row.value == hi:
        return f"<= {value(row.value)}"
    return value(row.value)


def stale(record: Record) -> list[str]:
    """That the record is of another version, where it is."""
    if not record.is_stale:
        return []
    of = f"STALE: the record is of results version {record.results_version}, and numbers have changed since"
    return [f"{of}: run windtunnel validate --full --record again before you rely on it."]
