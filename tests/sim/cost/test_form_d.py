"""Form D against its closed form, against physics, against measured runs, and knob by knob."""

from pathlib import Path

import pytest

from sim.cost import _profiles
from sim.cost._coefficients import Coefficients, shared
from sim.cost.form_d import FormD
from sim.errors import ScenarioError

BASE = Path()
TOKEN_MS = {0: 0.5, 4: 0.25, 256: 0.1}
INLINE = {
    "t0_ms": 10.0,
    "token_ms": TOKEN_MS,
    "prefill_pair_ms": 1e-5,
    "decode_seq_ms": 0.02,
    "decode_ctx_ms": 1e-4,
    "prefill_chunk_ms": 0.3,
}


def compiled(
    spec: FormD | None = None,
    device: str = "a100-80gb",
    model: str = "qwen3-8b",
    tp: int = 1,
    *,
    overlap: bool = False,
    tick_s: float = 1e-9,
) -> Coefficients:
    return (spec or FormD()).compile(tick_s, device=device, model=model, tp=tp, overlap=overlap, base=BASE)


def inline(**knobs: float) -> Coefficients:
    plain = {"slowdown": 1.0, "host0_ms": 0.0, "host1_ms": 0.0}
    return compiled(FormD(coefficients=INLINE, **{**plain, **knobs}))


def ms(ticks: float) -> float:
    return ticks * 1e-6


def shipped() -> list[_profiles.Profile]:
    return [_profiles.load(_profiles.FOLDER / f"{name}.yaml") for name in _profiles.names()]


def test_a_step_by_hand() -> None:
    """300 tokens: two decodes of 100 and 200, one chunk of 298 on 1,000 cached."""
    t = 10 + 4 * 0.5 + 252 * 0.25 + 44 * 0.1 + (298 * 1000 + 298 * 299 / 2) * 1e-5 + 2 * 0.02 + 300 * 1e-4 + 0.3
    assert ms(inline().step([(298, 1000)], [100, 200])) == pytest.approx(t)
    host = 1.5 + 0.04 * 3
    assert ms(inline(host0_ms=1.5, host1_ms=0.04).step([(298, 1000)], [100, 200])) == pytest.approx(t + host)


def test_no_tokens_cost_nothing() -> None:
    """An empty step is free, with host time too."""
    assert inline(host0_ms=2.0).step([], []) == 0
    assert inline(host0_ms=2.0).base[0] == 0


def test_k_decode_steps_have_a_closed_sum() -> None:
    """k*t + ctx*n*k(k-1)/2, the identity that lets an engine jump."""
    cost, contexts, k = compiled(), [5000, 120, 77, 30000], 1000
    one_by_one = sum(cost.step([], [c + i for c in contexts]) for i in range(k))
    closed = k * cost.step([], contexts) + cost.ctx * len(contexts) * k * (k - 1) / 2
    assert closed == pytest.approx(one_by_one, rel=1e-12)


def test_equal_chunks_have_a_closed_sum() -> None:
    """Full chunks q of one prompt beside decodes: pairs grow by q*q a step."""
    cost, q, n, k = compiled(), 2000, 3, 12
    one_by_one = sum(cost.step([(q, 512 + i * q)], [900 + i] * n) for i in range(k))
    closed = k * cost.step([(q, 512)], [900] * n) + (cost.ctx * n + cost.pair * q * q) * k * (k - 1) / 2
    assert closed == pytest.approx(one_by_one, rel=1e-12)


def test_cover_extends_without_changing() -> None:
    """Asked for in pieces or at once, by whoever holds the list, the base is the same."""
    pieces, whole = compiled(), compiled()
    held = pieces.base
    for tokens in (1, 3, 5, 256, 257, 200, 5000, 9000):
        pieces.cover(tokens)
        assert len(held) >= tokens + 1
    whole.cover(9000)
    assert held == whole.base
    assert len(whole.base) == 9001


def test_replications_share_what_they_know() -> None:
    """Equal numbers are one object, others are not; its array follows its list."""
    cost = shared(compiled())
    assert shared(compiled()) is cost
    assert shared(compiled().scaled(2.0)) is not cost
    for tokens in (10, 300):
        assert cost.array(tokens).tolist() == cost.base


@pytest.mark.parametrize("profile", shipped(), ids=lambda p: p.name)
def test_more_tokens_never_cost_less(profile: _profiles.Profile) -> None:
    """The token cost does not fall, and all coefficients are zero or more, in every shipped profile."""
    cost = compiled(FormD(profile=profile.name), profile.device, profile.model, profile.tp)
    cost.cover(9000)
    assert all(a <= b for a, b in zip(cost.base[1:], cost.base[2:], strict=False))
    assert min(cost.pair, cost.seq, cost.ctx, cost.chunk, cost.t0) >= 0


