"""The review of a shipped scenario: whole, offline, short where it must be; planted faults are caught."""

import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from ruamel.yaml import YAML

from sim import charts, load_scenario, review
from sim.charts._style import OUTSIDE
from sim.cli import main
from sim.errors import ScenarioError
from sim.log.frames import read_logs
from sim.report.contrast import Lines
from sim.report.ledger import SAYS
from sim.report.rule import LOOKS, adopted
from sim.review._warnings import left_alone
from sim.review.parts.real_runs import choices
from sim.review.parts.system import _ages, _ties
from sim.scenario import Cell, kv_tokens
from sim.stats.power import pairs_needed
from tests.sim.six_requests import six_requests
from tests.sim.web import Page, loads_nothing

COMMAND = "windtunnel review slime_group_affinity"


def gathered(out: Path, name: str | Path = "slime_group_affinity", *sets: str, pairs: int = 12, lines: Lines = Lines()):
    scenario, _, candidate = review.choose(load_scenario(name, sets).select(pairs=pairs), None, None)
    return review.gather(scenario, candidate, lines, out=out)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return gathered(tmp_path_factory.mktemp("results"), pairs=12)


@pytest.fixture(scope="module")
def found(evidence):
    return review.review_of(evidence, COMMAND)


@pytest.fixture(scope="module")
def page(evidence, found) -> str:
    return review.html(found, review.figures(evidence))


def test_the_page_loads_nothing(page: str) -> None:
    """No address is loaded and no other script runs; each chart has its specification, its words, and its table."""
    own = loads_nothing(page)
    names = ["paired_ratios", "group_completion", "timeline_baseline", "timeline_candidate"]
    assert own.charts == names
    assert list(own.data["behind"]) == names
    assert re.findall(r'data-table="(\w+)"', page) == names
    assert len(own.scripts) == 3
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page


def test_a_figure_shows_its_table(evidence, page: str) -> None:
    """Row by row the numbers of the page are those of the figure, to six digits; none is drawn that is not there."""
    for name, figure in review.figures(evidence).items():
        head, *rows = Page(page).data["behind"][name]
        assert head == figure.data.columns
        assert len(rows) == figure.data.height
        for shown, exact in zip(rows[:50], figure.data.head(50).rows(), strict=True):
            for one, other in zip(shown, exact, strict=True):
                assert one == (pytest.approx(other, rel=1e-5) if isinstance(other, float) else other)
        assert "simulated" in charts.split(figure.chart)[1]


def test_what_is_outside_the_calibrated_region_is_grey(evidence, tmp_path: Path) -> None:
    """In every figure: the pairs, the curves, and the time of the engines; nothing is where all is inside."""
    whole = {arm: replace(each, inside_share=1.0, outside={}) for arm, each in evidence.coverage.items()}
    drawn = review.figures(replace(evidence, coverage=whole))
    assert OUTSIDE not in json.dumps(drawn["group_completion"].chart.to_dict())
    far = gathered(tmp_path, write(tmp_path, ("8192", "60000")), pairs=2)
    assert min(each.inside_share for each in far.coverage.values()) < 0.8
    drawn = review.figures(far)
    assert drawn["paired_ratios"].data["outside"].all()
    assert all(drawn[f"timeline_{arm}"].data["outside"].max() > 0.2 for arm in ("baseline", "candidate"))
    for name, figure in drawn.items():
        assert OUTSIDE in json.dumps(figure.chart.to_dict()), name
        assert "grey: outside the calibrated region" in charts.split(figure.chart)[2]


def test_no_file_of_an_earlier_review_stays(evidence, found, tmp_path: Path) -> None:
    """Tables and figures that only the earlier one had go; what somebody put beside them stays."""
    drawn = review.figures(evidence)
    review.write(found, drawn, tmp_path)
    own = tmp_path / "tables" / "own.csv"
    own.write_text("mine\n")
    fewer = replace(found, parts=[part for part in found.parts if part.number != 8])
    written = review.write(fewer, {name: each for name, each in drawn.items() if name != "group_completion"}, tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*written, own}


