"""The small language of measures: arithmetic, comparisons and calls of ``_measures.py``, over arrays by pair.

    1 - mean(metric(group, "prefill_tokens")) / mean(metric(sample, "prefill_tokens"))

A bare name is an arm; everything between pairs is elementwise, and the outermost value must be one number. Read with
Python's own parser, of which only these few nodes are taken.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sim import registry
from sim.errors import ScenarioError
from sim.validation._measures import FUNCTIONS, Estimate

_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A measure that was read and checked."""

    text: str
    at: str
    """Where it is written, for errors."""
    tree: ast.expr
    names: frozenset[str]
    """Arms that it reads."""

    def evaluate(self, arms: Mapping[str, Any]) -> Estimate:
        """Its value over the arms of a run."""
        found = self._value(self.tree, arms)
        if isinstance(found, Estimate):
            return found
        try:
            return Estimate(float(found))
        except TypeError:
            raise ScenarioError(
                f"{self.at}: gives a value for each pair; take its mean, or another one number"
            ) from None

    def _value(self, node: ast.expr, arms: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return arms[node.id]
            case ast.BinOp():
                return _OPERATORS[type(node.op)](*(_bare(self._value(each, arms)) for each in (node.left, node.right)))
            case ast.UnaryOp():
                return _OPERATORS[type(node.op)](_bare(self._value(node.operand, arms)))
            case ast.Compare():
                sides = (node.left, node.comparators[0])
                return _OPERATORS[type(node.ops[0])](*(_bare(self._value(each, arms)) for each in sides))
            case ast.Call():
                assert isinstance(node.func, ast.Name)
                given = [self._value(each, arms) for each in node.args]
                try:
                    return FUNCTIONS[node.func.id](*map(_bare, given))
                except TypeError as error:
                    raise ScenarioError(f"{self.at}: {node.func.id}: {registry.first_line(error)}") from None
                except ScenarioError as error:
                    raise ScenarioError(f"{self.at}: {node.func.id}: {error}") from None
        raise AssertionError(ast.dump(node))


def parse(text: str, arms: Iterable[str], at: str) -> Expression:
    """Read a measure; whatever it may not say is refused here."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ScenarioError(f"{at}: cannot be read: {error.msg}") from None
    known = set(arms)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            held, noun = (FUNCTIONS, "function") if id(node) in called else (known, "arm")
            if node.id not in held:
                raise ScenarioError(f"{at}: unknown {noun} {node.id!r}; {registry.suggest(node.id, held)}")
            if noun == "arm":
                names.add(node.id)
        elif not _is_taken(node):
            raise ScenarioError(f"{at}: {type(node).__name__} is not taken here; numbers, arms, calls and + - * / ** <")
    if not names:
        raise ScenarioError(f"{at}: names no arm")
    return Expression(text.strip(), at, tree, frozenset(names))


def _is_taken(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | str) and not isinstance(node.value, bool)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and not node.keywords
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.expr_context) or type(node) in _OPERATORS


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Estimate) else value
