"""Content as spans: encoded texts share exactly what the texts share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._content import Spans, canonical, common_prefix, count, cut, extend

texts = st.lists(st.text("ab", max_size=12), min_size=2, max_size=12)
spans = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=6)


def shared(one, other):
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


@given(texts)
def test_encoded_texts_share_what_the_texts_share(all_texts):
    """The common prefix of any two encoded texts is that of the texts, in whatever order they came."""
    encoder = Spans()
    contents = [encoder.encode(text) for text in all_texts]
    for one, content in zip(all_texts, contents, strict=True):
        assert count(content) == len(one)
        assert canonical(content) == content
        for other, other_content in zip(all_texts, contents, strict=True):
            assert common_prefix(content, other_content) == shared(one, other)


@given(texts)
def test_the_same_text_has_the_same_content(all_texts):
    """Encoding again gives the same spans, however much came in between."""
    encoder = Spans()
    first = [encoder.encode(text) for text in all_texts]
    for text, content in zip(all_texts, first, strict=True):
        again = encoder.encode(text)
        assert common_prefix(again, content) == count(content) == count(again)


@given(texts, st.integers(1, 5))
def test_symbols_may_stand_for_several_tokens(all_texts, tokens):
    """A chain of block ids counts whole blocks."""
    encoder = Spans()
    contents = [encoder.encode(text, tokens) for text in all_texts]
    for one, content in zip(all_texts, contents, strict=True):
        assert common_prefix(contents[0], content) == tokens * shared(all_texts[0], one)


@given(spans, st.integers(0, 30))
def test_a_cut_is_a_prefix(parts, tokens):
    """The first n tokens agree with the whole, and are n unless the whole is shorter."""
    content = canonical(parts)
    head = cut(content, tokens)
    assert count(head) == common_prefix(head, content) == min(tokens, count(content))
    assert canonical(head) == head


@given(spans, st.integers(0, 3), st.integers(0, 5))
def test_extending_is_appending(parts, source, tokens):
    """Extending equals putting one more span behind."""
    assert extend(canonical(parts), source, tokens) == canonical([*parts, (source, tokens)])


def test_agreement_ends_where_a_length_differs():
    """The shorter of two lengths counts, and nothing behind it."""
    assert common_prefix(((1, 10), (2, 5)), ((1, 8), (2, 5))) == 8
    assert common_prefix(((1, 10), (2, 5)), ((1, 10), (2, 3), (4, 1))) == 13
    assert common_prefix(((1, 10),), ((3, 10),)) == 0


def test_a_negative_length_is_refused():
    """No span has fewer than no tokens."""
    with pytest.raises(ValueError, match="cannot have -1 tokens"):
        canonical([(0, -1)])
