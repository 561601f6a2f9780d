"""The commands. Each imports what it needs when it runs, so that ``--help`` and completion answer at once."""

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import get_completion_class

from sim.cli import _complete
from sim.errors import ScenarioError

SHELLS = ("bash", "zsh", "fish")
_complete.register()


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    try:
        click.echo(f"windtunnel {metadata.version('windtunnel')}")
    except metadata.PackageNotFoundError:
        click.echo("windtunnel (not installed, run from its source)")
    context.exit()


def _folder(_: click.Context, __: click.Parameter, value: str) -> Path:
    if not value:
        raise click.BadParameter("an empty name; the current folder is .")
    return Path(value)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def windtunnel() -> None:
    """A wind tunnel for request routing over fleets of LLM engines.

    Write the fleet, the workload and the policies in one YAML file; see which policy wins, by how much and how sure.
    """


_scenario = click.argument("scenario", shell_complete=_complete.scenario)
_overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=_complete.setting,
    help="Override a value, as in fleet.engines=4. Repeatable.",
)
_pairs = click.option("--pairs", type=click.IntRange(1, 1_000_000), help="Replications of each arm.")
_seed = click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of all random streams.")
_fresh = click.option("--fresh", is_flag=True, help="Run again what is stored already.")
_jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Worker processes; by default one a core, where that is worth their start.",
)
_results = click.option(
    "--out",
    type=click.Path(),
    default="results",
    show_default=True,
    callback=_folder,
    help="Folder of results.",
)


@windtunnel.command(short_help="Run the arms of a scenario and compare them.")
@_scenario
@click.option("--pairs", type=click.IntRange(1, 1_000_000), help="Replications of each arm; it replaces a stop rule.")
@_seed
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete.arm,
    help="Run this arm beside the baseline. Repeatable.",
)
@_overrides
@_jobs
@_results
@_fresh
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def run(
    scenario: str,
    pairs: int | None,
    seed: int | None,
    arms: tuple[str, ...],
    overrides: tuple[str, ...],
    jobs: int | None,
    out: Path,
    fresh: bool,
    as_json: bool,
) -> int:
    """Run every arm of SCENARIO on the same workloads and compare them with the baseline.

    SCENARIO is a file, or the name of a shipped scenario. Finished replications are stored at once: after any end the
    same command goes on where it stopped.
    """
    from sim import interrupts

    with interrupts.deferred():
        from sim.cli._run import run_scenario

    return run_scenario(
        scenario, overrides, pairs=pairs, seed=seed, arms=arms, jobs=jobs, out=out, fresh=fresh, as_json=as_json
    )


@windtunnel.command(short_help="Run the variants of a scenario; see where the winner changes.")
@_scenario
@click.option(
    "--vary",
    multiple=True,
    metavar="PATH=A,B,C",
    shell_complete=_complete.setting,
    help="Vary a field, in place of the scenario's sweep block: a list, or {first: 1, last: 8, steps: 4, scale: log}. "
    "Repeated: a grid.",
)
@click.option("--metric", help="What the table shows; by default the scenario's first metric.")
@_pairs
@_seed
@_overrides
@_jobs
@click.option(
    "--executor",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="Where replications run: on this machine, or on a Ray cluster (needs windtunnel[ray]).",
)
@click.option("--address", help="Address of the Ray cluster; absent: a Ray of this machine alone.")
@_results
@click.option("--tables", "keep_tables", is_flag=True, help="Store every request and decision, as run does.")
@_fresh
def sweep(scenario: str, **options: object) -> int:
    """Run every arm of every variant of SCENARIO, and compare the arms variant by variant.

    Variants are named by the scenario's sweep block, or by --vary. Finished replications are stored at once: after any
    end the same command goes on where it stopped.
    """
    from sim import interrupts

    with interrupts.deferred():
        from sim.cli._sweep import Options, run_sweep

    return run_sweep(scenario, Options(**options))  # type: ignore[arg-type]


