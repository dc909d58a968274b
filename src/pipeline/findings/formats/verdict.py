"""The verdict file in `.code-review/`, the contract between a review and the agents of a team.

An agent may say `fixed` or `wont_fix` of an open finding, and nothing else. The ids of this format are positions: they
identify a finding in one file only, and findings at the same position are listed under the most severe of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pipeline.findings.events import FieldsEdited
from pipeline.findings.fingerprints import line_range, verdict_id
from pipeline.findings.formats import items, strict_json
from pipeline.findings.formats.record import no_fix_text
from pipeline.findings.formats.view_edits import ViewEdits, join_edits, refuse, same_json
from pipeline.findings.model import Finding, FindingId, FindingState, Location, RawFinding, ReviewerReport, Severity
from pipeline.findings.scales import (
    VERDICT_SEVERITY,
    VERDICT_STATUS,
    confidence_from_fraction,
    confidence_to_fraction,
    default_autofix,
    default_category,
)
from pipeline.findings.triage import agent_refusal, change_state
from pipeline.findings.verdicts import Verdict, Verdicts

FORMAT = "verdict"
NOTE = "note"  # where an agent says why something will not be fixed
SHADOWED = "x_shadowed"
REJECTED = "x_rejected"  # the reviewers that reject the whole change, and why
COUNTING = ("open", "reopened")
_MAX_TITLE = 120  # characters
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
_AGENT_MAY_SAY = ("fixed", "wont_fix")
_LEGACY = ("x_written", "x_findings")  # digests that the first version of awf wrote; they are not read


def _check_lines(text: str) -> str:
    match = _LINES.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise ValueError('it is not a range of lines such as "42-58" or "42"')
    return text


class VerdictItem(BaseModel):
    """One finding of a verdict file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    id: items.NotBlank
    domain: items.NotBlank
    severity: Literal["Blocker", "High", "Medium", "Low", "Info"]
    confidence: Annotated[float, Field(ge=0.5, le=1)]
    file: items.NotBlank
    lineRange: Annotated[str, AfterValidator(_check_lines)] | None = None
    title: Annotated[items.NotBlank, Field(max_length=_MAX_TITLE)]
    recommendation: str
    status: Literal["open", "fixed", "verified", "reopened", "wont_fix"]
    x_finding: str = ""
    x_system_breaking: bool = False
    x_fix_absent: bool = False


class VerdictDocument(BaseModel):
    """A verdict file. Its findings are checked one by one, so that one that is invalid does not cost the others."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    reviewId: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    timestamp: str
    scope: Literal["changeset", "package", "team", "file"]
    target: str
    mode: Literal["full", "quick", "verify"]
    verdict: Literal["PASS", "WARN", "FAIL", "ABORT"]
    summary: Any
    reportPath: str
    findings: list[dict[str, Any]]


_SEED_FIELDS = tuple(name for name in VerdictItem.model_fields if not name.startswith("x_"))
_ITEM_FIELDS = frozenset({*VerdictItem.model_fields, SHADOWED, *_LEGACY})
_TOP_FIELDS = frozenset({*VerdictDocument.model_fields, REJECTED, *_LEGACY})


def check_document(document: Any) -> str:
    """What is wrong with a verdict file as a whole; nothing when it can be used."""
    try:
        VerdictDocument.model_validate(document)
    except ValidationError as error:
        return items.explain_error(error)
    return ""


def items_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All findings of a verdict file, also those that are listed under another."""
    for item in document["findings"]:
        yield item
        others = item.get(SHADOWED)
        yield from (other for other in others if isinstance(other, dict)) if isinstance(others, list) else ()


