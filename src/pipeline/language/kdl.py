"""The only door to `kdl-py`: text in, nodes with spans or syntax problems out; nothing else escapes.

What `kdl-py` 1.2.0 does that shapes this module: a value's converter is told where the value ends and a node's where
the node starts; numbers pass through floats, so they are read again from their text; a repeated property silently
replaces the earlier one; deep nesting exhausts the stack, so depth is checked first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf
from typing import Any

from kdl.errors import ParseError, ParseFragment
from kdl.parsefuncs import parse as kdl_parse
from kdl.parsefuncs import parseLinespace, parseNode
from kdl.parsing import ParseConfig
from kdl.result import Failure
from kdl.types import Bool, Null, RawString, String
from kdl.types import Node as KdlNode
from kdl.types import Value as KdlValue

from pipeline.language.diagnostics import Problem
from pipeline.language.nodes import Duplicate, Node, Plain, Value, key_before
from pipeline.language.source import Position, SourceText, Span

MAX_DEPTH = 64
MAX_DIGITS = 300

# Whole strings and line comments, so that brackets inside them do not count; a lone opening is an unclosed string.
_MARKS = re.compile(r'r(#*)".*?"\1|"(?:[^"\\]|\\.)*"|(?P<unclosed>"|r#*")|//[^\n]*|/\*|[{}]', re.DOTALL)
_COMMENT_MARKS = re.compile(r"/\*|\*/")
_AS_THEY_ARE = frozenset({String, RawString, Bool, Null})  # the rest are numbers, which pass through floats
_PADDING = "\0" * 8  # kdl-py looks at most five characters ahead
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RADIX = re.compile(r"[+-]?0[xob]")
_SURROGATE_OR_NUL = re.compile("[\ud800-\udfff\0]")


class TooDeep(Exception):
    """The text is nested deeper than any workflow; carries the offset of the bracket too many."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Parsed:
    """Either the nodes of a text or the problem that kept it from being read."""

    nodes: tuple[Node, ...]
    problem: Problem | None = None


def parse(source: SourceText) -> Parsed:
    """Read a text as KDL 1.0. Raises TooDeep; every other trouble is the result's problem."""
    check_depth(source.text)
    parsed = _parse(source, source.text)
    if parsed.problem and parsed.problem.message == _UNENDED_NODE[0]:
        return _parse(source, _end_last_nodes(source.text))
    return parsed


def _parse(source: SourceText, text: str) -> Parsed:
    try:
        return Parsed(tuple(_quickly(text)))
    except (ParseError, _Rejected, IndexError, ValueError, ArithmeticError, RecursionError):
        return _thoroughly(source, text)  # which says where and what


def _thoroughly(source: SourceText, text: str) -> Parsed:
    reader = _Reader(text)
    try:
        return Parsed(tuple(kdl_parse(text, reader.config).nodes))
    except ParseError as error:
        return Parsed((), _explain(source, error))
    except _Rejected as rejected:
        return Parsed((), rejected.problem)
    except (ValueError, ArithmeticError, RecursionError) as error:
        # What kdl-py lets slip, such as an exponent of five thousand digits; the last value read is just before it.
        return Parsed((), Problem(Span(reader.last_end, reader.last_end), f"this text cannot be read: {error}"))


class _Stream(str):  # noqa: SLOT000 - it has attributes of its own
    """A text that kdl-py takes for its stream: to look at a character costs no call of a Python function."""

    config: ParseConfig
    length: int

    def eof(self, index: int) -> bool:
        return index >= self.length


def _quickly(text: str) -> Iterator[Any]:
    """What `kdl.parse` does, in four fifths of its time. The padding is looked at and never part of anything."""
    stream: Any = _Stream(text + _PADDING)
    stream.config, stream.length = _Reader(text).config, len(text)
    _, at = parseLinespace(stream, 0)
    while not stream.eof(at):
        node, at = parseNode(stream, at)
        if node is Failure:
            raise ParseError(stream, at, "Expected a node")
        if node:
            yield node
        _, at = parseLinespace(stream, at)


def _end_last_nodes(text: str) -> str:
    """Put a `;` where `{ a 1; b 2 }` needs one before the bracket, in place of the blank there: no offset moves."""
    characters = list(text)
    unended = False  # whether a node is open that nothing has ended yet
    at = 0
    while mark := _MARKS.search(text, at):
        last_line = re.split("[\n;]", text[at : mark.start()])
        unended = bool(last_line[-1].strip()) or (unended and len(last_line) == 1)
        before = mark.start() - 1
        if mark[0] == "}":
            if unended and text[before] in " \t":
                characters[before] = ";"
            unended = True
        elif mark[0] != "/*":
            unended = mark[0][0] in 'r"'
        at = _comment_end(text, mark.start()) if mark[0] == "/*" else mark.end()
    return "".join(characters)


def check_depth(text: str) -> None:
    """Raise TooDeep at the first bracket or comment nested deeper than MAX_DEPTH."""
    if max(text.count("{"), text.count("/*")) <= MAX_DEPTH:
        return
    depth = 0
    at = 0
    while mark := _MARKS.search(text, at):
        at = mark.end()
        if mark[0] == "{":
            depth += 1
            if depth > MAX_DEPTH:
                raise TooDeep(mark.start())
        elif mark[0] == "}":
            depth -= 1
        elif mark[0] == "/*":
            at = _comment_end(text, mark.start())
        elif mark["unclosed"]:
            return  # the parser says so, with its position


def _comment_end(text: str, start: int) -> int:
    """Where a block comment ends; KDL's comments nest."""
    depth = 0
    for mark in _COMMENT_MARKS.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth > MAX_DEPTH:
            raise TooDeep(mark.start())
        if depth == 0:
            return mark.end()
    return len(text)


