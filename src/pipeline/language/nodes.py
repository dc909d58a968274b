"""A parsed KDL document, before it means anything: nodes, arguments and properties, each with its span."""

import re
from typing import NamedTuple

from pipeline.language.source import Span

Plain = str | int | float | bool | None


class Value(NamedTuple):
    """An argument or a property's value; numbers are exact, as written."""

    value: Plain
    span: Span


class Duplicate(NamedTuple):
    """A property written a second time on one node."""

    name: str
    span: Span


class Node(NamedTuple):
    """A KDL node. `span` covers its name."""

    name: str
    span: Span
    args: tuple[Value, ...]
    props: dict[str, Value]
    children: tuple["Node", ...]
    duplicates: tuple[Duplicate, ...] = ()


def shortened(text: str, length: int = 40) -> str:
    """A text short enough for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."


def describe(value: Plain) -> str:
    """What a value is, in the words of a message: `text "abc"`, `the number 2.5`, `true`."""
    if isinstance(value, str):
        return f'the text "{shortened(value)}"'
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return f"the number {value}"


_KEY = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s"{}();=]+)=(?:\([^)]*\))?\Z')
_CHARACTER = re.compile(r"\\u\{[0-9a-fA-F]+\}|\\.|.", re.DOTALL)
_OPENING = re.compile(r'(r#*)?"')


def key_before(text: str, after: int, value: Value) -> tuple[str, Span] | None:
    """The property name written in front of a value, looked for from `after`; None for an argument."""
    key = _KEY.search(text[after : value.span.start])
    return (key[1].strip('"'), Span(after + key.start(1), after + key.end(1))) if key else None


def span_inside(text: str, span: Span, inside: Span) -> Span:
    """Where a part of a written text stands in the file, its quotes and escapes counted."""
    opening = _OPENING.match(text, span.start)
    if opening is None:
        return span
    start = opening.end()
    if opening[1]:
        return Span(start + inside.start, start + inside.end)
    offsets = [character.start() for character in _CHARACTER.finditer(text, start, span.end)]
    return Span(*(offsets[min(index, len(offsets) - 1)] for index in inside))
