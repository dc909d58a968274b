"""A verdict file that somebody else wrote, read to the letter: each finding of it is a claim, with its status."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.items import ItemError, collect_items, limit_nesting, malformed_report, strip_root
from pipeline.findings.formats.verdict_view import FORMAT, OURS, OURS_TOP, TITLE, TOP, shadowed
from pipeline.findings.model import FindingState, Location, RawFinding, ReviewerReport
from pipeline.findings.scales import VERDICT_SEVERITY, confidence_from_fraction, default_autofix, default_category
from pipeline.findings.verdicts import Verdict

_NAME = "verdict"
_ID = re.compile(r"[0-9a-f]{8}")
_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SEVERITY_OF = MappingProxyType({word: severity for severity, word in VERDICT_SEVERITY.items()})
_STATE_OF: Mapping[str, FindingState] = MappingProxyType(
    {
        "open": FindingState.OPEN,
        "fixed": FindingState.FIX_CLAIMED,
        "verified": FindingState.VERIFIED_FIXED,
        "reopened": FindingState.REOPENED,
        "wont_fix": FindingState.WONT_FIX,
    }
)
_ONE_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "scope": ("changeset", "package", "team", "file"),
        "mode": ("full", "quick", "verify"),
        "verdict": tuple(map(str, Verdict)),
    }
)


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What a verdict file says. `root` is where the repository is, for paths that begin there."""
    name = reviewer or _NAME
    try:
        document = limit_nesting(strict.loads(data), "it")
    except ValueError as error:
        return malformed_report(name, FORMAT, f"the verdict file cannot be read: {error}")
    if fault := document_fault(document):
        return malformed_report(name, FORMAT, f"the verdict file cannot be used: {fault}")
    items = [one for first in document["findings"] for one in (first, *shadowed(first))]
    contradictions = _contradictions(document, items)
    unknown = {key: value for key, value in document.items() if key not in OURS_TOP}
    ext = {FORMAT: unknown} if unknown else {}
    return collect_items(
        name, FORMAT, [*items, *contradictions], lambda one, input_id: _claim(one, input_id, root), ext=ext
    )


def _contradictions(document: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the file states about its findings as a whole and its findings do not bear out; each is rejected.

    The review id is part of the text: dismissing one contradiction does not dismiss that of the next review.
    """
    review = f"review {document['reviewId']}"
    unsettled = [one for one in items if one.get("status") not in ("verified", "wont_fix")]
    listed = {word: sum(one.get("severity") == word for one in unsettled) for word in _SEVERITY_OF}
    stated, blockers = document["verdict"], listed["Blocker"]
    if stated != Verdict.PASS and not (blockers or (stated == Verdict.WARN and listed["High"])):
        yield f"The verdict is {stated}, and none of its findings says why\n{review}"
    summary = document["summary"]
    if not isinstance(summary, dict):
        yield f"The summary is not an object with counts\n{review}"
        return
    for word, count in listed.items():
        counted = summary.get(word.lower(), 0)
        if not strict.is_int(counted) or counted < 0:
            yield f"The summary's count of {word} findings is not a whole number\n{review}: {str(counted)[:200]}"
        elif counted > count:
            yield f"The summary counts {counted} {word} findings, and {count} are listed\n{review}"


def document_fault(document: Any) -> str:
    """What is wrong with a verdict file as a whole; nothing when it is sound."""
    if not isinstance(document, dict):
        return "it is no JSON object"
    if lost := [key for key in TOP if key not in document]:
        return f"`{lost[0]}` is missing"
    if not isinstance(document["reviewId"], str) or not _ID.fullmatch(document["reviewId"]):
        return "`reviewId` is not 8 hexadecimal digits"
    for key, words in _ONE_OF.items():
        if not isinstance(document[key], str) or document[key] not in words:
            return f"`{key}` is none of {', '.join(words)}"
    if not isinstance(document["findings"], list) or not all(isinstance(one, dict) for one in document["findings"]):
        return "`findings` is no list of objects"
    texts = ("timestamp", "target", "reportPath")
    return next((f"`{key}` is not a text" for key in texts if not isinstance(document[key], str)), "")


def _claim(one: Mapping[str, Any] | str, input_id: str, root: str) -> RawFinding:
    if isinstance(one, str):
        raise ItemError("the file contradicts itself: findings may be missing")
    if faults := strict.faults(one, _RULES, ("lineRange",)):
        raise ItemError("; ".join(faults))
    severity = _SEVERITY_OF[one["severity"]]
    fix = None if one.get("x_fix_absent") is True else one["recommendation"] or None
    autofix_class, owner = default_autofix(fix, severity)
    unknown = {key: value for key, value in one.items() if key not in OURS}
    return RawFinding(
        input_id=input_id,
        reviewer=one["domain"],
        title=one["title"],
        severity=severity,
        confidence=confidence_from_fraction(float(one["confidence"])),
        category=default_category(one["domain"]),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        system_breaking=one.get("x_system_breaking") is True,
        locations=(_location(strip_root(one["file"], root), one.get("lineRange")),),
        tool_ids={"verdict/v1": one["id"]},
        state=_STATE_OF[one["status"]],
        ext={FORMAT: unknown} if unknown else {},
    )


def _location(path: str, lines: str | None) -> Location:
    found = _LINES.fullmatch(lines or "")
    if found is None:
        return Location(path=path)
    return Location(path=path, start=int(found[1]), end=int(found[2]) if found[2] else None)


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "is no text"


def _title(value: Any) -> str:
    return _text(value) or (f"has more than {TITLE} characters" if len(value) > TITLE else "")


def _confidence(value: Any) -> str:
    number = isinstance(value, float) or strict.is_int(value)
    return "" if number and 0.5 <= value <= 1 else "is no number from 0.50 to 1.00"


def _lines(value: Any) -> str:
    found = _LINES.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) < 1 or int(found[2] or found[1]) < int(found[1]):
        return 'is no range of lines such as "42-58" or "42"'
    return ""


_RULES: Mapping[str, strict.Rule] = MappingProxyType(
    {
        "id": _text,
        "domain": _text,
        "severity": strict.one_of(_SEVERITY_OF),
        "confidence": _confidence,
        "file": _text,
        "lineRange": _lines,
        "title": _title,
        "recommendation": strict.text,
        "status": strict.one_of(_STATE_OF),
    }
)
