"""The recorded chats: what could be reused, counted on the trace's own ids and by an engine."""

import gzip
import json

import pytest

from sim import load_scenario
from sim.replication import replicate

BLOCK = 512


@pytest.fixture(scope="module")
def reuse():
    """Prompt tokens of the trace; those in blocks seen before, with and without a prompt's last, partial block."""
    cell = load_scenario("mooncake_conversation").arms["round_robin"]
    seen, total, reused, in_full_blocks = set(), 0, 0, 0
    with gzip.open(cell.base / cell.workload.file, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            total += row["input_length"]
            for place, block in enumerate(row["hash_ids"]):
                tokens = min(BLOCK, row["input_length"] - place * BLOCK)
                reused += tokens * (block in seen)
                in_full_blocks += tokens * (block in seen) * (tokens == BLOCK)
                seen.add(block)
    return total, reused, in_full_blocks


def test_a_third_of_the_prompts_could_be_reused(reuse):
    """34.7 % of the prompt tokens, a partial last block counted where an earlier prompt equals it to its end."""
    total, reused, _ = reuse
    assert round(100 * reused / total, 1) == 34.7


def test_one_engine_without_a_limit_reuses_all_full_blocks(reuse):
    """An engine's cache holds full blocks alone, and finds each that was there before: to the token."""
    unlimited = ["fleet.engines=1", "fleet.engine.kv_tokens=200000000", f"fleet.engine.block_tokens={BLOCK}"]
    log = replicate(load_scenario("mooncake_conversation", unlimited).arms["round_robin"], 0)
    total, reused, in_full_blocks = reuse
    assert log.numpy("requests")["prompt_tokens"].sum() == total
    assert log.numpy("requests")["cached_tokens"].sum() == in_full_blocks
    assert log.prefill_ideal == total - reused


def test_four_engines_reuse_less(reuse):
    """Requests of one conversation meet different engines, and pools are small."""
    _, reused, _ = reuse
    for arm, cell in load_scenario("mooncake_conversation").arms.items():
        log = replicate(cell, 0)
        assert set(log.numpy("requests")["status"]) == {0}, arm
        assert 0 < log.numpy("requests")["cached_tokens"].sum() < reused, arm
