"""Several replicas of a router behind one front: which of them a request comes to."""

import random
from collections.abc import Sequence
from typing import Literal, Protocol

from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.router.plain import Router


class Assignment(Protocol):
    """Deals requests to replicas."""

    def take(self, request: Request) -> int:
        """The replica of a request that comes."""

    def release(self, request: Request) -> None:
        """The request has ended."""


class ByLot:
    """A column of draws, element i for request i or for session i, drawn as far as it is needed."""

    def __init__(self, replicas: int, chance: random.Random, of: Literal["random", "session"]) -> None:
        self.replicas = replicas
        self.chance = chance
        self.by_session = of == "session"
        self.drawn: list[int] = []

    def take(self, request: Request) -> int:
        """The replica that the lot of its id, or of its session's, fell on."""
        index = request.session if self.by_session else request.view.id
        while index >= len(self.drawn):
            self.drawn.append(int(self.chance.random() * self.replicas))
        return self.drawn[index]

    def release(self, request: Request) -> None:
        """Nothing was taken."""


class ByConnection:
    """Kept-alive connections: the free one used last, else a new one, to the next replica in turn."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.opened = 0
        self.free: list[int] = []
        self.used: dict[int, int] = {}
        """By request: its connection."""

    def take(self, request: Request) -> int:
        """The replica at the other end of the connection that the request gets."""
        if self.free:
            connection = self.free.pop()
        else:
            connection = self.opened
            self.opened += 1
        self.used[request.view.id] = connection
        return connection % self.replicas

    def release(self, request: Request) -> None:
        """Its connection is free."""
        self.free.append(self.used.pop(request.view.id))


class Front:
    """What clients see of several replicas; what happens to the fleet, happens to all of them."""

    def __init__(self, routers: Sequence[Router], assignment: Assignment) -> None:
        self.routers = routers
        self.assignment = assignment
        self.open: dict[int, tuple[Router, object]] = {}
        """By request: its replica, and what to call when it has ended."""

    def start(self) -> None:
        """Start all replicas."""
        for router in self.routers:
            router.start()

    def route(self, request: Request) -> None:
        """Hand a request to its replica."""
        router = self.routers[self.assignment.take(request)]
        self.open[request.view.id] = router, request.reply
        request.reply = self._reply
        router.route(request)

    def _reply(self, request: Request) -> None:
        _, reply = self.open.pop(request.view.id)
        self.assignment.release(request)
        request.reply = reply
        request.reply(request)

    def abort(self, request: Request) -> None:
        """End a request wherever it is."""
        found = self.open.get(request.view.id)
        if found is not None:
            found[0].abort(request)

    def set_available(self, index: int, is_available: bool) -> None:
        """Let all policies choose an engine, or not."""
        for router in self.routers:
            router.set_available(index, is_available)

    def join(self, engine: Engine, url: str, place: int | None = None) -> None:
        """An engine is added to all."""
        for router in self.routers:
            router.join(engine, url, place)

    def leave(self, index: int) -> None:
        """An engine is taken from all."""
        for router in self.routers:
            router.leave(index)
