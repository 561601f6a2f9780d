"""NeMo Gym rollouts: the JSON lines that its environments write, and the shapes of their turns.

Upstream, one JSON object a rollout: ``responses_create_params`` (``input``, ``tools``), ``response.output`` (items
``message``, ``reasoning``, ``function_call`` from the model, ``function_call_output`` from the environment),
``_ng_task_index`` and ``_ng_rollout_index``. Texts become tokens of ``chars_per_token`` characters. Shapes:

    {"source": "mini_swe_agent_2", "task_index": 4, "rollout_index": 0,
     "turns": [{"new_input": 1028, "output": 298, "tool_calls": 2}, {"new_input": 79, "output": 370}]}

A turn's prompt is what came before it, answers included, and its new input. Rollouts of one task are a group and start
from one prompt if it is as long. Where a harness builds its own prompt the file has none (``new_input`` 0): one token
then stands for it. A rollout in which nothing was generated makes no call. No times.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import Call, Format, Reading
from sim.workload._traces._text import Tokens

_FROM_MODEL: Final = ("message", "reasoning", "function_call")


def read_shapes(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file of shapes."""
    seen: set[str] = set()
    for number, row in enumerate(read_rows(path)):
        source, line = row.text("source"), row.values.get("line", number)
        name = f"{source}/{line}"
        if name in seen:
            raise row.refuse(f"line {line} of {source} stands above already")
        seen.add(name)
        task = row.values.get("task_index")
        shape = [(each.whole("new_input", 0), each.whole("output", 0)) for each in row.objects("turns")]
        yield from _calls(row, name, f"{source}/{task}" if task is not None else name, shape)


def read_rollouts(path: Path, reading: Reading) -> Iterator[Call]:
    """The calls of a file of rollouts."""
    tokens = Tokens(reading.chars_per_token)
    seen: set[str] = set()
    for number, row in enumerate(read_rows(path)):
        task, rollout = row.values.get("_ng_task_index"), row.values.get("_ng_rollout_index")
        name = f"{task}/{rollout}" if task is not None and rollout is not None else f"line {number}"
        if name in seen:
            raise row.refuse(f"task {task} has rollout {rollout} above already")
        seen.add(name)
        yield from _calls(row, name, str(task) if task is not None else name, _shape(row, tokens))


def _shape(row: Row, tokens: Tokens) -> list[tuple[int, int]]:
    """New input and output of each turn; none of a rollout in which nothing was generated."""
    request, response = row.get("responses_create_params"), row.get("response")
    if not isinstance(request, dict) or not isinstance(response, dict):
        raise row.refuse("responses_create_params and response must be objects")
    new = tokens.count(_text(request.get("tools"))) + tokens.count(_text(request.get("input")))
    shape: list[tuple[int, int]] = []
    output = 0
    items = response.get("output")
    if isinstance(items, list) and items and all(isinstance(each, list) for each in items):
        # Transitions, each with all that came before it.
        items = items[-1]
    if not items:
        return shape
    for item in Row(f"{row.where}: response", {"output": items}).objects("output"):
        is_answer = (
            item.values.get("type", "message") in _FROM_MODEL and item.values.get("role", "assistant") == "assistant"
        )
        if not is_answer and output:
            shape.append((new, output))
            new, output = 0, 0
        size = tokens.count(_text(item.values))
        if is_answer:
            output += size
        else:
            new += size
    return [*shape, (new, output)] if output else shape


def _text(value: Any) -> str:
    """The words of an item: its texts, arguments and outputs; what is none of these as it stands."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "".join(map(_text, value))
    if isinstance(value, dict):
        words = [
            value[name] for name in ("content", "text", "summary", "name", "arguments", "output") if value.get(name)
        ]
        return _text(words) if words else ("" if "type" in value else json.dumps(value))
    return str(value)


def _calls(row: Row, name: str, group: str, shape: list[tuple[int, int]]) -> Iterator[Call]:
    is_first = True
    for new, output in shape:
        tokens = max(1, new) if is_first else new
        yield Call(row, tokens, max(1, output), name, group=group, delay_s=0.0, adds=True)
        is_first = False


SHAPES = Format(
    "nemo_gym_shapes",
    "turn shapes of NeMo Gym rollouts; one JSON object a rollout",
    lambda row: {"source", "turns"} <= row.values.keys(),
    read_shapes,
)
ROLLOUTS = Format(
    "nemo_gym",
    "NeMo Gym rollouts; one JSON object a rollout",
    lambda row: {"responses_create_params", "response"} <= row.values.keys(),
    read_rollouts,
    accepts=("chars_per_token",),
)
