"""vLLM's order of work on small scenarios worked by hand: blocks of 16 tokens, steps of 10 ms, times in ms."""

import pytest

from sim.log.record import REJECTED
from tests.sim.engine.worlds import Bench, request


@pytest.fixture(params=[True, False], ids=["stepping", "jumping"])
def bench(request):
    """A bench of one vLLM engine, driven step by step and by jumps."""

    def make(blocks=1000, **fields):
        return Bench("vllm", 16 * blocks, step_by_step=request.param, **fields)

    return make


def test_running_first_then_waiting_within_the_budget():
    """A prompt cut by the budget goes on before new prompts; decodes cost one token each."""
    bench = Bench("vllm", max_num_batched_tokens=100)
    bench.send(0, request(0, 60, 3), request(1, 60, 2), request(2, 90, 1)).run()
    assert bench.steps == [
        (0, {0: 60, 1: 40}, 0),
        (10, {1: 20, 2: 79}, 1),  # 100 = 1 decode + 20 rest of 1 + 79 of 2
        (20, {2: 11}, 2),
    ]


def test_the_last_prompt_token_gives_the_first_output_token(bench):
    """A prompt of 250 in chunks of 100: first token after three steps, three more tokens after three more."""
    (one,) = bench(max_num_batched_tokens=100).send(0, request(0, 250, 4)).run()
    assert (one.scheduled, one.first_token, one.ended) == (0, 30, 60)
    assert one.prefill_tokens == 250


def test_a_threshold_cuts_every_chunk():
    """``long_prefill_token_threshold`` 32: chunks of 32, 32, 32 and 4, and room for others beside."""
    bench = Bench("vllm", long_prefill_token_threshold=32)
    bench.send(0, request(0, 100), request(1, 40)).run()
    assert [chunks for _, chunks, _ in bench.steps] == [{0: 32, 1: 32}, {0: 32, 1: 8}, {0: 32}, {0: 4}]


def test_places_in_the_batch(bench):
    """``max_num_seqs`` 1: one after the other."""
    one, two = bench(max_num_seqs=1).send(0, request(0, 20, 3), request(1, 20, 2)).run()
    assert (one.ended, two.scheduled, two.ended) == (30, 30, 50)


def test_who_cannot_be_admitted_blocks_who_could(bench):
    """Head-of-line blocking: 3 of 10 blocks are free, the head needs 5, the 2 that the next needs are not tried."""
    world = bench(10)
    # 0 holds 7 blocks (100 tokens, up to 104 with its output); it ends after 5 steps.
    zero, one, two = world.send(0, request(0, 100, 5), request(1, 80, 1), request(2, 20, 1)).run()
    assert zero.ended == 50
    assert one.scheduled == two.scheduled == 50


def test_admission_by_the_first_chunk_only(bench):
    """Without ``reserve_full_prompt`` the head is admitted for its first chunk: 28 tokens of budget, 2 of 3 blocks."""
    fields = {"max_num_batched_tokens": 128, "reserve_full_prompt": False}
    _, one = bench(10, **fields).send(0, request(0, 100, 5), request(1, 80, 1)).run()
    assert one.scheduled == 0


def test_the_watermark_counts_beside_others_only(bench):
    """A watermark of 4 of 10 blocks: the first request may take 9, a second beside 4 + 4 needs 3 + 4 of 6 free."""
    (alone,) = bench(10, watermark_share=0.4).send(0, request(0, 140, 1)).run()
    assert alone.scheduled == 0
    for share, scheduled in ((0.3, 0), (0.4, 50)):
        _, one = bench(10, watermark_share=share).send(0, request(0, 50, 5), request(1, 40, 1)).run()
        assert one.scheduled == scheduled


