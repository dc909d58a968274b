"""What an agent says about itself: `[STATUS: ...]` and its relatives, read from the text outside code and quotes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.engine.outcome import Status

_CLAIMABLE = {status.value: status for status in (Status.SUCCESS, Status.FAIL, Status.PARTIAL_SUCCESS, Status.RETRY)}
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_STATUS = re.compile(r"\[\s*STATUS\s*:\s*(?P<status>[A-Za-z_ -]+?)\s*\]", re.IGNORECASE)
_GAP = re.compile(r"[ -]+")
_BRACKET = re.compile(r"[\[\]]")
_OPENING = re.compile(r"\[\s*(?P<name>FAILURE_REASON|PREFERRED_LABEL|NEXT)\s*:", re.IGNORECASE)


class Claims(NamedTuple):
    """What an answer claims. `status` is None when it claims none."""

    status: Status | None = None
    reason: str = ""
    preferred_label: str = ""
    preferred_next: str = ""


def read_claims(answer: str) -> Claims:
    """The last marker of each kind wins; what stands in code or quotes is no marker."""
    start = answer.find("[")
    if start < 0:
        return Claims()
    quotes = "`" in answer or "~" in answer or ">" in answer
    text = "\n".join(_spoken(answer)) if quotes else answer[start:]
    statuses = [_CLAIMABLE.get(_word(found["status"])) for found in _STATUS.finditer(text)]
    named = {name.upper(): value for name, value in _bracketed(text)}
    return Claims(
        statuses[-1] if statuses else None,
        named.get("FAILURE_REASON", ""),
        named.get("PREFERRED_LABEL", ""),
        named.get("NEXT", ""),
    )


def _word(status: str) -> str:
    return _GAP.sub("_", status.strip().lower())


def _spoken(answer: str) -> Iterator[str]:
    """The lines that are the agent's own words: no fenced code, no quotation, no inline code."""
    for line in unfenced(answer):
        if not line.lstrip().startswith(">"):
            yield _INLINE_CODE.sub("", line) if "`" in line else line


def unfenced(text: str) -> Iterator[str]:
    """The lines that stand in no fence."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found and (not fence or (found["fence"].startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else found["fence"]
        elif not fence:
            yield line


def _bracketed(text: str) -> Iterator[tuple[str, str]]:
    """Markers with a free text, which may run over lines and hold brackets of its own."""
    for found in _OPENING.finditer(text):
        value = _until_closed(text, found.end())
        if value is not None:
            yield found["name"], " ".join(value.split())


def _until_closed(text: str, start: int) -> str | None:
    """The text up to the bracket that closes the marker; up to the end of the line when nothing closes it."""
    depth = 1
    for bracket in _BRACKET.finditer(text, start):
        at = bracket.start()
        if bracket[0] == "]":
            depth -= 1
            if depth == 0:
                return text[start:at]
        elif _OPENING.match(text, at) or _STATUS.match(text, at):
            break  # the next marker begins, so this one was never closed
        else:
            depth += 1
    return text[start:].partition("\n")[0].strip() or None
