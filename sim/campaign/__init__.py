"""A campaign of real runs, sealed before its first run and scored after its last."""

from sim.campaign._aiperf import from_aiperf
from sim.campaign._forecast import DRAWS
from sim.campaign._page import document, lines, part
from sim.campaign._page import write as write_score
from sim.campaign._rehearse import World, drawn_world, header_of, rehearse
from sim.campaign._results import Header, Run, read, read_folder, write
from sim.campaign._review import reviewed, warnings, with_seal
from sim.campaign._score import CellScore, Held, Score, score
from sim.campaign._seal import Choice, Seal, find_seal, make, refuse_sealed, slug, verify

__all__ = [
    "DRAWS",
    "CellScore",
    "Choice",
    "Header",
    "Held",
    "Run",
    "Score",
    "Seal",
    "World",
    "document",
    "drawn_world",
    "find_seal",
    "from_aiperf",
    "header_of",
    "lines",
    "make",
    "part",
    "read",
    "read_folder",
    "refuse_sealed",
    "rehearse",
    "reviewed",
    "score",
    "slug",
    "verify",
    "warnings",
    "with_seal",
    "write",
    "write_score",
]
