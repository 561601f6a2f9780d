"""Routers: what stands between the clients and the engines, around the policy that chooses.

``plain`` is one process with exact counts and no cost, ``full`` has everything else that a scenario may ask of a
router; ``build`` takes the one that a scenario needs, and puts several replicas behind one front.
"""

from typing import Protocol

from sim.engine.request import Request


class Routes(Protocol):
    """Whatever a client can hand its requests to."""

    def route(self, request: Request) -> None:
        """Take a request; ``request.reply`` is called once when it has ended, after all tries of the router."""

    def abort(self, request: Request) -> None:
        """End a request wherever it is; one that has ended stays as it is, and none is tried again."""
