"""What an arm's decisions say of its policy: absent signals, keys and matches, parameters that decided nothing.

What a policy looks at is found by asking a fresh one a few questions with views that note what is read; what was there
for it to see is in the decisions. So each finding is a fact of the run, and says nothing of other runs.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import polars as pl

from policies._content import Content
from policies._protocol import EngineView, FleetView, Policy, RequestView, pick_first

WATCHED: Final = ("in_flight", "report")
_PROMPTS: Final[tuple[Content, ...]] = (((1, 4096),), ((1, 4096), (2, 512)), ((3, 4096),))


class _Watched(EngineView):
    """An engine that notes which of its signals are read."""

    __slots__ = ("seen",)

    def __getattribute__(self, name: str) -> Any:
        if name in WATCHED:
            object.__getattribute__(self, "seen").add(name)
        return object.__getattribute__(self, name)


def _tokens(content: Content) -> int:
    return sum(size for _, size in content)


def looks_at(policy: Policy) -> tuple[set[str], bool]:
    """Signals that a policy reads, and whether it can match a prompt that it sent before. It keeps what it is asked."""
    seen: set[str] = set()
    engines: list[EngineView] = []
    for index in range(3):
        engine = _Watched.__new__(_Watched)
        object.__setattr__(engine, "seen", seen)
        EngineView.__init__(engine, index, f"http://engine-{index}", cached_tokens=_tokens)
        engines.append(engine)
    fleet = FleetView(engines, list(engines))
    policy.start(fleet)
    headers: dict[str, str] = {}
    can_match = False
    for serial, prompt in enumerate(_PROMPTS * 4):
        encoding: Any = ("text", "chat", "input_ids", "text")[serial // len(_PROMPTS)]
        if serial >= len(_PROMPTS):
            headers = dict.fromkeys((*policy.key_headers, "x-smg-routing-key"), f"key {serial % 2}")
        request = RequestView(serial, headers, prompt, _tokens(prompt), 16, encoding)
        _, _, matched = policy.choose(request, fleet, float(serial), pick_first)
        can_match = can_match or matched > 0
    return seen, can_match


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


def notes(policy: Policy, parameters: Collection[str], has_reports: bool, texts: Iterable[str]) -> Iterator[str]:
    """One line for each finding over the summaries of all pairs.

    ``policy`` is a fresh one, ``parameters`` are those that the scenario sets to something else than their default.
    """
    branches: dict[str, list[int]] = {}
    for text in texts:
        for branch, counts in json.loads(text).items():
            branches[branch] = [a + b for a, b in zip(branches.get(branch, [0] * 4), counts, strict=True)]
    asked, matched, loaded, reported = (sum(each) for each in zip([0] * 4, *branches.values(), strict=True))
    if asked < 2:
        return
    seen, can_match = looks_at(policy)
    if policy.reads_content and not can_match:  # as its parameters are; with others it may
        can_match = looks_at(type(policy)())[1]
    if "report" in seen and not has_reports:
        yield "the policy reads what engines report, and none reports: it decides as if they were silent"
    elif "report" in seen and not reported:
        yield "the policy reads what engines report, and no report came before any decision"
    if "in_flight" in seen and not loaded:
        yield "the load never moves: nothing was in flight at any decision, so that ties decided wherever load did"
    keyless = sum(branches[branch][0] for branch in policy.keyless if branch in branches)
    if keyless:
        yield f"{_share(keyless, asked)} of the decisions were on requests without a routing key"
    if can_match and not matched:
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
