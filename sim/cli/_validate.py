"""``windtunnel validate``: run the cases with progress on stderr, show each row beside its value."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim import interrupts
from sim.cli import _complete, _options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sim.validation import Verdicts


@click.command(short_help="Run published results and analytic truths again.")
@click.argument("cases", nargs=-1, shell_complete=_complete.case)
@click.option("--full", is_flag=True, help="Run the long cases too, and all pairs of the others.")
@_options.jobs
@_options.results
@_options.fresh
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page of all rows here; with --record, of all that the record holds.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the rows as JSON here; reviews read sim/validation/record.json. With CASES, into what is there.",
)
def validate(
    cases: tuple[str, ...],
    full: bool,
    jobs: int | None,
    out: Path,
    fresh: bool,
    write: Path | None,
    record: Path | None,
) -> int:
    """Run CASES, by default all, and show each row beside its published or analytic value with the verdict.

    CASES are names of files in scenarios/validation, or files. Exits 1 when an analytic truth or a null control fails.
    """
    with interrupts.deferred():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        from sim.files import write_whole, writing
        from sim.validation import Verdicts, case_names, load_case, run_cases

    chosen = [load_case(name) for name in cases or case_names()]
    notes, shown = Console(stderr=True), Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    by_name: dict[str, Verdicts] = {}
    waiting = [case.name for case in chosen if case.rows_of(full=full)]
    for case in chosen:
        if case.name not in waiting:
            notes.print(f"{case.name}: only with --full", highlight=False)

    def decided(each: Verdicts) -> None:
        """Show what can be shown in the order of the cases."""
        by_name[each.case.name] = each
        while waiting and waiting[0] in by_name:
            _show(shown, by_name[waiting.pop(0)])

    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
        task = progress.add_task("replications", total=None)
        run_cases(
            chosen,
            decided,
            full=full,
            out=out,
            jobs=jobs,
            fresh=fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    found = [by_name[case.name] for case in chosen if case.name in by_name]
    failed = [f"{each.case.name}: {one.row.name}" for each in found for one in each.outcomes if one.fails]
    changed = [one for each in found for one in each.outcomes if one.has_changed]
    rows = sum(len(each.outcomes) for each in found)
    click.echo(f"{rows} rows, {len(changed)} with another verdict than stored, {len(failed)} truths or controls fail")
    if found:
        for path, text in _texts(found, write, record, is_part=bool(cases)):
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
            notes.print(f"wrote {path}", highlight=False, soft_wrap=True)
    for name in failed:
        notes.print(f"fails: {name}", highlight=False, soft_wrap=True)
    return int(bool(failed))


def _texts(
    found: "list[Verdicts]", write: Path | None, record: Path | None, *, is_part: bool
) -> Iterator[tuple[Path, str]]:
    """The files to write; rows of some cases go into the record that is there, and the page is of the record."""
    from sim.validation import dump, load_case, merged, page, read_record, recall, record_of

    if record is not None:
        made = record_of(found)
        if is_part and record.exists():
            made = merged(read_record(record), made)
        yield record, dump(made)
        if write is not None:
            own = {each.case.name: each.case for each in found}
            found = [recall(own.get(case.name) or load_case(case.name), case) for case in made.cases]
    if write is not None:
        yield write, page(found)


def _show(shown: "Console", each: "Verdicts") -> None:
    from sim.validation._page import order_line

    shown.print(_table(each), highlight=False)
    for order in each.orders:
        _, name, tau, _, to, errors = order_line(each.case.name, order)
        shown.print(f"order of {name}: tau {tau}; ratios to {to}: {errors}", highlight=False, soft_wrap=True)


def _table(found: "Verdicts") -> "Table":
    from rich.table import Table

    from sim.report.numbers import counted
    from sim.validation._page import ours, theirs

    table = Table(title=f"{found.case.name}, {counted(found.pairs, 'pair')}", title_justify="left", box=None)
    for head in ("row", "ours", "value", "band", "verdict"):
        table.add_column(head, overflow="fold")
    for each in found.outcomes:
        said = f"{each.verdict} (stored: {each.row.verdict})" if each.has_changed else each.verdict
        table.add_row(each.row.name, ours(each.found), *theirs(each.row), said)
    return table
