"""Finished reviews, run again: docs/gallery, its pages, pictures and index.

    python docs/gallery.py                    # every review, written into docs/gallery: some minutes on two cores
    python docs/gallery.py slime_groups       # this one alone, and the index
    python docs/gallery.py --results FOLDER   # keep the runs there, and take those that are there

A page holds what ``windtunnel review`` writes of each cell, the cells side by side, what others measured beside it, and
the cells by hash: a test holds that they are those of the scenarios as they stand. Words about numbers are made of the
numbers; where a number decides which word is true, the code decides.
"""

import argparse
import re
import shlex
import struct
import sys
import tempfile
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

ROOT: Final = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from sim import charts, review  # noqa: E402 - the checkout comes first
from sim.metrics import METRICS  # noqa: E402
from sim.report.contrast import Finding, Lines  # noqa: E402
from sim.scenario import RESULTS_VERSION, Scenario, load_scenario, load_sweep  # noqa: E402
from sim.stats import Ratio, compare  # noqa: E402

FOLDER: Final = ROOT / "docs" / "gallery"
SCENARIOS: Final = ROOT / "scenarios" / "gallery"
WIDTH: Final = 120
MOST_BYTES: Final = 150_000
"""Of a picture: of the scales, the first that keeps it so small is taken."""
BESIDE: Final = "Other tables and the figures are in the HTML file beside this one."
"""What a review's Markdown says of its other files, which a page of the gallery has not."""
SCALES: Final = (2.0, 1.5, 1.25, 1.0)
SEARCHED: Final = ("9.1", "9.2", "9.3")
"""Tables of what was varied: assumptions, sizes, break-evens."""
SHOWN: Final = 2
"""Metrics of a picture of pairs."""
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """One cell, reviewed."""

    name: str
    """Empty where a scenario has one cell."""
    evidence: review.Evidence
    review: review.Review

    def finding(self, metric: str) -> Finding:
        """A metric of both arms."""
        return next(each for each in self.evidence.found.findings if each.metric == metric)

    def ratio(self, metric: str) -> Ratio:
        """Candidate over baseline."""
        return self.finding(metric).paired


@dataclass(frozen=True, slots=True)
class Prose:
    """What the index says of a review, in three paragraphs, and what others measured."""

    question: str
    answer: str
    next: str
    published: Sequence[Row]
    """Quantity, measured, simulated; the first row is the head."""
    more: Sequence[tuple[str, Sequence[Row]]] = ()
    """Further tables, each with its title."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A review of the gallery."""

    name: str
    """Of its scenario, and of its page."""
    title: str
    candidate: str
    prose: Callable[[Sequence[Made]], Prose]
    ablation: str | None = None
    lines: Lines = field(default_factory=Lines)
    pictures: Sequence[str] = ("paired_ratios",)
    """Of a cell, where they are drawn."""
    refused: Sequence[str] = ()
    """Cells of which it is known that nothing can be recommended, and the page says why."""

    def cells(self) -> list[tuple[str, list[str], Scenario]]:
        """Name, settings as ``--set`` has them, and scenario of each cell."""
        path = SCENARIOS / f"{self.name}.yaml"
        if "\nsweep:" not in path.read_text(encoding="utf-8"):
            return [("", [], load_scenario(path))]
        return [
            (each.name, [f"{key}={value}" for key, value in each.settings.items()], each.scenario)
            for each in load_sweep(path).variants
        ]

    def chosen(self) -> list[tuple[str, list[str], Scenario]]:
        """The same with the arms that are reviewed."""
        return [
            (name, settings, review.choose(scenario, None, self.candidate, self.ablation)[0])
            for name, settings, scenario in self.cells()
        ]


# -- slime -----------------------------------------------------------------------------------------------------------


