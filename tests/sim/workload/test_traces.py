"""Recorded traces: the published files and their figures, every format by hand, files that are broken."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from policies._content import PRIVATE, common_prefix, count
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import Poisson, Recorded
from sim.workload._model import Child
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload.trace import Trace

DATA = Path(__file__).parents[2] / "data" / "traces"
SCENARIOS = Path(__file__).parents[3] / "scenarios"


def generate(spec, base=DATA, replication=0):
    return spec.generate(Streams(1, replication), base)


def sessions(workload):
    return [workload.session(index).turns for index in range(workload.sessions)]


def lengths(workload):
    return [[count(turn.prompt) for turn in turns] for turns in sessions(workload)]


def delays(workload):
    return [[turn.delay_s for turn in turns] for turns in sessions(workload)]


@pytest.mark.parametrize(
    ("file", "requests", "groups", "children"),
    [
        ("synthetic_first_half.jsonl.gz", 1_925, 1_925, 0),
        ("weka/sessions.jsonl.gz", 6_557 + 37, 93, 5),
        ("weka/plain", 322, 10, 4),
        ("miniswe.jsonl.gz", 206, 10, 0),
        ("magagent.jsonl.gz", 392, 13, 0),
        ("turn_shapes.jsonl", 504, 42, 0),
        ("round_trace_example.jsonl", 19, 2, 0),
        ("AzureLLMInferenceTrace_code.csv.gz", 8_819, 8_819, 0),
        ("AzureLLMInferenceTrace_conv_first_half.csv.gz", 9_682, 9_682, 0),
    ],
)
def test_published_files_load_as_they_are(file, requests, groups, children):
    """Formats are told by content, and the rows are as many as the files' own descriptions say."""
    workload = generate(Trace(file))
    assert (workload.summary()["requests"], workload.groups) == (requests, groups)
    assert sum(map(len, workload.children.values())) == children
    assert workload.sessions == groups + children + (16 if file == "turn_shapes.jsonl" else 0)


@pytest.mark.parametrize(
    ("file", "block_tokens", "percent"),
    [
        ("traces/mooncake/conversation_first_half.jsonl.gz", 512, 34.7),
        ("synthetic_first_half.jsonl.gz", 512, 32.2),
        ("traces/codex_replay_like/sessions.jsonl", 16, 96.0),
        ("traces/codex_replay_like/sessions.jsonl", 2080, 94.8),
    ],
)
def test_published_files_have_the_published_reuse(file, block_tokens, percent):
    """Reuse ceilings of the Mooncake halves and of the replay population."""
    workload = generate(Trace(file), SCENARIOS if file.startswith("traces/") else DATA)
    tokens = workload.summary()["prompt_tokens"]
    if "codex" in file:
        assert tokens == 1_570_738_525
    assert round(100 * (1 - ideal_prefill_tokens(workload, block_tokens) / tokens), 1) == percent


def test_the_corpus_shares_within_sessions_and_more_with_a_common_prefix():
    """96 % of the coding sessions' prompt tokens repeat earlier ones; a common prefix adds the first prompts' heads."""
    own, common = (generate(Trace("weka/plain", common_prefix=each)) for each in (False, True))
    assert lengths(own) == lengths(common)
    left = [ideal_prefill_tokens(each, 64) for each in (own, common)]
    assert round(1 - left[0] / own.summary()["prompt_tokens"], 2) == 0.94
    firsts = [turns[0].prompt for turns in sessions(common)]
    assert common_prefix(firsts[0], firsts[1]) >= 64 * 200
    assert common_prefix(*[turns[0].prompt for turns in sessions(own)][:2]) == 0
    assert left[0] - left[1] > 8 * 12_000


def write(folder, rows, name="t.jsonl"):
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    (folder / name).write_text(text)
    return folder


def call(tokens, out, ids, **more):
    return {"input_length": tokens, "output_length": out, "hash_ids": ids, **more}


