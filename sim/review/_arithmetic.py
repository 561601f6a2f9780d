"""What arithmetic alone says of an arm, before anything is simulated: reuse by placement, and the drain of a batch.

Reuse. Cut all prompts into pieces at the lengths where they part. With memory for everything a piece is computed once
on every engine that it reaches, and its holders reach, with u routing keys among them,

    N (1 - (1 - 1/N)**u)     engines under a uniform hash; where keys are dealt evenly, from that up to min(u, N)

less the engine that generated it: dealt in a row, keys of one prompt fall on different engines, dealt among others they
fall as by chance. Prompts that are under way at once are taken to see each other.

Fullest engine. E[max/mean] of K keys on N engines, exact (``sim.occupancy``); ceil(K/N) N/K where they are dealt.

Drain. An engine that is given everything at once takes a L_max + b sum(L) + c U: L answers, U tokens to compute; the
makespan is that of the last engine, its mean taken over drawn placements of the keys and the workloads of the first
replications. Only of single turns that start together. a, b and c are read off the cost of a step at the mean batch,
the mean context and the mean prompt.

Left out, and so what a simulation can differ by: waiting, memory, evictions, siblings that miss each other, blocks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from policies._content import PRIVATE, Content, count
from sim.cost._coefficients import Coefficients
from sim.occupancy import max_over_mean
from sim.rng import Streams
from sim.scenario import Cell, explicit_keys, reads_key
from sim.workload._model import Session, Workload

Law = Literal["hash", "even"]
TICK_S: Final = 1e-9
REPLICATIONS: Final = 16
"""Workloads that quantities are means of, fewer where they are large:"""
REQUESTS: Final = 50_000
DRAWS: Final = 25
"""Placements of the keys of each replication, whose mean is the expected drain."""
SEED: Final = 20_250_101
MOST_PIECES: Final = 20_000
"""Pieces times draws is the work of a drain; with more pieces nothing is drawn."""
BY_CHANCE: Final = ("random",)
DEALT: Final = ("round_robin", "smg.round_robin", "production_stack.roundrobin", "least_load", "smg.least_load")
DEALT_KEYS: Final = ("sticky_least_loaded", "vllm.sticky_least_loaded", "verl.global_load_balancer")


@dataclass(frozen=True, slots=True)
class Placing:
    """How an arm places what it places."""

    of: Literal["group", "session", "request"]
    """What has a key of its own."""
    law: Law
    engines: int

    def reached(self, keys: int) -> tuple[float, float]:
        """Engines that so many different keys reach, on average: least and most."""
        by_chance = self.engines * (1 - (1 - 1 / self.engines) ** keys)
        return by_chance, float(min(keys, self.engines)) if self.law == "even" else by_chance

    def fullest(self, keys: int) -> float:
        """Keys of the fullest engine over the mean, on average."""
        if self.law == "even":
            return math.ceil(keys / self.engines) * self.engines / keys
        return max_over_mean(keys, self.engines)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of content that the same requests hold."""

    tokens: int
    keys: frozenset[int]
    """Of the requests whose prompts hold it."""
    home: int | None
    """Key of the request that generated it."""

    def computed(self, placing: Placing) -> tuple[float, float]:
        """Tokens of it that are computed, on average: least and most."""
        every = self.keys if self.home is None else self.keys | {self.home}
        least, most = placing.reached(len(every))
        free = 0 if self.home is None else 1
        return self.tokens * (least - free), self.tokens * (most - free)


@dataclass(frozen=True, slots=True)
class Drain:
    """An engine's time for what it is given at once."""

    a_s: float
    """A step."""
    b_s: float
    """A sequence of a step."""
    c_s: float
    """A token of prefill."""
    longest: float
    """Tokens of the longest answer, which some engine has."""
    seconds: float
    """Expected makespan."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Of one arm."""

    placing: Placing | None
    """None: the policy looks at content or at loads in ways that no closed form follows."""
    keys: int
    prompt_tokens: float
    prefill_tokens: tuple[float, float] | None
    """Least and most; equal where a hash places."""
    ideal_tokens: float
    """Every piece computed once: one cache for all, which forgets nothing."""
    prefill_s: float
    """Seconds of the GPU for a token of prefill."""
    drain: Drain | None

    @property
    def fullest(self) -> float | None:
        """Keys of the fullest engine over the mean."""
        return self.placing.fullest(self.keys) if self.placing else None


