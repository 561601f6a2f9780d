"""The fit against engines whose cost is known, against published errors, and what it refuses."""

import dataclasses

import numpy as np
import pytest

from sim.calibration import fit as fitting
from sim.calibration.evidence import static_fit
from sim.calibration.fit import COLUMNS, LINEAR, bends, fit
from sim.calibration.steps import PHASES, Steps
from sim.errors import ScenarioError
from tests.sim.calibration.shipped import DATA, rows, rtx_steps, some_steps

TRUE = {"prefill_pair_ms": 1e-6, "decode_seq_ms": 0.03, "decode_ctx_ms": 1e-4, "prefill_chunk_ms": 0.4}


def test_a_known_cost_is_found_again() -> None:
    """Without noise every coefficient comes back, and steps left out are predicted exactly."""
    found = fit(some_steps(), resamples=3)
    assert found.linear(found.values) == pytest.approx({"t0_ms": 5.0, **TRUE}, rel=1e-6)
    assert list(found.token_ms(found.values).values()) == pytest.approx([0.02] * len(found.knots), rel=1e-6)
    assert np.abs(found.errors).max() < 1e-9
    assert found.resamples == pytest.approx(np.tile(found.values, (3, 1)), rel=1e-5)


def test_noise_shows_in_the_error_and_in_the_resamples() -> None:
    """5 % of noise is an error of 4 % (mean absolute), and resampled fits spread around the truth."""
    found = fit(some_steps(900, noise=0.05), resamples=30)
    for phase in PHASES:
        assert found.error_percent[phase][0] == pytest.approx(4.0, abs=1.0)
    ctx = found.resamples[:, found.terms.index("decode_ctx_ms")]
    assert abs(ctx.mean() - 1e-4) < 3 * ctx.std()
    assert 0.001 < ctx.std() / ctx.mean() < 0.1


def test_left_out_means_left_out() -> None:
    """A prediction is that of a fit to the other configurations, whatever the step itself took."""
    steps = some_steps(60)
    spoiled = np.array(steps.ms)
    spoiled[7] *= 3
    found = fit(dataclasses.replace(steps, ms=spoiled), resamples=0)
    at = int(np.argmin(np.abs(found.steps.pairs - steps.pairs[7]) + np.abs(found.steps.context - steps.context[7])))
    assert found.predicted[at] == pytest.approx(steps.ms[7], rel=1e-6)


def test_repeats_count_once_by_their_median() -> None:
    """Three runs of each step, one of them disturbed, are one step each."""
    steps = some_steps(90)
    columns = {name: np.tile(getattr(steps, name), 3) for name in (*COLUMNS.values(), "prefill_tokens", "ms")}
    columns["ms"][:90] *= 1.5
    found = fit(Steps("gpu", "model", 1, **columns), resamples=0)
    assert len(found.steps) == 90
    assert found.linear(found.values)["decode_ctx_ms"] == pytest.approx(1e-4, rel=1e-6)


def test_coefficients_are_never_negative() -> None:
    """Where chunks seem to save time, their cost is 0."""
    steps = some_steps()
    found = fit(dataclasses.replace(steps, ms=steps.ms - 0.9 * steps.chunks), resamples=0)
    assert found.linear(found.values)["prefill_chunk_ms"] == 0
    assert found.values.min() >= 0


def only(steps: Steps, phase: str) -> Steps:
    return steps.select(steps.phase == PHASES.index(phase))


@pytest.mark.parametrize(
    ("steps", "fixed", "message"),
    [
        (only(some_steps(), "decode"), {}, "prefill_pair_ms cannot be identified: no step has pairs"),
        (only(some_steps(), "prefill"), {}, "decode_seq_ms cannot be identified: no step has decodes"),
        (
            only(some_steps(), "decode"),
            {"prefill_pair_ms": 0.0, "prefill_chunk_ms": 0.0},
            "decode_seq_ms cannot be identified: .* moves with token_ms",
        ),
        (
            dataclasses.replace(some_steps(), context=some_steps().decodes * 1000),
            {},
            "decode_seq_ms cannot be identified: .* moves with decode_ctx_ms",
        ),
        (some_steps(), {"t0_ms": 1.0}, "t0_ms cannot be fixed"),
    ],
)
def test_what_cannot_be_told_is_refused(steps: Steps, fixed: dict[str, float], message: str) -> None:
    """The term is named with those that it moves with, and with the way out."""
    with pytest.raises(ScenarioError, match=message):
        fit(steps, fixed=fixed)


def test_a_fixed_term_lets_the_others_be_found() -> None:
    """Decode steps alone, with the true cost of a sequence given."""
    fixed = {"prefill_pair_ms": 0.0, "prefill_chunk_ms": 0.0, "decode_seq_ms": 0.03}
    found = fit(only(some_steps(), "decode"), fixed=fixed, resamples=0)
    assert found.linear(found.values) == pytest.approx({"t0_ms": 5.0, **fixed, "decode_ctx_ms": 1e-4}, rel=1e-6)


def test_one_configuration_is_no_fit() -> None:
    """Nothing could be left out."""
    with pytest.raises(ScenarioError, match="cannot be"):
        fit(some_steps().select([1] * 5))


