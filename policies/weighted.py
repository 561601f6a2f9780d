"""Any mix of scores, with weights."""

from dataclasses import dataclass
from typing import ClassVar

from policies._costs import softmax_lowest
from policies._keys import HEADERS, key_of
from policies._prefix_index import PrefixIndex
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Weighted(Policy):
    """The available engine with the highest weighted sum of scores in 0..1, ties uniform.

    - ``prefix``: share of the prompt that the engine holds, by its KV events or else by what this router sent there.
    - ``requests``, ``tokens``: how low the requests in flight, and the prompt tokens in flight, are, as ``(max - x) /
      (max - min)`` over the available engines; 1 for all where they are equal.
    - ``waiting``, ``kv_share``: the same of the reported queue; and ``1 - share`` of the reported KV use. An engine
      without a report counts as empty.
    - ``affinity``: 1 for the engine that served this key last.

    With ``temperature`` > 0, a draw with probability ``exp(score / spread / temperature)``. Cost O(engines + nodes on
    the prompt's path); scores of weight 0 cost nothing.

    Source: the common form of llm-d's endpoint picker, AIBrix and Dynamo; the products' own kinds have their own
    scores.
    Known pathologies: weights compare unlike things: equal loads score 1 as a perfect match does; reported scores lag,
    so bursts herd.
    Checked against: decision tables by hand; where prompts share nothing, least load with random ties.
    """

    prefix: float = 2.0
    """Weight of the share of the prompt that the engine holds."""
    requests: float = 1.0
    """Weight of few requests in flight."""
    tokens: float = 0.0
    """Weight of few prompt tokens in flight."""
    waiting: float = 0.0
    """Weight of a short reported queue."""
    kv_share: float = 0.0
    """Weight of a low reported KV use."""
    affinity: float = 0.0
    """Weight of having served this key last."""
    temperature: float = 0.0
    """0: the highest score; above: a draw by softmax."""

    key_headers = HEADERS
    reads_content: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "smg.least_load"

    def __post_init__(self) -> None:
        self.refuse_negative("prefix", "requests", "tokens", "waiting", "kv_share", "affinity", "temperature")
        self._index = PrefixIndex()
        self._tokens: dict[EngineView, int] = {}
        self._last: dict[str, EngineView] = {}

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """It holds nothing any more."""
        self._index.forget([engine])
        self._tokens.pop(engine, None)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Count its tokens."""
        self._tokens[engine] = self._tokens.get(engine, 0) + request.prompt_tokens

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Uncount them."""
        self._tokens[engine] = self._tokens.get(engine, 0) - request.prompt_tokens

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine of highest score."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        scores = dict.fromkeys(available, 0.0)
        matched = self._match(request, available) if self.prefix else {}
        for engine, tokens in matched.items():
            scores[engine] += self.prefix * tokens / max(request.prompt_tokens, 1)
        _add_low(scores, self.requests, {each: float(each.in_flight) for each in available})
        if self.tokens:
            _add_low(scores, self.tokens, {each: float(self._tokens.get(each, 0)) for each in available})
        if self.waiting:
            _add_low(
                scores, self.waiting, {each: float(each.report.waiting if each.report else 0) for each in available}
            )
        if self.kv_share:
            for engine in available:
                scores[engine] += self.kv_share * (1 - (engine.report.kv_share if engine.report else 0.0))
        key = key_of(request)
        last = self._last.get(key)
        if last in scores:
            scores[last] += self.affinity
        chosen = softmax_lowest(available, [-scores[each] for each in available], self.temperature, pick)
        if self.affinity and key:
            self._last[key] = chosen
        if self.prefix:
            self._index.add(request.content, chosen)
        return chosen, "score", int(matched.get(chosen, 0))

    def _match(self, request: RequestView, available: list[EngineView]) -> dict[EngineView, float]:
        """Tokens of the prompt that each available engine holds."""
        guessed = self._index.match(request.content)
        return {
            each: guessed.get(each, 0.0) if each.cached_tokens is None else each.cached_tokens(request.content)
            for each in available
        }


def _add_low(scores: dict[EngineView, float], weight: float, values: dict[EngineView, float]) -> None:
    """Add a weighted score that is 1 for the lowest value and 0 for the highest; 1 for all where they are equal."""
    least, spread = min(values.values()), max(values.values()) - min(values.values())
    for engine, value in values.items():
        scores[engine] += weight * (1 - (value - least) / spread if spread else 1)
