"""``python -m benchmarks.policies``: decisions a second of each policy, on a small fleet and on a large one.

A policy is asked outside of any simulation, with everything that it may hear: sessions of growing prompts (a common
head, then 300 tokens a turn), keys, reports, caches that answer at once. Eight requests an engine are in flight, or as
many as were sent so far; then the oldest ends when a new one is sent. The rate is that of CPU time, what the policy
hears of dispatches and ends included.
"""

import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any, Final

import click

from benchmarks.page import machine
from policies._protocol import Ended, EngineView, FleetView, Policy, Report, RequestView
from sim import registry

FLEETS: Final = (16, 1_000)
IN_FLIGHT: Final = 8
TURNS: Final = 10
MOST_SESSIONS: Final = 100
START, END = "<!-- policies -->", "<!-- end of policies -->"


def fleet_of(size: int) -> FleetView:
    """Engines that report and whose caches are known."""
    draw = random.Random(1)
    engines = [EngineView(index, f"http://engine-{index}:8000") for index in range(size)]
    for engine in engines:
        ended = Ended(900 + draw.random(), 200 + draw.random(), 0.1, 4.0)
        engine.report = Report(0.0, 4, 1, draw.random(), 9000, draw.randrange(900), 2000.0, draw.random(), ended)
        engine.cached_tokens = _half
    return FleetView(engines, list(engines))


def _half(content: tuple[tuple[int, int], ...]) -> int:
    return content[0][1]


def requests_of(count: int, engines: int) -> list[RequestView]:
    """Turns of sessions that take turns; a session that ends makes room for a new one, which is every tenth request."""
    draw = random.Random(2)
    live = [[session, 0] for session in range(min(4 * engines, MOST_SESSIONS))]
    made = []
    for serial in range(count):
        place = live[draw.randrange(len(live))]
        session, turn = place
        spans = ((0, 1000), *((1 + session * TURNS + each, 300) for each in range(turn + 1)))
        headers = dict.fromkeys(("x-smg-routing-key", "x-session-id"), f"session {session}")
        made.append(RequestView(serial, headers, spans, 1000 + 300 * (turn + 1), 200, "chat"))
        place[1] += 1
        if turn + 1 == TURNS:
            place[:] = [len(live) + serial, 0]
    return made


def rate(policy: Policy, engines: int, count: int) -> float:
    """Decisions a second of CPU time; the first tenth is not counted."""
    fleet, script = fleet_of(engines), requests_of(count, engines)
    draw = random.Random(3)

    def pick(candidates: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        return draw.choices(candidates, weights)[0] if weights else candidates[int(draw.random() * len(candidates))]

    policy.start(fleet)
    under_way: deque[tuple[RequestView, EngineView]] = deque()
    start, warm = 0.0, count // 10
    for serial, request in enumerate(script):
        if serial == warm:
            start = process_time()
        engine, _, _ = policy.choose(request, fleet, serial * 1e-3, pick)
        if engine is not None:
            engine.in_flight += 1
            policy.dispatched(request, engine)
            under_way.append((request, engine))
        if len(under_way) > IN_FLIGHT * engines:
            request, engine = under_way.popleft()
            engine.in_flight -= 1
            policy.completed(request, engine)
    return (count - warm) / max(process_time() - start, 1e-9)


def measure(count: int, repeat: int) -> dict[str, list[float]]:
    """Best rate of each kind on each fleet."""
    found: dict[str, list[float]] = {}
    for kind, cls in registry.scan(registry.POLICY).items():
        sizes = [count, max(count // 5, 40)]
        found[kind] = [
            max(rate(cls(), size, each) for _ in range(repeat)) for size, each in zip(FLEETS, sizes, strict=True)
        ]
    return found


def table(found: dict[str, list[float]]) -> str:
    """A Markdown table, slowest on the large fleet first."""
    rows = sorted(found.items(), key=lambda row: row[1][-1])
    width = max(len(kind) for kind in found) + 2
    head = f"| {'policy':<{width}} | " + " | ".join(f"{f'{size:,} engines':>13}" for size in FLEETS) + " |"
    rule = f"| {'-' * width} | " + " | ".join("-" * 12 + ":" for _ in FLEETS) + " |"
    lines = [
        f"| {f'`{kind}`':<{width}} | " + " | ".join(f"{_round(each):>13,}" for each in rates) + " |"
        for kind, rates in rows
    ]
    return "\n".join([head, rule, *lines])


def _round(value: float) -> int:
    """Two digits: what repeats of one machine agree on."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return round(value / size) * size


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=5_000,
    show_default=True,
    help="Decisions on 16 engines; a fifth of it on 1,000.",
)
@click.option(
    "--repeat", type=click.IntRange(min=1), default=2, show_default=True, help="Repetitions; the best counts."
)
@click.option(
    "--write", "page_file", type=click.Path(path_type=Path, exists=True), help="Put the table into this page."
)
def main(count: int, repeat: int, page_file: Path | None) -> None:
    """Decisions a second of every policy."""
    text = table(measure(count, repeat))
    click.echo(text)
    if page_file is not None:
        before, _, rest = page_file.read_text(encoding="utf-8").partition(START)
        _, _, after = rest.partition(END)
        words = f"{before}{START}\nMeasured on {machine()}.\n\n{text}\n{END}{after}"
        page_file.write_text(words, encoding="utf-8")


if __name__ == "__main__":
    main()
