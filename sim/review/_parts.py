"""The parts of a review, each a function from the evidence to text and tables.

Numbers of parts are those that design reviews of this kind have; what this version does not make is left out, also from
the table of contents: 9 sensitivity, 13 files for the real run, 15 the opposite conclusion.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from sim.metrics import METRICS
from sim.report.contrast import Finding, log_ratios
from sim.report.ledger import LINES, SAYS
from sim.report.region import Coverage
from sim.report.table import mean_text, number
from sim.review._assumptions import profile_of, register
from sim.review._gather import FAILURE_RATE, OVERHEAD_H, Ablation, Evidence
from sim.review._model import Part, Row, Table
from sim.scenario import RESULTS_VERSION, dump

NOT_MODELLED: Final = (
    "token values and sampling; output lengths are drawn or recorded, whatever the model would say",
    "attention of prefill and decode in one launch: about 10 % off on mixed batches, of both signs",
    "CUDA-graph padding, speculative decoding, LoRA, KV offload, pipeline and expert parallelism, skew of MoE experts",
    "the network, tokenisation and detokenisation, CPU contention between processes of one machine",
)
WORST: Final = 5
"""Pairs shown where there are no placement classes."""


def question(ev: Evidence) -> Part:
    """1: what is asked, and what counts as an answer."""
    asked = _comment(ev)
    lines = ev.lines
    rows = [
        ("decides", ev.primary.metric),
        ("smallest effect worth having", f"{lines.interest:.0%}"),
        ("harm", f"{-lines.harm:.0%}"),
        ("counts as equal", f"within {lines.equal:.0%}"),
    ]
    return Part(1, "Question and decision", asked, [Table("1.1", "What counts", ("line", "value"), rows)])


def system(ev: Evidence) -> Part:
    """2: everything that is fixed, and the one field that is not."""
    path, one, other = ev.change
    diff = Table("2.1", "The difference between the arms", ("field", *_arms(ev)), [(path, short(one), short(other))])
    parameters: dict[str, dict[str, str]] = {}
    for arm in _arms(ev):
        router = ev.cell(arm).resolved["router"]
        for key, value in _flat({"policy": router["policy"]} | {k: v for k, v in router.items() if k != "policy"}):
            parameters.setdefault(key, {})[arm] = value
    rows = [(key, *(values.get(arm, "–") for arm in _arms(ev))) for key, values in parameters.items()]
    fleet = [
        (
            kind.name or "all",
            str(kind.count),
            f"{kind.engine.device}, {kind.engine.model}, tp {kind.engine.tp}",
            str(kind.engine.preset),
        )
        for kind in ev.cell(ev.baseline).fleet
    ]
    return Part(
        2,
        "System under test",
        ["Arms differ in exactly one field; everything else below holds for both."],
        [
            diff,
            Table("2.2", "Fleet", ("type", "engines", "hardware and model", "scheduler"), fleet),
            Table("2.3", "Router and policy, every parameter", ("parameter", *_arms(ev)), rows),
        ],
        fixed=dump(ev.cell(ev.baseline).resolved),
    )


def workload(ev: Evidence) -> Part:
    """3: what the first replication holds."""
    tables = []
    for index, (arms, (own, keys)) in enumerate(ev.workloads.items(), 1):
        totals = [(name, f"{value:,}") for name, value in own.totals.items()]
        totals += [(f"reuse ceiling, blocks of {block:,}", f"{share:.1%}") for block, share in own.reuse.items()]
        totals += [("work in the largest 1 % of sessions", f"{own.top_share:.1%}")]
        totals += [("largest request with its limit, tokens", f"{own.largest.tokens:,}")]
        rows = [
            (name, f"{each.count:,}", *(number(v) for v in (each.mean, each.p50, each.p90, each.p99, each.max)))
            for name, each in own.spreads.items()
        ]
        spread = [(k.of, f"{k.keys:,}", f"{k.engines:,}", number(k.per_engine), f"{k.max_over_mean:.2f}") for k in keys]
        tables += [
            Table(f"3.{3 * index - 2}", f"Totals, {arms}", ("quantity", "value"), totals),
            Table(f"3.{3 * index - 1}", f"Sizes, {arms}", ("quantity", "n", "mean", "p50", "p90", "p99", "max"), rows),
        ]
        if spread:
            head = ("one key a", "keys", "engines", "keys per engine", "E[max/mean]")
            tables.append(Table(f"3.{3 * index}", f"Routing keys under a uniform hash, {arms}", head, spread))
    return Part(3, "Workload", ["Of replication 0; later ones are drawn from the same laws."], tables)


def assumptions(ev: Evidence) -> Part:
    """4: what is taken for given."""
    return Part(4, "Assumptions register", tables=[register(ev.cell(ev.baseline), ev.scenario.real_run_noise)])


def verification(ev: Evidence) -> Part:
    """5: whether the simulator did what it says."""
    words = {True: "holds", False: "FAILS", None: "not applicable"}
    rows = [(check.name, check.says, words[check.held]) for check in ev.checks]
    return Part(5, "Verification", tables=[Table("5.1", "Checks of these runs", ("check", "says", "verdict"), rows)])


def calibration(ev: Evidence) -> Part:
    """6: where the step times come from, and whether the runs stay where they were measured."""
    rows: list[Row] = []
    for kind in ev.cell(ev.baseline).fleet:
        profile = profile_of(kind, ev.cell(ev.baseline))
        if profile is None:
            rows.append((kind.name or "all", "no profile", "not measured", "–", "–", "–"))
            continue
        errors = profile.error_percent or {}
        cells = [f"{errors[p][0]:g} % (p90 {errors[p][1]:g} %)" if p in errors else "–" for p in ("prefill", "decode")]
        rows.append((kind.name or "all", profile.name, profile.status, *cells, " ".join(profile.source.split())))
    quality = Table(
        "6.1", "Cost of a step", ("type", "profile", "status", "error, prefill", "error, decode", "source"), rows
    )
    head = ("arm", "inside", "outside by", "reached: tokens", "chunks", "decodes", "mean context")
    region = Table("6.2", "Simulated busy time inside the calibrated region", head, [_region(ev, a) for a in _arms(ev)])
    text = [
        "Errors are mean absolute errors of steps that the fit has not seen. They are no error of a whole run.",
        "Whole runs and orders of policies against published ones: docs/calibration.md and docs/reproductions.md.",
        "No measurement of this fleet with this workload is known to the tool.",
    ]
    return Part(6, "Calibration and validation", text, [quality, region])


def _region(ev: Evidence, arm: str) -> Row:
    own: Coverage = ev.coverage[arm]
    by = ", ".join(f"{name} {share:.1%}" for name, share in own.outside.items()) or "–"
    ends = [
        f"{number(lo)} to {number(hi)}"
        for lo, hi in (own.reached.get(q, (0.0, 0.0)) for q in ("tokens", "chunks", "decodes", "mean_context"))
    ]
    return (arm, f"{own.inside_share:.1%}", by, *ends)


def predictions(ev: Evidence) -> Part:
    """7: what is predicted, with three widths that are kept apart."""
    head = (
        "metric",
        "unit",
        *_arms(ev),
        "ratio",
        "95 %",
        "pairs worse",
        "P(mean worse)",
        f"P(harm > {ev.lines.harm:.0%})",
        "verdict",
    )
    rows = [_prediction(ev, each) for each in ev.found.findings]
    main = Table(
        "7.1",
        f"Predictions, {ev.pairs} pairs",
        head,
        rows,
        "simulated; the first metric decides, others are exploratory",
    )
    paired = ev.primary.paired
    half = "–" if paired.lo is None or paired.hi is None else f"±{(paired.hi - paired.lo) / 2:.2%}"
    drawn = any(getattr(kind.engine.cost, "uncertainty", "none") != "none" for kind in ev.cell(ev.baseline).fleet)
    widths = [
        ("simulation noise", half, f"half of the 95 % interval of {ev.primary.metric} over {ev.pairs} pairs"),
        (
            "input uncertainty",
            "in the line above" if drawn else "not simulated",
            "coefficients are drawn anew in each replication"
            if drawn
            else "cost.uncertainty is none: inputs are fixed",
        ),
        ("model form", "not quantified", "what is not modelled (part 14) and errors beyond the fit are in no interval"),
    ]
    tables = [main, Table("7.2", "Three widths", ("of", "width of the ratio", "what it is"), widths)]
    common = [
        (each.metric, f"{each.common.correlation:.2f}", f"{each.common.variance_ratio:.2f}")
        for each in ev.found.findings
        if each.common is not None
    ]
    if common:
        note = "a variance below 1 says that common random numbers helped"
        tables.append(
            Table("7.3", "Pairing", ("metric", "correlation of the arms", "variance against unpaired"), common, note)
        )
    humps = [each.metric for each in ev.found.findings if each.humps is not None and each.humps.are_two]
    text = [f"Two humps in the ratios of {', '.join(humps)}: read the distribution, not the mean."] if humps else []
    return Part(7, "Predictions", text, tables, figures=("paired_ratios", "group_completion"))


def _prediction(ev: Evidence, each: Finding) -> Row:
    metric, paired = METRICS[each.metric], each.paired
    ratio = "1 exactly" if paired.is_tie else "–" if paired.ratio is None else f"{paired.ratio:.3f}"
    interval = "–" if paired.lo is None or paired.hi is None else f"[{paired.lo:.3f}, {paired.hi:.3f}]"
    unit = "" if metric.unit == "1" else metric.unit
    return (
        each.metric,
        unit,
        mean_text(each.baseline),
        mean_text(each.candidate),
        ratio,
        interval,
        share(paired.p_worse),
        share(paired.p_mean_worse),
        share(p_harm(ev, each)),
        "–" if each.verdict is None else str(each.verdict),
    )


def p_harm(ev: Evidence, each: Finding) -> float | None:
    """Share of pairs whose ratio is worse than the harm line; None for a metric without a better side."""
    better = METRICS[each.metric].better
    if better == "none" or not each.logs.size:
        return None
    ratios = each.logs if better == "higher" else -each.logs
    return float((ratios < math.log(1 - ev.lines.harm)).mean())


def why(ev: Evidence) -> Part:
    """8: where the engine-seconds go, and where the difference comes from."""
    total = next(each for each in ev.ledger if each.line == "total")
    rows = [
        (
            "engines x makespan" if each.line == "total" else SAYS[each.line],
            f"{each.baseline_s:,.3f}",
            f"{each.candidate_s:,.3f}",
            f"{each.difference.mean or 0.0:+,.3f}",
            "–" if each.difference.lo is None else f"[{each.difference.lo:+,.3f}, {each.difference.hi:+,.3f}]",
            f"{(each.difference.mean or 0.0) / total.baseline_s:+.1%}",
        )
        for each in ev.ledger
    ]
    head = ("engine-seconds", *_arms(ev), "difference", "95 %", "of the baseline")
    text = ["Lines sum to the last one exactly, in each arm and in the difference; means over pairs."]
    tables = [Table("8.1", "Mechanism ledger", head, rows)]
    if ev.ablation is None:
        text += [
            "A line says where time went, not why: no arm was named that takes the mechanism alone away (--ablation)."
        ]
    else:
        text += [ablated(ev, ev.ablation)]
        tables.append(_ablation(ev, ev.ablation))
    return Part(
        8,
        "Why",
        text,
        tables,
        figures=("timeline_baseline", "timeline_candidate"),
    )


def ablated(ev: Evidence, ablation: Ablation) -> str:
    """What the ablation leaves of the line that moved most."""
    path, one, other = ablation.change
    main = max(ev.ledger[:-1], key=lambda each: abs(each.difference.mean or 0.0))
    left = ablation.left(main)
    said = "nothing moved" if left is None else f"{1 - left:.0%} of the difference in {SAYS[main.line]}, is gone"
    return f"Arm {ablation.arm} is {ev.candidate} with {path} {short(one)} -> {short(other)}: {said}."


def _ablation(ev: Evidence, ablation: Ablation) -> Table:
    moved = {each.line: each for each in ev.ledger}
    rows = []
    for line in (*LINES, "total"):
        entry = moved.get(line)
        own_s, whole_s = ablation.moved_s(line), entry.difference.mean or 0.0 if entry else 0.0
        left = ablation.left(entry) if entry else None
        if own_s or whole_s:
            name = "engines x makespan" if line == "total" else SAYS[line]
            rows.append((name, f"{whole_s:+,.3f}", f"{own_s:+,.3f}", "–" if left is None else f"{1 - left:.0%}"))
    head = ("engine-seconds over the baseline", ev.candidate, ablation.arm, "gone")
    return Table("8.2", "The ablation arm", head, rows)


def risk(ev: Evidence) -> Part:
    """10: when the candidate is worse, and how often that is."""
    metric = ev.primary.metric
    placements = [each for each in ev.result.placements if each.candidate == ev.candidate]
    if placements:
        rows = [
            (
                each.name,
                f"{each.p_exact:.1%}",
                f"{each.p_simulated:.1%}",
                str(each.pairs),
                "–" if each.ratio.get(metric) is None else f"{each.ratio[metric]:.3f}",
                "worse" if _is_worse(ev, each.ratio.get(metric)) else "",
            )
            for each in placements
        ]
        head = ("keys per engine", "exact share", "simulated", "pairs", f"ratio of {metric}", "")
        table = Table("10.1", f"Placement classes of arm {ev.candidate}", head, rows)
        text = ["The class is luck of the hash: it can be planned in a real campaign (part 11), not in production."]
        return Part(10, "Regression risk", text, [table])
    table = Table(
        "10.1", f"The pairs in which {ev.candidate} does worst", ("pair", f"ratio of {metric}"), worst_pairs(ev)
    )
    text = ["There are too many keys, or no keys, for placement classes; any pair can be run again by its number."]
    return Part(10, "Regression risk", text, [table])


def worst_pairs(ev: Evidence) -> list[Row]:
    """The pairs with the worst ratios, worst first."""
    metric = ev.primary.metric
    found = log_ratios(ev.found.baseline, ev.found.candidate, metric)
    rows = found.sort("log_ratio", descending=METRICS[metric].better == "lower").head(WORST).rows()
    return [(str(pair), f"{math.exp(log_ratio):.3f}") for pair, log_ratio in rows]


def _is_worse(ev: Evidence, ratio: float | None) -> bool:
    return ratio is not None and (ratio > 1 if METRICS[ev.primary.metric].better == "lower" else ratio < 1)


def real_runs(ev: Evidence) -> Part:
    """11: how many real pairs, blocked or not, and what they cost."""
    if ev.plan is None:
        return Part(11, "Required real runs", [f"No plan: {ev.no_plan}."])
    found = ev.plan
    needs = [
        (
            f"{each.effect:+.1%}",
            str(each.real),
            "–" if each.blocked is None else str(each.blocked),
            str(each.noisiest),
            f"{each.gpu_hours:,.1f}",
            "–" if each.gpu_hours_blocked is None else f"{each.gpu_hours_blocked:,.1f}",
        )
        for each in found.needs
    ]
    chances = [
        (
            str(each.pairs),
            f"{each.real:.0%}",
            "–" if each.blocked is None else f"{each.blocked:.0%}",
            f"{each.gpu_hours:,.1f}",
        )
        for each in found.chances
    ]
    spread = found.spread
    text = [
        "One pair is the same trace and seeds in both arms, on fresh engines, in the order ABBA.",
        f"SD of a pair's log ratio: {spread.simulated:.4f} simulated, {spread.real:.4f} with the noise of real runs.",
        f"The noise of one real run is taken to be {spread.run_noise:.1%}; requests of a run are no replicates.",
        f"A run takes {60 * found.cost.run_h:.1f} min and {60 * OVERHEAD_H:g} around it, on {found.cost.gpus} GPUs.",
        f"{FAILURE_RATE:.0%} of the runs are repeated.",
    ]
    tables = [
        Table(
            "11.1",
            f"Pairs for a power of {found.wanted:.0%}, two-sided 5 %",
            ("effect", "pairs", "blocked", "pairs, noise 15 %", "GPU-hours", "blocked "),
            needs,
        ),
        Table(
            "11.2", f"Probability to show {found.effect:+.1%}", ("pairs", "unblocked", "blocked", "GPU-hours"), chances
        ),
    ]
    if found.classes:
        rows = [(name, f"{part:.1%}", str(stored)) for name, part, stored in found.classes]
        tables.append(Table("11.3", "Blocks", ("keys per engine", "exact share", "simulated pairs"), rows))
    return Part(11, "Required real runs", text, tables)


def rule(ev: Evidence) -> Part:
    """12: the rule to write down before the first real run."""
    lines, metric = ev.lines, ev.primary.metric
    lower = METRICS[metric].better == "lower"
    direction = "old/new" if lower else "new/old"
    text = f"""primary: {metric} ratio, {direction}, geometric mean over pairs (more than 1 is better)
