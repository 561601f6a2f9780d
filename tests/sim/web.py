"""What pages are held to without a browser: they load nothing, run their own scripts alone, and name each id once."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Addresses that a page loads, its ids, links within, scripts and policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.charts: list[str] = []
        self.described: list[str] = []
        self.scripts: list[str] = []
        self.data: dict[str, Any] = {}
        self.policy = ""
        self._script: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.loads += [str(own[key]) for key in ("src", "srcset", "poster", "data", "action") if own.get(key)]
        if tag in ("link", "base", "iframe", "object", "embed", "img"):
            self.loads.append(tag)
        if tag == "a":
            self.links.append(str(own["href"]))
        if own.get("id"):
            self.ids.append(str(own["id"]))
        if own.get("data-chart"):
            self.charts.append(str(own["data-chart"]))
            self.described.append(str(own["aria-label"]))
        if own.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(own["content"])
        if tag == "script":
            self._script = own

    def handle_data(self, data: str) -> None:
        if self._script is None:
            return
        if self._script.get("type") == "application/json":
            self.data[str(self._script["id"])] = json.loads(data)
        else:
            self.scripts.append(data)
        self._script = None


def loads_nothing(text: str) -> Page:
    """Hold a page to it: by element, style, script and policy; give what it consists of."""
    own = Page(text)
    assert own.loads == []
    assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", text)
    library, *ours = own.scripts
    for script in ours:
        assert not re.search(r"https?:|fetch\(|XMLHttpRequest|WebSocket|import\(|eval\(|Function\(", script)
    assert not re.search(r"(fetch|import|importScripts)\([\"'`]|new XMLHttpRequest|\.src\s*=\s*[\"'`]http", library)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in own.scripts]
    allowed = dict(each.strip().split(" ", 1) for each in own.policy.split(";"))
    assert allowed["default-src"] == "'none'"
    assert allowed["script-src"].split() == [f"'sha256-{each}'" for each in digests]
    assert set(allowed) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    specs = own.data["charts"]
    assert own.charts == list(specs)
    assert all(own.described)
    assert not re.search(r'"url":|https?:', json.dumps(specs))
    assert len(own.ids) == len(set(own.ids))
    assert {link.removeprefix("#") for link in own.links} <= set(own.ids)
    return own
