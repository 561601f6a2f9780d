"""What a search may cost, in requests that are simulated: of both arms, counted before they are run.

Nothing that is bought depends on how much is left, but for the last purchase: so what a small budget buys, a larger one
buys too, in the same order, and then more.
"""

from dataclasses import dataclass
from typing import Final

BUDGET: Final = 2_500_000
"""Requests where nobody says how many: some minutes of two cores."""
LEAST_REQUESTS: Final = 20
"""What a replication counts for at least: it has to be built and stored."""


@dataclass(slots=True)
class Budget:
    """Requests to spend; the first purchase that does not fit is the end of all buying."""

    limit: int | None
    """None: whatever it takes."""
    spent: int = 0
    is_over: bool = False

    def buy(self, price: int) -> bool:
        """Whether there was enough; if so it is paid. What costs nothing can always be had."""
        if not price:
            return True
        self.is_over = self.is_over or not self.holds(price)
        if not self.is_over:
            self.spent += price
        return not self.is_over

    def holds(self, price: int) -> bool:
        """Whether there is enough, without paying."""
        return self.limit is None or self.spent + price <= self.limit
