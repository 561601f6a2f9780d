"""Part 17: empty until the real run."""

from sim.review._gather import Evidence
from sim.review._model import Part


def after(ev: Evidence) -> Part:
    """17: what fills it; ``windtunnel score`` writes it once results are there."""
    text = [
        "Empty until the real run.",
        "windtunnel score fills it: verdict, predictions that held, error of the ratio, what to calibrate anew.",
    ]
    if ev.sealed is not None:
        text.append(f"It will be held against the seal {ev.sealed.digest}.")
    return Part(17, "After the run", text)
