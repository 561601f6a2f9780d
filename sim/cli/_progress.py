"""The line on stderr that says how far a command is, where somebody looks: done, rate, time left."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class RateColumn(ProgressColumn):
    """Replications a second, once there is a rate."""

    def render(self, task: Task) -> Text:
        """Nothing before the first replications are done."""
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


def progress_line(console: Console) -> Progress:
    """Shown on a terminal alone, and gone at the end."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
