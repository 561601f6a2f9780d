"""What an arm's decisions say of its policy: absent signals, keys and matches, parameters that decided nothing.

What a policy looks at (``Looks``) is found by asking a fresh one; what was there for it to see is in the decisions. So
each finding is a fact of the run, and says nothing of other runs.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from policies._protocol import Policy


@dataclass(frozen=True, slots=True)
class Looks:
    """What a policy can be seen to do when it is asked."""

    at_reports: bool
    at_load: bool
    """At what is in flight."""
    at_prompts: bool
    """It can match a prompt that it sent before, with its parameters or with the default ones."""


def summaries(decisions: pl.DataFrame) -> pl.DataFrame:
    """``pair`` and ``routing``: by branch how many decisions, how many of them matched, saw load, and saw a report."""
    counted = decisions.group_by("pair", "branch").agg(
        pl.len(),
        (pl.col("matched") > 0).sum().alias("matched"),
        (pl.col("total_in_flight") > 0).sum().alias("loaded"),
        pl.col("signal_age_s").count().alias("reported"),
    )
    found: dict[int, dict[str, list[int]]] = {}
    for pair, branch, *counts in counted.sort("pair", "branch").iter_rows():
        found.setdefault(pair, {})[branch] = counts
    texts = [json.dumps(each, separators=(",", ":")) for each in found.values()]
    return pl.DataFrame({"pair": list(found), "routing": texts}, schema={"pair": pl.Int64, "routing": pl.String})


def notes(
    policy: Policy, looks: Looks, parameters: Collection[str], has_reports: bool, texts: Iterable[str]
) -> Iterator[str]:
    """One line for each finding over the summaries of all pairs.

    ``parameters`` are those that the scenario sets to something else than their default.
    """
    branches: dict[str, list[int]] = {}
    for text in texts:
        for branch, counts in json.loads(text).items():
            branches[branch] = [a + b for a, b in zip(branches.get(branch, [0] * 4), counts, strict=True)]
    asked, matched, loaded, reported = (sum(each) for each in zip([0] * 4, *branches.values(), strict=True))
    if asked < 2:
        return
    if looks.at_reports and not has_reports:
        yield "the policy reads what engines report, and none reports: it decides as if they were silent"
    elif looks.at_reports and not reported:
        yield "the policy reads what engines report, and no report came before any decision"
    if looks.at_load and not loaded:
        yield "the load never moves: nothing was in flight at any decision, so that ties decided wherever load did"
    keyless = sum(branches[branch][0] for branch in policy.keyless if branch in branches)
    if keyless:
        yield f"{_share(keyless, asked)} of the decisions were on requests without a routing key"
    if looks.at_prompts and not matched:
        yield f"the index is empty: none of {asked:,} decisions matched anything of its prompt"
    for parameter in parameters:
        led, turned = policy.deciders.get(parameter), policy.vetoes.get(parameter)
        if led is not None and not any(branch in branches for branch in led):
            yield f"router.policy.{parameter} never decided: no decision was {' or '.join(led)}"
        if turned is not None and not any(branches[branch][1] for branch in turned if branch in branches):
            yield f"router.policy.{parameter} never decided: it turned no match down"


def constant(read: Collection[str], texts: Iterable[str]) -> Iterator[str]:
    """A line for each signal that a policy reads and that every report of every pair gave the same value."""
    named = [set(text.split(",")) for text in texts]
    for signal in sorted(set.intersection(*named) & set(read)) if named else ():
        yield f"the signal {signal} never moves: every report said the same, so it told no engine from another"


def _share(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return "all" if part == whole else f"{percent:.0f} %" if percent >= 1 else "under 1 %"
