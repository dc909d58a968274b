"""The rules for one item of a review's return: those of the schema that is shipped beside this module, and stricter.

A number that only looks like an anchor is refused, and a title that says nothing.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.items import ItemError, collect_items, limit_nesting, malformed_report, own_title
from pipeline.findings.model import (
    AutofixClass,
    Evidence,
    Finding,
    Location,
    Owner,
    RawFinding,
    ReviewerReport,
    Severity,
)
from pipeline.findings.scales import ANCHORS, P_LEVEL, confidence_from_anchor, confidence_to_anchor, default_category

DETAIL = ("why_it_matters", "evidence", "x_evidence_absent")  # what the compact form leaves out
TITLE = 100  # characters
_OPTIONAL = ("suggested_fix",)


def faults(item: Any, *, compact: bool) -> list[str]:
    """What is wrong with an item, all of it at once."""
    if not isinstance(item, dict):
        return ["it is no JSON object"]
    return strict.faults(item, _RULES, (*_OPTIONAL, *DETAIL) if compact else _OPTIONAL)


def _title_fault(value: Any) -> str:
    return strict.words(value) or ("" if len(value) <= TITLE else f"has {len(value)} characters; {TITLE} is the most")


def _line(value: Any) -> str:
    return "" if strict.is_int(value) and value >= 1 else "is no line number from 1"


def _anchor(value: Any) -> str:
    allowed = ", ".join(map(str, ANCHORS))
    return "" if strict.is_int(value) and value in ANCHORS else f"is none of the integers {allowed}"


def _evidence(value: Any) -> str:
    return strict.texts(value) or ("" if value else "is empty: a claim needs at least one")


_RULES: dict[str, strict.Rule] = {
    "title": _title_fault,
    "severity": strict.one_of(("P0", "P1", "P2", "P3")),
    "file": strict.text,
    "line": _line,
    "why_it_matters": strict.text,
    "autofix_class": strict.one_of(AutofixClass),
    "owner": strict.one_of(Owner),
    "requires_verification": strict.flag,
    "suggested_fix": lambda value: "" if value is None else strict.text(value),
    "confidence": _anchor,
    "evidence": _evidence,
    "pre_existing": strict.flag,
}
KEYS = frozenset(
    {*_RULES, "x_title", "x_severity", "x_system_breaking", "x_line_absent", "x_evidence_absent"}
)  # those that have a meaning here


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


def find_reviews(text: str) -> list[str]:
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


FORMAT = "review"
_REVIEWER = re.compile(rb'"reviewer"\s*:\s*"([^"\\]{1,100})"')  # in a return that was cut off
_HEAD = 64 * 1024  # bytes of it that are looked at
_WORDS = 10  # of a title, above which it is noted
_LISTS = ("findings", "residual_risks", "testing_gaps")
_TOP = ("reviewer", *_LISTS)
_SEVERITIES = {"P0": Severity.CRITICAL, "P1": Severity.HIGH, "P2": Severity.MEDIUM, "P3": Severity.LOW}
_EVIDENCE: Final = re.compile(
    r"`?(?P<path>(?=[^\s:`./]*[./])[^\s:`]+):(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?`?(?:\s+(?:--|—|–)\s+(?P<code>.*))?",
    re.DOTALL,
)


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What a reviewer returned. `root` is where the repository is, for paths that begin there."""
    try:
        document = limit_nesting(strict.loads(data), "it")
    except ValueError as error:
        named = _REVIEWER.search(data[:_HEAD])
        name = reviewer or (named[1].decode(errors="replace") if named else "")
        return malformed_report(name, FORMAT, f"the return cannot be read: {error}")
    if problem := _whole_fault(document):
        return malformed_report(reviewer or _name(document), FORMAT, problem)
    return _returned(document, reviewer or document["reviewer"], root)


def check(document: Any, *, compact: bool = False) -> list[str]:
    """What is wrong with a return, with all the detail or in the compact form; nothing when it may be kept."""
    if problem := _whole_fault(document):
        return [problem]
    return [
        f"finding {number}: {fault}"
        for number, item in enumerate(document["findings"], 1)
        for fault in faults(item, compact=compact)
    ]


def encode(
    findings: Iterable[Finding],
    reviewer: str,
    residual_risks: Sequence[str] = (),
    testing_gaps: Sequence[str] = (),
    *,
    compact: bool,
) -> bytes:
    """Findings as a reviewer would return them."""
    return strict.dumps(
        {
            "reviewer": reviewer,
            "findings": [item(finding, compact=compact) for finding in findings],
            "residual_risks": list(residual_risks),
            "testing_gaps": list(testing_gaps),
        }
    )


def item(finding: Finding, *, compact: bool) -> dict[str, Any]:
    """One finding as an item of a return. What the format cannot say is in fields whose names begin with `x_`."""
    path, line = _where(finding)
    said: dict[str, Any] = {
        "title": _cut(finding.title),
        "severity": P_LEVEL[finding.severity],
        "file": path,
        "line": line or 1,
        "why_it_matters": finding.impact,
        "autofix_class": str(finding.autofix_class),
        "owner": str(finding.owner),
        "requires_verification": finding.requires_verification,
        "suggested_fix": finding.fix,
        "confidence": confidence_to_anchor(finding.confidence),
        "evidence": [text(evidence) for evidence in finding.evidence] or [f"{path}:{line or 1}"],
        "pre_existing": finding.pre_existing,
        **_beside(finding, line),
        **finding.ext.get(FORMAT, {}),
    }
    return {key: value for key, value in said.items() if not compact or key not in DETAIL}


