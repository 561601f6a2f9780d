"""Part 17: empty until the real run."""

from sim.review._model import Part


def after() -> Part:
    """17: empty until the real run."""
    return Part(
        17, "After the run", ["Prediction against result, interval coverage, order: filled in after the real run."]
    )
