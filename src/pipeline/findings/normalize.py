"""What a reviewer meant: texts that can be stored, and paths from the root of the repository.

Nothing is dropped: an item that cannot be read becomes a finding for a person to look at.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass, replace
from hashlib import sha256
from typing import Any

from pipeline.findings.evidence import WORK_ITEMS, RepositoryFiles, named_places
from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.model import (
    AutofixClass,
    Confidence,
    Evidence,
    Location,
    Owner,
    RawFinding,
    ReviewerReport,
    Severity,
    UnreadableItem,
)
from pipeline.findings.scales import default_category, severity_of_word

MAX_PARTS = 1000  # pieces of evidence, and locations, of one finding
MAX_PATH = 4096  # characters
MAX_RAW = 4000  # characters of an unreadable item
_REPORTED = 75  # the confidence of an unreadable item: none is filtered for it
_WRITTEN_FORMATS = ("", "review", "verdict")  # what reviewers write; tools write the others
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_ABSOLUTE = re.compile(r"/|~(?:/|$)|[A-Za-z]:|file:")
_TEXTS = (
    "input_id", "reviewer", "title", "impact", "fix", "plain_title", "reproduction", "min_fix_scope", "scope",
    "why_it_works", "action", "stage", "suppressed", "unreadable",
)  # fmt: skip


class UnusableError(ValueError):
    """Why an item cannot be used as a finding."""


def normalize(report: ReviewerReport, files: RepositoryFiles) -> Iterator[RawFinding]:
    """Every item of a report, cleaned; one that cannot be used says why in `unreadable`.

    Items that say nothing is wrong are left out.
    """
    for item in report.unreadable:
        if not item.harmless:
            yield _clean_unreadable(_from_item(item, report), files)
    for finding in report.findings:
        try:
            yield _with_paths(_clean_text(finding), files)
        except UnusableError as error:
            yield _clean_unreadable(_unusable(finding, str(error)), files)


def replace_surrogates(text: str) -> str:
    """The text without halves of characters, which no file can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def title_key(title: str) -> str:
    """What titles are compared by; a title without any letter is compared as it is."""
    return norm_title(title) or title.strip()


def normalize_path(path: str, *, work_item: bool = False) -> str:
    """A path with single forward slashes from the root of the repository; a work item may be a web address instead.

    Raises UnusableError for a path that leads out of the repository. Links are checked with the files.
    """
    if not path.strip():
        raise _bad_path(path, "is empty: name a file")
    if len(path) > MAX_PATH:
        raise _bad_path(path, f"is longer than {MAX_PATH} characters")
    if _CONTROL.search(path):
        raise _bad_path(path, "contains a control character")
    if work_item and path.startswith(("http://", "https://")):
        return path
    posix = path.replace("\\", "/")
    if _ABSOLUTE.match(posix):
        raise _bad_path(path, "is absolute: give it from the root of the repository")
    parts: list[str] = []
    for part in posix.split("/"):
        if part == ".." and not parts:
            raise _bad_path(path, "leads out of the repository")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


def _bad_path(path: str, why: str) -> UnusableError:
    """Why a path is refused. The path comes from outside: it is quoted, on one line, and short."""
    return UnusableError(f"the path {path if len(path) <= 80 else f'{path[:80]}...'!a} {why}")


def _clean_text(finding: RawFinding) -> RawFinding:
    if not finding.title.strip():
        raise UnusableError("it has no title: say in a few words what is wrong")
    notes, changes = list(finding.notes), dict[str, Any]()
    for name in _TEXTS:
        text = getattr(finding, name)
        if text and (clean := replace_surrogates(text)) != text:
            changes[name] = clean
    if finding.regression_tests:
        changes["regression_tests"] = tuple(map(replace_surrogates, finding.regression_tests))
    if finding.tool_ids:
        ids = finding.tool_ids.items()
        changes["tool_ids"] = {replace_surrogates(name): replace_surrogates(value) for name, value in ids}
    if finding.impact and not finding.unreadable and norm_title(finding.impact) == norm_title(finding.title):
        changes["impact"] = ""
        notes.append("its reason only repeats its title and was left out")
    for name in ("evidence", "locations"):
        if (count := len(getattr(finding, name))) > MAX_PARTS:
            changes[name] = getattr(finding, name)[:MAX_PARTS]
            notes.append(f"only {MAX_PARTS} of {count} {name} are kept")
    return replace(finding, **changes, notes=tuple(notes)) if changes else finding


def _with_paths(finding: RawFinding, files: RepositoryFiles) -> RawFinding:
    """The finding with normalized paths.

    The first path must be one of the repository. Later ones that are not are noted and left out; of such evidence the
    words are kept.
    """
    paths, notes = dict[str, str | None](), list(finding.notes)
    for path in dict.fromkeys(place.path for place in named_places(finding)):
        try:
            normal = normalize_path(path, work_item=finding.category in WORK_ITEMS)
            if "://" not in normal and files.is_outside(normal):
                raise _bad_path(path, "leads out of the repository by a link")
            paths[path] = normal
        except UnusableError as error:
            if not paths:
                raise
            paths[path] = None
            notes.append(str(error))
    locations = tuple(
        replace(place, path=kept, symbol=replace_surrogates(place.symbol))
        for place in finding.locations
        if (kept := paths.get(place.path)) is not None
    )
    evidence = tuple(_clean_evidence(item, paths.get(item.path, "")) for item in finding.evidence)
    return replace(finding, locations=locations, evidence=evidence, notes=tuple(notes))