def evidence(raw: str, root: str = "") -> Evidence:
    """What `path:line -- code` points to; any other text stays a text."""
    found = _EVIDENCE.fullmatch(raw.strip())
    if found is None:
        return Evidence(raw=raw)
    start, end = int(found["start"]) or None, int(found["end"] or 0) or None
    if start is None or (end is not None and end < start):
        return Evidence(raw=raw)
    quote = _bare(found["code"] or "")[:QUOTE]
    return Evidence(path=relative(found["path"], root), start=start, end=end, quote=quote, raw=raw)


def text(evidence: Evidence) -> str:
    """Evidence as a text: that of its source, where there is one."""
    if evidence.raw:
        return evidence.raw
    place = str(Location(path=evidence.path, start=evidence.start, end=evidence.end))
    return " -- ".join(part for part in (place, evidence.quote) if part)


def relative(path: str, root: str) -> str:
    """A path from the root of the repository, when it begins there."""
    return path.removeprefix(root.rstrip("/") + "/") if root else path


def _name(document: Any) -> str:
    name = document.get("reviewer", "") if isinstance(document, dict) else ""
    return name if isinstance(name, str) else ""


def _whole_fault(document: Any) -> str:
    if not isinstance(document, dict):
        return "the return is no JSON object"
    for key in _TOP:
        if key not in document:
            return f"the return has no `{key}`"
    if not isinstance(document["reviewer"], str):
        return "`reviewer` is no text"
    if not isinstance(document["findings"], list):
        return "`findings` is no list"
    return next((f"`{key}` is no list of texts" for key in _LISTS[1:] if not strict.is_texts(document[key])), "")


def _returned(document: Mapping[str, Any], reviewer: str, root: str) -> ReviewerReport:
    read = collect_items(
        reviewer,
        FORMAT,
        document["findings"],
        lambda item, input_id: _claim(item, input_id, reviewer, root),
        own_title,
        residual_risks=tuple(document["residual_risks"]),
        testing_gaps=tuple(document["testing_gaps"]),
    )
    unknown = {key: value for key, value in document.items() if key not in _TOP}
    notes = [note for claim in read.findings if (note := _note(claim))]
    return replace(read, ext={**({FORMAT: unknown} if unknown else {}), **({"notes": notes} if notes else {})})


def _note(claim: RawFinding) -> str:
    words = len(claim.title.split())
    return f"{claim.input_id}: its title has {words} words; {_WORDS} or fewer are asked for" if words > _WORDS else ""


def _claim(item: Any, input_id: str, reviewer: str, root: str) -> RawFinding:
    if found := faults(item, compact=True):
        raise ItemError("; ".join(found))
    line = None if item.get("x_line_absent") is True else item["line"]
    texts = [] if item.get("x_evidence_absent") is True else item.get("evidence", [])
    unknown = {key: value for key, value in item.items() if key not in KEYS}
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=_title(item),
        severity=_severity(item),
        confidence=confidence_from_anchor(item["confidence"]),
        category=default_category(reviewer),
        impact=item.get("why_it_matters", ""),
        fix=item.get("suggested_fix") or None,
        autofix_class=AutofixClass(item["autofix_class"]),
        owner=Owner(item["owner"]),
        requires_verification=item["requires_verification"],
        pre_existing=item["pre_existing"],
        system_breaking=item.get("x_system_breaking") is True,
        locations=(Location(path=relative(item["file"], root), start=line),),
        evidence=tuple(evidence(text, root) for text in texts),
        action=_action(item),
        ext={FORMAT: unknown} if unknown else {},
    )


def _action(item: Mapping[str, Any]) -> str:
    """What a reviewer would do, which a return only implies: who has no fix, or one for a release, would put it off."""
    if item["autofix_class"] == AutofixClass.ADVISORY:
        return "acknowledge"
    fixable = item["autofix_class"] == AutofixClass.SAFE_AUTO or (item.get("suggested_fix") or "").strip()
    return "apply" if fixable and item["owner"] != Owner.RELEASE else "defer"


def _title(item: Mapping[str, Any]) -> str:
    whole = item.get("x_title")
    return whole if isinstance(whole, str) and _cut(whole) == item["title"] else item["title"]


def _severity(item: Mapping[str, Any]) -> Severity:
    """What is only to be reported is to be known, not to be fixed."""
    if item["severity"] == "P3" and item.get("x_severity") in ("low", "info"):
        return Severity(item["x_severity"])
    if item["severity"] == "P3" and item["autofix_class"] == AutofixClass.ADVISORY:
        return Severity.INFO
    return _SEVERITIES[item["severity"]]


def _beside(finding: Finding, line: int | None) -> dict[str, Any]:
    """What the format has no field for. The class tells a low severity from one for information, as a rule."""
    advisory = finding.autofix_class is AutofixClass.ADVISORY
    unlike = {Severity.LOW: advisory, Severity.INFO: not advisory}.get(finding.severity, False)
    said: dict[str, Any] = {
        "x_title": finding.title if len(finding.title) > TITLE else None,
        "x_severity": str(finding.severity) if unlike else None,
        "x_system_breaking": finding.system_breaking or None,
        "x_line_absent": line is None or None,
        "x_evidence_absent": not finding.evidence or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _where(finding: Finding) -> tuple[str, int | None]:
    if finding.location is not None:
        return finding.location.path, finding.location.start
    first = next((item for item in finding.evidence if item.path), None)
    return (first.path, first.start) if first else (finding.task or finding.scope, None)


def _cut(title: str) -> str:
    return title if len(title) <= TITLE else title[: TITLE - 1] + "…"


def _bare(code: str) -> str:
    code = code.strip()
    return code[1:-1] if len(code) > 2 and code[0] == code[-1] == "`" and "`" not in code[1:-1] else code
