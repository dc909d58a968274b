"""KDL 1.0 text to nodes with spans. The only module that imports `kdl-py`.

How `kdl-py` 1.2.0 shapes this module: value converters learn where a value ends, node converters where a node starts;
numbers pass through floats, so they are read again from their text; a repeated property silently replaces the earlier
one; deep nesting exhausts the stack, so depth is checked first.
"""

import re
from collections.abc import Mapping
from math import isinf
from typing import Any, NamedTuple

from kdl.errors import ParseError, ParseFragment
from kdl.parsefuncs import parse
from kdl.parsing import ParseConfig
from kdl.types import Bool, Null, RawString, String
from kdl.types import Node as ParsedNode
from kdl.types import Value as ParsedValue

from pipeline.language.source import Position, SourceText, Span

MAX_DEPTH = 64
MAX_DIGITS = 300

Scalar = str | int | float | bool | None


class KdlValue(NamedTuple):
    """An argument or a property's value; integers are exact."""

    value: Scalar
    span: Span


class KdlNode(NamedTuple):
    """A node; `span` covers its name."""

    name: str
    span: Span
    args: tuple[KdlValue, ...]
    props: Mapping[str, KdlValue]
    children: tuple["KdlNode", ...]
    duplicates: Mapping[str, Span]  # properties given more than once, with the span of the last value

    @property
    def title_span(self) -> Span:
        """The name and the first argument: `stage "build"`."""
        return Span(self.span.start, self.args[0].span.end) if self.args else self.span


class KdlError(Exception):
    """A text that is not KDL 1.0, or uses what is not supported."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.message = message
        self.help = help


class NestingError(KdlError):
    """Blocks or comments nested deeper than MAX_DEPTH."""

    def __init__(self, offset: int) -> None:
        super().__init__(Span(offset, offset + 1), "blocks are nested too deeply")


# kdl-py's messages for the most frequent mistakes, with ours and a hint.
_MESSAGES: dict[str, tuple[str, str | None]] = {
    "Expected value after prop=.": ("missing value after =", 'quote text: name="value"'),
    "Hit EOF while looking for the end of the string": ("unterminated string", 'end it with "'),
    "Hit EOF while looking for the end of the raw string.": (
        "unterminated raw string",
        'end it with " and as many # as it starts with',
    ),
    "Hit EOF while searching for end of child list": ("unclosed block", "end it with }"),
    "Hit EOF while inside a multiline comment": ("unclosed comment", "end it with */"),
    "KDL strings use double-quotes.": ("strings need double quotes", "write \"value\" instead of 'value'"),
    "KDL keywords are lower-case.": ("true, false and null must be lower case", None),
    "Junk after node, before terminator.": (
        "unexpected text after a node",
        'quote text, and start the next node on a new line or after ";"',
    ),
    "Junk between end of child list and closing }": ("expected a node", "a node starts with its name"),
    "Expected a node": ("expected a node", "a node starts with its name"),
    "Invalid character escape": (
        "unknown escape",
        r"the escapes are \n \r \t \\ \" \/ \b \f and \u{...}; a raw string r#\"...\"# keeps backslashes",
    ),
}
_UNENDED_NODE = ("missing ; or blank before }", "write { a 1; b 2; } or { a 1; b 2 }")
_ESCAPED_LINE_BREAK = (
    "a backslash cannot end a line inside a string",
    "remove the backslash: strings may span several lines",
)


def parse_kdl(source: SourceText) -> tuple[KdlNode, ...]:
    """Parse a text. Raises KdlError at the first mistake."""
    _check_depth(source.text)
    try:
        return _parse(source, source.text)
    except KdlError as error:
        if error.message != _UNENDED_NODE[0]:
            raise
        return _parse(source, _end_last_nodes(source.text))


def _parse(source: SourceText, text: str) -> tuple[KdlNode, ...]:
    converter = _Converter(text)
    config = ParseConfig(valueConverters={...: converter.convert_value}, nodeConverters={...: converter.convert_node})
    try:
        return tuple(parse(text, config).nodes)
    except ParseError as error:
        at = source.offset(Position(error.line, error.col))
        original = re.sub(r"\A\d+:\d+ parse error:\s*", "", error.msg)
        message, help = _MESSAGES.get(original, (original.rstrip("."), None))
        if original == "Invalid character escape" and source.text[at + 1 : at + 2] == "\n":
            message, help = _ESCAPED_LINE_BREAK
        elif original == "Junk after node, before terminator." and source.text[at : at + 1] == "}":
            message, help = _UNENDED_NODE
        raise KdlError(Span(at, at), message, help) from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        # kdl-py raises these for, say, an exponent of five thousand digits, after the last value it converted.
        raise KdlError(Span(converter.last_end, converter.last_end), f"invalid KDL: {error}") from None


# Whole strings and line comments, so that brackets inside them do not count; a lone opening is an unclosed string.
_MARK = re.compile(r'r(#*)".*?"\1|"(?:[^"\\]|\\.)*"|(?P<unclosed>"|r#*")|//[^\n]*|/\*|[{}]', re.DOTALL)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def _check_depth(text: str) -> None:
    depth = at = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark[0] == "{":
            depth += 1
            if depth > MAX_DEPTH:
                raise NestingError(mark.start())
        elif mark[0] == "}":
            depth -= 1
        elif mark[0] == "/*":
            at = _comment_end(text, mark.start())
        elif mark["unclosed"]:
            return  # the parser reports it


def _comment_end(text: str, start: int) -> int:
    """Where a block comment ends; KDL's comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth > MAX_DEPTH:
            raise NestingError(mark.start())
        if depth == 0:
            return mark.end()
    return len(text)


