"""Routing keys: where they stand, and requests in flight by key, as the sglang gateway and smg count them."""

from policies._protocol import EngineView, RequestView

HEADERS = ("x-smg-routing-key", "x-session-id")
"""Where a policy of no product looks for a key."""


def key_of(request: RequestView) -> str:
    """The request's key, empty where there is none."""
    headers = request.headers
    return headers.get("x-smg-routing-key") or headers.get("x-session-id") or ""


class KeysInFlight:
    """How many requests of each key each engine has in flight. Cost O(1) an event."""

    def __init__(self) -> None:
        self._counts: dict[EngineView, dict[str, int]] = {}

    def sent(self, key: str, engine: EngineView) -> None:
        """A request of the key was dispatched."""
        counts = self._counts.setdefault(engine, {})
        counts[key] = counts.get(key, 0) + 1

    def ended(self, key: str, engine: EngineView) -> None:
        """A request of the key ended."""
        counts = self._counts.get(engine, {})
        left = counts.get(key, 0) - 1
        if left > 0:
            counts[key] = left
        else:
            counts.pop(key, None)

    def keys(self, engine: EngineView) -> int:
        """Distinct keys with a request in flight on an engine."""
        return len(self._counts.get(engine, ()))

    def requests(self, key: str, engine: EngineView) -> int:
        """Requests of one key in flight on an engine."""
        return self._counts.get(engine, {}).get(key, 0)

    def forget(self, engine: EngineView) -> None:
        """The engine is gone."""
        self._counts.pop(engine, None)
