"""Where a claim says that it is: a path of the repository, or the reason why it is refused.

No path leaves this module that leads out of the repository by its own words. What links do is for `files` to see.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from hashlib import sha256
from typing import Any

from pipeline.findings.fingerprints import norm_title
from pipeline.findings.model import (
    AutofixClass,
    Confidence,
    Location,
    Owner,
    RawFinding,
    ReviewerReport,
    Severity,
    UnreadableItem,
)
from pipeline.findings.scales import default_category

LONGEST = 4096  # characters of a path
_SHOWN = 80
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_ABSOLUTE = re.compile(r"/|~(?:/|$)|[A-Za-z]:|file:")
_ADDRESS = re.compile(r"https?://")


@dataclass(frozen=True, slots=True)
class PathRefused:
    """Why something is not taken in."""

    reason: str


def normalise(path: str, *, work_item: bool = False) -> str | PathRefused:
    """A path with single forward slashes, from the root of the repository. A work item may be an address too."""
    if reason := _fault(path):
        return PathRefused(f"the path {shown(path)} {reason}")
    if work_item and _ADDRESS.match(path):
        return path
    posix = path.replace("\\", "/")
    if _ABSOLUTE.match(posix):
        return PathRefused(f"the path {shown(path)} is absolute: give it from the root of the repository")
    parts = _walked(posix)
    if parts is None:
        return PathRefused(f"the path {shown(path)} leads out of the repository")
    return "/".join(parts) or "."


def shown(text: str) -> str:
    """A text from outside as it stands in a message: quoted, on one line, and not long."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _fault(path: str) -> str:
    if not path.strip():
        return "is empty: name a file"
    if len(path) > LONGEST:
        return f"is longer than {LONGEST} characters"
    return "holds a character that no text has" if _CONTROL.search(path) else ""


def _walked(posix: str) -> list[str] | None:
    """The parts of a path without detours; None when it goes above where it begins."""
    parts: list[str] = []
    for part in posix.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


