"""What a reviewer meant: texts that can be stored, and paths from the root of the repository.

Nothing is dropped: an item that cannot be read becomes a finding for a person to look at.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

from pipeline.findings.evidence import WORK_ITEMS, RepositoryFiles, named_places
from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.model import (
    AutofixClass,
    Draft,
    Evidence,
    Owner,
    Report,
    Severity,
)

MAX_PARTS = 1000  # pieces of evidence, and locations, of one finding
MAX_PATH = 4096  # characters
MAX_RAW = 4000  # characters of an unreadable item
_REPORTED = 75  # the confidence of an unreadable item: none is filtered for it
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_ABSOLUTE = re.compile(r"/|~(?:/|$)|[A-Za-z]:|file:")
_TEXTS = (
    "input_id", "reviewer", "title", "impact", "fix", "plain_title", "reproduction", "min_fix_scope", "scope",
    "why_it_works", "action", "stage", "suppressed", "unreadable",
)  # fmt: skip


class UnusableError(ValueError):
    """Why an item cannot be used as a finding."""


def normalize(report: Report, files: RepositoryFiles) -> Iterator[Draft]:
    """Every item of a report, cleaned; one that cannot be used says why in `unreadable`.

    Items that say nothing is wrong are left out.
    """
    for draft in report.drafts:
        if draft.harmless:
            continue
        if draft.unreadable:
            yield _clean_unreadable(draft, files)
            continue
        try:
            yield _with_paths(_clean_text(draft), files)
        except UnusableError as error:
            yield _clean_unreadable(_unusable(draft, str(error)), files)


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


def _clean_text(draft: Draft) -> Draft:
    """Return a draft whose texts can be stored, and which is critical if it endangers the whole system."""
    if not draft.title.strip():
        raise UnusableError("it has no title: say in a few words what is wrong")
    notes, changes = list(draft.notes), dict[str, Any]()
    for name in _TEXTS:
        if text := getattr(draft, name):
            changes[name] = replace_surrogates(text)
    changes["regression_tests"] = tuple(map(replace_surrogates, draft.regression_tests))
    ids = draft.tool_ids.items()
    changes["tool_ids"] = {replace_surrogates(name): replace_surrogates(value) for name, value in ids}
    if draft.system_breaking and draft.severity is not Severity.CRITICAL:
        changes["severity"] = Severity.CRITICAL
        notes.append(f"it endangers the whole system, so it is critical and not {draft.severity}")
    if draft.impact and not draft.unreadable and norm_title(draft.impact) == norm_title(draft.title):
        changes["impact"] = ""
        notes.append("its reason only repeats its title and was left out")
    for name in ("evidence", "locations"):
        if (count := len(getattr(draft, name))) > MAX_PARTS:
            changes[name] = getattr(draft, name)[:MAX_PARTS]
            notes.append(f"only {MAX_PARTS} of {count} {name} are kept")
    return replace(draft, **changes, notes=tuple(notes))


def _with_paths(finding: Draft, files: RepositoryFiles) -> Draft:
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


def _unusable(draft: Draft, reason: str) -> Draft:
    """Return a draft that was read, but has no title or lies outside the repository, as an unreadable one."""
    quotes = (item.raw for item in draft.evidence)
    raw = (draft.title, *map(str, draft.locations), draft.impact, draft.fix or "", *quotes)
    return replace(
        draft,
        impact="\n".join(filter(None, raw)),
        fix=None,
        autofix_class=AutofixClass.MANUAL,
        owner=Owner.HUMAN,
        pre_existing=False,
        evidence=(),
        state=None,
        suppressed=None,
        unreadable=reason,
    )


def _clean_unreadable(draft: Draft, files: RepositoryFiles) -> Draft:
    """Return an unreadable draft with a title and clean texts, sure enough to be reported.

    It has no location if that is outside the repository.
    """
    title = draft.title.strip() or f"Unreadable finding {draft.input_id.rpartition('#')[2]} of {draft.reviewer}"
    confidence = replace(draft.confidence, value=max(_REPORTED, draft.confidence.value))
    impact = _truncate(draft.impact or draft.unreadable)
    clean = _clean_text(replace(draft, title=title, confidence=confidence, impact=impact))
    try:
        return _with_paths(clean, files)
    except UnusableError:
        return replace(clean, locations=(), evidence=())


def _truncate(raw: str) -> str:
    """The beginning of a text; two that begin alike differ by the hash of the whole."""
    if len(raw) <= MAX_RAW:
        return raw
    digest = sha256(raw.encode(errors="replace")).hexdigest()[:16]
    return f"{raw[:MAX_RAW]}… ({len(raw)} characters, sha256 {digest})"
