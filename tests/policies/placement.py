"""The tables of docs/placement.md: where the package's own policies put keys and requests, beside what theory says.

    python -m tests.policies.placement              print them: minutes
    python -m tests.policies.placement --write      and put them into the page

A world has its own names of engines and keys and its own stream of picks; its number seeds all of them.
"""

import math
import random
import statistics
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

from policies._content import common_prefix
from policies._hash_ring import HashRing
from policies._protocol import EngineView, FleetView, Report
from policies.bounded_loads import BoundedLoads
from policies.gym.sha256_mod import Sha256Mod
from policies.modulo import Modulo
from policies.power_of_two import PowerOfTwo
from policies.prime_rl.consistent_hash import ConsistentHash as PrimeRing
from policies.production_stack.session import Session
from policies.random import Random
from policies.rendezvous import Rendezvous
from policies.sglang.consistent_hashing import ConsistentHashing as SglangModulo
from policies.skyrl.session_hash import SessionHash
from policies.smg.consistent_hashing import ConsistentHashing as SmgRing
from policies.vllm.consistent_hash import ConsistentHash as VllmRing
from tests.policies.worlds import Picks, ask, finish, members, send

PAGE = Path(__file__).parents[2] / "docs" / "placement.md"
MEMBERS = members()
HEADERS = sorted({name for member in MEMBERS.values() for name in member.key_headers})
FLEETS, KEYS = (2, 4, 8, 12, 28), (4, 8, 16, 32, 64, 128)
POINTS = (1, 10, 40, 100, 160, 256, 1000)
SESSIONS = (16, 32, 64, 128, 256, 512)
PUBLISHED_RING = (0.2546, 0.1873, 0.1421, 0.1135, 0.0946, 0.0841)
PUBLISHED_RENDEZVOUS = (0.2463, 0.1737, 0.1229, 0.0865, 0.0615, 0.0432)
MULTINOMIAL = {
    "gym.sha256_mod": Sha256Mod,
    "sglang.consistent_hashing": SglangModulo,
    "modulo": Modulo,
    "rendezvous": Rendezvous,
    "skyrl.session_hash": SessionHash,
}
"""Policies that split keys as a multinomial."""
MOVERS = {
    "smg.consistent_hashing": SmgRing,
    "vllm.consistent_hash": VllmRing,
    "prime_rl.consistent_hash": PrimeRing,
    "production_stack.session": Session,
    "bounded_loads": BoundedLoads,
    "rendezvous": Rendezvous,
    "sglang.consistent_hashing": SglangModulo,
    "gym.sha256_mod": Sha256Mod,
    "skyrl.session_hash": SessionHash,
    "modulo": Modulo,
}
"""Policies that place by key alone, asked before and after a join and a leave."""


def fleet(size: int, world: object) -> FleetView:
    """Engines with names of their own."""
    engines = [EngineView(place, f"http://w{world}-engine-{place}:8000") for place in range(size)]
    return FleetView(engines, list(engines))


def keyed(serial: int, key: str, content=((0, 10),)):
    """A request with every header that any policy reads as its key."""
    return ask(serial, content, **dict.fromkeys(HEADERS, key))


def places(policy, engines: FleetView, keys: Sequence[str]) -> list[int]:
    """Where each key goes while nothing is in flight."""
    return [policy.choose(keyed(0, key), engines, 0.0, Picks(0))[0].index for key in keys]


# Hash placement: multinomial counts


def most_chance(engines: int, keys: int) -> np.ndarray:
    """For each m, the chance that no engine has more than m keys: Poisson counts, given their sum."""
    counts = np.arange(keys + 1)
    single = stats.poisson.pmf(counts, keys / engines)
    found = []
    for most in counts:
        chance = np.ones(1)
        for _ in range(engines):
            chance = np.convolve(chance, single[: most + 1])[: keys + 1]
        found.append(chance[keys] if len(chance) > keys else 0.0)
    return np.array(found) / stats.poisson.pmf(keys, keys)


@cache
def largest(engines: int, keys: int) -> tuple[float, float]:
    """Mean and 95th percentile of the largest count over the mean count, exactly."""
    below = most_chance(engines, keys)
    mean = float((1 - below[:-1]).sum())
    return mean * engines / keys, int(np.argmax(below >= 0.95)) * engines / keys


def counts_of(policy_of, engines: int, world: int, keys: Sequence[int] = KEYS) -> list[np.ndarray]:
    """Keys of each engine, for the first so many keys of one world."""
    policy, views = policy_of(), fleet(engines, world)
    policy.start(views)
    where = places(policy, views, [f"{world}/{key}" for key in range(max(keys))])
    return [np.bincount(where[:size], minlength=engines) for size in keys]