def _end_last_nodes(text: str) -> str:
    """Replace the blank before `}` in `{ a 1; b 2 }` with the `;` that kdl-py needs there; no offset moves."""
    characters = list(text)
    unended = False  # whether a node is open
    at = 0
    while mark := _MARK.search(text, at):
        *ended, rest = re.split("[\n;]", text[at : mark.start()])
        unended = bool(rest.strip()) or (unended and not ended)
        before = mark.start() - 1
        if mark[0] == "}":
            if unended and text[before] in " \t":
                characters[before] = ";"
            unended = True
        elif mark[0] != "/*":
            unended = mark[0][0] in 'r"'
        at = _comment_end(text, mark.start()) if mark[0] == "/*" else mark.end()
    return "".join(characters)


_SURROGATE_OR_NUL = re.compile("[\ud800-\udfff\0]")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RADIX = re.compile(r"[+-]?0[xob]")


class _Converter:
    """Turns kdl-py's values and nodes into ours while it parses, and notices replaced properties."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pending: list[KdlValue] = []  # values whose node has not ended yet
        self.last_end = 0

    def convert_value(self, value: ParsedValue, fragment: ParseFragment) -> KdlValue:
        written = fragment.fragment
        end = self.last_end = fragment._i  # noqa: SLF001 - kdl-py has no public name for it
        span = Span(end - len(written), end)
        if value.tag is not None:
            raise _unsupported_annotation(span, value.tag)
        exact = isinstance(value, String | RawString | Bool | Null)
        plain: Scalar = value.value if exact else _read_number(written, span)
        if isinstance(plain, str) and (bad := _SURROGATE_OR_NUL.search(plain)):
            raise KdlError(span, f"strings may not contain U+{ord(bad[0]):04X}", "remove it")
        ours = KdlValue(plain, span)
        self.pending.append(ours)
        return ours

    def convert_node(self, node: ParsedNode, fragment: ParseFragment) -> KdlNode:
        start = fragment._i  # noqa: SLF001 - kdl-py has no public name for it
        span = Span(start, start + len(fragment.fragment))
        if node.tag is not None:
            raise _unsupported_annotation(span, node.tag)
        children: Any = node.nodes or ()  # converted already; None for a commented-out block
        return KdlNode(node.name, span, tuple(node.args), node.props, tuple(children), self._duplicates(node, span))

    def _duplicates(self, node: ParsedNode, span: Span) -> dict[str, Span]:
        """Find the properties of this node that kdl-py replaced with a later one of the same name.

        The values converted since the node began are its own or those of commented-out children. Of those that are
        not in `node`, the ones before a kept value of the same name were replaced.
        """
        first = len(self.pending)
        while first and self.pending[first - 1].span.start > span.start:
            first -= 1
        own = self.pending[first:]
        del self.pending[first:]
        if len(own) == len(node.args) + len(node.props):
            return {}
        duplicates = {}
        after = span.end
        for value in own:
            key = key_before(self.text, value)
            if key and "/-" not in _BLOCK_COMMENT.sub("", self.text[after : key.start]):  # not commented out
                name = self.text[slice(*key)].strip('"')
                kept = node.props.get(name)
                if kept is not None and value.span.start < kept.span.start:
                    duplicates[name] = kept.span
            after = value.span.end
        return duplicates


def key_before(text: str, value: KdlValue) -> Span | None:
    """The span of the property name before a value; None for an argument."""
    end = value.span.start - 1
    if text[end : end + 1] != "=":
        return None
    start = end - 1
    if text[start] == '"':
        start -= 1
        while start > 0 and (text[start] != '"' or text[start - 1] == "\\"):  # quotes in a name are escaped
            start -= 1
    else:
        while start > 0 and text[start - 1] not in ' \t\n"{}();=':
            start -= 1
    return Span(start, end)


def _unsupported_annotation(span: Span, tag: str) -> KdlError:
    return KdlError(span, f"type annotations such as ({tag}) are not supported", "remove it")


def _read_number(written: str, span: Span) -> int | float:
    digits = written.replace("_", "")
    if _RADIX.match(digits):
        return int(digits, 0)
    if len(digits) > MAX_DIGITS:
        raise KdlError(span, "this number is too long")
    if digits.lstrip("+-").isdigit():
        return int(digits)
    number = float(digits)
    if isinf(number):
        raise KdlError(span, "this number is too large")
    return number
