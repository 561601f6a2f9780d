"""Results on disk: whole or absent, and the same bytes each time."""

import resource
from pathlib import Path

import pytest

from sim.errors import ScenarioError
from sim.log import frames, store
from tests.sim.six_requests import six_requests

MANIFEST = {"hash": "abc", "pairs": 1}


def write(folder: Path, pairs: int = 1) -> None:
    tables = frames.read_logs([six_requests() for _ in range(pairs)], range(pairs))
    store.write(folder, tables, MANIFEST)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Seven tables and a manifest, nothing beside them."""
    write(tmp_path / "x" / "abc")
    assert sorted(path.name for path in (tmp_path / "x" / "abc").iterdir()) == [
        "changes.parquet",
        "decisions.parquet",
        "engines.parquet",
        "groups.parquet",
        "manifest.json",
        "replications.parquet",
        "requests.parquet",
        "steps.parquet",
    ]
    read, made = store.read(tmp_path / "x" / "abc"), frames.read_logs([six_requests()], [0])
    assert all(getattr(read, name).equals(getattr(made, name)) for name in frames.NAMES)
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["abc"]


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    """L4, to the last byte of the parquet files."""
    for name in ("one", "two"):
        write(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_result_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Writing again leaves the new result and no trace of the old."""
    write(tmp_path / "abc", pairs=2)
    (tmp_path / "abc" / "stale").write_text("")
    write(tmp_path / "abc")
    assert store.read(tmp_path / "abc").replications.height == 1
    assert not (tmp_path / "abc" / "stale").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["abc"]


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    """One clear line, before anything runs and while writing."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match=r"cannot write results in .*file/out: Not a directory"):
        store.prepare(tmp_path / "file" / "out")
    with pytest.raises(ScenarioError, match="cannot write results"):
        write(tmp_path / "file" / "out")


def test_a_full_disk_leaves_the_old_result(tmp_path: Path) -> None:
    """When space runs out halfway, what stood there stays and the draft goes."""
    write(tmp_path / "abc")
    before = {path.name: path.read_bytes() for path in (tmp_path / "abc").iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(ScenarioError, match=r"cannot write results in .*: File too large$"):
            write(tmp_path / "abc", pairs=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in (tmp_path / "abc").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["abc"]
