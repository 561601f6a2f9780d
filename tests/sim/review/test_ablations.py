"""Ablations that a review makes itself: what is switched off is gone, and what was not the cause leaves the effect."""

from pathlib import Path

import numpy as np
import pytest

from sim import load_scenario, review
from sim.log.frames import read_logs
from sim.replication import replicate
from sim.report.contrast import Lines
from sim.report.ledger import ledger
from sim.review import _ablations
from sim.review._ablations import switch_of

COMMAND = "windtunnel review x"
WORLD = """\
name: ablated
fleet:
  engines: 2
  engine: {preset: sglang, overlap: false}
workload:
  kind: rollout
  groups: 4
  samples_per_group: 4
  prompt: {group_tokens: 8192}
  turns: 1
  output_tokens: {kind: lognormal, median: 128, sigma: 0.3}
  max_tokens: 1024
client: {key_scope: sample}
router: {policy: {kind: sglang.consistent_hashing}}
arms:
  sample: {}
  group: {client: {key_scope: group}}
baseline: sample
replications: {pairs: 30, seed: 1}
metrics: [samples_per_s]
"""


def gathered(folder: Path, *changes: tuple[str, str], pairs: int | None = None, name: str = "group"):
    """The evidence of that world with texts of it replaced."""
    text = WORLD
    for one, other in changes:
        assert one in text
        text = text.replace(one, other)
    (folder / "x.yaml").write_text(text, encoding="utf-8")
    scenario, _, candidate = review.choose(load_scenario(folder / "x.yaml"), None, name)
    return review.gather(scenario, candidate, Lines(), out=folder / "out", ablation_pairs=pairs)


def why(ev) -> str:
    return next(line.says for line in review.review_of(ev, COMMAND).page if line.field == "why")


def part_8(ev) -> str:
    return "\n".join(next(part for part in review.review_of(ev, COMMAND).parts if part.number == 8).text)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return gathered(tmp_path_factory.mktemp("world"), ("pairs: 30", "pairs: 80"))


def test_what_is_switched_off_is_gone(found) -> None:
    """Without prefix caching no pair differs in prefill, to the nanosecond; with keys dealt none has an idle queue."""
    prefill, dealt = found.ablations.made
    assert (prefill.mechanism, dealt.mechanism) == ("saved prefill", "tail idle")
    assert (prefill.own.height, dealt.own.height) == (80, 80)
    assert found.moved["prefill"].max() < 0
    assert prefill.own["prefill"].to_list() == [0] * 80
    assert found.moved["idle_queue"].max() > 0
    assert dealt.own["idle_queue"].to_list() == [0] * 80


def test_the_share_is_that_of_the_logarithms(found) -> None:
    """Of the same pairs, run both ways."""
    ablation = found.ablation
    assert ablation is found.ablations.made[0]
    whole, without = np.log(ablation.whole.ratio), np.log(ablation.ratio.ratio)
    assert ablation.share.value == pytest.approx(1 - without / whole)
    assert ablation.share.lo < ablation.share.value < ablation.share.hi


def test_more_than_all_of_it_is_said_so(found) -> None:
    """Without caching the candidate loses; dealt keys gain more than hashed ones, so their luck works against it."""
    said = why(found)
    ratio = found.ablation.ratio
    assert ratio.hi < 1
    assert (
        "The gain is saved prefill, and more than all of it: with prefix caching off in both arms group would lose, "
        f"the ratio is {ratio.ratio:.3f} [{ratio.lo:.3f}, {ratio.hi:.3f}] in place of {found.primary.paired.ratio:.3f}."
    ) in said
    dealt = found.ablations.made[1].ratio
    assert dealt.lo > found.ablation.whole.ratio
    assert "The gain is NOT tail idle, which works against it: with keys dealt to the engines in turn" in part_8(found)
    assert "tail idle, which works" not in said


def test_a_mechanism_that_is_not_the_cause_is_told(tmp_path: Path) -> None:
    """How many requests the fullest engine serves follows from where keys fall alone, though prefill moves most.

    Off, it changes no request's engine: all of the effect stays, in every pair. Dealt, both arms are even.
    """
    ev = gathered(tmp_path, ("[samples_per_s]", "[load_requests_max_over_mean]"), ("pairs: 30", "pairs: 80"))
    prefill, dealt = ev.ablations.made
    assert prefill.mechanism == "saved prefill"
    assert (prefill.share.value, prefill.share.lo, prefill.share.hi) == (0, 0, 0)
    assert dealt.ratio.ratio == 1
    assert (dealt.share.value, dealt.share.lo, dealt.share.hi) == (1, 1, 1)
    said = why(ev)
    ratio = f"{prefill.ratio.ratio:.3f} [{prefill.ratio.lo:.3f}, {prefill.ratio.hi:.3f}]"
    assert "The loss is NOT saved prefill: with prefix caching off in both arms 100% [100%, 100%] of it stays, " in said
    assert f"the ratio is {ratio} in place of {prefill.whole.ratio:.3f}. The loss is tail idle: with keys dealt" in said
    against = next(part for part in review.review_of(ev, COMMAND).parts if part.number == 15)
    assert "The mechanism is held to be tail idle" in "\n".join(against.text).replace("the mechanism", "The mechanism")