def slime(made: Sequence[Made]) -> Prose:
    """Three cells by groups."""
    four, *more = made
    by_class = {each.name: each for each in four.evidence.result.placements if each.candidate == "group"}
    ratios = {name: each.ratio["samples_per_s"] for name, each in by_class.items()}
    saved = [1 - (each.ratio("prefill_tokens").ratio or 1) for each in made]
    rank = four.finding("samples_per_s").imbalance
    found = review.across([(each.name, each.evidence) for each in made])
    worse = [each.ratio("samples_per_s").p_worse or 0.0 for each in made]
    gains = "; ".join(
        f"{each.name.partition('=')[2]} groups {said(each.ratio('samples_per_s'))}, {share(p)} of pairs worse"
        for each, p in zip(made, worse, strict=True)
    )
    advice = [each.review.judgement.headline.partition(":")[0] for each in more]
    short = {each.name.partition("=")[2]: at_end(each.evidence, "workload.prompt.group_tokens", 4096) for each in more}
    early = {each.name: at_end(each.evidence, "fleet.engine.visibility", "at_schedule") for each in more}
    published: list[Row] = [
        ("quantity", "measured (pull request 2206, 20 pairs)", "simulated"),
        ("samples/s, 4 groups, all keys", "1.191 [1.116, 1.269]", said(four.ratio("samples_per_s"))),
        *(
            (f"keys {name}", f"{value} ({count} of 20 pairs)", f"{ratios[name]:.3f} ({by_class[name].pairs} pairs)")
            for name, value, count in (("2:2", "1.357", 8), ("3:1", "1.149", 10), ("4:0", "0.848", 2))
        ),
        ("rank correlation of imbalance and effect", "-0.691", "none" if rank is None else f"{rank.rho:.3f}"),
        ("prefill tokens removed, 4 groups", "30.0 to 47.6 % by cell", share(saved[0])),
        *(
            (f"samples/s, {each.name.partition('=')[2]} groups", "not measured", said(each.ratio("samples_per_s")))
            for each in more
        ),
    ]
    return Prose(
        question="""Four groups share two engines by four keys, and a draw of 4:0 puts all of them on one. Slime's
        maintainer has one measured campaign with four groups and none with the 16 or 32 groups that jobs have, and
        must decide whether one key a group becomes an option or the default.""",
        answer=f"""Simulated, one key a group against one a sample in samples/s: {gains}. {sentence(found.says)}. The
        gain is prefill that siblings share ({share(saved[0])} of it at 4 groups, {share(saved[-1])} at 32); the
        price is uneven keys, which fade as groups become many. Placing groups by least load instead of a hash takes
        the price away: {"; ".join(least_load(each) for each in made)}.""",
        next=f"""Run 16 and 32 groups ({advice[0]}; {advice[1]}), and not four again: there the draw of the keys
        decides a pair more than the change does. Report placements beside ratios. What would change this: prompts of
        4,096 tokens. Two of them fit a batch, so siblings are computed side by side and nothing is saved
        ({"; ".join(f"{found} at {groups} groups" for groups, found in short.items())}), unless a prompt counts as
        cached once it is scheduled; then 8,192 tokens give {"; ".join(early.values())}. All four measured cells removed
        prefill, so measure first what siblings of one batch share: one group on one engine, and its cached tokens. If
        prefill tokens fall by less than {share(round(min(saved[1:]) - 0.1, 2))} in the first three real pairs, the
        mechanism is not what is said here.""",
        published=published,
    )


def at_end(ev: review.Evidence, path: str, value: object) -> str:
    """The ratio where a field has another value, as the search for what flips the decision found it."""
    for bar in ev.sensitivity.bars if ev.sensitivity else ():
        for end in bar.ends:
            if end.settings.get(path) == value:
                found = end.ratio
                return "none" if found.ratio is None else f"{found.ratio:.3f} [{found.lo:.3f}, {found.hi:.3f}]"
    return "not searched"


def least_load(made: Made) -> str:
    """What the ablation arm does in samples/s against the baseline."""
    ev = made.evidence
    assert ev.ablation is not None
    found = arm_over(ev, ev.ablation.arm, "samples_per_s")
    return f"{said(found)} at {made.name.partition('=')[2]}"


