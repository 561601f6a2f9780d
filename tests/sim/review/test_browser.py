"""Pages in a real browser, without a network: nothing is loaded, everything is drawn, and all of it can be read.

Not run where no browser is installed.
"""

import re
from pathlib import Path

import pytest

from sim import charts, load_scenario, review
from sim.report import save_charts
from sim.report.contrast import Lines
from tests.browser import Tab, browser, installed
from tests.sim.results import arm, result, two_arms
from tests.sim.test_chart_kinds import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PHONE, DESK, PAPER = 390, 1400, 688
"""Widths in pixels; the last is A4 without its margins, at 96 to the inch."""

TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SPILLED = """[...document.querySelectorAll("[data-chart]")].filter((each) =>
  each.querySelector("svg").getBoundingClientRect().width > each.clientWidth + 1).map((each) => each.dataset.chart)"""
LEAST_TEXT = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const small = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(own.tagName) || !own.checkVisibility()) continue;
    const size = parseFloat(getComputedStyle(own).fontSize);
    if (size < 14) small.push(`${size} ${node.data.trim().slice(0, 40)}`);
  }
  return small;
})()"""
CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const luminance = ([r, g, b]) => {
    const line = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map((v) => line(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (own) => {
    for (let each = own; each; each = each.parentElement) {
      const found = parse(getComputedStyle(each).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(own.tagName) || !own.checkVisibility()) continue;
    const style = getComputedStyle(own);
    const ink = parse(own.ownerSVGElement ? style.fill : style.color);
    const [low, high] = [luminance(ink), luminance(ground(own))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${node.data.trim().slice(0, 40)}`);
  }
  return faint;
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    program = installed()
    if program is None:
        pytest.skip("no browser is installed: the pages were not opened")
    with browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, dict[str, review.Figure]]:
    """A review's page, and its figures."""
    folder = tmp_path_factory.mktemp("review")
    scenario, _, candidate = review.choose(load_scenario("slime_group_affinity").select(pairs=8), None, None)
    evidence = review.gather(scenario, candidate, Lines(), out=folder / "results", sensitivity_pairs=2)
    figures = review.figures(evidence)
    text = review.html(review.review_of(evidence, "windtunnel review slime_group_affinity"), figures)
    page = folder / "review.html"
    page.write_text(text, encoding="utf-8")
    return page, figures


@pytest.fixture(scope="module")
def pages(made, tmp_path_factory) -> dict[str, Path]:
    """Of a review, of runs with one candidate and with two, and one with every kind of chart."""
    folder = tmp_path_factory.mktemp("charts")
    arms = two_arms().arms
    three = result(arms["sample"], arms["group"], arm("a candidate with a long name", 1.1))
    [_, one], [_, two, *_] = save_charts(two_arms(), folder / "1"), save_charts(three, folder / "2")
    every = folder / "every.html"
    split = {name: charts.split(chart)[0] for name, (chart, _) in KINDS.items()}
    body = "".join(charts.place(name, name) for name in split)
    every.write_text(charts.document("every kind", body, split), encoding="utf-8")
    return {"review": made[0], "one candidate": one, "two candidates": two, "every kind": every}