def test_the_latest_admitted_is_preempted_and_finds_its_own_blocks(bench):
    """Two grow to 4 blocks each of 8; the older one's fifth takes one of the younger, which resumes when it ends."""
    # Prompts of 48 (3 blocks); the k-th decode step, at 10 k ms, fills slot 48 + k. At step 17 both need a fifth block.
    # 1 is preempted with 64 tokens in 4 blocks and 17 generated; 0 pops its last block from the head of the queue.
    # 0 ends with 20 tokens at 200. 1 has 65 tokens to compute, finds 3 blocks = 48: 17 computed, 16 of them again.
    zero, one = bench(8).send(0, request(0, 48, 20), request(1, 48, 20)).run()
    assert (zero.preemptions, zero.ended, zero.prefill_tokens) == (0, 200, 48)
    assert (one.preemptions, one.prefill_tokens, one.recomputed_tokens, one.cached_tokens) == (1, 48 + 17, 16, 0)
    assert (one.first_token, one.ended) == (10, 230)  # token 18 at 210, 20 at 230


def test_a_request_may_preempt_itself_and_nobody_is_admitted_then(bench):
    """The latest needs a block and none is free: it goes back to the head, before one that waits for less."""
    # 0 has 40 tokens in 3 blocks, 1 has 48 in 3, of 6. At 10, 1 needs a fourth. 0 ends at 50; 1 then computes token 49.
    zero, one, two = bench(6).send(0, request(0, 40, 5), request(1, 48, 3)).send(5, request(2, 5, 1)).run()
    assert zero.ended == 50
    assert (one.preemptions, one.prefill_tokens, one.recomputed_tokens, one.first_token) == (1, 49, 0, 10)
    assert one.ended == 70  # second token at 60, third at 70
    assert two.scheduled == 50


def test_a_partly_done_prompt_is_preempted_too(bench):
    """First-chunk admission runs out in the middle of a prompt: it starts over from what is left of its own blocks."""
    # 6 blocks, budget 33. 0: 30 tokens, 2 blocks, ends with 40 tokens at 400. 1: 80 tokens (5 blocks), 3 in the first
    # step, then 32 each: 3, 35, 67 need 1, 3, 5 blocks; 3 + 2 of 6 are too many for the third chunk and slot 33 of 0.
    fields = {"max_num_batched_tokens": 33, "reserve_full_prompt": False}
    zero, one = bench(6, **fields).send(0, request(0, 30, 40), request(1, 80, 2)).run()
    assert (zero.preemptions, zero.ended) == (0, 400)
    assert one.preemptions >= 1
    assert one.prefill_tokens - one.recomputed_tokens == 80


def test_a_cached_prompt_computes_its_last_block():
    """The hit stays below the prompt's length, in whole blocks: 48 of 64, 64 of 65."""
    for prompt, hit in ((64, 48), (65, 64), (15, 0), (17, 16)):
        one, two = Bench("vllm").send(0, request(0, ((7, prompt),))).send(50, request(1, ((7, prompt),))).run()
        assert (one.cached_tokens, two.cached_tokens) == (0, hit)
        assert two.prefill_tokens == prompt - hit


@pytest.mark.parametrize("siblings", [2, 4, 8])
def test_siblings_see_each_other_at_schedule(siblings):
    """Blocks count as cached once allocated: of n siblings in one step, one computes and n - 1 hit."""
    bench = Bench("vllm").send(0, *(request(serial, ((7, 128), (100 + serial, 8))) for serial in range(siblings)))
    first, *others = bench.run()
    assert first.cached_tokens == 0
    assert [each.cached_tokens for each in others] == [128] * (siblings - 1)
    assert len(bench.steps) == 1


def test_generated_tokens_are_found_by_the_next_turn():
    """Prompt 20 and 20 outputs leave 39 computed tokens, 2 whole blocks; a private output leaves the prompt's one."""
    for source, hit in ((7, 32), (-1, 16)):
        bench = Bench("vllm").send(0, request(0, ((7, 20),), 20, source=source))
        _, two = bench.send(500, request(1, ((7, 60),))).run()
        assert two.cached_tokens == hit


def test_too_large_is_rejected_at_once(bench):
    """Prompt and limit above the pool are an outcome; what just fits is served."""
    one, two = bench(10).send(7, request(0, 100, 1, 61), request(1, 100, 1, 60)).run()
    assert (one.status, one.ended, one.scheduled) == (2, 7, -1)
    assert (two.status, two.ended) == (0, 17)


