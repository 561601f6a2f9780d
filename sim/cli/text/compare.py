"""A comparison of two sides: as text, and as one document."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.metrics import METRICS
from sim.report.contrast import Contrast, Finding
from sim.report.numbers import number
from sim.report.settling import SAYS, regime, settled
from sim.report.sides import Side
from sim.stats import Mean
from sim.stats.shape import Quantile


def print_contrast(found: Contrast, console: Console) -> None:
    """Print what the pairs say of each metric, and warnings."""
    title = f"{_name(found.candidate)} over {_name(found.baseline)}, {found.pairs} pair{'s' * (found.pairs != 1)}"
    console.print(Text(title, style="bold"))
    for finding in found.findings:
        metric = METRICS[finding.metric]
        unit = "" if metric.unit == "1" else f" {metric.unit}"
        better = "" if metric.better == "none" else f", {metric.better} is better"
        console.print()
        console.print(Text(f"{finding.metric}{unit}{better}", style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in _rows(finding):
            table.add_row(f"  {label}", text)
        console.print(table)
    if found.completion_p95 is not None:
        a, b = found.completion_p95
        console.print()
        console.print(Text("95th percentile of group completion, all pairs pooled, order statistics", style="bold"))
        console.print(f"  baseline {_quantile(a)} s, candidate {_quantile(b)} s", highlight=False)
    _show_settled(found, console)
    for note in found.notes:
        console.print(Text(f"warning: {note}", style="yellow"))


def _show_settled(found: Contrast, console: Console) -> None:
    known = next((side.manifest for side in (found.baseline, found.candidate) if side.manifest is not None), None)
    if known is None:
        return
    after = settled(found.baseline, found.candidate)
    console.print()
    if after is None:
        console.print(Text(SAYS[regime(known["cell"]["workload"])], style="dim"), soft_wrap=True)
        return
    text = (
        f"steady load: the first {after.cut:,} of {after.requests:,} requests are start-up (MSER-5, alike in both arms)"
    )
    console.print(Text(text, style="bold"), soft_wrap=True)
    if after.paired.ratio is not None:
        ratio = _interval(after.paired.ratio, after.paired.lo, after.paired.hi)
        console.print(f"  mean end-to-end time after it: ratio {ratio}", highlight=False)
    for side, batches in zip((found.baseline, found.candidate), after.batches or (), strict=False):
        ends = batches.reason if batches.lo is None else f"[{number(batches.lo)}, {number(batches.hi or 0.0)}]"
        console.print(f"  {side.name}: {number(batches.mean)} s {ends}, batch means", highlight=False, soft_wrap=True)
    if not after.is_settled:
        text = "warning: it never settles: the load is near or above what the fleet can do; no mean describes it"
        console.print(Text(text, style="yellow"), soft_wrap=True)


def _rows(finding: Finding) -> list[tuple[str, str]]:
    paired = finding.paired
    rows = [("means", f"{_mean(finding.baseline)} -> {_mean(finding.candidate)}")]
    if paired.is_tie:
        return [*rows, ("ratio", f"1 exactly, in all {paired.pairs} pairs")]
    if paired.ratio is None:
        return [*rows, ("ratio", f"none: {paired.reason}")]
    rows.append(
        ("ratio", _interval(paired.ratio, paired.lo, paired.hi) + (f" ({paired.reason})" if paired.reason else ""))
    )
    if paired.boot_lo is not None:
        rows.append(("bootstrap", f"[{paired.boot_lo:.3f}, {paired.boot_hi:.3f}]"))
    if finding.exact is not None:
        exact = finding.exact
        rows.append(("exact classes", _interval(exact.ratio, exact.lo, exact.hi)))
    if finding.verdict is not None:
        rows.append(("verdict", str(finding.verdict)))
    if paired.p_worse is not None:
        rows.append(("pairs worse", f"{paired.p_worse:.1%}"))
    if finding.permutation_p is not None:
        rows.append(("permutation p", f"{finding.permutation_p:.4f}"))
    if finding.common is not None:
        rows.append(
            ("pairing", f"correlation {finding.common.correlation:.2f}, variance x {finding.common.variance_ratio:.2f}")
        )
    if finding.imbalance is not None:
        rows.append(("with imbalance", f"Spearman {finding.imbalance.rho:.2f} (p {finding.imbalance.p:.4f})"))
    return rows


def _name(side: Side) -> str:
    return f"{side.name} (measured)" if side.is_measured else side.name


def _mean(mean: Mean) -> str:
    return "none" if mean.mean is None else number(mean.mean)


def _interval(ratio: float, lo: float | None, hi: float | None) -> str:
    return f"{ratio:.3f}" if lo is None or hi is None else f"{ratio:.3f} [{lo:.3f}, {hi:.3f}]"


def _quantile(quantile: Quantile) -> str:
    ends = [number(end) if end is not None else "none" for end in (quantile.lo, quantile.hi)]
    return f"{number(quantile.value)} [{ends[0]}, {ends[1]}]"


def document(found: Contrast) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "baseline": _name(found.baseline),
        "candidate": _name(found.candidate),
        "pairs": found.pairs,
        "steady": _settled(found),
        "findings": [_finding(each) for each in found.findings],
        "warnings": found.notes,
    }


def _settled(found: Contrast) -> dict[str, Any] | None:
    after = settled(found.baseline, found.candidate)
    if after is None:
        return None
    ratio = {"ratio": after.paired.ratio, "lo": after.paired.lo, "hi": after.paired.hi}
    return {"cut": after.cut, "requests": after.requests, "is_settled": after.is_settled, **ratio}


def _finding(finding: Finding) -> dict[str, Any]:
    paired, verdict, exact = finding.paired, finding.verdict, finding.exact
    return {
        "metric": finding.metric,
        "baseline": finding.baseline.mean,
        "candidate": finding.candidate.mean,
        "ratio": paired.ratio,
        "lo": paired.lo,
        "hi": paired.hi,
        "boot_lo": paired.boot_lo,
        "boot_hi": paired.boot_hi,
        "caution": paired.caution or paired.reason,
        "p": paired.p,
        "permutation_p": finding.permutation_p,
        "p_worse": paired.p_worse,
        "pairs": paired.pairs,
        "verdict": None if verdict is None else str(verdict),
        "correlation": finding.common and finding.common.correlation,
        "variance_ratio": finding.common and finding.common.variance_ratio,
        "humps_p": finding.humps and finding.humps.p,
        "spearman_imbalance": finding.imbalance and finding.imbalance.rho,
        "spearman_p": finding.imbalance and finding.imbalance.p,
        "exact": None if exact is None else {"ratio": exact.ratio, "lo": exact.lo, "hi": exact.hi},
    }
