"""What an agent answered: the JSON in it, and its own words around that. Thinking is no part of an answer.

JSON is found fenced or bare, between any words, and with the slips that agents make: trailing commas, comments, single
quotes, bare keys, line breaks in texts, unknown escapes and Python's words. Nothing is completed or guessed: of JSON
that cannot be read, only the objects inside it that can are, and a fault says that there was more.

The time is linear in the length: what cannot be read is looked at again only as long as a budget lasts.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.findings.formats import strict_json
from pipeline.handlers.markers import without_thinking

_BUDGET = 8  # times the length of an answer that may be read again because of faults
_LEAST_BUDGET = 2_000_000  # characters: 0.1 s
_OPENING = re.compile(r"""\{\s*(?:["'}/]|[A-Za-z_]\w*\s*:)|\[\s*[{\]/]""")
_TEXT = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_BRACKET = re.compile(rf"{_TEXT}|{_COMMENT}|[{{}}\[\]]", re.DOTALL)
# Here a text ends with its line: after a quotation mark too many, the brackets of the next line are found again.
_BRACKET_OF_LINES = re.compile(rf""""(?:[^"\\\n]|\\.)*["\n]|{_COMMENT}|[{{}}\[\]]""", re.DOTALL)
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}
_SLOPPY = re.compile(
    rf"(?P<text>{_TEXT})|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])"
    r"|(?P<key>[A-Za-z_$][\w$]*)(?=\s*:)|(?P<word>\b(?:True|False|None)\b)",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_SLIP = re.compile(r"""\\(?:(?P<known>["\\/bfnrt]|u[0-9A-Fa-f]{4})|(?P<quote>'))|["\\\x00-\x1f]""")
_FINDINGS_KEY = re.compile(r"""\b(?:findings|issues|severity|reviewer)["']?\s*:""", re.IGNORECASE)
_ITEM_KEY = re.compile(r"""["'](?:findings?|issues|severity|reviewer|title|summary|file)["']\s*:""", re.IGNORECASE)
_STRAY_KEYS = re.compile(r"""["']severity["']\s*:\s*["'][^"'\n]{0,40}["']\s*,\s*["']\w{1,40}["']\s*:""")
_CUT_OFF = "it is cut off: a bracket is never closed"
_NO_BEGINNING = "it is cut off: its beginning is missing"


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """A JSON value in an answer."""

    value: Any
    note: str = ""  # on how it is written


class _Attempt(NamedTuple):
    """What reading at an opening bracket led to."""

    resume: int  # where to read on
    end: int | None  # of what opens here; None if it is never closed
    value: AnswerValue | None = None
    fault: str = ""


class _UncountedText(str):
    """A text in which a JSON error does not count the lines before it: there may be an error at every brace."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        """No lines."""
        return 0

    def rfind(self, *_: object) -> int:
        """No line before."""
        return -1


class Answer:
    """The JSON values of an answer in order, and its words around them."""

    def __init__(self, answer: str) -> None:
        self.text = without_thinking(answer)
        self.values: list[AnswerValue] = []
        self.words = ""
        self.fault = ""  # of something that looks like findings, is closed, and cannot be read
        self.cut_off = ""  # why nobody knows what else there was
        self._plain = _UncountedText(self.text)
        self._budget = _BUDGET * len(self.text) + _LEAST_BUDGET
        self._read()

    def _read(self) -> None:
        words: list[str] = []
        done = position = unread = 0  # the ends of the last value, of what was looked at, and of what cannot be read
        unclosed: int | None = None  # the first bracket behind the last value that is never closed
        while opening := _OPENING.search(self.text, position):
            start = opening.start()
            self._check_beginning(max(position, unread), start)
            position, end, value, fault = self._read_at(start)
            if value:
                self._check_end(unclosed, start)
                self.values.append(value)
                words.append(self.text[done:start])
                words.append(_comments(self.text[start:end]) if value.note else "")
                done, unclosed = position, None
            elif end is None:
                unclosed = start if unclosed is None else unclosed
            elif _FINDINGS_KEY.search(self.text, start, end):
                self.fault, unread = fault, end
        self._check_beginning(max(position, unread), len(self.text))
        self._check_end(unclosed, len(self.text))
        self.words = "\n".join((*words, self.text[done:]))

    def _read_at(self, start: int) -> _Attempt:
        """Read the value that opens here.

        Of one that is closed and cannot be read, what is inside it is read next. After one that is never closed,
        reading goes on where it stopped making sense.
        """
        try:
            value, end = strict_json.decode_at(self._plain, start)
            return _Attempt(end, end, AnswerValue(value))
        except json.JSONDecodeError as error:
            resume = max(error.pos, start + 1)
        except (RecursionError, ValueError):  # nested too deeply, a key twice, or a number with too many digits
            resume = len(self.text)
        closing = _closing(self.text, start) if self._budget > 0 else None
        self._budget -= (closing or len(self.text)) - start
        if closing is None:
            return _Attempt(resume, None)
        try:
            value = strict_json.parse(_SLOPPY.sub(_correct, self.text[start:closing]))
            return _Attempt(closing, closing, AnswerValue(value, "it is not strict JSON"))
        except ValueError as error:
            return _Attempt(start + 1, closing, fault=str(error))

    def _check_beginning(self, start: int, end: int) -> None:
        """Note that the keys of an item stand between values, in no object."""
        if _STRAY_KEYS.search(self.text, start, end):
            self.cut_off = _NO_BEGINNING

    def _check_end(self, unclosed: int | None, end: int) -> None:
        """Note that findings follow a bracket that is never closed.

        After another value, such a bracket at the beginning of a line is the rest of an answer, whatever it says.
        """
        if unclosed is None:
            return
        line_start = self.text.rfind("\n", 0, unclosed) + 1
        is_rest = bool(self.values) and not self.text[line_start:unclosed].strip()
        if is_rest or _ITEM_KEY.search(self.text, unclosed, end):
            self.cut_off = _CUT_OFF


def _comments(text: str) -> str:
    """Return the comments in a value that is not strict JSON: they are words beside what it says."""
    found = (token[0] for token in _SLOPPY.finditer(text) if token[0].startswith(("//", "/*")))
    return "\n".join(found)


def _correct(token: re.Match[str]) -> str:
    """Return a token as JSON spells it. Comments and commas before a closing bracket are left out."""
    match token.lastgroup:
        case "text":
            return f'"{_SLIP.sub(_escape, token[0][1:-1])}"'
        case "key":
            return f'"{token[0]}"'
        case "word":
            return _PYTHON_WORDS[token[0]]
    return " "


def _escape(slip: re.Match[str]) -> str:
    """Return an escape in a text, or a character that needs one, as JSON spells it."""
    if slip["known"]:
        return slip[0]
    return slip["quote"] or f"\\u{ord(slip[0]):04x}"


def _closing(text: str, start: int) -> int | None:
    """Return the end of the value that opens here: after the bracket that closes it; None if no bracket does."""
    for brackets in (_BRACKET, _BRACKET_OF_LINES):
        depth = 0
        for token in brackets.finditer(text, start):
            depth += _DEPTH.get(token[0], 0)
            if depth == 0:
                return token.end()
    return None