@windtunnel.command(short_help="Find good values of an arm's parameters.")
@_scenario
@click.option(
    "--param",
    "parameters",
    multiple=True,
    required=True,
    metavar="PATH=LOW..HIGH[:log]",
    shell_complete=_complete.setting,
    help="A number and its range, as in router.policy.cache_threshold=0.1..0.9. Repeatable.",
)
@click.option(
    "--arm", metavar="NAME", shell_complete=_complete.arm, help="The arm that is tuned; by default the only candidate."
)
@click.option("--metric", help="What is to be best; by default the scenario's first metric.")
@click.option(
    "--budget",
    type=click.IntRange(1, 1_000_000),
    default=200,
    show_default=True,
    help="Replications, those of the baseline included.",
)
@_seed
@_overrides
@_jobs
@_results
@_fresh
def tune(scenario: str, **options: object) -> int:
    """Find the best values of numbers of one arm of SCENARIO, compared with the baseline on the same pairs.

    A quarter of the budget measures what was found anew, on pairs that the search has not seen. Warns where the optimum
    is inside the noise, or at an end of its range. Finished replications are stored at once: after any end the same
    command goes on where it stopped.
    """
    from sim import interrupts

    with interrupts.deferred():
        from sim.cli._tune import Options, run_tuning

    return run_tuning(scenario, Options(**options))  # type: ignore[arg-type]


@windtunnel.command(short_help="List stored results.")
@_results
def ls(out: Path) -> None:
    """List stored results: hash, scenario, arms, pairs."""
    from sim.cli._stored import print_list

    print_list(out)


@windtunnel.command(short_help="Show a stored result.")
@click.argument("hash", metavar="ID")
@_results
def show(hash: str, out: Path) -> None:
    """Show a stored result: what it is, and every metric with its interval. ID is a hash, or its first digits."""
    from sim.cli._stored import print_result

    print_result(hash, out)


@windtunnel.command(short_help="Write what each engine of a stored result did when.")
@click.argument("hash", metavar="ID")
@click.option("--pair", type=click.IntRange(0, 999_999), default=0, show_default=True, help="Which replication.")
@click.option(
    "-o",
    "trace_file",
    type=click.Path(path_type=Path),
    default=Path("trace.json"),
    show_default=True,
    help="The trace to write.",
)
@click.option("--chart", type=click.Path(path_type=Path), metavar="STEM", help="Write STEM.png and STEM.html too.")
@_results
def timeline(hash: str, pair: int, trace_file: Path, chart: Path | None, out: Path) -> None:
    """Write one replication of a stored result as a trace for https://ui.perfetto.dev or chrome://tracing.

    ID is a hash, or its first digits. Each engine is a process: runs of equal steps and idle stretches, what their time
    went to, counters of requests and KV blocks, marks where it fails, comes, goes or gets other weights.
    """
    from sim.cli._timeline import write_timeline

    write_timeline(hash, pair, trace_file, chart, out)


@windtunnel.command(short_help="Check a scenario without running it.")
@_scenario
@_overrides
def check(scenario: str, overrides: tuple[str, ...]) -> None:
    """Check SCENARIO without running it.

    Prints it with every default filled in (as YAML that can be run), what its arms differ in, and warnings.
    """
    from sim.cli._check import check_scenario

    check_scenario(scenario, overrides)


