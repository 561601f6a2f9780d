"""Random streams named by purpose.

One generator per purpose and replication, seeded by a hash of (seed, replication, purpose): changing a policy, or the
order in which things happen, shifts no other draw. Whole columns are drawn at once, element i belonging to id i, so
the same session sees the same lengths and delays in every arm. Nothing here reads the clock or the hash seed of the
process.
"""

import hashlib
import random

import numpy as np


class Streams:
    """The random streams of one replication."""

    def __init__(self, seed: int, replication: int = 0) -> None:
        self.seed = seed
        self.replication = replication

    def _entropy(self, purpose: str) -> int:
        text = f"{self.seed}/{self.replication}/{purpose}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")

    def column(self, purpose: str) -> np.random.Generator:
        """A numpy generator for drawing a whole column."""
        return np.random.Generator(np.random.PCG64(self._entropy(purpose)))

    def single(self, purpose: str) -> random.Random:
        """A standard-library generator, cheap for one draw at a time."""
        return random.Random(self._entropy(purpose))

    def names(self, purpose: str, count: int) -> list[str]:
        """``count`` random names of 32 hexadecimal digits, as session ids are."""
        raw = self.column(purpose).bytes(16 * count).hex()
        return [raw[i : i + 32] for i in range(0, 32 * count, 32)]