# -- SWE -------------------------------------------------------------------------------------------------------------


def swe(made: Sequence[Made]) -> Prose:
    """One cell."""
    [only] = made
    ev = only.evidence
    assert ev.ablation is not None
    whole, stuck = only.ratio("time_to_90pct_s"), arm_over(ev, "sticky", "time_to_90pct_s")
    exit_alone = arms_ratio(ev, "sticky", ev.candidate, "time_to_90pct_s")
    hits = only.finding("prefix_hit_rate")
    prefill = only.ratio("prefill_tokens")
    p95 = only.ratio("group_completion_p95_s")
    published: list[Row] = [
        ("source", "measured", "simulated here"),
        (
            "SkyRL 1791: p90 of groups, hash over sticky least-loaded",
            "1.08 low, 1.84 moderate, 1.08 high pressure",
            f"p95 of groups, hash over sticky until saturated: {turned(p95)}",
        ),
        (
            "prime-rl 3255: sessions hashed, one engine saturated",
            "hits 98 to 5 % on it, about 4 times slower",
            f"hits {share(hits.baseline.mean)} over the fleet, against {share(hits.candidate.mean)}",
        ),
        (
            "verl 7435: exit at a margin of 2 in flight",
            "better than without in every paired workload",
            f"exit against none, time to 90 %: {said(exit_alone)} (margin 4)",
        ),
        (
            "verl 6533: exit by the pool's imbalance, long contexts",
            "18 to 20 % slower at a threshold of 4, none at 8",
            "not the same rule: it un-sticks every session at once",
        ),
        (
            "slime 1469: turn by turn against pinned",
            "6 to 7 times slower",
            "both arms pin; see slime_multi_turn in docs/reproductions.md",
        ),
    ]
    return Prose(
        question="""A coding-agent job hashes each session to one of 16 engines. Contexts of 50,000 tokens fill an
        engine at seven sessions; ten an engine are under way. Whoever runs the job must decide whether a router that
        remembers sessions, places them by load and lets them leave a full engine is worth its state.""",
        answer=f"""Simulated, time to 90 % of the samples: {said(whole)} of the hash's. The prompt tokens that are
        computed fall to {said(prefill)}, hits rise from {share(hits.baseline.mean)} to {share(hits.candidate.mean)}.
        Without its exit the rule gives {said(stuck)}: placement by load is one part of the gain and the exit the
        other ({said(exit_alone)} of the time without it).""",
        next="""Try it first where engines fill their memory, with a margin of some requests: a tight one moves
        sessions for small differences and computes their contexts again (verl 6533 measured that). Watch prefix hits
        by engine: one that falls away from the others is the trigger. What would change this: fewer sessions at a
        time, or a larger pool, so that contexts fit and little is lost to eviction; tools that take minutes, so that
        engines idle.""",
        published=published,
    )


# -- NeMo Gym --------------------------------------------------------------------------------------------------------

GYM_MEASURED: Final = {
    "12_engines": ((939, 837), (91.8, 91.6)),
    "28_engines": ((759, 827), (91.6, 91.7)),
    "28_engines_cap_112": ((1226, 1137), (93.5, 93.5)),
}
"""Pull request 2570 and 3663: walls in seconds and hits over queries in percent, consistent_hash and cache_aware."""


