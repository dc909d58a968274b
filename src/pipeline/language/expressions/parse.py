"""Conditions: their syntax tree, and a parser that climbs by operator precedence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from math import isinf
from typing import NamedTuple

from pipeline.language.source import START, Span
from pipeline.text import did_you_mean

MAX_DIGITS = 400  # any float can be written without an exponent in fewer
MAX_NESTING = 250  # safe for the stack, and ten times what authors need


class Function(StrEnum):
    """What a condition may ask of a run."""

    OUTCOME = "outcome"  # the status of a stage's last visit, or not_run
    OUTPUT = "output"  # a value that a stage produced, or null
    EXISTS = "exists"  # whether a stage produced a value
    CONTEXT = "context"  # a value of the run's context, or null
    INPUT = "input"  # the value of an input
    VISITS = "visits"  # how often a stage has completed
    FINDINGS = "findings"  # the number of open findings that are to be fixed, of all stages or of one
    REPORTS = "reports"  # the number of open reports, of all stages or of one
    VERDICT = "verdict"  # the verdict on the findings of this run after its last structured review, or none


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

    value: str | float | bool
    span: Span = field(compare=False)

    def __str__(self) -> str:
        match self.value:
            case str(text):
                return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'
            case float(number):
                return format(Decimal(repr(number)), "f")  # conditions have no exponents
            case value:
                return str(value).lower()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A question about a stage, a key, or the whole run."""

    function: Function
    argument: str | None
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"{self.function}({'' if self.argument is None else Literal(self.argument, self.span)})"


@dataclass(frozen=True, slots=True)
class Not:
    """True if its operand is false."""

    operand: "Tree"
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"!{_parenthesized(self.operand)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared."""

    operator: Operator
    left: "Tree"
    right: "Tree"
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"{_parenthesized(self.left)} {self.operator} {_parenthesized(self.right)}"


@dataclass(frozen=True, slots=True)
class And:
    """True if every term is."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " && ".join(_parenthesized(term) if isinstance(term, And | Or) else str(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    """True if any term is."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " || ".join(_parenthesized(term) if isinstance(term, Or) else str(term) for term in self.terms)


Tree = Literal | FunctionCall | Not | Comparison | And | Or

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _parenthesized(tree: Tree) -> str:
    return str(tree) if isinstance(tree, Literal | FunctionCall | Not) else f"({tree})"


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
            case And(terms) | Or(terms):
                todo += reversed(terms)


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition as written, with its syntax tree."""

    text: str
    tree: Tree = field(repr=False)

    @property
    def always(self) -> bool:
        """Whether it is the literal `true`."""
        return isinstance(self.tree, Literal) and self.tree.value is True

    def calls(self) -> Iterator[FunctionCall]:
        """Every function call in it."""
        return (node for node in walk(self.tree) if isinstance(node, FunctionCall))

    def __str__(self) -> str:
        return str(self.tree)


# Stands in for a condition that could not be parsed, so that the rest of a file can still be checked.
UNREADABLE = Expression("", FunctionCall(Function.CONTEXT, "", START))


class ExpressionError(ValueError):
    """A malformed condition: what is wrong, and where in its text."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.message = message
        self.help = help


class Token(NamedTuple):
    """A word of a condition: its kind, its text and where it is."""

    kind: str
    text: str
    span: Span


_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)'
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||[<>!()])|(?P<end>\Z)|(?P<other>.))",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r"}
_COMPARISONS = frozenset(operator.value for operator in Operator)
_PRECEDENCE = {"||": 1, "&&": 2} | dict.fromkeys(_COMPARISONS, 3)
_WORD_OPERATORS = {"and": "&&", "or": "||", "not": "!"}
_CHARACTER_HINTS = {
    "'": 'use double quotes; in a KDL string write \\"success\\", or use r#"..."#',
    **{character: f"use {character * 2}" for character in "=&|"},
    **dict.fromkeys("+-*/%", "conditions do not calculate; let a tool stage do it and compare its output"),
}
_WITHOUT_ARGUMENT = (Function.FINDINGS, Function.REPORTS, Function.VERDICT)


