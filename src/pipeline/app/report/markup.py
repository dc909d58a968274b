"""HTML that is made of text and tags only: whatever is Markup is escaped or was written here."""

from collections.abc import Iterable
from html import escape
from typing import NewType

from pipeline.text import sanitize_line

Markup = NewType("Markup", str)


def text(words: object) -> Markup:
    """Words that show as they are."""
    return Markup(escape(sanitize_line(str(words))))


def tag(name: str, *inner: Markup, **attributes: object) -> Markup:
    """An element. `class_` is its class, `text_anchor` its text-anchor; an empty one is none."""
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value != "")
    said = "".join(f' {key}="{text(value)}"' for key, value in given)
    return Markup(f"<{name}{said}>{''.join(inner)}</{name}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Elements one after another, each on a line."""
    return Markup("\n".join(parts))