def arithmetic(cell: Cell) -> Arithmetic:
    """Means over the workloads of the first replications."""
    placing = placing_of(cell)
    world = _world(cell, placing, 0)
    wanted = min(REPLICATIONS, max(1, REQUESTS // max(sum(map(len, world.keys)), 1)))
    worlds = [world, *(_world(cell, placing, pair) for pair in range(1, wanted))]
    return Arithmetic(
        placing=placing,
        keys=len({key for own in world.keys for key in own}),
        prompt_tokens=sum(each.prompt_tokens for each in worlds) / wanted,
        prefill_tokens=_prefill(worlds, placing) if placing else None,
        ideal_tokens=sum(each.ideal_tokens for each in worlds) / wanted,
        prefill_s=_prefill_s(cell, world.sessions),
        drain=_drain(cell, worlds, placing) if placing else None,
    )


def _prefill(worlds: Sequence["_World"], placing: Placing) -> tuple[float, float]:
    every = [piece.computed(placing) for world in worlds for piece in world.pieces]
    least, most = (sum(ends) / len(worlds) for ends in zip(*every, strict=True))
    return least, most


@dataclass(frozen=True, slots=True)
class _World:
    """The workload of one replication, cut into pieces."""

    workload: Workload
    sessions: list[Session]
    keys: list[list[int]]
    """Of each turn of each session."""
    pieces: list[Piece]

    @property
    def prompt_tokens(self) -> int:
        """Of all requests."""
        return sum(count(turn.prompt) for session in self.sessions for turn in session.turns)

    @property
    def ideal_tokens(self) -> int:
        """Every piece computed once."""
        return sum(each.tokens for each in self.pieces if each.home is None)


def _world(cell: Cell, placing: Placing | None, pair: int) -> _World:
    workload = cell.workload.generate(Streams(cell.seed, pair), cell.base)
    sessions = [workload.session(index) for index in range(workload.sessions)]
    keys = _keys(cell, workload, sessions, placing.of if placing else "session")
    return _World(workload, sessions, keys, list(pieces_of(sessions, keys)))


def placing_of(cell: Cell) -> Placing | None:
    """What is known of where an arm's requests go; None where nothing simple is, or the fleet is mixed or changes."""
    kind, policy = cell.resolved["router"]["policy"]["kind"], cell.router.policy
    if len(cell.fleet) != 1 or not cell.membership.is_fixed or cell.engines < 2:
        return None
    scope = cell.client.scope
    if policy.key_headers and reads_key(cell) and not cell.client.unkeyed_share:
        if policy.places_by_hash:
            return Placing(scope, "hash", cell.engines)
        if kind in DEALT_KEYS and scope != "request":
            return Placing(scope, "even", cell.engines)
        return None
    if kind in BY_CHANCE:
        return Placing("request", "hash", cell.engines)
    return Placing("request", "even", cell.engines) if kind in DEALT else None


def _keys(cell: Cell, workload: Workload, sessions: Sequence[Session], scope: str) -> list[list[int]]:
    """The key of each turn of each session, as a number."""
    if scope == "request":
        firsts = np.cumsum([0, *(len(session.turns) for session in sessions)]).tolist()
        return [list(range(first, first + len(own.turns))) for first, own in zip(firsts, sessions, strict=False)]
    groups = workload.group_of.tolist()
    owners = range(len(sessions)) if workload.key_owner is None else workload.key_owner.tolist()
    explicit = explicit_keys(cell, workload.keys)
    known: dict[Any, int] = {}
    found = []
    for index, session in enumerate(sessions):
        name: Any = explicit[index] or (groups[index] if scope == "group" else owners[index])
        found.append([known.setdefault(name, len(known))] * len(session.turns))
    return found


def pieces_of(sessions: Sequence[Session], keys: Sequence[Sequence[int]]) -> Iterator[Piece]:
    """Cut all prompts, and the answers that later prompts repeat, at every length where they part."""
    nodes: dict[tuple[Content, int], list[tuple[int, int]]] = {}
    homes: dict[tuple[Content, int], list[tuple[int, int, int]]] = {}
    lonely = []
    for session, own in zip(sessions, keys, strict=True):
        for turn, key in zip(session.turns, own, strict=True):
            before: Content = ()
            for source, length in turn.prompt:
                if source == PRIVATE:
                    lonely.append(Piece(length, frozenset((key,)), None))
                else:
                    nodes.setdefault((before, source), []).append((length, key))
                before = (*before, (source, length))
            if turn.output_source != PRIVATE and turn.prompt:
                last, length = turn.prompt[-1]
                place = (turn.prompt[:-1], last) if last == turn.output_source else (turn.prompt, turn.output_source)
                start = length if last == turn.output_source else 0
                homes.setdefault(place, []).append((start, start + turn.output_tokens, key))
    yield from lonely
    for place, held in nodes.items():
        yield from _cut(held, homes.get(place, []))


def _cut(held: list[tuple[int, int]], made: list[tuple[int, int, int]]) -> Iterator[Piece]:
    """Pieces of one source behind one beginning, the longest holders first."""
    longest = max(length for length, _ in held)
    starts = {start for start, _, _ in made} | {end for _, end, _ in made}
    cuts = sorted({0} | {length for length, _ in held} | {each for each in starts if each < longest})
    reach = sorted(held, reverse=True)
    holders: set[int] = set()
    at = 0
    for low, high in reversed(list(pairwise(cuts))):
        while at < len(reach) and reach[at][0] >= high:
            holders.add(reach[at][1])
            at += 1
        home = next((key for start, end, key in made if start <= low and high <= end), None)
        yield Piece(high - low, frozenset(holders), home)


def _cost(cell: Cell) -> Coefficients:
    kind = cell.fleet[0]
    cost: Coefficients = kind.engine.cost.compile(TICK_S, **kind.hardware, overlap=kind.engine.overlap, base=cell.base)
    return cost


def _chunk(cell: Cell, sessions: Sequence[Session]) -> int:
    """Tokens of a typical step of prefill: a mean prompt, or as much of it as a step takes."""
    lengths = [count(turn.prompt) for session in sessions for turn in session.turns]
    engine = cell.fleet[0].engine
    limit = engine.chunked_prefill_tokens or engine.max_num_batched_tokens or 8192
    return max(1, min(round(sum(lengths) / len(lengths)), limit))


def _prefill_s(cell: Cell, sessions: Sequence[Session]) -> float:
    """Seconds of the GPU for a token, in a step of one chunk; host time is a line of its own."""
    cost, tokens = _cost(cell), _chunk(cell, sessions)
    return (cost.step([(tokens, 0)], []) - cost.host0 - cost.host1) * TICK_S / tokens


def _drain(cell: Cell, worlds: Sequence[_World], placing: Placing) -> Drain | None:
    world = worlds[0]
    workload, sessions = world.workload, world.sessions
    together = not (workload.arrival_s > 0).any() and workload.is_plain and cell.training is None
    alone = all(len(session.turns) == 1 for session in sessions)
    if not (together and alone) or cell.client.cap(cell.engines) is not None or len(world.pieces) > MOST_PIECES:
        return None
    lengths, prompts = (
        np.array([of(session.turns[0]) for session in sessions], dtype=float)
        for of in (lambda turn: turn.output_tokens, lambda turn: count(turn.prompt))
    )
    cost = _cost(cell)
    batch = max(2, round(len(sessions) / placing.engines))
    base = cost.array(batch)
    slope = (base[batch] - base[1]) / (batch - 1)
    tokens = _chunk(cell, sessions)
    terms = (
        float(base[1] - slope) * TICK_S,
        float(slope + cost.seq + cost.ctx * (prompts.mean() + lengths.mean() / 2)) * TICK_S,
        cost.step([(tokens, 0)], []) * TICK_S / tokens,
    )
    rng = np.random.default_rng(SEED)
    spent = [_last(each, placing, terms, rng) for each in worlds for _ in range(DRAWS)]
    longest = np.mean([max(session.turns[0].output_tokens for session in each.sessions) for each in worlds])
    return Drain(*terms, float(longest), float(np.mean(spent)))


def _last(world: _World, placing: Placing, terms: tuple[float, float, float], rng: np.random.Generator) -> float:
    """When the last engine has drained, under one placement."""
    a_s, b_s, c_s = terms
    own = np.array([keys[0] for keys in world.keys])
    engine_of = _placed(rng, placing, int(own.max()) + 1)
    engine = engine_of[own]
    lengths = np.array([session.turns[0].output_tokens for session in world.sessions], dtype=float)
    total = np.bincount(engine, weights=lengths, minlength=placing.engines)
    longest, computed = np.zeros(placing.engines), np.zeros(placing.engines)
    np.maximum.at(longest, engine, lengths)
    for piece in world.pieces:
        computed[list({int(engine_of[key]) for key in piece.keys})] += piece.tokens
    return float((a_s * longest + b_s * total + c_s * computed).max())


def _placed(rng: np.random.Generator, placing: Placing, keys: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if placing.law == "even":
        return np.arange(keys, dtype=np.int64) % placing.engines
    return rng.integers(0, placing.engines, keys)


def predicted(arms: Mapping[str, Arithmetic], baseline: str, candidate: str) -> float | None:
    """Makespan of the baseline over that of the candidate by the drain alone; None where an arm has no drain."""
    one, other = arms[baseline].drain, arms[candidate].drain
    return None if one is None or other is None else one.seconds / other.seconds