def test_rows_of_a_session_are_a_closed_loop(tmp_path):
    """Turns wait for answers: a delay is taken as it is, of two times the gap counts, less what the answer took."""
    rows = [
        call(600, 5, [0, 1], session_id="a", timestamp=1000),
        call(1100, 5, [0, 2, 3], session_id="a", delay=250),
        call(10, 50, [9], session_id="b", timestamp=2000),
        call(10, 5, [9], session_id="b", timestamp=4000),
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert lengths(workload) == [[600, 1100], [10, 10]]
    assert delays(workload) == [[0.0, 0.25], [0.0, 2.0]]
    assert workload.arrival_s.tolist() == [1.0, 2.0]
    one, other = sessions(workload)[0]
    assert common_prefix(one.prompt, other.prompt) == 512
    assert sessions(workload)[1][0].prompt == sessions(workload)[1][1].prompt
    assert delays(generate(Trace("t.jsonl", token_s=0.02), tmp_path))[1] == [0.0, 1.0]


def test_aliases_and_texts_are_read(tmp_path):
    """Other names of the same fields; texts become tokens of four characters and share their beginnings."""
    rows = [
        {"session_id": "a", "created_time": 0, "input_tokens": 10, "output_tokens": 5},
        {"session_id": "a", "delay_ms": 500, "input_tokens": 30, "output_tokens": 5},
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert (lengths(workload), delays(workload)) == ([[10, 30]], [[0.0, 0.5]])
    assert common_prefix(*[turn.prompt for turn in sessions(workload)[0]]) == 10
    rows = [
        {"timestamp": 0, "text_input": "What is the capital?", "output_length": 20},
        {"timestamp": 5, "text_input": "What is the capstan?!", "output_length": 20, "extra": {"x": 1}},
        {"timestamp": 9, "messages": [{"role": "user", "content": "Hello, you."}], "output_length": 20},
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert lengths(workload) == [[5], [6], [5]]
    one, two, _ = (turns[0].prompt for turns in sessions(workload))
    assert common_prefix(one, two) == 3


def test_a_row_covers_its_prompt_or_adds_to_the_history(tmp_path):
    """The switch: the second prompt is 40 tokens, or 100 and the answer of 7 and 40 more."""
    rows = [
        {"session_id": "a", "timestamp": 0, "input_length": 100, "output_length": 7},
        {"session_id": "a", "delay": 0, "input_length": 40, "output_length": 7},
    ]
    write(tmp_path, rows)
    assert lengths(generate(Trace("t.jsonl", rows="cover"), tmp_path)) == [[100, 40]]
    adds, live = (generate(Trace("t.jsonl", rows="add", mode=mode), tmp_path) for mode in ("replay", "live"))
    assert lengths(adds) == lengths(live) == [[100, 147]]
    assert [turn.output_source for turn in sessions(adds)[0]] == [PRIVATE, PRIVATE]
    first, second = sessions(live)[0]
    assert second.prompt == ((first.output_source, 147),)
    assert ideal_prefill_tokens(adds, 1) == 147
    assert ideal_prefill_tokens(live, 1) == 147 - 6


AGENTS = [
    call(600, 5, [0, 1], request_id="p0", session_id="p", timestamp=500),
    call(700, 5, [0, 2], request_id="c0", session_id="c", wait_for=["p0"], delay=20),
    call(800, 5, [0, 3], request_id="d0", session_id="d", wait_for=["p0"], tool_wait_ms=30),
    call(1100, 5, [0, 2, 4], request_id="c1", session_id="c", wait_for=["c0"]),
    call(650, 5, [0, 5], request_id="p1", session_id="p", wait_for=["p0", "c1", "d0"], delay=10, tool_wait_ms=5),
]


def test_rows_that_wait_for_others_fork_and_join(tmp_path):
    """Dynamo's rows: two sub-agents start after the first call, and the second call waits for both."""
    write(tmp_path, [AGENTS[0], AGENTS[4] | {"wait_for": ["p0"]}])
    assert generate(Trace("t.jsonl"), tmp_path).children == {}
    workload = generate(Trace("t.jsonl"), write(tmp_path, AGENTS))
    assert workload.groups == 1
    assert workload.arrival_s.tolist() == [0.5]
    assert workload.children == {0: [Child(1, 0, 0.02, 1), Child(2, 0, 0.03, 1)]}
    assert lengths(workload) == [[600, 650], [700, 1100], [800]]
    assert delays(workload)[0] == [0.0, 0.015]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"wait_for": ["nobody"]}, "wait_for names 'nobody', which no row above has"),
        ({"request_id": "p0"}, "request_id 'p0' stands above already"),
        ({"wait_for": "p0"}, "wait_for must be a list"),
        ({"wait_for": ["p0", "c0"]}, "wait_for has a shape that is not made of forks and joins"),
    ],
)
def test_a_graph_that_cannot_be_is_named(tmp_path, change, reason):
    """Unknown and repeated names, and a wait for the middle of a line."""
    write(tmp_path, [*AGENTS[:4], AGENTS[4] | change])
    with pytest.raises(ScenarioError, match=rf"t\.jsonl:5: {reason}"):
        generate(Trace("t.jsonl"), tmp_path)