def test_every_profile_is_found_by_what_it_describes() -> None:
    """23 model and TP pairs on each of two devices, named by device, model and TP."""
    measured = [p for p in shipped() if p.device in ("a100-80gb", "h100-80gb")]
    assert {d: sum(p.device == d for p in measured) for d in ("a100-80gb", "h100-80gb")} == {
        "a100-80gb": 23,
        "h100-80gb": 23,
    }
    for p in measured:
        path = _profiles.locate(None, device=p.device, model=p.model, tp=p.tp, base=BASE)
        assert path.stem == p.name
        assert p.licence is not None
        assert p.error_percent is not None
        assert p.error_percent["decode"][0] <= 5.4
        assert "095f58a5" in p.source


DENSE = [p for p in shipped() if p.status == "measured" and not any(m in p.model for m in ("a3b", "a22b", "mixtral"))]

PEAKS = {"a100-80gb": (2.039e12, 312e12), "h100-80gb": (3.35e12, 989e12), "rtxpro6000-96gb": (1.792e12, 504e12)}
"""Bytes and bf16 operations a second."""


@pytest.mark.parametrize("profile", DENSE, ids=lambda p: p.name)
def test_dense_models_keep_to_physics(profile: _profiles.Profile) -> None:
    """No decode step beats reading the weights once, no prefill peak arithmetic; on one GPU both come within twice."""
    bandwidth, peak = PEAKS[profile.device]
    gpu = FormD(host0_ms=0, host1_ms=0, slowdown=1)
    cost = compiled(gpu, profile.device, profile.model, profile.tp)
    assert profile.weight_gib_per_gpu is not None
    weights = profile.weight_gib_per_gpu * 2**30
    decode_s, prefill_s = cost.step([], [1]) * 1e-9, cost.step([(4096, 0)], []) * 1e-9
    read_s, compute_s = weights / bandwidth, 4096 * weights / peak
    # Embeddings and head are weights that prefill does not multiply with, up to a sixth of a small model.
    assert decode_s > 0.9 * read_s
    assert prefill_s > 0.8 * compute_s
    if profile.tp == 1:
        assert decode_s < 2 * read_s
        assert prefill_s < 2 * compute_s


def test_single_request_decode_of_a_7b_model() -> None:
    """Qwen2.5-7B on A100: the step without host time is 9 to 13 % short of the published speed, by 1.2 to 1.6 ms."""
    step = ms(compiled(FormD(host0_ms=0), model="qwen2.5-7b").step([], [1]))
    assert 1.2 / 0.13 - 1.2 < step + 1.6 < 1.6 / 0.09
    assert ms(compiled(model="qwen2.5-7b").step([], [1])) == pytest.approx(step + 1.5)


def serve(cost: Coefficients, requests: int, prompt: int, output: int, budget: int, room: int) -> float:
    """Makespan in seconds of equal requests sent at once to a first-come-first-served engine with chunked prefill."""
    waiting, running, left, ticks = requests, [], prompt, 0.0
    while waiting or running:
        contexts = [prompt + done for done in running]
        chunks = []
        if waiting and (len(running) + 1) * (prompt + output) <= room:
            chunks = [(min(left, budget - len(running)), prompt - left)]
            left -= chunks[0][0]
        ticks += cost.step(chunks, contexts)
        running = [done + 1 for done in running if done + 1 < output]
        if left == 0:
            waiting, running, left = waiting - 1, [*running, 1], prompt
    return ticks * 1e-9


@pytest.mark.parametrize(("slowdown", "error"), [(1.0, -0.18), (1.15, -0.07), (1.3, 0.03), (1.45, 0.13)])
def test_long_prompts_on_an_a100(slowdown: float, error: float) -> None:
    """Qwen3-14B, 100 prompts of 32k in and 100 out on vLLM 0.11 took 724.56 s; the fits state the error by slowdown."""
    cost = compiled(FormD(slowdown=slowdown, host0_ms=1.5, host1_ms=0.04), model="qwen3-14b")
    assert serve(cost, 100, 32000, 100, 2048, 277_000) / 724.56 - 1 == pytest.approx(error, abs=0.02)


def test_slowdown_touches_only_long_steps_and_prefill_attention() -> None:
    """Slopes from 256 tokens on and pairs are multiplied; decode, short steps and host are not."""
    fast, slow = inline(host0_ms=1.5, host1_ms=0.04), inline(host0_ms=1.5, host1_ms=0.04, slowdown=1.25)
    fast.cover(600)
    slow.cover(600)
    assert slow.base[:257] == fast.base[:257]
    assert slow.base[600] - slow.base[256] == pytest.approx(1.25 * (fast.base[600] - fast.base[256]))
    assert slow.pair == pytest.approx(1.25 * fast.pair)
    assert (slow.seq, slow.ctx, slow.chunk, slow.host0, slow.host1) == (
        fast.seq,
        fast.ctx,
        fast.chunk,
        fast.host0,
        fast.host1,
    )


