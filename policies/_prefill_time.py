"""Seconds that Mistral 7B takes to prefill, as Preble and AIBrix put it into their cost.

``(linear(tokens) + attention(context) + quadratic(tokens)) / 0.9`` of the tokens of a tree's node and the context up
to its end, fitted on an A6000 by Preble; AIBrix adds a V100 with coefficients 2.5 times as large. They are the same
whatever the model and the device are that a router serves.

Source: WukLab/preble ``benchmarks/exp_configs/model_equations.py`` at 0c962c4cf; vllm-project/aibrix
``pkg/plugins/gateway/algorithms/prefix_cache_preble.go`` at e3e10f9e4, which writes both out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefillTime:
    """The coefficients of one device, in milliseconds."""

    slope: float
    offset: float
    """Linear part from 384 tokens on."""
    middle: tuple[float, float, float]
    """Quadratic between 192 and 384 tokens: constant, first and second power."""
    least: float
    """Below 192 tokens."""
    attention: tuple[float, float, float]
    """Up to 1,024 tokens of context; beyond: slope and constant."""
    quadratic: tuple[float, float, float]
    """From 4,096 tokens on: constant, first and second power."""

    def seconds(self, tokens: int, context: int) -> float:
        """Time of a node's tokens with the context up to its end."""
        return (self._linear(tokens) + self._attention(tokens, context) + self._quadratic(tokens)) / 1000 / 0.9

    def _linear(self, tokens: int) -> float:
        if tokens >= 384:
            return self.slope * tokens + self.offset
        if tokens >= 192:
            constant, first, second = self.middle
            return constant + first * tokens + second * tokens**2
        return self.least

    def _attention(self, tokens: int, context: int) -> float:
        short, slope, constant = self.attention
        if context <= 1024:
            return short
        time = slope * context + constant
        unique = tokens or context
        return time / 2 if unique <= 1024 else time

    def _quadratic(self, tokens: int) -> float:
        constant, first, second = self.quadratic
        return constant + first * tokens + second * tokens**2 if tokens >= 4096 else 0.0


A6000 = PrefillTime(
    0.10842571, 4.209777054806409, (-118, 1.25, -2.56e-3), 22.0, (0.32, 1.86e-4, 0.159), (-7.37, 3.86e-3, 2.16e-6)
)
V100 = PrefillTime(
    0.27106428, 10.52444263, (-295, 3.125, -6.4e-3), 55.0, (0.80, 4.65e-4, 0.398), (-18.425, 9.65e-3, 5.4e-6)
)
