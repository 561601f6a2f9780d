"""A fit as a profile: YAML that ``form_d`` reads, with its source, its error and the region that was measured."""

from collections.abc import Mapping

from sim.calibration.fit import LINEAR, Fit
from sim.calibration.steps import Floats

LINE = 118
"""Most characters of a line."""


def profile_yaml(
    fit: Fit,
    *,
    source: str,
    licence: str | None = None,
    figures: Mapping[str, float] | None = None,
    comments: tuple[str, ...] = (),
) -> str:
    """Text of a profile file; ``figures`` are memory and host time, which a fit does not know."""
    steps = fit.steps
    values = fit.linear(fit.values)
    lines = [
        *(f"# {each}" for each in comments),
        f"device: {steps.device}",
        f"model: {steps.model}",
        f"tp: {steps.tp}",
        "status: measured",
        *_folded("source", source),
        *([f"licence: {licence}"] if licence else []),
        "error_percent: # mean and 90th percentile of the absolute error of steps left out of the fit",
        *(f"  {phase}: [{mean:.1f}, {p90:.1f}]" for phase, (mean, p90) in fit.error_percent.items()),
        "region: # least and most of what was measured; beyond it a step is extrapolated",
        *(f"  {name}: [{low:.10g}, {high:.10g}]" for name, (low, high) in region(fit).items()),
        *(f"{name}: {value:.6g}" for name, value in (figures or {}).items()),
        "coefficients:",
        f"  t0_ms: {_short(values['t0_ms'])}",
        "  token_ms: # ms a token, from this total of tokens on",
        *(f"    {knot}: {_short(value)}" for knot, value in fit.token_ms(fit.values).items()),
        *(f"  {name}: {_short(values[name])}" for name in LINEAR),
    ]
    if len(fit.resamples):
        lines += [
            "resamples: # fits to resampled configurations: t0_ms, token_ms by knot, then pair, seq, ctx, chunk",
            *(f"  - [{', '.join(_short(value) for value in _row(fit, row))}]" for row in fit.resamples),
        ]
    return "\n".join(lines) + "\n"


def region(fit: Fit) -> dict[str, tuple[float, float]]:
    """Least and most of what the steps of a fit held: tokens of a step, decodes, mean context of a decode, chunks."""
    steps = fit.steps
    found = {"tokens": steps.tokens}
    if (steps.chunks > 0).any():
        found["chunks"] = steps.chunks[steps.chunks > 0]
    if (steps.decodes > 0).any():
        decoding = steps.decodes > 0
        found["decodes"] = steps.decodes[decoding]
        found["mean_context"] = steps.context[decoding] / steps.decodes[decoding]
    return {name: (float(column.min()), float(column.max())) for name, column in found.items()}


def _row(fit: Fit, row: Floats) -> list[float]:
    linear = fit.linear(row)
    return [linear["t0_ms"], *fit.token_ms(row).values(), *(linear[name] for name in LINEAR)]


def _short(value: float) -> str:
    """Five significant figures, in a form that YAML takes for a float: with a point."""
    mantissa, e, exponent = f"{value:.5g}".partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}{e}{exponent}"


def _folded(key: str, text: str) -> list[str]:
    """A long text as a folded block."""
    lines, line = [f"{key}: >-"], " "
    for word in text.split():
        if len(line) + len(word) + 1 > LINE:
            lines.append(line)
            line = " "
        line = f"{line} {word}"
    return [*lines, line]