MOST = 1000  # pieces of evidence, and places, of one finding
_TEXTS = (
    "input_id", "reviewer", "title", "impact", "fix", "plain_title", "reproduction", "min_fix_scope", "scope",
    "action", "stage", "suppressed", "unreadable",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worded:
    """A claim that can be kept, and what had to be said of it."""

    claim: RawFinding
    notes: tuple[str, ...] = ()


def word(claim: RawFinding) -> Worded | PathRefused:
    """A claim fit to be kept, or why there is none."""
    if not claim.title.strip():
        return PathRefused("it has no title: say in a few words what is wrong")
    changes, notes = _legible_texts(claim), []
    if claim.impact and not claim.unreadable and norm_title(claim.impact) == norm_title(claim.title):
        changes["impact"] = ""
        notes.append("its reason only repeats its title and was left out")
    for name, what in (("evidence", "pieces of evidence"), ("locations", "places")):
        if (count := len(getattr(claim, name))) > MOST:
            notes.append(f"only {MOST} of its {count} {what} are kept")
            changes[name] = getattr(claim, name)[:MOST]
    return Worded(replace(claim, **changes) if changes else claim, tuple(notes))


def legible(text: str) -> str:
    """A text without halves of characters, which no file can hold."""
    if text.isascii():
        return text
    return text.encode(errors="replace").decode()


def title_key(title: str) -> str:
    """What titles are compared by; one without any letter is itself."""
    return norm_title(title) or title.strip()


def _legible_texts(claim: RawFinding) -> dict[str, Any]:
    """The texts of a claim that no file can hold, as one can."""
    changes: dict[str, Any] = {}
    for name in _TEXTS:
        text = getattr(claim, name)
        if text and legible(text) != text:
            changes[name] = legible(text)
    if claim.regression_tests:
        changes["regression_tests"] = tuple(map(legible, claim.regression_tests))
    if claim.tool_ids:
        changes["tool_ids"] = {legible(name): legible(value) for name, value in claim.tool_ids.items()}
    return changes


RAW = 4000  # characters of an item's text that are kept
_SURE = 75  # nothing unreadable is filtered for its confidence
_WRITTEN = ("", "review", "verdict")  # formats that reviewers write; tools write the others


def of_rejected(item: UnreadableItem, answer: ReviewerReport) -> RawFinding:
    """The claim of an item that its reader could not use."""
    return RawFinding(
        input_id=item.input_id,
        reviewer=answer.reviewer,
        title=item.title.strip() or _nameless(item.input_id, answer.reviewer),
        severity=Severity.CRITICAL if item.system_breaking else item.severity,
        system_breaking=item.system_breaking,
        confidence=Confidence(value=_SURE, scale="anchor" if answer.format in _WRITTEN else "tool"),
        category=default_category(answer.reviewer),
        impact=_bounded(item.raw or item.reason),
        locations=(item.location,) if item.location else (),
        unreadable=item.reason or "it cannot be read as a finding",
    )


def of_refused(claim: RawFinding, reason: str) -> RawFinding:
    """The claim of an item that was read, and has no title or lies outside the repository."""
    told = (
        claim.title,
        *map(str, claim.locations),
        claim.impact,
        claim.fix or "",
        *(one.raw for one in claim.evidence),
    )
    return replace(
        claim,
        title=claim.title if claim.title.strip() else _nameless(claim.input_id, claim.reviewer),
        confidence=replace(claim.confidence, value=max(_SURE, claim.confidence.value)),
        impact=_bounded("\n".join(part for part in told if part)) or reason,
        fix=None,
        autofix_class=AutofixClass.MANUAL,
        owner=Owner.HUMAN,
        pre_existing=False,
        evidence=(),
        state=None,
        suppressed=None,
        unreadable=reason,
    )


def _nameless(input_id: str, reviewer: str) -> str:
    return f"Unreadable finding {input_id.rpartition('#')[2]} of {reviewer}"


def _bounded(raw: str) -> str:
    """The beginning of a text; the hash of all of it tells two apart that begin alike."""
    if len(raw) <= RAW:
        return raw
    digest = sha256(raw.encode(errors="replace")).hexdigest()[:16]
    return f"{raw[:RAW]}… ({len(raw)} characters, sha256 {digest})"


_TITLES = ("title", "plain_title", "message", "text", "name", "summary", "description", "issue", "problem")
_SEVERITIES = ("severity", "level", "priority")
_PATHS = ("file", "path", "filePath", "filename", "uri")
_LINES = ("line", "start_line", "startLine")
_BREAKING = ("x_system_breaking", "system_breaking")
_TITLE = 200  # characters
_LINE = re.compile(r"\d{1,9}")
_WORDS: Mapping[str, Severity] = {
    **dict.fromkeys(("p0", "critical", "blocker", "fatal"), Severity.CRITICAL),
    **dict.fromkeys(("p1", "high", "major", "error"), Severity.HIGH),
    **dict.fromkeys(("p2", "medium", "moderate", "warning", "warn"), Severity.MEDIUM),
    **dict.fromkeys(("p3", "low", "minor", "note"), Severity.LOW),
    **dict.fromkeys(("info", "information", "none"), Severity.INFO),
}


def rejected_item(item: Any, input_id: str, reason: str, title: str, *, harmless: bool = False) -> UnreadableItem:
    """A rejected item with all that its text tells."""
    raw = _value(item)
    fields = raw if isinstance(raw, dict) else {}
    severity = _WORDS.get(_first(fields, _SEVERITIES).lower(), Severity.HIGH)
    path, line = _first(fields, _PATHS), _first(fields, _LINES)
    return UnreadableItem(
        input_id=input_id,
        reason=reason,
        title=(title.strip() or _title(raw))[:_TITLE],
        raw=raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str),
        severity=severity,
        location=Location(path=path, start=int(line) if _LINE.fullmatch(line) and int(line) else None)
        if path
        else None,
        system_breaking=any(fields.get(name) is True for name in _BREAKING),
        harmless=harmless,
    )


def _value(item: Any) -> Any:
    """The item as its source wrote it; readers pass some together with where they found them."""
    if isinstance(item, tuple):
        return _value(item[-1])
    return asdict(item) if is_dataclass(item) and not isinstance(item, type) else item


def _title(raw: Any) -> str:
    """The first line of what calls itself a title, or of a text."""
    told = raw if isinstance(raw, str) else _first(raw, _TITLES) if isinstance(raw, dict) else ""
    return next((line.strip() for line in told.splitlines() if line.strip()), "")


def _first(fields: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    """The first of some fields that is a text or a number, as a text; `{"text": ...}` counts as its text."""
    for name in names:
        value = fields.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""
