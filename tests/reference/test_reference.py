"""The reference by hand: what its readers may take for granted. Steps of 10 ticks."""

from sim.cost._coefficients import Coefficients
from sim.engine.spec import EngineSpec, resolve
from tests.reference.radix import Radix
from tests.reference.sglang import Sglang
from tests.reference.vllm import Vllm
from tests.reference.world import Call, World

FLAT = Coefficients(t0=10.0, slopes=((0, 0.0),))


def call(serial, prompt, output=1, limit=None):
    """A call whose prompt is given as tokens, or as a number of tokens of its own."""
    prompt = [10_000 * (1 + serial) + place for place in range(prompt)] if isinstance(prompt, int) else prompt
    said = [10_000 * (1 + serial) + 5_000 + place for place in range(output)]
    return Call(serial, prompt, said, output if limit is None else limit)


def serve(preset, *timed, **fields):
    """Serve calls at ticks; returns the scheduler."""
    spec = resolve(EngineSpec(preset, **{"overlap": False, "kv_tokens": 1600} | fields))
    world = World(lambda: (Vllm if preset == "vllm" else Sglang)(spec), FLAT, timed, (), overlap=spec.overlap)
    world.run()
    return world.scheduler


def test_a_cached_prompt_is_computed_into_a_second_block():
    """Of 64 cached tokens 48 are hit; the last block is computed again and there are two of it."""
    one, two = call(0, list(range(64))), call(1, list(range(64)))
    blocks = serve("vllm", (one, 0), (two, 10)).blocks
    assert (two.cached, two.prefilled, two.first_token) == (48, 16, 20)
    assert [len(same) for same in blocks.found.values()] == [1, 1, 1, 2]


def test_blocks_go_back_last_first():
    """100 blocks, four in use: the queue is 96 never used, then the four from the last to the first."""
    blocks = serve("vllm", (call(0, 64), 0)).blocks
    assert list(blocks.free) == [*range(4, 100), 3, 2, 1, 0]


def test_siblings_in_one_step_see_each_other_at_schedule():
    """One computes, three hit, in one step."""
    siblings = [call(serial, list(range(64))) for serial in range(4)]
    serve("vllm", *((each, 0) for each in siblings))
    assert [each.cached for each in siblings] == [0, 48, 48, 48]
    assert {each.ended for each in siblings} == {10}


def test_siblings_in_one_batch_do_not_see_each_other_in_sglang():
    """Two fit the chunk budget and compute both; the others hit all but the last token."""
    siblings = [call(serial, list(range(64))) for serial in range(4)]
    serve("sglang", *((each, 0) for each in siblings), chunked_prefill_tokens=128)
    assert [each.cached for each in siblings] == [0, 0, 63, 63]


def test_an_arrival_waits_for_the_step_after_the_next_with_overlap():
    """Sent at 25, in the step [40, 50]; without overlap in [30, 40]."""
    for preset in ("vllm", "sglang"):
        for overlap, first_token in ((False, 40), (True, 50)):
            late = call(1, 20)
            serve(preset, (call(0, 20, 30), 0), (late, 25), overlap=overlap)
            assert late.first_token == first_token


def test_what_is_inserted_at_once_is_one_node_and_goes_at_once():
    """Thirty tokens of which another prompt shares ten: a match of ten splits the node; then the tails go whole."""
    radix = Radix(100, 1)
    radix.insert(list(range(30)))
    assert [len(node.pages) for node in radix.nodes()] == [30]
    radix.insert([*range(10), 99, 98])
    assert sorted(len(node.pages) for node in radix.nodes()) == [2, 10, 20]
    radix.free = 0
    radix.make_room(1)
    # All three were accessed by the second insertion; of the leaves the tail of the first prompt was there before.
    assert radix.free in {2, 20}


def test_a_match_accesses_what_it_splits_off():
    """Prompt 1 is older than prompt 2, but a match inside prompt 1 makes all of it the latest."""
    radix = Radix(100, 1)
    radix.insert(list(range(20)))
    radix.insert(list(range(50, 70)))
    radix.match(list(range(5)))
    radix.free = 0
    radix.make_room(1)
    assert radix.contents() == {tuple(range(end)) for end in range(1, 21)}


def test_retraction_comes_when_the_tree_is_empty():
    """A cached prompt that nobody uses goes first; then, of equals, the longest prompt."""
    # 100 pages: 20 cached, prompts of 30 and 29. Ten steps of two pages, then the cached prompt goes; ten more, and one
    # page is left for two. The first is retracted with 20 tokens said; it comes back to its 30 and computes 21 again.
    old, zero, one = call(0, 20), call(1, 30, 40), call(2, 29, 30)
    scheduler = serve("sglang", (old, 0), (zero, 20), (one, 20), kv_tokens=100, clip_max_new_tokens=1)
    assert (zero.preemptions, one.preemptions) == (1, 0)
    assert tuple(old.prompt[:1]) not in scheduler.contents()
    assert zero.prefilled - 30 in {20, 21}