class _Rejected(Exception):
    """A value that KDL allows and a workflow does not."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(span, message, help)


class _Reader:
    """Turns kdl-py's values and nodes into ours while kdl-py parses, and notices replaced properties."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_escapes = "\\u{" in text  # only such an escape can bring in what a text file cannot hold
        self.pending: list[Value] = []
        self.last_end = 0
        self.config = ParseConfig(valueConverters={...: self.value}, nodeConverters={...: self.node})

    def value(self, value: KdlValue, fragment: ParseFragment) -> Value:
        written = fragment.fragment
        end = self.last_end = fragment._i  # noqa: SLF001 - the only place where kdl-py tells it
        span = Span(end - len(written), end)
        if value.tag is not None:
            raise _Rejected(span, f"the type annotation ({value.tag}) has no meaning here", "leave it out")
        plain: Plain = value.value if type(value) in _AS_THEY_ARE else _number(written, span)
        if self.has_escapes and isinstance(plain, str) and (bad := _SURROGATE_OR_NUL.search(plain)):
            raise _Rejected(span, f"text may not hold the character U+{ord(bad[0]):04X}", "leave it out")
        ours = Value(plain, span)
        self.pending.append(ours)
        return ours

    def node(self, node: KdlNode, fragment: ParseFragment) -> Node:
        start = fragment._i  # noqa: SLF001 - the only place where kdl-py tells it
        span = Span(start, start + len(fragment.fragment))
        if node.tag is not None:
            raise _Rejected(span, f"the type annotation ({node.tag}) has no meaning here", "leave it out")
        children: Any = node.nodes or ()  # ours, built before it; None for a block behind a slashdash
        return Node(node.name, span, tuple(node.args), node.props, tuple(children), self._replaced(node, span))

    def _replaced(self, node: KdlNode, span: Span) -> tuple[Duplicate, ...]:
        """Properties of this node that kdl-py dropped for a later one of the same name.

        Every value seen since the node began is its own or was dropped with a commented-out child; the kept ones
        are in `node`, and of the rest only those before a kept one of the same name were replaced.
        """
        first = len(self.pending)
        while first and self.pending[first - 1].span.start > span.start:
            first -= 1
        own = self.pending[first:]
        del self.pending[first:]
        if len(own) == len(node.args) + len(node.props):
            return ()
        duplicates = []
        end = span.end
        for value in own:
            name = self._name_of(value, end)
            end = value.span.end
            kept = node.props.get(name) if name is not None else None
            if name is not None and kept is not None and value.span.start < kept.span.start:
                duplicates.append(Duplicate(name, kept.span))
        return tuple(duplicates)

    def _name_of(self, value: Value, after: int) -> str | None:
        """The property name in front of a value; None for an argument and for what a slashdash comments out."""
        key = key_before(self.text, after, value)
        if key is None or "/-" in _BLOCK_COMMENT.sub("", self.text[after : key[1].start]):
            return None
        return key[0]


def _number(written: str, span: Span) -> int | float:
    digits = written.replace("_", "")
    if _RADIX.match(digits):
        return int(digits, 0)
    if len(digits) > MAX_DIGITS:
        raise _Rejected(span, "this number is too long")
    if digits.lstrip("+-").isdigit():
        return int(digits)
    number = float(digits)
    if isinf(number):
        raise _Rejected(span, "this number is too large")
    return number


# kdl-py's words for what authors get wrong most often, in ours.
_KINDER: dict[str, tuple[str, str | None]] = {
    "Expected value after prop=.": (
        "a value is missing after the equals sign",
        'text needs double quotes: name="value"',
    ),
    "Hit EOF while looking for the end of the string": ("this text is never closed", 'end it with "'),
    "Hit EOF while looking for the end of the raw string.": (
        "this raw text is never closed",
        'end it with " and as many # as it begins with',
    ),
    "Hit EOF while searching for end of child list": ("this block is never closed", "end it with }"),
    "Hit EOF while inside a multiline comment": ("this comment is never closed", "end it with */"),
    "KDL strings use double-quotes.": ("text needs double quotes", "write \"value\" instead of 'value'"),
    "KDL keywords are lower-case.": ("true, false and null are written in lower case", None),
    "Junk after node, before terminator.": (
        "this does not belong to the line before it",
        'text needs double quotes, and a second node starts on a line of its own or after ";"',
    ),
    "Junk between end of child list and closing }": ("a node cannot start with this", "a node starts with its name"),
    "Expected a node": ("a node cannot start with this", "a node starts with its name"),
    "Invalid character escape": (
        "this escape does not exist",
        r"the escapes are \n \r \t \\ \" \/ \b \f and \u{...}; a raw text r#\"...\"# takes a backslash as it is",
    ),
}
_UNENDED_NODE = ("the last node of a block on one line needs an end", "write { a 1; b 2; } or { a 1; b 2 }")
_ESCAPED_LINE_BREAK = (
    "a backslash cannot end a line inside text",
    "leave the backslash out: text may run over several lines as it is",
)


def _explain(source: SourceText, error: ParseError) -> Problem:
    at = source.offset(Position(error.line, error.col))
    words = re.sub(r"\A\d+:\d+ parse error:\s*", "", error.msg)
    message: str
    help: str | None
    if words == "Invalid character escape" and source.text[at + 1 : at + 2] == "\n":
        message, help = _ESCAPED_LINE_BREAK
    elif words == "Junk after node, before terminator." and source.text[at : at + 1] == "}":
        message, help = _UNENDED_NODE
    else:
        message, help = _KINDER.get(words, (words.rstrip("."), None))
    return Problem(Span(at, at), message, help)
