"""``windtunnel trace``: what a recorded trace holds, and the same trace in another format."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim import registry
from sim.cli import _options
from sim.errors import ScenarioError

if TYPE_CHECKING:
    from sim.workload.trace import Trace

_read_options = _options.together(
    click.option("--format", "form", default="auto", show_default=True, help="How the file is written."),
    click.option(
        "--block-tokens", type=click.IntRange(min=1), help="Tokens of a block of the file.  [default: its own]"
    ),
    click.option("--rows", type=click.Choice(["cover", "add"]), help="What a Mooncake row of a session gives."),
    click.option("--common-prefix", is_flag=True, help="Weka: tools and system prompt are the same in all sessions."),
    click.option("--chars-per-token", type=click.FloatRange(min=0, min_open=True), help="Where a file holds texts."),
)


@click.group(short_help="Look at recorded traces, or convert them.")
def trace() -> None:
    """Recorded traces of others: what they hold, and the same in another format. docs/traces.md has the formats."""


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
    from sim.cli.text.trace import Asked, show_info
    from sim.workload._traces._call import Reading

    _check_format(form)
    reading = Reading(block_tokens, rows, common_prefix, chars_per_token or 4.0)  # type: ignore[arg-type]
    show_info(files, Asked(form, reading, blocks), as_json=as_json)


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
    from sim.files import replacing
    from sim.rng import Streams
    from sim.workload._traces import paired
    from sim.workload._traces._write import WRITERS, losses
    from sim.workload.trace import Trace

    _check_format(form)
    chosen = Trace(
        str(source),
        format=form,  # type: ignore[arg-type]
        window_s=window,
        sample_share=sample,
        mode="live" if live else "replay",
        **more,
    )
    if target.exists() and source.exists() and target.samefile(source):
        raise ScenarioError(f"{target}: is the file that is read")
    workload = chosen.generate(Streams(seed), Path())
    block = to_block_tokens or chosen.block_tokens or _own_block(chosen)
    with replacing(target) as write:
        if to == paired.PAIRED.name:
            for line in paired.lines(workload, {}, {}, None):
                write(line.encode())
        else:
            for row in WRITERS[to](workload, block):
                write(f"{json.dumps(row)}\n".encode())
    for each in losses(workload, to, block) if to in WRITERS else ():
        click.echo(f"note: {each}", err=True)


def _check_format(name: str) -> None:
    from sim.workload._traces._formats import FORMATS

    if name != "auto" and name not in FORMATS:
        raise ScenarioError(f"unknown format {name!r}; {registry.suggest(name, ('auto', *FORMATS))}")


def _own_block(source: "Trace") -> int:
    """Tokens of a block of the file, or what Mooncake's tools take by default."""
    from sim.workload._traces._formats import find_format, read_calls

    path = Path(source.file)
    form = find_format(path, source.format)
    first = next(iter(read_calls(path, form, source.reading(form))))
    return first.block_tokens if first.block_tokens > 1 else 512
