"""From the text of a condition to its tree: one token pattern and one loop that climbs by precedence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from math import inf
from typing import NamedTuple

from pipeline.language.source import Span
from pipeline.text import did_you_mean

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
class FunctionCall:
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
class And:
    """True when every term is (`&&`)."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " && ".join(_inside(term) if isinstance(term, And | Or) else str(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    """True when some term is (`||`)."""

    terms: tuple["Tree", ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return " || ".join(_inside(term) if isinstance(term, Or) else str(term) for term in self.terms)


Tree = Literal | FunctionCall | Not | Comparison | And | Or


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition as written, with its tree."""

    text: str
    tree: Tree = field(repr=False)

    @property
    def always(self) -> bool:
        """Whether it is the literal `true`: the last route of a decision, or `on="always"` of a transition."""
        return isinstance(self.tree, Literal) and self.tree.value is True

    def calls(self) -> Iterator[FunctionCall]:
        """Every question the condition asks."""
        return (node for node in walk(self.tree) if isinstance(node, FunctionCall))

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
            case And(terms) | Or(terms):
                todo += reversed(terms)


# Stands in for a condition that could not be read, so that the rest of a file can still be checked.
UNREADABLE = Expression("", FunctionCall(Function.CONTEXT, "", Span(0, 0)))

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _inside(tree: Tree) -> str:
    return str(tree) if isinstance(tree, Literal | FunctionCall | Not) else f"({tree})"


def _digits(number: float) -> str:
    """A number without an exponent, which conditions do not have."""
    return str(number) if isinstance(number, int) else format(Decimal(repr(number)), "f")


MAX_DIGITS = 400  # any float can be written without an exponent in fewer
MAX_NESTING = 250  # the stack is safe at this depth, and no author needs a tenth of it