def test_every_number_leads_to_a_table(found) -> None:
    """Sources of page one are tables that are there."""
    sources = {each for line in found.page for each in line.source.split(", ") if each}
    tables = {table.id: table for part in found.parts for table in part.tables}
    assert sources <= tables.keys()
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.head)}
    ratio = re.search(
        r" is (\S+) \[", next(line.says for line in found.page if line.field == "predicted effect")
    ).group(1)
    assert ratio in tables["7.1"].rows[0]


def test_parts_are_those_that_are_there(page: str, found) -> None:
    """In order; what is not made is not in the table of contents; the last waits for the real run."""
    numbers = [part.number for part in found.parts]
    assert numbers == [*range(1, 18)]
    contents = re.search(r"<nav.*?</nav>", page, re.DOTALL).group()
    assert re.findall(r'href="#part(\d+)"', contents) == [str(number) for number in numbers]
    assert not found.parts[-1].tables
    assert found.parts[0].text[0].startswith("Does one routing key a group beat one key a sample")


def test_the_one_field_and_every_parameter(found) -> None:
    """What differs, in one row; all fields of the policy; the cell as YAML."""
    system = found.parts[1]
    assert system.tables[0].rows == [("client.key_scope", "session", "group")]
    assert ("policy.kind", "sglang.consistent_hashing", "sglang.consistent_hashing") in system.tables[2].rows
    assert "key_scope: session" in system.fixed


def test_step_errors_of_page_one_are_those_of_its_table(evidence, found) -> None:
    """Page one, the register and table 6.1 have one source."""
    table = next(each for part in found.parts for each in part.tables if each.id == "6.1")
    shown = {row[3]: row[5] for row in table.rows}
    says = next(line.says for line in found.page if line.field == "calibration")
    said = re.findall(r"([\d.]+%) in (\w+)", says.partition("unseen steps")[2])
    assert {phase: error for error, phase in said} == shown
    register = {each.name: each.value for each in evidence.assumptions}
    for phase in ("prefill", "decode"):
        assert f"±{shown[phase].replace('%', ' %')} mean error" in register[f"cost of {phase}"]


def test_part_2_names_what_the_engine_decides(evidence, found) -> None:
    """Room, chunk, batch and version; the hash of each cell; the cell's YAML is still that cell."""
    part = found.parts[1]
    row = dict(zip(part.tables[1].head, part.tables[1].rows[0], strict=True))
    cell = evidence.cell("sample")
    room = kv_tokens(cell.fleet[0], cell.base)
    assert row["KV tokens an engine"] == f"{room:,}"
    assert (row["chunk, tokens"], row["most running"]) == ("8,192", "2,048")
    assert "SGLang" in row["scheduler"]
    for arm in ("sample", "group"):
        assert evidence.result.arms[arm].hash in part.text[1]
    for key, value in (("kv_tokens", f"{room}"), ("slowdown", "1.25"), ("host0_ms", "1.5"), ("host1_ms", "0")):
        assert re.search(rf"^ +{key}: +# {value}, by", part.fixed, re.MULTILINE), key
    again = Cell.from_resolved(YAML(typ="safe").load(part.fixed), cell.base, "sample")
    assert again.hash == cell.hash


@pytest.mark.parametrize(
    ("policy", "telemetry", "ties", "ages"),
    [
        ({"kind": "sglang.consistent_hashing"}, None, "none arise", "reads nothing"),
        ({"kind": "least_load", "tie": "random"}, None, "random (policy.tie)", "own count: live"),
        (
            {"kind": "smg.power_of_two"},
            {"period_s": 4, "delay_s": 0.5},
            "as the policy is written",
            "polled every 4 s, known after 0.5 s",
        ),
    ],
)
def test_part_2_says_how_ties_are_broken_and_how_old_signals_are(policy, telemetry, ties, ages) -> None:
    """By the policy's own rule and what it reads; by the timing of that signal."""
    base = load_scenario("slime_group_affinity").arms["sample"]
    router = {**base.resolved["router"], "policy": policy, "telemetry": telemetry}
    cell = Cell.from_resolved({**base.resolved, "router": router}, base.base, "sample")
    assert ties in _ties(cell)
    assert ages in _ages(cell)


