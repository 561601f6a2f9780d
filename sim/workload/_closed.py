"""A closed population: users who have one session at a time, whatever the system does with it.

Sessions are dealt to users beforehand, in turn, so that a slow policy delays a session and changes none.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.workload._check import MOST_REQUESTS, MOST_SECONDS, within
from sim.workload._lengths import Floats, Time, bounded, check_time, values


@dataclass(frozen=True, slots=True)
class Closed:
    """A fixed population: each user has one session at a time, and thinks before the next one."""

    kind: Literal["closed"]
    users: int
    """Sessions that there are at most at once; session i belongs to user i modulo this number."""
    think_s: Time = 0.0
    """Seconds between the end of a user's session and the start of the next one."""
    ramp_s: float = 0.0
    """The first sessions start evenly spread over this time."""

    def __post_init__(self) -> None:
        """Refuse a population of nobody."""
        within("users", self.users, 1, MOST_REQUESTS)
        check_time("think_s", self.think_s)
        within("ramp_s", self.ramp_s, 0, MOST_SECONDS)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Start of each user's first session; of the others the time after the end of the one before, seconds."""
        times = np.array(bounded("think_s", values(self.think_s, generator, count)))
        first = min(self.users, count)
        times[:first] = np.arange(first) * (self.ramp_s / self.users)
        return times

    def follows(self, count: int) -> dict[int, int]:
        """By session, the next one of its user."""
        return {session: session + self.users for session in range(count - self.users)}
