"""The router that a scenario asks for."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sim.engine.shell import Engine
from sim.foreign import checked
from sim.instants import Clock
from sim.log.record import Log
from sim.rng import Streams
from sim.router import Members
from sim.router._caches import LaggedCaches
from sim.router._replicas import Assignment, ByConnection, ByLot, Front
from sim.router._telemetry import Finished
from sim.router.full import FullRouter
from sim.router.plain import Router
from sim.router.spec import ExactIndex, RouterSpec


def build_router(
    env: Clock, spec: RouterSpec, engines: Sequence[Engine], urls: Sequence[str], streams: Streams, log: Log
) -> Members:
    """The plain router where it will do, else one with all that is asked for, in as many replicas; started."""
    around = spec.around
    if spec.policy.sees_all:
        around = replace(around, telemetry=None, cache_index="approximate")
    is_plain = around.is_plain and not spec.policy.sees_all
    log.router_cores = around.decision.cores * around.replicas if around.decision else 0
    lag = round(around.cache_index.lag_s / log.tick_s) if isinstance(around.cache_index, ExactIndex) else 0
    caches = LaggedCaches(env, lag) if lag else None
    finished = Finished()
    routers: list[Router] = []
    for replica in range(around.replicas):
        # The first replica draws what a router alone draws.
        mark = f"/replica-{replica}" if replica else ""
        policy = checked(spec.make_policy())
        order = list(range(len(engines)))
        if policy.arbitrary_order:
            streams.single(f"router-order{mark}").shuffle(order)
        chance = partial(_chance, streams, mark)
        if is_plain:
            overhead = round(around.overhead_s / log.tick_s)
            routers.append(Router(env, policy, engines, urls, order, chance("policy"), log, overhead=overhead))
        else:
            routers.append(
                FullRouter(env, policy, engines, urls, order, chance, log, around, replica, caches, finished)
            )
    router: Router | Front = routers[0]
    if around.replicas > 1:
        assignment: Assignment = ByConnection(around.replicas)
        if around.assignment != "connection":
            assignment = ByLot(around.replicas, streams.single("router-replicas"), around.assignment)
        router = Front(routers, assignment)
    router.start()
    return router


def _chance(streams: Streams, mark: str, purpose: str) -> random.Random:
    return streams.single(f"{purpose}{mark}")
