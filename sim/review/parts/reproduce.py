"""Part 16: the command, the seeds, the sums."""

from sim.review._gather import Evidence
from sim.review._model import Part, Table
from sim.review.parts._words import arms
from sim.scenario import RESULTS_VERSION


def reproduce(ev: Evidence, command: str) -> Part:
    """16: the command, the seeds, the sums."""
    rows = [
        (name, ev.result.arms[name].hash, str(ev.scenario.seed), f"0 to {ev.pairs - 1}", ev.checksums[name])
        for name in arms(ev)
    ]
    head = ("arm", "cell", "seed", "replications", "SHA-256 of values.parquet")
    text = [f"Results version {RESULTS_VERSION}. The same command gives the same bytes."]
    return Part(16, "Reproduce", text, [Table("16.1", "What was run", head, rows)], fixed=command)