def parse_expression(text: str) -> Expression:
    """Parse a condition. Raises ExpressionError at the first mistake."""
    parser = _Parser(text)
    tree = parser.climb(0, 0)
    if parser.token.kind != "end":
        raise _unexpected(parser.token)
    return Expression(text, tree)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.matches = _TOKEN.finditer(text)
        self.token = self.next_token()

    def next_token(self) -> Token:
        """The next word of the condition; the last is of kind `end`."""
        found = next(self.matches)
        kind = found.lastgroup or ""
        span = Span(*found.span(kind))
        if kind == "other":
            character = found[kind]
            if character == '"':
                raise ExpressionError(Span(span.start, len(self.text)), "unterminated string", 'end it with "')
            raise ExpressionError(span, f'unexpected "{character}"', _CHARACTER_HINTS.get(character))
        return Token(kind, found[kind], span)

    def take(self, expected: str) -> Token:
        token = self.token
        if token.kind == "end":
            raise ExpressionError(token.span, f"expected {expected} at the end")
        self.token = self.next_token()
        return token

    def expect(self, text: str) -> Token:
        token = self.take(f'"{text}"')
        if token.text != text:
            raise _unexpected(token, f'expected "{text}"')
        return token

    def climb(self, precedence: int, depth: int) -> Tree:
        """Parse an operand and every operator after it that binds tighter than `precedence`."""
        left = self.operand(depth)
        while _PRECEDENCE.get(self.token.text, 0) > precedence:
            if self.token.text == "&&":
                left = And(*self.chain(left, "&&", depth))
            elif self.token.text == "||":
                left = Or(*self.chain(left, "||", depth))
            else:
                left = self.comparison(left, depth)
        return left

    def chain(self, first: Tree, operator: str, depth: int) -> tuple[tuple[Tree, ...], Span]:
        """The terms of `first && second && ...` as one flat list."""
        terms = [first]
        while self.token.text == operator:
            self.take("a term")
            terms.append(self.climb(_PRECEDENCE[operator], depth))
        return tuple(terms), Span(first.span.start, terms[-1].span.end)

    def comparison(self, left: Tree, depth: int) -> Comparison:
        operator = Operator(self.take("a comparison").text)
        right = self.operand(depth)
        if self.token.text in _COMPARISONS:
            raise ExpressionError(self.token.span, "comparisons cannot be chained", "join two of them with &&")
        return Comparison(operator, left, right, Span(left.span.start, right.span.end))

    def operand(self, depth: int) -> Tree:
        token = self.take("a value")
        if depth > MAX_NESTING:
            raise ExpressionError(token.span, f"the condition is nested deeper than {MAX_NESTING} levels")
        match token.kind:
            case "text":
                return Literal(_unescape(token), token.span)
            case "number":
                return Literal(_read_number(token), token.span)
            case "name" if token.text in ("true", "false"):
                return Literal(token.text == "true", token.span)
            case "name":
                return self.call(token)
        if token.text == "(":
            inner = self.climb(0, depth + 1)
            self.expect(")")
            return inner
        if token.text == "!":
            operand = self.operand(depth + 1)
            return Not(operand, Span(token.span.start, operand.span.end))
        raise _unexpected(token, "expected a value")

    def call(self, name: Token) -> FunctionCall:
        if self.token.text != "(":
            raise _unexpected(name)
        if name.text not in list(Function):
            help = did_you_mean(name.text, Function) or f"the functions are {', '.join(Function)}"
            raise ExpressionError(name.span, f"unknown function {name.text}()", help)
        function = Function(name.text)
        self.take('"("')
        argument = None
        if self.token.text != ")":
            argument = self.argument(function)
        elif function not in _WITHOUT_ARGUMENT:
            raise ExpressionError(name.span, f"{function}() needs a name in quotes", f'write {function}("name")')
        close = self.expect(")")
        return FunctionCall(function, argument, Span(name.span.start, close.span.end))

    def argument(self, function: Function) -> str:
        token = self.take("a name in quotes")
        if token.kind != "text":
            raise ExpressionError(token.span, f"{function}() takes a name in quotes", f'write {function}("name")')
        if function is Function.VERDICT:
            raise ExpressionError(token.span, "verdict() takes no argument")
        return _unescape(token)


def _unexpected(token: Token, expected: str = "") -> ExpressionError:
    """The error for a token that does not belong where it is, with what was probably meant."""
    message, help = f'unexpected "{token.text}"', expected or None
    if token.text in _WORD_OPERATORS:
        message += f"; use {_WORD_OPERATORS[token.text]}"
    elif token.text in ("null", "none", "nil"):
        help = 'use exists("stage.key")'
    elif token.text in ("success", "fail", "always"):
        help = f'write on="{token.text}" instead of when="{token.text}"'
    elif token.kind == "name":
        help = f'quote it if it is text: \\"{token.text}\\"'
    return ExpressionError(token.span, message, help)


def _unescape(token: Token) -> str:
    def replace(escape: re.Match[str]) -> str:
        if escape[1] not in _UNESCAPED:
            at = token.span.start + 1 + escape.start()
            raise ExpressionError(
                Span(at, at + 2), f'unknown escape "{escape[0]}"', r"the escapes are \" \\ \/ \n \t \r"
            )
        return _UNESCAPED[escape[1]]

    return _ESCAPE.sub(replace, token.text[1:-1])


def _read_number(token: Token) -> float:
    if len(token.text) > MAX_DIGITS:
        raise ExpressionError(token.span, "this number is too long")
    if "." not in token.text:
        return int(token.text)
    number = float(token.text)
    if isinf(number):
        raise ExpressionError(token.span, "this number is too large")
    return number
