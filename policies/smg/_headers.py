"""What smg reads as a routing key."""

from policies._protocol import RequestView

_LONGEST_KEY = 128


def fits(key: str) -> bool:
    """Whether a key is short enough to be one; its length in bytes counts."""
    return len(key) <= _LONGEST_KEY // 4 or len(key.encode()) <= _LONGEST_KEY


def routing_key(request: RequestView) -> str:
    """Value of X-SMG-Routing-Key, empty where it is absent or too long."""
    key = request.headers.get("x-smg-routing-key", "")
    return key if fits(key) else ""
