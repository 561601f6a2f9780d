"""``windtunnel profiles``: the cost profiles that ship, what they were measured in, and how far off they are."""

from pathlib import Path

import click

from sim.cli import _complete
from sim.cost import _profiles
from sim.cost._profiles import Profile

PHASES = ("prefill", "decode", "mixed")
WORDS = {"tokens": "tokens", "chunks": "chunks", "decodes": "decodes", "mean_context": "context"}


@click.command(short_help="List the cost profiles, or show one.")
@click.argument("name", required=False, shell_complete=_complete.profile)
def profiles(name: str | None) -> None:
    """List the cost profiles with their errors and what they are valid for, or show the one called NAME.

    NAME may be a profile file of your own.
    """
    click.echo(listing() if name is None else describe(name))


def listing() -> str:
    """One line a profile: status, mean error by kind of step, region of validity."""
    known = [_load(name) for name in _profiles.names()]
    width = max(len(each.name) for each in known)
    head = f"{'profile':<{width}}  {'status':<9}  {'prefill':>7}  {'decode':>6}  {'mixed':>5}  valid for"
    return "\n".join([head, *(_line(each, width) for each in known), _FOOT])


_FOOT = "errors: mean absolute error in percent of steps that the fit has not seen; valid: steps like those measured"


def _load(name: str) -> Profile:
    return _profiles.load(_profiles.locate(name, device="", model="", tp=1, base=Path()))


def _line(profile: Profile, width: int) -> str:
    errors = profile.error_percent or {}
    cells = [f"{errors[phase][0]:.1f}" if phase in errors else "-" for phase in PHASES]
    return (
        f"{profile.name:<{width}}  {profile.status:<9}  {cells[0]:>7}  {cells[1]:>6}  {cells[2]:>5}  {_region(profile)}"
    )


def _region(profile: Profile) -> str:
    if not profile.region:
        return "not stated"
    return ", ".join(f"{WORDS.get(name, name)} {low:g}-{high:g}" for name, (low, high) in profile.region.items())


def describe(name: str) -> str:
    """Everything that is known of one profile, a shipped one or a file."""
    profile = _load(name)
    lines = [
        profile.name,
        "",
        f"device {profile.device}, model {profile.model}, tp {profile.tp}: {profile.status}",
        f"source: {profile.source}",
        *([f"licence: {profile.licence}"] if profile.licence else []),
        f"valid for: {_region(profile)}",
        *(
            f"error of {phase} steps: mean {mean:g} %, 90th percentile {p90:g} %"
            for phase, (mean, p90) in (profile.error_percent or {}).items()
        ),
        *(f"{key}: {getattr(profile, key):g}" for key in _FIGURES if getattr(profile, key) is not None),
        *(f"{key}: {value:g}" for key, value in profile.times.items()),
        *(f"token_ms from {at} tokens on: {ms:g}" for at, ms in profile.token_ms),
        *([f"resamples for uncertainty bootstrap: {len(profile.resamples)}"] if profile.resamples else []),
    ]
    return "\n".join(lines)


_FIGURES = ("slowdown", "host0_ms", "host1_ms", "weight_gib_per_gpu", "kv_bytes_per_token_per_gpu", "device_gib")
