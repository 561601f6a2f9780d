"""The decision rule of a campaign, written down before its first real run: one object, its text, and its verdict.

    primary     ratio candidate / baseline of one metric, turned so that more than 1 is better; geometric mean over the
                pairs of a cell, cells weighted equally
    ADOPT       lower end > 1 - harm, mean > 1 + interest, and the tail metric's ratio not shown to be worse: its upper
                end < 1 + interest
    RECOMMEND   ADOPT holds, and the lower end > 1 in every cell, each at its Holm level
    REJECT      upper end < 1 + harm: a gain too small to outweigh a loss that counts as harm
    else        INCONCLUSIVE; at most one extension by as many pairs

Harm may not exceed interest, so that ADOPT (a mean above 1 + interest) and REJECT cannot both hold.

Ends are those of Student's t on log ratios. Where one extension is allowed the level is split between the two looks, so
that a null effect passes either with at most 5 % in all. A guardrail that is passed stops everything: STOPPED.

RECOMMEND asks for ADOPT as well, so that a default is never less than an option; the template of the design review
leaves this open. Left out: a spending function of several looks; the rule knows two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

import numpy as np

from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report.contrast import Lines
from sim.report.numbers import counted
from sim.stats import Floats
from sim.stats.many import holm
from sim.stats.power import drawn_looks
from sim.stats.strata import Pooled, pooled

SCHEMA: Final = "windtunnel.rule/1"
TAIL: Final = "group_completion_p95_s"
ALPHA: Final = 0.05
LOOKS: Final = (0.04, 0.01)
"""Error of the first look and of the one after the extension."""
DRAWS: Final = 4_000
"""Campaigns drawn to say how often a rule says what."""
Word = Literal["ADOPT", "RECOMMEND", "REJECT", "INCONCLUSIVE", "STOPPED"]

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

    def text(self) -> str:
        """As people read it: part 12 of a review, and ``rule.txt``."""
        direction = "old/new" if self.lower_is_better else "new/old"
        tail = f" and {self.tail} ratio upper bound < {bound(1 + self.interest)}" if self.tail else ""
        guard = self.guardrails
        extends = len(self.looks) > 1
        levels = " + ".join(f"{each:g}" for each in self.looks)
        last = (
            f"else INCONCLUSIVE   -> at most one extension by {counted(self.pairs, 'pair')}, alpha split {levels}"
            if extends
            else "else INCONCLUSIVE   -> no extension"
        )
        cells = f"cells weighted equally ({', '.join(self.cells)})" if len(self.cells) > 1 else "one cell"
        return f"""primary: {self.primary} ratio, {direction}, geometric mean over pairs, {cells}; more than 1 is better
