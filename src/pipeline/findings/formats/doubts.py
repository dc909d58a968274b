"""What keeps an answer from being believed: it is unfinished, refuses, or names a defect that it does not list.

Each function returns why, in words for the agent that is asked again; empty if there is no reason for doubt. A reason
too many costs one more question, one too few a defect.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.findings.model import Severity
from pipeline.findings.scales import severity_of_word

_QUOTED = 160  # characters of a sentence that are quoted
_FINISHED = frozenset(
    [
        "complete",
        "completed",
        "done",
        "ok",
        "okay",
        "success",
        "successful",
        "succeeded",
        "finished",
        "final",
        "ready",
        "closed",
        "reviewed",
        "pass",
        "passed",
        "pass_with_comments",
        "clean",
        "approve",
        "approved",
        "accept",
        "accepted",
        "no_issues",
        "no_issues_found",
        "no_findings",
        "merge",
        "mergeable",
        "approve_with_comments",
        "nothing_found",
        "lgtm",
        "ship",
    ]
)
_FAILING = frozenset(
    [
        "fail",
        "block",
        "blocked",
        "reject",
        "rejected",
        "request_changes",
        "changes_requested",
        "needs_changes",
        "needs_work",
        "not_approved",
        "issues_found",
        "findings_found",
        "warn",
        "warning",
        "comment",
        "commented",
    ]
)  # of what was reviewed
_FLAGS = {
    **dict.fromkeys(("complete", "completed", "success", "ok", "finished"), False),
    **dict.fromkeys(("is_error", "incomplete", "partial", "truncated", "timed_out", "cancelled"), True),
}  # keys, and the value that says that it did not finish
_STOPS = ("max_tokens", "length", "content_filter", "refusal")  # why a model stopped, before the end

_UNABLE = (
    r"(?:could(?:\s*n[o'’]t|\s+not)|can(?:\s*not|['’]t)|(?:(?:am|was|were|is|are)\s+)?(?:unable|not\s+able)\s+to|failed\s+to)"
    r"\s+(?:\w+ly\s+|even\s+)?"
)
_WORK = (
    r"(?:access|read|open|load|view|fetch|retrieve|reach|review|inspect|examine|analy[sz]e|complete|finish|perform|proceed"
    r"|continue|assist|help|comply|clone|process|look\s+at|(?:find|see|locate)\s+(?:the|your|that|this|those)\b)"
)
_REFUSAL = re.compile(
    rf"(?:\b(?:I|we)\s(?:[^.!?\n]{{0,40}}\s)?|(?:^|[.!?;:,]\s{{0,3}}|\bbut\s)){_UNABLE}{_WORK}"
    r"|\b(?:do(?:n['’]t|\s+not)\s+have|did(?:n['’]t|\s+not)\s+have|have\s+no|had\s+no|lack(?:ed)?)\s+(?:\w+\s+){0,2}(?:access|permission)"
    r"|\b(?:access|permission)\s+(?:was\s+|is\s+)?denied\b|\bran\s+out\s+of\s+(?:time|tokens|context|budget)\b"
    r"|\b(?:have\s+not|haven['’]t|did\s+not|didn['’]t)\s+(?:yet\s+|actually\s+|fully\s+)*(?:look|review|read|examin|inspect)"
    r"|\bas\s+an\s+ai\b|\b(?:I|we)(?:['’]m|\s+am|\s+are)\s+sorry\b|\bdid\s+not\s+finish\b|\breview\s+is\s+(?:incomplete|not\s+complete)\b",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_MARKER = re.compile(r"\[[A-Z_ ]+:[^\]\n]*\]|```\w*")
_MANY = 8  # words
_LOOKING = r"(?:review|look|read|examin|check|open|inspect|get|do)"
_NOT_LOOKED = re.compile(
    r"\W*(?:"
    r"(?:none|nothing|n/?a|nil|null|todo|pending|skipped|unread|unreviewed|partial(?:ly)?|no\s+(?:time|access))\W*$"
    r"|(?:todo|pending|skipped|partial(?:ly)?)\s*[,;:(–—-]|no\s+(?:time|access)\b|permission\s+denied\b|timed\s+out\b"
    r"|ran\s+out\b|out\s+of\s+(?:time|budget|tokens|context)\b|too\s+(?:large|long|big)\b|(?:none|nothing)\s+of\s+(?:it\b|this\b|that\b|the\b|\S+\.\w+)"
    rf"|(?:not|never)\s+(?:(?:yet|fully|been|completely)\s+)*{_LOOKING}|to\s+be\s+{_LOOKING}|could\s+not\s+be\b"
    rf"|I\s+(?:did|have)(?:\s+not|n['’]t)\s+(?:(?:yet|fully)\s+)*{_LOOKING}"
    rf"|(?:I\s+)?{_UNABLE}{_WORK}"
    r"|$)",
    re.IGNORECASE,
)  # at the beginning of what was checked in a file
_BLOCKER = (
    r"\bP0s?\b|\bsev(?:erity)?[ -]?0\b|\bblockers?\b|\bblocking\b|\bshow-?stoppers?\b"
    r"|\bcritical\b(?!\s+(?:paths?|sections?|regions?|code|parts?|flows?|files?|functions?|components?|areas?|to|for)\b)"
)
_BLOCKERS = re.compile(_BLOCKER, re.IGNORECASE)
_DEFECTS = re.compile(
    rf"{_BLOCKER}|\bP1s?\b|\bhigh[ -](?:severity|risk|priority|impact)\b|\bseverity\W{{1,3}}(?:high|severe)\b"
    r"|\bbugs?\b|\bsevere\b|\bwrong\s+(?:result|value|answer|output)s?\b|\bcrash(?:es)?\b|[\w-]\.[A-Za-z]\w{0,9}:\d{1,6}\b"
    r"|\bdo\s+not\s+(?:ship|merge)\b|\bbefore\s+(?:merging|shipping)\b"
    r"|\bvulnerab\w+|\bmust(?:\s+be)?[ -]fix(?:ed)?\b|\bneeds?\s+to\s+be\s+fixed\b|\bexploitable\b"
    r"|^\W{0,6}(?:bug|defect|issue|problem|error|fixme)s?\b\s*#?\d{0,3}\W{0,2}:",
    re.IGNORECASE | re.MULTILINE,
)
# "No P0 and no P1", "looked for vulnerabilities", "Critical: none", "the P0 is resolved": no defect is named. What is
# said before counts as far as the sentence goes, unless it takes a turn, as in "no P0, but a P1".
_TURN = re.compile(
    r"[.!?;:—–\n]|\b(?:but|however|although|yet|except|which|while)\b|,\s+(?:so|it|this|that|the|there|one)\b",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"\b(?:no|not|none|without|never|nothing|neither|nor|zero|0|free\s+of|any|if|whether|rather\s+than|instead\s+of"
    r"|(?:look|check|search|test|hunt|scann?)(?:ed|ing)?\s+for|rule[sd]?\s+out)\b|n['’]t\b",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"^\W{0,12}(?:0|no|none|nil|n/?a)\b|\b(?:none|nothing)\b|\b(?:not|n['’]t)\s+(?:found|present|seen|detected|applicable|introduced)\b"
    r"|(?<!not )(?<!n't )\b(?:fixed|resolved|addressed|no\s+longer|ruled\s+out|absent|0\s+found)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|[;\n]")


_JUDGEMENTS = ("status", "state", "verdict", "decision")
_VERDICTS = frozenset(("ship", "ship_with_tickets", "block"))  # of our own format
_OUTCOMES = ("result", "conclusion", "outcome", "recommendation", "recommended_action", "approve")
_CONSENTS = ("approved", "approve", "lgtm", "passed", "ship", "merge", "mergeable", "safe_to_merge")
_DENIALS = ("fail", "reject", "block", "do_not", "don't")  # how a word that rejects a change begins
_COUNTS = (
    *("total", "count", "findings_count", "num_findings", "issues_found", "total_findings", "total_issues"),
    *("must_count", "blocker_count", "critical_count"),
)
_DEFECT_LISTS = ("issues", "problems", "defects", "bugs", "blockers", "vulnerabilities", "must_fix")
_LEFT_OUT = re.compile(
    r"(?:not|un)_?(?:reviewed|examined|read|checked)(?:_files)?|skipped(?:_files)?|files_skipped|omitted"
)
_NOTHING = re.compile(
    r"\W*(?:(?:no|none|nothing|nil|null|n/?a)"
    r"(?:\W*$|\s+(?:\w+\s+){0,2}?(?:found|issues?|problems?|findings?|defects?|bugs?|blockers?|vulnerabilit\w+)\b)|$)",
    re.IGNORECASE,
)


def unfinished(value: Mapping[str, Any]) -> str:
    """Return why a JSON object is not the end of a review: an error, a status, or a stop before the end."""
    error = _error(value)
    if error:
        return f"it reports an error: {_shorten(error)}"
    for key, stopped in _FLAGS.items():
        if value.get(key) is stopped:
            return f"it says that it did not finish: `{key}` is {str(stopped).lower()}"
    for key in ("stop_reason", "finish_reason"):
        if value.get(key) in _STOPS:
            return f"it was stopped before its end: {value[key]}"
    status = _status(value)
    return f"its status is {_shorten(status)}" if status and status not in _FINISHED | _FAILING else ""


def other_words(value: Mapping[str, Any]) -> str:
    """Return what a review says beside its empty list that an empty list does not say; empty if nothing does.

    A judgement in a word that nobody knows is one that may reject the change.
    """
    for key in _JUDGEMENTS:
        word = _word(value, key)
        known = _FINISHED | _VERDICTS if key == "verdict" else _FINISHED
        if word and word not in known:
            return f"its `{key}` is {_shorten(word)}"
    for key in _OUTCOMES:
        word = _word(value, key)
        if word == "no" or word in _FAILING or word.startswith(_DENIALS):
            return f"its `{key}` is {_shorten(word)}"
    denied = next((key for key in _CONSENTS if value.get(key) is False or _word(value, key) in ("no", "false")), "")
    if denied:
        return f"its `{denied}` is false"
    left = next((key for key in value if _LEFT_OUT.fullmatch(key) and value[key]), "")
    if left:
        return f"its `{left}` is not empty"
    if value.get("blocked") is True:
        return "its `blocked` is true"
    for key in _DEFECT_LISTS:
        listed = value.get(key)
        if isinstance(listed, list) and any(isinstance(one, str) and not _NOTHING.match(one) for one in listed):
            return f"its `{key}` is not empty"
    counted = [(name, value.get(name)) for name in _COUNTS]
    counted += (pair for inner in value.values() if isinstance(inner, dict) for pair in inner.items())
    for name, number in counted:
        if isinstance(number, int) and not isinstance(number, bool) and number > 0 and _is_count(str(name)):
            return f"its `{name}` is {number}"
    return ""


def rejects(value: Mapping[str, Any]) -> str:
    """Return what a review says of the whole change that minor findings do not explain; empty if nothing does."""
    for key in ("verdict", "decision"):
        word = _word(value, key)
        if word and word not in _FINISHED | _VERDICTS:
            return f"its `{key}` is {_shorten(word)}"
    denied = next((key for key in _CONSENTS if value.get(key) is False or _word(value, key) in ("no", "false")), "")
    if denied:
        return f"its `{denied}` is false"
    for inner in filter(lambda one: isinstance(one, dict), value.values()):
        for name, number in inner.items():
            if number and severity_of_word(str(name)) is Severity.CRITICAL and isinstance(number, int):
                return f"its `{name}` is {number}"
    return ""


def _is_count(name: str) -> bool:
    """Return whether a number of this name counts findings."""
    return name in _COUNTS or bool(severity_of_word(name))


def _status(value: Mapping[str, Any]) -> str:
    return _word(value, "status")


def _word(value: Mapping[str, Any], key: str) -> str:
    word = value.get(key)
    return "_".join(re.split(r"[\s_-]+", word.strip().lower())) if isinstance(word, str) else ""


def refusal(words: str) -> str:
    """Return the sentence in which a reviewer says that it could not look."""
    found = _REFUSAL.search(words)
    return _sentence(words, found) if found else ""


def aside(words: str) -> str:
    """Return the beginning of words that are too many to be a greeting; nobody knows what is in them."""
    said = _MARKER.sub(" ", words)
    return _shorten(said) if len(_WORD.findall(said)) >= _MANY else ""


def not_looked(entry: str) -> bool:
    """Return whether a line about what was examined says that it was not."""
    file, separator, checked = entry.partition(":")
    return bool(_NOT_LOOKED.match(file) or (separator and _NOT_LOOKED.match(checked)))


def named_defect(words: str) -> str:
    """Return the first sentence that names a defect and does not deny it."""
    return next(_named(words, _DEFECTS), "")


def named_blocker(words: str) -> str:
    """Return the first sentence that names a defect of the worst severity and does not deny it."""
    return next(_named(words, _BLOCKERS), "")


def _named(words: str, names: re.Pattern[str]) -> Iterator[str]:
    for name in names.finditer(words):
        before = _TURN.split(words[max(name.start() - 400, 0) : name.start()])[-1]
        rest = words[name.end() : name.end() + 400]
        end = _SENTENCE_END.search(rest)
        after = rest[: end.start()] if end else rest
        if not _BEFORE.search(before) and not _AFTER.search(after):
            yield _sentence(words, name)


def _sentence(words: str, found: re.Match[str]) -> str:
    """Return the sentence around a place in a text, on one line and not too long."""
    start = max(
        (end.end() for end in _SENTENCE_END.finditer(words, max(found.start() - 400, 0), found.start())), default=0
    )
    start = max(start, found.start() - 80)
    end = _SENTENCE_END.search(words, found.end())
    return _shorten(words[start : end.start() if end else len(words)])


def _shorten(text: str) -> str:
    line = " ".join(text[: 4 * _QUOTED].split())
    return repr(line if len(line) <= _QUOTED else f"{line[: _QUOTED - 1]}…")


def _error(value: Mapping[str, Any]) -> str:
    """Return the error that an object reports, or the first of several."""
    errors = value.get("errors")
    said = [value.get("error"), *(errors if isinstance(errors, list) else ())]
    for error in said:
        message = error.get("message", error) if isinstance(error, dict) and "severity" not in error else error
        if message and not isinstance(message, dict) and message not in ("none", "null"):
            return str(message)
    return ""