@pytest.mark.parametrize("name", ["review", "one candidate", "two candidates", "every kind"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_opens_offline_and_reads(tab: Tab, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    """No request but the file, no word in the console, every chart with marks and as wide as its place; text AA."""
    tab.open(pages[name], width, dark=dark)
    assert tab.requests == [pages[name].resolve().as_uri()]
    assert tab.complaints == []
    places = tab.run("[...document.querySelectorAll('[data-chart]')].map((p) => p.querySelectorAll('svg path').length)")
    assert places
    assert min(places) > 5
    assert tab.run(TOO_WIDE) == 0
    assert tab.run(SPILLED) == []
    assert tab.run(LEAST_TEXT) == []
    assert tab.run(CONTRAST) == []


def test_charts_are_the_figures(tab: Tab, made) -> None:
    """One place each, in order, drawn once, with words for who cannot see it; a dot for every pair and metric."""
    page, figures = made
    tab.open(page, DESK)
    drawn = tab.run("[...document.querySelectorAll('[data-chart]')].map((p) => [p.dataset.chart, p.ariaLabel])")
    assert [name for name, _ in drawn] == list(figures)
    assert [says for _, says in drawn] == [figure.says for figure in figures.values()]
    assert tab.run("document.querySelectorAll('[data-chart] svg').length") == len(figures)
    dots = tab.run("document.querySelectorAll('[data-chart=paired_ratios] .mark-symbol.role-mark path').length")
    metrics = figures["paired_ratios"].data["metric"].n_unique()
    assert dots == figures["paired_ratios"].data.height + metrics  # and a diamond each


GROUND = "getComputedStyle(document.body).backgroundColor"
LETTERS = "getComputedStyle(document.querySelector('[data-chart] svg text')).fill"
CHART = """(() => {
  const svg = document.querySelector("[data-chart] svg"), own = svg.querySelector(":scope > rect");
  return [getComputedStyle(svg).backgroundColor, own?.getAttribute("fill") ?? "none"];
})()"""


def test_a_dark_ground_reaches_the_charts(tab: Tab, made) -> None:
    """The page's ground shows through them and their letters turn light, at once, without drawing again, and back."""
    tab.open(made[0], DESK)
    tab.run("document.querySelector('[data-chart] svg').dataset.same = 1")
    light = [tab.run(each) for each in (GROUND, LETTERS)]
    tab.emulate(dark=True)
    dark = [tab.run(each) for each in (GROUND, LETTERS)]
    assert light == ["rgb(255, 255, 255)", "rgb(51, 51, 51)"]
    assert dark == ["rgb(22, 24, 28)", "rgb(217, 220, 225)"]
    assert tab.run(CHART) == ["rgba(0, 0, 0, 0)", "none"]
    tab.emulate()
    assert [tab.run(each) for each in (GROUND, LETTERS)] == light
    assert tab.run("document.querySelector('[data-chart] svg').dataset.same") == "1"


def test_charts_follow_the_window(tab: Tab, made) -> None:
    """From the desk to the phone."""
    tab.open(made[0], DESK)
    wide = tab.run("document.querySelector('[data-chart] svg').getBoundingClientRect().width")
    tab.resize(PHONE)
    tab.run("new Promise((done) => setTimeout(done, 600)).then(() => window.drawn).then(() => null)")
    narrow = tab.run("document.querySelector('[data-chart] svg').getBoundingClientRect().width")
    assert wide > 700
    assert narrow < PHONE
    assert tab.run(SPILLED) == []
    assert tab.run(TOO_WIDE) == 0


def test_a_pointer_is_told_the_numbers(tab: Tab, made) -> None:
    """Over a dot, its pair; the dots of this pair in every other panel grow."""
    tab.open(made[0], DESK)
    dot = "document.querySelector('[data-chart=paired_ratios] .mark-symbol.role-mark path')"
    tab.run(f"{dot}.scrollIntoView({{block: 'center'}})")
    size = f"{dot}.getBoundingClientRect().width"
    before = tab.run(size)
    x, y = tab.run(
        f"(() => {{ const r = {dot}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
    )
    tab.point(x - 40, y - 60)
    tab.point(x, y)
    tab.run("new Promise((done) => setTimeout(done, 300))")
    told = tab.run("document.querySelector('#vg-tooltip-element.visible')?.innerText ?? ''")
    assert re.search(r"pair\s*\d", told)
    assert re.search(r"ratio\s*\d\.\d{4}", told)
    assert tab.run(size) > 1.5 * before


def test_numbers_of_a_figure_open_and_copy(tab: Tab, made) -> None:
    """As many rows as the figure has; tables are copied as tab-separated text."""
    page, figures = made
    tab.open(page, DESK)
    tab.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    for name, figure in figures.items():
        tab.run(f"document.querySelector('[data-table={name}] summary').click()")
        tab.run("new Promise((done) => setTimeout(done, 100))")
        assert tab.run(f"document.querySelectorAll('[data-table={name}] tbody tr').length") == figure.data.height
        tab.run(f"document.querySelector('[data-table={name}] button').click()")
        head, first, *_ = tab.run("window.copied").split("\n")
        assert head.split("\t") == figure.data.columns
        assert len(first.split("\t")) == figure.data.width
    tab.run("document.querySelector('[id=\"t2.1\"] button').click()")
    assert tab.run("window.copied") == "field\tsample\tgroup\nclient.key_scope\tsession\tgroup"
    assert tab.run(TOO_WIDE) == 0


def test_prints_on_paper(tab: Tab, made) -> None:
    """Light, without what only a screen can use, what was folded opened and closed again, no chart wider than A4."""
    tab.open(made[0], PAPER, dark=True)
    tab.emulate(dark=True, media="print")
    assert tab.run(GROUND) == "rgb(255, 255, 255)"
    assert tab.run(LETTERS) == "rgb(51, 51, 51)"
    assert tab.run(SPILLED) == []
    assert tab.run(TOO_WIDE) == 0
    hidden = "[...document.querySelectorAll('nav, button, .data')].some((each) => each.checkVisibility())"
    assert tab.run(hidden) is False
    folded = "[...document.querySelectorAll('details:not(.data)')].map((each) => each.open)"
    assert set(tab.run(folded)) == {False}
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert set(tab.run(folded)) == {True}
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert set(tab.run(folded)) == {False}
    paper = tab.pdf()
    assert paper.startswith(b"%PDF")
    boxes = {tuple(round(float(each)) for each in box.split()) for box in re.findall(rb"/MediaBox \[([^]]+)\]", paper)}
    assert boxes == {(0, 0, 595, 842)}


def test_the_browser_refuses_what_the_policy_forbids(tab: Tab, made) -> None:
    """A picture and a script that are planted in the page are refused by its own policy."""
    tab.open(made[0], DESK)
    refused = tab.run("""new Promise((done) => {
      const found = [];
      addEventListener("securitypolicyviolation", (event) => {
        found.push(event.effectiveDirective);
        if (found.length === 2) done(found.sort());
      });
      document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:9/a.png" }));
      document.head.append(Object.assign(document.createElement("script"), { textContent: "window.planted = 1" }));
    })""")
    assert refused == ["img-src", "script-src-elem"]
    assert tab.run("window.planted ?? null") is None
    failed = [each["params"] for each in tab.events if each["method"] == "Network.loadingFailed"]
    assert [each["blockedReason"] for each in failed] == ["csp"]