class ExpressionError(ValueError):
    """A condition that cannot be read: what is wrong with it, and where in its text."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.message = message
        self.help = help


class Token(NamedTuple):
    """A word of a condition: its kind, its text, and where it stands."""

    kind: str
    text: str
    span: Span


_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)'
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||[<>!()])|(?P<end>\Z)|(?P<other>.))",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r"}
_COMPARISONS = frozenset(operator.value for operator in Operator)
_STRENGTH = {"||": 1, "&&": 2} | dict.fromkeys(_COMPARISONS, 3)
_FUNCTIONS = {function.value: function for function in Function}
_SIMPLE = re.compile(  # such as outcome("check") == "success"
    r'(?P<call>(?P<function>outcome|output|context)\("(?P<name>[^"\\]*)"\)) (?P<operator>[=!]=) "(?P<text>[^"\\]*)"'
)
_NEEDS_ARGUMENT = {f: f not in (Function.FINDINGS, Function.VERDICT) for f in Function}


def parse_expression(text: str) -> Expression:
    """Read a condition, or raise ExpressionError at the first thing that is wrong."""
    if simple := _SIMPLE.fullmatch(text):
        return Expression(text, _comparison(simple))
    parser = _Parser(_tokens(text))
    tree = parser.climb(0, 0)
    if parser.token.kind != "end":
        raise ExpressionError(parser.token.span, f'"{parser.token.text}" is one word too many', _hint(parser.token))
    return Expression(text, tree)


def _comparison(found: re.Match[str]) -> Comparison:
    """The tree of the form that most conditions have, without the words in between."""
    left = FunctionCall(_FUNCTIONS[found["function"]], found["name"], Span(found.start(), found.end("call")))
    right = Literal(found["text"], Span(found.end("text") - len(found["text"]) - 1, found.end()))
    return Comparison(Operator(found["operator"]), left, right, Span(found.start(), found.end()))


def _tokens(text: str) -> Iterator[Token]:
    """The words of a condition; the last is of the kind `end`."""
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        span = Span(*found.span(kind))
        if kind == "other":
            raise _unreadable(text, span.start)
        yield Token(kind, found[kind], span)


def _unreadable(text: str, at: int) -> ExpressionError:
    here = text[at]
    help = None
    if here == '"':
        return ExpressionError(Span(at, len(text)), "this text is never closed", 'end it with "')
    if here == "'":
        help = 'text needs double quotes; in a KDL string write \\"success\\", or use r#"..."#'
    elif here in "=&|":
        help = f'write "{here * 2}"'
    elif here in "+-*/%":
        help = "conditions do not calculate; let a tool stage do it and compare its output"
    return ExpressionError(Span(at, at + 1), f'"{here}" has no meaning in a condition', help)


class _Parser:
    def __init__(self, tokens: Iterator[Token]) -> None:
        self.tokens = tokens
        self.token = next(tokens)

    def take(self, expected: str) -> Token:
        token = self.token
        if token.kind == "end":
            raise ExpressionError(token.span, f"the condition ends where {expected} is expected")
        self.token = next(self.tokens)
        return token

    def climb(self, strength: int, depth: int) -> Tree:
        """Read an operand and every operator after it that binds tighter than `strength`."""
        left = self.operand(depth)
        while _STRENGTH.get(self.token.text, 0) > strength:
            if self.token.text == "&&":
                left = And(*self.chain(left, "&&", depth))
            elif self.token.text == "||":
                left = Or(*self.chain(left, "||", depth))
            else:
                left = self.comparison(left, depth)
        return left

    def chain(self, first: Tree, operator: str, depth: int) -> tuple[tuple[Tree, ...], Span]:
        """The terms of `first && second && ...`, flat however many they are."""
        terms = [first]
        while self.token.text == operator:
            self.take("a term")
            terms.append(self.climb(_STRENGTH[operator], depth))
        return tuple(terms), Span(first.span.start, terms[-1].span.end)

    def comparison(self, left: Tree, depth: int) -> Comparison:
        operator = Operator(self.take("a comparison").text)
        right = self.operand(depth)
        if self.token.text in _COMPARISONS:
            raise ExpressionError(self.token.span, "comparisons do not chain", 'join two of them with "&&"')
        return Comparison(operator, left, right, Span(left.span.start, right.span.end))

    def operand(self, depth: int) -> Tree:
        token = self.take("a value")
        if depth > MAX_NESTING:
            raise ExpressionError(token.span, f"the condition is nested deeper than {MAX_NESTING} levels")
        match token.kind:
            case "text":
                return Literal(_unescape(token), token.span)
            case "number":
                return Literal(_number(token), token.span)
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
        raise ExpressionError(token.span, f'"{token.text}" stands where a value is expected')

    def call(self, name: Token) -> FunctionCall:
        if self.token.text != "(":
            raise ExpressionError(name.span, f'"{name.text}" is not a value', _hint(name))
        function = _FUNCTIONS.get(name.text)
        if function is None:
            help = did_you_mean(name.text, Function) or f"the functions are {', '.join(Function)}"
            raise ExpressionError(name.span, f'there is no function "{name.text}"', help)
        self.take("(")
        argument = None
        if self.token.text != ")":
            argument = self.argument(function)
        elif _NEEDS_ARGUMENT[function]:
            raise ExpressionError(name.span, f"{function}() needs a name in quotes", f'write {function}("name")')
        close = self.expect(")")
        return FunctionCall(function, argument, Span(name.span.start, close.span.end))

    def argument(self, function: Function) -> str:
        token = self.take("a name in quotes")
        if token.kind != "text":
            raise ExpressionError(token.span, f"{function}() takes a name in quotes", f'write {function}("name")')
        if function is Function.VERDICT:
            raise ExpressionError(token.span, "verdict() takes nothing between its parentheses")
        return _unescape(token)

    def expect(self, text: str) -> Token:
        token = self.take(f'"{text}"')
        if token.text != text:
            raise ExpressionError(token.span, f'"{token.text}" stands where "{text}" is expected', _hint(token))
        return token


def _unescape(token: Token) -> str:
    def one(escape: re.Match[str]) -> str:
        try:
            return _ESCAPED[escape[1]]
        except KeyError:
            at = token.span.start + 1 + escape.start()
            message = f'there is no escape "\\{escape[1]}"'
            raise ExpressionError(Span(at, at + 2), message, r"the escapes are \" \\ \/ \n \t \r") from None

    inside = token.text[1:-1]
    return _ESCAPE.sub(one, inside) if "\\" in inside else inside


def _number(token: Token) -> Scalar:
    if len(token.text) > MAX_DIGITS:
        raise ExpressionError(token.span, "this number is too long")
    number = float(token.text) if "." in token.text else int(token.text)
    if number in (inf, -inf):
        raise ExpressionError(token.span, "this number is too large")
    return number


def _hint(token: Token) -> str | None:
    if token.text in ("and", "or", "not"):
        return f'write "{ {"and": "&&", "or": "||", "not": "!"}[token.text] }"'
    if token.text in ("null", "none", "nil"):
        return 'ask with exists("stage.key")'
    if token.text in ("success", "fail", "always"):
        return f'write on="{token.text}" instead of when="{token.text}"'
    return f'if it is text, quote it: \\"{token.text}\\"' if token.kind == "name" else None