def gym(made: Sequence[Made]) -> Prose:
    """Three cells by engines and cap."""
    cells = {each.name: each for each in made}
    published: list[Row] = [
        ("cell", "wall of hash, of cache_aware", "simulated", "cache_aware over hash", "simulated", "hits", "simulated")
    ]
    for name, each in cells.items():
        wall, hits = each.finding("makespan_s"), each.finding("prefix_hit_rate_reported")
        own = f"{clock(wall.baseline.mean)}, {clock(wall.candidate.mean)}"
        own_hits = f"{share(hits.baseline.mean)}, {share(hits.candidate.mean)}"
        (old, new), rates = GYM_MEASURED[name]
        row = (f"{clock(old)}, {clock(new)}", own, f"{new / old:.3f}", said(wall.paired))
        published.append((words(name), *row, ", ".join(f"{rate:.1f} %" for rate in rates), own_hits))
    fleets: list[Row] = [("against", "arm", "measured", "simulated")]
    for title, one, other in (
        ("28 over 12 engines, no cap", "12_engines", "28_engines"),
        ("cap of 112 over none, 28 engines", "28_engines", "28_engines_cap_112"),
    ):
        for place, arm in enumerate(("consistent_hash", "cache_aware")):
            values = [cells[each].evidence.result.arms[arm].values["makespan_s"].to_numpy() for each in (one, other)]
            measured = GYM_MEASURED[other][0][place] / GYM_MEASURED[one][0][place]
            fleets.append((title, arm, f"{measured:.3f}", said(compare(*values, "lower"))))
    found = review.across([(each.name, each.evidence) for each in made])
    gains = "; ".join(f"{words(each.name)} {said(each.ratio('makespan_s'))}" for each in made)
    inside = min(each.inside_share for each in found.places)
    held = [name for name, each in cells.items() if holds(each.ratio("makespan_s"), GYM_MEASURED[name][0])]
    ordered = [name for name, each in cells.items() if is_in_order(each.ratio("makespan_s"), GYM_MEASURED[name][0])]
    measured_gains = ", ".join(f"{new / old:.3f}" for (old, new), _ in GYM_MEASURED.values())
    return Prose(
        question="""NeMo Gym replayed 610 recorded coding sessions on 12 and on 28 engines. One run a cell put
        cache_aware 11 % ahead of a hash on 12 engines, 9 % behind on 28, and 7 % ahead on 28 with 112 sessions at a
        time. Its maintainers must decide which rule to ship, and whether 16 more engines pay.""",
        answer=f"""{len(ordered)} of {len(cells)} cells come out in the measured order: walls of cache_aware over the
        hash were {measured_gains} on 12, on 28 and on 28 engines with the cap, and are {gains}. The measured ratio lies
        in our interval in {len(held)} of {len(cells)} cells. It is of one run an arm and cell: repeats on the same
        nodes differ by 1.8 %, runs on other nodes by 13 to 17 %, and why the mechanism that the thread names does not
        show here is in [reproductions](../reproductions.md). No recommendation: the cost of a step is estimated, and
        {share(inside)} of the time lies in a region in which steps were measured. {sentence(found.says)}. 28 engines
        in place of 12 give {fleets[1][3]} of the hash's wall and {fleets[2][3]} of cache_aware's: four client
        processes prepare the prompts of either fleet, and the longest session is as long on both. The cap makes them
        {fleets[3][3]} and {fleets[4][3]} times as long.""",
        next="""Measure steps of this model on this device (`windtunnel calibrate`), time the client, and publish the
        order of the sessions: these three decide what is open here, before another GPU run does. Then run pairs in
        one allocation, since repeats of one cell differ by 1.8 % and cells on other nodes by 13 to 17 %. Spend no
        engines before the client: raise its processes first. What would change this: a shared prefix between
        sessions, or starts spread in time, where a match and a load count tell engines apart.""",
        published=published,
        more=(("Walls of one fleet or cap over another, with the same sessions", fleets),),
    )


ENTRIES: Final = (
    Entry(
        "slime_groups",
        "One key a group or a sample: slime at 4, 16 and 32 groups",
        "group",
        slime,
        ablation="group_by_least_load",
        pictures=("paired_ratios", "tornado"),
    ),
    Entry(
        "swe_sticky_until_saturated",
        "Sticky until saturated: a coding-agent job on 16 engines",
        "sticky_until_saturated",
        swe,
        ablation="sticky",
        lines=Lines(interest=0.15),
        pictures=("paired_ratios", "tornado", "timeline_baseline", "timeline_candidate"),
    ),
    Entry(
        "nemo_gym_fleets",
        "Cache-aware or hashed: NeMo Gym on 12 and 28 engines, with a cap and without",
        "cache_aware",
        gym,
        pictures=("paired_ratios", "tornado"),
        refused=("12_engines", "28_engines", "28_engines_cap_112"),
    ),
)


