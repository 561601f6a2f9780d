"""``windtunnel score``: measured results against the seal of their campaign."""

from pathlib import Path

import click

from sim.cli import _options


@click.command(short_help="Hold the results of real runs against their seal.")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--seal",
    "sealed",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The sealed folder; by default RESULTS itself or a folder above it.",
)
@click.option(
    "--digest",
    metavar="SHA256",
    help="The digest that was published, or its first 16 digits or more; another one is refused.",
)
@click.option(
    "-o", "--out", type=click.Path(), callback=_options.folder_or_none, help="Folder to write to.  [default: RESULTS]"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a text.")
def score(results: Path, sealed: Path | None, digest: str | None, out: Path | None, as_json: bool) -> None:
    """Score RESULTS, a folder with one file a run: score.html, score.md and score.json are written beside them.

    So is review.html, the sealed review with its part 17, where RESULTS is not the sealed folder itself.

    The seal is verified first; then each file must be of a sealed run, with its trace and its arm's configuration.
    Exits 1 where that is not so; every verdict exits 0. docs/campaign.md says how a results file is written.
    """
    import json

    from sim import campaign

    seal = campaign.verify(sealed or campaign.find_seal(results), digest)
    into = out or (results if results.is_dir() else results.parent)
    campaign.refuse_sealed(into, but=seal.folder)
    found = campaign.score(seal, results)
    into.mkdir(parents=True, exist_ok=True)
    for path in campaign.write_score(found, into):
        click.echo(f"wrote {path}", err=True)
    if as_json:
        click.echo(json.dumps(campaign.document(found), indent=1, ensure_ascii=False))
        return
    for line in campaign.lines(found):
        click.echo(line)
