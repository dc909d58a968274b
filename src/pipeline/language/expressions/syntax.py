"""The tree of a condition, and how it is written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from pipeline.language.source import Span

Scalar = str | int | float | bool


class Function(StrEnum):
    """What a condition may ask of a run."""

    OUTCOME = "outcome"  # the status of a stage's last visit, or not_run
    OUTPUT = "output"  # a value a stage left, or null
    EXISTS = "exists"  # whether a stage left a value
    CONTEXT = "context"  # a value of the run's context, or null
    VISITS = "visits"  # how often a stage has completed
    FINDINGS = "findings"  # how many reports are outstanding, in all or of one stage
    VERDICT = "verdict"  # the verdict of the last structured review, or none


class Operator(StrEnum):
    """How two values are compared."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="

    @property
    def orders(self) -> bool:
        """Whether it needs values that have an order."""
        return self is not Operator.EQUAL and self is not Operator.UNEQUAL


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true or false."""

    value: Scalar
    span: Span = field(compare=False)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return '"' + "".join(_ESCAPES.get(c, c) for c in self.value) + '"'
        return str(self.value).lower() if isinstance(self.value, bool) else _digits(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """A function asked about a stage or a key, or about the whole run."""

    function: Function
    argument: str | None
    span: Span = field(compare=False)

    def __str__(self) -> str:
        inside = "" if self.argument is None else Literal(self.argument, self.span)
        return f"{self.function}({inside})"


@dataclass(frozen=True, slots=True)
class Not:
    """True when its operand is false."""

    operand: "Tree"
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"!{_inside(self.operand)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared."""

    operator: Operator
    left: "Tree"
    right: "Tree"
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"{_inside(self.left)} {self.operator} {_inside(self.right)}"


@dataclass(frozen=True, slots=True)
class All:
    """True when every term is (`&&`)."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " && ".join(_inside(term) if isinstance(term, All | Any) else str(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Any:
    """True when some term is (`||`)."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " || ".join(_inside(term) if isinstance(term, Any) else str(term) for term in self.terms)


Tree = Literal | Call | Not | Comparison | All | Any


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition as written, with its tree."""

    text: str
    tree: Tree = field(repr=False)

    @property
    def always(self) -> bool:
        """Whether it is the literal `true`: the last route of a decision, or `on="always"` of a transition."""
        return isinstance(self.tree, Literal) and self.tree.value is True

    def calls(self) -> Iterator[Call]:
        """Every question the condition asks."""
        return (node for node in walk(self.tree) if isinstance(node, Call))

    def __str__(self) -> str:
        return str(self.tree)


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything below it."""
    todo: list[Tree] = [tree]
    while todo:
        node = todo.pop()
        yield node
        match node:
            case Not(operand):
                todo.append(operand)
            case Comparison(_, left, right):
                todo += (right, left)
            case All(terms) | Any(terms):
                todo += reversed(terms)


# Stands in for a condition that could not be read, so that the rest of a file can still be checked.
UNREADABLE = Expression("", Call(Function.CONTEXT, "", Span(0, 0)))

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _inside(tree: Tree) -> str:
    return str(tree) if isinstance(tree, Literal | Call | Not) else f"({tree})"


def _digits(number: float) -> str:
    """A number without an exponent, which conditions do not have."""
    return str(number) if isinstance(number, int) else format(Decimal(repr(number)), "f")
