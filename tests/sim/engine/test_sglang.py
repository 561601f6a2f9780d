"""SGLang's order of work on small scenarios worked by hand: pages of one token, steps of 10 ms, times in ms."""

import pytest

from tests.sim.engine.worlds import Bench, request


@pytest.fixture(params=[True, False], ids=["stepping", "jumping"])
def bench(request):
    """A bench of one SGLang engine, driven step by step and by jumps."""

    def make(tokens=100_000, **fields):
        return Bench("sglang", tokens, step_by_step=request.param, **fields)

    return make


def test_prefill_first():
    """A prompt that arrives is prefilled alone, while decoding waits; then all decode."""
    bench = Bench("sglang").send(0, request(0, 50, 4)).send(15, request(1, 40, 2))
    zero, one = bench.run()
    assert bench.steps == [(0, {0: 50}, 0), (10, {}, 1), (20, {1: 40}, 0), (30, {}, 2), (40, {}, 1)]
    assert (zero.ended, one.first_token, one.ended) == (50, 30, 40)


def test_the_chunk_budget_cuts_the_last_prompt():
    """64 tokens a batch: the second prompt is cut, comes first next time, and nobody joins a batch beyond it."""
    bench = Bench("sglang", chunked_prefill_tokens=64)
    bench.send(0, request(0, 40), request(1, 40), request(2, 130)).run()
    assert [chunks for _, chunks, _ in bench.steps] == [{0: 40, 1: 24}, {1: 16, 2: 48}, {2: 64}, {2: 18}]


def test_decoding_waits_for_all_chunks(bench):
    """A prompt in three chunks holds up those who decode for three steps."""
    world = bench(chunked_prefill_tokens=64).send(0, request(0, 20, 3)).send(5, request(1, 150, 1))
    zero, one = world.run()
    assert (zero.first_token, one.first_token, zero.ended) == (10, 40, 60)


def test_the_prefill_budget_starts_another_batch():
    """100 new tokens a batch: a second prompt of 60 waits for the next batch; one of 150 goes alone, whole."""
    bench = Bench("sglang", max_prefill_tokens=100)
    bench.send(0, request(0, 60), request(1, 60), request(2, 150)).run()
    assert [chunks for _, chunks, _ in bench.steps] == [{0: 60}, {1: 60}, {2: 150}]


# The pool has 200 tokens, 0 has a prompt of 50 and a limit of 100. In its batch: 200 - 50 - 100 = 50 left for others.
# Once it runs it has 99 to generate; after k decode steps, k * 0.602 / steps below the ratio of 0.7,
#     left(k) = 150 - k - (99 - k) * ratio(k).
@pytest.mark.parametrize(
    ("prompt", "limit", "fields", "scheduled"),
    [
        (20, 29, {}, 0),  # needs 49 < 50
        (20, 30, {}, 10),  # 50 is not below 50; left(0) = 150 - 99 * 0.7 = 80.7
        (50, 30, {}, 10),  # 80 < 80.7
        (50, 31, {"new_token_ratio_decay_steps": 6}, 20),  # 81; ratio(1) = 0.5997: 149 - 98 * 0.5997 = 90.2
        (50, 50, {"new_token_ratio_decay_steps": 6}, 40),  # 100; left(2) = 99.6, left(3) = 147 - 96 * 0.399 = 108.7
        (50, 50, {"schedule_conservativeness": 0.3}, 10),  # left(0) = 150 - 99 * 0.21 = 129.2
        (50, 50, {"clip_max_new_tokens": 16}, 0),  # 50 + 16 < 200 - 50 - 16
        (100, 49, {"new_token_ratio_decay_steps": 6}, 400),  # 149: never beside 0, which ends after 40 steps
    ],
)
def test_admission_reserves_for_outputs(bench, prompt, limit, fields, scheduled):
    """New tokens and the clipped limit must stay below free tokens less the share of the limits of who runs."""
    world = bench(200, **fields).send(0, request(0, 50, 40, 100), request(1, prompt, 1, limit))
    assert world.run()[1].scheduled == scheduled