def _clean_evidence(item: Evidence, path: str | None) -> Evidence:
    """Evidence under its normalized path, with a quotation of the right length; what is cut off stays in `raw`."""
    quote, raw = replace_surrogates(item.quote), replace_surrogates(item.raw)
    if path is None:
        return Evidence(raw=raw or quote)
    if len(quote) > QUOTE:
        quote, raw = quote[:QUOTE], raw or quote
    return replace(item, path=path, symbol=replace_surrogates(item.symbol), quote=quote, raw=raw)


# --- items that cannot be read ---------------------------------------------------------------------------------------


def _from_item(item: UnreadableItem, report: ReviewerReport) -> RawFinding:
    scale = "anchor" if report.format in _WRITTEN_FORMATS else "tool"
    return RawFinding(
        input_id=item.input_id,
        reviewer=report.reviewer,
        title=item.title.strip() or _default_title(item.input_id, report.reviewer),
        severity=Severity.CRITICAL if item.system_breaking else item.severity,
        system_breaking=item.system_breaking,
        confidence=Confidence(value=_REPORTED, scale=scale),
        category=default_category(report.reviewer),
        impact=_truncate(item.raw or item.reason),
        locations=(item.location,) if item.location else (),
        unreadable=item.reason or "it cannot be read as a finding",
    )


def _unusable(finding: RawFinding, reason: str) -> RawFinding:
    """A finding that was read, but has no title or lies outside the repository, as an unreadable one."""
    places, quotes = map(str, finding.locations), (item.raw for item in finding.evidence)
    raw = (finding.title, *places, finding.impact, finding.fix or "", *quotes)
    return replace(
        finding,
        title=finding.title if finding.title.strip() else _default_title(finding.input_id, finding.reviewer),
        confidence=replace(finding.confidence, value=max(_REPORTED, finding.confidence.value)),
        impact=_truncate("\n".join(part for part in raw if part)) or reason,
        fix=None,
        autofix_class=AutofixClass.MANUAL,
        owner=Owner.HUMAN,
        pre_existing=False,
        evidence=(),
        state=None,
        suppressed=None,
        unreadable=reason,
    )


def _clean_unreadable(finding: RawFinding, files: RepositoryFiles) -> RawFinding:
    """The unreadable finding with clean texts, without its location if that is outside the repository."""
    clean = _clean_text(finding)
    try:
        return _with_paths(clean, files)
    except UnusableError:
        return replace(clean, locations=(), evidence=())


def _default_title(input_id: str, reviewer: str) -> str:
    return f"Unreadable finding {input_id.rpartition('#')[2]} of {reviewer}"


def _truncate(raw: str) -> str:
    """The beginning of a text; two that begin alike differ by the hash of the whole."""
    if len(raw) <= MAX_RAW:
        return raw
    digest = sha256(raw.encode(errors="replace")).hexdigest()[:16]
    return f"{raw[:MAX_RAW]}… ({len(raw)} characters, sha256 {digest})"


# --- what the raw data of an unreadable item still say ---------------------------------------------------------------

_TITLES = ("title", "plain_title", "message", "text", "name", "summary", "description", "issue", "problem")
_SEVERITIES = ("severity", "level", "priority")
_PATHS = ("file", "path", "filePath", "filename", "uri")
_LINES = ("line", "start_line", "startLine")
_MAX_TITLE = 200  # characters
_LINE_NUMBER = re.compile(r"[1-9]\d{0,8}")


def unreadable_item(item: Any, input_id: str, reason: str, *, harmless: bool = False) -> UnreadableItem:
    """An item that a format could not read, with the title, severity and location that its data still give."""
    while isinstance(item, tuple):  # readers pass some items together with where they found them
        item = item[-1]
    raw = asdict(item) if is_dataclass(item) and not isinstance(item, type) else item
    fields = raw if isinstance(raw, dict) else {}
    text = raw if isinstance(raw, str) else _first_text(fields, _TITLES)
    first_line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    path, line = _first_text(fields, _PATHS), _first_text(fields, _LINES)
    start = int(line) if _LINE_NUMBER.fullmatch(line) else None
    return UnreadableItem(
        input_id=input_id,
        reason=reason,
        title=first_line[:_MAX_TITLE],
        raw=raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str),
        severity=severity_of_word(_first_text(fields, _SEVERITIES)) or Severity.HIGH,
        location=Location(path=path, start=start) if path else None,
        system_breaking=any(fields.get(name) is True for name in ("x_system_breaking", "system_breaking")),
        harmless=harmless,
    )


def _first_text(fields: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    """The first of some fields that is a text or a number, as a text; `{"text": ...}` counts as its text."""
    for name in names:
        value = fields.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""
