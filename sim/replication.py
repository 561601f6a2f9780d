"""One replication of one cell: the parts built, the clock run out, the log handed over.

What a replication draws anew: the workload's columns, session and group ids (hence every hash), engine names, the
router's order where the product's is arbitrary, the policy's random choices, and the noise that the scenario names.
Every stream is named by purpose, so two arms see the same workload whatever their policies do.
"""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sim.blocking import planned_keys
from sim.client import Client, Front, ManagedClient, Sending
from sim.cost._coefficients import Coefficients, shared
from sim.engine._scheduler import Scheduler
from sim.engine.request import Request
from sim.engine.sglang import SglangScheduler
from sim.engine.shell import Engine
from sim.engine.vllm import VllmScheduler
from sim.instants import Clock
from sim.keys import session_keys
from sim.log.record import Log
from sim.membership import Manager
from sim.rng import Streams
from sim.router import Members, Routes
from sim.router.build import build_router
from sim.scenario import Cell, EngineType, explicit_keys, kv_tokens
from sim.trainer import Trainer
from sim.training import TrainingSpec
from sim.workload._model import Workload
from sim.workload._reuse import ideal_prefill_tokens

TICK_S = 1e-9
MANY = 100_000
"""Requests from which on a full pass of the collector follows: it also empties the interpreter's lists of spare
objects, which pin much of the memory that the run gave back and its tables could use."""


def replicate(cell: Cell, pair: int, *, step_by_step: bool = False, tick_s: float = TICK_S) -> Log:
    """Run replication ``pair`` of a cell to its end and return its log.

    ``step_by_step`` decides at every step instead of jumping: slower, and the same log to the bit. ``tick_s`` is the
    length of a tick; only tests change it.
    """
    with without_collector():
        log = _simulate(cell, pair, step_by_step=step_by_step, tick_s=tick_s)
    if len(log.requests) >= MANY:
        gc.collect()
    return log


def _simulate(cell: Cell, pair: int, *, step_by_step: bool, tick_s: float) -> Log:
    streams = Streams(cell.seed, pair)
    workload = cell.workload.generate(streams, cell.base)
    names = engine_names(cell, streams)
    env = Clock(initial_time=0)
    log = Log(names, tick_s=tick_s)
    log.deadline_s = cell.client.deadline_s
    engines = [
        Engine(env, index, scheduler, log, step_by_step=step_by_step)
        for index, scheduler in enumerate(build_schedulers(cell, streams, log))
    ]
    doors: list[Any] = [Front(env, each) for each in engines] if cell.client.group_as_one_request else list(engines)
    router = build_router(env, cell.router, doors[: cell.engines], names[: cell.engines], streams, log)
    if not cell.membership.is_fixed:
        manage(env, cell, engines, doors, names, router, log, streams)
    client = build_client(env, cell, workload, router, log, streams)
    if cell.client.feedback_cap is not None and isinstance(client, ManagedClient):
        client.control(cell.client.feedback_cap, engines)
    if cell.training is not None and isinstance(client, ManagedClient):
        cell.training.check(workload)
        Trainer(env, client, engines, cell.training, _passes(cell.training, workload, streams), log).start()
    else:
        client.start()
    env.run_out()
    client.close()
    end = int(log.numpy("requests")["ended"].max(initial=0))
    for engine in engines:
        engine.close(end)
    log.prefill_ideal = ideal_prefill_tokens(workload, min(kind.engine.block_tokens or 1 for kind in cell.fleet))
    return log


def build_client(
    env: Clock, cell: Cell, workload: Workload, router: Routes, log: Log, streams: Streams
) -> Client | ManagedClient:
    """The client that a cell needs: the plain one wherever it is enough."""
    options = Sending(
        keys=keys_of(cell, workload, streams),
        header=cell.client.header or "",
        cap=cell.client.cap(cell.engines),
        keys_requests=cell.client.scope == "request" and bool(cell.router.policy.key_headers),
    )
    if cell.training is not None or cell.client.is_managed or not workload.is_plain:
        return ManagedClient(env, workload, router, log, options, cell.client, streams)
    return Client(env, workload, router, log, options)


def _passes(training: TrainingSpec, workload: Workload, streams: Streams) -> list[bool]:
    """Whether each group will pass the trainer's filter."""
    draws = streams.column("training/acceptance").random(workload.groups)
    return [bool(each) for each in draws < training.acceptance_rate]


def manage(
    env: Clock,
    cell: Cell,
    engines: list[Engine],
    doors: list[Any],
    names: list[str],
    router: Members,
    log: Log,
    streams: Streams,
) -> None:
    """Plan the changes of the fleet."""
    membership, around = cell.membership, cell.router.around
    finds_out = around.health is not None or around.breaker is not None
    noticed_after_s = membership.noticed_after_s
    if noticed_after_s is None and not finds_out:
        noticed_after_s = 0.0
    place = streams.single("router-order/joins") if cell.router.policy.arbitrary_order else None
    manager = Manager(env, engines, doors, names, router, log, noticed_after_s=noticed_after_s, place=place)
    manager.start(cell.engines, membership.changes, membership.failures, streams)


