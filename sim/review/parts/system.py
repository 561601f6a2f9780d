"""Part 2: everything that is fixed, and the one field that is not."""

from collections.abc import Sequence
from typing import Any, Final

from sim import registry
from sim.review._assumptions import cell_part, cost_knobs
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms, short, words
from sim.router.reads import CACHE, COUNT, SIGNALS, reads
from sim.router.spec import Around, Times
from sim.scenario import Cell, EngineType, dump, kv_tokens

VERSIONS: Final = {"vllm": "vLLM, its V1 scheduler; no release pinned", "sglang": "SGLang; no release pinned"}
"""What each preset is a model of."""
CHUNKS: Final = ("long_prefill_token_threshold", "chunked_prefill_tokens", "max_num_batched_tokens")
"""Fields that cap a chunk, the narrowest of a product first; 0 and None: this one does not."""
COMES_WITH: Final = {
    "queued_tokens": "waiting",
    "tokens_per_s": "running",
    "busy_share": "running",
    "ended": "running",
}
"""The signal with which engines say what has no timing of its own."""


def system(ev: Evidence) -> Part:
    """2: everything that is fixed, and the one field that is not."""
    path, one, other = ev.change
    diff = Table("2.1", "The difference between the arms", ("field", *arms(ev)), [(path, short(one), short(other))])
    parameters: dict[str, dict[str, str]] = {}
    for arm in arms(ev):
        router = ev.cell(arm).resolved["router"]
        for key, value in _flat({"policy": router["policy"]} | {k: v for k, v in router.items() if k != "policy"}):
            parameters.setdefault(key, {})[arm] = value
    rows = [(key, *(values.get(arm, "–") for arm in arms(ev))) for key, values in parameters.items()]
    rows += [
        ("ties are broken", *(_ties(ev.cell(arm)) for arm in arms(ev))),
        ("age of what it reads", *(_ages(ev.cell(arm)) for arm in arms(ev))),
    ]
    base = ev.cell(ev.baseline)
    hashes = words([f"{ev.result.arms[arm].hash} ({arm})" for arm in arms(ev)])
    return Part(
        2,
        "System under test",
        [
            "Arms differ in exactly one field; everything else below holds for both.",
            f"SHA-256 of the resolved cells, by which results are stored: {hashes}.",
        ],
        [
            diff,
            Table("2.2", "Fleet", FLEET, [_engine(kind, base) for kind in base.fleet]),
            Table("2.3", "Router and policy, every parameter", ("parameter", *arms(ev)), rows),
        ],
        fixed=dump(base.resolved, _decided(base)),
    )


FLEET: Final = (
    "type",
    "engines",
    "hardware and model",
    "scheduler",
    "KV tokens an engine",
    "chunk, tokens",
    "most running",
)


def _engine(kind: EngineType, cell: Cell) -> Row:
    engine = kind.engine
    chunk = next((value for name in CHUNKS if (value := getattr(engine, name))), None)
    return (
        kind.name or "all",
        str(kind.count),
        f"{engine.device}, {engine.model}, tp {engine.tp}",
        VERSIONS[engine.preset],
        f"{kv_tokens(kind, cell.base):,}",
        "–" if chunk is None else f"{chunk:,}",
        "–" if engine.max_num_seqs is None else f"{engine.max_num_seqs:,}",
    )


def _ties(cell: Cell) -> str:
    """By the policy's parameter; where it has none, whether there is anything that could be equal."""
    policy = cell.router.policy
    for each in registry.parameters(type(policy)):
        if each.name in ("tie", "ties"):
            return f"{cell.router.parameters.get(each.name, each.default)} (policy.{each.name})"
    return "as the policy is written: it has no parameter for it" if _reads(cell) else "none arise: no load is compared"


def _reads(cell: Cell) -> frozenset[str]:
    return reads(cell.router.make_policy())


def _ages(cell: Cell) -> str:
    """Of each thing that the policy reads of engines, how old it is when it is read."""
    read, around = _reads(cell), cell.router.around
    if not read:
        return "it reads nothing of engines"
    if cell.router.make_policy().sees_all:
        return "live: it sees all engines as they are"
    said = []
    if COUNT in read:
        own = around.telemetry.in_flight if around.telemetry else None
        is_read = own is not None and own.visibility == "report"
        said.append(f"own count: {_polled(around, 'in_flight') if is_read else 'live'}")
    names = {COMES_WITH.get(name, name) for name in SIGNALS if name in read}
    said += [f"{name.replace('_', ' ')}: {_polled(around, name)}" for name in sorted(names)]
    if CACHE in read:
        index = around.cache_index
        said.append(f"caches: {index if isinstance(index, str) else f'exact, {index.lag_s:g} s old'}")
    return "; ".join(said)


def _polled(around: Around, signal: str) -> str:
    if around.telemetry is None:
        return "never reported"
    times: Times = around.telemetry.timing(signal)
    jitter = f", up to {times.jitter_s:g} s late" if times.jitter_s else ""
    lost = f", {times.loss_share:.0%} lost" if times.loss_share else ""
    return f"polled every {times.period_s:g} s, known after {times.delay_s:g} s{jitter}{lost}"


def _decided(cell: Cell) -> dict[tuple[str | int, ...], str]:
    """By place, what the engine decides where the scenario leaves it open."""
    notes: dict[tuple[str | int, ...], str] = {}
    for kind in cell.fleet:
        own = cell_part(cell, kind)
        if own["kv_tokens"] is None:
            notes[*kind.place, "kv_tokens"] = f"{kv_tokens(kind, cell.base)}, by memory and weights"
        for name, value in cost_knobs(kind, cell).items():
            if own["cost"][name] is None:
                notes[*kind.place, "cost", name] = f"{value:g}, by profile or device"
    return notes


def _flat(value: Any, path: str = "") -> Sequence[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [row for key, each in value.items() for row in _flat(each, f"{path}.{key}" if path else str(key))]
    return [(path, short(value))]