def test_tail_blocks_go_first():
    """A request gives back its last block first, so that prefixes live longest."""
    # 10 blocks. 0 leaves 6 cached (96 tokens). 1 takes 4 never used, and 3 from the head of the queue: 0's last three.
    bench = (
        Bench("vllm", 160).send(0, request(0, ((7, 96),))).send(50, request(1, 112)).send(100, request(2, ((7, 97),)))
    )
    assert bench.run()[2].cached_tokens == 48


def test_a_blocked_head_asks_in_every_step(bench):
    """The counters grow with each attempt: of 124 tokens 64 hit, at 10 ms, 20 ms and so on until memory is there."""
    first, head = request(0, ((7, 64), (8, 36)), 20), request(1, ((7, 64), (9, 60)), 1)
    bench(10).send(0, first).send(5, head).run()
    assert head.scheduled == 200  # the first holds 7 or 8 of 10 blocks, the head needs 4 more than it hits
    assert (first.queried_tokens, first.hit_tokens) == (100, 0)
    assert (head.queried_tokens, head.hit_tokens, head.cached_tokens) == (20 * 124, 20 * 64, 64)


def test_what_decodes_take_shortens_the_hit_of_a_blocked_head(bench):
    """A cached prompt that nobody holds is eaten block by block while its next request waits at the head.

    Of 10 blocks the second request has 6 at 20 ms and takes one of the four cached at 180, 340 and 500 ms.
    """
    cached, long, head = request(0, ((7, 64),), 1), request(1, 80, 60), request(2, ((7, 64), (9, 80)), 1)
    bench(10).send(0, cached).send(10, long).send(25, head).run()
    assert (head.scheduled, head.cached_tokens) == (610, 16)
    assert (head.queried_tokens, head.hit_tokens) == (59 * 144, 15 * 64 + 16 * 48 + 16 * 32 + 12 * 16)


def test_chunks_end_where_blocks_do(bench):
    """Aligned, a budget of 40 gives chunks of two blocks, then up to the last boundary, then what lies behind it."""
    aligned = Bench("vllm", max_num_batched_tokens=40, max_num_seqs=8, align_chunks=True)
    aligned.send(0, request(0, 100, 1)).run()
    assert [chunks for _, chunks, _ in aligned.steps] == [{0: 32}, {0: 32}, {0: 32}, {0: 4}]
    (one,) = bench(max_num_batched_tokens=40, max_num_seqs=8, align_chunks=True).send(0, request(0, 1000, 3)).run()
    assert (one.first_token, one.ended) == (320, 340)  # 31 chunks of 32, and 8 tokens


def test_a_chunk_without_room_for_a_block_waits_and_a_short_one_goes_by(bench):
    """Each step gives 32 of 40 tokens to a long prompt; 8 are no block of the second, but all of the third."""
    world = bench(max_num_batched_tokens=40, max_num_seqs=8, align_chunks=True)
    one, two, three = world.send(0, request(0, 64, 1)).send(5, request(1, 64, 1), request(2, 5, 1)).run()
    assert (one.first_token, two.scheduled, two.first_token, three.first_token) == (20, 20, 40, 30)


def test_a_state_takes_room_while_its_request_runs(bench):
    """Of 10 blocks a request holds 4 for 60 tokens and 3 for its state: another waits for its end."""
    fields = {"state_tokens_per_seq": 40}
    world = bench(10, **fields).send(0, request(0, 60, 4), request(1, 60, 4))
    assert [each.scheduled for each in world.run()] == [0, 40]
    assert world.scheduler.cache.usage()[0] == 0
    beside = bench(10).send(0, request(0, 60, 4), request(1, 60, 4))
    assert [each.scheduled for each in beside.run()] == [0, 0]
    (large,) = bench(10, **fields).send(0, request(0, 110, 3)).run()
    assert large.status == REJECTED
