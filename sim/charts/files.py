"""Charts as files: PNG for documents, SVG for print, HTML that opens without a network."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import altair as alt

Kind = Literal["png", "svg", "html"]
OPTIONS: Final[dict[Kind, dict[str, Any]]] = {"png": {"scale_factor": 2}, "svg": {}, "html": {"inline": True}}


@cache
def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that loads nothing: a page with many charts needs it once."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def save(chart: alt.TopLevelMixin, stem: Path, kinds: Sequence[Kind] = ("png", "html")) -> list[Path]:
    """Write ``stem.png`` and so on, an HTML with all scripts inside; all of them whole, or none."""
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in kinds}
    drafts = {kind: stem.with_name(f".{stem.name}-{os.getpid()}.{kind}") for kind in kinds}
    try:
        for kind, draft in drafts.items():
            chart.save(draft, format=kind, **OPTIONS[kind])
        for kind, draft in drafts.items():
            draft.replace(paths[kind])
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    return [*paths.values()]
