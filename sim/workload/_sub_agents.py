"""Sub-agents: sessions that an agent starts after some of its turns, with its context or without.

Which turns start how many is drawn over all turns of all agents, one column a turn. Sessions are numbered agent after
agent, each before its own sub-agents in order of the turns that start them, so an agent and its sub-agents keep their
numbers, and what they say, when agents are added. A sub-agent starts none of its own.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.rng import Streams
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._lengths import Floats, Ints, Length, Time, bounded, check_length, check_time, lengths, values
from sim.workload._model import ALONE, Child
from sim.workload._ragged import by_turn, indices


@dataclass(frozen=True, slots=True)
class SubAgents:
    """Sessions that start out of the turns of an agent."""

    turn_share: float
    """Chance that a turn which is not the last of its agent starts sub-agents."""
    turns: Length = 1
    """Turns of a sub-agent, one model call each."""
    count: Length = 1
    """Sub-agents that such a turn starts at once."""
    task_tokens: Length = 0
    """Tokens that a sub-agent's first prompt adds to the context it starts with."""
    context: Literal["fork", "fresh"] = "fork"
    """It starts with the agent's context up to the end of that turn, or with the head of its prompt alone."""
    waits: bool = True
    """Whether the agent's next turn waits until the sub-agents have ended."""
    delay_s: Time = 0.0
    """Seconds between the end of the turn and the start of a sub-agent."""
    keys: Literal["agent", "own"] = "agent"
    """Whether its requests carry the agent's routing key, or one of their own."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        within("turn_share", self.turn_share, 0, 1)
        check_length("turns", self.turns, 1)
        check_length("count", self.count, 1)
        check_length("task_tokens", self.task_tokens, 0)
        check_time("delay_s", self.delay_s)


@dataclass(frozen=True, slots=True)
class Births:
    """Who starts whom; one element a sub-agent, agent after agent."""

    parent: Ints
    """Agent, counted among agents."""
    after_turn: Ints
    delay_s: Floats

    def those(self, chosen: NDArray[np.bool_]) -> "Births":
        """Some of them."""
        return Births(self.parent[chosen], self.after_turn[chosen], self.delay_s[chosen])

    def numbers(self, agents: int) -> tuple[Ints, Ints]:
        """Number of each agent and of each sub-agent among all sessions."""
        each = np.bincount(self.parent, minlength=agents)
        agent_ids: Ints = np.arange(agents) + np.cumsum(each) - each
        return agent_ids, agent_ids[self.parent] + 1 + indices(np.zeros_like(each), each)

    def children(self, agent_ids: Ints, ids: Ints, waits: bool) -> dict[int, list[Child]]:
        """By the number of an agent, the sub-agents that it starts."""
        found: dict[int, list[Child]] = {}
        parents = agent_ids[self.parent].tolist()
        rows = zip(parents, ids.tolist(), self.after_turn.tolist(), self.delay_s.tolist(), strict=True)
        for parent, child, turn, delay in rows:
            found.setdefault(parent, []).append(Child(child, turn, delay, turn + 1 if waits else ALONE))
        return found


def draw_births(spec: SubAgents, streams: Streams, starts: Ints, turns: Ints) -> Births:
    """The sub-agents of agents with so many turns."""

    def chance(turn: int, count: int) -> Floats:
        return streams.column(f"workload/sub_agents/{turn}").random(count)

    def number(turn: int, count: int) -> Floats:
        column = streams.column(f"workload/sub_agents/count/{turn}")
        return lengths("count", spec.count, column, count, 1).astype(np.float64)

    turn_of = indices(np.zeros_like(turns), turns)
    agent_of = np.repeat(np.arange(len(turns)), turns)
    flat = indices(starts, turns)
    is_start = (by_turn(chance, starts, turns)[flat] < spec.turn_share) & (turn_of < turns[agent_of] - 1)
    born = np.where(is_start, by_turn(number, starts, turns)[flat], 0).astype(np.int64)
    within("count: sub-agents of all sessions", int(born.sum()), 0, MOST_REQUESTS)
    parent = np.repeat(agent_of, born)
    delay_s = values(spec.delay_s, streams.column("workload/sub_agents/delay_s"), len(parent))
    return Births(parent, np.repeat(turn_of, born), bounded("delay_s", delay_s))
