"""Worlds that queueing theory solves: drawn services and Poisson arrivals, run through the whole simulator.

Times are in services: the mean service is one second. A request of k output tokens on an engine whose every step takes
the same time holds it for k steps, so a geometric number of fine steps is exponential service up to the length of one.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from policies._content import PRIVATE
from sim.replication import replicate
from sim.rng import Streams
from sim.workload._model import Session, Travel, Turn, Workload
from tests.strategies import cell_of, world

FINE = 10_000
"""Steps of a mean service where they are decided by jumps and so cost nothing."""


@dataclass(frozen=True, slots=True)
class Law:
    """A law of service in steps of which a mean service has ``steps``; ``atoms`` empty: geometric."""

    steps: int
    atoms: tuple[tuple[float, int], ...] = ()
    """(probability, steps)."""

    @property
    def second_moment(self) -> float:
        """Of the service, where the first is 1."""
        if not self.atoms:
            return 2 - 1 / self.steps
        return sum(chance * (steps / self.steps) ** 2 for chance, steps in self.atoms)

    def draw(self, chance: np.random.Generator, count: int) -> np.ndarray:
        """Steps of ``count`` services."""
        if not self.atoms:
            return chance.geometric(1 / self.steps, count)
        chances, steps = zip(*self.atoms, strict=True)
        return chance.choice(np.array(steps), count, p=chances)


EXPONENTIAL = Law(FINE)
CONSTANT = Law(1, ((1.0, 1),))


class Lengths(Workload):
    """One-token prompts that share nothing; groups of equal size with given output lengths."""

    def __init__(self, output, arrival_s, siblings=1):
        super().__init__(np.repeat(np.arange(len(arrival_s)), siblings), arrival_s, np.arange(len(arrival_s)), Travel())
        self.output = output.tolist()
        self.siblings = siblings

    def session(self, index):
        tokens = self.output[index]
        return Session(index, index // self.siblings, [Turn(((index, 1),), tokens, PRIVATE, tokens, 0.0)])


@dataclass(frozen=True)
class Queue:
    """Independent customers of a Poisson stream, ``rate`` to a mean service."""

    law: Law
    rate: float
    customers: int

    def generate(self, streams: Streams, base: Path) -> Lengths:
        """Columns by purpose, so two disciplines serve the same customers."""
        output = self.law.draw(streams.column("workload/service"), self.customers)
        gaps = streams.column("workload/arrivals").exponential(1 / self.rate, self.customers)
        return Lengths(output, np.cumsum(gaps))


@dataclass(frozen=True)
class Groups:
    """Groups that all start at once, with lognormal lengths."""

    groups: int
    siblings: int
    sigma: float
    steps: int
    """Of a mean length."""

    def generate(self, streams: Streams, base: Path) -> Lengths:
        """Lengths are rounded up to steps."""
        normal = streams.column("workload/length").standard_normal(self.groups * self.siblings)
        output = np.ceil(self.steps * np.exp(self.sigma * normal - self.sigma**2 / 2)).astype(np.int64)
        return Lengths(output, np.zeros(self.groups), self.siblings)


def run(workload, seed, *, engines=1, policy="round_robin", cap=None, seqs=1, step_s=None, sharing=False, pair=0):
    """The log of a replication; ``sharing`` makes a step take its time for each sequence in the batch."""
    step_ms = 1000 * (step_s or 1 / workload.law.steps)
    # A step must not be without length: a millionth of a millisecond, one tick, stands beside the sequences' own time.
    own = {"step_ms": 1e-6, "prefill_ms_per_token": step_ms, "per_sequence_ms": step_ms}
    engine = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": 1_000_000,
        "kv_tokens": 10**10,
        "cost": {"kind": "constant", **(own if sharing else {"step_ms": step_ms})},
    }
    client = {"max_sessions_in_flight": cap} if cap else {}
    resolved = world(engines=engines, engine=engine, policy={"kind": policy}, client=client, seed=seed)
    return replicate(replace(cell_of(resolved), workload=workload), pair)


@dataclass
class Customers:
    """What became of each customer, in order of arrival, in mean services."""

    engine: np.ndarray
    arrived: np.ndarray
    service: np.ndarray
    wait: np.ndarray
    """From arrival, at the client, to the start of the first step."""
    sojourn: np.ndarray

    @classmethod
    def of(cls, log, law):
        """From the tables of a run."""
        requests, groups = log.numpy("requests"), log.numpy("groups")
        requests = {name: column[np.argsort(requests["group"])] for name, column in requests.items()}
        arrived = groups["arrived"][np.argsort(groups["group"])]
        assert (requests["ended"] >= 0).all()
        return cls(
            requests["engine"],
            arrived * 1e-9,
            requests["output_tokens"] / law.steps,
            (requests["scheduled"] - arrived) * 1e-9,
            (requests["ended"] - arrived) * 1e-9,
        )

    def present(self):
        """How many each finds in the system."""
        ended = np.sort(self.arrived + self.sojourn)
        return np.arange(len(ended)) - np.searchsorted(ended, self.arrived, side="right")

    def work(self):
        """Service that each finds unfinished, where a service once begun goes on to its end."""
        begun = self.arrived + self.wait
        done = _elapsed(begun, self.arrived) - _elapsed(begun + self.service, self.arrived)
        return np.cumsum(self.service) - self.service - done


def _elapsed(since, now):
    """For each ``now``, the sum of the time since all earlier instants ``since``."""
    since = np.sort(since)
    count = np.searchsorted(since, now)
    return now * count - np.concatenate([[0.0], np.cumsum(since)])[count]