# -- numbers in words ------------------------------------------------------------------------------------------------


def said(found: Ratio) -> str:
    """A ratio with its interval."""
    if found.ratio is None:
        return "none"
    return f"{found.ratio:.3f}" + ("" if found.lo is None else f" [{found.lo:.3f}, {found.hi:.3f}]")


def holds(found: Ratio, measured: tuple[float, float]) -> bool:
    """Whether a measured pair of values, baseline first, has its ratio in the simulated interval."""
    return found.lo is not None and found.hi is not None and found.lo <= measured[1] / measured[0] <= found.hi


def is_in_order(found: Ratio, measured: tuple[float, float]) -> bool:
    """Whether the simulated interval lies on the side of 1 on which a measured pair of values does, baseline first."""
    if found.lo is None or found.hi is None:
        return False
    return found.hi < 1 if measured[1] < measured[0] else found.lo > 1


def turned(found: Ratio) -> str:
    """Baseline over candidate."""
    if found.ratio is None or found.lo is None or found.hi is None:
        return "none"
    return f"{1 / found.ratio:.3f} [{1 / found.hi:.3f}, {1 / found.lo:.3f}]"


def share(value: float | None) -> str:
    """In percent."""
    return "none" if value is None else f"{100 * value:.1f} %".replace(".0 %", " %")


