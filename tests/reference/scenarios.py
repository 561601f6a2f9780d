"""Random small scenarios of one engine, served by the engine of the simulator and by the reference."""

import random
from dataclasses import dataclass, replace

from policies._content import PRIVATE, canonical, count, extend
from policies._protocol import RequestView
from sim.cost._coefficients import Coefficients
from sim.engine.request import Request
from sim.engine.sglang import SglangScheduler
from sim.engine.shell import Engine
from sim.engine.spec import EngineSpec, resolve
from sim.engine.vllm import VllmScheduler
from sim.instants import FAILURE, SUBMIT, Clock
from sim.log.record import BUSY, DOWN, STATUS, Log
from tests.reference.sglang import Sglang
from tests.reference.vllm import Vllm
from tests.reference.world import Call, World, tokens_of

COSTS = {
    "flat": {"t0": 10.0, "slopes": ((0, 0.0),)},
    "growing": {"t0": 7.3, "slopes": ((0, 0.21), (60, 0.13)), "seq": 0.37, "ctx": 0.011, "pair": 0.003, "chunk": 1.9},
    "by tokens": {"t0": 5.0, "slopes": ((0, 1.0),), "host0": 2.0, "host1": 0.0},
}


@dataclass(frozen=True)
class Asked:
    """A request of a scenario: sent at a tick, or a delay after the end of another."""

    serial: int
    content: tuple
    output: int
    limit: int
    source: int
    when: int
    after: int = -1
    key: str = ""
    """Routing key."""


@dataclass(frozen=True)
class Scenario:
    """An engine and what it is asked."""

    spec: EngineSpec
    cost: str
    asked: tuple
    orders: tuple = ()
    """What is done to the engine: tick, what, and to whom or which."""
    chains: tuple = ()
    """Pairs: when the first is answered the second is aborted (not known to the reference)."""


def random_scenario(preset, seed):
    """A scenario by its number; pools are small, so memory is often short."""
    r = random.Random(f"{preset}/{seed}")
    block = r.choice([4, 16, 16] if preset == "vllm" else [1, 1, 4, 16])
    seqs = r.choice([2, 3, 8, 16])
    spec = resolve(
        EngineSpec(
            preset,
            overlap=r.random() < 0.5,
            visibility=r.choice(["at_schedule", "at_schedule", "after_prefill"]) if preset == "vllm" else None,
            block_tokens=block,
            kv_tokens=r.choice([112, 160, 160, 256, 384, 5000]) // block * block,
            **{"max_num_seqs": seqs} | _OWN[preset](r, seqs, block),
        )
    )
    asked = []
    system, group = r.choice([0, 16, 20]), r.choice([8, 32, 50])
    for session in range(r.choice([2, 4, 8, 14])):
        asked += _session(r, spec, len(asked), session, (system, group))
    return Scenario(spec, r.choice(list(COSTS)), tuple(asked))


def _vllm(r, seqs, block):
    if r.random() < 0.3:
        return _hybrid(r, seqs, block)
    return {
        "max_num_batched_tokens": max(seqs, r.choice([16, 40, 64, 500])),
        "long_prefill_token_threshold": r.choice([0, 0, 8, 24]),
        "reserve_full_prompt": r.random() < 0.6,
        "watermark_share": r.choice([0.0, 0.0, 0.1]),
    }


def _hybrid(r, seqs, block):
    """Of a model with a state; the budget has a token for each sequence beside whole blocks, and not another block."""
    seqs = min(seqs, block - 1)
    return {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": block * r.choice([1, 2, 4]) + seqs,
        "reserve_full_prompt": r.random() < 0.6,
        "state_tokens_per_seq": r.choice([0, 10, 40]),
        "align_chunks": True,
    }


def _sglang(r, seqs, block):  # noqa: ARG001
    return {
        "chunked_prefill_tokens": r.choice([32, 64, 512]),
        "max_prefill_tokens": r.choice([48, 128, 1000]),
        "clip_max_new_tokens": r.choice([2, 8, 32, 4096]),
        "schedule_conservativeness": r.choice([0.1, 0.3, 1.0]),
        "new_token_ratio_decay_steps": r.choice([8, 600]),
    }


_OWN = {"vllm": _vllm, "sglang": _sglang}


