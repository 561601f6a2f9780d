"""The first prompt of a rollout: what all samples share, and what the samples of one group share."""

from dataclasses import dataclass

from sim.errors import ScenarioError
from sim.workload._check import within
from sim.workload._lengths import Length, check_length, fixed


@dataclass(frozen=True, slots=True)
class Prompt:
    """System prompt and task of a rollout, in tokens."""

    group_tokens: Length
    """Tokens shared by the samples of one group only; drawn once a group."""
    system_tokens: int = 0
    """Tokens shared by all groups."""

    def __post_init__(self) -> None:
        """Refuse negative lengths and a prompt without a token."""
        within("system_tokens", self.system_tokens, 0)
        check_length("group_tokens", self.group_tokens, 0)
        if self.system_tokens == 0 and fixed(self.group_tokens) == 0:
            raise ScenarioError("group_tokens must be at least 1 where system_tokens is 0: a prompt has a token")
