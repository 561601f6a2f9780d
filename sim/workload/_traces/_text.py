"""Texts of a trace as tokens of a fixed number of characters, so that equal beginnings have equal tokens.

No tokenizer is at hand; four characters a token is the usual rule for English. A last token may be shorter.
"""

import math
from itertools import pairwise


class Tokens:
    """Numbers the pieces of texts; those of one object are comparable."""

    def __init__(self, chars_per_token: float) -> None:
        """A token has ``chars_per_token`` characters, rounded up to whole ones at its end."""
        self._chars = chars_per_token
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return math.ceil(len(text) / self._chars)

    def ids(self, text: str) -> list[int]:
        """One number a token; equal pieces have equal numbers."""
        cuts = [math.ceil(index * self._chars) for index in range(self.count(text) + 1)]
        pieces = (text[start:end] for start, end in pairwise(cuts))
        return [self._known.setdefault(piece, len(self._known)) for piece in pieces]
