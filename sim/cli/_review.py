"""``windtunnel review``: two arms of a scenario as a design review."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sim import interrupts
from sim.cli import _complete, _options


@click.command(short_help="Write the design review of two arms of a scenario.")
@_options.scenario
@click.option("--baseline", metavar="ARM", help="The arm that is there; by default the scenario's baseline.")
@click.option("--candidate", metavar="ARM", help="The arm that is proposed; by default the only other one.")
@click.option("--ablation", metavar="ARM", help="The candidate without its mechanism: one field changed.")
@_options.pairs
@_options.seed
@_options.overrides
@click.option(
    "--vary",
    multiple=True,
    metavar="PATH=A,B,C",
    shell_complete=_complete.setting,
    help="Review the same two arms in several cells, a folder each, and set them side by side in cells.md.",
)
@_options.lines
@click.option(
    "--sensitivity-pairs",
    type=click.IntRange(0, 1_000_000),
    help="Pairs of each setting at which an assumption is varied; 0: none is. By default as many as "
    "--sensitivity-requests allow, up to 16.",
)
@click.option(
    "--sensitivity-requests",
    type=click.IntRange(min=1),
    default=2_500_000,
    show_default=True,
    help="Requests to simulate at other settings: two pairs everywhere first, then more where the decision is nearest "
    "to a flip.",
)
@click.option(
    "--ablation-pairs",
    type=click.IntRange(0, 1_000_000),
    help="Pairs with what moves most engine time switched off in both arms, where no arm takes it away; 0: none. By "
    "default as many as a budget of requests allows.",
)
@_options.every_core
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the review is written.  [default: results/SCENARIO/review]",
)
@_options.results
@_options.fresh
def review(
    scenario: str,
    overrides: tuple[str, ...],
    vary: tuple[str, ...],
    baseline: str | None,
    candidate: str | None,
    ablation: str | None,
    pairs: int | None,
    seed: int | None,
    equal: float,
    harm: float,
    interest: float,
    sensitivity_pairs: int | None,
    sensitivity_requests: int,
    ablation_pairs: int | None,
    jobs: int | None,
    folder: Path | None,
    out: Path,
    fresh: bool,
) -> None:
    """Write a design review of one change: review.html, which opens offline, review.md for a pull request, figures.

    The two arms differ in exactly one field, or it fails. Replications that are stored are not run again. It recommends
    nothing where the evidence does not allow it, and says what would resolve that.

    With --vary each cell is reviewed by itself, into a folder of its name; cells.md has them side by side, with Holm's
    correction and the rule of a default: better in every cell.
    """
    with interrupts.deferred():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from sim import review as reviews
        from sim.campaign import refuse_sealed
        from sim.report.contrast import Lines
        from sim.scenario import Scenario, load_scenario, load_sweep

    lines, notes = Lines(equal, harm, interest), Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    def one(made: Scenario, sets: Sequence[str], where: Path | None) -> reviews.Evidence:
        made, _, other = reviews.choose(made.select(pairs=pairs, seed=seed), baseline, candidate, ablation)
        with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
            task = progress.add_task(made.name, total=made.pairs * len(made.arms))
            evidence = reviews.gather(
                made,
                other,
                lines,
                out=out,
                ablation=ablation,
                jobs=jobs,
                fresh=fresh,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
                sensitivity_pairs=sensitivity_pairs,
                sensitivity_requests=sensitivity_requests,
                ablation_pairs=ablation_pairs,
                told=lambda says: progress.console.print(says, highlight=False, soft_wrap=True),
            )
        command = reproduce(scenario, evidence, sets, lines)
        command += ["--ablation", ablation] if ablation else []
        command += [] if sensitivity_pairs is None else ["--sensitivity-pairs", str(sensitivity_pairs)]
        if sensitivity_requests != reviews.BUDGET:
            command += ["--sensitivity-requests", str(sensitivity_requests)]
        command += [] if ablation_pairs is None else ["--ablation-pairs", str(ablation_pairs)]
        found = reviews.review_of(evidence, shlex.join(command))
        place = where or out / made.name / "review"
        written = reviews.write(found, reviews.figures(evidence), place)
        pages = [path for path in written if path.parent == place]
        for path in pages:
            click.echo(f"wrote {path}", err=True)
        click.echo(f"wrote {len(written) - len(pages)} figures and tables in {place}", err=True)
        click.echo(found.judgement.headline + (", because" if found.judgement.is_refused else ""))
        for reason in found.judgement.because:
            click.echo(f"  {reason}")
        return evidence

    refuse_sealed(folder or out)
    if not vary:
        one(load_scenario(scenario, overrides), overrides, folder)
        return
    sweep, cells = load_sweep(scenario, overrides, vary), []
    place = folder or out / sweep.scenario.name / "review"
    for each in sweep.variants:
        click.echo(f"{each.name}:")
        settings = [f"{path}={json.dumps(value)}" for path, value in each.settings.items()]
        cells.append((each.name, one(each.scenario, [*overrides, *settings], place / each.name)))
    across = reviews.across(cells)
    click.echo(f"wrote {reviews.write_across(across, sweep.scenario.name, place)}", err=True)
    click.echo(across.says)


def reproduce(scenario: str, evidence: Any, overrides: Sequence[str], lines: Any) -> list[str]:
    """The words of the command that makes a review again."""
    arms = ["--baseline", evidence.baseline, "--candidate", evidence.candidate]
    command = ["windtunnel", "review", scenario, *arms, "--pairs", str(evidence.pairs)]
    command += ["--seed", str(evidence.scenario.seed)]
    for each in overrides:
        command += ["--set", each]
    usual = asdict(type(lines)())
    for option, value in asdict(lines).items():
        if value != usual[option]:
            command += [f"--{option}", f"{value:g}"]
    return command
