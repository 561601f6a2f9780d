"""Files that are there whole or not at all, and one line where they cannot be written.

A file is written beside its place and then renamed, so who reads it meanwhile, or after a process was killed, finds the
old one or the new one. Results have their own way, which also waits for the disk (``sim.log.store``).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.errors import ScenarioError


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[bytes], int]]:
    """Write a file by what this gives, and have it in its place at the end; a path that ends in .gz is packed."""
    import gzip

    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with draft.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    yield packed.write
            else:
                yield file.write
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def writing(what: object) -> Iterator[None]:
    """ScenarioError, which says what cannot be written and why, for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise ScenarioError(f"cannot write {what}: {error.strerror or error}") from None


def write_whole(path: Path, text: str) -> Path:
    """Write a text file in a folder that is there, and give its path; ScenarioError where it cannot be written."""
    with writing(path), replacing(path) as write:
        write(text.encode())
    return path
