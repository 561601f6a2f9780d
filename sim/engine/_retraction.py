"""How an SGLang engine makes room when the next token of every running request does not fit, and what it gives back.

Before a decode step, if free pages and what the tree can evict do not suffice, requests are retracted until they do:
those with the fewest output tokens, the longest prompt first among equals, of equals the last of the batch. What a
victim shares stays in the tree, evictable; the rest is freed. It goes to the end of the queue, prompt and output so
far, and the share of limits that admission reserves is estimated anew.

Source: sgl-project/sglang ``managers/schedule_batch.py`` (``retract_decode``), ``managers/scheduler.py``.
"""

from sim.engine._reserve import RETRACT_DECODE_STEPS, LimitedDecodes, Reserve
from sim.engine._scheduler import Scheduler, whole_content
from sim.engine.radix_cache import RadixCache
from sim.engine.request import Request


class RetractingScheduler(Scheduler):
    """A scheduler over a radix cache whose running requests may be retracted."""

    cache: RadixCache
    decodes: LimitedDecodes
    reserve: Reserve

    def _new_decodes(self, *, overlap: bool) -> LimitedDecodes:
        return LimitedDecodes(self.block, overlap=overlap, clip=self.reserve.clip)

    def has_room(self) -> bool:
        """Whether anybody decodes once requests are retracted that leave no page for the next token."""
        decodes, cache = self.decodes, self.cache
        if decodes.need_next() <= cache.free + cache.evictable:
            return decodes.count > 0
        cache.make_room(decodes.need_next())
        while decodes.need_next() > cache.free:
            self._retract(self._victim())
            cache.make_room(-(-decodes.count * RETRACT_DECODE_STEPS // self.block))
            cache.make_room(decodes.need_next())
        running = self._decoding()
        said = sum(self._generated(request) + RETRACT_DECODE_STEPS for request in running)
        self.reserve.estimate(said, sum(request.max_tokens for request in running), decodes.steps + 1)
        return decodes.count > 0

    def _decoding(self) -> list[Request]:
        return [request for request in self.running if request.joined_at >= 0]

    def _generated(self, request: Request) -> int:
        return request.base_output + self.decodes.steps - request.joined_at

    def _victim(self) -> Request:
        """Who is retracted next."""
        steps = self.decodes.steps
        victim: Request | None = None
        least = 0
        for request in self.running:
            if request.joined_at >= 0:
                said = request.base_output + steps - request.joined_at
                if victim is None or said < least or (said == least and self._precedes(request, victim)):
                    victim, least = request, said
        assert victim is not None
        return victim

    @staticmethod
    def _precedes(request: Request, other: Request) -> bool:
        return (-request.prompt_tokens, -request.place) < (-other.prompt_tokens, -other.place)

    def _retract(self, request: Request) -> None:
        """Free what a request does not share and queue it again, prompt and output so far."""
        decodes = self.decodes
        del self.running[request]
        tokens = self._slots(request)
        generated = self._generated(request)
        decodes.leave(request)
        request.high = max(request.high, tokens)
        self._give_back(request, tokens)
        if request.ends_at <= decodes.steps:
            request.preemptions += 1  # its last token is under way: nothing is left to compute
            return
        request.rewind(generated)
        self.waiting.append(request)

    def _give_back(self, request: Request, tokens: int) -> None:
        cache = self.cache
        cache.free += -(-tokens // self.block) - request.leaf.end // self.block
        cache.unlock(request)

    def _computed(self, request: Request) -> None:
        if request.leaf is not None:
            self.cache.register(request, request.content, request.target)

    def _finish(self, request: Request) -> None:
        """Prompt and output stay in the tree, evictable."""
        tokens = self._slots(request)
        self.cache.register(request, whole_content(request), request.prompt_tokens + request.output_tokens - 1)
        self._give_back(request, tokens)
        self.running.pop(request, None)
