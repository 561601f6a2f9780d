"""The ring that the sglang gateway and smg place keys on."""

POINTS = 150
"""Points of each engine."""


def label(url: str, point: int) -> str:
    """What is hashed for a point."""
    return f"{url}#{point}"
