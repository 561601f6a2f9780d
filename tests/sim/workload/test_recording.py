"""Block ids as spans against sets of blocks: equal content stays equal, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from policies._content import canonical, common_prefix, count
from sim.workload._rows import Row
from sim.workload._traces._call import REPEATS_ALL, Call
from sim.workload._traces._recording import Recording

ROW = Row("t:1", {})

# Texts of two letters, built from few pieces, so that they share prefixes, are prefixes of each other, and are equal.
PIECES = st.lists(st.sampled_from(["aaaa", "aaab", "b", "abababab", "a"]), min_size=1, max_size=5).map("".join)
TEXTS = st.lists(PIECES, min_size=1, max_size=12)


class Ids:
    """Numbers chains of blocks as a trace does: one id for each block with all before it."""

    def __init__(self, block):
        self.known, self.block = {}, block

    def of(self, text, *, names_tail=True):
        cuts = [*range(self.block, len(text) + 1, self.block)]
        if names_tail and len(text) % self.block:
            cuts.append(len(text))
        return [self.known.setdefault(text[:cut], len(self.known)) for cut in cuts]


def recorded(calls):
    recording = Recording(is_live=False, shared_tokens=0, token_s=0.0)
    for each in calls:
        recording.add(each)
    return [turn.prompt for session in recording.sessions for turn in session.turns]


@given(TEXTS, st.integers(1, 5))
def test_spans_agree_as_blocks_do(texts, block):
    """Two prompts share the blocks whose ids they share, and nothing else; equal prompts have equal content."""
    ids = Ids(block)
    rows = [(ids.of(text), len(text)) for text in texts]
    contents = recorded(Call(ROW, tokens, 1, ids=each, block_tokens=block) for each, tokens in rows)
    for (blocks, tokens), content in zip(rows, contents, strict=True):
        assert count(content) == tokens
        assert canonical(content) == content
        for (others, other_tokens), other in zip(rows, contents, strict=True):
            shared = len(set(blocks) & set(others))
            assert common_prefix(content, other) == min(shared * block, tokens, other_tokens)
            assert (content == other) == (blocks == others)


@given(TEXTS, st.integers(2, 5))
def test_an_unnamed_tail_equals_nothing(texts, block):
    """Where ids name full blocks only, what lies behind them is shared with nobody, not even with an equal length."""
    ids = Ids(block)
    rows = [ids.of(text, names_tail=False) for text in texts]
    contents = recorded(
        Call(ROW, len(text), 1, ids=each, block_tokens=block) for text, each in zip(texts, rows, strict=True)
    )
    for one, (blocks, content) in enumerate(zip(rows, contents, strict=True)):
        for other in range(one):
            shared = len(set(blocks) & set(rows[other]))
            assert common_prefix(content, contents[other]) == shared * block


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), PIECES), min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 3)
)
def test_local_ids_are_shared_within_a_session_and_by_the_common_blocks(rows, block, common):
    """Ids of two sessions name two contents, but for the first blocks where these are common to all."""
    ids = Ids(block)
    named = [(name, text, ids.of(text)) for name, text in rows]
    recording = Recording(is_live=False, shared_tokens=0, token_s=0.0)
    for name, text, each in named:
        recording.add(Call(ROW, len(text), 1, name, ids=each, block_tokens=block, is_local=True, common_blocks=common))
    turns = {each.name: list(each.turns) for each in recording.sessions}
    contents = [(name, text, blocks, turns[name].pop(0).prompt) for name, text, blocks in named]
    for name, text, blocks, content in contents:
        for other_name, other_text, others, other in contents:
            shared = min(len(set(blocks) & set(others)) * block, len(text), len(other_text))
            if name != other_name:
                full = min(common, len(text) // block, len(other_text) // block)
                # Common blocks are equal whatever their ids; behind them sessions part.
                assert common_prefix(content, other) == full * block
            elif min(len(text), len(other_text)) // block >= common:
                assert common_prefix(content, other) >= shared


def test_a_partial_block_equals_only_itself():
    """A partial block is no part of a full one, nor of a longer partial one, even under one id."""
    contents = recorded(Call(ROW, tokens, 1, ids=[0, 1], block_tokens=4) for tokens in (6, 8, 7, 6))
    partial, full, longer, again = contents
    assert common_prefix(partial, full) == common_prefix(partial, longer) == common_prefix(full, longer) == 4
    assert again == partial


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 6), st.integers(0, 40) | st.just(REPEATS_ALL)),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_a_session_repeats_what_it_says(rows, is_live):
    """Without ids: a prompt shares with the one before, and its answer if that counts, what it repeats."""
    recording = Recording(is_live=is_live, shared_tokens=0, token_s=0.0)
    for tokens, output, kept in rows:
        recording.add(Call(ROW, tokens, output, "s", kept_tokens=kept))
    [session] = recording.sessions
    before = ()
    for (tokens, output, kept), turn in zip(rows, session.turns, strict=True):
        assert count(turn.prompt) == tokens
        assert canonical(turn.prompt) == turn.prompt
        assert common_prefix(before, turn.prompt) == min(kept, tokens, count(before))
        before = canonical((*turn.prompt, (turn.output_source, output))) if is_live else turn.prompt
