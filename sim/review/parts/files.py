"""Part 13: what the real run is made with, and how it is sealed before and scored after."""

import shlex

from sim.review._gather import Evidence
from sim.review._model import Part, Table
from sim.review.parts.rule import rule_of

MOST_TRACES = 4
"""Traces that are listed one by one."""
MADE = (
    ("runs.json", "every run in its order, and what the header of its results says"),
    ("prediction.json", "what is predicted of every metric, pair by pair, with the interval that a campaign falls in"),
    ("rule.json, rule.txt", "part 12, for the program and for people"),
    ("cells/<cell>/windtunnel-<pair>.jsonl", "the requests of a pair, the same for both arms, with each arm's keys"),
    ("cells/<cell>/manifest.json", "both arms as they are configured, the one change, digests of all traces"),
    ("seal.json", "digests of all of these, and one digest over them"),
)


def files(ev: Evidence, command: str) -> Part:
    """13: the files of the real run with their digests, once it is sealed; how to seal and to score."""
    seal = command.replace("windtunnel review", "windtunnel seal", 1)
    steps = [seal, "# publish the digest, run what runs.json lists, one results file a run, then", _score(ev)]
    if ev.sealed is None:
        text = [
            "Not sealed yet. Sealing writes these files and fixes them by one digest before the first run.",
            f"They are for {rule_of(ev).pairs} pairs and one extension of as many.",
        ]
        return Part(
            13, "Files for the real run", text, [Table("13.1", "Files", ("file", "what it is"), MADE)],
            fixed="\n".join(steps),
        )  # fmt: skip
    traces = [each for each in ev.sealed.files if "/windtunnel-" in each[0]]
    hidden = {name for name, _ in traces[MOST_TRACES:]}
    rows = [each for each in ev.sealed.files if each[0] not in hidden]
    note = f"and {len(hidden)} traces more, in seal.json" if hidden else ""
    text = [f"Sealed as {ev.sealed.digest}. Nothing of these may change any more."]
    table = Table("13.1", "Files", ("file", "SHA-256"), rows, note)
    return Part(13, "Files for the real run", text, [table], fixed="\n".join(steps))


def _score(ev: Evidence) -> str:
    folder = shlex.quote(f"results/{ev.scenario.name}/seal")
    return f"windtunnel score RESULTS --seal {folder}"
