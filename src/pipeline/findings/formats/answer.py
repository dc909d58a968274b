"""What an agent answered: the JSON in it, and its own words around that. Thinking is no part of an answer.

JSON is found fenced or bare, between any words, and with the slips that agents make: trailing commas, comments, single
quotes, bare keys, line breaks in texts, unknown escapes and Python's words. Nothing is completed or guessed: of JSON
that cannot be read, only the objects inside it that can are, and a fault says that there was more.

The time is linear in the length: what cannot be read is looked at again only as long as a budget lasts.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from pipeline.findings.formats import strict_json
from pipeline.handlers.markers import without_thinking

_BUDGET = 8  # times the length of an answer that may be read again because of faults
_LEAST_BUDGET = 2_000_000  # characters: 0.1 s
_LONGEST_SLIP = 4_000_000  # characters of a value that is not strict JSON
_OPENING = re.compile(r"""\{\s*(?:["'}/]|[A-Za-z_]\w*\s*:)|\[\s*[{\]/]""")
_TEXT = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_BRACKET = re.compile(rf"{_TEXT}|{_COMMENT}|[{{}}\[\]]", re.DOTALL)
# Here a text ends with its line: after a quotation mark too many, the brackets of the next line are found again.
_BRACKET_OF_LINES = re.compile(rf""""(?:[^"\\\n]|\\.)*["\n]|{_COMMENT}|[{{}}\[\]]""", re.DOTALL)
_SLOPPY = re.compile(
    rf"(?P<text>{_TEXT})|(?P<comment>{_COMMENT})|(?P<comma>,(?=(?:\s|{_COMMENT})*[}}\]]))"
    r"|(?P<key>[A-Za-z_$][\w$]*)(?=\s*:)|(?P<word>\b(?:True|False|None)\b)"
    r"|(?P<number>(?<![\w.+-])[+-]?(?:0[xX][0-9A-Fa-f]{1,16}|\d+\.(?!\d)|\d*\.?\d+)(?![\w.]))",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_SLIP = re.compile(
    r"\\(?:(?P<known>[\"\\/bfnrt]|u[0-9A-Fa-f]{4})|x(?P<hex>[0-9A-Fa-f]{2})|(?P<quote>'))|[\"\\\x00-\x1f]"
)  # an escape in a text, or a character that needs one
_FINDINGS_KEY = re.compile(r"""\b(?:findings|issues|severity|reviewer)["']?\s*:""", re.IGNORECASE)
_ITEM_KEY = re.compile(r"""["'](?:findings?|issues|severity|reviewer|title|summary|file)["']\s*:""", re.IGNORECASE)
_STRAY_KEYS = re.compile(r"""["']severity["']\s*:\s*["'][^"'\n]{0,40}["']\s*,\s*["']\w{1,40}["']\s*:""")
_CUT_OFF = "it is cut off: a bracket is never closed"
_NO_BEGINNING = "it is cut off: its beginning is missing"
_INVALID = "it is not valid JSON"


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """A JSON value in an answer, or the fault of something that looks like findings and cannot be read."""

    value: Any = None
    note: str = ""
    fault: str = ""
    cut_off: bool = False  # nobody knows what was behind it


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What reading at an opening bracket led to: a value and its end, or a fault and where to go on."""

    resume: int
    value: AnswerValue | None = None
    fault: str = ""
    end: int | None = None  # of a value that is closed


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
    """The JSON values of an answer in order, with a fault for what looks like findings and is not JSON."""

    def __init__(self, answer: str) -> None:
        self.text = without_thinking(answer)
        self.values: list[AnswerValue] = []
        self.words = ""  # around the values
        self._plain = _UncountedText(self.text)
        self._unread: list[tuple[int, int]] = []  # what is closed and cannot be read: outermost values, in order
        self._budget = _BUDGET * len(self.text) + _LEAST_BUDGET
        self._read()

    def _read(self) -> None:
        words: list[str] = []
        position = done = 0
        failed: tuple[int, str] | None = None  # where and why something was first not read since the last value
        opening = _OPENING.search(self.text)
        while opening:
            start = opening.start()
            attempt = self._read_at(start)
            position = attempt.resume
            if attempt.value:
                self._note_loss(done, start, failed)
                self.values.append(attempt.value)
                words.append(self.text[done:start])
                done, failed = position, None
            elif attempt.end and _FINDINGS_KEY.search(self.text, start, attempt.end):
                self.values.append(AnswerValue(fault=attempt.fault))
                if not self._is_unread(start):
                    self._unread.append((start, attempt.end))
            elif not attempt.end and failed is None:
                failed = start, attempt.fault
            opening = _OPENING.search(self.text, position)
        self._note_loss(done, len(self.text), failed)
        self.words = "\n".join((*words, self.text[done:]))

    def _read_at(self, start: int) -> _Attempt:
        """Read the value that opens here.

        Of one that is closed and cannot be read, what is inside it is read next. After one that is never closed,
        reading goes on where it stopped making sense.
        """
        try:
            value, end = strict_json.decode_at(self._plain, start)
            return _Attempt(end, AnswerValue(value), end=end)
        except json.JSONDecodeError as error:
            resume = max(error.pos, start + 1)
        except (RecursionError, ValueError):  # nested too deeply, a key twice, or a number with too many digits
            line = self._plain.find("\n", start)
            resume = len(self.text) if line < 0 else line + 1
        if self._budget <= 0:
            return _Attempt(resume)
        closing = _closing(self.text, start)
        self._budget -= (closing or len(self.text)) - start
        if closing is None:
            return _Attempt(resume, fault=_CUT_OFF)
        found = _read_tolerantly(self.text[start:closing])
        if found.fault:
            return _Attempt(start + 1, fault=found.fault, end=closing)
        return _Attempt(closing, found, end=closing)

    def _note_loss(self, start: int, end: int, failed: tuple[int, str] | None) -> None:
        """Add the fault of a part that is in no value, if findings are in it.

        After another value, a line that opens one and never closes it is the rest of an answer, whatever it contains.
        """
        if failed is None:
            keys_without_object = (found.start() for found in _STRAY_KEYS.finditer(self.text, start, end))
            if not all(map(self._is_unread, keys_without_object)):
                self.values.append(AnswerValue(fault=_NO_BEGINNING, cut_off=True))
            return
        at, fault = failed
        line_start = self.text.rfind("\n", 0, at) + 1
        is_rest = bool(fault) and start > 0 and not self.text[line_start:at].strip()
        keys = _ITEM_KEY if fault else _FINDINGS_KEY
        if is_rest or keys.search(self.text, at, end):
            self.values.append(AnswerValue(fault=fault or _INVALID, cut_off=True))

    def _is_unread(self, at: int) -> bool:
        """Return whether a place is in a value that has a beginning and an end, and its own fault."""
        index = bisect_right(self._unread, (at, len(self.text)))
        return index > 0 and at < self._unread[index - 1][1]


def _read_tolerantly(text: str) -> AnswerValue:
    """Return a value with the slips of agents, or why it cannot be read."""
    if len(text) > _LONGEST_SLIP:
        return AnswerValue(fault=f"it is not strict JSON, and longer than {_LONGEST_SLIP:,} characters")
    corrected = _SLOPPY.sub(_correct, text)
    try:
        value, _ = strict_json.decode_at(corrected, 0)
    except RecursionError:
        return AnswerValue(fault="it is nested too deeply")
    except json.JSONDecodeError as error:
        near = " ".join(corrected[max(error.pos - 30, 0) : error.pos + 30].split())
        return AnswerValue(fault=f"{_INVALID} near {near!r}: {error.msg}")
    except ValueError as error:
        return AnswerValue(fault=f"{_INVALID}: {error}")
    return AnswerValue(value, note="it is not strict JSON")


def _correct(token: re.Match[str]) -> str:
    """Return a token as JSON spells it."""
    text = token[0]
    match token.lastgroup:
        case "text":
            return f'"{_SLIP.sub(_escape, text[1:-1])}"'
        case "comment":
            return " "
        case "comma":
            return ""
        case "key":
            return f'"{text}"'
        case "word":
            return _PYTHON_WORDS[text]
        case _:
            return _number(text)


def _escape(slip: re.Match[str]) -> str:
    if slip["known"]:
        return slip[0]
    if slip["hex"]:
        return f"\\u00{slip['hex']}"
    return slip["quote"] or f"\\u{ord(slip[0]):04x}"


def _number(text: str) -> str:
    """Return a number such as +1, .5, 5. or 0x1F as JSON spells it; any other stays as it is."""
    sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return f"{sign}{int(digits, 16)}"
    whole = f"0{digits}" if digits[0] == "." else digits
    return f"{sign}{whole}0" if whole[-1] == "." else f"{sign}{whole}"


def _closing(text: str, start: int) -> int | None:
    """Return the end of the value that opens here: after the bracket that closes it; None if no bracket does."""
    for brackets in (_BRACKET, _BRACKET_OF_LINES):
        depth = 0
        for token in brackets.finditer(text, start):
            if token[0] in ("{", "["):
                depth += 1
            elif token[0] in ("}", "]"):
                depth -= 1
            if depth == 0:
                return token.end()
    return None
