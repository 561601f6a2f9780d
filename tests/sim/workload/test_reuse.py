"""The reuse ceiling against a set of blocks spelled out token by token, and against hand-computed worlds."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from policies._content import PRIVATE, canonical
from sim.rng import Streams
from sim.workload._chains import Chains, Columns
from sim.workload._lengths import Lognormal, Uniform
from sim.workload._model import Session, Travel, Turn, Workload
from sim.workload._prompt import Prompt
from sim.workload._reuse import ideal_prefill_tokens, in_order
from sim.workload.rollout import Rollout


class Given(Workload):
    """A workload of given sessions, each a group of its own."""

    def __init__(self, sessions):
        numbers = np.arange(len(sessions))
        super().__init__(numbers, np.zeros(len(sessions)), numbers, Travel())
        self._given = sessions

    def session(self, index):
        return Session(index, index, self._given[index])


def spelled(content):
    """Every token by name."""
    return [(source, at) for source, length in content for at in range(length)]


def naive(workload, block):
    """Blocks in a set, each with all before it; a prompt's last block may be partial, an answer's may not."""
    seen, computed = set(), 0
    for session in in_order(workload):
        for turn in session.turns:
            tokens = spelled(turn.prompt)
            chains = [tuple(tokens[:end]) for end in [*range(block, len(tokens), block), len(tokens)]]
            known = next((index for index, chain in enumerate(chains) if chain not in seen), len(chains))
            computed += len(tokens) - min(known * block, len(tokens))
            seen.update(chains)
            if turn.output_source != PRIVATE:
                held = spelled(canonical((*turn.prompt, (turn.output_source, turn.output_tokens))))[:-1]
                # A continued source goes on counting where the prompt left it.
                seen.update(tuple(held[:end]) for end in range(block, len(held) + 1, block))
    return computed


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=3), max_size=10),
    st.integers(1, 4),
)
def test_spans_reuse_what_blocks_do(contents, block):
    """Any contents, any block size: the same tokens are left to compute as with blocks in a set."""
    workload = Given([[Turn(canonical(each), 1, PRIVATE, 1, 0.0)] for each in contents])
    assert ideal_prefill_tokens(workload, block) == naive(workload, block)


@given(st.integers(0, 50), st.integers(1, 5), st.sampled_from(["live", "replay"]))
def test_turns_reuse_what_blocks_do(seed, block, mode):
    """The same for rollouts, whose answers are content where they are live."""
    spec = Rollout(
        groups=3,
        samples_per_group=2,
        prompt=Prompt(Lognormal("lognormal", 8, 0.5), system_tokens=7),
        output_tokens=Uniform("uniform", 1, 6),
        max_tokens=5,
        turns=Uniform("uniform", 1, 4),
        observation_tokens=Uniform("uniform", 0, 5),
        mode=mode,
    )
    workload = spec.generate(Streams(seed), Path())
    assert ideal_prefill_tokens(workload, block) == naive(workload, block)


@st.composite
def chains(draw):
    """Sessions of groups in any order, with heads and own parts that may be empty, and repeated prompts."""
    groups = draw(st.integers(1, 3))
    group_of = draw(st.lists(st.integers(0, groups - 1), min_size=1, max_size=5))
    system, live = draw(st.integers(0, 3)), draw(st.booleans())
    heads = draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups))
    turns = draw(st.lists(st.integers(1, 3), min_size=len(group_of), max_size=len(group_of)))
    own, output = [], draw(st.lists(st.integers(1, 4), min_size=sum(turns), max_size=sum(turns)))
    for session, group in enumerate(group_of):
        grown = draw(st.integers(0 if system + heads[group] else 1, 3))
        for _ in range(turns[session]):
            own.append(grown)
            grown += draw(st.integers(0, 4)) + live * output[len(own) - 1]
    zeros, lengths = np.zeros(sum(turns)), np.array(turns)
    columns = [np.array(each) for each in (np.cumsum(lengths) - lengths, turns, heads, own, output, output)]
    order = np.array(draw(st.permutations(range(groups))))
    return Chains(Columns(*columns, zeros), system, np.array(group_of), np.zeros(groups), order, live, Travel())


@given(chains(), st.integers(1, 4))
def test_chains_reuse_what_blocks_do(workload, block):
    """The count over columns is that over blocks, whoever shares a head with whom."""
    assert ideal_prefill_tokens(workload, block) == naive(workload, block)


def test_siblings_compute_their_prompt_once():
    """Four groups of four with 8,192 tokens each leave 4 x 8,192 to compute."""
    spec = Rollout(4, 4, Prompt(8192), Lognormal("lognormal", 128, 0.3), 1024)
    assert ideal_prefill_tokens(spec.generate(Streams(1), Path()), 1) == 4 * 8192


def test_a_live_turn_computes_the_observation_and_the_last_generated_token():
    """The KV of the last token of an answer is never computed, so the next turn computes it."""
    spec = Rollout(1, 1, Prompt(100), 20, 20, turns=3, observation_tokens=30)
    assert ideal_prefill_tokens(spec.generate(Streams(1), Path()), 1) == 100 + 2 * (30 + 1)


def test_a_replayed_turn_computes_all_that_is_new():
    """What was generated is discarded: the recorded answer is new to the cache."""
    spec = Rollout(1, 1, Prompt(100), 20, 20, turns=3, observation_tokens=30, mode="replay")
    assert ideal_prefill_tokens(spec.generate(Streams(1), Path()), 1) == 100 + 2 * (30 + 20)
