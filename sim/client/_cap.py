"""A cap on samples in flight that follows what the engines say: grow while there is room, cut when there is none.

The rule of prime-rl's adaptive concurrency (pull requests 3285 and 3556). Every ``poll_s`` the engines are asked.
Whenever as many samples have ended as the cap allows (one turnover), and the cap is what holds others back,

    cap *= 1 + growth * (1 - u / soft_share)      u < soft_share: the fullest engine's share of KV memory in use
    cap *= soft_share / u                         above it

Without growth if an engine had requests waiting at two polls in a row since the last change. When a request lost its
memory since the last poll, the cap becomes ``cut`` times the samples in flight at once; further losses are ignored
until no more are in flight than it allows, and if they go on then, the next cut is to a half. Samples in flight are
never taken back, so the cap acts late: contexts go on growing after it stands still.

Left out: the product's estimate of a sample's size, by which it sets the first cap; ``start`` is given here.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from sim.engine.load import Load
from sim.instants import TELEMETRY, Clock
from sim.specs import FeedbackCap

HARSHER: Final = 0.5
"""What the samples in flight are cut to if losses survive the first cut."""
BINDING: Final = 0.9
"""Share of the cap that must be in flight for it to grow."""


class Polled(Protocol):
    """What is needed of an engine."""

    def peek(self, now: int) -> Load:
        """What it says of itself."""


class Capped(Protocol):
    """What is needed of the client."""

    env: Clock
    ticks: float
    cap: int
    under_way: int
    ended: int

    @property
    def losses(self) -> int:
        """Times that requests, ended and open, have lost their memory."""

    def refill(self) -> None:
        """Start what may start under a raised cap."""


class Controller:
    """Moves the cap of one client."""

    def __init__(self, client: Capped, spec: FeedbackCap, engines: Sequence[Polled]) -> None:
        self.client = client
        self.spec = spec
        self.engines = engines
        client.cap = spec.start
        self.period = max(1, round(spec.poll_s * client.ticks))
        self.is_polling = False
        self.turned_over = 0
        """Samples that had given back their place at the last change."""
        self.losses = 0
        self.had_waiting = [False] * len(engines)
        self.is_queueing = False
        self.is_draining = False
        self.next_cut = spec.cut

    def wake(self) -> None:
        """A sample starts: ask the engines from now on, as long as any is in flight."""
        if not self.is_polling:
            self.is_polling = True
            self.client.env.at(self.client.env._now + self.period, TELEMETRY, self._poll)

    def _poll(self, _: None) -> None:
        self.is_polling = False
        client = self.client
        if client.under_way:
            self._observe([engine.peek(client.env._now) for engine in self.engines])
            self.wake()

    def _observe(self, loads: Sequence[Load]) -> None:
        client = self.client
        waiting = [load.waiting > 0 for load in loads]
        self.is_queueing |= any(now and before for now, before in zip(waiting, self.had_waiting, strict=True))
        self.had_waiting = waiting
        losses, self.losses = client.losses - self.losses, client.losses
        self.is_draining &= client.under_way > client.cap
        if losses and not self.is_draining:
            self._set(self.next_cut * client.under_way)
            self.is_draining, self.next_cut = True, HARSHER
        elif client.ended - self.turned_over >= client.cap:
            self._turn_over(max(load.kv_share for load in loads))

    def _turn_over(self, used: float) -> None:
        """Once a cap's worth of samples has ended: grow or trim."""
        client, spec = self.client, self.spec
        if used > spec.soft_share:
            self._set(client.cap * spec.soft_share / used)
        elif not self.is_queueing:
            self.next_cut = spec.cut
            if client.under_way >= BINDING * client.cap:
                self._set(client.cap * (1 + spec.growth * (1 - used / spec.soft_share)))
        self.turned_over, self.is_queueing = client.ended, False

    def _set(self, cap: float) -> None:
        client, spec = self.client, self.spec
        client.cap = max(spec.least, min(round(cap), spec.most or round(cap)))
        self.turned_over = client.ended
        client.refill()
