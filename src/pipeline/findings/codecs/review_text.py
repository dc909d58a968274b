"""The returns in what an agent says: JSON objects among other words, or the beginning of one that was cut off."""

import json
import re
from typing import Any

_OPENING = re.compile(r'\{\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*:', re.DOTALL)  # a brace and a whole name
_NAMES = (re.compile(r'"reviewer"\s*:'), re.compile(r'"findings"\s*:'))
_BESIDE = "` \n\t\r"  # what may stand after the end: white space and a fence
_decoder = json.JSONDecoder()


class _Uncounted(str):
    """A text whose lines the JSON decoder does not count for each error: there may be one at every brace."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        """No lines."""
        return 0

    def rfind(self, *_: object) -> int:
        """No line before."""
        return -1


def find_returns(text: str) -> list[str]:
    """Every JSON object that has `findings` in it, fenced or bare; one that cannot be read is given too.

    A return that was cut off reaches to the end of the text. It is not repaired: what reads it will say so.
    """
    found: list[str] = []
    last_line = text.rstrip(_BESIDE).rfind("\n") + 1
    last_name = max(text.rfind('"reviewer"'), text.rfind('"findings"'))
    uncounted, at = _Uncounted(text), 0
    while (opening := _OPENING.search(text, at)) and (start := opening.start()) < last_name:
        value, at = _read(uncounted, start)
        if value is None:
            if _meant(text, start, at, cut_off=at >= last_line):
                found.append(text[start:])
        elif "findings" in value or _NAMES[1].search(text, start, at):
            found.append(text[start:at])
    return found


def _read(text: _Uncounted, start: int) -> tuple[dict[str, Any] | None, int]:
    """An object and where it ends; none, and where it stops making sense, so that no part is read twice."""
    try:
        return _decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, max(error.pos, start + 1)
    except (RecursionError, ValueError):  # nested too deeply, or a number too long
        line = text.find("\n", start)
        return None, len(text) if line < 0 else line + 1


def _meant(text: str, start: int, end: int, *, cut_off: bool) -> bool:
    """Whether what cannot be read was to be a return: it has both names, or the text ends before it can have."""
    named = [bool(name.search(text, start, end)) for name in _NAMES]
    return all(named) or (any(named) and cut_off)
