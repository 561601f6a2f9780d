"""Charts as files: PNG for documents, SVG for print, HTML that opens without a network."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import altair as alt

from sim.charts.page import chart_page

Kind = Literal["png", "svg", "html"]
OPTIONS: Final[dict[str, dict[str, Any]]] = {"png": {"scale_factor": 2}, "svg": {}}


def save(chart: alt.TopLevelMixin, stem: Path, kinds: Sequence[Kind] = ("png", "html")) -> list[Path]:
    """Write ``stem.png`` and so on, an HTML with all scripts inside; all of them whole, or none."""
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in kinds}
    drafts = {kind: stem.with_name(f".{stem.name}-{os.getpid()}.{kind}") for kind in kinds}
    try:
        for kind, draft in drafts.items():
            if kind == "html":
                draft.write_text(chart_page(chart, stem.name), encoding="utf-8")
            else:
                with alt.data_transformers.enable("default", max_rows=None):
                    chart.save(draft, format=kind, **OPTIONS[kind])
        for kind, draft in drafts.items():
            draft.replace(paths[kind])
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    return [*paths.values()]
