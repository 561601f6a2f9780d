"""Requests that leave before their end: aborted by their client, or lost with the engine.

vLLM looks at aborts before it looks at the output of a step, so a request leaves at the end of the step under way and
without its token. SGLang lets the request make one more token and ends it there. What either computed stays in the
prefix cache, as of a finished request. Who waits leaves at once.

Source: vllm-project/vllm ``vllm/v1/engine/core.py`` (``_process_aborts_queue``), ``core/sched/scheduler.py``
(``finish_requests``); sgl-project/sglang ``managers/scheduler.py`` (``abort_request``).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sim.engine._scheduler import Plan, Scheduler
from sim.engine.request import Request
from sim.log.record import UNFINISHED


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done at an instant."""

    decode_steps: int
    """Decode steps that have ended."""
    prefilling: Collection[Request]
    """Requests the last of whose prompt is in a step that has not ended."""

    def generated(self, request: Request) -> int:
        """Tokens that a request has."""
        if request in self.prefilling:
            return request.base_output - 1
        if request.joined_at < 0:
            return request.base_output
        return request.base_output + self.decode_steps - request.joined_at


def is_waiting(request: Request) -> bool:
    """Whether a request in an engine holds nothing and is to be admitted."""
    return request.leaf is None and request.joined_at < 0


def leave(scheduler: Scheduler, request: Request, plans: Iterable[Plan | None]) -> None:
    """Take a running request out; ``plans`` are decided and not done."""
    scheduler.running.pop(request, None)
    for plan in plans:
        if plan is not None and request in plan.finishing:
            plan.finishing = [each for each in plan.finishing if each is not request]
    if request in scheduler.ending:
        scheduler.ending.remove(request)
    elif request.joined_at >= 0 and request.leaf is not None:
        scheduler.decodes.leave(request)
    request.epoch += 1
    if request.leaf is not None:
        scheduler.give_up(request)


def stop(scheduler: Scheduler, request: Request, generated: int, plans: Iterable[Plan | None]) -> None:
    """Let a running request that has ``generated`` tokens end with its next one, as if a stop token came."""
    scheduler.aborted[request] = request.output_tokens
    if generated + 1 >= request.output_tokens:
        return
    request.output_tokens = generated + 1
    if request.joined_at < 0:
        return
    scheduler.decodes.stop(request)
    for plan in plans:
        if plan is not None and request in plan.finishing:
            plan.ends_request = True


def inside(scheduler: Scheduler, plans: Iterable[Plan | None]) -> list[Request]:
    """All requests in an engine, by id: also those whose last token is under way."""
    every = {*scheduler.waiting, *scheduler.running, *scheduler.ending}
    for plan in plans:
        if plan is not None:
            every.update(plan.finishing)
    every.update(request for _, _, epoch, request in scheduler.decodes.by_stop if request.epoch == epoch)
    return sorted((each for each in every if each.status == UNFINISHED), key=lambda request: request.view.id)


def take_back(request: Request, tokens: int) -> int:
    """Uncount a chunk that was decided and never begun; returns how much of it was repeated."""
    before = request.computed - tokens
    repeated = max(0, min(request.computed, request.high) - before)
    request.computed = before
    request.prefill_tokens -= tokens
    request.recomputed_tokens -= repeated
    return repeated
