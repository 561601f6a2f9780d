"""What a scenario says of its router, or its prompts, without effect: nobody looks at it, nobody fails."""

from collections.abc import Iterator

from sim.router.reads import CACHE, COUNT, SIGNALS, Asked, reads
from sim.router.spec import Counted, Decision, OwnCount, Reported, TelemetrySpec, Timing
from sim.scenario._cell import Cell

_PLAIN = {"running": Reported(), "waiting": Counted(), "tokens": Counted(), "kv_share": Timing()}


def idle_keys(cell: Cell) -> Iterator[str]:
    """Keys below ``router`` without effect, one line each."""
    around, kind = cell.router.around, cell.resolved["router"]["policy"]["kind"]
    policy = cell.router.make_policy()
    read = reads(policy)
    if around.replicas == 1 and around.assignment != "random":
        yield "router.assignment has no effect: there is one replica"
    if around.decision is not None and around.decision == Decision(cores=around.decision.cores):
        yield "router.decision has no effect: no time of it is more than 0"
    lost = cell.membership.failures is not None or any(
        each.what == "fail" or each.drain_s is not None for each in cell.membership.changes
    )
    for key in ("health", "breaker"):
        if getattr(around, key) is not None and not lost:
            yield f"router.{key} has no effect: no engine fails"
    if around.retries is not None and not lost and not policy.may_refuse:
        yield f"router.retries has no effect: no engine fails, and {kind} refuses nobody"
    if policy.sees_all:
        if around.telemetry is not None or around.cache_index != "approximate":
            yield f"router.telemetry and router.cache_index have no effect: {kind} sees all engines as they are"
        return
    if around.telemetry is not None:
        yield from _telemetry(around.telemetry, read, kind)
    if around.cache_index == "none" and not policy.reads_content:
        yield f"router.cache_index has no effect: {kind} reads no content"
    elif around.cache_index not in ("none", "approximate") and CACHE not in read:
        yield f"router.cache_index has no effect: {kind} does not ask what engines have cached"


def unmatched(cell: Cell, asked: Asked) -> Iterator[str]:
    """A line where prompts travel in a way in which the policy matches none, though it does in another."""
    encoding = cell.resolved["workload"].get("encoding")
    if encoding is not None and asked.encodings and encoding not in asked.encodings:
        kind, others = cell.resolved["router"]["policy"]["kind"], " or ".join(sorted(asked.encodings))
        yield f"{kind} matches no prompt of workload.encoding {encoding}, only of {others}"


def _telemetry(spec: TelemetrySpec, read: frozenset[str], kind: str) -> Iterator[str]:
    """Signals that nobody looks at."""
    own_count = spec.in_flight != OwnCount()
    if not read & {*SIGNALS} and not (own_count and COUNT in read):
        yield f"router.telemetry has no effect: {kind} reads no report"
        return
    for name, plain in _PLAIN.items():
        is_read = name in read or (name == "waiting" and "queued_tokens" in read)
        is_read |= name == "running" and not read.isdisjoint(("tokens_per_s", "busy_share", "ended"))
        if getattr(spec, name) != plain and not is_read:
            yield f"router.telemetry.{name} has no effect: {kind} does not read it"
    if own_count and COUNT not in read:
        yield f"router.telemetry.in_flight has no effect: {kind} does not read the router's own count"
