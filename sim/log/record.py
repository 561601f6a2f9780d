"""Six tables that one replication writes: requests, decisions, groups, engines, steps, changes.

Each table is one flat buffer of 64-bit integers, a row after the other (``log.engines.append((0, start, ...))``), so a
log travels between processes as five blocks of bytes. Times are integer ticks of ``tick_s`` seconds, -1 means "never".
Seconds, names and the account of every engine-second appear later, in ``sim.log.frames``. A log of a real run may be
written in the same tables.

Left out: what happens inside a step, and the scores of the engines that a decision passed over.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

import numpy as np

REQUESTS = (
    "request",  # id: turns of all sessions in order of the data
    "session",  # id, order of the data
    "group",  # id; equals the session where a workload has no groups
    "turn",  # 0, 1, ... within the session
    "is_last",  # 1 for the last turn of its session
    "attempt",  # 0 unless retried; the row describes the last attempt
    "engine",  # index, -1 when it reached none
    "submitted",  # ticks: the client sends it
    "arrived",  # ticks: it reaches the engine
    "scheduled",  # ticks: when it is first admitted to a batch; with overlap, one step before that batch starts
    "first_token",  # ticks
    "ended",  # ticks: last token, or the moment it failed, was refused or aborted
    "prompt_tokens",
    "cached_tokens",  # found in the prefix cache at first admission
    "queried_tokens",  # of all its look-ups in the prefix cache, counted as the product reports them
    "hit_tokens",  # of them found
    "max_tokens",  # the client's limit on output
    "output_tokens",  # generated in this attempt, whatever became of it
    "prefill_tokens",  # computed in prefill, recomputation included
    "recomputed_tokens",  # of them computed again after a preemption
    "preemptions",  # times it lost its memory
    "status",  # FINISHED, FAILED, REJECTED, ABORTED or UNFINISHED
    "reason",  # why it FAILED, else 0: see ``REASON``
    "parent",  # session that its session forked from, -1: none, it is a sample
)
DECISIONS = (
    "request",
    "attempt",  # the client's
    "at",  # ticks
    "engine",  # index, -1 when refused
    "branch",  # code of the named way through the policy, see ``Log.branches``
    "in_flight",  # requests in flight at the chosen engine as the policy saw them, before this one
    "total_in_flight",  # requests that this router has in flight over all engines
    "matched",  # tokens or characters that the policy matched, in the policy's own unit; 0 where it matches none
    "retry",  # 0 for the router's first try of this attempt, 1 for its second
    "replica",  # of the router
    "waited",  # ticks: in the router's queues before this choice
    "service",  # ticks: that the decision held a core of the router
    "signal_age",  # ticks: since the reading that the chosen engine's last report holds, -1 without a report
    "best_engine",  # in hindsight: most of the prompt cached, least queued among these; -1 when not recorded
    "regret_tokens",  # prompt tokens cached at the engine that has most, less those at the chosen; -1 when not recorded
    "regret_work",  # queued prompt tokens at the chosen engine, less those where they are fewest; -1 when not recorded
)
UNSEEN = (0, 0, 0, 0, -1, -1, -1, -1)
"""The columns from ``retry`` on for a decision that nothing of the kind is known of."""
GROUPS = (
    "group",
    "arrived",  # ticks: when the group may start
    "ended",  # ticks: end of its last session, -1 while one is unfinished
    "sessions",  # of the group
    "finished",  # of them finished
)
ENGINES = (  # one row for a run of equal steps; time without a row is idle
    "engine",
    "start",  # ticks
    "end",  # ticks
    "kind",  # IDLE (such rows may be left out), BUSY, or DOWN after a failure
    "steps",  # in the run
    "chunk_tokens",  # prefill tokens computed in the run
    "repeat_tokens",  # of them computed again after a preemption
    "decodes",  # sequences that decode in a step
    "context",  # context tokens of the decodes at the first step; each step adds ``decodes``
    "pairs",  # query-key pairs of the chunks at the first step
    "chunks",  # prefill chunks of a step
    "tokens",  # all tokens of a step
    "waiting",  # requests waiting after the batch was formed
    "kv_used",  # blocks or pages held by requests after the batch was formed
    "kv_cached",  # blocks or pages kept only for reuse
)
STEPS = (  # rollout steps, where a trainer makes some
    "step",  # 0, 1, ...
    "version",  # of the weights while its batch became complete
    "start",  # ticks: the weights of this version are in place
    "end",  # ticks: its batch is complete
    "updated",  # ticks: the weights made of its batch are in place; -1 when none were
    "accepted",  # groups of the batch
    "rejected",  # groups that ended since the step before and are in no batch: filtered, or with lost samples
    "samples",  # finished samples of the batch
    "tokens",  # generated for them, in all their attempts
    "aborted",  # samples under way or waiting that were aborted since the step before
    "age_sum",  # versions between the start of a group and this step, summed over the batch
    "age_max",
)
CHANGES = (  # of the fleet, where it changes, and of its caches, where they are emptied
    "at",  # ticks
    "change",  # FAIL, RESTART, JOIN, LEAVE (the router chooses it no more), STOP (after its drain) or FLUSH
    "engine",  # index
)
TABLES = {
    "requests": REQUESTS,
    "decisions": DECISIONS,
    "groups": GROUPS,
    "engines": ENGINES,
    "steps": STEPS,
    "changes": CHANGES,
}

FINISHED, FAILED, REJECTED, ABORTED, UNFINISHED = range(5)
STATUS = ("finished", "failed", "rejected", "aborted", "unfinished")
NO_ENGINE, TIMEOUT_408, LIMIT_429, ENGINE_FAILED, RETRIES_EXHAUSTED = range(1, 6)
REASON = ("none", "no_engine", "timeout_408", "limit_429", "engine_failed", "retries_exhausted")
IDLE, BUSY, DOWN = range(3)
FAIL, RESTART, JOIN, LEAVE, STOP, FLUSH = range(6)
CHANGE = ("fail", "restart", "join", "leave", "stop", "flush")


class Table:
    """Rows of integers under named columns.

    Who writes a row for each request says ``pack = table.pack; table.data += pack(...)``: packing a row into the bytes
    costs a third of what extending an array costs, and half of what a call of ``append`` does.
    """

    __slots__ = ("columns", "data", "pack")

    def __init__(self, columns: Sequence[str], data: bytes = b"") -> None:
        self.columns = columns
        self.data = bytearray(data)
        """The rows, eight bytes a value in the order of this machine."""
        self.pack = Struct(f"{len(columns)}q").pack
        """The bytes of one row."""

    def append(self, row: Iterable[int]) -> None:
        """Write one row."""
        self.data += self.pack(*row)

    def clear(self) -> None:
        """Forget all rows."""
        self.data.clear()

    def numpy(self) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """The columns, as views: drop them before the table is written to again."""
        rows = np.frombuffer(self.data, dtype=np.int64).reshape(-1, len(self.columns))
        return {name: rows[:, i] for i, name in enumerate(self.columns)}

    def __len__(self) -> int:
        return len(self.data) // (8 * len(self.columns))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.columns == other.columns and self.data == other.data

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["Table"], tuple[Sequence[str], bytearray]]:
        return Table, (self.columns, self.data)


class Log:
    """The tables of one replication, and what is needed to read them."""

    __slots__ = (
        "branches",
        "changes",
        "codes",
        "costs",
        "deadline_s",
        "decisions",
        "engine_names",
        "engines",
        "groups",
        "prefill_ideal",
        "requests",
        "router_cores",
        "signals",
        "steps",
        "tick_s",
    )

    def __init__(self, engine_names: Sequence[str], costs: Sequence[Any] = (), tick_s: float = 1e-9) -> None:
        """``costs`` holds the cost coefficients of each engine, by which busy time is divided; none: undivided."""
        self.engine_names = list(engine_names)
        self.costs = list(costs)
        self.tick_s = tick_s
        self.branches: list[str] = []
        self.codes: dict[str, int] = {}
        self.deadline_s: float | None = None
        """Within which a request counts as good; None: no limit."""
        self.prefill_ideal = 0
        """Prompt tokens that one unlimited cache shared by all engines would compute."""
        self.router_cores = 0
        """Cores of all router replicas that make decisions; 0: decisions cost nothing."""
        self.signals: dict[str, bool] = {}
        """Signals that engines reported to routers, and whether two readings ever differed."""
        self.requests = Table(REQUESTS)
        self.decisions = Table(DECISIONS)
        self.groups = Table(GROUPS)
        self.engines = Table(ENGINES)
        self.steps = Table(STEPS)
        self.changes = Table(CHANGES)

    def branch_code(self, name: str) -> int:
        """The number that stands for a branch name in the decisions table."""
        code = self.codes.get(name)
        if code is None:
            code = self.codes[name] = len(self.branches)
            self.branches.append(name)
        return code

    def numpy(self, table: str) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """Columns of one table, as views: drop them before the log is written to again."""
        named: Table = getattr(self, table)
        return named.numpy()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, table))} {table}" for table in TABLES)
        return f"Log({len(self.engine_names)} engines: {sizes})"
