"""What a workload holds, before anything runs: sizes, shapes, what could be reused, how much a few sessions weigh.

Percentiles are linear between order statistics. The shared part of a session is the longest beginning of its first
prompt that the first prompt of some other session has too: of sorted prompts one of the two neighbours has it. The
work of a session is its tokens, prompts and answers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from policies._content import Content, common_prefix, count
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Workload
from sim.workload._reuse import ideal_prefill_tokens

BLOCKS: Final = (1, 16, 64, 2080)
"""Block sizes of the reuse ceiling: token by token, vLLM's, larger pages, aligned states of a hybrid model."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of one quantity."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Ints | Floats) -> "Spread":
        """Of some values, at least one."""
        p50, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99]).tolist()
        return cls(len(values), float(values.mean()), p50, p90, p99, float(values.max()))


@dataclass(frozen=True, slots=True)
class Largest:
    """The request that may come to occupy most."""

    tokens: int
    """Prompt and the client's limit on its answer."""
    session: int
    turn: int


@dataclass(frozen=True, slots=True)
class Description:
    """One replication of a workload."""

    totals: dict[str, int]
    last_arrival_s: float
    """Of the groups whose time is known beforehand."""
    quantities: dict[str, Ints | Floats]
    """Every value of each quantity, its unit in its name."""
    largest: Largest
    top_share: float
    """Share of the work in the largest hundredth of the sessions, rounded up."""
    turns_context_correlation: float | None
    """Of log turns and log last prompt; None where either does not vary."""
    reuse: dict[int, float]
    """Ideal hit rate by tokens of a block: with one cache for all that forgets nothing."""

    @property
    def spreads(self) -> dict[str, Spread]:
        """Percentiles of each quantity."""
        return {name: Spread.of(values) for name, values in self.quantities.items()}


@dataclass(frozen=True, slots=True)
class Columns:
    """Every request of a workload, session after session, and what is known of each session."""

    prompts: Ints
    outputs: Ints
    limits: Ints
    gaps_s: Floats
    """Before each turn; of a session's first one the delay of a sub-agent, or of its start, if it has one."""
    turns: Ints
    """By session."""
    firsts: list[Content]
    """First prompt of each session."""

    @property
    def starts(self) -> Ints:
        """First request of each session."""
        return np.cumsum(self.turns) - self.turns


def columns_of(workload: Workload) -> Columns:
    """Build every session once."""
    prompts: list[int] = []
    outputs: list[int] = []
    limits: list[int] = []
    gaps: list[float] = []
    turns: list[int] = []
    firsts: list[Content] = []
    for index in range(workload.sessions):
        own: Sequence[tuple[Content, int, int, int, float]] = workload.session(index).turns
        turns.append(len(own))
        firsts.append(own[0][0])
        for prompt, output, _, limit, gap in own:
            prompts.append(count(prompt))
            outputs.append(output)
            limits.append(limit)
            gaps.append(gap)
    whole = [np.array(each, dtype=np.int64) for each in (prompts, outputs, limits, turns)]
    return Columns(whole[0], whole[1], whole[2], np.array(gaps), whole[3], firsts)


def describe(workload: Workload, blocks: Sequence[int] = BLOCKS) -> Description:
    """What one replication holds."""
    columns = columns_of(workload)
    starts, turns = columns.starts, columns.turns
    ends = starts + turns - 1
    born = np.array([child.session for own in workload.children.values() for child in own], dtype=np.int64)
    totals = workload.summary()
    sizes = columns.prompts + columns.limits
    largest = int(np.argmax(sizes))
    session = int(np.searchsorted(starts, largest, side="right")) - 1
    work = np.add.reduceat(columns.prompts + columns.outputs, starts)
    top = np.sort(work)[::-1][: math.ceil(len(work) / 100)]
    clocked = workload.order[: len(workload.order) - len(workload.follows)]
    return Description(
        totals=totals | ({"sub_agents": len(born)} if len(born) else {}),
        last_arrival_s=float(workload.arrival_s[clocked].max()),
        quantities=_quantities(columns, starts, ends, born),
        largest=Largest(int(sizes[largest]), session, largest - int(starts[session])),
        top_share=float(top.sum() / work.sum()),
        turns_context_correlation=_correlation(np.log(turns), np.log(columns.prompts[ends])),
        reuse={block: 1 - ideal_prefill_tokens(workload, block) / totals["prompt_tokens"] for block in blocks},
    )


def _quantities(columns: Columns, starts: Ints, ends: Ints, born: Ints) -> dict[str, Ints | Floats]:
    prompts = columns.prompts
    later = np.ones(len(prompts), dtype=np.bool_)
    later[starts] = False
    roots = np.ones(len(starts), dtype=np.bool_)
    roots[born] = False
    found: dict[str, Ints | Floats] = {
        "first prompt, tokens": prompts[starts[roots]],
        "shared part of it, tokens": shared_parts([columns.firsts[index] for index in np.flatnonzero(roots).tolist()]),
        "last prompt, tokens": prompts[ends[roots]],
        "prompt, tokens": prompts,
        "output, tokens": columns.outputs,
        "turns of a session": columns.turns[roots],
        "prompt tokens of a session": np.add.reduceat(prompts, starts)[roots],
    }
    if later.any():
        found["new tokens of a later turn"] = np.diff(prompts)[later[1:]]
        found["gap before a later turn, s"] = columns.gaps_s[later]
    if len(born):
        found["first prompt of a sub-agent, tokens"] = prompts[starts[born]]
        found["turns of a sub-agent"] = columns.turns[born]
    return found


def shared_parts(prompts: Sequence[Content]) -> Ints:
    """Of each prompt, the tokens of the longest beginning that another one has too."""
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    shared = np.zeros(len(prompts), dtype=np.int64)
    for one, other in pairwise(order):
        tokens = common_prefix(prompts[one], prompts[other])
        shared[one], shared[other] = max(int(shared[one]), tokens), tokens
    return shared


def _correlation(one: Floats, other: Floats) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])
