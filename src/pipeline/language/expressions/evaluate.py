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


class Environment(Protocol):
    """What a condition may ask. Values are plain JSON; an absent one is None."""

    def outcome(self, stage: str) -> str: ...
    def output(self, key: str) -> object: ...
    def exists(self, key: str) -> bool: ...
    def context(self, key: str) -> object: ...
    def visits(self, stage: str) -> int: ...
    def function(self, name: str) -> Callable[[str | None], object] | None:
        """Return the function that a plugin provides under this name, or None."""


class EvaluationError(Exception):
    """A condition that has no value in this run: what met what, and where in its text."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


PLUGIN_FUNCTIONS = frozenset({Function.FINDINGS, Function.VERDICT})
_LONGEST = 60  # characters of one observed value
_LARGE = 10**18
_ORDER: dict[Operator, Callable[..., bool]] = {
    Operator.LESS: lt,
    Operator.AT_MOST: le,
    Operator.MORE: gt,
    Operator.AT_LEAST: ge,
}


def evaluate(expression: Expression, environment: Environment) -> bool:
    """Whether a condition holds. Null is false; raises EvaluationError for any other value that is not a boolean."""
    return _truth(expression.tree, environment)


def observed(expression: Expression, environment: Environment) -> tuple[str, ...]:
    """Each call of a condition with its value in a run, such as `findings() = 2`; each short and on one line."""
    calls = {str(call): call for call in expression.calls()}
    return tuple(
        f"{_one_line(text)} = {_format_value(_ask(call, environment), call.function)}" for text, call in calls.items()
    )


def _format_value(value: object, function: Function) -> str:
    match value:
        case str() if function in (Function.OUTCOME, Function.VERDICT):
            return _one_line(value)
        case str():
            return f'"{_one_line(value)}"'
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() if abs(value) >= _LARGE:
            return "a very large number"  # Python refuses to print the longest ones
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
    return str(value)


def _one_line(text: str) -> str:
    """The text on one line, shortened, with only printable characters."""
    line = " ".join(text[: 4 * _LONGEST].split())
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return printable if len(printable) <= _LONGEST else printable[: _LONGEST - 1] + "…"


def _truth(tree: Tree, environment: Environment) -> bool:
    value = _value(tree, environment)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise EvaluationError(tree.span, f"{tree} is {_kind(value)}, where true or false is needed")


def _value(tree: Tree, environment: Environment) -> object:
    match tree:
        case Literal(value):
            return value
        case FunctionCall():
            return _ask(tree, environment)
        case Not(operand):
            return not _truth(operand, environment)
        case And(terms):
            return all(_truth(term, environment) for term in terms)
        case Or(terms):
            return any(_truth(term, environment) for term in terms)
        case Comparison():
            return _compare(tree, environment)


def _ask(call: FunctionCall, environment: Environment) -> object:
    name = call.argument or ""
    match call.function:
        case Function.OUTCOME:
            return environment.outcome(name)
        case Function.OUTPUT:
            return environment.output(name)
        case Function.EXISTS:
            return environment.exists(name)
        case Function.CONTEXT:
            return environment.context(name)
        case Function.VISITS:
            return environment.visits(name)
        case Function.FINDINGS | Function.VERDICT:
            function = environment.function(call.function)
            if function is None:
                raise EvaluationError(call.span, f"no loaded plugin provides {call.function}()")
            return function(call.argument)


def _compare(node: Comparison, environment: Environment) -> bool:
    left, right = _value(node.left, environment), _value(node.right, environment)
    if not node.operator.orders:
        return (_kind(left) == _kind(right) and left == right) is (node.operator is Operator.EQUAL)
    if left is None or right is None:
        return False
    if _kind(left) != _kind(right) or _kind(left) not in ("a number", "text"):
        raise EvaluationError(node.span, f"{node.operator} cannot compare {_kind(left)} with {_kind(right)}: {node}")
    return _ORDER[node.operator](left, right)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else "a list or an object"
