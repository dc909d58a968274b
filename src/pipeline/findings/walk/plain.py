"""Our own markdown on a terminal: headings and labels stand out, everything below them is set in and fits the width.

What findings say is set in as well: it cannot stand where a heading stands.
"""

import re
from collections.abc import Callable, Iterator

from pipeline.findings.walk.wording import columns

_ESCAPE = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")
_TITLED = re.compile(r"^(## .*|\*\*.*\*\*)\n\n(?!## |\*\*)", re.MULTILINE)  # a title stands right above its text
_INDENT = "  "


def plain(markdown: str, width: int, bold: Callable[[str], str]) -> str:
    """A text in markdown for a terminal of so many columns."""
    return "\n".join(_lines(markdown, width, bold))


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """A text in lines of at most so many columns, the first and the others set in; a longer word has its own line."""
    lines, line = [], first
    for word in text.split():
        if line.strip() and line not in (first, then) and columns(f"{line} {word}") > width:
            lines.append(line)
            line = then
        line = f"{line}{word}" if line in (first, then) else f"{line} {word}"
    return [*lines, line]


def _lines(markdown: str, width: int, bold: Callable[[str], str]) -> Iterator[str]:
    code = False
    for line in _TITLED.sub(r"\1\n", markdown).split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield f"{_INDENT * 2}{line}"
        elif line.startswith("## "):
            yield from map(bold, wrapped(line.removeprefix("## "), width))
        elif line.startswith("**") and line.endswith("**"):
            yield bold(line.strip("*"))
        elif line.startswith("- "):
            yield from wrapped(line.removeprefix("- "), width, f"{_INDENT}- ", _INDENT * 2)
        else:
            yield from wrapped(_ESCAPE.sub(r"\1", line), width, _INDENT, _INDENT) if line else [""]