def hash_rows(worlds: int = 300) -> Iterator[list[str]]:
    """Largest over mean by engines and keys: exactly, and as one policy has it."""
    for engines in FLEETS:
        exact = [largest(engines, keys) for keys in KEYS]
        yield [str(engines), "exactly", *(f"{mean:.2f} / {p95:.2f}" for mean, p95 in exact)]
        seen = [counts_of(Sha256Mod, engines, world) for world in range(worlds)]
        cells = []
        for place, keys in enumerate(KEYS):
            shares = sorted(each[place].max() * engines / keys for each in seen)
            cells.append(f"{statistics.mean(shares):.2f} / {shares[int(np.ceil(0.95 * worlds)) - 1]:.2f}")
        yield ["", "gym.sha256_mod", *cells]


# Rings


def arcs(ring: HashRing) -> np.ndarray:
    """Share of the circle of 2^64 of each engine: from the point before, exclusive, to its own points."""
    at = np.array(ring._places, dtype=np.uint64)
    before = np.roll(at, 1)
    owners = [engine.index for engine in ring._owners]
    return np.bincount(owners, weights=(at - before).astype(float)) / 2.0**64  # unsigned: the first arc wraps around


def ring_shares(engines: int, points: int, worlds: int) -> np.ndarray:
    """Shares of the engines on the ring of ``bounded_loads``, a row a world."""
    rows = []
    for world in range(worlds):
        policy = BoundedLoads(points=points)
        policy.start(fleet(engines, world))
        rows.append(arcs(policy._ring))
    return np.array(rows)