def render_verdict(
    findings: Iterable[Finding],
    *,
    review_id: str,
    timestamp: str,
    scope: str,
    target: str,
    mode: str,
    report_path: str,
    verdicts: Verdicts,
    before: Mapping[str, Any] = MappingProxyType({"findings": ()}),
) -> dict[str, Any]:
    """The verdict file. It lists what counts, and what is in the file `before` whatever became of it since.

    A quick review lists only what is critical or high.
    """
    least = (Severity.HIGH if mode == "quick" else Severity.INFO).rank
    statuses = {str(one.get("x_finding")): one.get("status", "open") for one in items_of(before)}
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        listed = finding.state.active or finding.id in statuses
        if listed and not finding.pre_existing and finding.confidence.value and finding.severity.rank <= least:
            groups.setdefault(_position(finding), []).append(finding)
    ranked = []
    for group in groups.values():
        first, *others = sorted(group, key=_precedence)
        shadowed = [render_item(other, _status(other, statuses)) for other in others]
        item = render_item(first, _status(first, statuses)) | ({SHADOWED: shadowed} if shadowed else {})
        ranked.append((_order(first), item))
    entries = [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
    return {
        "reviewId": review_id,
        "timestamp": timestamp,
        "scope": scope,
        "target": target,
        "mode": mode,
        "verdict": str(_verdict(verdicts.verdict, entries, before)),
        "summary": {
            name: count if one.rank <= least else 0
            for one, (name, count) in zip(Severity, verdicts.summary.items(), strict=True)
        },
        "reportPath": "" if mode == "quick" else report_path,
        "findings": entries,
        **{key: value for key, value in before.items() if key not in _TOP_FIELDS},
    }


def render_item(finding: Finding, status: str) -> dict[str, Any]:
    """One finding of the file."""
    domain, path, lines = _position(finding)
    item: dict[str, Any] = {
        "id": verdict_id(domain, path, lines),
        "domain": domain,
        "severity": VERDICT_SEVERITY[finding.severity],
        "confidence": confidence_to_fraction(finding.confidence),
        "file": path,
        "lineRange": None if lines == "0" else lines,
        "title": items.excerpt(finding.title, _MAX_TITLE),
        "recommendation": finding.fix or no_fix_text(finding),
        "status": status,
        "x_finding": str(finding.id),
        "x_system_breaking": finding.system_breaking if finding.severity is Severity.CRITICAL else None,
        "x_fix_absent": None if finding.fix else True,
    }
    return {key: value for key, value in item.items() if value is not None} | _extra(finding.ext.get(FORMAT, {}))


def _position(finding: Finding) -> tuple[str, str, str]:
    """What an id is made of: who reported it, the path and the lines."""
    domain = finding.sources[0] if finding.sources else str(finding.category)
    path = finding.location.path if finding.location else next((one.path for one in finding.evidence if one.path), "")
    return domain, path, line_range(finding.location)


def _status(finding: Finding, before: Mapping[str, Any]) -> str:
    """A finding that counts is open; one that the file before had closed is reopened."""
    if not finding.state.active:
        return VERDICT_STATUS[finding.state]
    return "open" if before.get(finding.id, "open") == "open" else "reopened"


def _precedence(finding: Finding) -> tuple[bool, int, float, str]:
    """Which finding of a position is listed first: one that is not closed, the most severe, the most certain."""
    closed = finding.state is FindingState.VERIFIED_FIXED or finding.state.dismissed
    return closed, finding.severity.rank, -confidence_to_fraction(finding.confidence), finding.id


def _order(finding: Finding) -> tuple[int, float, str, int, str]:
    _, path, _ = _position(finding)
    start = finding.location.start if finding.location else None
    return finding.severity.rank, -confidence_to_fraction(finding.confidence), path, start or 0, finding.id


def _verdict(verdict: Verdict, entries: Iterable[Mapping[str, Any]], before: Mapping[str, Any]) -> Verdict:
    """An ABORT of a file that does not say what caused it stays while any of its blockers counts."""
    blockers = [one for one in before["findings"] if one.get("severity") == "Blocker"]
    if before.get("verdict") != Verdict.ABORT or any("x_system_breaking" in one for one in blockers):
        return verdict
    ids = {str(one.get("id")) for one in blockers}
    counting = any(one["id"] in ids and one["status"] in COUNTING for one in entries)
    return Verdict.ABORT if counting else verdict


def read_verdict_edits(
    edited: Mapping[str, Any],
    written: Mapping[str, Any],
    findings: Mapping[FindingId, Finding],
    *,
    at: str,
    by: str,
) -> ViewEdits:
    """What was changed in a verdict file, compared with what awf wrote into it."""
    known = {one["x_finding"]: one for one in items_of(written) if isinstance(one.get("x_finding"), str)}
    by_position: dict[Any, dict[str, Any]] = {}
    for one in known.values():
        by_position.setdefault(str(one.get("id")), one)
    names = [key for key in dict.fromkeys((*edited, *written)) if key not in ("findings", *_LEGACY)]
    changed = [f"`{key}`" for key in names if not same_json(edited.get(key), written.get(key))]
    problems = [f"verdict file: {', '.join(changed)} cannot be edited; the edit does not count"] if changed else []
    parts, seen = [], set()
    for one in items_of(edited):
        own = one.get("x_finding")
        before = known.get(own) if isinstance(own, str) and own in known else by_position.get(str(one.get("id")))
        finding = findings.get(FindingId(before["x_finding"])) if before else None
        if before is None or finding is None:
            problems.append(f"verdict file: {one.get('id')!a} is not in the ledger; import it instead")
            continue
        seen.add(before["x_finding"])
        if one != before:  # nearly all are equal, and comparing their fields one by one takes long
            parts.append(_read_item(one, before, finding, at, by))
    problems += [f"verdict file: {id} was removed; it still counts" for id in known if id not in seen]
    return join_edits([ViewEdits(problems=tuple(problems)), *parts])


def _read_item(one: Mapping[str, Any], before: Mapping[str, Any], finding: Finding, at: str, by: str) -> ViewEdits:
    """What was changed in one finding of a file. A value that became true meanwhile is not an edit."""
    was = before.get("status", "open")
    now = render_item(finding, was)
    own = [
        key for key in _ITEM_FIELDS if key not in ("status", SHADOWED, *_LEGACY) and (key in one or key in _SEED_FIELDS)
    ]
    changed = [key for key in own if not any(same_json(one.get(key), version.get(key)) for version in (before, now))]
    problems = [f"`{key}` cannot be edited" for key in sorted(changed)]
    moved = _read_status(one, finding, was, at, by)
    extra = _extra(one)
    if moved.problems:  # its note is refused with it
        extra.pop(NOTE, None)
        extra |= {NOTE: before[NOTE]} if NOTE in before else {}
    events = []
    if not any(same_json(extra, _extra(version)) for version in (before, now)):
        events.append(FieldsEdited(at=at, id=finding.id, by=by, changes={"ext": {FORMAT: extra}}))
    refusals = refuse(finding, [*problems, *moved.problems], f"verdict file: {finding.id}", at, by)
    return join_edits([ViewEdits(tuple(events)), ViewEdits(moved.events), refusals])


def _extra(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _ITEM_FIELDS}


def _read_status(one: Mapping[str, Any], finding: Finding, was: str, at: str, by: str) -> ViewEdits:
    status, note = one.get("status"), one.get(NOTE)
    if status in (was, VERDICT_STATUS[finding.state]):
        return ViewEdits()
    move = f"{was}→{status}"
    if was not in COUNTING or status not in _AGENT_MAY_SAY:
        return _illegal(move, "an agent may set `fixed` or `wont_fix` on an open or reopened finding")
    if not finding.state.active:
        return _illegal(move, f"meanwhile it is {finding.state}")
    reason = note.strip() if isinstance(note, str) else ""
    if status == "wont_fix" and (why := agent_refusal(finding, "wont-fix", reason, by)):
        return _illegal(move, why if reason else f"{why}; add it to the finding as `{NOTE}`")
    said = f"verdict file: {move}{f', {note}' if reason else ''}"
    return ViewEdits((change_state(finding, _STATE_OF[status], at=at, by=by, note=said),))


def _illegal(move: str, why: str) -> ViewEdits:
    return ViewEdits(problems=(f"{move} is refused: {why}",))


def read(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What a verdict file of another tool reports; raises ValueError. Paths below `root` become relative to it."""
    document = items.limit_nesting(strict_json.loads(data), "it")
    VerdictDocument.model_validate(document)
    entries = list(items_of(document))
    return items.collect_items(
        reviewer or FORMAT,
        FORMAT,
        entries,
        lambda item, input_id: _raw_finding(item, input_id, root),
        contradictions=_contradictions(document, entries),
    )


def _contradictions(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What a file states as a whole although its findings say otherwise; each is an item that cannot be read.

    The review id is part of the text: dismissing one contradiction does not dismiss that of the next review.
    """
    review = f"review {document['reviewId']}"
    unsettled = [one for one in entries if one.get("status") not in ("verified", "wont_fix")]
    listed = {word: sum(one.get("severity") == word for one in unsettled) for word in _SEVERITY_OF}
    stated = document["verdict"]
    if stated != Verdict.PASS and not (listed["Blocker"] or (stated == Verdict.WARN and listed["High"])):
        yield f"The verdict is {stated}, but no finding explains it\n{review}"
    summary = document["summary"]
    if not isinstance(summary, dict):
        yield f"The summary is not an object with counts\n{review}"
        return
    for word, count in listed.items():
        counted = summary.get(word.lower(), 0)
        if not strict_json.is_int(counted) or counted < 0:
            yield f"The summary's count of {word} findings is not a whole number\n{review}: {str(counted)[:200]}"
        elif counted > count:
            yield f"The summary counts {counted} {word} findings, and {count} are listed\n{review}"


def _raw_finding(given: Any, input_id: str, root: str) -> RawFinding:
    item = VerdictItem.model_validate(given)
    severity = _SEVERITY_OF[item.severity]
    fix = None if item.x_fix_absent else item.recommendation or None
    autofix_class, owner = default_autofix(fix, severity)
    lines = _LINES.fullmatch(item.lineRange or "")
    location = Location(
        path=items.strip_root(item.file, root),
        start=int(lines[1]) if lines else None,
        end=int(lines[2]) if lines and lines[2] else None,
    )
    extra = _extra(given)
    return RawFinding(
        input_id=input_id,
        reviewer=item.domain,
        title=item.title,
        severity=severity,
        confidence=confidence_from_fraction(item.confidence),
        category=default_category(item.domain),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        system_breaking=item.x_system_breaking,
        locations=(location,),
        tool_ids={"verdict/v1": item.id},
        state=_STATE_OF[item.status],
        ext={FORMAT: extra} if extra else {},
    )
