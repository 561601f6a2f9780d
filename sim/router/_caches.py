"""What routers know of the engines' prefix caches by KV events that take their time.

An engine tells of a prompt when its first token is there, and of the answer when it ends; a router knows ``lag`` later.
What an engine has evicted is known at once: a match is the shorter of what was told and what is there. So an index
that lags misses what is new, and is never wrong about what is gone.

Left out: lost events, and chunks of a prompt that are told of before its first token; content that was told of once,
evicted and computed again is known again at once.
"""

from collections import deque
from collections.abc import Sequence

from policies._content import Content, extend
from policies._content_tree import ContentTree
from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.instants import Clock


class LaggedCaches:
    """One index of all engines, as all replicas of a router know it."""

    def __init__(self, env: Clock, engines: Sequence[Engine], lag: int) -> None:
        self.env = env
        self.engines = list(engines)
        self.lag = lag
        self.told: ContentTree[int] = ContentTree()
        self.coming: deque[tuple[int, Content, int]] = deque()
        """What engines have told and is not yet known: tick when it will be, content, engine."""
        self.last: Content | None = None
        self.matches: dict[int, int] = {}
        """By engine, what is known of the content that was looked up last."""

    def store(self, request: Request, generated: int) -> None:
        """An engine has cached a prompt and so many tokens of its answer."""
        content = extend(request.view.content, request.output_source, generated)
        self.coming.append((self.env._now + self.lag, content, request.engine))

    def forget(self, engine: Engine) -> None:
        """Another process serves there now."""
        index = engine.index
        if index == len(self.engines):
            self.engines.append(engine)
        self.told.remove(index)
        self.coming = deque(each for each in self.coming if each[2] != index)
        self.last = None

    def cached_tokens(self, index: int, content: Content) -> int:
        """Tokens of a prompt that an engine holds, as far as is known by now."""
        now, coming, told = self.env._now, self.coming, self.told
        while coming and coming[0][0] <= now:
            _, stored, holder = coming.popleft()
            told.attach(told.find(stored), stored, holder)
            self.last = None
        if self.last is not content:
            self.last = content
            self.matches = told.matches(told.find(content))
        known = self.matches.get(index, 0)
        return min(known, self.engines[index].cached_tokens(content)) if known else 0
