"""A request on its way through a router."""

from policies._protocol import RequestView
from sim.engine.request import Request

QUEUED, DECIDING, SENT, BACKING_OFF, OVER = range(5)


class Trip:
    """Where a request stands, and what the router keeps of it between its events."""

    __slots__ = (
        "counted",
        "is_aborted",
        "is_admitted",
        "place",
        "request",
        "retry",
        "service",
        "since",
        "view",
        "waited",
    )

    def __init__(self, request: Request, view: RequestView, now: int) -> None:
        self.request = request
        self.view = view
        """What the policy is shown."""
        self.place = QUEUED
        self.since = now
        """Tick at which it came, or came again for another try."""
        self.retry = 0
        self.waited = 0
        """Ticks in queues before the decision."""
        self.service = 0
        """Ticks that the decision holds a core."""
        self.counted = 0
        """By how much the count that the policy sees is higher for it."""
        self.is_admitted = False
        """Whether it holds a place under the limit."""
        self.is_aborted = False
        """Whether it is to end as soon as its engine lets it go."""
