"""Rules between the parts of one cell that it must keep before it may run."""

from sim.engine.spec import KEY_HEADER
from sim.keys import group_keys
from sim.rng import Streams
from sim.scenario._cell import Cell
from sim.scenario._errors import PlacedError, placed

TICK_S = 1e-9


def check_cell(cell: Cell) -> None:
    """Refuse a cell whose parts do not go together; PlacedError says where."""
    _check_policy(cell)
    _check_engines(cell)
    _check_keys(cell)


def _check_policy(cell: Cell) -> None:
    least = cell.router.policy.min_engines
    if cell.engines < least:
        raise PlacedError(("router", "policy"), f"needs {least} engines or more, the fleet has {cell.engines}")


def _check_engines(cell: Cell) -> None:
    for kind in cell.fleet:
        with placed(*kind.place, "cost"):
            kind.engine.cost.compile(TICK_S, **kind.hardware, overlap=kind.engine.overlap, base=cell.base)


def reads_key(cell: Cell) -> bool:
    """Whether the policy reads the header that the client sends."""
    headers = [header.lower() for header in cell.router.policy.key_headers]
    return cell.client.header in headers


def queues_read_keys(cell: Cell) -> bool:
    """Whether engines sort those that wait by the header that the client sends, as SGLang can."""
    sorts = any(kind.engine.queue_order == "routing-key" for kind in cell.fleet)
    return sorts and cell.client.header == KEY_HEADER


def _check_keys(cell: Cell) -> None:
    client, policy = cell.client, cell.router.policy
    if client.scope == "group" and not reads_key(cell) and not queues_read_keys(cell):
        if not policy.key_headers:
            message = "group needs a policy that reads a routing key; this one reads none"
            raise PlacedError(("client", "key_scope"), message)
        known = ", ".join(policy.key_headers)
        raise PlacedError(("client", "header"), f"the policy does not read {client.header!r}; it reads {known}")
    if client.unkeyed_share and client.blocking != "none":
        raise PlacedError(("client", "blocking"), "sessions without a key cannot be placed: unkeyed_share must be 0")
    if client.keys and client.blocking != "none":
        raise PlacedError(("client", "blocking"), "explicit keys leave nothing to draw; take client.keys away")
    if client.keys:
        _check_explicit(cell)


def explicit_keys(cell: Cell, keys: list[str]) -> list[str]:
    """The explicit key of each session: the scenario's, else the one in the data, else empty."""
    own = dict(cell.client.keys or {})
    last = len(keys) - 1
    for session in own:
        if session > last:
            raise PlacedError(("client", "keys", session), f"no such session: they are 0 to {last}")
    return [own.get(session, key) for session, key in enumerate(keys)]


def _check_explicit(cell: Cell) -> None:
    with placed("workload"):
        workload = cell.workload.generate(Streams(cell.seed), cell.base)
    explicit = explicit_keys(cell, workload.keys)
    if cell.client.scope == "group":
        with placed("client", "keys"):
            group_keys(workload.group_of, explicit)
