"""Which numbers have been there before, in bounded memory.

Up to a million of them are kept as they are. Beyond that a table of bits takes their place, 128 MiB: numbers below
2^30, as traces that count their blocks have, stay exact; others (hashes) are kept as three bits each, so that a new one
is taken for an old one at times (one in seventy when there are 10^8 of them).
"""

from collections.abc import Iterable, Sequence
from typing import Final

MOST_EXACT: Final = 1_000_000
_BITS: Final = 1 << 30


class Known:
    """A set of whole numbers from 0 up to 2^64."""

    def __init__(self, most_exact: int = MOST_EXACT) -> None:
        """Up to ``most_exact`` numbers are kept as they are."""
        self.count = 0
        """Numbers added that were not there."""
        self.is_exact = True
        self._most = most_exact
        self._few: set[int] | None = set()
        self._bits = bytearray()

    def __contains__(self, number: int) -> bool:
        if self._few is not None:
            return number in self._few
        bits = self._bits
        return all(bits[at >> 3] >> (at & 7) & 1 for at in _places(number))

    def leading(self, chain: Sequence[int]) -> int:
        """How many numbers from the start of a chain are known; where one is, all before it are."""
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            if chain[middle] in self:
                low = middle + 1
            else:
                high = middle
        return low

    def add(self, numbers: Iterable[int]) -> None:
        """Remember numbers."""
        if self._few is not None:
            self._few.update(numbers)
            self.count = len(self._few)
            if self.count > self._most:
                few, self._few = self._few, None
                self._bits = bytearray(_BITS >> 3)
                self._mark(few)
            return
        new = [number for number in numbers if number not in self]
        self.count += len(new)
        self._mark(new)

    def _mark(self, numbers: Iterable[int]) -> None:
        bits = self._bits
        for number in numbers:
            if number >= _BITS:
                self.is_exact = False
            for at in _places(number):
                bits[at >> 3] |= 1 << (at & 7)


def _places(number: int) -> tuple[int, ...]:
    if number < _BITS:
        return (number,)
    # Multiplicative hashing: the top bits of products with odd constants.
    return tuple(((number * factor) & 0xFFFFFFFFFFFFFFFF) >> 34 for factor in _FACTORS)


_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93)
