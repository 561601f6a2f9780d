"""The hash functions that real routers place keys with, as unsigned 64-bit integers.

``blake3_u64`` (smg and sglang): the first 8 bytes of BLAKE3, little endian. ``xxh3_u64`` (smg prefix_hash): XXH3-64,
seed 0. ``xxh64_u64`` (KubeAI): XXH64, seed 0. ``md5_u128`` (production-stack's uhashring): MD5, of 128 bits.
``furc_u64`` (vllm-router): MurmurHash64A of the little-endian number that Facebook's furc hash gives for the key;
furc has only 2^23 - 1 distinct values, so two keys in 8 million share a place.

Keys repeat from turn to turn, so results are kept in bounded tables.
"""

import struct
from functools import lru_cache
from hashlib import md5

from blake3 import blake3
from xxhash import xxh3_64_intdigest, xxh64_intdigest

from policies._content import Content

_MASK = (1 << 64) - 1
_MURMUR_MULTIPLIER = 0xC6A4A7935BD1E995
_MURMUR_SHIFT = 47
_FURC_SEED = 4193360111
_FURC_WORD_SEED = _FURC_SEED ^ (8 * _MURMUR_MULTIPLIER & _MASK)
_FURC_RANGE = (1 << 23) - 1
_FURC_STRIDE = 23
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
def xxh64_u64(text: str) -> int:
    """XXH64 of the UTF-8 text, seed 0."""
    return xxh64_intdigest(text.encode())


@lru_cache(_KEPT)
def md5_u128(text: str) -> int:
    """MD5 of the UTF-8 text as a big-endian number."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest(), "big")


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


def _murmur_word(word: int) -> int:
    """MurmurHash64A of the eight bytes of a number, under furc's seed: nine of them make one place of furc."""
    word = word * _MURMUR_MULTIPLIER & _MASK
    word = (word ^ (word >> _MURMUR_SHIFT)) * _MURMUR_MULTIPLIER & _MASK
    state = (_FURC_WORD_SEED ^ word) * _MURMUR_MULTIPLIER & _MASK
    state = (state ^ (state >> _MURMUR_SHIFT)) * _MURMUR_MULTIPLIER & _MASK
    return state ^ (state >> _MURMUR_SHIFT)


def furc(key: bytes, size: int) -> int:
    """Facebook's furc hash: a number below ``size`` that moves for few keys, and only to the new one, as it grows.

    As vllm-router has it: where the original ends with 0 it tests one bit more, so 1 comes three times as often as 0.
    """
    if size <= 1:
        return 0
    # Bit i of the stream is bit i of this number; each block of 64 is the hash of the one before, made when first read.
    block = bits = murmur64a(key, _FURC_SEED)
    known = 64
    depth = at = (size - 1).bit_length()
    for _ in range(_FURC_TRIES):
        while known <= at + _FURC_STRIDE * depth:
            block = _murmur_word(block)
            bits |= block << known
            known += 64
        while not bits >> at & 1:
            if depth == 0:
                return 0
            depth -= 1
            at = depth
        number, window = 1, bits >> at
        for _ in range(depth - 1):
            window >>= _FURC_STRIDE
            number = 2 * number + (window & 1)
        at += _FURC_STRIDE * depth
        if number < size:
            return number
    return 0  # pragma: no cover - at most one key in 2^32 gets here


@lru_cache(_KEPT)
def content_u64(content: Content) -> int:
    """XXH3-64 of a content's spans, in place of the hash of its tokens or characters, whose values are not known.

    Equal contents have equal hashes; which place they get is arbitrary, as it is for a product's real prompts.
    """
    return xxh3_64_intdigest(b"".join(struct.pack("<qq", source, length) for source, length in content))
