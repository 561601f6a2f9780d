"""The reuse ceiling of a workload: what one shared cache without limit would still have to compute.

All prompts pass, in the order in which their sessions start, through a trie of spans. Content is cut into blocks from
its start; a block is reused where the same chain of blocks has been there before. A last, partial block is reused by a
prompt that an earlier one equals as a whole; so a hit is counted up to the whole prompt, although an engine would
compute the last token, or block, once more. Of a live session the generated tokens are content too, but for the last
one, whose KV is never computed.

Left out: time. Prompts that are computed at the same moment on a real engine may both pay.
"""

from collections.abc import Iterator

import numpy as np

from policies._content import PRIVATE, Content, count, extend
from sim.workload._model import Session, Workload


class _Branch:
    """What is known of one source below one place: how far it goes, where prompts end, where other sources follow."""

    __slots__ = ("ends", "follow", "longest")

    def __init__(self) -> None:
        self.longest = 0
        self.ends: set[int] = set()
        self.follow: dict[int, _Node] = {}


_Node = dict[int, _Branch]


class _Trie:
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
    trie = _Trie()
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


def in_order(workload: Workload) -> Iterator[Session]:
    """Sessions in the order in which they start, those of one group by id."""
    rank = np.empty(workload.groups, dtype=np.int64)
    rank[workload.order] = np.arange(workload.groups)
    for index in np.argsort(rank[workload.group_of], kind="stable").tolist():
        yield workload.session(index)
