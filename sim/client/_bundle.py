"""One HTTP request for the answers of a whole group: the router decides once, and one engine gets all siblings at once.

The client sends a ``Bundle``; the front of the engine that it reaches takes it apart into the requests of the siblings,
and answers when the last of these has ended, so the group's places are held until then. A bundle counts as one request
in flight and has one decision, under the id of its first sibling.

Left out: the request of one token by which SGLang's front computes the shared prompt before it sends the siblings.
"""

from functools import partial
from typing import Any

from sim.engine.request import Request
from sim.instants import Clock
from sim.log.record import FINISHED, UNFINISHED


class Bundle(Request):
    """A request for several answers to one prompt."""

    __slots__ = ("left", "parts")

    def __init__(self, parts: list[Request]) -> None:
        """``parts`` are the requests of the siblings, in their order."""
        first = parts[0]
        super().__init__(first.view, first.output_tokens, first.output_source, first.session, first.group)
        self.parts = parts
        self.left = len(parts)
        self.submitted = first.submitted
        self.attempt = first.attempt

    def renew(self) -> None:
        """Forget a try of a router that failed, for all siblings."""
        super().renew()
        self.left = len(self.parts)
        for part in self.parts:
            part.renew()
            part.engine = -1


class Front:
    """The HTTP front of an engine: what is no bundle passes, and all else is the engine's."""

    def __init__(self, env: Clock, engine: Any) -> None:
        self.env = env
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def submit(self, request: Request) -> None:
        """Take a request in; a bundle becomes a request for each of its siblings, all at this instant."""
        if not isinstance(request, Bundle):
            self.engine.submit(request)
            return
        request.arrived = self.env._now
        for part in request.parts:
            part.engine = request.engine
            part.done = partial(self._ended, request)
            self.engine.submit(part)

    def abort(self, request: Request) -> None:
        """End a request before its time; of a bundle, the siblings that have not ended."""
        for part in request.parts if isinstance(request, Bundle) else [request]:
            self.engine.abort(part)

    def _ended(self, bundle: Bundle, part: Request) -> None:
        part.done = None
        bundle.left -= 1
        if bundle.left:
            return
        ends = [each.status for each in bundle.parts]
        bundle.status = FINISHED if FINISHED in ends else ends[0]
        bundle.reason = bundle.parts[0].reason
        bundle.ended = self.env._now
        bundle.done(bundle)


def taken_apart(bundle: Bundle) -> list[Request]:
    """The siblings of a bundle that was answered; those that reached no engine share its end."""
    for part in bundle.parts:
        if part.status == UNFINISHED:
            part.status, part.reason, part.ended = bundle.status, bundle.reason, bundle.ended
    return bundle.parts
