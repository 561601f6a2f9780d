"""The reuse ceiling of a workload: what one shared cache without limit would still have to compute.

All prompts pass, in the order in which their sessions start, through a trie of spans. Content is cut into blocks from
its start; a block is reused where the same chain of blocks has been there before. A last, partial block is reused by a
prompt that an earlier one equals as a whole; so a hit is counted up to the whole prompt, although an engine would
compute the last token, or block, once more. Of a live session the generated tokens are content too, but for the last
one, whose KV is never computed.

For chains the count is taken over whole columns. Left out: time. Prompts that are computed at the same moment on a real
engine may both pay.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from policies._content import PRIVATE, Content, count, extend
from sim.workload._chains import Chains
from sim.workload._lengths import Ints
from sim.workload._model import Session, Workload

Flags = np.ndarray[Any, np.dtype[np.bool_]]


class _Branch:
    """What is known of one source below one place: how far it goes, where prompts end, where other sources follow."""

    __slots__ = ("ends", "follow", "longest")

    def __init__(self) -> None:
        self.longest = 0
        self.ends: set[int] = set()
        self.follow: dict[int, _Node] = {}


_Node = dict[int, _Branch]


class Trie:
    """Contents seen so far."""

    def __init__(self) -> None:
        self._root: _Node = {}

    def match(self, content: Content) -> tuple[int, bool]:
        """Tokens of the longest prefix seen, and whether a prompt equal to the whole content was."""
        node: _Node | None = self._root
        shared, branch, length = 0, None, 0
        for source, length in content:
            branch = node.get(source) if node else None
            if branch is None:
                return shared, False
            if length > branch.longest:
                return shared + branch.longest, False
            shared += length
            node = branch.follow.get(length)
        return shared, branch is not None and length in branch.ends

    def insert(self, content: Content, is_prompt: bool) -> None:
        """Remember a content; ``is_prompt``: also that a prompt ends with it."""
        node, branch, length = self._root, None, 0
        for source, length in content:
            branch = node.get(source)
            if branch is None:
                branch = node[source] = _Branch()
            branch.longest = max(branch.longest, length)
            node = branch.follow.setdefault(length, {})
        if is_prompt and branch is not None:
            branch.ends.add(length)


def ideal_prefill_tokens(workload: Workload, block_tokens: int) -> int:
    """Prompt tokens that are left to compute with one cache for all, blocks of ``block_tokens``, nothing evicted."""
    if type(workload) is Chains:
        return _of_chains(workload, block_tokens)
    trie = Trie()
    computed = 0
    for session in in_order(workload):
        for turn in session.turns:
            tokens = count(turn.prompt)
            shared, is_known = trie.match(turn.prompt)
            computed += 0 if is_known else tokens - shared // block_tokens * block_tokens
            trie.insert(turn.prompt, True)
            if turn.output_source != PRIVATE:
                trie.insert(extend(turn.prompt, turn.output_source, turn.output_tokens - 1), False)
    return computed


def _of_chains(workload: Chains, block_tokens: int) -> int:
    """The same count: a first turn finds what other sessions have left of its head, a later one its own last turn."""
    heads, own, answers, first = workload.flat()
    before = np.roll(own, 1)
    shared = heads + np.minimum(own, before + np.maximum(np.roll(answers, 1) - 1, 0))
    is_known = own == before
    shared[first], is_known[first] = _known_heads(workload, own[first])
    computed = heads + own - shared // block_tokens * block_tokens
    return int(computed[~is_known].sum())


def _known_heads(workload: Chains, own: Ints) -> tuple[Ints, Flags]:
    """By session: tokens of its first prompt known when it starts, and whether another prompt equals all of it."""
    order = _starts(workload)
    tokens = workload.head_tokens
    head = np.where(tokens > 0, workload.head_of, -1)
    is_first, is_own_first = np.zeros((2, workload.sessions), dtype=np.bool_)
    is_first[order[np.unique(head[order], return_index=True)[1]]] = True
    bare = order[own[order] == 0]
    is_own_first[bare[np.unique(head[bare], return_index=True)[1]]] = True
    shared = np.where(is_first, 0, tokens) + workload.system_tokens
    shared[order[0]] = 0
    return shared, (own == 0) & ~is_own_first


def in_order(workload: Workload) -> Iterator[Session]:
    """Sessions in the order in which they start, those of one group by id."""
    for index in _starts(workload).tolist():
        yield workload.session(index)


def _starts(workload: Workload) -> Ints:
    rank = np.empty(workload.groups, dtype=np.int64)
    rank[workload.order] = np.arange(workload.groups)
    return np.argsort(rank[workload.group_of], kind="stable")
