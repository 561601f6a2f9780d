"""A log as bytes: what travels from a worker, and what lies on disk until its cell is complete.

A digest goes before the data, so that a file cut short by a crash is seen for what it is. Unpacking builds nothing but
the parts of a log: a file from elsewhere cannot make it call anything.
"""

import io
import pickle
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from sim.log.record import Log

_DIGEST: Final = 16
_PARTS: Final = {
    ("sim.log.record", "Log"),
    ("sim.log.record", "Table"),
    ("sim.cost._coefficients", "_kept"),
}


def pack(log: Log) -> bytes:
    """The log as bytes; the terms of its cost models go along, tables that they only cache do not."""
    data = pickle.dumps(log, protocol=5)
    return blake2b(data, digest_size=_DIGEST).digest() + data


def unpack(data: bytes) -> Log | None:
    """The log that was packed; None where the bytes are not whole."""
    digest, rest = data[:_DIGEST], data[_DIGEST:]
    if blake2b(rest, digest_size=_DIGEST).digest() != digest:
        return None
    try:
        log = _Reader(io.BytesIO(rest)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, TypeError):
        return None
    return log if isinstance(log, Log) else None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in _PARTS:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a log")
        found: Callable[..., Any] = super().find_class(module, name)
        return found
