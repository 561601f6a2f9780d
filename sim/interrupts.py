"""Ctrl-C that is not lost: Python may raise it where exceptions are dropped, in a destructor or a callback.

The handler raises as Python's own does, and remembers; long work asks between its parts. Nothing is installed unless a
command asks for it: in a program of the user's own, Ctrl-C is that program's business.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked = False


def install() -> None:
    """Raise KeyboardInterrupt on Ctrl-C and remember it."""
    global _asked  # noqa: PLW0603 - a signal handler has no other place
    _asked = False
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed, even where that was dropped."""
    if _asked:
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: libraries that are being loaded do not all survive an exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if asked:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and processes that are started in it never see it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it unblocks the signal when it starts, so it must have
    with deferred():
        _mask(signal.SIG_BLOCK)
        try:
            yield
        finally:
            _mask(signal.SIG_UNBLOCK)


def _mask(how: int) -> None:
    if hasattr(signal, "pthread_sigmask"):  # a mask outlives the start of a program, a handler does not
        signal.pthread_sigmask(how, {signal.SIGINT})


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    global _asked  # noqa: PLW0603 - as above
    _asked = True
    raise KeyboardInterrupt
