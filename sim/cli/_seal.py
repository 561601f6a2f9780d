"""``windtunnel seal``: everything that a campaign of real runs is held against, fixed before its first run."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from sim import interrupts
from sim.cli import _options


@click.command(short_help="Fix prediction, rule, traces and arms before the real run.")
@_options.scenario
@click.option("--baseline", metavar="ARM", help="The arm that is there; by default the scenario's baseline.")
@click.option("--candidate", metavar="ARM", help="The arm that is proposed; by default the only other one.")
@click.option("--variants", is_flag=True, help="Every variant of the scenario's sweep is a cell of the campaign.")
@_options.pairs
@_options.seed
@_options.overrides
@_options.lines
@click.option(
    "--real-pairs", type=click.IntRange(2, 10_000), help="Real pairs of a cell; by default what the review plans."
)
@click.option("--no-extension", is_flag=True, help="Allow no extension: one look, at 95 %.")
@click.option("--draws", type=click.IntRange(2, 10_000), default=48, show_default=True, help="Draws of assumptions.")
@_options.formats("Formats of the traces beside this program's own.")
@click.option("--date", metavar="TEXT", help="A date to stand beside the digest; it is not part of it.")
@_options.every_core
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder to seal into.  [default: results/SCENARIO/seal]",
)
@_options.results
@_options.fresh
def seal(
    scenario: str,
    overrides: tuple[str, ...],
    baseline: str | None,
    candidate: str | None,
    variants: bool,
    pairs: int | None,
    seed: int | None,
    equal: float,
    harm: float,
    interest: float,
    real_pairs: int | None,
    no_extension: bool,
    draws: int,
    formats: tuple[str, ...],
    date: str | None,
    jobs: int | None,
    folder: Path | None,
    out: Path,
    fresh: bool,
) -> None:
    """Seal the two arms of SCENARIO: traces, configurations, prediction and rule in one folder with one digest.

    The prediction says of every metric where the mean of the real campaign should fall, by running its own traces under
    many draws of what is taken for given. Publish the digest before the first run; ``windtunnel score`` holds the
    results against it. Sealing again gives the same digest; a folder that holds another seal is left as it is.
    """
    with interrupts.deferred():
        from rich.console import Console

        from sim import campaign, review
        from sim.cli._progress import progress_line
        from sim.cli._review import reproduce
        from sim.files import replacing
        from sim.report.contrast import Lines
        from sim.scenario import load_scenario, load_sweep

    if variants:
        found = {each.name: each.scenario for each in load_sweep(scenario, overrides).variants}
    else:
        made = load_scenario(scenario, overrides)
        found = {made.name: made}
    console = Console(stderr=True)
    cells = {}
    name = next(iter(found.values())).name
    choice = campaign.Choice(real_pairs, not no_extension, draws, formats, date=date)
    place = folder or out / name / "seal"
    with progress_line(console) as progress:
        for cell, each in found.items():
            chosen, _, other = review.choose(each.select(pairs=pairs, seed=seed), baseline, candidate)
            lines, task = Lines(equal, harm, interest), progress.add_task(cell, total=chosen.pairs * len(chosen.arms))
            cells[cell] = review.gather(
                chosen, other, lines, out=out, jobs=jobs, fresh=fresh, progress=partial(_update, progress, task)
            )
        told = partial(_update, progress, progress.add_task("draws of assumptions", total=draws))
        sealed = campaign.make(cells, place, choice, told)
    for cell, evidence in cells.items():
        command = reproduce(scenario, evidence, overrides, evidence.lines)
        command[1] = "seal"
        command += [*(["--variants"] if variants else []), *_planned(sealed.rule.pairs, choice)]
        shown = campaign.reviewed(evidence, sealed, shlex.join(command))
        text = {"review.html": review.html(shown, review.figures(evidence)), "review.md": review.markdown(shown)}
        for file, content in text.items():
            path = place / (file if len(cells) == 1 else f"{campaign.slug(cell)}-{file}")
            with replacing(path) as write:
                write(content.encode())
            click.echo(f"wrote {path}", err=True)
        if not shown.judgement.headline.startswith("RUN"):
            said = "; ".join([shown.judgement.headline, *shown.judgement.because])
            click.echo(f"warning: {cell}: the review of what is sealed says: {said}", err=True)
    click.echo(f"{sealed.digest}  {place}")
    for warning in campaign.warnings(sealed):
        click.echo(f"warning: {warning}", err=True)


def _planned(pairs: int, choice: Any) -> list[str]:
    """The options with which the same is sealed again."""
    words = ["--real-pairs", str(pairs), "--draws", str(choice.draws)]
    words += [] if choice.extension else ["--no-extension"]
    for each in choice.formats:
        words += [] if each == "windtunnel" else ["--format", each]
    return words


def _update(progress: Any, task: Any, done: int, total: int) -> None:
    progress.update(task, completed=done, total=total)
