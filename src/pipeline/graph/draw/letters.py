"""How wide a text is in a picture whose font nobody knows: a generous guess, so that nothing sticks out."""

import unicodedata
from collections.abc import Iterable, Iterator

BOLD = 1.07  # how much wider bold letters are

_NARROW = frozenset("iljtfrI.,:;!|'`()[]{}·/ -")
_WIDE = frozenset("mwMW@%—…")
_CAPITAL, _SMALL = 0.7, 0.58  # in parts of the font's size


def text_width(text: str, size: float) -> float:
    """How many units a line of text takes at a font size."""
    return sum(map(_part, text)) * size


def _part(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    if character.isascii():
        return _CAPITAL if character.isupper() else _SMALL
    return _foreign(character)


def _foreign(character: str) -> float:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in ("W", "F") else 0.7


def fit(text: str, size: float, width: float) -> str:
    """A text cut with an ellipsis where it would be wider."""
    room = width / size
    for index, character in enumerate(text):
        room -= _part(character)
        if room < 0:
            return _cut(text[: index + 1], width / size)
    return text


def _cut(text: str, room: float) -> str:
    room -= _part("…")
    kept = len(text)
    taken = sum(map(_part, text))
    while kept and taken > room:
        kept -= 1
        taken -= _part(text[kept])
    return text[:kept].rstrip() + "…"


def lines(text: str, size: float, width: float, most: int) -> list[str]:
    """A text broken between words into at most so many lines, the last one cut."""
    broken = list(_broken(text[: int(most * width / size * 4)].split(" "), size, width, most))
    return [fit(line, size, width) for line in broken]


def _broken(words: Iterable[str], size: float, width: float, most: int) -> Iterator[str]:
    line, done = "", 0
    for word in words:
        longer = f"{line} {word}".lstrip()
        if line and done < most - 1 and text_width(longer, size) > width:
            yield line
            line, done = word, done + 1
        else:
            line = longer
    if line:
        yield line
