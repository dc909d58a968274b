"""What findings say, made fit to be shown: it can neither act on a terminal nor pass for a heading or a label."""

import re
import unicodedata

ELLIPSIS = "…"
TITLE = 120  # characters of a title; a few more than reviewers are allowed
_PROSE = 2000  # characters of a paragraph
_WORD = 20  # letters of a word that is rather left out than cut
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_ACTIVE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_MARKUP = re.compile(r"[#>*+\-=|~<]|```|___")
_NUMBER = re.compile(r"(\d+)[.)]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


def flat(text: str, most: int = _PROSE) -> str:
    """A text from anywhere on one inert line, of at most so many characters."""
    begin = text[: 4 * most]
    if not (begin.isascii() and begin.isprintable()):
        begin = "".join(_shown(c) for c in " ".join(_ESCAPES.sub("", begin).split()))
    line = " ".join(begin.split())
    return line if len(line) <= most else f"{_begun(line[: most - 1])}{ELLIPSIS}"


def escaped(line: str) -> str:
    """A line that begins nothing in markdown: no heading, list, quotation, label or code."""
    if number := _NUMBER.match(line):
        return f"{number[1]}\\{line[number.end(1) :]}"
    return f"\\{line}" if _MARKUP.match(line) else line


def sentences(text: str) -> list[str]:
    """The sentences of one line."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence]


def cut(text: str, width: int) -> str:
    """A text in at most so many columns; one that is cut ends with an ellipsis."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, 0
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def counted(number: int, word: str) -> str:
    """A number of things, such as `1 fix` or `3 fixes`."""
    many = f"{word}es" if word.endswith("x") else f"{word}s"
    return f"{number} {word if number == 1 else many}"


def _begun(text: str) -> str:
    """A text up to its last whole word, unless that is long."""
    whole, space, rest = text.rpartition(" ")
    return whole if space and len(rest) < _WORD else text


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shown(character: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _ACTIVE else character
