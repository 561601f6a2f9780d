"""A review as data: what the page shows, before anybody decides how. Every number stands in a table that has an id."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

Row = tuple[str, ...]
LONGEST = 260
"""Characters of an answer."""


def sentences(text: str) -> list[str]:
    """Its sentences: one ends at a full stop that a blank or nothing follows, so that 1.125 has none in it."""
    return re.findall(r"\S.*?[.?!](?=\s|$)|\S.+$", text)


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers as they are read, and an id by which text refers to them."""

    id: str
    title: str
    head: Row
    rows: Sequence[Row]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One numbered part of a review; numbers of parts that are not there are left out."""

    number: int
    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    """Names of charts."""
    fixed: str = ""
    """Text that is shown as it is: a rule, a command."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of page one, and the table that it is read from."""

    field: str
    says: str
    """The answer first, in a sentence by itself."""
    source: str = ""

    @property
    def lead(self) -> str:
        """The answer; of a long sentence what stands before its last colon or semicolon that is not too far on."""
        first = next(iter(sentences(self.says)), "")
        cut = max(first.rfind(mark, 0, LONGEST) for mark in ("; ", ": ")) if len(first) > LONGEST else -1
        return first[: cut + 1] if cut > 0 else first

    @property
    def rest(self) -> str:
        """What is said besides."""
        return self.says.removeprefix(self.lead).strip()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether and what a review recommends."""

    headline: str
    """Begins with RUN, DO NOT RUN or No recommendation, and says what is predicted."""
    because: Sequence[str] = ()
    """Reasons of a refusal, each with what would resolve it."""
    sure: str = ""
    """How sure that is, in sentences."""

    @property
    def word(self) -> str:
        """The recommendation alone."""
        return re.split("[,:]", self.headline)[0]

    @property
    def is_refused(self) -> bool:
        """The review recommends nothing."""
        return bool(self.because)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it says, and whether it held; None where it does not apply."""

    name: str
    says: str
    held: bool | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a review says of the seal that fixes its campaign."""

    digest: str
    files: Sequence[tuple[str, str]]
    """Names, and SHA-256 of each."""
    date: str | None
    rule: str
    """The sealed text."""
    pairs: int
    """Of each cell, at the first look."""
    extends: bool
    """The rule allows one extension by as many."""


@dataclass(frozen=True, slots=True)
class Review:
    """The whole of it."""

    title: str
    judgement: Judgement
    page: Sequence[Line]
    parts: Sequence[Part]
    warnings: Sequence[str] = field(default=())
    footer: str = "All numbers are simulated unless a line says where they were measured."
