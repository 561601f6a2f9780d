"""Part 13: what the real run is made with, and how it is sealed before and scored after."""

import shlex

from sim.export import Start, changed_lines, starts
from sim.review._gather import Evidence
from sim.review._model import Part, Table
from sim.review.parts.rule import planned_pairs

MOST_LINES = 12
"""Lines that are shown of what differs between the files of the arms."""
MOST_TRACES = 4
"""Traces that are listed one by one."""
REVIEWS_OWN = ("--ablation", "--ablation-pairs", "--sensitivity-pairs", "--sensitivity-requests")
"""Options of ``windtunnel review`` that sealing does not have; each takes a value."""
MADE = (
    ("runs.json", "every run in its order, and what the header of its results says"),
    ("prediction.json", "what is predicted of every metric, pair by pair, with the interval that a campaign falls in"),
    ("rule.json, rule.txt", "part 12, for the program and for people"),
    ("cells/<cell>/windtunnel-<pair>.jsonl", "the requests of a pair, the same for both arms, with each arm's keys"),
    ("cells/<cell>/manifest.json", "both arms as they are configured, the one change, digests of all traces"),
    ("cells/<cell>/arms/<arm>/", "flags and headers that the arm is started with"),
    ("seal.json", "digests of all of these, and one digest over them"),
)


def files(ev: Evidence, command: str) -> Part:
    """13: the files of the real run with their digests, once it is sealed; how to seal and to score."""
    steps = [_seal(command), "# publish the digest, run what runs.json lists, one results file a run, then", _score(ev)]
    if ev.sealed is None:
        text = [
            "Not sealed yet. Sealing writes these files and fixes them by one digest before the first run.",
            f"They are for {planned_pairs(ev)} pairs and one extension of as many.",
        ]
        made = Table("13.1", "Files", ("file", "what it is"), MADE)
        return Part(13, "Files for the real run", text, [made, *_arms(ev)], fixed="\n".join(steps))
    traces = [each for each in ev.sealed.files if "/windtunnel-" in each[0]]
    hidden = {name for name, _ in traces[MOST_TRACES:]}
    rows = [each for each in ev.sealed.files if each[0] not in hidden]
    note = f"and {len(hidden)} traces more, in seal.json" if hidden else ""
    text = [f"Sealed as {ev.sealed.digest}. Nothing of these may change any more."]
    table = Table("13.1", "Files", ("file", "SHA-256"), rows, note)
    return Part(13, "Files for the real run", text, [table, *_arms(ev)], fixed="\n".join(steps))


def _arms(ev: Evidence) -> list[Table]:
    """How each arm is started, what its product cannot have, and what the change comes down to in its files."""
    found = starts(ev.scenario)
    one, other = found[ev.baseline], found[ev.candidate]
    head = ("arm", "router", "cannot be had as simulated")
    arms = Table("13.2", "How the arms are started", head, [_start(each) for each in (one, other)])
    lines = list(changed_lines(one, other))
    note = f"and {len(lines) - MOST_LINES} lines more, in the files" if len(lines) > MOST_LINES else ""
    rows = [(name, before or "–", after or "–") for name, before, after in lines[:MOST_LINES]]
    change = Table("13.3", "Lines that differ", ("file", ev.baseline, ev.candidate), rows, note)
    return [arms, change]


def _start(each: Start) -> tuple[str, str, str]:
    return each.arm, each.product or "no product of this list ships the policy", "; ".join(each.impossible) or "–"


def _seal(command: str) -> str:
    """The command that seals what a review's command reviews: some options are the review's own."""
    words = shlex.split(command.replace("windtunnel review", "windtunnel seal", 1))
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in REVIEWS_OWN and before not in REVIEWS_OWN
    ]
    return shlex.join(kept)


def _score(ev: Evidence) -> str:
    folder = shlex.quote(f"results/{ev.scenario.name}/seal")
    return f"windtunnel score RESULTS --seal {folder}"