@contextmanager
def without_collector() -> Iterator[None]:
    """Run without the garbage collector's passes, and with one over what is young at the end.

    A replication makes many objects that live as long as it does, and then hang together in circles (engines, caches).
    If they are given back before the collector ever sees them as old, no pass goes over them twice.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
            gc.collect(0)


def engine_names(cell: Cell, streams: Streams) -> list[str]:
    """URL of each engine of a replication, those that join later at the end."""
    every = cell.engines + len(cell.membership.joining)
    return [f"http://engine-{name[:8]}:30000" for name in streams.names("engine-names", every)]


def keys_of(cell: Cell, workload: Workload, streams: Streams, urls: Sequence[str] | None = None) -> list[str]:
    """Routing key of each session: random ids, or the explicit keys that the data or the scenario sets.

    Blocked by placement, the ids of pair i fall into the class that is planned for it. For a real fleet ``urls`` are
    those of its engines: a ring hashes them, a modulo does not.
    """
    explicit = explicit_keys(cell, workload.keys)
    group_of, client = workload.group_of.tolist(), cell.client
    salt = f"/{client.key_salt}" if client.key_salt else ""

    def drawn(suffix: str) -> list[str]:
        sessions = streams.names(f"session-ids{salt}{suffix}", workload.sessions)
        if workload.key_owner is not None:
            sessions = [sessions[owner] for owner in workload.key_owner.tolist()]
        groups = streams.names(f"group-ids{salt}{suffix}", workload.groups)
        return session_keys(client.scope, sessions, groups, group_of, explicit)

    if client.unkeyed_share:
        has_none = streams.column("client/unkeyed").random(workload.sessions) < client.unkeyed_share
        return [own if none else key for key, own, none in zip(drawn(""), explicit, has_none.tolist(), strict=True)]
    if client.blocking == "none" or any(explicit):
        return drawn("")
    names = engine_names(cell, streams)[: cell.engines] if urls is None else urls
    return planned_keys(cell.router.make_policy(), client.header or "", names, drawn, streams.replication)


def build_schedulers(cell: Cell, streams: Streams, log: Log) -> list[Scheduler]:
    """A scheduler for each engine, those that join later last; speeds and step noise are each engine's own."""
    joining = [next(kind for kind in cell.fleet if kind.name == (name or "")) for name in cell.membership.joining]
    groups = [(kind, kind.count) for kind in cell.fleet] + [(kind, 1) for kind in joining]
    speeds = streams.column("engine-speed").standard_normal(cell.engines + len(joining)).tolist()
    schedulers: list[Scheduler] = []
    for kind, count in groups:
        spec, cost, capacity = kind.engine, _cost(kind, cell, streams, log.tick_s), kv_tokens(kind, cell.base)
        for _ in range(count):
            index = len(schedulers)
            factor = math.exp(cell.noise.engine_speed_sigma * speeds[index])
            own = cost if factor == 1.0 else cost.scaled(factor)
            log.costs.append(own)
            noise = _step_noise(cell.noise.step_sigma, streams, index)
            if spec.preset == "vllm":
                schedulers.append(VllmScheduler(spec, own, capacity, noise))
            else:
                shuffle = _shuffle(streams, index) if spec.queue_order == "random" else None
                schedulers.append(SglangScheduler(spec, own, capacity, noise, shuffle))
    return schedulers


def _cost(kind: EngineType, cell: Cell, streams: Streams, tick_s: float) -> Coefficients:
    """The cost of a step on a type of engine; a model that states an uncertainty draws it, alike for all arms."""
    spec = kind.engine
    # A cost model that knows no uncertainty, as a user's own may, takes no streams.
    drawn = {"streams": streams} if getattr(spec.cost, "uncertainty", "none") != "none" else {}
    return shared(spec.cost.compile(tick_s, **kind.hardware, overlap=spec.overlap, base=cell.base, **drawn))


def _shuffle(streams: Streams, index: int) -> Callable[[list[Request]], None]:
    """Shuffles the waiting queue of one engine."""
    return streams.single(f"queue-order/{index}").shuffle


def _step_noise(sigma: float, streams: Streams, index: int) -> Callable[[], float] | None:
    """Factors of successive stretches of equal steps of one engine: lognormal with median 1."""
    if sigma == 0:
        return None
    chance = streams.single(f"step-time/{index}")
    return lambda: math.exp(sigma * chance.gauss(0.0, 1.0))
