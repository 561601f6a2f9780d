"""``windtunnel compare``: two stored results or logs, pair by pair."""

import json
from pathlib import Path

import click

from sim.cli import _options


@click.command(short_help="Compare two stored results or logs.")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Compare this metric. Repeatable.")
@_options.lines
@click.option("--charts", type=click.Path(path_type=Path), metavar="FOLDER", help="Draw the pairs into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a text.")
def compare(
    results: tuple[Path, ...],
    metrics: tuple[str, ...],
    equal: float,
    harm: float,
    interest: float,
    charts: Path | None,
    as_json: bool,
) -> None:
    """Compare the RESULTS of two arms pair by pair, and say what their pairs entitle to say.

    RESULTS are two, baseline first, or one folder that holds two. Each is a stored result (a folder with
    manifest.json), or measurements of a real run: a .csv or .parquet with a row a pair and columns named as metrics, or
    with a row a request (submitted_s, ended_s and what else was measured, named as in the requests table). Rows of one
    pair number form a pair.
    """
    from rich.console import Console

    from sim.cli.text.compare import document, print_contrast
    from sim.report.chart_tables import save_contrast
    from sim.report.contrast import Lines, chosen_metrics, contrast
    from sim.report.sides import of_two_arms

    base, other = of_two_arms(results)
    found = contrast(base, other, chosen_metrics(base, other, metrics), Lines(equal, harm, interest))
    if as_json:
        click.echo(json.dumps(document(found), indent=2, allow_nan=False))
    else:
        print_contrast(found, Console())
    if charts is not None:
        for path in save_contrast(found, charts):
            click.echo(f"wrote {path}", err=True)
