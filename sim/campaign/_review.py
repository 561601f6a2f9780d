"""A review that knows its seal, and what is to be said of a sealed campaign before it begins."""

from dataclasses import replace

from sim.campaign._seal import Seal
from sim.export import read_manifest
from sim.export import warnings as export_warnings
from sim.review import Evidence, Review, Sealed, review_of


def with_seal(ev: Evidence, seal: Seal) -> Evidence:
    """The evidence of a review with the seal of its campaign: parts 12, 13 and 17 then speak of it."""
    rule, files = seal.rule, list(seal.files.items())
    return replace(ev, sealed=Sealed(seal.digest, files, seal.date, rule.text(), rule.pairs, len(rule.looks) > 1))


def reviewed(ev: Evidence, seal: Seal, command: str) -> Review:
    """The review of one sealed cell."""
    return review_of(with_seal(ev, seal), command)


def warnings(seal: Seal) -> list[str]:
    """What no product can have as it was simulated, and guardrails that the simulated arms pass already.

    A campaign with the first measures another rule, one with the second is likely to stop.
    """
    guard = seal.rule.guardrails
    manifests = {cell: read_manifest(seal.folder / each["folder"]) for cell, each in seal.prediction["cells"].items()}
    impossible = [f"{cell}, {each}" for cell, manifest in manifests.items() for each in export_warnings(manifest)]
    return impossible + [
        f"{cell}, arm {arm}: {name.replace('_', ' ')} is predicted to be {value:.1%}, the campaign stops above "
        f"{getattr(guard, name):.0%}"
        for cell, each in seal.prediction["cells"].items()
        for arm, shares in each["guardrails"].items()
        for name, value in shares.items()
        if value > getattr(guard, name)
    ]
