"""What keeps an answer from being believed.

Code cannot tell "no P0 was found" from "P0: the file was not found" by their words, so it hardly tries. An answer that
would let a change pass has to be the JSON object of the format alone. Whatever it says beside that is quoted to its
reviewer, who puts it among the findings or leaves it out; what stays beside the list is kept as an uncertain finding.
A question too many costs seconds, one too few a defect.
"""

import re
from collections.abc import Mapping
from typing import Any

from pipeline.text import truncate_length

_QUOTED = 160  # characters that are quoted
KEPT = 4_000  # characters of what is said beside a list
_FINISHED = frozenset(("", "complete", "completed", "done", "ok", "success", "succeeded", "finished", "pass", "passed"))
_STOPPED: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("complete", "completed", "success", "ok", "finished"), (False,)),
    **dict.fromkeys(("is_error", "incomplete", "partial", "truncated", "timed_out", "cancelled"), (True,)),
    **dict.fromkeys(("stop_reason", "finish_reason"), ("max_tokens", "length", "content_filter", "refusal")),
}  # keys, and the values that say that an answer did not finish
_MARKERS = re.compile(
    r"\[\s*(?:FINDING\s+#?[0-9]+|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b[^\]\n]*\]|(?:```|~~~)\w*", re.IGNORECASE
)
_LETTER = re.compile(r"[^\W\d_]")
_NOT_LOOKED = re.compile(
    r"\W*(?:$|(?:not|never|no|none|nothing|n/?a|nil|null|todo|pending|skipped|unread|unreviewed|partial(?:ly)?|unable"
    r"|could|can(?:not|['’]t)|failed|too|ran|out|timed|permission|I)\b)",
    re.IGNORECASE,
)  # how a line begins that says why a file was not examined
_BLOCKER = re.compile(
    r"\bP0s?\b|\bsev(?:erity)?[ -]?0\b|\bblockers?\b|\bblocking\b|\bshow-?stoppers?\b"
    r"|\bcritical\b(?!\s+(?:paths?|sections?|regions?|code|parts?|flows?|files?|functions?|components?|areas?|to|for)\b)",
    re.IGNORECASE,
)
# "No P0 and no P1", "Critical: none", "the P0 is resolved": nothing is named. What is said before counts as far as the
# sentence goes, unless it takes a turn, as in "no P1, but a P0".
_TURN = re.compile(r"[.!?;:—–\n]|\b(?:but|however|although|yet|except|which|while)\b", re.IGNORECASE)
_DENIED_BEFORE = re.compile(
    r"\b(?:no|not|none|without|never|nothing|neither|nor|zero|0|any|if|whether)\b|n['’]t\b", re.IGNORECASE
)
_DENIED_AFTER = re.compile(
    r"^\W{0,12}(?:0|no|none|nil|n/?a)\b|\b(?:none|nothing|not\s+(?:found|present|seen)|(?<!not )(?:fixed|resolved))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|[;\n]")
_REFUSAL = re.compile(
    r"\b(?:could(?:\s*n[o'’]t|\s+not)|can(?:\s*not|['’]t)|unable\s+to|not\s+able\s+to|failed\s+to|(?:did|have)(?:\s+not|n['’]t))"
    r"\s+(?:\w+\s+){0,2}(?:access|read|open|load|review|inspect|examine|look|complete|finish)",
    re.IGNORECASE,
)


def unfinished(value: Any) -> str:
    """Return why a JSON object is not the end of a review: an error, a status, or a stop before the end."""
    if not isinstance(value, dict):
        return ""
    if value.get("error"):
        return f"it reports an error: {quote(str(value['error']))}"
    for key, stopped in _STOPPED.items():
        if value.get(key) in stopped:
            return f"it says that it did not finish: `{key}` is {value[key]!r}"
    status = str(value.get("status") or "")
    return "" if status.strip().lower() in _FINISHED else f"its status is {quote(status)}"


def words_beside(words: str) -> str:
    """Return what an answer says around its JSON, other than its status and rulings; empty if it says nothing."""
    said = _MARKERS.sub(" ", words)
    return said.strip() if _LETTER.search(said) else ""


def says_something(value: Any) -> bool:
    """Return whether a JSON value says anything: null, zero and blanks do not, but false does, as in `approved`."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    return value is False or bool(value and str(value).strip())


def not_looked(entry: str) -> bool:
    """Return whether a line about what was examined says that it was not."""
    file, separator, checked = entry.partition(":")
    return bool(_NOT_LOOKED.match(file) or (separator and _NOT_LOOKED.match(checked)))


def refusal(words: str) -> str:
    """Return the sentence in which a reviewer says that it could not look; empty if it does not."""
    found = _REFUSAL.search(words)
    return _sentence(words, found) if found else ""


def named_blocker(words: str) -> str:
    """Return the first sentence that names a defect of the worst severity and does not deny it; empty without one."""
    for name in _BLOCKER.finditer(words):
        before = _TURN.split(words[max(name.start() - 400, 0) : name.start()])[-1]
        rest = words[name.end() : name.end() + 400]
        after = _SENTENCE_END.split(rest, maxsplit=1)[0]
        if not _DENIED_BEFORE.search(before) and not _DENIED_AFTER.search(after):
            return _sentence(words, name)
    return ""


def quote(text: str) -> str:
    """Return the beginning of a text on one line, in quotation marks."""
    return repr(truncate_length(" ".join(text[: 4 * _QUOTED].split()), _QUOTED))


def _sentence(words: str, found: re.Match[str]) -> str:
    """Return the sentence around a place in a text, on one line and not too long."""
    ends = _SENTENCE_END.finditer(words, max(found.start() - 400, 0), found.start())
    start = max(max((end.end() for end in ends), default=0), found.start() - 80)
    end = _SENTENCE_END.search(words, found.end())
    return quote(words[start : end.start() if end else len(words)])
