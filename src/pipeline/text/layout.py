"""How wide a text is, and how it is fitted: into columns of a terminal, a number of characters, or a picture."""

import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

ELLIPSIS = "…"

_NARROW = frozenset("iljtfrI.,:;!|'`()[]{}·/ -")
_WIDE = frozenset("mwMW@%—…")


def display_width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    if text.isascii():
        return len(text)
    import wcwidth  # noqa: PLC0415 - 30 ms that only texts beyond ASCII pay

    return wcwidth.width(text, control_codes="ignore")


def truncate(text: str, width: int) -> str:
    """Return the text in at most `width` columns; a shortened text ends with an ellipsis."""
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    kept = width - 1
    if not text.isascii():  # a longer beginning is never narrower, so the longest that fits is found by halving
        kept = bisect_right(range(len(text)), kept, key=lambda last: display_width(text[: last + 1]))
    return text[:kept].rstrip() + ELLIPSIS


def truncate_length(text: str, length: int) -> str:
    """Return the text in at most `length` characters; a shortened text ends with an ellipsis."""
    if len(text) <= length:
        return text
    return f"{text[: length - 1]}{ELLIPSIS}"[:length]


def truncate_middle(text: str, length: int) -> str:
    """Return the beginning and the end of a text that is longer than `length`, around a note about the rest."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters omitted]\n{text[-half:]}"


def pad(text: str, width: int) -> str:
    """Return the text in at least `width` columns."""
    return text + " " * (width - display_width(text))


def align_columns(rows: Sequence[Sequence[str]], right: frozenset[int]) -> list[list[str]]:
    """Return the cells of a table, padded to the width of their column; the columns in `right` are right-aligned."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    padded = list[list[str]]()
    for row in rows:
        gaps = [" " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        padded.append([gaps[n] + cell if n in right else cell + gaps[n] for n, cell in enumerate(row)])
    return padded


def wrap(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines of at most `width` columns, indented and broken between words where that is possible."""
    wrapped = textwrap.wrap
    if not text.isascii():
        import wcwidth  # noqa: PLC0415 - as above

        wrapped = wcwidth.wrap
    return wrapped(text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)


def drawn_width(text: str, font_size: float) -> float:
    """Estimate the width of a text in a picture, generously: the font is unknown and nothing may stick out."""
    return sum(map(_drawn_character, text)) * font_size


def _drawn_character(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    if character.isascii():
        return 0.7 if character.isupper() else 0.58
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in ("W", "F") else 0.7


def truncate_drawn(text: str, font_size: float, width: float) -> str:
    """Return the text in a width of a picture; a shortened text ends with an ellipsis."""
    if drawn_width(text, font_size) <= width:
        return text
    room = width / font_size - _drawn_character(ELLIPSIS)
    kept = 0
    for character in text:
        room -= _drawn_character(character)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def wrap_drawn(text: str, font_size: float, width: float, max_lines: int) -> list[str]:
    """Break a text between words into at most `max_lines` lines of a picture, and truncate each to the width."""
    lines: list[str] = []
    for word in text[: int(max_lines * width / font_size * 4)].split(" "):
        longer = f"{lines[-1]} {word}".lstrip() if lines else word
        if lines and (len(lines) == max_lines or drawn_width(longer, font_size) <= width):
            lines[-1] = longer
        else:
            lines.append(word)
    return [truncate_drawn(line, font_size, width) for line in lines if line]