@pytest.mark.parametrize(
    ("sizes", "knots"),
    [
        ([100], (0,)),
        ([1, 2, 4, 8, 16, 32, 64], (0, 4, 16)),
        ([128 * 2**i for i in range(9)], (0, 512, 2048, 8192)),
        (range(1, 300), (0, 4, 8, 16, 32, 64, 128, 256)),
        ([1, 2, 3000], (0,)),
    ],
)
def test_g_bends_where_the_steps_can_tell(sizes, knots: tuple[int, ...]) -> None:
    """Three sizes on every piece, its ends included."""
    assert bends(np.array(list(sizes), dtype=float)) == knots


def test_a_slope_that_is_not_known_has_no_knot() -> None:
    """Forty noisy steps bend g where sizes allow, but most slopes are then known to worse than their own size."""
    steps = some_steps(40, noise=0.05)
    found = fit(steps, resamples=0)
    wanted = bends(found.steps.tokens)
    assert set(found.dropped) == set(wanted) - set(found.knots) != set()
    assert min(found.dropped.values()) >= 1
    kept = slice(1, len(found.knots) + 1)
    assert (found.deviations[kept] < found.values[kept]).all()
    bent = fit(steps, knots=wanted, resamples=0)
    assert (bent.deviations[1 : len(wanted) + 1] > bent.values[1 : len(wanted) + 1]).any()
    assert sum(mean for mean, _ in found.error_percent.values()) < sum(mean for mean, _ in bent.error_percent.values())


def test_the_standard_error_is_that_of_other_noise() -> None:
    """The jackknife's error of a coefficient is how far it spreads over fits to steps with other noise."""
    fits = [fit(some_steps(300, seed, noise=0.05), knots=(0,), resamples=0) for seed in range(40)]
    spread = np.std([each.values for each in fits], axis=0)
    said = np.sqrt(np.mean([each.deviations**2 for each in fits], axis=0))
    assert said == pytest.approx(spread, rel=0.4)


def test_a_token_without_a_known_cost_is_refused() -> None:
    """Steps of 20 to 22 decodes that take 10 ms, 0.05 a token, and 1 ms more or less by turns."""
    decodes = np.tile([20.0, 21.0, 22.0], 20)
    turn = np.where(np.arange(60) // 3 % 2, 1.0, -1.0)
    context, none = decodes * (100 + 17 * np.arange(60) ** 1.5 // 1), np.zeros(60)
    steps = Steps("gpu", "model", 1, none, none, decodes, context, none, 10 + 0.05 * decodes + 1e-4 * context + turn)
    fixed = {"prefill_pair_ms": 0.0, "prefill_chunk_ms": 0.0, "decode_seq_ms": 0.0}
    with pytest.raises(ScenarioError, match=r"token_ms cannot be identified: the cost of a token is known to ± \d+ %"):
        fit(steps, fixed=fixed)


STATIC = [each for each in rows("fit_errors_static_batch.csv") if each["form"] == "knots" and each["tp"] == "8"]


@pytest.mark.parametrize("row", STATIC, ids=lambda r: f"{r['device'][:4]}-{r['model']}-{r['phase']}")
def test_whole_steps_of_a_static_batch(row: dict[str, str]) -> None:
    """Leave-one-configuration-out error of each phase: decode within 1 point of the published one, prefill within 2."""
    phase = row["phase"]
    mean, _ = static_fit(DATA, row["device"], row["model"], int(row["tp"]), phase).error_percent[phase]
    assert mean == pytest.approx(float(row["loo_mape"]), abs=1.0 if phase == "decode" else 2.0)


def test_jointly_measured_batches() -> None:
    """RTX PRO 6000: errors near those that a held-out half gave (prefill 8.8, decode 2.2, mixed 10.3)."""
    found = fit(rtx_steps(), resamples=0)
    errors = {phase: mean for phase, (mean, _) in found.error_percent.items()}
    assert errors == pytest.approx({"prefill": 8.8, "decode": 2.2, "mixed": 10.3}, abs=2.5)


def test_the_folds_do_not_depend_on_chance() -> None:
    """The same steps give the same fit, to the bit."""
    one, two = fit(some_steps(150, noise=0.1), resamples=5), fit(some_steps(150, noise=0.1), resamples=5)
    assert (one.values == two.values).all()
    assert (one.predicted == two.predicted).all()
    assert (one.resamples == two.resamples).all()


def test_folds_reduced_to_triangles_fit_as_rows_do() -> None:
    """Joining the triangles of the folds solves the same problem as all rows at once."""
    steps = some_steps(120, noise=0.2).medians()
    knots = bends(steps.tokens)
    _, table = fitting.design(steps, knots, {})
    weights = fitting._weights(steps)
    whole = fitting._solve(np.column_stack([table * weights[:, None], steps.ms * weights]))
    assert fit(steps, knots=knots, resamples=0).values == pytest.approx(whole, rel=1e-6, abs=1e-12)
    assert set(LINEAR) <= set(fit(steps, resamples=0).terms)