def test_a_piece_across_256_is_cut_there() -> None:
    """A profile without a knot at 256 is slowed from 256 on all the same."""
    spec = FormD(coefficients={**INLINE, "token_ms": {0: 0.5, 100: 0.1}}, slowdown=2.0, host0_ms=0, host1_ms=0)
    cost = compiled(spec)
    cost.cover(300)
    assert ms(cost.base[300]) == pytest.approx(10 + 50 + 156 * 0.1 + 44 * 0.2)


def test_each_coefficient_moves_the_step() -> None:
    """Every number of a profile is used: raising it makes this mixed step longer."""
    before = inline().step([(298, 1000)], [100, 200])
    for key, value in INLINE.items():
        more = {k: 2 * v for k, v in TOKEN_MS.items()} if key == "token_ms" else 2 * value  # type: ignore[operator]
        spec = FormD(coefficients={**INLINE, key: more}, slowdown=1, host0_ms=0, host1_ms=0)
        assert compiled(spec).step([(298, 1000)], [100, 200]) > before, key
    for knob in ({"slowdown": 1.1}, {"host0_ms": 1.0}, {"host1_ms": 0.1}):
        assert inline(**knob).step([(298, 1000)], [100, 200]) > before, knob


@pytest.mark.parametrize(
    ("device", "overlap", "host0", "host1"),
    [
        ("a100-80gb", False, 1.5, 0),
        ("a100-80gb", True, 1.5, 0),
        ("h100-80gb", False, 1.5, 0.04),
        ("h100-80gb", True, 1, 0),
    ],
)
def test_default_host_time(device: str, overlap: bool, host0: float, host1: float) -> None:
    """Host time by device and scheduling; zero is a value, not a request for the default."""
    cost = compiled(device=device, overlap=overlap)
    assert (ms(cost.host0), ms(cost.host1)) == pytest.approx((host0, host1))
    assert compiled(FormD(host0_ms=0, host1_ms=0), device, overlap=overlap).host0 == 0


def test_default_slowdown() -> None:
    """1.25 on an A100, 1.0 on an H100."""
    for device, slowdown in (("a100-80gb", 1.25), ("h100-80gb", 1.0)):
        assert compiled(device=device).pair == pytest.approx(compiled(FormD(slowdown=slowdown), device).pair)


def test_a_longer_tick_scales_everything() -> None:
    """Twice the tick, half the ticks, exactly (L9)."""
    one, two = compiled(), compiled(tick_s=2e-9)
    one.cover(1000)
    two.cover(1000)
    assert [2 * t for t in two.base] == one.base
    assert (2 * two.pair, 2 * two.ctx, 2 * two.seq, 2 * two.chunk) == (one.pair, one.ctx, one.seq, one.chunk)


def test_the_estimated_profile_meets_its_figures() -> None:
    """Nemotron on GB200: tokens/s of 3, 11 and 48 running requests, prefill above its bound, status estimated."""
    spec = FormD(profile="nemotron_gb200_estimated")
    place = {"device": "gb200", "model": "nemotron-3-super-120b-a12b", "tp": 2}
    cost = spec.compile(1e-9, overlap=True, base=BASE, **place)  # type: ignore[arg-type]
    assert spec.load(base=BASE, **place).status == "estimated"  # type: ignore[arg-type]
    assert 48 < 1e9 / cost.step([], [120_000] * 3) < 51
    assert 37 < 1e9 / cost.step([], [120_000] * 11) < 41
    decode, mixed = cost.step([], [37_000] * 48), cost.step([(4900, 32_000)], [37_000] * 48)
    # 3.8 prompts a second take a share of the time; the decodes share what is left.
    assert 21 < (1 - 3.8e-9 * (mixed - decode)) / (decode * 1e-9) < 22.5
    assert 8480e9 / cost.step([(8480, 0)], []) > 25_000
    # Decode cost hardly grows with context: ten times the context, less than a tenth more.
    assert cost.step([], [100_000] * 11) < 1.1 * cost.step([], [10_000] * 11)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"slowdown": -1.0}, "slowdown must be zero or more"),
        ({"slowdown": 0.0}, "cannot be 0"),
        ({"host0_ms": float("nan")}, "host0_ms must be zero or more"),
        ({"profile": "x", "coefficients": INLINE}, "give one of them"),
    ],
)
def test_impossible_knobs_are_refused(knobs: dict[str, object], message: str) -> None:
    """Refused at construction, with the name of the key."""
    with pytest.raises(ValueError, match=message):
        FormD(**knobs)  # type: ignore[arg-type]


def test_an_unknown_device_must_say_what_it_costs() -> None:
    """No default is made up for a device that nobody measured."""
    with pytest.raises(ScenarioError, match=r"'tpu' is not one of .* give cost.slowdown"):
        compiled(FormD(coefficients=INLINE), "tpu")
    spec = FormD(coefficients=INLINE, slowdown=1, host0_ms=0, host1_ms=0)
    compiled(spec, "tpu")
    assert spec.files(device="tpu", model="any", tp=1, base=BASE) == []
