"""The hash functions that real routers place keys with, as unsigned 64-bit integers.

``blake3_u64`` (smg and sglang): the first 8 bytes of BLAKE3, little endian. ``xxh3_u64`` (smg prefix_hash): XXH3-64,
seed 0.
``furc_u64`` (vllm-router): MurmurHash64A of the little-endian number that Facebook's furc hash gives for the key;
furc has only 2^23 - 1 distinct values, so two keys in 8 million share a place.

Keys repeat from turn to turn, so results are kept in bounded tables.
"""

import struct
from functools import lru_cache

from blake3 import blake3
from xxhash import xxh3_64_intdigest

_MASK = (1 << 64) - 1
_MURMUR_MULTIPLIER = 0xC6A4A7935BD1E995
_MURMUR_SHIFT = 47
_FURC_SEED = 4193360111
_FURC_BITS = 23
_FURC_RANGE = (1 << _FURC_BITS) - 1
_FURC_TRIES = 32
_KEPT = 1 << 16


@lru_cache(_KEPT)
def blake3_u64(text: str) -> int:
    """First 8 bytes of BLAKE3 of the UTF-8 text, little endian."""
    return int.from_bytes(blake3(text.encode()).digest(length=8), "little")


@lru_cache(_KEPT)
def xxh3_u64(text: str) -> int:
    """XXH3-64 of the UTF-8 text, seed 0."""
    return xxh3_64_intdigest(text.encode())


@lru_cache(_KEPT)
def furc_u64(text: str) -> int:
    """Place of a text on vllm-router's ring."""
    return murmur64a(furc(text.encode(), _FURC_RANGE).to_bytes(4, "little"), _FURC_SEED)


def murmur64a(data: bytes, seed: int) -> int:
    """MurmurHash64A, words and tail read little endian."""
    state = seed ^ (len(data) * _MURMUR_MULTIPLIER & _MASK)
    whole = len(data) & ~7
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        word = word * _MURMUR_MULTIPLIER & _MASK
        word ^= word >> _MURMUR_SHIFT
        state = (state ^ (word * _MURMUR_MULTIPLIER & _MASK)) * _MURMUR_MULTIPLIER & _MASK
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MURMUR_MULTIPLIER & _MASK
    state ^= state >> _MURMUR_SHIFT
    state = state * _MURMUR_MULTIPLIER & _MASK
    return state ^ (state >> _MURMUR_SHIFT)


class _Bits:
    """An endless stream of bits from a key: block 0 is its hash, each later block the hash of the one before."""

    def __init__(self, key: bytes) -> None:
        self._blocks = [murmur64a(key, _FURC_SEED)]

    def __getitem__(self, index: int) -> int:
        block, bit = divmod(index, 64)
        while len(self._blocks) <= block:
            self._blocks.append(murmur64a(self._blocks[-1].to_bytes(8, "little"), _FURC_SEED))
        return self._blocks[block] >> bit & 1


def furc(key: bytes, size: int) -> int:
    """Facebook's furc hash: a number below ``size`` that moves for few keys when ``size`` grows."""
    bits = _Bits(key)
    width = size.bit_length()
    depth = at = width
    for _ in range(_FURC_TRIES):
        while not bits[at]:
            if depth == 0:
                return 0
            depth -= 1
            at = depth
        at += width
        number = 1
        for _ in range(depth - 1):
            number = 2 * number + bits[at]
            at += width
        if number < size:
            return number
    return 0
