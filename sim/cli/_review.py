"""``windtunnel review``: two arms of a scenario as a design review."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sim import review
from sim.report.contrast import Lines
from sim.scenario import load_scenario


def write_review(
    name: str,
    overrides: Sequence[str],
    *,
    baseline: str | None,
    candidate: str | None,
    ablation: str | None,
    pairs: int | None,
    seed: int | None,
    lines: Lines,
    jobs: int | None,
    folder: Path | None,
    out: Path,
    fresh: bool,
) -> None:
    """Run what is not stored, write the review, say what it recommends."""
    scenario = load_scenario(name, overrides).select(pairs=pairs, seed=seed)
    scenario, base, other = review.choose(scenario, baseline, candidate, ablation)
    notes = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
        task = progress.add_task(scenario.name, total=scenario.pairs * len(scenario.arms))
        evidence = review.gather(
            scenario,
            other,
            lines,
            out=out,
            ablation=ablation,
            jobs=jobs,
            fresh=fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    command = ["windtunnel", "review", name, "--baseline", base, "--candidate", other]
    command += ["--ablation", ablation] if ablation else []
    command += ["--pairs", str(evidence.pairs), "--seed", str(scenario.seed)]
    for each in overrides:
        command += ["--set", each]
    default = Lines()
    for option in ("equal", "harm", "interest"):
        if (value := getattr(lines, option)) != getattr(default, option):
            command += [f"--{option}", f"{value:g}"]
    found = review.review_of(evidence, shlex.join(command))
    place = folder or out / scenario.name / "review"
    for path in review.write(found, review.figures(evidence), place):
        click.echo(f"wrote {path}", err=True)
    click.echo(found.judgement.headline + (", because" if found.judgement.is_refused else ""))
    for reason in found.judgement.because:
        click.echo(f"  {reason}")
