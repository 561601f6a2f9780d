"""The prefix tree over spans equals a naive one over characters, step by step."""

from os.path import commonprefix

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from policies._content import canonical
from policies._content_tree import ContentTree

CONTENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=4).map(canonical)
TENANTS = st.sampled_from("xyz")


def spell(content):
    """A text of one character a token: two contents share a prefix exactly as their spellings do."""
    return "".join(chr(100 * (source + 1) + token) for source, length in content for token in range(length))


class Leaf:
    """A node of the naive tree: a piece of text and who has it."""

    def __init__(self, text, parent):
        self.text, self.parent = text, parent
        self.children, self.tenants, self.last = {}, {}, None


class CharacterTree:
    """The same rules on plain strings, without any shortcut."""

    def __init__(self):
        self.root, self.number = Leaf("", None), 0

    def tick(self):
        self.number += 1
        return self.number - 1

    def insert(self, text, tenant):
        node = self.root
        node.tenants.setdefault(tenant, 0)
        while text:
            child = node.children.get(text[0])
            if child is None:
                child = node.children[text[0]] = Leaf(text, node)
                child.last = tenant
            shared = len(commonprefix([text, child.text]))
            if shared < len(child.text):
                child = self.split(child, shared)
            child.tenants.setdefault(tenant, 0)
            node, text = child, text[shared:]
        node.tenants[tenant] = self.tick()

    def split(self, node, shared):
        upper = node.parent.children[node.text[0]] = Leaf(node.text[:shared], node.parent)
        upper.tenants, upper.last = dict(node.tenants), node.last
        node.text, node.parent = node.text[shared:], upper
        upper.children[node.text[0]] = node
        return upper

    def match(self, text):
        node, matched = self.root, 0
        while text and text[0] in node.children:
            node = node.children[text[0]]
            shared = len(commonprefix([text, node.text]))
            matched, text = matched + shared, text[shared:]
            if shared < len(node.text):
                break
        number = self.tick()
        if not node.tenants:
            return None, matched
        if node.last not in node.tenants:
            node.last = min(node.tenants)
        if number % 8 == 0:
            node.tenants[node.last] = number
        return node.last, matched

    def nodes(self):
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def drop(self, node, tenant):
        del node.tenants[tenant]
        if not node.tenants and node.parent:
            del node.parent.children[node.text[0]]

    def leaves(self, tenant):
        return [
            node
            for node in self.nodes()
            if tenant in node.tenants and not any(tenant in child.tenants for child in node.children.values())
        ]

    def remove(self, tenant):
        while leaves := self.leaves(tenant):
            self.drop(leaves[0], tenant)

    def size(self, tenant):
        return sum(len(node.text) for node in self.nodes() if tenant in node.tenants)

    def evict(self, most):
        for tenant in list(self.root.tenants):
            while self.size(tenant) > most:
                oldest = min(self.leaves(tenant), key=lambda node: node.tenants[tenant])
                self.drop(oldest, tenant)


def shape(node, size):
    """Everything about a subtree that a decision can depend on, without the text."""
    below = sorted((shape(child, size) for child in node.children.values()), key=repr)
    return size(node), sorted(node.tenants.items()), node.last, below


class BothTrees(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.tree, self.naive = ContentTree(), CharacterTree()

    @rule(content=CONTENTS, tenant=TENANTS)
    def insert(self, content, tenant):
        self.tree.insert(content, tenant)
        self.naive.insert(spell(content), tenant)

    @rule(content=CONTENTS)
    def match(self, content):
        place = self.tree.find(content)
        assert (self.tree.touch(place[0], min), place[4]) == self.naive.match(spell(content))

    @rule(content=CONTENTS, tenant=TENANTS)
    def match_and_attach(self, content, tenant):
        place = self.tree.find(content)
        assert (self.tree.touch(place[0], min), place[4]) == self.naive.match(spell(content))
        self.tree.attach(place, content, tenant)
        self.naive.insert(spell(content), tenant)

    @rule(tenant=TENANTS)
    def remove(self, tenant):
        self.tree.remove(tenant)
        self.naive.remove(tenant)

    @rule(most=st.integers(0, 30))
    def evict(self, most):
        tied = [
            tenant
            for tenant in self.naive.root.tenants
            if len(self.naive.leaves(tenant)) != len({leaf.tenants[tenant] for leaf in self.naive.leaves(tenant)})
        ]
        if not tied:
            # Equal numbers leave the order of eviction open, in the product too.
            self.tree.evict(most)
            self.naive.evict(most)

    @invariant()
    def trees_are_equal(self):
        assert shape(self.tree.root, lambda node: node.size) == shape(self.naive.root, lambda node: len(node.text))

    @invariant()
    def sizes_are_kept(self):
        assert self.tree.sizes == {tenant: self.naive.size(tenant) for tenant in self.naive.root.tenants}


TestBothTrees = BothTrees.TestCase
TestBothTrees.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_a_prefix_stays_with_its_first_sender():
    """A second tenant of a shared prefix does not take it over; it owns only what it sent first."""
    tree = ContentTree()
    tree.insert(((0, 10), (1, 5)), "first")
    tree.insert(((0, 10), (2, 5)), "second")
    assert tree.touch(tree.find(((0, 10), (3, 5)))[0], min) == "first"
    assert tree.touch(tree.find(((0, 10), (2, 1)))[0], min) == "second"


def test_part_of_an_edge_counts():
    """The deepest node entered answers even if only part of its edge agrees."""
    tree = ContentTree()
    tree.insert(((0, 100), (1, 50)), "x")
    for content, matched in [(((0, 40),), 40), (((0, 40), (7, 9)), 40), (((0, 100), (1, 80)), 150), (((5, 4),), 0)]:
        assert tree.find(content)[4] == matched


def test_eviction_drops_the_oldest_leaf_first():
    """A tenant over its budget loses its least recent prompt, and the shared head last."""
    tree = ContentTree()
    for source in (1, 2, 3):
        tree.insert(((0, 10), (source, 10)), "x")
    tree.evict(30)
    assert [tree.find(((0, 10), (source, 10)))[4] for source in (1, 2, 3)] == [10, 20, 20]
    tree.evict(0)
    assert tree.sizes == {"x": 0}
    assert tree.root.children == {}


def test_one_budget_is_cut_from_the_oldest_leaf():
    """All tenants together are cut, oldest leaf first, and a prefix lives as long as a leaf below it."""
    tree = ContentTree()
    tree.insert(((1, 10), (2, 5)), "a")
    tree.insert(((1, 10), (3, 5)), "b")
    tree.insert(((4, 10),), "a")
    tree.evict_all(40)
    assert sum(tree.sizes.values()) == 40
    tree.evict_all(25)
    assert tree.sizes == {"a": 10, "b": 15}
    tree.evict_all(10)
    assert tree.sizes == {"a": 10, "b": 0}
    tree.evict_all(0)
    assert tree.sizes == {"a": 0, "b": 0}
    assert tree.root.children == {}


def test_matches_of_every_tenant():
    """Each tenant shares as much as it has on the path, in whole or in part of an edge."""
    tree = ContentTree()
    tree.insert((), "none")
    tree.insert(((1, 10), (2, 5)), "deep")
    tree.insert(((1, 10), (3, 5)), "shallow")
    assert tree.matches(tree.find(((1, 10), (2, 3)))) == {"deep": 13, "shallow": 10, "none": 0}
    assert tree.matches(tree.find(((9, 1),))) == {"deep": 0, "shallow": 0, "none": 0}