def test_fewest_output_tokens_are_retracted_first(bench):
    """The younger, shorter request gives way: it has generated less."""
    # 0 has 42 tokens, 3 of them generated, when 1 is prefilled at 30. 62 of 70: four steps of two, the fifth lacks two.
    world = bench(70, clip_max_new_tokens=1).send(0, request(0, 40, 15, 16)).send(25, request(1, 20, 15, 16))
    zero, one = world.run()
    assert (zero.preemptions, one.preemptions) == (0, 1)
    assert (one.first_token, zero.ended) == (40, 160)  # 15 steps and the prefill of 1


def test_longest_prompt_first_among_equals(bench):
    """Of two with as many output tokens the longer prompt gives way."""
    # 30 + 40 tokens of 80 at 0: 5 steps of two tokens fit, the sixth does not.
    world = bench(80, clip_max_new_tokens=1).send(0, request(0, 40, 15), request(1, 30, 15))
    zero, one = world.run()
    assert (zero.preemptions, one.preemptions, one.ended) == (1, 0, 150)
    # 0 had 6 of its tokens when it was retracted, 5 of them in memory: only the sixth is computed for the first time.
    assert zero.prefill_tokens - zero.recomputed_tokens == 40 + 1


def test_a_retraction_sets_the_reserve_anew():
    """The share becomes (generated + 20 each) over the limits of who still runs and one."""
    bench = Bench("sglang", 800, clip_max_new_tokens=1)
    shares, form = [], bench.scheduler.form
    bench.scheduler.form = lambda now: (form(now), shares.append(bench.scheduler.reserve.ratio))[0]
    bench.send(0, request(0, 400, 150), request(1, 300, 150, 400)).run()
    # 100 free tokens last 50 steps of two; then 0 goes and 1 has 51 tokens of at most 400.
    assert (51 + 20) / (400 + 1) in shares
    assert bench.scheduler.reserve.ratio == 0.7  # idle


def test_the_ratio_returns_when_idle(bench):
    """What decayed while busy is forgotten by an idle engine: the same request waits as long again."""
    fields = {"new_token_ratio_decay_steps": 6}
    world = bench(200, **fields)
    world.send(0, request(0, 50, 40, 100), request(1, 50, 1, 50))
    world.send(1000, request(2, 50, 40, 100), request(3, 50, 1, 50))
    _, one, _, three = world.run()
    assert (one.scheduled, three.scheduled) == (40, 1040)


def test_a_cached_prompt_computes_its_last_token():
    """The match is one token short of the prompt."""
    bench = Bench("sglang").send(0, request(0, ((7, 64),))).send(50, request(1, ((7, 64),)))
    _, two = bench.run()
    assert (two.cached_tokens, two.prefill_tokens) == (63, 1)


def test_pages_of_sixteen():
    """With larger pages a match is whole pages: 48 of 64."""
    bench = Bench("sglang", block_tokens=16).send(0, request(0, ((7, 64),))).send(50, request(1, ((7, 64),)))
    assert bench.run()[1].cached_tokens == 48


def test_the_least_recently_used_leaf_goes_first():
    """Three prompts of 30 in a pool of 100; the oldest was used again, so the second gives way, whole."""
    bench = Bench("sglang", 100)
    for when, source in ((0, 7), (20, 8), (40, 9), (60, 7)):
        bench.send(when, request(when, ((source, 30),)))
    bench.send(80, request(80, ((10, 20),)))  # 90 and 1 held; 20 do not fit: prompt 8 goes
    for when, source in ((100, 8), (120, 7), (140, 9)):
        bench.send(when, request(when, ((source, 30),)))
    hits = {each.view.id: each.cached_tokens for each in bench.run()}
    assert hits[60] == 29
    assert (hits[100], hits[120]) == (0, 29)


def test_too_large_is_rejected_at_once(bench):
    """Prompt and limit must stay below the pool."""
    one, two = bench(160).send(7, request(0, 100, 1, 60), request(1, 100, 1, 59)).run()
    assert (one.status, one.ended) == (2, 7)
    assert (two.status, two.ended) == (0, 17)
