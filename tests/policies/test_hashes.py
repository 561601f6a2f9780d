"""Hash functions against values computed elsewhere."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._hashes import blake3_u64, furc, furc_u64, murmur64a, xxh3_u64


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0xA6A1F9F5B94913AF),
        ("a", 0x53A469D9DD2F7617),
        ("user-0", 0xCA41BA855305AFE3),
        ("http://127.0.0.1:21001#0", 0xD41D1C4705C19994),
        ("http://127.0.0.1:21001#149", 0x0FF393D8E3092C88),
    ],
)
def test_blake3_places(text, value):
    """First 8 bytes of BLAKE3, little endian."""
    assert blake3_u64(text) == value


@pytest.mark.parametrize(("text", "value"), [("abc", 0x78AF5F94892F3950), ("key-0", 0x819F6B51706F0178)])
def test_xxh3_places(text, value):
    """XXH3-64 with seed 0."""
    assert xxh3_u64(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("header:x-session-id:session-0", 0x5212262DF2AE02A0),
        ("http://127.0.0.1:21001:0", 0x4FA78A9FC917EA69),
        ("request:", 0x13B2F1AE12A8B5AB),
    ],
)
def test_furc_places(text, value):
    """Murmur of the furc number, as vllm-router places keys and points."""
    assert furc_u64(text) == value


def test_parts_of_furc():
    """The murmur hash and the furc number by themselves."""
    assert murmur64a(b"abc", 4193360111) == 0xC79F4A6608ED5FD8
    assert furc(b"header:x-session-id:session-0", (1 << 23) - 1) == 4623494


@given(st.binary(max_size=30), st.integers(1, 1000))
def test_furc_stays_in_range(key, size):
    """The number is one of ``size``, and growing the range moves a key only to the new number."""
    number = furc(key, size)
    assert 0 <= number < size
    assert furc(key, size + 1) in {number, size}


def test_furc_uses_the_whole_range():
    """Numbers are equally often, but for 0 and 1: vllm-router's variant tests one bit more and splits them 1 to 3."""
    counts = [0, 0, 0]
    for key in range(1200):
        counts[furc(f"key {key}".encode(), 3)] += 1
    for count, share in zip(counts, (1 / 6, 1 / 2, 1 / 3), strict=True):
        assert abs(count - 1200 * share) < 4 * math.sqrt(1200 * share * (1 - share))
