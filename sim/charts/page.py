"""What pages with charts share: the look on light and dark ground, the script that draws, and that nothing is loaded.

A chart is drawn once and knows one set of colours. On a dark ground a style sheet puts others in the place of those
inks that would not be seen there, so that a change of ground, and paper, need no script.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

import altair as alt

from sim.charts._style import DARK


def chart_page(chart: alt.TopLevelMixin, name: str) -> str:
    """A page that shows one chart."""
    spec, title, subtitle = split(chart)
    body = (
        f'<figure><figcaption>{escape(title)}<br><span class="note">{escape(subtitle)}</span></figcaption>\n'
        f"{place(name, title)}</figure>\n"
    )
    return document(title, body, {name: spec})


def split(chart: alt.TopLevelMixin) -> tuple[dict[str, Any], str, str]:
    """The specification of a chart without its title, and title and subtitle: text of a page can be wrapped."""
    with alt.data_transformers.enable("default", max_rows=None):  # data stands in the page: there is no other place
        spec = chart.to_dict(validate=False)
    del spec["$schema"]  # a name that looks like an address
    title = spec.pop("title", {})
    return spec, str(title.get("text", "")), str(title.get("subtitle", ""))


def place(name: str, says: str) -> str:
    """Where a chart is drawn, and what is read aloud instead of it."""
    return f'<div class="chart" data-chart="{escape(name)}" role="img" aria-label="{escape(says)}"></div>'


def document(
    title: str, body: str, specs: Mapping[str, Any], *, style: str = "", script: str = "", data: Mapping[str, Any] = {}
) -> str:
    """A page that draws each specification into its place and loads nothing; ``data`` by id, for the script."""
    scripts = [_bundle(), _text("draw.js"), *([script] if script else [])]
    blocks = "".join(
        f'<script type="application/json" id="{name}">{_json(value)}</script>\n'
        for name, value in {"charts": specs, **data}.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_text('page.css')}{_dark()}{style}</style>\n</head>\n<body>\n"
        f"{body}{blocks}{''.join(f'<script>{each}</script>{chr(10)}' for each in scripts)}</body>\n</html>\n"
    )


def policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy: the browser loads nothing, and runs these inline scripts alone."""
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _dark() -> str:
    inks = (
        f'.chart svg [fill="{ink}"] {{ fill: {dark}; }} .chart svg [stroke="{ink}"] {{ stroke: {dark}; }}\n'
        for ink, dark in DARK.items()
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{''.join(inks)}}}\n"


def _json(value: Any) -> str:
    """JSON to stand in a script element, where no "<" may open a tag."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that loads nothing: a page with many charts needs it once."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


@cache
def _text(name: str) -> str:
    return (resources.files("sim.charts") / "web" / name).read_text("utf-8")
