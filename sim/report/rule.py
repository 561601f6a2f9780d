"""The decision rule of a campaign, written down before its first real run: one object, its text, and its verdict.

    primary     ratio candidate / baseline of one metric, turned so that more than 1 is better; geometric mean over the
                pairs of a cell, cells weighted equally
    RECOMMEND   as ADOPT, and the lower end > 1 in every cell, each by its own interval
    ADOPT       lower end > 1 - harm, mean > 1 + interest, and the tail metric's ratio not shown to be worse: its upper
                end < 1 + interest
    REJECT      upper end < 1 + harm: a gain of that size is ruled out; or the tail metric is shown to be worse: the
                lower end of its ratio > 1 + interest
    SMALL       lower end > 1 and mean <= 1 + interest: better, by less than is worth it
    else        INCONCLUSIVE; at most one extension by as many pairs, judged on all pairs together

The first that holds is the verdict. The lines are written once (``Rule.lines``), each with its text and its test:
pages, the sealed file, ``decide`` and ``odds`` all go through them. Harm may not exceed interest, so that ADOPT (a mean
above 1 + interest) and REJECT by the primary metric cannot both hold.

Ends are those of Student's t on log ratios. Where one extension is allowed the level is split between the two looks, so
that each one-sided error (a default or a small gain where there is none, an option where the loss is harm, a rejection
where the gain is as large) is at most half of their sum. A guardrail that is passed stops everything: STOPPED.

The template of the design review leaves open whether a default must be an option too (it must), what a failed guard
yields, and what becomes of gains between 1 + harm and 1 + interest (SMALL; without that line no number of pairs decides
them). Left out: a spending function of several looks; the rule knows two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from textwrap import wrap
from typing import Any, Final, Literal, cast

import numpy as np

from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report.contrast import Lines
from sim.report.numbers import counted
from sim.stats import Floats
from sim.stats.many import holm
from sim.stats.power import Design, Drawn, drawn_looks, fewest
from sim.stats.strata import Booleans, Pooled, pooled

SCHEMA: Final = "windtunnel.rule/2"
TAIL: Final = "group_completion_p95_s"
ALPHA: Final = 0.05
LOOKS: Final = (0.04, 0.01)
"""Error of the first look and of the one after the extension."""
WIDTH: Final = 118
DRAWS: Final = 4_000
"""Campaigns drawn to say how often a rule says what."""
Word = Literal["ADOPT", "RECOMMEND", "REJECT", "SMALL", "INCONCLUSIVE", "STOPPED"]
WORDS: Final[tuple[Word, ...]] = ("RECOMMEND", "ADOPT", "SMALL", "REJECT", "INCONCLUSIVE")
"""What pairs can lead to."""
ADOPTED: Final[tuple[Word, ...]] = ("RECOMMEND", "ADOPT")

Strata = tuple[Sequence[Floats], Sequence[float]]
"""Log ratios candidate / baseline of a cell's pairs by placement class, and the classes' weights; one of 1 for none."""


@dataclass(frozen=True, slots=True)
class Guardrails:
    """Shares above which a campaign stops, whatever its ratios say."""

    failed_share: float = 0.02
    """Of an arm's requests that did not finish."""
    preempted_share: float = 0.05
    """Of an arm's requests that lost their memory once or more."""
    cold_hit_rate: float = 0.01
    """Of the check that caches are cold, before a run."""
    excluded_share: float = 0.2
    """Of a look's pairs that gates leave out: beyond it those that are left may be a choice."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the lines of a rule look at, of one campaign or of many at once; nan where there is no interval."""

    ratio: Floats
    """Over all cells, as its ends; more than 1 is better."""
    lo: Floats
    hi: Floats
    least_lo: Floats
    """The lowest of the cells' own lower ends."""
    tail_lo: Floats
    """Ends of the tail metric's ratio, more than 1 is worse; without such a metric 0."""
    tail_hi: Floats


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a rule."""

    word: Word
    label: str
    condition: str
    """As people read it."""
    holds: Callable[[Measured], Booleans]


@dataclass(frozen=True, slots=True)
class Rule:
    """Everything that decides, fixed beforehand."""

    primary: str
    cells: tuple[str, ...]
    pairs: int
    """Of each cell, at the first look."""
    looks: tuple[float, ...] = LOOKS
    """Two-sided error of each look; one look: no extension."""
    harm: float = 0.03
    interest: float = 0.05
    tail: str | None = TAIL
    """Latency whose ratio must not be shown to be worse for ADOPT; None: the workload has no groups."""
    guardrails: Guardrails = Guardrails()
    resamples: int = 10_000
    """Of the bootstrap that stands beside Student's t."""
    blocked: bool = False
    """Pairs are planned by placement class."""

    @property
    def lower_is_better(self) -> bool:
        """The primary metric is one of those; its ratios are turned over."""
        return METRICS[self.primary].better == "lower"

    def pairs_at(self, look: int) -> int:
        """Pairs of each cell at a look, the first is 0: an extension is as large as what it extends."""
        return self.pairs * (look + 1)

    def level(self, look: int) -> float:
        """Of the intervals that decide at a look."""
        return 1 - self.looks[look]

    def document(self) -> dict[str, Any]:
        """As plain data: ``rule.json``."""
        return {"schema": SCHEMA, **asdict(self)}

    @property
    def direction(self) -> str:
        """Which arm is divided by which."""
        return "old/new" if self.lower_is_better else "new/old"

    def lines(self) -> tuple[Line, ...]:
        """What decides, in the order in which it is read."""
        safe, harmless, worth = 1 - self.harm, 1 + self.harm, 1 + self.interest
        holds, fails = "", ""
        if self.tail:
            holds = f" and {self.tail} new/old (more is worse) upper bound < {bound(worth)}"
            fails = f", or {self.tail} new/old lower bound > {bound(worth)}"

        def is_option(found: Measured) -> Booleans:
            return (found.lo > safe) & (found.ratio > worth) & (found.tail_hi < worth)

        where = " in every cell" if len(self.cells) > 1 else ""
        return (
            Line(
                "RECOMMEND",
                "RECOMMEND default",
                f"all of the next line, and lower bound > 1.00{where}",
                lambda found: is_option(found) & (found.least_lo > 1),
            ),
            Line(
                "ADOPT", "ADOPT as option", f"lower bound > {bound(safe)} and mean > {bound(worth)}{holds}", is_option
            ),
            Line(
                "REJECT",
                "REJECT",
                f"upper bound < {bound(harmless)} (a gain of {percent(self.harm)} is ruled out){fails}",
                lambda found: (found.hi < harmless) | (found.tail_lo > worth),
            ),
            Line(
                "SMALL",
                "SMALL GAIN",
                f"lower bound > 1.00 and mean <= {bound(worth)} (better, by less than is worth it)",
                lambda found: (found.lo > 1) & (found.ratio <= worth),
            ),
        )

    def extension(self) -> str:
        """What follows where no line holds."""
        if len(self.looks) == 1:
            return "no extension"
        return (
            f"at most one extension by {counted(self.pairs, 'pair')}, then all {self.pairs_at(1)} at "
            f"{self.level(1):.0%} by the same lines"
        )

    def text(self) -> str:
        """As people read it: part 12 of a review, and ``rule.txt``."""
        guard, several = self.guardrails, len(self.cells) > 1
        cells = f"cells weighted equally ({', '.join(self.cells)})" if several else "one cell"
        classes = " by placement class with exact weights (Satterthwaite's degrees of freedom)," if self.blocked else ""
        lines = "\n".join(f"{each.label:<19} if {each.condition}" for each in self.lines())
        split = f" (alpha {' + '.join(f'{each:g}' for each in self.looks)})" if len(self.looks) > 1 else ""
        holm = (
            f"none for these lines: RECOMMEND asks every cell at its own {self.level(0):.0%}, the others one ratio "
            "over all; Holm before a single cell is named as better"
            if several
            else "none: one cell, one metric"
        )
        harm, error = percent(self.harm), f"{100 * sum(self.looks) / 2:g}%"
        return _wrapped(f"""primary: {self.primary} ratio, {self.direction}, geometric mean over pairs, {cells}; \
more than 1 is better
pairs: {self.pairs} a cell, each one run of either arm on the same trace, on the same nodes, in the sealed order \
(ABBA, drawn), with fresh engines and empty caches
test: paired t on the log ratio,{classes} two-sided {self.level(0):.0%}{" at look 1" if split else ""}; the bootstrap \
({self.resamples:,}; from 20 pairs on) stands beside it and decides nothing
margins: {harm} is harm, the largest loss that may go unnoticed; a gain below {percent(self.interest)} does not pay \
for a change
verdict: of the lines below the first that holds
{lines}
else INCONCLUSIVE   -> {self.extension()}{split}
errors              at most {error} each: default or small gain if nothing is gained, option if {harm} is lost, \
rejection by the primary if {harm} is gained
guardrails (stop)   in either arm: failures > {guard.failed_share:.0%}, preempted requests > \
{guard.preempted_share:.0%}, cold-cache check hit > {guard.cold_hit_rate:.0%}; pairs left out > \
{guard.excluded_share:.0%}: no verdict on either arm. Results of an arm configured otherwise than sealed are refused
multiplicity        {holm}; other metrics are exploratory
exclusions          whole pairs, not replaced, by gates before any ratio (engine restarted, clock skew or other units, \
a turn sent before the one that it follows had ended, other work than the trace), listed with reasons
publish             all arms, all pairs, nulls included""")

    def short(self) -> str:
        """In a few sentences, the lines as they are."""
        lines = "; ".join(f"{each.label} if {each.condition}" for each in self.lines())
        return (
            f"Of {self.primary} {self.direction} (more than 1 is better), {self.level(0):.0%} interval over "
            f"{counted(self.pairs, 'real pair')}{' by placement class' if self.blocked else ''}, same nodes, fresh "
            f"engines, the first that holds: {lines}; else INCONCLUSIVE: {self.extension()}."
        )


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule says of measured pairs."""

    word: Word
    because: Sequence[str]
    look: int
    level: float
    all_cells: Pooled | None
    """Ratio over all cells, turned so that more than 1 is better; None where it was stopped."""
    cells: Mapping[str, Pooled]
    """The same of each cell."""
    holm_p: Mapping[str, float]
    """Adjusted p values of the cells that have one."""
    tail: Pooled | None
    """Ratio of the tail metric as it stands: more than 1 is worse."""


def rule_for(
    metric: str,
    cells: Sequence[str],
    pairs: int,
    lines: Lines,
    *,
    groups: bool,
    extension: bool = True,
    blocked: bool = False,
) -> Rule:
    """The rule of a campaign; ScenarioError where the metric has no better side, or lines overlap."""
    check_lines(lines)
    if METRICS[metric].better == "none":
        raise ScenarioError(f"{metric} has no better side: no rule can rest on it; name another first metric")
    return Rule(
        primary=metric,
        cells=tuple(cells),
        pairs=pairs,
        looks=LOOKS if extension else (ALPHA,),
        harm=lines.harm,
        interest=lines.interest,
        tail=TAIL if groups and metric != TAIL else None,
        blocked=blocked,
    )


def check_lines(lines: Lines) -> None:
    """Refuse lines under which one result would be adopted and rejected."""
    if lines.harm > lines.interest:
        raise ScenarioError(
            f"harm ({percent(lines.harm)}) exceeds the smallest effect of interest ({percent(lines.interest)}): one "
            "result could be adopted and rejected; lower --harm or raise --interest"
        )


def _wrapped(text: str) -> str:
    """Lines of a readable length; what continues a line is set in."""
    return "\n".join(
        part
        for line in text.split("\n")
        for part in wrap(line, WIDTH, subsequent_indent=20 * " ", break_on_hyphens=False)
    )


def bound(ratio: float) -> str:
    """A bound with two decimals, and more where it has them."""
    text = f"{ratio:.2f}"
    return text if abs(float(text) - ratio) < 1e-12 else f"{ratio:.12g}"


def percent(share: float) -> str:
    """A share as a whole percentage, and with decimals where it has them."""
    return f"{100 * share:.10g}%"


def from_document(document: Mapping[str, Any]) -> Rule:
    """The rule of a ``rule.json``; ScenarioError for what is none."""
    if document.get("schema") != SCHEMA:
        raise ScenarioError(
            f"rule.json: schema must be {SCHEMA!r}, not {document.get('schema')!r}; score with the version that "
            "sealed it"
        )
    known = {each.name for each in fields(Rule)}
    values = {key: value for key, value in document.items() if key != "schema"}
    if values.keys() != known:
        raise ScenarioError(f"rule.json: keys must be {', '.join(sorted(known))}")
    values |= {name: tuple(values[name]) for name in ("cells", "looks")}
    return Rule(**(values | {"guardrails": Guardrails(**values["guardrails"])}))


def decide(
    rule: Rule, look: int, primary: Mapping[str, Strata], tail: Mapping[str, Strata], stops: Sequence[str]
) -> Ruling:
    """What the rule says; ``primary`` and ``tail`` hold the log ratios of each cell, ``stops`` passed guardrails."""
    level = rule.level(look)
    if stops:
        return Ruling("STOPPED", list(stops), look, level, None, {}, {}, None)
    sign = -1 if rule.lower_is_better else 1
    turned = {cell: ([sign * part for part in parts], shares) for cell, (parts, shares) in primary.items()}
    cells = {cell: pooled(*each, level=level) for cell, each in turned.items()}
    over = over_cells(turned, level)
    worst = over_cells(tail, level) if rule.tail and len(tail) == len(primary) else None
    known = {cell: each.p for cell, each in cells.items() if each.p is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    found = _measured(rule, over, cells, worst)
    word = cast(Word, spoken(rule, found).item())
    because = _because(rule, look, word, over, cells, adjusted, worst)
    return Ruling(word, because, look, level, over, cells, adjusted, worst)


def _measured(rule: Rule, over: Pooled, cells: Mapping[str, Pooled], tail: Pooled | None) -> Measured:
    def number(value: float | None) -> Floats:
        return np.asarray(np.nan if value is None else value, dtype=np.float64)

    least = np.min([number(each.lo) for each in cells.values()])  # nan where one has none
    tail_ends = (0.0, 0.0) if rule.tail is None else (None, None) if tail is None else (tail.lo, tail.hi)
    ratio, lo, hi, tail_lo, tail_hi = map(number, (over.ratio, over.lo, over.hi, *tail_ends))
    return Measured(ratio, lo, hi, least, tail_lo, tail_hi)


def over_cells(cells: Mapping[str, Strata], level: float) -> Pooled:
    """The ratio over cells of equal weight, each over its classes."""
    parts = [part for each, _ in cells.values() for part in each]
    shares = [share / len(cells) for _, each in cells.values() for share in each]
    return pooled(parts, shares, level=level)


@dataclass(frozen=True, slots=True)
class Odds:
    """How often a rule says what, for one true ratio."""

    ratio: float
    """True; more than 1 is better."""
    looks: Sequence[Mapping[Word, float]]
    """By look, of all campaigns, those that end with a word there; INCONCLUSIVE at the first is extended."""
    pairs: float
    """Of a cell, on average."""

    def ends(self, *words: Word) -> float:
        """Share of all campaigns that end with one of these."""
        found = sum(look.get(word, 0.0) for look in self.looks for word in words if word != "INCONCLUSIVE")
        return found + (self.looks[-1].get("INCONCLUSIVE", 0.0) if "INCONCLUSIVE" in words else 0.0)

    @property
    def extended(self) -> float:
        """Share of all campaigns that need the extension."""
        return self.looks[0].get("INCONCLUSIVE", 0.0) if len(self.looks) > 1 else 0.0


def odds(rule: Rule, ratio: float, design: Design, *, draws: int = DRAWS, seed: int = 0) -> Odds:
    """How often the rule of one cell says each word at each look, for a true ratio; more than 1 is better.

    Log ratios of real pairs are taken to be normal with the spreads of the design. What is INCONCLUSIVE at a look is
    extended, where another look is left. The tail metric is taken to hold and no guardrail to be passed.
    """
    looks = range(len(rule.looks))
    pairs, levels = [rule.pairs_at(look) for look in looks], [rule.level(look) for look in looks]
    is_open = np.ones(draws, dtype=np.bool_)
    found: list[dict[Word, float]] = []
    spent = 0.0
    for drawn in drawn_looks(math.log(ratio), design, pairs, levels, draws, seed):
        spent += rule.pairs * float(is_open.mean())
        words = np.where(is_open, spoken(rule, _alike(drawn)), "")
        found.append({word: count / draws for word in WORDS if (count := int((words == word).sum()))})
        is_open = words == "INCONCLUSIVE"
    return Odds(ratio, found, spent)


def adopted(rule: Rule, ratio: float, design: Design) -> float:
    """Probability that the first look adopts, as the default or as an option."""
    first = odds(replace(rule, looks=rule.looks[:1]), ratio, design)
    return first.ends(*ADOPTED)


def least_adopted(rule: Rule, design: Design, wanted: float) -> float | None:
    """The smallest true ratio that the first look adopts with the wanted probability; None where 2 is not enough.

    At a true ratio of 1 + interest that is at most a half, whatever the number of pairs: the mean falls on either side.
    """
    low, high = math.log1p(rule.interest), math.log(2) + math.log1p(rule.interest)
    if adopted(rule, math.exp(high), design) < wanted:
        return None
    while high - low > 5e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if adopted(rule, math.exp(middle), design) >= wanted else (middle, high)
    return math.exp(high)


def pairs_that_adopt(rule: Rule, ratio: float, design: Design, wanted: float) -> int | None:
    """The fewest pairs whose first look adopts this true ratio with the wanted probability; None where none do."""
    if ratio <= 1 + rule.interest:
        return None
    try:
        return fewest(lambda pairs: adopted(replace(rule, pairs=pairs), ratio, design), wanted, f"a ratio of {ratio:g}")
    except ValueError:
        return None


def spoken(rule: Rule, found: Measured) -> np.ndarray[Any, np.dtype[np.str_]]:
    """The words of a rule, one for each campaign."""
    lines = rule.lines()
    return np.select([each.holds(found) for each in lines], [each.word for each in lines], "INCONCLUSIVE")


def _alike(drawn: Drawn) -> Measured:
    """Campaigns of one cell whose tail metric holds."""
    none = np.zeros(len(drawn.ratio))
    return Measured(drawn.ratio, drawn.lo, drawn.hi, drawn.lo, none, none)


def _because(
    rule: Rule,
    look: int,
    word: Word,
    over: Pooled,
    cells: Mapping[str, Pooled],
    adjusted: Mapping[str, float],
    tail: Pooled | None,
) -> list[str]:
    """What a word rests on."""
    if over.lo is None or over.hi is None:
        return [f"no interval: {over.reason}"]
    said = [f"{rule.primary} {over.ratio:.3f} [{over.lo:.3f}, {over.hi:.3f}] at {rule.level(look):.0%}, more is better"]
    worth, harmless = bound(1 + rule.interest), bound(1 + rule.harm)
    told = f"{rule.tail} new/old {_tail(tail)}"
    if word == "RECOMMEND":
        return [*said, f"above 1{' in every cell' if len(cells) > 1 else ''}"]
    if word == "ADOPT":
        weak = [name for name, each in cells.items() if each.lo is None or each.lo <= 1]
        alpha = rule.looks[look]
        strong = [name for name, each in cells.items() if each.ratio > 1 and adjusted.get(name, 1.0) < alpha]
        named = f"; better in {', '.join(strong)} (Holm)" if strong and len(cells) > 1 else ""
        return [*said, f"not shown to be above 1 in {', '.join(weak)}{named}"]
    if word == "SMALL":
        return [*said, f"better, but its mean is not above {worth}"]
    if word == "REJECT" and over.hi >= 1 + rule.harm:
        return [*said, f"{told}: shown to be worse than {worth}"]
    if word == "REJECT":
        is_so = "worse" if over.hi < 1 else f"better, by less than {percent(rule.harm)}" if over.lo > 1 else "no gain"
        return [*said, f"upper end below {harmless}: {is_so}"]
    missing = [] if over.lo > 1 - rule.harm else [f"lower end not above {bound(1 - rule.harm)}"]
    missing += [] if over.ratio > 1 + rule.interest else [f"mean not above {worth}"]
    if rule.tail is not None and not (tail is not None and tail.hi is not None and tail.hi < 1 + rule.interest):
        missing.append(f"{told}: not shown to stay below {worth}")
    may = look + 1 < len(rule.looks)
    then = f"one extension by {counted(rule.pairs, 'pair')} a cell is allowed" if may else "no extension is left"
    return [*said, *missing, then]


def _tail(found: Pooled | None) -> str:
    if found is None:
        return "has no value"
    return f"{found.ratio:.3f}" + ("" if found.hi is None else f" up to {found.hi:.3f}")


def alone(logs: Floats) -> Strata:
    """Pairs without classes."""
    return [np.asarray(logs)], [1.0]
