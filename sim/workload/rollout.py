"""Rollouts of reinforcement learning: groups of samples that share a prompt, of one turn or many.

A group is one prompt; its samples arrive together and share that prompt token for token. A sample is a session: turn k
sends the whole context, which then grows by the generated tokens (``live``; in a ``replay`` by a recorded answer of the
same length, and what was generated is discarded) and by the observation, after the tool's delay.

Output lengths of siblings resemble each other. With share r of the variance of log length between groups,

    log length = log median + sigma (sqrt(r) a_group + sqrt(1 - r) e_turn),        a, e standard normal,

one level a group and one draw for each turn of each sample: log lengths of two siblings correlate with r. That is
defined for lognormal outputs alone. No public figure splits the variance; schedulers built on the resemblance (Seer,
arXiv 2511.14617) say that r is not 0; 0.6 is assumed, 0.4 to 0.8 plausible.

Independent requests are groups of one sample and one turn. Element i of a column belongs to group or session i, with
one column for each turn: the first groups stay the same when groups or turns are added.

Numbers of turns may resemble each other in the same way, and observations may depend on them: ``_turns.py``.

When groups start, and what is aborted, is the trainer's (``sim.training``). Left out: siblings that fork.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import Arrivals, AtOnce
from sim.workload._chains import Chains, Columns
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._compaction import Compacted, Compaction, compact
from sim.workload._lengths import (
    Floats,
    Ints,
    Length,
    Lognormal,
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
from sim.workload._prompt import Prompt
from sim.workload._ragged import Draw, before, by_turn
from sim.workload._turns import check_growth, draw_turns, observations

_USUAL_SHARE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Rollout:
    """Groups of samples that start from one prompt, each sample a session of one or more turns."""

    groups: int
    """Prompts; each becomes a group."""
    samples_per_group: int
    """Siblings of a group."""
    prompt: Prompt
    """The first prompt of a sample."""
    output_tokens: Length
    """Generated tokens of a turn, before the client's limit cuts them; a draw below 1 is 1."""
    max_tokens: int
    """The client's limit on the generated tokens of a turn; routers and engines see it."""
    turns: Length = 1
    """Turns of a sample; a draw below 1 is 1."""
    observation_tokens: Length = 0
    """Tokens that the environment adds after a turn."""
    tool_delay_s: Time = 0.0
    """Seconds between the end of a turn and the submission of the next."""
    boot_s: Time = 0.0
    """Seconds between the start of a sample, which then holds its place, and its first turn: its sandbox starts."""
    variance_share_between_groups: float | None = None
    """Share of the variance of log output length between groups, 0..1; needs lognormal output_tokens.
    None: 0.6 for lognormal outputs; other outputs are drawn independently."""
    turns_variance_share_between_groups: float | None = None
    """The same share for the log number of turns; needs lognormal turns. None: drawn independently."""
    growth_exponent: float = 1.0
    """Power of the turn that the sum of observations follows; below 1 a context grows fast first and slowly later."""
    observation_turns_correlation: float = 0.0
    """Correlation of the log of each observation with the log number of turns; needs both lognormal."""
    context_limit_tokens: int | None = None
    """A sample ends before the first later turn whose prompt plus max_tokens is more than this; None: no limit."""
    compaction: Compaction | None = None
    """When a context has grown too long the agent goes on with a summary of it; None: never."""
    arrivals: Arrivals = field(default_factory=lambda: AtOnce("at_once"))
    """When groups arrive."""
    mode: Literal["live", "replay"] = "live"
    """Whether the generated tokens enter the next prompt, or a recorded answer of their length does."""
    encoding: Encoding = "text"
    """How a prompt travels."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, of token ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        within("groups", self.groups, 1, MOST_REQUESTS)
        within("samples_per_group", self.samples_per_group, 1, MOST_REQUESTS)
        within("groups * samples_per_group", self.groups * self.samples_per_group, 1, MOST_REQUESTS)
        within("max_tokens", self.max_tokens, 1)
        check_length("turns", self.turns, 1)
        check_length("output_tokens", self.output_tokens, 1)
        check_length("observation_tokens", self.observation_tokens, 0)
        check_time("tool_delay_s", self.tool_delay_s)
        check_time("boot_s", self.boot_s)
        if self.context_limit_tokens is not None:
            within("context_limit_tokens", self.context_limit_tokens, 1)
        Travel(self.encoding, self.chars_per_token)
        share = self.variance_share_between_groups
        if share is not None:
            within("variance_share_between_groups", share, 0, 1)
            if not isinstance(self.output_tokens, Lognormal):
                raise ScenarioError("variance_share_between_groups needs output_tokens of kind lognormal")
        share = self.turns_variance_share_between_groups
        if share is not None:
            within("turns_variance_share_between_groups", share, 0, 1)
            if not isinstance(self.turns, Lognormal):
                raise ScenarioError("turns_variance_share_between_groups needs turns of kind lognormal")
        check_growth(self.turns, self.observation_tokens, self.growth_exponent, self.observation_turns_correlation)

    def idle_fields(self) -> list[str]:
        """Fields that change nothing beside the others, and why."""
        if self.turns != 1:
            grows = self.growth_exponent != 1 and fixed(self.observation_tokens) == 0
            return ["growth_exponent has no effect: there are no observations"] if grows else []
        set_fields = {
            "observation_tokens": self.observation_tokens != 0,
            "tool_delay_s": self.tool_delay_s != 0,
            "growth_exponent": self.growth_exponent != 1,
        }
        return [f"{name} has no effect: a sample has one turn" for name, is_set in set_fields.items() if is_set]

    def files(self, base: Path) -> list[Path]:
        """Those that distributions and arrivals read."""
        return files_within(self, base)

    def generate(self, streams: Streams, base: Path) -> Workload:
        """Draw the columns of one replication."""
        return located(self, base)._generate(streams)

    def _generate(self, streams: Streams) -> Workload:
        group_of = np.repeat(np.arange(self.groups), self.samples_per_group)
        # Without a system prompt a drawn length of 0 would leave a prompt without a token.
        least = 0 if self.prompt.system_tokens else 1
        group_tokens = self._column(streams, "group_tokens", self.prompt.group_tokens, self.groups, least)
        share = self.turns_variance_share_between_groups
        turns, normals = draw_turns(streams, "workload/turns", self.turns, group_of, self.groups, share)
        starts = np.cumsum(turns) - turns
        output = self._outputs(streams, group_of, starts, turns)
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
        limit: Ints = np.broadcast_to(np.int64(self.max_tokens), output.shape)
        epoch = None
        if self.compaction is None:
            own = before(output + added, starts, turns)
        else:
            heads = group_tokens[group_of] + self.prompt.system_tokens
            summaries = self._summaries(streams, self.compaction, starts, turns)
            at = self.compaction.at_tokens
            contexts = compact(at, heads, starts, turns, output, added, summaries, self.max_tokens)
            own, output, limit, epoch = contexts.own, contexts.output, contexts.limit, contexts.epoch
        prompts = np.repeat(group_tokens[group_of], turns) + own + self.prompt.system_tokens
        arrival_s = self.arrivals.times(streams.column("workload/arrivals"), self.groups)
        columns = Columns(
            starts=starts,
            turns=self._fitting(prompts + limit, starts, turns),
            head_tokens=group_tokens,
            own=own,
            output=output,
            limit=limit,
            delay_s=self._delays(streams, starts, turns),
        )
        order = np.argsort(arrival_s, kind="stable")
        travel = Travel(self.encoding, self.chars_per_token)
        live = self.mode == "live"
        parts = columns, self.prompt.system_tokens, group_of, arrival_s, order, live, travel
        workload = Chains(*parts) if epoch is None else Compacted(*parts, epoch=epoch)
        workload.has_boots = self.boot_s != 0
        return workload

    def _column(self, streams: Streams, name: str, length: Length, count: int, least: int) -> Ints:
        return lengths(name, length, streams.column(f"workload/{name}"), count, least)

    @staticmethod
    def _summaries(streams: Streams, compaction: Compaction, starts: Ints, turns: Ints) -> Ints:
        length = compaction.summary_tokens
        same = fixed(length)
        if same is not None:
            return repeat(same, int(turns.sum()), 1)

        def draw(turn: int, count: int) -> Floats:
            return unrounded(length, streams.column(f"workload/summary_tokens/{turn}"), count)

        return whole("summary_tokens", by_turn(draw, starts, turns), 1)

    def _outputs(self, streams: Streams, group_of: Ints, starts: Ints, turns: Ints) -> Ints:
        same = fixed(self.output_tokens)
        if same is not None:
            return repeat(min(same, self.max_tokens), int(turns.sum()), 1)
        draws = by_turn(self._output_draw(streams, group_of), starts, turns)
        return whole("output_tokens", np.minimum(draws, self.max_tokens), 1)

    def _output_draw(self, streams: Streams, group_of: Ints) -> Draw:
        length = self.output_tokens
        if not isinstance(length, Lognormal):
            return lambda turn, count: unrounded(length, streams.column(f"workload/output_tokens/{turn}"), count)
        share = self.variance_share_between_groups
        share = _USUAL_SHARE if share is None else share
        levels = streams.column("workload/output_tokens/group").standard_normal(self.groups)
        between = math.sqrt(share) * levels[group_of]

        def draw(turn: int, count: int) -> Floats:
            normals = streams.column(f"workload/output_tokens/{turn}").standard_normal(count)
            return length.at(between[:count] + math.sqrt(1 - share) * normals)

        return draw

    def _delays(self, streams: Streams, starts: Ints, turns: Ints) -> Floats:
        def draw(turn: int, count: int) -> Floats:
            return values(self.tool_delay_s, streams.column(f"workload/tool_delay_s/{turn}"), count)

        delays = by_turn(draw, starts, turns, first=1)
        if self.boot_s != 0:
            boots = values(self.boot_s, streams.column("workload/boot_s"), len(starts))
            delays[starts] = bounded("boot_s", boots)
        return bounded("tool_delay_s", delays)

    def _fitting(self, sizes: Ints, starts: Ints, turns: Ints) -> Ints:
        """Turns of each session before the first one that is too large, and at least one."""
        if self.context_limit_tokens is None:
            return turns
        too_large = np.append(np.flatnonzero(sizes > self.context_limit_tokens), len(sizes))
        first = too_large[np.searchsorted(too_large, starts)]
        return np.clip(first - starts, 1, turns)