pairs: {self.pairs} a cell
test: paired t on the log ratio, two-sided {self.level(0):.0%}{" at the first look" if extends else ""}, \
and the bootstrap over pairs as a check ({self.resamples:,})
verdict: of the lines below the first that holds
RECOMMEND default   if all of the next line, and lower bound > 1.00 in every cell
ADOPT as option     if lower bound > {bound(1 - self.harm)} and mean > {bound(1 + self.interest)}{tail}
REJECT              if upper bound < {bound(1 + self.harm)}: what gain there is does not outweigh a loss of \
{percent(self.harm)}, which counts as harm
{last}
guardrails (stop)   in an arm: failures > {guard.failed_share:.0%}, preempted requests > {guard.preempted_share:.0%}; \
any arm's configuration differs; cold-cache check hit > {guard.cold_hit_rate:.0%}
multiplicity        Holm over cells; other metrics are exploratory
exclusions          only by gates computed before unblinding (engine restarted, clock skew, a turn sent before \
the one that it follows had ended, other work than the trace), listed with reasons
publish             all arms, all pairs, nulls included"""


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
    metric: str, cells: Sequence[str], pairs: int, lines: Lines, *, groups: bool, extension: bool = True
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
    )


def check_lines(lines: Lines) -> None:
    """Refuse lines under which one result would be adopted and rejected."""
    if lines.harm > lines.interest:
        raise ScenarioError(
            f"harm ({percent(lines.harm)}) exceeds the smallest effect of interest ({percent(lines.interest)}): one "
            "result could be adopted and rejected; lower --harm or raise --interest"
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
        raise ScenarioError(f"rule.json: schema must be {SCHEMA!r}, not {document.get('schema')!r}")
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
    worst = over_cells(tail, level) if rule.tail and tail else None
    known = {cell: each.p for cell, each in cells.items() if each.p is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    word, because = _word(rule, look, over, cells, adjusted, worst)
    return Ruling(word, because, look, level, over, cells, adjusted, worst)


def over_cells(cells: Mapping[str, Strata], level: float) -> Pooled:
    """The ratio over cells of equal weight, each over its classes."""
    parts = [part for each, _ in cells.values() for part in each]
    shares = [share / len(cells) for _, each in cells.values() for share in each]
    return pooled(parts, shares, level=level)


def odds(rule: Rule, ratio: float, spread: float, *, draws: int = DRAWS, seed: int = 0) -> list[dict[Word, float]]:
    """How often the rule says each word at each look, as shares of all campaigns, for a true ratio of one cell.

    ``ratio`` is turned so that more than 1 is better; ``spread`` is the standard deviation of a real pair's log ratio,
    whose law is taken to be normal. What is INCONCLUSIVE at a look is extended, where another look is left. The tail
    metric is taken to hold and no guardrail to be passed, as a plan knows no spread of theirs.
    """
    [cell] = rule.cells
    told = replace(rule, tail=None)
    found: list[dict[Word, float]] = []
    is_open = [True] * draws
    levels = [rule.level(look) for look in range(len(rule.looks))]
    for look, measured in enumerate(drawn_looks(math.log(ratio), spread, rule.pairs, levels, draws, seed)):
        said: dict[Word, int] = {}
        for draw, one in enumerate(measured):
            if is_open[draw]:
                word, _ = _word(told, look, one, {cell: one}, {} if one.p is None else {cell: one.p}, None)
                said[word] = said.get(word, 0) + 1
                is_open[draw] = word == "INCONCLUSIVE"
        found.append({word: count / draws for word, count in said.items()})
    return found


def _word(
    rule: Rule,
    look: int,
    over: Pooled,
    cells: Mapping[str, Pooled],
    adjusted: Mapping[str, float],
    tail: Pooled | None,
) -> tuple[Word, list[str]]:
    if over.lo is None or over.hi is None:
        return "INCONCLUSIVE", [f"no interval: {over.reason}"]
    said = f"{rule.primary} {over.ratio:.3f} [{over.lo:.3f}, {over.hi:.3f}] at {rule.level(look):.0%}, more is better"
    is_safe, is_worth = over.lo > 1 - rule.harm, over.ratio > 1 + rule.interest
    tail_holds = rule.tail is None or (tail is not None and tail.hi is not None and tail.hi < 1 + rule.interest)
    if is_safe and is_worth and tail_holds:
        alpha = rule.looks[look]
        weak = [cell for cell, each in cells.items() if not _above_one(each, adjusted.get(cell), alpha)]
        if not weak:
            return "RECOMMEND", [said, "above 1 in every cell"]
        return "ADOPT", [said, f"not shown to be above 1 in {', '.join(weak)}"]
    if over.hi < 1 + rule.harm:
        return "REJECT", [said, f"upper end below {bound(1 + rule.harm)}"]
    missing = [] if is_safe else [f"lower end not above {bound(1 - rule.harm)}"]
    missing += [] if is_worth else [f"mean not above {bound(1 + rule.interest)}"]
    if not tail_holds:
        missing.append(f"{rule.tail} ratio {_tail(tail)}: not shown to stay below {bound(1 + rule.interest)}")
    may = look + 1 < len(rule.looks)
    then = f"one extension by {counted(rule.pairs, 'pair')} a cell is allowed" if may else "no extension is left"
    return "INCONCLUSIVE", [said, *missing, then]


def _above_one(cell: Pooled, p: float | None, alpha: float) -> bool:
    """Above 1 in a cell, by its p value adjusted for the others; without spread by the ratio alone."""
    if cell.lo is None:
        return False
    return cell.ratio > 1 and (cell.lo > 1 if p is None else p < alpha)


def _tail(found: Pooled | None) -> str:
    if found is None:
        return "has no value"
    return f"{found.ratio:.3f}" + ("" if found.hi is None else f" up to {found.hi:.3f}")


def alone(logs: Floats) -> Strata:
    """Pairs without classes."""
    return [np.asarray(logs)], [1.0]
