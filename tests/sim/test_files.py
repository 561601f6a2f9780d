"""A file is there whole or not at all; where it cannot be, one line says so."""

import gzip

import pytest

from sim.errors import ScenarioError
from sim.files import replacing, write_whole


def test_a_file_is_replaced_at_the_end(tmp_path):
    """Until then the old one stands; nothing else is left behind."""
    path = tmp_path / "page.md"
    write_whole(path, "old\n")
    with replacing(path) as write:
        write(b"new")
        assert path.read_text() == "old\n"
        write(b"er\n")
    assert path.read_text() == "newer\n"
    assert [*tmp_path.iterdir()] == [path]


def test_what_fails_half_way_leaves_the_old_file(tmp_path):
    """And no draft."""
    path = tmp_path / "page.md"
    write_whole(path, "old\n")
    with pytest.raises(TypeError), replacing(path) as write:
        write("half of the text")
    assert path.read_text() == "old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_may_be_read_by_whoever_may_read_its_neighbours(tmp_path):
    """Rights are those of any file that is made here."""
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "whole") as write:
        write(b"")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_packed_files_are_the_same_bytes_every_time(tmp_path):
    """Without name or date inside."""
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        with replacing(tmp_path / name) as write:
            write(b"{}\n")
    a, b = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert a == b
    assert gzip.decompress(a) == b"{}\n"


def test_a_place_that_is_none_is_one_line(tmp_path):
    """With the path and the reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match=r"cannot write .*file/page.md: Not a directory$"):
        write_whole(tmp_path / "file" / "page.md", "")