def test_an_arm_that_says_so_comes_first(tmp_path: Path) -> None:
    """It takes the luck of the hash away, which is not the cause; the review then switches prefill off, which is."""
    arm = "  placed:\n    client: {key_scope: group}\n    router: {policy: {kind: sticky_least_loaded}}\n"
    said = f"{arm}    ablates: {{arm: group, mechanism: tail idle}}\nbaseline"
    ev = gathered(tmp_path, ("baseline", said), ("pairs: 30", "pairs: 60"))
    assert [(each.arm, each.mechanism) for each in ev.ablations.made] == [
        ("placed", "tail idle"),
        ("", "saved prefill"),
    ]
    assert not ev.ablation.is_cause
    assert ev.ablations.made[1].is_cause
    assert why(ev).index("in arm placed (group with router.policy") < why(ev).index("The gain is saved prefill")
    shown = review.review_of(ev, COMMAND)
    assert next(line.source for line in shown.page if line.field == "why") == "8.2, 8.4, 8.5"
    assert {"8.4", "8.5"} <= {table.id for part in shown.parts for table in part.tables}


def test_preemptions_are_switched_off(tmp_path: Path) -> None:
    """With memory without end no arm computes a token twice: the line is nothing in both, to the nanosecond."""
    tight = "preset: vllm, kv_tokens: 3000, overlap: false"
    ev = gathered(
        tmp_path,
        ("preset: sglang, overlap: false", tight),
        ("group_tokens: 8192", "group_tokens: 1000"),
        ("median: 128", "median: 400"),
        pairs=0,
    )
    assert ev.ablations.notes == ("no pairs were asked for (windtunnel review --ablation-pairs)",)
    for name in ev.scenario.arms:
        cell = ev.scenario.arms[name]
        off = _ablations.with_fields(cell, switch_of("re-prefill", ev.scenario, "group", "client.key_scope").settings)
        spent = [ledger(read_logs([replicate(each, 0)], [0]))["reprefill"].item() for each in (cell, off)]
        assert spent[0] > 0
        assert spent[1] == 0


def test_outages_and_the_router_are_switched_off(tmp_path: Path) -> None:
    """Engines that fail do not, and others still join; a router that takes time takes none."""
    fails = "engines: 2\n  changes: [{what: fail, at_s: 1, engine: 0, restart_after_s: 2}, {what: join, at_s: 2}]"
    slow = "router: {overhead_s: 0.1, decision: {fixed_s: 0.01}, policy"
    ev = gathered(tmp_path, ("engines: 2", fails), ("router: {policy", slow), pairs=0)
    for name, line in (("outages", "down"), ("router and clients", "idle_client")):
        for arm, cell in ev.scenario.arms.items():
            off = _ablations.with_fields(cell, switch_of(name, ev.scenario, "group", "client.key_scope").settings)
            spent = [ledger(read_logs([replicate(each, 0)], [0]))[line].item() for each in (cell, off)]
            assert spent[0] > spent[1], arm
            assert name != "outages" or spent[1] == 2_000_000_000, "until one joins it is down"
    dealt = switch_of("imbalance", ev.scenario, "group", "client.key_scope")
    assert dealt == "keys dealt in turn would be uneven on a fleet that is mixed or changes"


def test_the_change_itself_is_not_switched_off(tmp_path: Path) -> None:
    """Arms that differ in the cache, or in the policy, would be the same; batching is the work itself."""
    cache = ("group: {client: {key_scope: group}}", "off: {fleet: {engine: {visibility: never}}}")
    ev = gathered(tmp_path, cache, ("key_scope: sample", "key_scope: group"), name="off")
    assert not ev.ablations.made or ev.ablations.made[0].mechanism != "saved prefill"
    assert any(
        each == "saved prefill: with prefix caching off the arms are the same: that is the change itself"
        for each in ev.ablations.notes
    )
    scenario = ev.scenario
    said = switch_of("tail idle", scenario, "off", "router.policy")
    assert said == "which engine takes a request is what the arms differ in"
    assert (
        switch_of("batching", scenario, "off", "client.key_scope")
        == "it is the work itself, and no field takes that away"
    )
    assert "the router takes no time" in switch_of("router and clients", scenario, "off", "client.key_scope")


def test_arms_that_are_not_told_apart_need_no_cause(tmp_path: Path) -> None:
    """Two draws of one rule."""
    ev = gathered(tmp_path, ("{client: {key_scope: group}}", "{client: {key_salt: other}}"))
    assert (ev.ablation, ev.ablations.made) == (None, ())
    assert "the arms are not told apart in samples_per_s, so that nothing asks for a cause" in why(ev)


def test_what_the_budget_allows(tmp_path: Path, monkeypatch) -> None:
    """Two ablations, else one with as many pairs as there is room for, else none and the option that makes it."""
    made = {}
    for budget in (2 * 2 * 20 * 30, 2 * 20 * 7, 2 * 20 * 3):
        monkeypatch.setattr(_ablations, "BUDGET", budget)
        found = gathered(tmp_path).ablations
        made[budget] = [each.ratio.pairs for each in found.made]
    assert list(made.values()) == [[30, 30], [7], []]
    assert "leave no room for it within 120 requests (--ablation-pairs makes it)" in " ".join(found.notes)
    assert [each.ratio.pairs for each in gathered(tmp_path, pairs=5).ablations.made] == [5, 5]


def test_stored_results_stay(tmp_path: Path) -> None:
    """Ablations lie apart: what the scenario's own runs gave is the same file before and after."""
    gathered(tmp_path, pairs=0)
    before = {path: path.read_bytes() for path in (tmp_path / "out" / "ablated").rglob("*.parquet")}
    gathered(tmp_path, pairs=4)
    assert {path: path.read_bytes() for path in (tmp_path / "out" / "ablated").rglob("*.parquet")} == before
    assert list((tmp_path / "out" / "ablation" / "ablated").rglob("*.parquet"))