def test_part_3_prints_no_percentile_of_few_and_names_what_is_constant(found) -> None:
    """A p99 from 100 values on, a p90 from 10 on; groups, turns, delay, observation and arrivals are always there."""
    totals, sizes = found.parts[2].tables[:2]
    for row in sizes.rows:
        count = int(row[1].replace(",", ""))
        assert (row[5] == "–") == (count < 100), row
        assert (row[4] == "–") == (count < 10), row
    assert any(row[5] == "–" for row in sizes.rows)
    stated = dict(totals.rows)
    assert stated["siblings a group"] == "4, constant"
    assert stated["turns a session"] == "1, constant"
    assert stated["tool delay, s"] == stated["observation, tokens"] == "none"
    assert stated["arrivals of groups"] == "at once"
    assert not any("_" in name for name in stated)


def slack(rows) -> float:
    """What rounding to the printed decimals may take off a sum of so many."""
    decimals = max(len(cell.partition(".")[2]) for row in rows for cell in row if re.fullmatch(r"[+-]?[\d,.]+", cell))
    return 0.5 * 10**-decimals * len(rows) + 1e-9


def test_the_ledger_as_it_is_read(evidence, found) -> None:
    """Printed lines sum to the printed total, as far as they are printed."""
    rows = next(part for part in found.parts if part.number == 8).tables[0].rows
    assert {row[0] for row in rows[:-1]} <= set(SAYS.values())
    for column in (1, 2, 3):
        values = [float(row[column].replace(",", "")) for row in rows]
        assert sum(values[:-1]) == pytest.approx(values[-1], abs=slack(rows))
    total = evidence.ledger[-1]
    assert total.line == "total"
    assert sum(each.difference.mean for each in evidence.ledger[:-1]) == pytest.approx(total.difference.mean, abs=1e-9)


def test_checks_hold_and_are_shown(evidence) -> None:
    """Both arms repeat themselves, conserve requests, and every null control holds."""
    assert [each.held for each in evidence.checks] == [True] * 10
    assert [each.says.split(":")[0] for each in evidence.checks if each.name == "null control"] == [
        "equal arms",
        "one engine",
        "no reuse",
        "endless KV",
    ]
    assert [each.name for each in evidence.checks].count("determinism") == 2


def test_markdown_fits_a_comment(found) -> None:
    """Page one; folded, the tables that decide and the rule: a screen or two, without scripts or pictures."""
    text = review.markdown(found)
    assert text.startswith("# slime-group-affinity: group against sample\n")
    seen = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert len(seen) < 7000
    assert seen.count("\n") <= 40
    assert len(text) < 11_000
    assert text.count("\n") <= 90
    assert "<script" not in text
    assert "](" not in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 3
    assert text.count("\n\n|") == 3  # a table begins after an empty line, or it is none
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    folded = re.findall(r"<details><summary>(.*?)</summary>(.*?)</details>", text, re.DOTALL)
    assert [name for name, _ in folded] == [
        "Table 7.1: Predictions, 12 pairs",
        "Table 8.2: Mechanisms",
        "Decision rule",
    ]
    assert text.count("<details>") == text.count("</details>") == 3


def test_markdown_never_outgrows_a_comment(found) -> None:
    """However many metrics and warnings there are: the longest table goes first, and page one stays."""
    rows = [("a metric with a name", *["1.234 ± 0.005"] * 9)] * 900
    parts = [
        replace(part, tables=[replace(each, rows=rows) for each in part.tables]) if part.number in (7, 8) else part
        for part in found.parts
    ]
    long = replace(found, parts=parts, warnings=[f"warning {number}" for number in range(50)])
    text = review.markdown(long)
    assert len(text) < 65_536
    assert "predicted effect" in text
    assert "Decision rule" in text
    assert "- and 42 more, in the page" in text


