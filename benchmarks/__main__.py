"""``python -m benchmarks``: measure the numbers of docs/performance.md on this machine."""

import json
from pathlib import Path

import click

from benchmarks import page
from benchmarks.numbers import BY_PRESET, NUMBERS, USUAL, Options, Row


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(NUMBERS)), metavar="[NAME]...")
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Repetitions.")
@click.option("--long", is_flag=True, help="Let the growth go to a million requests.")
@click.option("--scale", type=float, default=1.0, help="Share of the full sizes, to see that everything runs.")
@click.option(
    "--preset",
    "presets",
    type=click.Choice(["vllm", "sglang"]),
    multiple=True,
    default=["vllm"],
    show_default=True,
    help="Engines of A to D; may be given twice.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all rows to this file.")
@click.option(
    "--write", "page_file", type=click.Path(path_type=Path, exists=True), help="Put the table into this page."
)
def main(
    names: tuple[str, ...],
    repeat: int,
    long: bool,
    scale: float,
    presets: tuple[str, ...],
    json_file: Path | None,
    page_file: Path | None,
) -> None:
    """Measure NAMEs, by default all but E and F, which take minutes. E measures memory: run it alone."""
    rows: list[Row] = []
    for preset in presets:
        options = Options(repeat, long, scale, preset)
        for name in names or USUAL:
            if preset == presets[0] or name in BY_PRESET:
                click.echo(f"measuring {options.name(name)}", err=True)
                rows += NUMBERS[name](options)
    click.echo(page.table(rows))
    click.echo(f"Median and best of {repeat}. Shares of targets: 1 or more is reached. {page.machine()}.")
    if json_file is not None:
        json_file.write_text(json.dumps(page.document(rows), indent=2) + "\n", encoding="utf-8")
    if page_file is not None:
        page.write(page_file, rows)


if __name__ == "__main__":
    main()
