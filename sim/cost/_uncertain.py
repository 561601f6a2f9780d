"""Draws a profile's coefficients anew within their uncertainty, one draw for all engines of a replication.

``stated``: the error that the profile states. The mean absolute error of prefill steps moves what long steps and
prefill are made of (slopes from 256 tokens on, pairs, chunks), that of decode steps the rest, each by one factor
``exp(sigma z)`` with ``sigma = sqrt(pi/2) * mean absolute error``, as a normal error of that mean has it.

``bootstrap``: one of the profile's ``resamples``, fits to measurements drawn with replacement. It says how far the
numbers would move had others been measured; it says nothing of the form's own error, which is usually the larger.

Both are errors of a whole run, the same in every step: what differs from step to step is the scenario's ``noise``.
"""

import math
from dataclasses import replace
from typing import Final, Literal

from sim.cost._profiles import TIMES, Profile
from sim.errors import ScenarioError
from sim.rng import Streams

Uncertainty = Literal["none", "stated", "bootstrap"]
STREAM: Final = "cost"
"""Two arms of a comparison draw the same: the stream is named by purpose alone."""
LONG_TOKENS: Final = 256
"""Tokens of a step from which on its slope counts as prefill's."""
_PREFILL: Final = ("prefill_pair_ms", "prefill_chunk_ms")


def draw(profile: Profile, uncertainty: Uncertainty, streams: Streams | None) -> Profile:
    """The profile with coefficients drawn for one replication; without streams, as it is."""
    if uncertainty == "none":
        return profile
    if uncertainty == "bootstrap":
        return _bootstrap(profile, streams)
    return _stated(profile, streams)


def _stated(profile: Profile, streams: Streams | None) -> Profile:
    errors = profile.error_percent or {}
    known = [name for name in ("prefill", "decode") if name in errors]
    if len(known) < 2:
        raise ScenarioError(
            f"cost profile {profile.name} states no error of prefill and decode: it has no uncertainty to draw from"
        )
    if streams is None:
        return profile
    z = streams.column(STREAM).standard_normal(2).tolist()
    spread = math.sqrt(math.pi / 2) / 100
    prefill, decode = (math.exp(spread * errors[name][0] * each) for name, each in zip(known, z, strict=True))
    return scaled(profile, prefill, decode)


def scaled(profile: Profile, prefill: float, decode: float) -> Profile:
    """The profile with what long steps and prefill are made of times one factor, and the rest times another."""
    if prefill == decode == 1:
        return profile
    return replace(
        profile,
        times={name: value * (prefill if name in _PREFILL else decode) for name, value in profile.times.items()},
        token_ms=tuple((at, ms * (prefill if at >= LONG_TOKENS else decode)) for at, ms in _cut(profile.token_ms)),
    )


def factored(prefill: float, decode: float) -> str:
    """Factors that are not 1, for a description."""
    return "" if prefill == decode == 1 else f", prefill times {prefill:g}, decode times {decode:g}"


def _cut(token_ms: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """A piece that spans ``LONG_TOKENS`` in two: its far end is prefill's."""
    if any(at == LONG_TOKENS for at, _ in token_ms):
        return token_ms
    slope = next(ms for at, ms in reversed(token_ms) if at < LONG_TOKENS)
    return tuple(sorted((*token_ms, (LONG_TOKENS, slope))))


def _bootstrap(profile: Profile, streams: Streams | None) -> Profile:
    if not profile.resamples:
        raise ScenarioError(f"cost profile {profile.name} has no resamples to draw from: use uncertainty stated")
    if streams is None:
        return profile
    row = profile.resamples[int(streams.column(STREAM).integers(len(profile.resamples)))]
    slopes = row[1 : 1 + len(profile.token_ms)]
    return replace(
        profile,
        times=dict(zip(TIMES, (row[0], *row[1 + len(slopes) :]), strict=True)),
        token_ms=tuple((at, ms) for (at, _), ms in zip(profile.token_ms, slopes, strict=True)),
    )