def test_page_one_answers_the_first_minute(found) -> None:
    """Ten things that readers look for, a line each, the answer first, with a table behind every number."""
    lines = {line.field: line for line in found.page}
    assert re.match(r"(RUN|DO NOT RUN|No recommendation)", found.judgement.headline)
    wanted = {
        "predicted effect": r"_per_s of group is \d\.\d+ \[.*\] times that of sample \(.* pairs, .* against .* 1/s",
        "uncertainty of the ratio": r"^Simulation noise .*, input uncertainty .*, model form .*95%",
        "chance of a regression": r"loses more than 3% in \d+ of 12 simulated pairs .* one-sided p of .*other order\.",
        "what triggers it": r"^(Mostly when|None)",
        "real runs and their cost": r"\d+ runs x 2 GPUs x .* min .* = .* GPU-hours",
        "decision rule": r"lower bound > 0.97 and mean > 1.05 and group_.*new/old.*< 1.05; REJECT if .* < 1.03",
        "held equal": r"^Only client.key_scope differs: session \(a key per sample\) in sample, group .* same requests",
        "calibration": r"mean error on unseen steps .*%.*of the busy time lies in the region .*decodes to 256",
        "assumption that flips it": ".",
        "null control": r"^Passed: all 4 null controls, \d+ of \d+ checks in all.*one engine \(both arms",
        "reproduce": r"^windtunnel review ",
    }
    for field, pattern in wanted.items():
        assert re.search(pattern, lines[field].says), field
        assert lines[field].source
    assert "key a group beat one key a sample" in lines["question"].says


def test_the_same_bytes_again(evidence, page: str) -> None:
    """Nothing of the clock or of the machine is written."""
    assert review.html(review.review_of(evidence, COMMAND), review.figures(evidence)) == page