def _session(r, spec, serial, session, shared):
    """The turns of one session: a common start, a part shared with its group, its own."""
    system, group = shared
    own = 100 + session
    shared_tokens = group if r.random() < 0.7 else r.randint(0, group)
    content = canonical(((0, system), (1 + session % 2, shared_tokens), (own, r.choice([0, 1, 5, 12, 16, 40]))))
    if not content:
        content = ((own, 8),)
    is_live = r.random() < 0.6
    when, after = r.choice([0, 0, r.randrange(20) * 10, r.randrange(200)]), -1
    turns = []
    for _ in range(r.choice([1, 1, 2, 3])):
        output = r.choice([1, 2, r.randint(1, 20), r.randint(1, 60)])
        limit = output if r.random() < 0.5 else output + r.choice([1, 3, 20])
        asked = Asked(serial, content, output, limit, own if is_live else PRIVATE, when, after)
        state = -(-(spec.state_tokens_per_seq or 0) // spec.block_tokens) * spec.block_tokens
        if (
            count(content) + state + spec.block_tokens + limit
            >= spec.kv_tokens // spec.block_tokens * spec.block_tokens
        ):
            break
        turns.append(asked)
        when, after, serial = r.choice([0, 10, 20, 33]), serial, serial + 1
        content = extend(extend(content, own, output), own, r.choice([1, 8, 20]))
    return turns


def random_orders(r, scenario):
    """What may be done to an engine, often at the end of a step; who is paused or failed comes back."""

    def tick():
        return r.choice([r.randrange(30) * 10, r.randrange(300), r.randrange(60)])

    orders = []
    for _ in range(r.choice([1, 2, 4, 8])):
        what = r.choice(["abort"] * 3 * bool(scenario.asked) + ["flush", "version", "pause", "fail"])
        when = tick()
        if what == "abort":
            orders.append((when, what, r.choice(scenario.asked).serial))
        elif what == "version":
            orders.append((when, what, r.randrange(3)))
        else:
            orders.append((when, what))
        if what in ("pause", "fail"):
            orders.append((when + r.choice([0, 1, 10, 33, 100]), {"pause": "resume", "fail": "restart"}[what]))
    orders.append((5000, "restart"))
    orders.append((5000, "resume"))
    # Failures and restarts of an instant come first.
    return tuple(sorted(orders, key=lambda order: (order[0], order[1] not in ("fail", "restart"))))


def serve(scenario, *, step_by_step=False, watch=None):
    """By the simulator's engine: marks of every request, its account, and what its cache holds at the end."""
    spec = scenario.spec
    env = Clock(initial_time=0)
    cost = Coefficients(**COSTS[scenario.cost])
    if spec.preset == "vllm":
        scheduler = VllmScheduler(spec, cost, spec.kv_tokens)
    else:
        scheduler = SglangScheduler(spec, cost, spec.kv_tokens, shuffle=random.Random(0).shuffle)
    log = Log(["engine"], tick_s=1e-3)
    engine = Engine(env, 0, scheduler, log, step_by_step=step_by_step)
    if watch is not None:
        watch(scheduler, env, engine)
    requests, answered = {}, {}

    def obey(order):
        what, *which = order
        if what == "abort":
            if which[0] in requests:
                engine.abort(requests[which[0]])
        else:
            getattr(engine, {"version": "set_version"}.get(what, what))(*which)

    def submit(asked, delay):
        headers = {"x-smg-routing-key": asked.key}
        view = RequestView(asked.serial, headers, asked.content, count(asked.content), asked.limit)
        request = requests[asked.serial] = Request(view, asked.output, asked.source)
        request.done = answer
        env.at(env.now + delay, SUBMIT + asked.serial, engine.submit, request)

    def answer(request):
        answered[request.view.id] = _marks(request)  # What changes later no client sees.
        for first, second in scenario.chains:
            if first == request.view.id and second in requests:
                engine.abort(requests[second])
        for asked in scenario.asked:
            if asked.after == request.view.id:
                submit(asked, asked.when)

    for asked in scenario.asked:
        if asked.after < 0:
            submit(asked, asked.when)
    for place, (when, *order) in enumerate(scenario.orders):
        priority = FAILURE if order[0] in ("fail", "restart") else SUBMIT + (1 << 40)
        env.at(when, priority + place, obey, order)
    env.run()
    marks = {serial: _marks(request) for serial, request in requests.items()} | answered
    assert scheduler.cache.usage()[0] == 0
    rows = log.numpy("engines")
    account = tuple(int((rows["end"] - rows["start"])[rows["kind"] == kind].sum()) for kind in (BUSY, DOWN))
    return marks, _shareable(_contents(scheduler.cache)), (*account, int(rows["chunk_tokens"].sum()))


def _marks(request):
    return (
        request.arrived, request.scheduled, request.first_token, request.ended, request.queried_tokens,
        request.hit_tokens, request.cached_tokens, request.prefill_tokens, request.recomputed_tokens,
        request.preemptions, request.generated, STATUS[request.status],
    )  # fmt: skip


def _contents(cache):
    """Tokens from the start to the end of every block that can be found."""
    found = set()
    for node in cache.nodes():
        path = [node]
        while path[0].parent is not None:
            path.insert(0, path[0].parent)
        if path.pop(0) is not cache.root:
            continue
        tokens = tokens_of(canonical((each.source, each.end - each.start) for each in path))
        first = node.start // cache.block + 1
        found |= {tuple(tokens[: block * cache.block]) for block in range(first, node.end // cache.block + 1)}
    return found


def _shareable(contents):
    """Without outputs that no prompt repeats, which cannot be found."""
    return {tokens for tokens in contents if min(tokens) >= 0}


def refer(scenario):
    """By the reference."""
    spec = scenario.spec
    shuffle = random.Random(0).shuffle
    calls = {}
    for asked in scenario.asked:
        source = asked.source if asked.source >= 0 else -2 - asked.serial
        whole = tokens_of(extend(asked.content, source, asked.output))
        prompt = count(asked.content)
        calls[asked.serial] = Call(asked.serial, whole[:prompt], whole[prompt:], asked.limit, asked.key)
    timed = [
        (calls[asked.serial], asked.when if asked.after < 0 else (calls[asked.after], asked.when))
        for asked in scenario.asked
    ]
    world = World(
        lambda: Vllm(spec) if spec.preset == "vllm" else Sglang(spec, shuffle),
        Coefficients(**COSTS[scenario.cost]),
        timed,
        scenario.orders,
        overlap=spec.overlap,
    )
    world.run()
    account = (world.busy, world.down, world.chunk_tokens)
    return {serial: call.marks() for serial, call in calls.items()}, _shareable(world.scheduler.contents()), account


def smaller(scenario, disagrees):
    """The scenario without the requests that a disagreement does not need: for whoever looks for its cause."""
    for asked in reversed(scenario.asked):
        gone = {asked.serial}
        for each in scenario.asked:
            if each.after in gone:
                gone.add(each.serial)
        rest = tuple(each for each in scenario.asked if each.serial not in gone)
        candidate = replace(scenario, asked=rest)
        if rest and disagrees(candidate):
            return smaller(candidate, disagrees)
    return scenario