def clock(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "none" if seconds is None else f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


def words(name: str) -> str:
    """A cell's name as it is read."""
    return re.sub(r"_cap_(\d+)", r", cap \1", name).replace("_", " ")


def sentence(text: str) -> str:
    """With a capital; names of arms are as they are."""
    return f"Over all cells {text}"


def arm_over(ev: review.Evidence, arm: str, metric: str) -> Ratio:
    """An arm over the baseline."""
    return arms_ratio(ev, ev.baseline, arm, metric)


def arms_ratio(ev: review.Evidence, one: str, other: str, metric: str) -> Ratio:
    """Two arms, pair by pair."""
    values = [ev.result.arms[name].values[metric].to_numpy() for name in (one, other)]
    return compare(*values, METRICS[metric].better)


# -- pages -----------------------------------------------------------------------------------------------------------


def make(entry: Entry, results: Path, jobs: int) -> list[Made]:
    """Run and review every cell."""
    found = []
    for name, settings, scenario in entry.chosen():
        print(f"{entry.name} {name}".rstrip(), file=sys.stderr, flush=True)
        evidence = review.gather(
            scenario,
            entry.candidate,
            entry.lines,
            out=results,
            ablation=entry.ablation,
            jobs=jobs,
            ablation_pairs=None,
            sensitivity_pairs=None,
            told=lambda says: print(says, file=sys.stderr, flush=True),
        )
        found.append(Made(name, evidence, review.review_of(evidence, command(entry, settings))))
    refused = [each.name for each in found if each.review.judgement.is_refused]
    if refused != list(entry.refused):
        raise SystemExit(f"{entry.name}: refused are {refused}, documented {list(entry.refused)}")
    return found


def command(entry: Entry, settings: Sequence[str]) -> str:
    """What makes the review of a cell."""
    asked = ["windtunnel", "review", f"scenarios/gallery/{entry.name}.yaml", "--candidate", entry.candidate]
    asked += ["--ablation", entry.ablation] if entry.ablation else []
    asked += ["--interest", f"{entry.lines.interest:g}"] if entry.lines != Lines() else []
    for each in settings:
        asked += ["--set", each]
    return shlex.join(asked)


def page(entry: Entry, made: Sequence[Made], folder: Path) -> str:
    """The Markdown of one review; its pictures are written beside it."""
    prose = entry.prose(made)
    text = [
        f"# {entry.title}",
        "",
        "Written by `python docs/gallery.py`; every number is simulated unless it says measured.",
    ]
    for each in next(part for part in made[0].review.parts if part.number == 1).text:
        text += ["", *wrapped(each, "> ")]
    if len(made) > 1:
        found = review.across([(each.name, each.evidence) for each in made])
        text += ["", "## The cells side by side", "", *wrapped(f"{sentence(found.says)}.")]
        text += ["", *table([found.table.head, *found.table.rows])]
        text += [
            "",
            "Holm corrects p for the number of cells; `all` weighs cells equally. The rule of a default, better in",
        ]
        text += ["every cell, needs no correction: it is wrong no more often than its weakest cell."]
        text += ["", *wrapped(direction(made[0].evidence))] if direction(made[0].evidence) else []
        text += ["", picture(entry, "", "cells", cells_chart(entry, found), folder)]
    text += ["", "## Measured by others, and simulated", "", *table(prose.published)]
    for title, rows in prose.more:
        text += ["", f"{title}:", "", *table(rows)]
    for each in made:
        text += ["", f"## {words(each.name) if each.name else 'The review'}", "", *cell_text(entry, each, folder)]
    text += ["", "## What this page was made of", "", f"Results version {RESULTS_VERSION}.", ""]
    text += table([("cell", "arm", "hash", "pairs"), *stamps(entry)])
    return "\n".join(text) + "\n"


def direction(ev: review.Evidence) -> str:
    """Which way round ratios of cells are, where that is not as everywhere else."""
    if not ev.is_lower_better:
        return ""
    return (
        f"The ratios of this table are turned, so that more than 1 is better: {ev.baseline} over {ev.candidate}. "
        "All others on this page are the other way round."
    )


def cell_text(entry: Entry, made: Made, folder: Path) -> Iterator[str]:
    """What the review's own Markdown says, one level down, and its pictures."""
    body = review.markdown(made.review).split("\n")[1:]
    yield from "\n".join(body).replace(BESIDE, "").strip().split("\n")
    yield from searched(made)
    whole = made.evidence.result
    first = [each for each in whole.comparisons if each.metric in whole.metrics[:SHOWN]]
    drawn = review.figures(replace(made.evidence, result=replace(whole, comparisons=first)))
    for name in entry.pictures:
        if name in drawn:
            yield ""
            yield picture(entry, made.name, name, drawn[name].chart, folder, drawn[name].says)


def searched(made: Made) -> Iterator[str]:
    """Part 9: what was searched for what would change the answer, and what was found."""
    part = next(each for each in made.review.parts if each.title == "Sensitivity")
    yield from ("", "What would change it:", "")
    for each in part.text:
        yield from wrapped(each, "- ", "  ")
    for each in part.tables:
        if each.id in SEARCHED:
            yield from ("", f"<details><summary>Table {each.id}: {each.title}</summary>", "")
            yield from (*table([each.head, *each.rows]), "", "</details>")


def picture(entry: Entry, cell: str, name: str, chart: Any, folder: Path, says: str = "") -> str:
    """Save a chart, small enough to be committed; the line that shows it."""
    stem = "-".join(each for each in (entry.name, cell.replace("=", "_"), name) if each)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    path = folder / "images" / f"{stem}.png"
    for scale in SCALES:
        chart.save(path, format="png", scale_factor=scale)
        path.write_bytes(packed(path.read_bytes()))
        if path.stat().st_size <= MOST_BYTES:
            break
    else:
        raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}: draw less")
    alt = " ".join((says or f"{name} of {entry.name}").replace("[", "(").replace("]", ")").split())
    return f"![{alt}](images/{stem}.png)"


