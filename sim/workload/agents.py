"""Agents and chats that arrive from outside: human turns of some model calls each, tool and human time in between.

    session: | call, tool, call, tool, call | human | call, tool, call | human | ...       one human turn between bars

A session sends its whole context each time, which then grows by what was generated (``live``; in a ``replay`` by a
recorded answer of the same length) and by a tool's observation or the next words of the human. Its prompt opens with
what all sessions share, then with its tenant's system prompt. Sessions arrive by a process, or as a closed population
of users that think between their sessions. An agent may start sub-agents, with its own context or without.

Each session is a group of its own, together with its sub-agents; ``groups_per_s`` of an arrival process are sessions.
Element i of a column belongs to session i, with one column for each turn: the first sessions stay the same when
sessions are added.

Left out: humans who give up, turns of a session that overlap, sub-agents of sub-agents.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from sim.rng import Streams
from sim.workload._arrivals import Arrivals, AtOnce
from sim.workload._chains import Chains, Columns, Forks
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._closed import Closed
from sim.workload._context import Context
from sim.workload._lengths import (
    Floats,
    Ints,
    Length,
    Time,
    bounded,
    check_length,
    check_time,
    fixed,
    lengths,
    repeat,
    unrounded,
    values,
    whole,
)
from sim.workload._located import files_within, located
from sim.workload._model import Encoding, Travel, Workload
from sim.workload._ragged import before, by_turn
from sim.workload._sub_agents import Births, SubAgents, draw_births
from sim.workload._turns import bounded_turns, check_growth, draw_turns, observations


@dataclass(frozen=True, slots=True)
class _Calls:
    """Columns of sessions, flat, one element a model call."""

    starts: Ints
    turns: Ints
    """Calls of each session."""
    own: Ints
    output: Ints
    delay_s: Floats


@dataclass(frozen=True, slots=True)
class Agents:
    """Agent and chat sessions that arrive from outside, with tool and human time, tenants and sub-agents."""

    sessions: int
    """Sessions that arrive; their sub-agents come on top."""
    prompt: Context
    """The first prompt of a session."""
    output_tokens: Length
    """Generated tokens of a model call, before the client's limit cuts them; a draw below 1 is 1."""
    max_tokens: int
    """The client's limit on the generated tokens of a call; routers and engines see it."""
    turns: Length = 1
    """Human turns of a session; a draw below 1 is 1."""
    calls_per_turn: Length = 1
    """Model calls that answer one human turn; a draw below 1 is 1."""
    observation_tokens: Length = 0
    """Tokens that a tool adds between two calls of one human turn."""
    user_tokens: Length | None = None
    """Tokens that the human adds before each later turn; None: as ``observation_tokens``."""
    tool_delay_s: Time = 0.0
    """Seconds between two calls of one human turn."""
    human_delay_s: Time = 0.0
    """Seconds between the last call of a human turn and the first of the next."""
    growth_exponent: float = 1.0
    """Power of the call that the sum of observations follows; below 1 a context grows fast first and slowly later."""
    observation_turns_correlation: float = 0.0
    """Correlation of the log of each observation with the log number of human turns; needs both lognormal."""
    context_limit_tokens: int | None = None
    """A session ends before the first later call whose prompt plus max_tokens is more than this; None: no limit."""
    arrivals: Arrivals | Closed = field(default_factory=lambda: AtOnce("at_once"))
    """When sessions arrive."""
    sub_agents: SubAgents | None = None
    """Sessions that start out of others; None: no session starts any."""
    mode: Literal["live", "replay"] = "live"
    """Whether the generated tokens enter the next prompt, or a recorded answer of their length does."""
    encoding: Encoding = "chat"
    """How a prompt travels."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, of token ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        within("sessions", self.sessions, 1, MOST_REQUESTS)
        within("max_tokens", self.max_tokens, 1)
        check_length("turns", self.turns, 1)
        check_length("calls_per_turn", self.calls_per_turn, 1)
        check_length("output_tokens", self.output_tokens, 1)
        check_length("observation_tokens", self.observation_tokens, 0)
        if self.user_tokens is not None:
            check_length("user_tokens", self.user_tokens, 0)
        check_time("tool_delay_s", self.tool_delay_s)
        check_time("human_delay_s", self.human_delay_s)
        if self.context_limit_tokens is not None:
            within("context_limit_tokens", self.context_limit_tokens, 1)
        Travel(self.encoding, self.chars_per_token)
        check_growth(self.turns, self.observation_tokens, self.growth_exponent, self.observation_turns_correlation)

    def idle_fields(self) -> list[str]:
        """Fields that change nothing beside the others, and why."""
        said = [f"prompt.{each}" for each in self.prompt.idle_fields()]
        one_turn = {"user_tokens": self.user_tokens is not None, "human_delay_s": self.human_delay_s != 0}
        one_call = {
            "tool_delay_s": self.tool_delay_s != 0,
            "growth_exponent": self.growth_exponent != 1,
            "observation_tokens": self.observation_tokens != 0 and (self.user_tokens is not None or self.turns == 1),
        }
        if self.turns == 1:
            said += [
                f"{name} has no effect: a session has one human turn" for name, is_set in one_turn.items() if is_set
            ]
        if self.calls_per_turn == 1 and self.sub_agents is None:
            said += [f"{name} has no effect: a human turn is one call" for name, is_set in one_call.items() if is_set]
        if self.turns == 1 and self.calls_per_turn == 1 and self.sub_agents is not None:
            said.append("sub_agents has no effect: a session has one call, and the last one starts none")
        return said

    def files(self, base: Path) -> list[Path]:
        """Those that distributions and arrivals read."""
        return files_within(self, base)

    def generate(self, streams: Streams, base: Path) -> Workload:
        """Draw the columns of one replication."""
        return located(self, base)._generate(streams)

    def _generate(self, streams: Streams) -> Workload:
        tenant_of = self.prompt.draw_tenants(streams, self.sessions)
        tenant_tokens = self.prompt.draw_heads(streams)
        heads = tenant_tokens[tenant_of] + self.prompt.system_tokens
        agents = self._agents(streams, heads)
        arrival_s = self.arrivals.times(streams.column("workload/arrivals"), self.sessions)
        follows = self.arrivals.follows(self.sessions) if isinstance(self.arrivals, Closed) else {}
        clocked = self.sessions - len(follows)
        order = np.concatenate([np.argsort(arrival_s[:clocked], kind="stable"), np.arange(clocked, self.sessions)])
        turns = self._fitting(agents, heads)
        if self.sub_agents is None:
            numbers = np.arange(self.sessions)
            columns = self._columns(agents, agents.starts, turns, tenant_tokens)
            made = Chains(*self._placed(columns, numbers, arrival_s, order), head_of=tenant_of)
        else:
            births = draw_births(self.sub_agents, streams, agents.starts, agents.turns)
            made = self._with_sub_agents(
                self.sub_agents, streams, births, agents, turns, tenant_of, tenant_tokens, arrival_s, order
            )
        made.follows = follows
        return made

    # -- agents ------------------------------------------------------------------------------------------------------

    def _agents(self, streams: Streams, heads: Ints) -> _Calls:
        """Calls of the sessions without their sub-agents."""
        one_by_one = np.arange(self.sessions)
        humans, normals = draw_turns(streams, "workload/turns", self.turns, one_by_one, self.sessions, None)
        calls = self._calls_per_turn(streams, humans)
        turns = bounded_turns(np.add.reduceat(calls, np.cumsum(humans) - humans))
        starts = np.cumsum(turns) - turns
        opens = np.zeros(int(turns.sum()), dtype=np.bool_)
        opens[np.cumsum(calls) - calls] = True
        output = self._outputs(streams, "output_tokens", starts, turns)
        added = observations(
            streams,
            "observation_tokens",
            self.observation_tokens,
            starts,
            turns,
            exponent=self.growth_exponent,
            correlation=self.observation_turns_correlation,
            normals=normals,
        )
        if self.user_tokens is not None:
            words = observations(streams, "user_tokens", self.user_tokens, starts, turns)
            added = np.where(np.roll(opens, -1), words, added)
        delay_s = self._delays(streams, "tool_delay_s", self.tool_delay_s, starts, turns)
        pauses_s = self._delays(streams, "human_delay_s", self.human_delay_s, starts, turns)
        own = np.repeat(self.prompt.draw_tasks(streams, heads), turns) + before(output + added, starts, turns)
        return _Calls(starts, turns, own, output, np.where(opens, pauses_s, delay_s))

    def _calls_per_turn(self, streams: Streams, humans: Ints) -> Ints:
        same = fixed(self.calls_per_turn)
        if same is not None:
            return repeat(same, int(humans.sum()), 1)

        def draw(turn: int, count: int) -> Floats:
            return unrounded(self.calls_per_turn, streams.column(f"workload/calls_per_turn/{turn}"), count)

        return whole("calls_per_turn", by_turn(draw, np.cumsum(humans) - humans, humans), 1)

    def _outputs(self, streams: Streams, name: str, starts: Ints, turns: Ints) -> Ints:
        same = fixed(self.output_tokens)
        if same is not None:
            return repeat(min(same, self.max_tokens), int(turns.sum()), 1)

        def draw(turn: int, count: int) -> Floats:
            return unrounded(self.output_tokens, streams.column(f"workload/{name}/{turn}"), count)

        return whole("output_tokens", np.minimum(by_turn(draw, starts, turns), self.max_tokens), 1)

    def _delays(self, streams: Streams, name: str, time: Time, starts: Ints, turns: Ints) -> Floats:
        """Seconds before each call but the first of a session, flat."""

        def draw(turn: int, count: int) -> Floats:
            return values(time, streams.column(f"workload/{name}/{turn}"), count)

        return bounded(name.rpartition("/")[2], by_turn(draw, starts, turns, first=1))

    def _fitting(self, calls: _Calls, heads: Ints) -> Ints:
        """Calls of each session that the context limit leaves."""
        if self.context_limit_tokens is None or not len(calls.turns):
            return calls.turns
        fits = np.repeat(heads, calls.turns) + calls.own + self.max_tokens <= self.context_limit_tokens
        return np.maximum(np.add.reduceat(fits.astype(np.int64), calls.starts), 1)

    # -- sub-agents --------------------------------------------------------------------------------------------------

    def _with_sub_agents(
        self,
        spec: SubAgents,
        streams: Streams,
        births: Births,
        agents: _Calls,
        turns: Ints,
        tenant_of: Ints,
        tenant_tokens: Ints,
        arrival_s: Floats,
        order: Ints,
    ) -> Forks:
        """Agents and those of their sub-agents whose turn the context limit leaves, numbered together."""
        at = agents.starts[births.parent] + births.after_turn
        kept = agents.own[at] + agents.output[at] if spec.context == "fork" else np.zeros_like(at)
        heads = tenant_tokens[tenant_of[births.parent]] + self.prompt.system_tokens + kept
        subs = self._sub_agents(spec, streams, heads)
        sub_turns = self._fitting(subs, heads)
        lives = births.after_turn < turns[births.parent] - 1
        births = births.those(lives)
        agent_ids, ids = births.numbers(self.sessions)
        both = np.argsort(np.concatenate([agent_ids, ids]))
        all_calls = _Calls(
            starts=agents.starts,
            turns=agents.turns,
            own=np.concatenate([agents.own, subs.own]),
            output=np.concatenate([agents.output, subs.output]),
            delay_s=np.concatenate([agents.delay_s, subs.delay_s]),
        )
        columns = self._columns(
            all_calls,
            np.concatenate([agents.starts, subs.starts[lives] + len(agents.own)])[both],
            np.concatenate([turns, sub_turns[lives]])[both],
            tenant_tokens,
        )
        group_of = np.concatenate([np.arange(self.sessions), births.parent])[both]
        parent = np.concatenate([agent_ids, agent_ids[births.parent]])[both]
        made = Forks(
            *self._placed(columns, group_of, arrival_s, order),
            head_of=tenant_of[group_of],
            parent=parent,
            kept=np.concatenate([np.zeros(self.sessions, dtype=np.int64), kept[lives]])[both],
            children=births.children(agent_ids, ids, spec.waits),
        )
        if spec.keys == "agent":
            made.key_owner = parent
        return made

    def _sub_agents(self, spec: SubAgents, streams: Streams, heads: Ints) -> _Calls:
        """Calls of the sub-agents: outputs, observations and tool time by the laws of their agents."""
        count = len(heads)
        turns = bounded_turns(lengths("turns", spec.turns, streams.column("workload/sub_agents/turns"), count, 1))
        starts = np.cumsum(turns) - turns
        if not count:
            nothing = np.zeros(0, dtype=np.int64)
            return _Calls(starts, turns, nothing, nothing, np.zeros(0))
        least = 0 if heads.min() > 0 else 1
        tasks = lengths(
            "task_tokens", spec.task_tokens, streams.column("workload/sub_agents/task_tokens"), count, least
        )
        output = self._outputs(streams, "sub_agents/output_tokens", starts, turns)
        added = observations(streams, "sub_agents/observation_tokens", self.observation_tokens, starts, turns)
        own = np.repeat(tasks, turns) + before(output + added, starts, turns)
        delay_s = self._delays(streams, "sub_agents/tool_delay_s", self.tool_delay_s, starts, turns)
        return _Calls(starts, turns, own, output, delay_s)

    # -- both --------------------------------------------------------------------------------------------------------

    def _columns(self, calls: _Calls, starts: Ints, turns: Ints, tenant_tokens: Ints) -> Columns:
        limit = np.broadcast_to(np.int64(self.max_tokens), calls.output.shape)
        return Columns(starts, turns, tenant_tokens, calls.own, calls.output, limit, calls.delay_s)

    def _placed(
        self, columns: Columns, group_of: Ints, arrival_s: Floats, order: Ints
    ) -> tuple[Columns, int, Ints, Floats, Ints, bool, Travel]:
        travel = Travel(self.encoding, self.chars_per_token)
        return columns, self.prompt.system_tokens, group_of, arrival_s, order, self.mode == "live", travel