def weka(t, tokens, out=5, first=1, **more):
    return {"t": t, "type": "n", "in": tokens, "out": out, "hash_ids": [*range(first, first + tokens // 64)], **more}


def test_sub_agents_of_a_session(tmp_path):
    """A sub-agent starts after the call before it and holds the next one back; the think time is cut to its start."""
    agents = [
        {
            "t": 12.0,
            "type": "subagent",
            "agent_id": "x",
            "requests": [weka(0.0, 130, first=50), weka(9.0, 200, first=50)],
        },
        {"t": 13.0, "type": "subagent", "agent_id": "x", "requests": [weka(0.5, 130, first=50)]},
    ]
    requests = [weka(0.0, 100, api_time=4.0), *agents, weka(30.0, 140, think_time=26.0), weka(40.0, 150)]
    rows = [{"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": requests}]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert workload.children == {0: [Child(1, 0, 8.0, 1), Child(2, 0, 9.5, 1)]}
    assert delays(workload) == [[0.0, 8.0, 10.0], [0.0, 9.0], [0.0]]
    main, one, two = sessions(workload)
    assert common_prefix(main[0].prompt, main[1].prompt) == 64
    assert common_prefix(main[1].prompt, main[2].prompt) == 128
    assert common_prefix(one[1].prompt, two[0].prompt) == 128
    assert workload.group_of.tolist() == [0, 0, 0]


def test_ids_of_a_session_are_its_own(tmp_path):
    """Equal ids of two sessions are two contents, unless the file says that its ids are global."""
    rows = [{"id": name, "requests": [weka(0, 640)]} for name in "ab"]
    for scope, shared in (("local", 0), ("global", 640)):
        write(tmp_path, [row | {"hash_id_scope": scope} for row in rows])
        one, other = (turns[0].prompt for turns in sessions(generate(Trace("t.jsonl"), tmp_path)))
        assert common_prefix(one, other) == shared


def test_chats_name_their_parents(tmp_path):
    """Bailian: a chain is a session, the second row that goes on from one parent a line beside it."""
    rows = [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "type": "text", "turn": 1, **call(20, 5, [1, 2])},
        {"chat_id": 2, "parent_chat_id": 99, "timestamp": 2.0, "type": "text", "turn": 4, **call(16, 5, [1])},
        {"chat_id": 3, "parent_chat_id": 1, "timestamp": 4.0, "type": "text", "turn": 2, **call(40, 5, [1, 3, 4])},
        {"chat_id": 4, "parent_chat_id": 1, "timestamp": 5.0, "type": "text", "turn": 2, **call(40, 5, [1, 3, 5])},
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert lengths(workload) == [[20, 40], [16], [40]]
    assert workload.arrival_s.tolist() == [1.5, 2.0]
    assert delays(workload)[0] == [0.0, 2.5]
    assert workload.children == {0: [Child(2, 0, 3.5)]}
    assert common_prefix(sessions(workload)[0][1].prompt, sessions(workload)[2][0].prompt) == 32


def test_rounds_repeat_what_came_before(tmp_path):
    """TraceLab: prompts grow, or fall to what the provider still had; a tool's time lies between calls."""

    def stamp(kind, second):
        return {"event_type": kind, "timestamp": f"2026-06-01T05:40:{second:06.3f}Z"}

    def row(index, tokens, prefix, *events):
        return {
            "session_id": "s", "round_index": index, "input_tokens_total": tokens, "prefix_tokens": prefix,
            "output_tokens": 9, "timing_events": list(events),
        }  # fmt: skip

    rows = [
        row(0, 100, 0, stamp("user_message", 1), stamp("text", 4)),
        row(1, 300, 50, stamp("tool_result", 9), stamp("text", 10)),
        row(2, 200, 80, stamp("user_message", 20.5), stamp("text", 21)),
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert (lengths(workload), delays(workload)) == ([[100, 300, 200]], [[0.0, 5.0, 10.5]])
    first, second, third = (turn.prompt for turn in sessions(workload)[0])
    assert (common_prefix(first, second), common_prefix(second, third)) == (100, 80)


def test_rollouts_of_a_task_start_from_one_prompt(tmp_path):
    """NeMo Gym: groups by task, growth by answer and observation; texts of four characters a token."""
    shape = [{"new_input": 100, "output": 20}, {"new_input": 30, "output": 5}]
    rows = [{"source": "swe", "line": line, "task_index": line // 2, "turns": shape} for line in range(4)]
    workload = generate(Trace("t.jsonl", mode="live"), write(tmp_path, rows))
    assert lengths(workload) == [[100, 150]] * 4
    assert workload.group_of.tolist() == [0, 0, 1, 1]
    one, sibling, other, _ = (turns[0].prompt for turns in sessions(workload))
    assert (common_prefix(one, sibling), common_prefix(one, other)) == (100, 0)
    assert common_prefix(sessions(workload)[0][1].prompt, sessions(workload)[1][1].prompt) == 100
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x" * 40}]},
        {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "output": "y" * 80, "call_id": "1"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "z" * 12}]},
    ]
    rollout = {
        "responses_create_params": {"input": [{"role": "user", "content": "q" * 400}]},
        "response": {"output": items, "usage": {"input_tokens": 1}},
        "_ng_task_index": 7,
        "_ng_rollout_index": 0,
    }
    workload = generate(Trace("t.jsonl"), write(tmp_path, [rollout, rollout | {"_ng_rollout_index": 1}]))
    assert lengths(workload) == [[100, 100 + 11 + 20]] * 2
    assert [turn.output_tokens for turn in sessions(workload)[0]] == [11, 3]
    assert workload.groups == 1
    steps = rollout | {"response": {"output": [items[:3], items]}, "_ng_task_index": 8}
    failed = rollout | {"response": {"output": []}, "_ng_task_index": 9}
    again = generate(Trace("t.jsonl"), write(tmp_path, [failed, steps]))
    assert sessions(again)[0][1].output_tokens == 3
    assert again.sessions == 1
    with pytest.raises(ScenarioError, match="holds no calls"):
        generate(Trace("t.jsonl"), write(tmp_path, [failed]))


def test_token_ids_share_what_they_share(tmp_path):
    """LLMServingSim: flat rows by token ids, sessions by lengths and tool times."""
    rows = [
        {"input_toks": 4, "output_toks": 2, "arrival_time_ns": 0, "input_tok_ids": [1, 2, 3, 4]},
        {"input_toks": 5, "output_toks": 2, "arrival_time_ns": 2_000_000_000, "input_tok_ids": [1, 2, 3, 9, 9]},
        {
            "session_id": "s",
            "arrival_time_ns": 3_000_000_000,
            "sub_requests": [
                {"input_toks": 10, "output_toks": 3, "tool_duration_ns": 500_000_000},
                {"input_toks": 20, "output_toks": 3},
            ],
        },
    ]
    workload = generate(Trace("t.jsonl"), write(tmp_path, rows))
    assert lengths(workload) == [[4], [5], [10, 20]]
    assert workload.arrival_s.tolist() == [0.0, 2.0, 3.0]
    assert delays(workload)[2] == [0.0, 0.5]
    one, two, three = sessions(workload)
    assert common_prefix(one[0].prompt, two[0].prompt) == 3
    assert common_prefix(three[0].prompt, three[1].prompt) == 10


def test_tables_are_read(tmp_path):
    """Azure by wall clock, BurstGPT by seconds, with sessions where it names them."""
    azure = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5000000,10,2\n2023-11-17 00:00:01.2500000,20,3\n"
    )
    workload = generate(Trace("a.csv"), write(tmp_path, azure, "a.csv"))
    assert (lengths(workload), workload.arrival_s.tolist()) == ([[10], [20]], [0.0, 1.75])
    aware = azure.replace("5000000,", "5+00:00,").replace("2500000,", "25+00:00,")
    assert generate(Trace("a.csv"), write(tmp_path, aware, "a.csv")).arrival_s.tolist() == [0.0, 1.75]
    head = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    burst = head + "5,a,1.5,GPT-4,10,2,12,API log\n6,,,GPT-4,7,0,7,API log\n9,a,1,GPT-4,30,2,32,API log\n"
    workload = generate(Trace("b.csv"), write(tmp_path, burst, "b.csv"))
    assert (lengths(workload), delays(workload)) == ([[10, 30], [7]], [[0.0, 2.5], [0.0]])
    assert workload.arrival_s.tolist() == [5.0, 6.0]


SEVERAL = [call(100 + index, 5, [index], timestamp=1000 * index) for index in range(20)]


def test_windows_samples_and_rates(tmp_path):
    """Each knob alone: which sessions there are and when; nothing inside a session changes but by the time scale."""
    write(tmp_path, SEVERAL)

    def taken(**more):
        workload = generate(Trace("t.jsonl", **more), tmp_path)
        return [each[0] - 100 for each in lengths(workload)], workload.arrival_s.tolist()

    assert taken(window_s=(3.0, 6.0)) == ([3, 4, 5], [0.0, 1.0, 2.0])
    assert taken(limit=2, window_s=(3.0, 6.0)) == ([3, 4], [0.0, 1.0])
    assert taken(limit=2, rate_scale=4.0)[1] == [0.0, 0.25]
    assert taken(limit=2, time_scale=4.0)[1] == [0.0, 4.0]
    some = taken(sample_share=0.5)[0]
    assert 3 < len(some) < 17
    assert generate(Trace("t.jsonl", sample_share=0.5), tmp_path, 1).sessions != len(some) or taken(sample_share=0.4)
    arrivals = taken(arrivals=Poisson("poisson", 2.0))[1]
    assert arrivals == sorted(arrivals)
    assert arrivals[1] % 1
    (tmp_path / "times.csv").write_text("at\n" + "".join(f"{3 * index}\n" for index in range(20)))
    recorded = Trace("t.jsonl", arrivals=Recorded("recorded", "times.csv", "at"))
    assert generate(recorded, tmp_path).arrival_s.tolist() == [3.0 * index for index in range(20)]
    assert recorded.files(tmp_path) == [tmp_path / "t.jsonl", tmp_path / "times.csv"]
    assert generate(Trace("t.jsonl", encoding="input_ids"), tmp_path).chars_per_token == 5.5
    drawn = generate(Trace("t.jsonl", resample=True), tmp_path)
    assert drawn.sessions == 20
    assert len({each[0] for each in lengths(drawn)}) < 20


def test_a_rate_keeps_sessions_whole(tmp_path):
    """The rate moves arrivals alone; the time scale stretches waits too, those of sub-agents included."""
    write(tmp_path, AGENTS)
    usual, fast, slow = (
        generate(Trace("t.jsonl", **more), tmp_path) for more in ({}, {"rate_scale": 2.0}, {"time_scale": 2.0})
    )
    assert (fast.arrival_s * 2).tolist() == usual.arrival_s.tolist() == (slow.arrival_s / 2).tolist()
    assert delays(fast) == delays(usual)
    assert np.allclose(np.array(delays(slow)[0]), 2 * np.array(delays(usual)[0]))
    assert slow.children[0][0].delay_s == 2 * usual.children[0][0].delay_s


def test_a_session_drawn_twice_shares_what_others_share(tmp_path):
    """A copy keeps the blocks that other sessions have, and has its own anew."""
    rows = [call(24, 5, [0, 1], timestamp=0), call(24, 5, [0, 2], timestamp=1)]
    write(tmp_path, rows)
    for replication in range(10):
        workload = generate(Trace("t.jsonl", resample=True, block_tokens=16), tmp_path, replication)
        prompts = [turns[0].prompt for turns in sessions(workload)]
        assert prompts[0] != prompts[1]
        assert common_prefix(*prompts) == 16


def test_calls_at_their_recorded_times(tmp_path):
    """Pace recorded: each call a session of its own, under the key of the session that it was part of."""
    rows = [call(10, 5, [9], session_id=name, timestamp=at) for name, at in (("a", 0), ("b", 100), ("a", 300))]
    write(tmp_path, rows)
    workload = generate(Trace("t.jsonl", pace="recorded"), tmp_path)
    assert workload.sessions == workload.groups == 3
    assert sorted(workload.arrival_s.tolist()) == [0.0, 0.1, 0.3]
    assert workload.key_owner is not None
    at = dict(zip(workload.arrival_s.tolist(), workload.key_owner.tolist(), strict=True))
    assert at[0.0] == at[0.3] != at[0.1]
    with pytest.raises(ScenarioError, match="pace recorded needs a time of each call"):
        generate(Trace("t.jsonl", pace="recorded"), write(tmp_path, [*rows, call(10, 5, [9], session_id="a", delay=1)]))


def test_the_order_of_sessions_that_start_together_may_be_drawn():
    """Shuffled: anew in each replication; by the data: never."""
    spec = {"file": "miniswe.jsonl.gz", "limit": 8}
    orders = [generate(Trace(**spec, order="shuffled"), replication=index).order.tolist() for index in range(3)]
    assert len({tuple(each) for each in orders}) == 3
    assert generate(Trace(**spec)).order.tolist() == list(range(8))


def test_the_other_knobs_move_the_workload(tmp_path):
    """Limits of the client, prefixes common to all, characters of a token in texts."""
    write(tmp_path, [{"session_id": "s", "output_tokens": 9, "prompt_tokens": [100, 200]}])
    limited = sessions(generate(Trace("t.jsonl", max_tokens=4), tmp_path))[0]
    assert {(turn.output_tokens, turn.max_tokens) for turn in limited} == {(4, 4)}
    shared = sessions(generate(Trace("t.jsonl", shared_prefix_tokens=90), tmp_path))[0]
    assert [turn.prompt[0][1] for turn in shared] == [90, 90]
    with pytest.raises(ScenarioError, match=r"t\.jsonl:1: shared_prefix_tokens must be at most each prompt"):
        generate(Trace("t.jsonl", shared_prefix_tokens=101), tmp_path)
    write(tmp_path, [{"timestamp": 0, "text_input": "x" * 60, "output_length": 1}])
    assert lengths(generate(Trace("t.jsonl", chars_per_token=3.0), tmp_path)) == [[20]]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"block_tokens": 16}, "block_tokens: has no effect on how turns is read"),
        ({"rows": "add"}, "rows: has no effect on how turns is read"),
        ({"common_prefix": True}, "common_prefix: has no effect on how turns is read"),
        ({"format": "azure"}, "t.jsonl:1: has no column TIMESTAMP, ContextTokens, GeneratedTokens"),
        ({"format": "mooncake"}, "t.jsonl:1: input_length is missing"),
        ({"window_s": (5.0, 6.0)}, "no session is left"),
    ],
)
def test_a_key_without_effect_is_refused(tmp_path, more, reason):
    """What a format cannot use is no silent nothing; a wrong format is named by the first row."""
    write(tmp_path, [{"session_id": "s", "output_tokens": 9, "prompt_tokens": [100, 200]}])
    with pytest.raises(ScenarioError, match=reason):
        generate(Trace("t.jsonl", **more), tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", 0), ("block_tokens", 0), ("max_tokens", 0), ("shared_prefix_tokens", -1), ("rate_scale", 0.0),
        ("time_scale", float("inf")), ("sample_share", 0.0), ("token_s", -1.0), ("window_s", (3.0, 3.0)),
    ],
)  # fmt: skip
def test_what_is_refused(field, value):
    """The message opens with the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{field} must be"):
        Trace("t.jsonl", **{field: value})
    with pytest.raises(ScenarioError, match="^arrivals replaces recorded times"):
        Trace("t.jsonl", arrivals=Poisson("poisson", 1.0), rate_scale=2.0)


def test_ids_leave_no_room_for_live_answers():
    """Block ids say what prompts share; a mode or a prefix that would say otherwise is refused."""
    with pytest.raises(ScenarioError, match="mode live is not to be had"):
        generate(Trace("miniswe.jsonl.gz", mode="live"))
    with pytest.raises(ScenarioError, match="shared_prefix_tokens has no effect"):
        generate(Trace("miniswe.jsonl.gz", shared_prefix_tokens=5))


GOOD = json.dumps(call(600, 5, [0, 1], timestamp=100)) + "\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "t: holds no rows"),
        (b"\xef\xbb\xbf" + GOOD.encode(), "t:1: starts with a byte-order mark"),
        (GOOD.encode("utf-16"), "t:1: starts with a byte-order mark"),
        (bytes(range(256)), "t:1: is no text file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "t:1: is no text file"),
        (gzip.compress(GOOD.encode() * 500, mtime=0)[:-20], "t:.*: cannot be read"),
        (GOOD.encode() + b'{"timestamp": 200, "inp', "t:2: not a whole JSON object"),
        (GOOD.encode() + b"\n" + GOOD.encode(), "t:2: the line is empty"),
        (GOOD.replace("100", "NaN").encode(), "t:1: timestamp must be a number"),
        (GOOD.replace("600", "NaN").encode(), "t:1: input_length must be a whole number"),
        ((GOOD + GOOD.replace("100", "99")).encode(), "t:2: the time 0.099 s is before that of the call above"),
        (GOOD.replace("input_length", "inputs").encode(), "t:1: is of no known format .it has inputs"),
        (b"a,b\n1,2\n", "t:2: is of no known format .it has a, b"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "t: holds no rows"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,nan,1\n", "t:2: ContextTokens must be a whole"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5\n", "t:2: must have 3 fields"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,5,1\n", "t:2: TIMESTAMP must be a date and a time"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,\xff,1\n", "t:2: cannot be read"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path, content, reason):
    """Truncated, binary, empty, not JSON, wrong columns, no number, time running backwards."""
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ScenarioError, match=rf"^\S*{reason}") as error:
        generate(Trace("t"), tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"id": "a", "requests": [weka(0, 100)]}] * 2, "2: id 'a' stands above already"),
        ([{"id": "a", "requests": [weka(5, 100), weka(4, 100)]}], r"1: requests\[1\]: the time 4 s is before"),
        ([{"id": "a", "requests": [weka(0, 100) | {"hash_ids": []}]}], r"1: requests\[0\]: hash_ids must be a list"),
        (
            [{"id": "a", "requests": [weka(0, 100, first=1) | {"in": 999}]}],
            r"1: requests\[0\]: hash_ids must hold 15 ids",
        ),
        (
            [{"id": "a", "requests": [{"type": "subagent", "t": 0, "requests": [weka(0, 64)]}]}],
            "1: requests holds sub-agents",
        ),
        ([{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, **call(9, 5, [1])}] * 2, "2: chat_id 1 stands above"),
        ([{"source": "a", "line": 0, "turns": [{"new_input": 5, "output": 1}]}] * 2, "2: line 0 of a stands above"),
        (
            [{"session_id": "s", "arrival_time_ns": 0, "sub_requests": [{"input_toks": 1, "output_toks": 1}]}] * 2,
            "2: session_id 's' stands above",
        ),
    ],
)
def test_a_broken_row_of_any_format_is_named(tmp_path, rows, reason):
    """Repeated names, times out of order, ids that do not fit the length."""
    with pytest.raises(ScenarioError, match=rf"t\.jsonl:{reason}"):
        generate(Trace("t.jsonl"), write(tmp_path, rows))