def packed(png: bytes) -> bytes:
    """The same picture, its lines deflated as well as can be: the renderer hardly tries."""
    start, chunks = 8, []
    while start < len(png):
        (size,) = struct.unpack(">I", png[start : start + 4])
        chunks.append((png[start + 4 : start + 8], png[start + 8 : start + 8 + size]))
        start += size + 12
    lines = zlib.compress(zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT")), 9)
    kept = [each for each in chunks if each[0] != b"IDAT"]
    kept.insert(-1, (b"IDAT", lines))
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in kept
    )


def cells_chart(entry: Entry, found: review.Across) -> Any:
    """Ratio of each cell against the lines of harm and of interest."""
    better = METRICS[found.metric].better
    rows = [
        {
            "cell": words(each.name),
            "candidate": found.candidate,
            "ratio": each.paired.ratio,
            "lo": each.paired.lo,
            "hi": each.paired.hi,
        }
        for each in found.places
    ]
    lines = {"harm": 1 - entry.lines.harm, "interest": 1 + entry.lines.interest}
    title = f"{found.metric} by cell (simulated)"
    return charts.ratio_by_cell(pl.DataFrame(rows), title, higher_is_better=better != "lower", **lines)


def stamps(entry: Entry) -> list[Row]:
    """Every cell and arm with the hash of its world as it stands, and its pairs."""
    return [
        (words(name) or "–", arm, cell.hash, str(scenario.pairs))
        for name, _, scenario in entry.chosen()
        for arm, cell in scenario.arms.items()
    ]


def index(made: dict[str, Sequence[Made]]) -> str:
    """Three paragraphs a review, the cells side by side, and what others measured."""
    text = ["# Gallery: finished reviews", ""]
    text += wrapped(
        """What `windtunnel review` gives for three questions that were asked in public, with the published numbers
        beside ours. Written by `python docs/gallery.py`; every number is simulated unless it says measured, and a
        test holds that the pages are of the scenarios as they stand. How far such ratios were right where somebody
        measured: [validation](../validation.md)."""
    )
    for entry in ENTRIES:
        cells = made[entry.name]
        prose = entry.prose(cells)
        text += ["", f"## [{entry.title}]({entry.name}.md)"]
        for head, body in (("Question.", prose.question), ("Answer.", prose.answer), ("Next.", prose.next)):
            text += ["", *wrapped(f"**{head}** {body}")]
        if len(cells) > 1:
            found = review.across([(each.name, each.evidence) for each in cells])
            text += ["", *wrapped(f"{found.table.title}. {direction(cells[0].evidence)}")]
            text += ["", *table([found.table.head, *found.table.rows])]
        text += ["", "Measured by others, and simulated:", "", *table(prose.published)]
        for title, rows in prose.more:
            text += ["", f"{title}:", "", *table(rows)]
        text += ["", f"    {command(entry, entry.cells()[-1][1])}"]
    return "\n".join(text) + "\n"


def wrapped(text: str, before: str = "", further: str | None = None) -> list[str]:
    """Lines of a paragraph, with something before the first and before further ones."""
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=before,
        subsequent_indent=before if further is None else further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rows: Sequence[Row]) -> list[str]:
    """A Markdown table; the first row is its head."""
    head, *rest = rows
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rest)]


def main(words_given: Sequence[str] | None = None) -> int:
    """Write pages and index."""
    parser = argparse.ArgumentParser(description="Write docs/gallery: finished reviews.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="reviews to make; all by default, without which no index"
    )
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--results", type=Path, help="folder of runs to keep and to take from; by default none is kept")
    asked = parser.parse_args(words_given)
    known = {entry.name: entry for entry in ENTRIES}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"no review {unknown[0]}; there are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as passing:
        results = asked.results or Path(passing)
        made = {}
        for name in asked.names or known:
            made[name] = make(known[name], results, asked.jobs)
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / f"{name}.md").write_text(page(known[name], made[name], FOLDER), encoding="utf-8")
            print(f"wrote docs/gallery/{name}.md", file=sys.stderr, flush=True)
        if len(made) == len(known):
            (FOLDER / "README.md").write_text(index(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
