"""The client's own work: processes that build, tokenize and send prompts, each at a rate of its own.

Every turn passes one process, drawn for each request. A process prepares one prompt after the other, in order of
arrival, at ``tokens_per_s`` prompt tokens a second; then the turn takes ``turn_s`` more, in which the process is free
for others. So the job can send no more than ``processes * tokens_per_s`` prompt tokens a second, however many engines
wait for them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sim.instants import SUBMIT, Clock


class Stage:
    """Client processes, each a queue with one server."""

    def __init__(
        self, env: Clock, processes: Sequence[int], ticks_per_token: float, fixed: int, then: Callable[[Any], None]
    ) -> None:
        """``processes`` names the process of each request; ``then(live)`` follows when a turn has left the stage."""
        self.env = env
        self.processes = processes
        self.ticks_per_token = ticks_per_token
        self.fixed = fixed
        self.then = then
        self.free_at = [0] * (max(processes, default=0) + 1)

    def enter(self, live: Any, request: int, prompt_tokens: int) -> None:
        """Let a turn queue for the process of its request."""
        process = self.processes[request]
        start = max(self.env._now, self.free_at[process])
        self.free_at[process] = end = start + round(prompt_tokens * self.ticks_per_token)
        self.env.at(end + self.fixed, SUBMIT + 1 + live.index, self.then, live)
