"""``windtunnel validate``: rows beside their values, and the exit code."""

import json

import pytest

from sim.cli import main
from sim.validation import read_record
from tests.sim.validation.test_cases import ROW, WORLD


def call(capsys, *arguments):
    """Exit code and output of a command."""
    with pytest.raises(SystemExit) as ended:
        main(("validate", *map(str, arguments)))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def case(tmp_path, name, rows=ROW):
    """A case file."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(WORLD + rows, encoding="utf-8")
    return path


def test_a_truth_that_holds_is_0_and_the_page_is_written(capsys, tmp_path):
    """The page has the row and its verdict."""
    page = tmp_path / "new" / "page.md"
    code, out, _ = call(capsys, case(tmp_path, "good"), "--out", tmp_path, "--write", page)
    assert code == 0
    assert "1 rows, 0 with another verdict than stored, 0 truths or controls fail" in out
    assert "| requests | 10 | 10, analytic | exact | – | reproduced |" in page.read_text(encoding="utf-8")


def test_the_record_is_written(capsys, tmp_path):
    """Beside the page, or alone; a place that cannot be written is one line."""
    path = tmp_path / "new" / "record.json"
    code, _, err = call(capsys, case(tmp_path, "good"), "--out", tmp_path, "--record", path)
    assert (code, f"wrote {path}" in err) == (0, True)
    [found] = read_record(path).cases
    assert (found.name, found.rows[0].ours, found.rows[0].verdict) == ("good", 10, "reproduced")
    code, _, err = call(capsys, case(tmp_path, "good"), "--out", tmp_path, "--record", path / "in_a_file")
    assert (code, err.startswith("error: cannot write")) == (1, True)


def test_a_case_goes_into_the_record_that_is_there(capsys, tmp_path):
    """In the place of what it gave before; the page is of all that the record holds then."""
    path, page = tmp_path / "record.json", tmp_path / "page.md"
    assert call(capsys, "siblings", "drain", "--out", tmp_path, "--record", path)[0] == 0
    held = json.loads(path.read_text(encoding="utf-8"))
    next(each for each in held["cases"] if each["name"] == "drain")["rows"][0]["ours"] = 3.0
    path.write_text(json.dumps(held), encoding="utf-8")
    read_record.cache_clear()
    assert call(capsys, "drain", "--out", tmp_path, "--record", path, "--write", page)[0] == 0
    read_record.cache_clear()
    again = {each.name: each for each in read_record(path).cases}
    assert again["drain"].rows[0].ours < 1
    assert [row.ours for row in again["siblings"].rows] == [7, 4, 7, 7, 7]
    text = page.read_text(encoding="utf-8")
    assert text.index("## drain") < text.index("## siblings")
    assert "2 cases, 8 rows: 8 reproduced" in text


@pytest.mark.parametrize("kind", ["truth", "null"])
def test_a_truth_or_a_control_that_fails_is_1(capsys, tmp_path, kind):
    """It is named on stderr, and the change of verdict in the table."""
    wrong = case(tmp_path, "bad", ROW.replace("truth: 10", f"{kind}: 11"))
    code, out, err = call(capsys, wrong, "--out", tmp_path)
    assert code == 1
    assert "fails: bad: requests" in err
    assert "stored:" in out


def test_a_published_value_that_is_missed_is_0(capsys, tmp_path):
    """Misses are reported, not punished."""
    wrong = case(tmp_path, "far", ROW.replace("truth: 10", "published: 11"))
    code, out, _ = call(capsys, wrong, "--out", tmp_path)
    assert code == 0
    assert "1 rows, 1 with another verdict" in out


def test_long_cases_wait_for_full(capsys, tmp_path):
    """Without a short form nothing runs."""
    path = case(tmp_path, "long")
    path.write_text(path.read_text(encoding="utf-8").replace("quick: 2, ", ""), encoding="utf-8")
    code, out, err = call(capsys, path, "--out", tmp_path)
    assert (code, out.splitlines()[0]) == (0, "0 rows, 0 with another verdict than stored, 0 truths or controls fail")
    assert "long: only with --full" in err
    assert "1 rows" in call(capsys, path, "--full", "--out", tmp_path)[1]


@pytest.mark.parametrize("name", ["siblngs", "nowhere.yaml"])
def test_an_unknown_case_is_one_line(capsys, tmp_path, name):
    """With the nearest name where there is one."""
    code, out, err = call(capsys, name, "--out", tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"error: no case {name!r}; ")