def write(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = Path(load_scenario("slime_group_affinity").path).read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "planted.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refusals(out: Path, file: Path, *sets: str, **more: object) -> str:
    return "\n".join(review.review_of(gathered(out, file, *sets, **more), COMMAND).judgement.because)


def test_two_differences_fail(tmp_path: Path) -> None:
    """Both are named."""
    file = write(tmp_path, ("{key_scope: group}}", "{key_scope: group, max_sessions_in_flight: 8}}"))
    with pytest.raises(ScenarioError, match=r"differ in 2 fields \(client.key_scope, client.max_sessions_in_flight\)"):
        gathered(tmp_path / "out", file)


def test_no_difference_fails(tmp_path: Path) -> None:
    """A null control is no candidate by itself, and says so when it is named."""
    file = write(tmp_path, ("  sample: {}\n", "  sample: {}\n  again: {null_control: true}\n"))
    scenario, _, candidate = review.choose(load_scenario(file), None, "again")
    with pytest.raises(ScenarioError, match="arms sample and again do not differ"):
        review.gather(scenario, candidate, Lines(), out=tmp_path / "out")


ABLATION = ("  sample: {}\n", "  sample: {}\n  scattered: {client: {key_scope: request}, ablates: {ABLATES}}\n")


def ablated(tmp_path: Path, mechanism: str, **more: str | None):
    """The evidence of the scenario with a key a request as ablation of ``group``."""
    said = ABLATION[1].replace("ABLATES", f"arm: group, mechanism: {mechanism}")
    scenario, _, candidate = review.choose(
        load_scenario(write(tmp_path, (ABLATION[0], said))).select(pairs=40), None, None
    )
    return review.gather(scenario, candidate, Lines(), out=tmp_path / "out", **more)


def test_an_ablation_removes_what_it_names(tmp_path: Path) -> None:
    """The arm that says so is found; a key a request spreads siblings again: what was saved of prefill is gone."""
    found = ablated(tmp_path, "saved prefill")
    assert found.candidate == "group"
    assert (found.ablation.arm, found.ablation.change) == ("scattered", ("client.key_scope", "group", "request"))
    gone = found.ablation.gone("saved prefill")
    assert gone.lo < gone.value < gone.hi
    assert gone.lo > 0.75
    shown = review.review_of(found, COMMAND)
    part = next(each for each in shown.parts if each.number == 8)
    said = next(each for each in part.text if "in arm scattered (group with client.key_scope group -> request)" in each)
    assert said.startswith("The gain is saved prefill")
    assert re.search(r"Of saved prefill \d+% \[\d+%, \d+%\] is gone \(-", said)
    assert len(found.ablations.made) == 1
    table = part.tables[-1]
    for column in (1, 2):
        values = [float(row[column].replace(",", "")) for row in table.rows]
        assert sum(values[:-1]) == pytest.approx(values[-1], abs=slack(table.rows))
    assert len(review.markdown(shown)) < 11_000


def test_an_ablation_that_removes_another_thing_is_told(tmp_path: Path) -> None:
    """An arm that says it takes the cost of batching away, and does not: its own figures say that most of it stays."""
    found = ablated(tmp_path, "tail idle")
    moved = found.ablation.moved
    kept = replace(found.ablation, own=moved)
    changed = replace(found, ablations=replace(found.ablations, made=(kept,)))
    part = next(p for p in review.review_of(changed, COMMAND).parts if p.number == 8)
    said = "\n".join(part.text)
    assert "Of tail idle 0% [-0%, 0%] is gone" in said.replace("[0%, 0%]", "[-0%, 0%]")
    assert "It is open whether the gain is tail idle: most of tail idle stays in arm scattered" in said
    lost = replace(found, ablations=replace(found.ablations, made=(replace(found.ablation, lost=5),)))
    part = next(p for p in review.review_of(lost, COMMAND).parts if p.number == 8)
    assert "NO ABLATION: in arm scattered (" in "\n".join(part.text)
    assert "5 more requests never finished, so less work was done" in "\n".join(part.text)
    assert [table.id for table in part.tables] == ["8.1", "8.2", "8.3"]


def test_mechanisms_sum_as_the_ledger_does(found) -> None:
    """Table 8.2 to its last row, in each arm and in the difference."""
    rows = next(part for part in found.parts if part.number == 8).tables[1].rows
    for column in (2, 3, 4):
        values = [float(row[column].replace(",", "")) for row in rows]
        assert sum(values[:-1]) == pytest.approx(values[-1], abs=slack(rows))


def test_surprise_is_said_of_arithmetic_alone(evidence) -> None:
    """A ratio near that of the drain is none; the same ratio where arithmetic says another is one; else no claim."""

    def said(ev) -> str:
        part = next(each for each in review.review_of(ev, COMMAND).parts if each.number == 8)
        return part.text[1]

    wide = replace(evidence, lines=Lines(interest=0.5))
    assert "no surprise" in said(wide)
    own = evidence.arithmetic["sample"]
    slow = {**evidence.arithmetic, "sample": replace(own, drain=replace(own.drain, seconds=2 * own.drain.seconds))}
    assert "SURPRISING, by more than the smallest effect of interest (50%)" in said(replace(wide, arithmetic=slow))
    none = {**evidence.arithmetic, "sample": replace(own, drain=None)}
    assert "so nothing is called surprising" in said(replace(wide, arithmetic=none))


def test_an_ablation_changes_one_thing(tmp_path: Path) -> None:
    """Like the candidate itself; and it is a third arm."""
    arm = "  both: {client: {key_scope: request, max_sessions_in_flight: 8}}\n"
    file = write(tmp_path, ("  sample: {}\n", f"  sample: {{}}\n{arm}"))
    scenario, _, candidate = review.choose(load_scenario(file), None, "group", "both")
    with pytest.raises(ScenarioError, match="arms group and both differ in 2 fields"):
        review.gather(scenario, candidate, Lines(), out=tmp_path / "out", ablation="both")
    with pytest.raises(ScenarioError, match="the ablation is arm group itself"):
        review.choose(load_scenario(file), None, "group", "group")


def test_arms_that_decide_alike_are_refused(tmp_path: Path) -> None:
    """Two keys, and one engine that all of them fall on."""
    file = write(tmp_path, ("engines: 2", "engines: 1"))
    assert "no decision of the two arms differs" in refusals(tmp_path / "out", file, pairs=3)


def test_far_outside_calibration_is_refused(tmp_path: Path) -> None:
    """Contexts of 60,000 tokens, where the fit has seen 12,000; the quantity is named."""
    said = refusals(tmp_path / "out", write(tmp_path, ("8192", "60000")), pairs=3)
    assert "outside the calibrated region (most of it by" in said


def test_a_wide_interval_is_refused_and_a_looser_question_is_not(tmp_path: Path) -> None:
    """Eight pairs say too little of 5 %."""
    file = write(tmp_path)
    assert "is needed to tell an effect of 5%" in refusals(tmp_path / "out", file, pairs=8)
    assert "the interval of" not in refusals(tmp_path / "out", file, pairs=8, lines=Lines(interest=0.9))


def test_few_groups_behind_a_p95_are_told(found) -> None:
    """Four groups."""
    assert any(each.startswith("group_completion_p95_s: 4 groups") for each in found.warnings)


def test_one_session_that_decides_the_wall_time_is_told(evidence) -> None:
    """Sessions end at 16, 18, 20 and 25 s of 25; one that ends at 60 is alone for two thirds, and said to be."""
    log = six_requests()
    assert left_alone(read_logs([log], [0])) == pytest.approx(5 / 25)
    row = {name: int(column[5]) for name, column in log.numpy("requests").items()} | {"session": 9, "ended": 60}
    log.requests.append(row.values())
    tables = read_logs([log], [0])
    assert left_alone(tables) == pytest.approx(35 / 60)
    warned = review.review_of(replace(evidence, tables={**evidence.tables, "group": tables}), COMMAND).warnings
    assert "arm group: one session alone is left for 58% of the makespan: it decides the wall time" in warned


def test_arms_that_did_not_do_the_same_work_are_told(evidence) -> None:
    """Three requests of one arm that failed stand before every ratio; an ablation that lost some is none."""
    own = evidence.tables["group"]
    failed = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("failed")).otherwise(pl.col("status").cast(pl.String))
    less = replace(own, requests=own.requests.with_columns(status=failed))
    warned = review.review_of(replace(evidence, tables={**evidence.tables, "group": less}), COMMAND).warnings
    said = (
        "requests that failed, were rejected or never ended: 0 of sample, 3 of group; the arms did not do the same work"
    )
    assert said in warned
    assert not any("same work" in each for each in review.review_of(evidence, COMMAND).warnings)


