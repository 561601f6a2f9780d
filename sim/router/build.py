"""The router that a scenario asks for."""

from collections.abc import Sequence

from sim.engine.shell import Engine
from sim.foreign import checked
from sim.instants import Clock
from sim.log.record import Log
from sim.rng import Streams
from sim.router import Routes
from sim.router.plain import Router
from sim.router.spec import RouterSpec


def build_router(
    env: Clock, spec: RouterSpec, engines: Sequence[Engine], urls: Sequence[str], streams: Streams, log: Log
) -> Routes:
    """The plain router where it will do, else one with all that is asked for, in as many replicas."""
    policy = checked(spec.make_policy())
    order = list(range(len(engines)))
    if policy.arbitrary_order:
        streams.single("router-order").shuffle(order)
    if not spec.around.is_plain:
        raise NotImplementedError("only the plain router")
    overhead = round(spec.around.overhead_s / log.tick_s)
    return Router(env, policy, engines, urls, order, streams.single("policy"), log, overhead=overhead)
