"""What an agent's first prompt is made of, and who shares which part of it: everybody, its tenant, nobody.

Tenants differ in how much they ask. With exponent s, tenant k of n has a share of the sessions in proportion to k^-s
(Zipf): s = 0 makes them alike, s = 1 gives the first of 20 tenants 28 % of the sessions.
"""

from dataclasses import dataclass

import numpy as np

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._check import within
from sim.workload._lengths import Ints, Length, check_length, fixed, lengths

_MOST_TENANTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Context:
    """First prompt of an agent session, in tokens: common to all, to the sessions of its tenant, its own."""

    task_tokens: Length
    """Tokens of the session alone."""
    tenant_tokens: Length = 0
    """Tokens shared by the sessions of one tenant; drawn once a tenant."""
    tenants: int = 1
    """Tenants, each with a system prompt of its own."""
    tenant_exponent: float = 1.0
    """Exponent of the Zipf law of their popularity; 0: all alike."""
    system_tokens: int = 0
    """Tokens shared by all sessions."""

    def __post_init__(self) -> None:
        """Refuse negative lengths, no tenant, and a prompt without a token."""
        check_length("task_tokens", self.task_tokens, 0)
        check_length("tenant_tokens", self.tenant_tokens, 0)
        within("tenants", self.tenants, 1, _MOST_TENANTS)
        within("tenant_exponent", self.tenant_exponent, 0, 10)
        within("system_tokens", self.system_tokens, 0)
        if self.system_tokens == 0 and fixed(self.tenant_tokens) == 0 and fixed(self.task_tokens) == 0:
            raise ScenarioError("task_tokens must be at least 1 where nothing else is in the prompt")

    def draw_tenants(self, streams: Streams, sessions: int) -> Ints:
        """Tenant of each session."""
        weights = np.arange(1, self.tenants + 1, dtype=np.float64) ** -self.tenant_exponent
        below = np.cumsum(weights)[:-1] / weights.sum()
        return np.searchsorted(below, streams.column("workload/tenants").random(sessions), side="right")

    def draw_heads(self, streams: Streams) -> Ints:
        """Tokens of each tenant's part."""
        return lengths("tenant_tokens", self.tenant_tokens, streams.column("workload/tenant_tokens"), self.tenants, 0)

    def draw_tasks(self, streams: Streams, heads: Ints) -> Ints:
        """Tokens of each session's own part; ``heads``: tokens of what stands before it, by session."""
        tasks = lengths("task_tokens", self.task_tokens, streams.column("workload/task_tokens"), len(heads), 0)
        return np.maximum(tasks, np.where(heads > 0, 0, 1))

    def idle_fields(self) -> list[str]:
        """Fields that change nothing beside the others, and why."""
        if self.tenants == 1:
            return ["tenant_exponent has no effect: there is one tenant"] if self.tenant_exponent != 1 else []
        if fixed(self.tenant_tokens) == 0:
            return ["tenants has no effect: tenant_tokens is 0"]
        return []
