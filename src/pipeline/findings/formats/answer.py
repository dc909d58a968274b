"""The JSON in what an agent answered: fenced or bare, between any words, and with the slips that agents make.

Trailing commas, comments, single quotes, bare keys, line breaks in texts, unknown escapes and Python's words are
understood. What was cut off is never completed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.findings.formats import strict_json

_MAX_TOLERANT = 1_000_000  # characters; the tolerant reader takes about four seconds for them
_OPENING = re.compile(r"""\{\s*(?:["'}/]|[A-Za-z_]\w*\s*:)|\[\s*[{\]/]""")
_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|//[^\n]*|/\*.*?\*/|[{}\[\]]""", re.DOTALL)
_TOKEN_OR_WORD = re.compile(rf"{_TOKEN.pattern}|\b(?:True|False|None)\b", re.DOTALL)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_SLIP = re.compile(r"""(\\(?:["'\\/bfnrt\n]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}))|[\\\x00-\x1f]""")  # in a text, but for 1
_FINDINGS_KEY = re.compile(r"""\b(?:findings|issues|severity|reviewer)["']?\s*:""", re.IGNORECASE)
_ITEM_KEY = re.compile(r"""["'](?:findings?|issues|severity|reviewer|title|summary|file)["']\s*:""", re.IGNORECASE)
_STRAY_KEYS = re.compile(r"""["']severity["']\s*:\s*["'][^"'\n]{0,40}["']\s*,\s*["']\w{1,40}["']\s*:""")
_CUT_OFF = "it is cut off: a bracket is never closed"


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """A JSON value in an answer, or the fault of something that looks like findings and cannot be read."""

    value: Any = None
    note: str = ""
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


def find_values(answer: str) -> Iterator[AnswerValue]:
    """The outermost objects and lists of an answer, and a fault for what looks like findings and is not JSON."""
    text = _UncountedText(answer)
    position, done, failed, fault = 0, 0, -1, ""
    budget = 10 * len(answer) + _MAX_TOLERANT  # characters to be searched for closing brackets: the cost stays linear
    while opening := _OPENING.search(answer, position):
        start = opening.start()
        found, position = _read_strictly(text, start)
        if found is None and budget > 0:
            close = _closing(answer, start)
            budget -= (close or len(answer)) - start
            found = _read_tolerantly(answer, start, close)
            position = close if found.value is not None and close else position
        if found is None or found.fault:
            failed, fault = (start, found.fault if found else "") if failed < 0 else (failed, fault)
            continue
        yield from _lost(answer, done, start, failed, fault)
        done, failed = position, -1
        yield found
    yield from _lost(answer, done, len(answer), failed, fault)


def _lost(answer: str, start: int, end: int, failed: int, fault: str) -> Iterator[AnswerValue]:
    """The fault of a part that is not in any value, if findings are in it; `failed` is where reading first failed.

    After another value, a line that opens one and never closes it is the rest of an answer, whatever it contains.
    """
    cut_off = failed >= 0 and fault == _CUT_OFF
    starts_line = cut_off and start > 0 and not answer[answer.rfind("\n", 0, failed) + 1 : failed].strip()
    if starts_line or (failed >= 0 and (_ITEM_KEY if cut_off else _FINDINGS_KEY).search(answer, failed, end)):
        yield AnswerValue(fault=fault or "it is not valid JSON")
    elif _STRAY_KEYS.search(answer, start, end):
        yield AnswerValue(fault="it is cut off: its beginning is missing")


def _read_strictly(text: _UncountedText, start: int) -> tuple[AnswerValue | None, int]:
    """The value that opens here and its end, or None and where it stops making sense."""
    try:
        value, end = strict_json.decode_at(text, start)
    except json.JSONDecodeError as error:
        return None, max(error.pos, start + 1)
    except (RecursionError, ValueError):  # nested too deeply, a key twice, or a number with too many digits
        line = text.find("\n", start)
        return None, len(text) if line < 0 else line + 1
    return AnswerValue(value), end


def _read_tolerantly(answer: str, start: int, end: int | None) -> AnswerValue:
    """The value up to its closing bracket, or why it cannot be read."""
    import json5  # noqa: PLC0415 - it takes 40 ms to load, and most answers are strict JSON

    if end is None:
        return AnswerValue(fault=_CUT_OFF)
    if end - start > _MAX_TOLERANT:
        return AnswerValue(fault=f"it is not strict JSON, and longer than {_MAX_TOLERANT:,} characters")
    try:
        value = json5.loads(
            _TOKEN_OR_WORD.sub(_correct, answer[start:end]),
            object_pairs_hook=strict_json.unique_keys,
            parse_float=strict_json.finite,
            parse_constant=strict_json.refuse_constant,
        )
    except RecursionError:
        return AnswerValue(fault="it is nested too deeply")
    except ValueError as error:
        return AnswerValue(fault=f"it is not valid JSON: {str(error).removeprefix('<string>:')}")
    return AnswerValue(strict_json.replace_half_pairs(value), note="it is not strict JSON")


def _correct(token: re.Match[str]) -> str:
    """A token as JSON spells it: a word of Python, or a text with line breaks or with stray backslashes."""
    if token[0][0] in "\"'":
        return _SLIP.sub(lambda slip: slip[1] or f"\\u{ord(slip[0]):04x}", token[0])
    return _PYTHON_WORDS.get(token[0], token[0])


def _closing(answer: str, start: int) -> int | None:
    """The end of the value that opens here: after the bracket that closes it; None if no bracket does."""
    depth = 0
    for token in _TOKEN.finditer(answer, start):
        if token[0] in ("{", "["):
            depth += 1
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None
