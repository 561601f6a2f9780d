"""Exported traces as a real load generator sends them: AIPerf against a small local server.

Runs where ``aiperf`` is on the PATH, or where WINDTUNNEL_AIPERF names it; nothing is downloaded: the tokenizer, one
token a byte, is built here.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from sim.cli._main import run_command

AIPERF = os.environ.get("WINDTUNNEL_AIPERF") or shutil.which("aiperf")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        AIPERF is None, reason="aiperf is not installed: put it on the PATH or name it in WINDTUNNEL_AIPERF"
    ),
]
ANSWER_S = 0.05
SLACK_S = 0.15
"""How much later than its time a request may come on a busy machine; earlier it may not."""
EARLY_S = 0.01
"""Schedules are in milliseconds, and the two clocks are read at different places."""


def tokenizer(home):
    """A tokenizer of one token a byte, in a cache of the hub under ``home``, which is then never asked."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    vocabulary = {chr(byte if byte in kept else next(other)): byte for byte in range(256)} | {"<eos>": 256}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "fuse_unk": False, "byte_fallback": False}
    document = {
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<eos>", **special}],
        "pre_tokenizer": level,
        "decoder": level,
        "model": model,
    }
    cache = home / "hub" / "models--local--bytes"
    folder = cache / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    (folder / "tokenizer.json").write_text(json.dumps(document))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "bos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return "local/bytes"


class Server:
    """Answers chat requests with as many letters as were asked for, and remembers who came when."""

    def __init__(self):
        self.seen = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                began = time.monotonic()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(ANSWER_S)
                tokens = body.get("max_completion_tokens") or body["max_tokens"]
                message = {"role": "assistant", "content": "x" * tokens}
                usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
                choices = [{"index": 0, "message": message, "finish_reason": "length"}]
                answer = {"id": "1", "object": "chat.completion", "model": "m", "choices": choices, "usage": usage}
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                seen.append((self.headers["X-Correlation-ID"], began, time.monotonic(), body["messages"], tokens))
                self.wfile.write(data)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server():
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def replay(trace, server, folder, block_tokens):
    """Let AIPerf send a trace; what the server saw, session by session, each in order of arrival."""
    command = [
        str(AIPERF), "profile", "-m", "m", "--url", server.url, "--endpoint-type", "chat", "--input-file", str(trace),
        "--custom-dataset-type", "mooncake_trace", "--fixed-schedule", "--isl-block-size", str(block_tokens),
        "--tokenizer", tokenizer(folder / "hf"), "--artifact-dir", str(folder / "out"), "--ui", "none",
        "--no-server-metrics", "--no-gpu-telemetry", "--export-level", "records",
    ]  # fmt: skip
    # No hub can be reached: whoever tries to download fails.
    offline = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    environment = {**os.environ, **offline}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    sessions: dict[str, list] = {}
    for name, *request in sorted(server.seen, key=lambda each: each[1]):
        sessions.setdefault(name, []).append(request)
    return sessions


def words(messages):
    """Tokens of a prompt: a byte is one; AIPerf puts an end-of-text mark between blocks, which is one too."""
    return sum(len(each["content"].replace("<eos>", "#").encode()) for each in messages)


ROLLOUT = """
name: exported
fleet: {engines: 2, engine: {preset: vllm, device: h100-80gb, model: llama-3-8b}}
workload:
  kind: rollout
  groups: 3
  samples_per_group: 2
  prompt: {system_tokens: 128, group_tokens: {kind: uniform, low: 40, high: 200}}
  output_tokens: {kind: uniform, low: 3, high: 40}
  max_tokens: 40
  turns: {kind: uniform, low: 1, high: 4}
  observation_tokens: {kind: uniform, low: 5, high: 60}
  tool_delay_s: {kind: uniform, low: 0.05, high: 0.6}
  mode: live
  arrivals: {kind: poisson, groups_per_s: 2.0}
router: {policy: {kind: round_robin}}
"""


def test_sessions_are_sent_in_order_with_their_waits(server, tmp_path):
    """Every turn of every session once, in order, its history before it, lengths and waits as exported."""
    (tmp_path / "s.yaml").write_text(ROLLOUT)
    assert (
        run_command(
            ["export", str(tmp_path / "s.yaml"), "-o", str(tmp_path), "--format", "aiperf", "--block-tokens", "16"]
        )
        == 0
    )
    rows = [json.loads(line) for line in (tmp_path / "aiperf-0.jsonl").read_text().splitlines()]
    expected: dict[str, list[dict]] = {}
    for row in rows:
        expected.setdefault(row["session_id"], []).append(row)
    assert any(len(each) > 2 for each in expected.values())
    seen = {name.removeprefix("fixed-schedule-"): each for name, each in
            replay(tmp_path / "aiperf-0.jsonl", server, tmp_path, 16).items()}  # fmt: skip
    assert {name: len(each) for name, each in seen.items()} == {name: len(each) for name, each in expected.items()}
    start = min(each[0][0] for each in seen.values()) - min(each[0]["timestamp"] for each in expected.values()) / 1000
    for name, turns in seen.items():
        total = 0
        for index, (row, (began, _, messages, tokens)) in enumerate(zip(expected[name], turns, strict=True)):
            assert len(messages) == 2 * index + 1
            assert tokens == row["output_length"]
            total += row["input_length"]
            assert words(messages) == total
            total += row["output_length"]
            if index == 0:
                assert -EARLY_S - SLACK_S < began - start - row["timestamp"] / 1000 < SLACK_S
        for (_, ended, earlier, _), (began, _, later, _), row in zip(
            turns, turns[1:], expected[name][1:], strict=False
        ):
            assert -EARLY_S < began - ended - row["delay"] / 1000 < SLACK_S
            assert later[: len(earlier)] == earlier
    firsts = {name: turns[0][2][0]["content"] for name, turns in seen.items()}
    # The system prompt is 128 tokens in eight blocks: all first prompts open with the same text, siblings are alike.
    assert len({text[:100] for text in firsts.values()}) == 1
    assert len(set(firsts.values())) == 3


def test_recorded_requests_are_sent_at_their_times(server, tmp_path):
    """A minute of recorded chats, eight times as fast: each request once, at its time, with its prefix blocks."""
    source = Path(__file__).parents[2] / "scenarios" / "traces" / "mooncake" / "conversation_first_half.jsonl.gz"
    arguments = ["--to", "mooncake", "--limit", "40", "--rate-scale", "8"]
    assert run_command(["trace", "convert", str(source), str(tmp_path / "t.jsonl"), *arguments]) == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    seen = sorted(turns[0] for turns in replay(tmp_path / "t.jsonl", server, tmp_path, 512).values())
    assert len(seen) == len(rows) == 40
    assert sorted(words(each[2]) for each in seen) == sorted(row["input_length"] for row in rows)
    start = seen[0][0] - rows[0]["timestamp"] / 1000
    for row, (began, *_) in zip(rows, seen, strict=True):
        assert -EARLY_S - SLACK_S < began - start - row["timestamp"] / 1000 < 4 * SLACK_S
    assert all(later[0] >= earlier[0] for earlier, later in pairwise(seen))