def ring_worlds(points: int) -> int:
    """The more points, the less the largest share spreads: as many worlds as its mean needs."""
    return max(12, min(400, 8000 // points))


def ring_rows() -> Iterator[list[str]]:
    """Largest share over the mean share, and spread of the shares, by points an engine."""
    for points in POINTS:
        cells = []
        for engines in (8, 40):
            shares = ring_shares(engines, points, ring_worlds(points)) * engines
            spread = np.sqrt(((shares - 1) ** 2).mean())
            beta = np.sqrt((engines - 1) / (engines * points + 1))
            cells += [f"{shares.max(axis=1).mean():.2f}", f"{100 * spread:.1f} %", f"{100 * beta:.1f} %"]
        yield [str(points), *cells]


def session_cvs(policy_of, trials: int, most: int) -> list[float]:
    """Root mean square of the variation of sessions over 40 ranks, by sessions a rank up to ``most``."""
    sizes = [40 * each for each in SESSIONS if each <= most]
    squares = np.zeros(len(sizes))
    for trial in range(trials):
        for place, counts in enumerate(counts_of(policy_of, 40, trial, sizes)):
            squares[place] += (counts.std() / counts.mean()) ** 2
    return np.sqrt(squares / trials).tolist()


def ring_cv(sessions: int, points: int, engines: int = 40) -> float:
    """The variation that theory gives keys on a ring."""
    keys, ring = sessions * engines, (engines - 1) / (engines * points + 1)
    return float(np.sqrt((engines - 1) / keys + (1 - 1 / keys) * ring))


def session_rows() -> Iterator[list[str]]:
    """Ring and rendezvous at 16 to 512 sessions a rank."""
    ring = session_cvs(lambda: BoundedLoads(points=190), 24, 512)
    own = session_cvs(VllmRing, 24, 512)
    even = session_cvs(Rendezvous, 6, 512)
    for place, sessions in enumerate(SESSIONS):
        yield [
            str(sessions),
            *(f"{PUBLISHED_RING[place]:.4f} {ring_cv(sessions, 190):.4f} {ring[place]:.4f}").split(),
            *(f"{ring_cv(sessions, 160):.4f} {own[place]:.4f}").split(),
            *(f"{PUBLISHED_RENDEZVOUS[place]:.4f} {np.sqrt(39 / 40 / sessions):.4f} {even[place]:.4f}").split(),
        ]


# Joins and leaves


def moved(policy_of, engines: int, world: int, keys: int) -> tuple[float, float, float]:
    """Shares of keys that move when one more engine joins, that move between old ones, and that are not back after."""
    policy, views = policy_of(), fleet(engines, world)
    names = [f"{world}/{key}" for key in range(keys)]
    policy.start(views)
    before = places(policy, views, names)
    guest = EngineView(engines, f"http://w{world}-engine-{engines}:8000")
    views.engines.append(guest)
    views.available.append(guest)
    policy.joined(guest, views)
    after = places(policy, views, names)
    views.engines.pop()
    views.available.pop()
    policy.left(guest, views)
    again = places(policy, views, names)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    strays = sum(new != engines for new in changed)
    lost = sum(old != new for old, new in zip(before, again, strict=True))
    return len(changed) / keys, strays / keys, lost / keys


def moved_rows(worlds: int = 20, keys: int = 400) -> Iterator[list[str]]:
    """Keys that a ninth engine moves."""
    for kind, policy_of in MOVERS.items():
        shares = np.mean([moved(policy_of, 8, world, keys) for world in range(worlds)], axis=0)
        yield [kind, *(f"{100 * share:.1f} %" for share in shares)]


# Choices by load


def balls(policy_of, bins: int, world: int) -> int:
    """The largest load after as many requests as engines, all held."""
    policy, views, picks = policy_of(), fleet(bins, world), Picks(world)
    policy.start(views)
    for serial in range(bins):
        send(policy, views, ask(serial), picks)
    return max(engine.in_flight for engine in views.engines)


def ball_rows() -> Iterator[list[str]]:
    """Balls in bins: one choice, and two."""
    for bins, worlds in ((8, 2000), (64, 400), (1024, 120)):
        one, two = ([balls(kind, bins, world) for world in range(worlds)] for kind in (Random, PowerOfTwo))
        yield [str(bins), f"{statistics.mean(one):.2f}", f"{statistics.mean(two):.2f}"]


def sequential(kind: str, requests: int = 200, engines: int = 4, seed: int = 3, **parameters) -> list[int]:
    """How many requests each engine gets that never overlap, each with a key and a prompt of its own."""
    policy, views, picks, counts = MEMBERS[kind](**parameters), fleet(engines, "x"), Picks(seed), Counter()
    policy.start(views)
    for serial in range(requests):
        request = keyed(serial, f"s{serial}", ((serial, 400),))
        engine = send(policy, views, request, picks, now=serial * 1.0)
        counts[engine.index] += 1
        finish(policy, request, engine)
    return [counts[place] for place in range(engines)]


TIES = (
    ("least_load", "first"),
    ("least_load", "random"),
    ("least_load", "rotate"),
    ("verl.global_load_balancer", None),
    ("slime.router", None),
    ("sglang.cache_aware", None),
    ("smg.cache_aware", None),
    ("vllm.cache_aware", None),
    ("nemo_rl.least_in_flight", None),
    ("kubeai.least_load", None),
    ("aibrix.least_request", None),
    ("sticky_least_loaded", None),
)


def tie_rows() -> Iterator[list[str]]:
    """Requests that never overlap: what a rule for ties makes of an idle fleet."""
    for kind, tie in TIES:
        parameters = {"tie": tie} if tie else {}
        counts = sequential(kind, **parameters)
        yield [kind + (f", {tie}" if tie else ""), " / ".join(map(str, counts))]


# 64 groups of 8 on 8 engines


class Fleet:
    """Eight engines that report the truth and whose caches hold every prompt that they were sent."""

    def __init__(self, kind: str, world: int) -> None:
        self.policy = MEMBERS[kind]()
        self.views, self.picks = fleet(8, world), Picks(world)
        self.known: list[dict] = [{} for _ in self.views.engines]
        for engine, known in zip(self.views.engines, self.known, strict=True):
            engine.cached_tokens = lambda content, known=known: max(
                (common_prefix(content, c) for c in known), default=0
            )
        self.held: deque[tuple] = deque()
        self.policy.start(self.views)

    def send(self, request, now: float) -> int | None:
        """Place a request; its engine's index, None where it was refused."""
        for engine in self.views.engines:
            tokens = engine.in_flight * request.prompt_tokens
            engine.report = Report(now, engine.in_flight, 0, min(1.0, tokens / 400_000), tokens)
        engine = self.policy.choose(request, self.views, now, self.picks)[0]
        if engine is None:
            return None
        engine.in_flight += 1
        self.policy.dispatched(request, engine)
        self.known[engine.index][request.content] = None
        self.held.append((request, engine))
        return engine.index

    def finish(self) -> None:
        """The oldest request ends."""
        request, engine = self.held.popleft()
        self.policy.first_token(request, engine)
        finish(self.policy, request, engine)


PROMPT, COMMON = 200, 30
"""Tokens of a prompt, and those of it that all share: a chat template."""


def variation(
    kind: str, world: int, *, groups: int = 64, samples: int = 8, under_way: int, is_mixed: bool = False, **more
) -> float:
    """CV of the requests of eight engines, 10 ms apart; nan where one was refused.

    With ``under_way`` requests held, the oldest ends before the next one comes.
    """
    order = [(group, sample) for group in range(groups) for sample in range(samples)]
    if is_mixed:
        random.Random(world).shuffle(order)
    scope, common = more.get("scope", "group"), more.get("common", COMMON)
    there, where = Fleet(kind, world), []
    for serial, (group, sample) in enumerate(order):
        key = f"{world}/{group}" + ("" if scope == "group" else f"/{sample}")
        where.append(there.send(keyed(serial, key, ((0, common), (1 + group, PROMPT - common))), serial * 0.01))
        if len(there.held) >= under_way:
            there.finish()
    if None in where:
        return math.nan
    counts = np.bincount(where, minlength=8)
    return float(counts.std() / counts.mean())


def variations(kind: str, measured: float, worlds: int, case: dict) -> str:
    """The mean over worlds in percent, with a star where the measured one is between their least and their most."""
    found = [variation(kind, world, **case) for world in range(worlds)]
    mean = statistics.mean(found)
    if math.isnan(mean):
        return "refuses"
    return f"{100 * mean:.1f}" + (" *" if min(found) <= measured <= max(found) else "")


GROUPS, SINGLES = 0.462, 0.419
"""What was measured: 64 groups of eight, and 256 groups of one."""
ALONE = {"groups": 256, "samples": 1}
CASES = (
    (GROUPS, {"under_way": 512}),
    (GROUPS, {"under_way": 512, "is_mixed": True}),
    (GROUPS, {"under_way": 1}),
    (GROUPS, {"under_way": 1, "is_mixed": True}),
    (SINGLES, {**ALONE, "under_way": 64}),
    (SINGLES, {**ALONE, "under_way": 1}),
)


def spread_rows(kinds: Sequence[str] = tuple(sorted(MEMBERS)), worlds: int = 10) -> Iterator[list[str]]:
    """Each policy in each case."""
    for kind in kinds:
        for scope in ("group", "session") if MEMBERS[kind].key_headers else ("",):
            cells = (variations(kind, measured, worlds, {"scope": scope, **case}) for measured, case in CASES)
            yield [f"{kind}, {scope} keys" if scope else kind, *cells]


UNDER_WAY = (1, 2, 4, 5, 6, 7, 8, 16, 32, 64, 256)


def cache_rows(worlds: int = 10) -> Iterator[list[str]]:
    """The three policies called cache_aware, by what all prompts share and by how many requests are under way."""
    for kind in ("sglang.cache_aware", "smg.cache_aware", "vllm.cache_aware"):
        for common in (COMMON, 150):
            for name, measured, case in (
                ("by group", GROUPS, {}),
                ("mixed", GROUPS, {"is_mixed": True}),
                ("singles", SINGLES, ALONE),
            ):
                cells = (
                    variations(kind, measured, worlds, {**case, "common": common, "under_way": most})
                    for most in UNDER_WAY
                )
                yield [f"{kind}, {100 * common // PROMPT} % common, {name}", *cells]


# The page


TABLES = {
    "hash": (["engines", "", *(f"{keys} keys" for keys in KEYS)], hash_rows),
    "ring": (["points", *(f"N = {n}: {what}" for n in (8, 40) for what in ("largest", "CV", "Beta"))], ring_rows),
    "sessions": (
        [
            *("sessions a rank", "ring, published", "190 points, theory", "bounded_loads, 190"),
            *("160 points, theory", "vllm.consistent_hash"),
            *("rendezvous, published", "theory", "rendezvous"),
        ],
        session_rows,
    ),
    "moved": (["policy", "moved by a join", "of these between old engines", "not back after the leave"], moved_rows),
    "balls": (["engines", "random", "power_of_two"], ball_rows),
    "ties": (["policy", "200 requests over four engines"], tie_rows),
    "spread": (
        [
            *("policy", "held, by group", "held, mixed", "done, by group", "done, mixed"),
            *("singles, 64 held", "singles, done"),
        ],
        spread_rows,
    ),
    "caches": (["requests under way:", *map(str, UNDER_WAY)], cache_rows),
}
"""By name: head and rows."""


def table(name: str) -> list[str]:
    """A table of the page, line by line."""
    head, rows = TABLES[name]
    lines = [head, ["---"] * len(head), *rows()]
    return [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines]


def main() -> None:
    """Print the tables that are named, or all, and put them into the page if asked."""
    names = [name for name in sys.argv[1:] if name in TABLES] or list(TABLES)
    text = PAGE.read_text(encoding="utf-8")
    for name in names:
        lines = table(name)
        print(name, *lines, sep="\n", flush=True)
        before, _, after = text.partition(lines[0])
        text = "\n".join([before + lines[0], *lines[1:], "", after.partition("\n\n")[2]])
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
