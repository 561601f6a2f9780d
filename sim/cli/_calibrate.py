"""``windtunnel calibrate``: fit a profile to measured steps, or hold a simulated run against a measured one."""

from pathlib import Path

import click
from click.core import ParameterSource

from sim.cli import _options

_FITTING = (
    "measurements",
    "out",
    "device",
    "model",
    "tp",
    "fixed",
    "host0_ms",
    "host1_ms",
    "slowdown",
    "source",
    "resamples",
)


@click.command(short_help="Fit a cost profile to measured steps, or check a measured run.")
@click.argument("measurements", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The profile to write.  [default: profile.yaml]")
@click.option(
    "--check", "run_name", metavar="RUN", help="Hold a simulated run against the measured one that it replays."
)
@click.option(
    "--published",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Make the tables of docs/calibration.md again from the measurements in FOLDER.",
)
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="With --published: only this table. Repeatable.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --published: write the errors of steps and runs as JSON; reviews read sim/calibration/record.json.",
)
@click.option("--device", help="Fit the rows of this device.")
@click.option("--model", help="Fit the rows of this model.")
@click.option("--tp", type=click.IntRange(min=1), help="Fit the rows of this tensor-parallel size.")
@click.option("--fix", "fixed", multiple=True, metavar="TERM=VALUE", help="Do not fit this term. Repeatable.")
@click.option(
    "--host0-ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Host time of a step that the measurements leave out.",
)
@click.option(
    "--host1-ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="The same of each sequence of a step.",
)
@click.option(
    "--slowdown",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Steady rate over the measured one, where steps were timed in bursts.",
)
@click.option("--source", default="", help="Where the measurements come from, for the profile.")
@click.option(
    "--resamples", type=click.IntRange(0, 1000), default=40, show_default=True, help="Bootstrap fits to keep."
)
@_options.overrides
def calibrate(
    measurements: Path | None,
    out: Path | None,
    run_name: str | None,
    published: Path | None,
    sections: tuple[str, ...],
    record: Path | None,
    device: str | None,
    model: str | None,
    tp: int | None,
    fixed: tuple[str, ...],
    host0_ms: float,
    host1_ms: float,
    slowdown: float,
    source: str,
    resamples: int,
    overrides: tuple[str, ...],
) -> None:
    """Fit a cost profile to the steps of MEASUREMENTS, a CSV file, and write it with a plot of its residuals.

    One row a step, columns device, model, tp, prefill_tokens (new tokens of all chunks), pairs (sum over chunks of
    q*p + q*(q+1)/2, q new tokens on p before them), decodes (sequences), context (sum of their contexts), chunks, ms.
    A term that the steps cannot tell from others is refused.

    With --check RUN, a scenario or a folder that holds one: replay its measured run (workload serving_run) and print
    the errors of makespan, TTFT, TPOT and end to end time.

    With --published FOLDER: fits, composed steps and simulated runs against what was published, some minutes. FOLDER
    holds the tables as tests/data/calibration of the source repository does.
    """
    from sim.cli.text import calibrate as found

    if [measurements, run_name, published].count(None) != 2:
        raise click.UsageError("Give MEASUREMENTS to fit, --check RUN or --published FOLDER.")
    if run_name is not None:
        _only("--check", "run_name", "overrides")
        found.check_run(run_name, overrides)
        return
    if published is not None:
        if record is not None:
            _only("--record", "published", "record")
            found.write_record(published, record)
            return
        _only("--published", "published", "sections")
        found.print_published(published, sections)
        return
    assert measurements is not None
    _only("MEASUREMENTS", *_FITTING)
    figures = {"slowdown": slowdown, "host0_ms": host0_ms, "host1_ms": host1_ms}
    choice = found.Choice(device, model, tp, fixed, source, resamples, figures)
    found.fit_profile(measurements, out or Path("profile.yaml"), choice)


def _only(what: str, *known: str) -> None:
    """Refuse options that would change nothing."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in known and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option.opts[0]} changes nothing with {what}.")
