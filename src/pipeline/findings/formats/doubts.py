"""What keeps an answer from being believed.

Code cannot tell "no P0 was found" from "P0: the file was not found" by their words, so it hardly tries. An answer that
would let a change pass has to be the JSON object of the format alone. Whatever it says beside that is quoted to its
reviewer, who puts it among the findings or leaves it out; what stays beside the list is kept as an uncertain finding.
A question too many costs seconds, one too few a defect.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.findings.formats.review_item import is_item, with_known_keys
from pipeline.text import truncate_length

_QUOTED = 160  # characters that are quoted
_KEPT = 4_000  # characters of what is said beside a list
_MAX_DEPTH = 16  # levels of JSON; nothing deeper is meant for a reader
_FINISHED = frozenset(("complete", "completed", "done", "ok", "success", "succeeded", "finished", "pass", "passed"))
_FLAGS = {
    **dict.fromkeys(("complete", "completed", "success", "ok", "finished"), False),
    **dict.fromkeys(("is_error", "incomplete", "partial", "truncated", "timed_out", "cancelled"), True),
}  # keys, and the value that says that an answer did not finish
_STOPS = ("max_tokens", "length", "content_filter", "refusal")  # why a model stopped before the end
_MARKERS = re.compile(
    r"\[\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b[^\]\n]*\]|(?:```|~~~)\w*", re.IGNORECASE
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


def unfinished(value: Mapping[str, Any]) -> str:
    """Return why a JSON object is not the end of a review: an error, a status, or a stop before the end."""
    error = _error(value)
    if error:
        return f"it reports an error: {quote(error)}"
    for key, stopped in _FLAGS.items():
        if value.get(key) is stopped:
            return f"it says that it did not finish: `{key}` is {str(stopped).lower()}"
    for key in ("stop_reason", "finish_reason"):
        if value.get(key) in _STOPS:
            return f"it was stopped before its end: {value[key]}"
    status = value.get("status")
    if isinstance(status, str) and status.strip() and status.strip().lower() not in _FINISHED:
        return f"its status is {quote(status)}"
    return ""


def words_beside(words: str) -> str:
    """Return what an answer says around its JSON, other than its status and rulings; empty if it says nothing."""
    said = _MARKERS.sub(" ", words)
    return truncate_length(said.strip(), _KEPT) if _LETTER.search(said) else ""


def keys_beside(value: Any, known: Collection[str], key: str = "", depth: int = 0) -> Iterator[str]:
    """Yield what JSON says beside its findings under keys that the format does not have.

    Nothing, zero and empty values say nothing.
    """
    if is_item(value) or depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from keys_beside(item, known, key, depth + 1)
    elif isinstance(value, dict):
        for name, inner in with_known_keys(value, known).items():
            if name not in known:
                yield from keys_beside(inner, known, name, depth + 1)
    elif value is False or (value and str(value).strip()):
        yield f"`{key}`: {truncate_length(str(value).strip(), _KEPT)}"


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
        end = _SENTENCE_END.search(rest)
        after = rest[: end.start()] if end else rest
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


def _error(value: Mapping[str, Any]) -> str:
    """Return the error that an object reports, or the first of several."""
    errors = value.get("errors")
    said = [value.get("error"), *(errors if isinstance(errors, list) else ())]
    for error in said:
        message = error.get("message", error) if isinstance(error, dict) and "severity" not in error else error
        if message and not isinstance(message, dict) and message not in ("none", "null"):
            return str(message)
    return ""
