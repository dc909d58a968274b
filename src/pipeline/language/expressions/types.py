"""What type a condition has before it runs, and where its types cannot fit together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

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
    walk,
)
from pipeline.language.source import Span

OUTCOMES = ("success", "fail", "partial_success", "retry", "skipped", "cancelled", "not_run")
VERDICTS = ("PASS", "WARN", "FAIL", "ABORT", "none")


class Type(Enum):
    """What is known of a value before the run; the value is the word for it in a message."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    UNKNOWN = "known only when it runs"


_RETURNS = {
    Function.OUTCOME: Type.TEXT,
    Function.OUTPUT: Type.UNKNOWN,
    Function.EXISTS: Type.BOOLEAN,
    Function.CONTEXT: Type.UNKNOWN,
    Function.VISITS: Type.NUMBER,
    Function.FINDINGS: Type.NUMBER,
    Function.VERDICT: Type.TEXT,
}
_NONE_KNOWN: Mapping[str, str] = MappingProxyType({})
_CLOSED = {Function.OUTCOME: OUTCOMES, Function.VERDICT: VERDICTS}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Two types that cannot meet: always an evaluation error."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Impossible:
    """A function compared with a value it never has."""

    span: Span
    function: Function
    value: str
    possible: tuple[str, ...]


def type_of(tree: Tree) -> Type:
    """The static type of a tree."""
    match tree:
        case Literal(value):
            if isinstance(value, bool):
                return Type.BOOLEAN
            return Type.TEXT if isinstance(value, str) else Type.NUMBER
        case FunctionCall(function):
            return _RETURNS[function]
        case _:
            return Type.BOOLEAN


def mismatches(expression: Expression) -> Iterator[Mismatch]:
    """Every place where the types say that evaluation must fail."""
    if _is_plain_equality(expression.tree):
        return
    yield from _not_boolean(expression.tree, "a condition")
    for node in walk(expression.tree):
        match node:
            case Not(operand):
                yield from _not_boolean(operand, "!")
            case And(terms):
                for term in terms:
                    yield from _not_boolean(term, "&&")
            case Or(terms):
                for term in terms:
                    yield from _not_boolean(term, "||")
            case Comparison(operator) if operator.orders:
                yield from _unordered(node)


def _is_plain_equality(tree: Tree) -> bool:
    """Whether a tree is by far the most frequent kind, two leaves compared for equality: it always has a value."""
    match tree:
        case Comparison(operator, Literal() | FunctionCall(), Literal() | FunctionCall()):
            return not operator.orders
    return False


def impossible_values(expression: Expression) -> Iterator[Impossible]:
    """Every comparison of a closed set, such as a stage's outcome, with a text outside it."""
    for node in walk(expression.tree):
        if not isinstance(node, Comparison) or node.operator.orders:
            continue
        for asked, given in ((node.left, node.right), (node.right, node.left)):
            if isinstance(asked, FunctionCall) and isinstance(given, Literal) and isinstance(given.value, str):
                possible = _CLOSED.get(asked.function)
                if possible and given.value not in possible:
                    yield Impossible(given.span, asked.function, given.value, possible)


def constant(tree: Tree, outcomes: Mapping[str, str] = _NONE_KNOWN) -> bool | None:
    """The value a condition has in every run in which stages have these outcomes, or None when runs decide it."""
    match tree:
        case Literal(value):
            return value if isinstance(value, bool) else None
        case Not(operand):
            inner = constant(operand, outcomes)
            return None if inner is None else not inner
        case And(terms):
            return _folded(terms, outcomes, absorbing=False)
        case Or(terms):
            return _folded(terms, outcomes, absorbing=True)
        case Comparison():
            return _constant_comparison(tree, outcomes)
    return None


def _folded(terms: tuple[Tree, ...], outcomes: Mapping[str, str], *, absorbing: bool) -> bool | None:
    values = {constant(term, outcomes) for term in terms}
    if absorbing in values:
        return absorbing
    return None if None in values else not absorbing


def _constant_comparison(node: Comparison, outcomes: Mapping[str, str]) -> bool | None:
    if node.operator.orders:
        return None
    one, other = _known(node.left, outcomes), _known(node.right, outcomes)
    left, right = type_of(one), type_of(other)
    if isinstance(one, Literal) and isinstance(other, Literal) and left is right:
        return (one.value == other.value) is (node.operator is Operator.EQUAL)
    if Type.UNKNOWN in (left, right) or left is right:
        return None
    return node.operator is Operator.UNEQUAL


def _known(tree: Tree, outcomes: Mapping[str, str]) -> Tree:
    """A tree with the outcome it asks about in its place, where that is known."""
    match tree:
        case FunctionCall(Function.OUTCOME, str(stage)) if stage in outcomes:
            return Literal(outcomes[stage], tree.span)
    return tree


def _not_boolean(tree: Tree, where: str) -> Iterator[Mismatch]:
    found = type_of(tree)
    if found not in (Type.BOOLEAN, Type.UNKNOWN):
        yield Mismatch(tree.span, f"{where} needs true or false, and {tree} is {found.value}")


def _unordered(node: Comparison) -> Iterator[Mismatch]:
    left, right = type_of(node.left), type_of(node.right)
    for tree, found in ((node.left, left), (node.right, right)):
        if found is Type.BOOLEAN:
            yield Mismatch(tree.span, f"{node.operator} needs numbers or text, and {tree} is true or false")
            return
    if Type.UNKNOWN not in (left, right) and left is not right:
        message = f"{node.operator} cannot compare {left.value} with {right.value}: {node}"
        yield Mismatch(node.span, message)
