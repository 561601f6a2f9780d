"""The benchmark of policies runs, at a size that measures nothing."""

from benchmarks.policies import FLEETS, measure, requests_of, table
from sim import registry


def test_every_policy_is_measured() -> None:
    """One row a kind, one rate a fleet, the slowest on the large fleet first."""
    found = measure(20, 1)
    assert set(found) == set(registry.scan(registry.POLICY))
    assert all(len(rates) == len(FLEETS) and min(rates) > 0 for rates in found.values())
    lines = table({"quick": [4e6, 123456.0], "slow": [98.7, 7.0]}).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["|", "`slow`", "|", "99", "|", "7", "|"],
        ["|", "`quick`", "|", "4,000,000", "|", "120,000", "|"],
    ]


def test_prompts_of_a_session_grow() -> None:
    """A turn's prompt begins with the one before, and sessions share their head alone."""
    last: dict[str, tuple[tuple[int, int], ...]] = {}
    for request in requests_of(500, 16):
        key = request.headers["x-session-id"]
        before = last.get(key, request.content[:1])
        assert request.content[: len(before)] == before
        assert request.prompt_tokens == sum(size for _, size in request.content)
        last[key] = request.content
    assert len(last) > 64
