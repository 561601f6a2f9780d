"""Requests, schedulers and one engine on a clock of milliseconds, for the tests of the simulation core."""

from policies._content import PRIVATE, canonical, count
from policies._protocol import RequestView
from sim.cost.constant import Constant
from sim.engine.request import Request
from sim.engine.sglang import SglangScheduler
from sim.engine.shell import Engine
from sim.engine.spec import EngineSpec, resolve
from sim.engine.vllm import VllmScheduler
from sim.instants import SUBMIT, Clock
from sim.log.record import Log

STEP = 10
"""Ticks of a step; a tick is a millisecond."""


def request(serial, prompt, output=1, limit=None, source=PRIVATE):
    """A request; ``prompt`` is a content or a number of tokens of its own."""
    content = canonical(((1000 + serial, prompt),) if isinstance(prompt, int) else prompt)
    view = RequestView(serial, {}, content, count(content), output if limit is None else limit)
    return Request(view, output, source)


def scheduler(preset, tokens=100_000, cost=None, **fields):
    """A scheduler whose steps take ``STEP`` ticks unless a cost says otherwise."""
    fields.setdefault("overlap", False)
    spec = resolve(EngineSpec(preset, kv_tokens=tokens, **fields))
    cost = cost or Constant(step_ms=STEP)
    compiled = cost.compile(1e-3, device="", model="", tp=1, overlap=spec.overlap, base=None)
    return (VllmScheduler if preset == "vllm" else SglangScheduler)(spec, compiled, tokens)


class Bench:
    """One engine that serves requests sent at given times; it notes each step as its scheduler forms it."""

    def __init__(self, preset, tokens=100_000, *, step_by_step=True, cost=None, **fields):
        self.env = Clock(initial_time=0)
        self.log = Log(["engine"], tick_s=1e-3)
        self.scheduler = scheduler(preset, tokens, cost, **fields)
        self.steps = []
        """For each step formed: time, {request: tokens of its chunk}, number of decodes."""
        self.forms = self.scheduler.form
        self.scheduler.form = self._form
        self.engine = Engine(self.env, 0, self.scheduler, self.log, step_by_step=step_by_step)
        self.requests = {}

    def _form(self, now):
        before = {each: each.prefill_tokens for each in self.requests.values()}
        plan = self.forms(now)
        if plan is not None:
            chunks = {each.view.id: each.prefill_tokens - tokens for each, tokens in before.items()}
            self.steps.append((now, {serial: tokens for serial, tokens in chunks.items() if tokens}, plan.decodes))
        return plan

    def send(self, when, *requests):
        """Submit requests at a time."""
        for each in requests:
            self.requests[each.view.id] = each
            each.done = lambda _: None
            self.env.at(when, SUBMIT + each.view.id, self.engine.submit, each)
        return self

    def run(self):
        """Serve all; returns the requests in the order in which they were sent."""
        self.env.run()
        return list(self.requests.values())

    def ran(self):
        """Steps in order: start, end, prefill tokens, decodes, of the engines table."""
        table = self.log.numpy("engines")
        columns = ("start", "end", "chunk_tokens", "decodes")
        return list(zip(*(table[name].tolist() for name in columns), strict=True))