def test_a_fault_of_a_check_is_no_recommendation(evidence) -> None:
    """Whatever the interval says."""
    broken = replace(evidence, checks=[*evidence.checks, review.Check("null control", "x", held=False)])
    assert "a check failed: null control: x" in "\n".join(review.review_of(broken, COMMAND).judgement.because)


def test_the_command(tmp_path: Path, capsys) -> None:
    """Files are written, the headline is printed; two arms must be named where there are three."""
    out = ["--out", str(tmp_path / "results"), "-o", str(tmp_path / "r")]
    with pytest.raises(SystemExit) as ended:
        main(["review", "slime_group_affinity", "--pairs", "3", "--sensitivity-pairs", "0", *out])
    assert not ended.value.code
    printed, notes = capsys.readouterr()
    assert printed.startswith("No recommendation, because\n  the interval of samples_per_s is ±")
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"review.html", "review.md", "figures", "tables"}
    tables = {path.stem: path.read_text("utf-8") for path in (tmp_path / "r" / "tables").iterdir()}
    assert tables["2.1"] == "field,sample,group\nclient.key_scope,session,group\n"
    assert tables["paired_ratios"].startswith("metric,candidate,pair,ratio,class,outside\nsamples_per_s")
    assert {"paired_ratios", "group_completion", "timeline_baseline", "timeline_candidate"} <= tables.keys()
    assert len(list((tmp_path / "r" / "figures").iterdir())) == 8
    assert notes.count("wrote ") == 3
    assert f"wrote {8 + len(tables)} figures and tables in " in notes
    for more, says in (
        (["--candidate", "sample"], "baseline and candidate are both sample"),
        (["--candidate", "grup"], "unknown arm 'grup'; did you mean 'group'?"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["review", "slime_group_affinity", *more, *out])
        assert ended.value.code == 1
        assert says in capsys.readouterr().err


def test_part_13_shows_how_the_arms_are_started(found) -> None:
    """Product and version of both, what cannot be had, and the lines that the change comes down to."""
    tables = {table.id: table for part in found.parts for table in part.tables}
    assert tables["13.2"].rows == [("sample", "slime 0.3.1", "–"), ("group", "slime 0.3.1", "–")]
    assert [row[0] for row in tables["13.3"].rows] == ["client.json"]


def test_the_plan_and_the_rule_have_one_level(evidence, found) -> None:
    """Pairs are counted at the level of the rule's first look, and every place that names a level names that one."""
    plan = evidence.plan
    [need] = [each for each in plan.needs if each.effect == plan.effect]
    assert need.real == pairs_needed(plan.effect, plan.spread.real, level=1 - LOOKS[0])
    part = next(each for each in found.parts if each.number == 11)
    assert all("two-sided 4%" in table.title for table in part.tables[:2])
    assert "two-sided 96% at look 1" in review.rule_of(evidence).text()


def test_what_the_rule_will_say_by_the_true_effect(evidence, found) -> None:
    """A row an effect whose verdicts are all there are; page one has what equal arms cost, and no gain is adopted."""
    part = next(each for each in found.parts if each.number == 11)
    [table] = [each for each in part.tables if each.id == "11.4"]
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    pairs, cost = review.rule_of(evidence).pairs, evidence.plan.cost
    for row in rows.values():
        words = ("default", "option", "small gain", "reject", "open")
        assert sum(float(row[word].rstrip("%")) for word in words) == pytest.approx(100, abs=0.3)
        runs = 2 * pairs * (1 + float(row["extended"].rstrip("%")) / 100)
        assert float(row["runs"]) == pytest.approx(runs, abs=1)
        hours = float(row["GPU-hours"].replace(",", ""))
        assert hours == pytest.approx(cost.gpu_hours(runs / 2), rel=0.002)
    assert float(rows["none"]["default"].rstrip("%")) < 2.5
    [line] = [each.says for each in found.page if each.field == "real runs and their cost"]
    said = re.search(r"(\d+)% are extended \((\d+) pairs", line)
    assert float(said[1]) == pytest.approx(float(rows["none"]["extended"].rstrip("%")), abs=0.7)
    assert int(said[2]) == 2 * pairs


def test_products_on_page_one_come_out_as_printed(found) -> None:
    """Runs times GPUs times minutes, and a tenth more, are the GPU-hours beside them."""
    [line] = [each.says for each in found.page if each.field == "real runs and their cost"]
    said = re.search(r"= ([\d,]+) runs x (\d+) GPUs x ([\d.]+) min .* \+ 10% .* = ([\d,.]+) GPU-hours\.", line)
    runs, gpus, minutes, hours = (float(each.replace(",", "")) for each in said.groups())
    assert hours == pytest.approx(runs * gpus * minutes / 60 * 1.1, abs=0.051)


def test_other_plans_are_as_good_or_say_why(evidence, found) -> None:
    """Blocked and several runs a start tell the smallest gain as surely; the rule of page one is that of part 12."""
    known = {each.name.partition(",")[0]: each for each in choices(evidence)}
    planned = known.pop("planned")
    assert {"blocked on placement", "sized for the prediction"} <= set(known)
    for each in known.values():
        assert each.gpu_hours < planned.gpu_hours
        if each.name == "sized for the prediction":
            assert adopted(each.rule, evidence.plan.ratio, each.design) >= 0.8
        else:
            assert each.design.power(each.rule.pairs, evidence.lines.interest, level=each.rule.level(0)) >= 0.8
    [line] = [each.says for each in found.page if each.field == "decision rule"]
    [part] = [each for each in found.parts if each.number == 12]
    for each in review.rule_of(evidence).lines():
        assert f"{each.label} if {each.condition}" in line
        assert each.condition in " ".join(part.fixed.split())
