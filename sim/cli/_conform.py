"""``windtunnel conform``: recorded decisions of a router against the policies."""

from pathlib import Path

import click


@click.command(short_help="Hold recorded decisions of a router against the policies.")
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
