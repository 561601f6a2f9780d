"""What an SGLang engine keeps free for the tokens that its running requests may still say.

Admission reserves, for each running request, a share of what its limit leaves (clipped): ``new_token_ratio``. The share
starts at 0.7 times ``schedule_conservativeness``, falls with every decode step to 0.14 of that, jumps to a new estimate
after a retraction and returns to the start when the engine is idle. Steps that decode beside a prefill leave it alone.

Source: sgl-project/sglang ``environ.py``, ``managers/scheduler.py``, ``managers/schedule_batch.py``.
"""

from collections.abc import Iterable

from sim.engine.request import Request
from sim.engine.spec import EngineSpec

INIT_NEW_TOKEN_RATIO = 0.7
"""SGLANG_INIT_NEW_TOKEN_RATIO; the floor is 0.14 of the start value."""
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
RETRACT_DECODE_STEPS = 20
"""Decode steps that the estimate after a retraction looks ahead."""


class Reserve:
    """The share that is reserved, by count of decode steps; ``clip`` bounds what one request's limit counts."""

    def __init__(self, spec: EngineSpec) -> None:
        assert spec.clip_max_new_tokens is not None
        assert spec.schedule_conservativeness is not None
        assert spec.new_token_ratio_decay_steps is not None
        self.clip = spec.clip_max_new_tokens
        self.start = min(1.0, INIT_NEW_TOKEN_RATIO * spec.schedule_conservativeness)
        self.floor = MIN_NEW_TOKEN_RATIO_FACTOR * self.start
        self.decay = (self.start - self.floor) / spec.new_token_ratio_decay_steps
        self.ratio = self.start
        self.since = 0
        """Decode steps at which ``ratio`` was set; it falls from there."""

    def set(self, ratio: float, steps: int) -> None:
        """The share is this much at a count of steps."""
        self.ratio = ratio
        self.since = steps

    def share(self, steps: int) -> float:
        """The share after ``steps`` decode steps."""
        return max(self.floor, self.ratio - max(0, steps - self.since) * self.decay)

    def estimate(self, said: int, limits: int, steps: int) -> None:
        """After a retraction: what the requests that are left have said and will say soon, over their limits."""
        self.set(min(1.0, said / (limits + 1)), steps)

    def limit_left(self, request: Request) -> int:
        """Tokens that admission counts for the output of a request that is not yet running."""
        return min(request.max_tokens - request.base_output, self.clip)

    def limits(self, running: Iterable[Request], steps: int) -> tuple[int, int, list[int]]:
        """Tokens that running requests may still generate: sum and count of those under the clip, excess of the rest.

        The excess is sorted, largest first: it is also the number of decode steps until the request is under the clip.
        """
        clip, total, counted = self.clip, 0, 0
        clipped: list[int] = []
        for request in running:
            if request.joined_at >= 0:
                left = request.max_tokens - request.base_output - steps + request.joined_at
                if left <= clip:
                    total += left
                    counted += 1
                else:
                    clipped.append(left - clip)
        clipped.sort(reverse=True)
        return total, counted, clipped

    def tokens(self, running: Iterable[Request], steps: int) -> float:
        """Tokens kept for the running requests."""
        total, _, clipped = self.limits(running, steps)
        return (total + len(clipped) * self.clip) * self.share(steps)

    def steps_until(self, running: Iterable[Request], steps: int, most: int, need: int, left: Iterable[int]) -> int:
        """Decode steps until ``need`` tokens fit beside the reserve, at most ``most``.

        ``left``: the tokens of the pool that are not taken after one step, after two and so on.
        """
        total, counted, clipped = self.limits(running, steps)
        for ahead, free in zip(range(1, most), left, strict=False):
            while clipped and clipped[-1] <= ahead:
                total += clipped.pop() + self.clip
                counted += 1
            reserved = (total - counted * ahead + len(clipped) * self.clip) * self.share(steps + ahead)
            if need < free - reserved:
                return ahead
        return max(1, most)
