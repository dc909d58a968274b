"""The value of a condition in a run. The run is behind a protocol."""

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Protocol

from pipeline.language.expressions.parse import (
    And,
    Comparison,
    Expression,
    Function,
    FunctionCall,
    Literal,
    Not,
    Operator,
    Or,
    Tree,
)
from pipeline.language.source import Span
from pipeline.text import one_line, quote_value


class Scope(Protocol):
    """What a condition may ask. Values are plain JSON; a missing one is None."""

    def outcome(self, stage: str) -> str: ...
    def output(self, key: str) -> object: ...
    def exists(self, key: str) -> bool: ...
    def context(self, key: str) -> object: ...
    def input(self, name: str) -> object: ...
    def visits(self, stage: str) -> int: ...
    def function(self, name: str) -> Callable[[str | None], object] | None:
        """Return the function that a plugin provides under this name, or None."""


class EvaluationError(Exception):
    """A condition that has no value in this run: why, and where in its text."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


PLUGIN_FUNCTIONS = frozenset({Function.FINDINGS, Function.REPORTS, Function.VERDICT})
_MAX_SHOWN = 60  # characters of one value in a reason
_MAX_PRINTED = 10**18  # Python refuses to print the longest integers
_ORDER: dict[Operator, Callable[..., bool]] = {
    Operator.LESS: lt,
    Operator.AT_MOST: le,
    Operator.MORE: gt,
    Operator.AT_LEAST: ge,
}


def evaluate(expression: Expression, scope: Scope) -> bool:
    """Whether a condition holds. Null is false; raises EvaluationError for any other value that is not a boolean."""
    return _truth(expression.tree, scope)


def _truth(tree: Tree, scope: Scope) -> bool:
    value = _value(tree, scope)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise EvaluationError(tree.span, f"{tree} is {_type_name(value)}, but a condition needs true or false")


def _value(tree: Tree, scope: Scope) -> object:
    match tree:
        case Literal(value):
            return value
        case FunctionCall():
            return _call(tree, scope)
        case Not(operand):
            return not _truth(operand, scope)
        case And(terms):
            return all(_truth(term, scope) for term in terms)
        case Or(terms):
            return any(_truth(term, scope) for term in terms)
        case Comparison(operator):
            left, right = _value(tree.left, scope), _value(tree.right, scope)
            types = _type_name(left), _type_name(right)
            if not operator.orders:
                return (types[0] == types[1] and left == right) is (operator is Operator.EQUAL)
            if left is None or right is None:
                return False
            if types[0] != types[1] or types[0] not in ("a number", "text"):
                raise EvaluationError(tree.span, f"{operator} cannot compare {types[0]} with {types[1]}: {tree}")
            return _ORDER[operator](left, right)


def _call(call: FunctionCall, scope: Scope) -> object:
    name = call.argument or ""
    match call.function:
        case Function.OUTCOME:
            return scope.outcome(name)
        case Function.OUTPUT:
            return scope.output(name)
        case Function.EXISTS:
            return scope.exists(name)
        case Function.CONTEXT:
            return scope.context(name)
        case Function.INPUT:
            return scope.input(name)
        case Function.VISITS:
            return scope.visits(name)
        case Function.FINDINGS | Function.REPORTS | Function.VERDICT:
            function = scope.function(call.function)
            if function is None:
                raise EvaluationError(call.span, f"no loaded plugin provides {call.function}()")
            return function(call.argument)


def _type_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
    return "a list or an object"


def observed_values(expression: Expression, scope: Scope) -> tuple[str, ...]:
    """Each function call of a condition with its value, such as `findings() = 2`; each short and on one line."""
    calls = {str(call): call for call in expression.calls()}
    return tuple(
        f"{one_line(text, _MAX_SHOWN)} = {_format_value(_call(call, scope), call.function)}"
        for text, call in calls.items()
    )


def _format_value(value: object, function: Function) -> str:
    match value:
        case str() if function in (Function.OUTCOME, Function.VERDICT):
            return one_line(value, _MAX_SHOWN)
        case str():
            return f'"{one_line(value, _MAX_SHOWN)}"'
        case int() if abs(value) >= _MAX_PRINTED:
            return "a very large number"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
    return quote_value(value)