test: paired t on the log ratio, two-sided 95 %, and the bootstrap over pairs as a check (10,000)
ADOPT as option     if lower bound > {1 - lines.harm:.2f} and mean > {1 + lines.interest:.2f}
RECOMMEND default   if lower bound > 1.00
REJECT              if upper bound < {1 + lines.harm:.2f}
else INCONCLUSIVE   -> at most one extension of the same size, alpha split 0.04 + 0.01
guardrails (stop)   failures > 2 %, preemption > 5 %, any arm's configuration differs, cold-cache check hit > 1 %
multiplicity        Holm over cells; other metrics are exploratory
exclusions          only by gates computed before unblinding, listed with reasons
publish             all arms, all pairs, nulls included"""
    return Part(12, "Decision rule", ["Not sealed: seal it, with the prediction, before run 1."], fixed=text)


def threats(ev: Evidence) -> Part:
    """14: how this may be wrong."""
    outside = 1 - min(each.inside_share for each in ev.coverage.values())
    found = [f"Not modelled: {each}." for each in NOT_MODELLED]
    found += [f"Construct: one metric decides ({ev.primary.metric}); a policy may win in it and lose what users feel."]
    found += [f"External: {outside:.1%} of the simulated time is outside what the cost model was fitted in."]
    found += [f"Statistical: {len(ev.found.findings) - 1} other metrics are shown without correction for their number."]
    found += ["Internal: which assumption would turn the decision was not searched: no sensitivity analysis was made."]
    return Part(14, "Threats to validity", found)


def reproduce(ev: Evidence, command: str) -> Part:
    """16: the command, the seeds, the sums."""
    rows = [
        (name, ev.result.arms[name].hash, str(ev.scenario.seed), f"0 to {ev.pairs - 1}", ev.checksums[name])
        for name in _arms(ev)
    ]
    head = ("arm", "cell", "seed", "replications", "SHA-256 of values.parquet")
    text = [f"Results version {RESULTS_VERSION}. The same command gives the same bytes."]
    return Part(16, "Reproduce", text, [Table("16.1", "What was run", head, rows)], fixed=command)


def after() -> Part:
    """17: empty until the real run."""
    return Part(
        17, "After the run", ["Prediction against result, interval coverage, order: filled in after the real run."]
    )


def parts(ev: Evidence, command: str) -> list[Part]:
    """All of them, in order."""
    made = (question, system, workload, assumptions, verification, calibration, predictions, why, risk, real_runs, rule)
    return [*(each(ev) for each in made), threats(ev), reproduce(ev, command), after()]


def short(value: Any) -> str:
    """A value of a scenario on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def share(value: float | None) -> str:
    """A share for reading."""
    return "–" if value is None else f"{value:.1%}"


def _arms(ev: Evidence) -> tuple[str, str]:
    return ev.baseline, ev.candidate


def _comment(ev: Evidence) -> list[str]:
    """The comment that a scenario's file opens with: the question it asks."""
    lines: list[str] = []
    for line in ev.scenario.path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    paragraphs = "\n".join(lines).split("\n\n")
    return [" ".join(each.split()) for each in paragraphs if each.strip()]


def _flat(value: Any, path: str = "") -> Sequence[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [row for key, each in value.items() for row in _flat(each, f"{path}.{key}" if path else str(key))]
    return [(path, short(value))]