def _blocks(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    try:
        blocks = [int(each) for each in value.split(",")]
    except ValueError:
        raise click.BadParameter("tokens of a block, as in 1,16,64") from None
    if min(blocks) < 1:
        raise click.BadParameter("a block has 1 token or more")
    return blocks


@windtunnel.command(short_help="Describe what a workload holds.")
@click.argument("name", metavar="SCENARIO|PRESET|FILE", shell_complete=_complete.workload)
@_overrides
@click.option("--engines", type=click.IntRange(1, 100_000), help="Engines that keys are spread over; else the fleet's.")
@_seed
@click.option(
    "--replication", type=click.IntRange(0, 999_999), default=0, show_default=True, help="Which replication to draw."
)
@click.option(
    "--blocks", default="1,16,64,2080", show_default=True, callback=_blocks, help="Block sizes of the reuse ceiling."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
@click.option("--chart", type=click.Path(path_type=Path), metavar="STEM", help="Write STEM.png and STEM.html.")
def workload(
    name: str,
    overrides: tuple[str, ...],
    engines: int | None,
    seed: int | None,
    replication: int,
    blocks: list[int],
    as_json: bool,
    chart: Path | None,
) -> None:
    """Draw one replication of a workload and say what it holds; nothing is run.

    The workload of a scenario (of each arm that has its own), a preset by name, or a trace file. Values are overridden
    as in a scenario: --set workload.groups=32.

    Prints percentiles of prompts, of what they share, of answers, turns and gaps; the largest request; how much of the
    work a hundredth of the sessions has; the best hit rate that any cache could have; how evenly a good hash would
    spread the routing keys.
    """
    from sim.cli import _workload

    _workload.show(
        name,
        overrides,
        engines=engines,
        seed=seed,
        replication=replication,
        blocks=blocks,
        as_json=as_json,
        chart=chart,
    )


@windtunnel.command(short_help="Print the JSON Schema of a scenario.")
def schema() -> None:
    """Print the JSON Schema of a scenario, for editors that complete and check YAML."""
    import json

    from sim.scenario import schema as make_schema

    click.echo(json.dumps(make_schema(), indent=2))


@windtunnel.command(short_help="List the policies, or show one.")
@click.argument("kind", required=False, shell_complete=_complete.policy)
def policies(kind: str | None) -> None:
    """List the policies, or show KIND: what it does, its parameters and the headers it reads."""
    from sim.cli._policies import describe, listing

    click.echo(listing() if kind is None else describe(kind))


@windtunnel.command(short_help="Fit a cost profile to measured steps, or check a measured run.")
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
@_overrides
def calibrate(
    measurements: Path | None,
    out: Path | None,
    run_name: str | None,
    published: Path | None,
    sections: tuple[str, ...],
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
    from sim.cli import _calibrate

    if [measurements, run_name, published].count(None) != 2:
        raise click.UsageError("Give MEASUREMENTS to fit, --check RUN or --published FOLDER.")
    if run_name is not None:
        _only("--check", "run_name", "overrides")
        _calibrate.check_run(run_name, overrides)
        return
    if published is not None:
        _only("--published", "published", "sections")
        _calibrate.print_published(published, sections)
        return
    assert measurements is not None
    _only("MEASUREMENTS", *_FITTING)
    figures = {"slowdown": slowdown, "host0_ms": host0_ms, "host1_ms": host1_ms}
    choice = _calibrate.Choice(device, model, tp, fixed, source, resamples, figures)
    _calibrate.fit_profile(measurements, out or Path("profile.yaml"), choice)


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


def _only(what: str, *known: str) -> None:
    """Refuse options that would change nothing."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in known and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option.opts[0]} changes nothing with {what}.")


@windtunnel.command(short_help="Turn an engine's log into measured steps.")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("steps.csv"), show_default=True)
@click.option("--device", required=True, help="GPU type, as in h100-80gb.")
@click.option("--model", required=True, help="Model, as in llama-3-8b.")
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Tensor-parallel size.")
def steps(log: Path, out: Path, device: str, model: str, tp: int) -> None:
    """Write the decode steps of LOG, of vLLM or SGLang, as a CSV for ``windtunnel calibrate``.

    vLLM: --enable-logging-iteration-details, with synchronous scheduling. SGLang: --decode-log-interval 1. No log says
    what stood before a prefill chunk: measure prefill by prompts of your own and add rows.
    """
    from sim.cli._calibrate import write_steps

    write_steps(log, out, device=device, model=model, tp=tp)


@windtunnel.command(short_help="List the cost profiles, or show one.")
@click.argument("name", required=False, shell_complete=_complete.profile)
def profiles(name: str | None) -> None:
    """List the cost profiles with their errors and what they are valid for, or show the one called NAME.

    NAME may be a profile file of your own.
    """
    from sim.cli import _profiles

    click.echo(_profiles.listing() if name is None else _profiles.describe(name))


_metric = click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Compare this metric. Repeatable.")
_share = click.FloatRange(0, 1, min_open=True, max_open=True)


@windtunnel.command(short_help="Write the design review of two arms of a scenario.")
@_scenario
@click.option("--baseline", metavar="ARM", help="The arm that is there; by default the scenario's baseline.")
@click.option("--candidate", metavar="ARM", help="The arm that is proposed; by default the only other one.")
@click.option("--ablation", metavar="ARM", help="The candidate without its mechanism: one field changed.")
@_pairs
@_seed
@_overrides
@click.option("--equal", type=_share, default=0.02, show_default=True, help="Shares that count as equal.")
@click.option("--harm", type=_share, default=0.03, show_default=True, help="Loss that counts as harm.")
@click.option("--interest", type=_share, default=0.05, show_default=True, help="Smallest interesting gain.")
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; by default one a core.")
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the review is written.  [default: results/SCENARIO/review]",
)
@_results
@_fresh
def review(
    scenario: str,
    overrides: tuple[str, ...],
    baseline: str | None,
    candidate: str | None,
    ablation: str | None,
    pairs: int | None,
    seed: int | None,
    equal: float,
    harm: float,
    interest: float,
    jobs: int | None,
    folder: Path | None,
    out: Path,
    fresh: bool,
) -> None:
    """Write a design review of one change: review.html, which opens offline, review.md for a pull request, figures.

    The two arms differ in exactly one field, or it fails. Replications that are stored are not run again. It recommends
    nothing where the evidence does not allow it, and says what would resolve that.
    """
    from sim import interrupts

    with interrupts.deferred():
        from sim.cli._review import write_review
        from sim.report.contrast import Lines

    write_review(
        scenario,
        overrides,
        baseline=baseline,
        candidate=candidate,
        ablation=ablation,
        pairs=pairs,
        seed=seed,
        lines=Lines(equal, harm, interest),
        jobs=jobs,
        folder=folder,
        out=out,
        fresh=fresh,
    )


@windtunnel.command(short_help="Compare two stored results or logs.")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@_metric
@click.option("--equal", type=_share, default=0.02, show_default=True, help="Shares that count as equal.")
@click.option("--harm", type=_share, default=0.03, show_default=True, help="Loss that counts as harm.")
@click.option("--interest", type=_share, default=0.05, show_default=True, help="Smallest interesting gain.")
@click.option("--charts", type=click.Path(path_type=Path), metavar="FOLDER", help="Draw the pairs into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a text.")
def compare(
    baseline: Path,
    candidate: Path,
    metrics: tuple[str, ...],
    equal: float,
    harm: float,
    interest: float,
    charts: Path | None,
    as_json: bool,
) -> None:
    """Compare CANDIDATE with BASELINE pair by pair, and say what their pairs entitle to say.

    Each is a stored result (a folder with manifest.json), or measurements of a real run: a .csv or .parquet with a row
    a pair and columns named as metrics, or with a row a request (submitted_s, ended_s and what else was measured, named
    as in the requests table). Rows of one pair number form a pair.
    """
    from sim.cli._compare import compare_sides
    from sim.report.contrast import Lines

    compare_sides(baseline, candidate, metrics, Lines(equal, harm, interest), charts=charts, as_json=as_json)


@windtunnel.command(short_help="Say how many real pairs would show an effect.")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", metavar="NAME", help="The metric that decides.  [default: samples_per_s]")
@click.option(
    "--effect",
    type=click.FloatRange(-0.9, 10),
    default=0.05,
    show_default=True,
    help="The effect to show, as a share.",
)
@click.option("--power", "wanted", type=_share, default=0.8, show_default=True, help="Probability to show it.")
@click.option(
    "--noise",
    type=_share,
    help="Relative SD of one real run of one arm.  [default: real_run_noise of the scenario, 0.018]",
)
@click.option(
    "--overhead-min",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Minutes of boot, warm-up and drain of a run.",
)
@click.option(
    "--failures",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Share of runs that fail and are repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def power(
    results: tuple[Path, ...],
    metric: str | None,
    effect: float,
    wanted: float,
    noise: float | None,
    overhead_min: float,
    failures: float,
    as_json: bool,
) -> None:
    """Say how many pairs on real GPUs would show an effect, and what they cost, from stored RESULTS of two arms.

    RESULTS are two results, baseline first, or one folder that holds two. The real system's noise is added to the
    simulated spread; without it no number is a plan.
    """
    from sim.cli._power import plan_runs

    plan_runs(
        results,
        metric,
        effect=effect,
        wanted=wanted,
        noise=noise,
        overhead_min=overhead_min,
        failures=failures,
        as_json=as_json,
    )


@windtunnel.group(short_help="Look at recorded traces, or convert them.")
def trace() -> None:
    """Recorded traces of others: what they hold, and the same in another format. docs/traces.md has the formats."""


_reading = (
    click.option("--format", "form", default="auto", show_default=True, help="How the file is written."),
    click.option(
        "--block-tokens", type=click.IntRange(min=1), help="Tokens of a block of the file.  [default: its own]"
    ),
    click.option("--rows", type=click.Choice(["cover", "add"]), help="What a Mooncake row of a session gives."),
    click.option("--common-prefix", is_flag=True, help="Weka: tools and system prompt are the same in all sessions."),
    click.option("--chars-per-token", type=click.FloatRange(min=0, min_open=True), help="Where a file holds texts."),
)


def _read_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_reading):
        command = option(command)
    return command


@trace.command(short_help="Say what files hold.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_read_options
@click.option("--reuse", "blocks", multiple=True, type=click.IntRange(min=1), help="Block size of a reuse ceiling.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def info(
    files: tuple[Path, ...],
    form: str,
    block_tokens: int | None,
    rows: str | None,
    common_prefix: bool,
    chars_per_token: float | None,
    blocks: tuple[int, ...],
    as_json: bool,
) -> None:
    """Say what each of FILES holds: format, calls, sessions, times, percentiles of lengths, reuse ceilings.

    Files are streamed, plain or gzip; a folder is read as its files. Memory stays bounded whatever their size.
    """
    from sim.cli import _trace
    from sim.workload._traces._call import Reading

    _trace.known_format(form)
    reading = Reading(block_tokens, rows, common_prefix, chars_per_token or 4.0)  # type: ignore[arg-type]
    _trace.show_info(files, _trace.Asked(form, reading, blocks), as_json=as_json)


@trace.command(short_help="Write a trace in another format.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--to", required=True, type=click.Choice(["windtunnel", "mooncake", "aiperf", "dynamo"]), help="Format to write."
)
@_read_options
@click.option("--to-block-tokens", type=click.IntRange(min=1), help="Tokens of a block to write.  [default: as read]")
@click.option("--window", nargs=2, type=float, metavar="FROM TO", help="Only sessions that start between, seconds.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first sessions, at most this many.")
@click.option("--sample", default=1.0, type=click.FloatRange(0, 1, min_open=True), help="Share of sessions to keep.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**63 - 1), help="Of the sample.")
@click.option("--rate-scale", default=1.0, type=click.FloatRange(min=0, min_open=True), help="Sessions come faster.")
@click.option("--time-scale", default=1.0, type=click.FloatRange(min=0, min_open=True), help="All times are longer.")
@click.option("--token-s", default=0.0, type=click.FloatRange(min=0), help="Recorded seconds a generated token.")
@click.option("--live", is_flag=True, help="Answers are generated, not recorded.")
def convert(
    source: Path,
    target: Path,
    to: str,
    to_block_tokens: int | None,
    form: str,
    window: tuple[float, float] | None,
    sample: float,
    seed: int,
    live: bool,
    **more: Any,
) -> None:
    """Write the sessions of SOURCE to TARGET in another format; what it cannot say is noted on stderr.

    TARGET is packed if it ends in .gz.
    """
    from sim.cli import _trace
    from sim.workload.trace import Trace

    _trace.known_format(form)
    chosen = Trace(
        str(source),
        format=form,  # type: ignore[arg-type]
        window_s=window,
        sample_share=sample,
        mode="live" if live else "replay",
        **more,
    )
    _trace.convert(chosen, target, to=to, block_tokens=to_block_tokens, seed=seed)


@windtunnel.command(short_help="Write a scenario's workload for the real benchmark.")
@_scenario
@click.option("-o", "--out", required=True, type=click.Path(), callback=_folder, help="Folder to write to.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(["windtunnel", "mooncake", "aiperf", "dynamo"]),
    default=("windtunnel",),
    show_default=True,
    help="Format of the trace. Repeatable.",
)
@click.option(
    "--pairs", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Pairs to write, a file each."
)
@_seed
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete.arm,
    help="Export for this arm beside the baseline. Repeatable.",
)
@click.option(
    "--block-tokens",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Tokens of a block, in formats that have blocks.",
)
@_overrides
def export(
    scenario: str,
    out: Path,
    formats: tuple[str, ...],
    pairs: int,
    seed: int | None,
    arms: tuple[str, ...],
    block_tokens: int,
    overrides: tuple[str, ...],
) -> None:
    """Write the requests of SCENARIO as traces that a load generator sends, with the keys of every arm and a manifest.

    ``windtunnel`` says a workload to the last token and reads back as the same; the other formats are those of load
    generators (docs/traces.md), and the manifest says what each leaves out.
    """
    from sim.cli._export import export_scenario
    from sim.export import Plan

    plan = Plan(tuple(dict.fromkeys(formats)), pairs, block_tokens)
    export_scenario(scenario, overrides, arms=arms, seed=seed, out=out, plan=plan)


@windtunnel.command(short_help="Run published results and analytic truths again.")
@click.argument("cases", nargs=-1, shell_complete=_complete.case)
@click.option("--full", is_flag=True, help="Run the long cases too, and all pairs of the others.")
@_jobs
@_results
@_fresh
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="Write the page of all rows here.")
def validate(cases: tuple[str, ...], full: bool, jobs: int | None, out: Path, fresh: bool, write: Path | None) -> int:
    """Run CASES, by default all, and show each row beside its published or analytic value with the verdict.

    CASES are names of files in scenarios/validation, or files. Exits 1 when an analytic truth or a null control fails.
    """
    from sim import interrupts

    with interrupts.deferred():
        from sim.cli._validate import validate_cases

    return validate_cases(cases, full=full, jobs=jobs, out=out, fresh=fresh, write=write)


@windtunnel.command(short_help="Hold recorded decisions of a router against the policies.")
@click.argument("vectors", nargs=-1, required=True, type=click.Path(path_type=Path))
def conform(vectors: tuple[Path, ...]) -> None:
    """Replay recorded decisions, files or folders of VECTORS, and say where a policy decides otherwise.

    The format is that of tests/conformance/vectors; exits 1 on a mismatch.
    """
    from sim.conform import check as hold

    outcome = hold(vectors)
    for line in outcome.lines():
        click.echo(line)
    if not outcome.passes:
        raise SystemExit(1)


@windtunnel.command(short_help="Print a shell's completion script.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(shell: str | None) -> None:
    """Print the completion script of a shell, by default of $SHELL.

    For bash: eval "$(windtunnel completion bash)"
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise ScenarioError(f"$SHELL does not name a shell with completion; name one: {', '.join(SHELLS)}")
    made = get_completion_class(name)
    assert made is not None
    click.echo(made(windtunnel, {}, "windtunnel", "_WINDTUNNEL_COMPLETE").source())
