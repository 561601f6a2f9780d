"""What an SGLang engine keeps free for the tokens that its running requests may still say.

Admission reserves, for each running request, a share of what its limit leaves (clipped): ``new_token_ratio``. The share
starts at 0.7 times ``schedule_conservativeness``, falls with every decode step to 0.14 of that, jumps to a new estimate
after a retraction and returns to the start when the engine is idle. Steps that decode beside a prefill leave it alone.

Source: sgl-project/sglang ``environ.py``, ``managers/scheduler.py``, ``managers/schedule_batch.py``.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

from sim.engine._decodes import Decodes
from sim.engine.request import Request
from sim.engine.spec import EngineSpec

INIT_NEW_TOKEN_RATIO = 0.7
"""SGLANG_INIT_NEW_TOKEN_RATIO; the floor is 0.14 of the start value."""
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
RETRACT_DECODE_STEPS = 20
"""Decode steps that the estimate after a retraction looks ahead."""


class LimitedDecodes(Decodes):
    """Decoding sequences, and the tokens that they may still generate by their limits, each counted up to ``clip``.

    A limit is reached at a fixed count of decode steps. Those nearer than ``clip`` steps are a number and a sum, those
    farther away a heap; nothing here costs O(sequences) a decision.
    """

    __slots__ = ("clip", "far", "gone", "near", "near_sum")

    def __init__(self, block: int, *, overlap: bool, clip: int) -> None:
        super().__init__(block, overlap=overlap)
        self.clip = clip
        self.near = 0
        """Sequences whose limit is no more than ``clip`` steps away."""
        self.near_sum = 0
        """Step counts at which they reach it."""
        self.far: list[int] = []
        """Those of the others, with some that have left."""
        self.gone: Counter[int] = Counter()
        """The ones that have left."""

    def join(self, request: Request) -> None:
        """As ever; its limit counts from now on."""
        Decodes.join(self, request)  # at half the cost of ``super``
        end = self.steps + request.max_tokens - request.base_output
        if end - self.steps <= self.clip:
            self.near += 1
            self.near_sum += end
        else:
            heappush(self.far, end)

    def leave(self, request: Request) -> None:
        """As ever; its limit counts no more."""
        Decodes.leave(self, request)
        if self.far:
            self._approach()
        end = request.joined_at + request.max_tokens - request.base_output
        if end - self.steps <= self.clip:
            self.near -= 1
            self.near_sum -= end
        else:
            self.gone[end] += 1

    def _approach(self) -> None:
        """What was far may have come near."""
        far, within = self.far, self.steps + self.clip
        while far and far[0] <= within:
            end = heappop(far)
            if self.gone and self.gone[end]:
                self._forget(end)
            else:
                self.near += 1
                self.near_sum += end

    def _forget(self, end: int) -> None:
        self.gone[end] -= 1
        if not self.gone[end]:
            del self.gone[end]

    def limits(self) -> int:
        """Tokens that the sequences may still generate, each counted up to the clip."""
        if self.far:
            self._approach()
        return self.near_sum - self.near * self.steps + (self.count - self.near) * self.clip

    def coming(self, steps: int) -> list[int]:
        """In how many steps the far ones come near that do so in fewer than ``steps``, the soonest last."""
        far, near = self.far, self.steps + self.clip
        if not far or far[0] - near >= steps:
            return []
        gone = self.gone.copy()
        coming = []
        for end in sorted(far):
            if end - near >= steps:
                break
            if gone and gone[end]:
                gone[end] -= 1
            else:
                coming.append(end - near)
        coming.reverse()
        return coming


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

    def tokens(self, decodes: LimitedDecodes) -> float:
        """Tokens kept for the running requests."""
        return decodes.limits() * self.share(decodes.steps)

    def steps_until(self, decodes: LimitedDecodes, most: int, need: int, left: Iterable[int]) -> int:
        """Decode steps until ``need`` tokens fit beside the reserve, at most ``most``.

        ``left``: the tokens of the pool that are not taken after one step, after two and so on.
        """
        total, counted, passed = decodes.limits(), decodes.near, decodes.steps - self.since
        coming = decodes.coming(most)
        ratio, decay, floor = self.ratio, self.decay, self.floor
        for ahead, free in zip(range(1, most), left, strict=False):
            total -= counted
            while coming and coming[-1] <= ahead:
                total += coming.pop() - ahead
                counted += 1
            passed += 1
            share = ratio - passed * decay if passed > 0 else ratio  # as ``share``, without a call for each step
            if need < free - total * (share if share > floor else floor):
                return ahead
        return max(1, most)
