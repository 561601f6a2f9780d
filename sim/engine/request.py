"""One generation call as the simulation carries it from the client to its end.

The router reads ``view`` alone. The engine reads the prompt, the client's limit and, to know when the model happens to
stop, the realised length; its scheduler decides nothing by it before the stop token is there.
"""

from typing import Any

from policies._content import PRIVATE, Content, extend
from policies._protocol import RequestView
from sim.log.record import UNFINISHED


class Request:
    """A request, its marks in time (ticks, -1 = never) and its state inside an engine."""

    __slots__ = (
        "arrived", "attempt", "base_output", "cached_tokens", "computed", "content", "copies", "done", "ended",
        "ends_at", "engine", "epoch", "first_token", "generated", "group", "high", "hit_tokens", "is_last", "joined_at",
        "leaf", "max_tokens", "on_first_token", "output_source", "output_tokens", "phase", "place", "preemptions",
        "prefill_tokens", "prompt_tokens", "queried_tokens", "reason", "recomputed_tokens", "reply", "scheduled",
        "session", "stamp", "status", "submitted", "target", "turn", "view",
    )  # fmt: skip

    def __init__(
        self,
        view: RequestView,
        output_tokens: int,
        output_source: int,
        session: int = 0,
        group: int = 0,
        turn: int = 0,
        is_last: bool = True,
    ) -> None:
        self.view = view
        self.session = session
        self.group = group
        self.turn = turn
        self.is_last = is_last
        self.attempt = 0
        self.engine = -1
        self.prompt_tokens = view.prompt_tokens
        self.max_tokens = output_tokens if view.max_tokens is None else view.max_tokens
        self.output_tokens = output_tokens
        self.output_source = -2 - view.id if output_source == PRIVATE else output_source
        self.submitted = self.arrived = self.scheduled = self.first_token = self.ended = -1
        self.cached_tokens = self.prefill_tokens = self.recomputed_tokens = self.preemptions = 0
        self.queried_tokens = self.hit_tokens = 0
        """Tokens that its look-ups in the prefix cache asked for and found, counted as the product reports them."""
        self.generated = 0
        """Tokens generated, once it has ended; ``output_tokens`` if it finished."""
        self.status = UNFINISHED
        self.reason = 0
        """Why it failed, a code of the log."""
        self.done: Any = None
        """Called with the request by the engine that answers it; another object at each try, which tells them apart."""
        self.reply: Any = None
        """Called with the request once it has ended for the client, after all attempts."""
        self.on_first_token: Any = None
        """Called with the request when its ``first_token`` is known, at that time or before; None: nobody asks."""
        self.content: Content = view.content
        """What the next prefill computes: the prompt, and after a preemption the output so far."""
        self.target = view.prompt_tokens
        """Tokens of ``content``."""
        self.computed = 0
        """Tokens of ``content`` that are in the KV pool or scheduled to be."""
        self.high = 0
        """Most tokens that were ever computed; a prefill below it is recomputation."""
        self.leaf: Any = None
        """Deepest node of the prefix cache that this request holds."""
        self.copies: Any = None
        """By node of the prefix cache, the physical copy that this request holds where it is not the first."""
        self.stamp = 0
        self.phase = 0
        self.place = 0
        """Its number among the admissions of its engine: the order of the batch."""
        self.joined_at = -1
        """Decode step count at which the request joined the decodes, -1 while it is not among them."""
        self.base_output = 0
        """Tokens generated when it joined."""
        self.ends_at = -1
        """Decode step count at which its last token is there."""
        self.epoch = 0

    @property
    def ends_by_limit(self) -> bool:
        """Whether the scheduler knows the last step beforehand (the limit) or not (a stop token)."""
        return self.output_tokens >= self.max_tokens

    def rewind(self, generated: int) -> None:
        """Prepare to prefill again, prompt and output so far, after a preemption."""
        self.content = extend(self.view.content, self.output_source, generated)
        self.target = self.prompt_tokens + generated
        self.base_output = generated
        self.computed = 0
        self.preemptions += 1
        self.epoch += 1
        self.joined_at = -1

    def renew(self) -> None:
        """Forget an attempt that has ended: an engine may take the request in as if it were the first."""
        self.arrived = self.scheduled = self.first_token = self.ended = -1
        self.cached_tokens = self.prefill_tokens = self.recomputed_tokens = 0
        self.queried_tokens = self.hit_tokens = self.generated = 0
        self.status = UNFINISHED
        self.reason = 0
        self.leaf = self.copies = None
        self.high = 0
        self.rewind(0)
        self.preemptions = 0
        self.ends_at = -1

    def __lt__(self, other: "Request") -> bool:
        """An older attempt of one request stands before a newer one, where an engine's heap holds both."""
        return self.attempt < other.attempt

    def __repr__(self) -> str:
        return f"Request({self.view.id}, prompt={self.prompt_tokens}, computed={self.computed}/{self.target})"
