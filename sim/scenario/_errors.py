"""Errors that know their place in a scenario before anyone has looked up its line."""

from collections.abc import Iterator
from contextlib import contextmanager

from sim.cost._profiles import ProfileError
from sim.errors import ScenarioError
from sim.scenario._yaml import Document, Place


class PlacedError(ScenarioError):
    """What is wrong with the value at a place of a cell."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{'.'.join(str(part) for part in place)}: {message}")
        self.place = place
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return PlacedError, (self.place, self.message)

    def at(self, document: Document) -> ScenarioError:
        """The same error with file and line."""
        return ScenarioError(f"{document.origin(self.place)}: {self.message}")


@contextmanager
def placed(*place: str | int) -> Iterator[None]:
    """Whatever a part of the scenario refuses inside the block is an error at its place."""
    try:
        yield
    except PlacedError:
        raise
    except (ScenarioError, ValueError, ArithmeticError, OSError) as error:
        # An error may know better which neighbour of the place is at fault.
        nearer = (*place[:-1], error.key) if isinstance(error, ProfileError) else place
        raise PlacedError(nearer, " ".join(str(error).split()) or type(error).__name__) from None
    except MemoryError:
        raise PlacedError(place, "needs more memory than this machine has") from None
