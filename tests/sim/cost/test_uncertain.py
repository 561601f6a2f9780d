"""Coefficients drawn within their uncertainty: once a replication, the same in both arms, of the stated size."""

from pathlib import Path

import numpy as np
import pytest

from sim.cost import _profiles
from sim.cost._coefficients import Coefficients
from sim.cost.form_d import FormD
from sim.cost.roofline import Roofline
from sim.errors import ScenarioError
from sim.rng import Streams

RTX = {"device": "rtxpro6000-96gb", "model": "llama-3.1-8b", "tp": 1, "base": Path()}
H100 = {"device": "h100-80gb", "model": "qwen3-8b", "tp": 1, "base": Path()}


def compiled(spec: FormD | Roofline, place: dict[str, object], streams: Streams | None = None) -> Coefficients:
    return spec.compile(1e-9, overlap=True, streams=streams, **place)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["stated", "bootstrap"])
def test_a_replication_draws_once_for_all_arms(kind: str) -> None:
    """Same seed and replication, same coefficients; another replication, others."""
    spec = FormD(uncertainty=kind)  # type: ignore[arg-type]
    assert compiled(spec, RTX, Streams(1, 4)) == compiled(spec, RTX, Streams(1, 4))
    assert len({compiled(spec, RTX, Streams(1, i)).ctx for i in range(30)}) > 10


@pytest.mark.parametrize("kind", ["stated", "bootstrap"])
def test_without_streams_it_is_the_profile(kind: str) -> None:
    """A check, or a description, draws nothing; neither does a spec that names no uncertainty."""
    plain = compiled(FormD(), RTX)
    assert compiled(FormD(uncertainty=kind), RTX) == plain  # type: ignore[arg-type]
    assert compiled(FormD(), RTX, Streams(1)) == plain


def test_the_stated_error_is_what_comes_out() -> None:
    """Mean absolute deviation of a decode step and of a long prefill over replications: 1.3 % and 1.7 %, as stated."""
    spec, plain = FormD(uncertainty="stated", host0_ms=0.0, host1_ms=0.0), FormD(host0_ms=0.0, host1_ms=0.0)
    base = compiled(plain, H100)
    drawn = [compiled(spec, H100, Streams(1, i)) for i in range(400)]
    decode = [each.step([], [900] * 20) / base.step([], [900] * 20) - 1 for each in drawn]
    assert np.abs(decode).mean() == pytest.approx(0.013, rel=0.15)
    prefill = [each.pair / base.pair - 1 for each in drawn]
    assert np.abs(prefill).mean() == pytest.approx(0.017, rel=0.15)
    assert abs(np.mean(decode)) < 0.003
    assert abs(np.corrcoef(decode, prefill)[0, 1]) < 0.15


def test_a_bootstrap_draws_rows_of_the_profile() -> None:
    """Each draw is one of the resamples, all of its coefficients together."""
    profile = _profiles.load(_profiles.FOLDER / "rtxpro6000-96gb_llama-3.1-8b_tp1.yaml")
    slopes = len(profile.token_ms)
    rows = {(row[0], row[1 + slopes]) for row in profile.resamples}
    for i in range(20):
        drawn = compiled(FormD(uncertainty="bootstrap"), RTX, Streams(1, i))
        assert any((drawn.t0, drawn.pair) == pytest.approx((t0 * 1e6, pair * 1e6)) for t0, pair in rows)


def test_host_time_is_not_drawn() -> None:
    """It is the scenario's, or the device's; a sensitivity run changes it."""
    drawn = compiled(FormD(uncertainty="stated"), RTX, Streams(1, 3))
    assert (drawn.host0, drawn.host1) == (1e6, 0)


def test_the_roofline_draws_within_its_own_error() -> None:
    """An expert model is further off than a dense one."""

    def spread(model: str, tp: int) -> float:
        place = {"device": "h100-80gb", "model": model, "tp": tp, "base": Path()}
        return float(
            np.std([compiled(Roofline(uncertainty="stated"), place, Streams(1, i)).ctx for i in range(60)])
        ) / (compiled(Roofline(), place).ctx)

    assert spread("qwen3-30b-a3b", 1) > 1.5 * spread("llama-3-8b", 1)


def test_what_a_profile_does_not_know_cannot_be_drawn() -> None:
    """No resamples, no stated error: said before anything runs."""
    with pytest.raises(ScenarioError, match="has no resamples to draw from"):
        compiled(FormD(uncertainty="bootstrap"), H100)
    with pytest.raises(ScenarioError, match="has no resamples"):
        FormD(uncertainty="bootstrap").describe(overlap=True, **H100)  # type: ignore[arg-type]
    flat = {"t0_ms": 1.0, "token_ms": {0: 0.1}} | dict.fromkeys(_profiles.TIMES[1:], 0.0)
    with pytest.raises(ScenarioError, match="states no error of prefill and decode"):
        compiled(FormD(uncertainty="stated", coefficients=flat), H100)


def test_factors_scale_each_phase_by_itself() -> None:
    """Prefill's factor multiplies pairs, chunks and slopes from 256 tokens on; decode's the rest; hosts neither."""
    place = {"host0_ms": 0.0, "host1_ms": 0.0}
    base = compiled(FormD(**place), H100)
    prefill, decode = (
        compiled(FormD(prefill_factor=1.5, **place), H100),
        compiled(FormD(decode_factor=1.5, **place), H100),
    )
    assert (prefill.pair, prefill.chunk) == pytest.approx((1.5 * base.pair, 1.5 * base.chunk))
    assert (prefill.t0, prefill.seq, prefill.ctx) == (base.t0, base.seq, base.ctx)
    assert (decode.t0, decode.seq, decode.ctx) == pytest.approx((1.5 * base.t0, 1.5 * base.seq, 1.5 * base.ctx))
    assert (decode.pair, decode.chunk) == (base.pair, base.chunk)
    slopes = dict(base.slopes)
    for factored, late, early in ((prefill, 1.5, 1.0), (decode, 1.0, 1.5)):
        assert dict(factored.slopes) == pytest.approx(
            {at: ms * (late if at >= 256 else early) for at, ms in slopes.items()}
        )
    assert "prefill times 1.5, decode times 1" in FormD(prefill_factor=1.5).describe(overlap=True, **H100)


def test_a_profile_without_a_knot_at_256_tokens_gets_one() -> None:
    """A step of 1,000 tokens with one slope: 256 of them are short, the others prefill's."""
    coefficients = {"t0_ms": 1.0, "token_ms": {0: 0.01}, "prefill_pair_ms": 0.0, "decode_seq_ms": 0.0}
    coefficients |= {"decode_ctx_ms": 0.0, "prefill_chunk_ms": 0.0}
    knobs = {"slowdown": 1.0, "host0_ms": 0.0, "host1_ms": 0.0}
    spec = FormD(coefficients=coefficients, prefill_factor=2.0, **knobs)
    assert compiled(spec, H100).step([(1000, 0)], []) == pytest.approx((1 + 2.56 + 2 * 7.44) * 1e6)
