"""The page of stored results names every table and every column that a run stores."""

import re
from pathlib import Path

from sim import load_scenario, results, run
from sim.log.account import SHARES
from sim.metrics import METRICS

PAGE = Path(__file__).parents[2] / "results" / "README.md"


def test_the_page_names_all_tables_and_columns(tmp_path: Path) -> None:
    """Rows of the page's table hold the columns in their order; metrics and shares have pages of their own."""
    run(load_scenario("smoke"), pairs=1, out=tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, flags=re.MULTILINE))
    assert list(rows) == list(results.TABLES)
    elsewhere = {"scenario", "arm", "hash", "pair", *METRICS, *(f"{share}_s" for share in SHARES)}
    for table, row in rows.items():
        assert f"/{table}.parquet " in text
        named = re.findall(r"`(\w+)`", row)
        stored = results.scan(table, tmp_path).collect_schema().names()
        own = [name for name in stored if name not in elsewhere - set(named)]
        assert named == own, table
