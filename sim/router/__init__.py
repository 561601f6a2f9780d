"""Routers: what stands between the clients and the engines, around the policy that chooses.

``plain`` is one process with exact counts and no cost, ``full`` has everything else that a scenario may ask of a
router; ``build`` takes the one that a scenario needs, and puts several replicas behind one front.
"""

from typing import Protocol

from sim.engine.request import Request
from sim.engine.shell import Engine


class Routes(Protocol):
    """Whatever a client can hand its requests to."""

    def route(self, request: Request) -> None:
        """Take a request; ``request.reply`` is called once when it has ended, after all tries of the router."""

    def abort(self, request: Request) -> None:
        """End a request wherever it is; one that has ended stays as it is, and none is tried again."""


class Members(Routes, Protocol):
    """A router whose fleet may change."""

    def set_available(self, index: int, is_available: bool) -> None:
        """Let the policy choose an engine, or not; requests that it has stay with it."""

    def join(self, engine: Engine, url: str, place: int | None = None) -> None:
        """An engine is added, ``place`` being where the router iterates it; absent: last."""

    def leave(self, index: int) -> None:
        """An engine is removed: it is chosen no more, and what it has still ends."""
