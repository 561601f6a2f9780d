"""``windtunnel calibrate``: fit a profile to measured steps, or hold a simulated run against a measured one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from sim.calibration.fit import Fit, fit
from sim.calibration.score import Score
from sim.calibration.steps import PHASES, read, write
from sim.errors import ScenarioError
from sim.files import write_whole
from sim.registry import suggest

HEAD = f"{'':<10}{'measured':>12}{'simulated':>12}{'mean':>9}{'p50':>9}{'p99':>9}{'each':>9}{'each p90':>10}"
DOTS = 4000
"""Most steps that the residual plot shows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user says beside the measurements."""

    device: str | None
    model: str | None
    tp: int | None
    fixed: tuple[str, ...]
    source: str
    resamples: int
    figures: dict[str, float]


def fit_profile(measurements: Path, out: Path, choice: Choice) -> None:
    """Fit, write the profile and its residual plot, say what was found."""
    from sim.calibration.document import profile_yaml, region
    from sim.calibration.memory import figures

    steps = read(measurements, device=choice.device, model=choice.model, tp=choice.tp)
    found = fit(steps, fixed=_fixed(choice.fixed), resamples=choice.resamples)
    known = {**figures(steps.model, steps.tp), **choice.figures}
    text = profile_yaml(found, source=choice.source or f"steps measured in {measurements.name}", figures=known)
    write_whole(out, text)
    click.echo(f"{steps.device} {steps.model} tp {steps.tp}: {len(steps)} steps, {len(found.steps)} configurations")
    for line in _coefficients(found):
        click.echo(line)
    for phase, (mean, p90) in found.error_percent.items():
        click.echo(f"error of {phase} steps left out: mean {mean:.1f} %, 90th percentile {p90:.1f} %")
    for name, (low, high) in region(found).items():
        click.echo(f"measured {name}: {low:g} to {high:g}")
    for path in (out, *_plot(found, out)):
        click.echo(f"wrote {path}", err=True)


def _fixed(pairs: Sequence[str]) -> dict[str, float]:
    found = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ScenarioError(f"--fix takes TERM=VALUE with a value of zero or more, not {pair!r}")
        found[name.strip()] = value
    return found


def _coefficients(found: Fit) -> list[str]:
    """Each coefficient with its standard error, and the knots that went."""
    lines = []
    for name, value, deviation in zip(found.terms, found.values, found.deviations, strict=True):
        of_it = "" if value == 0 else f" ± {100 * deviation / value:.0f} %"
        lines.append(f"{name:<20}{value:>12.5g}{of_it}")
    lines += [f"{name:<20}{value:>12.5g} fixed" for name, value in found.fixed.items()]
    return lines + [
        f"no knot of token_ms at {knot}: a slope beside it is known to ± {100 * share:.0f} % only"
        for knot, share in sorted(found.dropped.items())
    ]


def _plot(found: Fit, out: Path) -> list[Path]:
    from sim import charts

    rows = np.linspace(0, len(found.steps) - 1, min(len(found.steps), DOTS)).astype(int)
    phases = [PHASES[index] for index in found.steps.phase[rows].tolist()]
    title = f"{found.steps.device}, {found.steps.model}, tp {found.steps.tp}: steps left out of the fit"
    chart = charts.residuals(phases, found.steps.ms[rows].tolist(), found.errors[rows].tolist(), title)
    return charts.save(chart, out.with_name(f"{out.stem}_residuals"))


def write_steps(log: Path, out: Path, *, device: str, model: str, tp: int) -> None:
    """Write the decode steps of an engine's log as measurements."""
    from sim.calibration.step_log import read_log

    found = read_log(log, device=device, model=model, tp=tp)
    write(out, found)
    low, high = found.decodes.min(), found.decodes.max()
    click.echo(f"{len(found)} decode steps of {low:g} to {high:g} sequences")
    click.echo(f"wrote {out}", err=True)


def check_run(run: str, overrides: Sequence[str]) -> None:
    """Print how far the simulator is from a measured run."""
    from sim.calibration.check import check

    checked = check(run, tuple(overrides))
    for arm, scores in checked.scores.items():
        title = checked.name if len(checked.scores) == 1 else f"{checked.name}, arm {arm}"
        click.echo(f"{title}: {checked.requests} requests, errors of simulated over measured in percent")
        click.echo(HEAD)
        for each in scores:
            click.echo(_line(each))
    click.echo("mean, p50, p99: of the statistic over requests; each: mean absolute error of single requests")


def write_record(folder: Path, out: Path) -> None:
    """Write the errors of steps and runs as data."""
    from sim.calibration.record import dump
    from sim.calibration.recording import record

    text = dump(record(folder))
    write_whole(out, text)
    click.echo(f"wrote {out}", err=True)


def print_published(folder: Path, sections: Sequence[str]) -> None:
    """Print the tables of docs/calibration.md, row by row as they are computed."""
    from sim.calibration.evidence import SECTIONS, lines

    for name in sections:
        if name not in SECTIONS:
            raise ScenarioError(f"--section {name}: no such table; {suggest(name, SECTIONS)}")
    for place, name in enumerate(sections or SECTIONS):
        if place:
            click.echo()
        for line in lines(folder, name):
            click.echo(line)


def _line(each: Score) -> str:
    values = f"{each.quantity:<10}{each.measured.mean():>10.4g} s{each.simulated.mean():>10.4g} s"
    line = f"{values}{100 * each.mean:>+9.2f}"
    if len(each.measured) == 1:
        return line
    apart = each.per_request
    own = f"{100 * each.p50:>+9.2f}{100 * each.p99:>+9.2f}{100 * apart.mean():>9.2f}"
    return f"{line}{own}{100 * np.quantile(apart, 0.9):>10.2f}"
