"""The verdict file in `.code-review/`, the contract between a review and the agents of a team.

An agent says `fixed` or `wont_fix` of an open finding, or takes that back with `open`. It changes nothing else. The
ids of this format are positions: they identify a finding in one file only, and findings at the same position are listed
under the most severe of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic import Field as Limit

from pipeline.findings.events import Pass
from pipeline.findings.fingerprints import line_range, verdict_id
from pipeline.findings.formats import items, strict_json
from pipeline.findings.formats.fields import Field, Need, checked, render, unknown_keys
from pipeline.findings.formats.record import no_fix_text
from pipeline.findings.formats.view_edits import ViewEdits, put_back, same_json
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Change,
    Confidence,
    Draft,
    Finding,
    FindingId,
    FindingState,
    Location,
    PassId,
    Report,
    Severity,
)
from pipeline.findings.reviews import Review
from pipeline.findings.scales import (
    VERDICT_SEVERITY,
    VERDICT_STATUS,
    confidence_from_fraction,
    confidence_to_fraction,
    default_autofix,
    default_category,
)
from pipeline.findings.triage import said_in_file
from pipeline.findings.verdicts import Verdict

FORMAT = "verdict"
NOTE = "note"  # beside a status: why
COUNTING = ("open", "reopened")
_MAX_TITLE = 120  # characters
_REPORTED = 50  # the least confidence of a finding that somebody reported: the format has none below 0.50
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
_AGENT_SAYS = MappingProxyType({"fixed": "fixed", "wont_fix": "wont-fix", "open": "open"})  # in the words of a record


def _check_lines(text: str) -> str:
    match = _LINES.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise ValueError('it is not a range of lines such as "42-58" or "42"')
    return text


@dataclass(frozen=True, slots=True)
class _Listed:
    """One finding of a verdict file, with the others at its position."""

    finding: Finding
    status: str
    others: tuple["_Listed", ...] = ()

    @property
    def path(self) -> str:
        """The file that it is about."""
        if self.finding.location:
            return self.finding.location.path
        return next((item.path for item in self.finding.evidence if item.path), "")

    @property
    def lines(self) -> str:
        """Its lines; `0` for a whole file."""
        return line_range(self.finding.location)

    @property
    def id(self) -> str:
        """Its position: who reported it, a hash of the path, and the lines."""
        return verdict_id(self.finding.reviewer, self.path, self.lines)

    @property
    def confidence(self) -> float:
        """How sure its reviewer is."""
        return confidence_to_fraction(self.finding.confidence)

    @property
    def breaks_system(self) -> bool | None:
        """Whether it endangers the whole system; None if it is no Blocker."""
        return self.finding.system_breaking if self.finding.severity is Severity.CRITICAL else None

    @property
    def precedence(self) -> tuple[bool, int, float, str]:
        """A sort key for findings at one position: what is not closed first, then the most severe and certain."""
        closed = not self.finding.state.is_open
        return closed, self.finding.severity.rank, -self.confidence, self.finding.id

    @property
    def order(self) -> tuple[int, float, str, int, str]:
        """A sort key for a file: by severity, confidence and place."""
        start = self.finding.location.start if self.finding.location else 0
        return self.finding.severity.rank, -self.confidence, self.path, start or 0, self.finding.id


ITEM = (
    Field("id", items.NotBlank, lambda one: one.id),
    Field("domain", items.NotBlank, lambda one: one.finding.reviewer),
    Field(
        "severity",
        Literal["Blocker", "High", "Medium", "Low", "Info"],
        lambda one: VERDICT_SEVERITY[one.finding.severity],
    ),
    Field("confidence", Annotated[float, Limit(ge=0.5, le=1)], lambda one: one.confidence),
    Field("file", items.NotBlank, lambda one: one.path),
    Field(
        "lineRange",
        Annotated[str, AfterValidator(_check_lines)],
        lambda one: None if one.lines == "0" else one.lines,
        Need.IF_ANY,
    ),
    Field("title", items.NotBlank, lambda one: items.excerpt(one.finding.title, _MAX_TITLE)),
    Field("recommendation", str, lambda one: one.finding.fix or no_fix_text(one.finding)),
    Field("status", Literal["open", "fixed", "verified", "reopened", "wont_fix"], lambda one: one.status),
    Field("x_finding", str, lambda one: str(one.finding.id), Need.IF_ANY),
    Field("x_line", str, lambda one: _line_id(one.finding), Need.IF_ANY),
    Field("x_history", int, lambda one: len(one.finding.history), Need.IF_ANY),
    Field("x_system_breaking", bool, lambda one: one.breaks_system, Need.IF_ANY),
    Field("x_fix_absent", bool, lambda one: not one.finding.fix or None, Need.IF_ANY),
    Field("x_shadowed", list[dict[str, Any]], lambda one: [_item(other) for other in one.others] or None, Need.IF_ANY),
)


def _item(one: _Listed) -> dict[str, Any]:
    return render(ITEM, one) | unknown_keys(ITEM, one.finding.ext.get(FORMAT, {}))


def _line_id(finding: Finding) -> str | None:
    """Return the line of work that a finding is part of, if another finding gave it its number."""
    return str(finding.line) if finding.line and finding.line != finding.id else None


@dataclass(frozen=True, slots=True)
class _File:
    """What a verdict file is written from."""

    review: Review
    passed: Pass  # the last one of the review
    report_path: str
    items: list[dict[str, Any]]

    @property
    def counting(self) -> list[dict[str, Any]]:
        """The findings that count by the rule of the format, at whatever position."""
        return [item for item in _every(self.items) if item["status"] in COUNTING]

    @property
    def verdict(self) -> Verdict:
        """The verdict on what is listed. Nothing passes that was not looked at, or that a reviewer rejects."""
        listed = _verdict_on(self.counting)
        if not self.review.complete or self.review.rejections:
            return max(listed, Verdict.FAIL, key=lambda verdict: verdict.rank)
        return listed

    @property
    def rejections(self) -> list[dict[str, str]]:
        """Who rejects the whole change, and why."""
        return [{"reviewer": look.reviewer, "argument": look.argument} for look in self.review.rejections]


DOCUMENT = (
    Field("reviewId", Annotated[str, Limit(pattern=r"^[0-9a-f]{8}$")], lambda one: one.passed.review),
    Field("timestamp", str, lambda one: one.passed.started_at),
    Field("scope", Literal["changeset", "package", "team", "file"], lambda one: one.passed.scope),
    Field("target", str, lambda one: one.passed.target),
    Field("mode", Literal["full", "quick", "verify"], lambda one: one.passed.mode),
    Field("verdict", Literal["PASS", "WARN", "FAIL", "ABORT"], lambda one: str(one.verdict)),
    Field("summary", Any, lambda one: _summary_of(one.counting)),
    Field("reportPath", str, lambda one: "" if one.passed.mode == "quick" else one.report_path),
    Field("findings", list[dict[str, Any]], lambda one: one.items),
    Field("x_incomplete", list[str], lambda one: list(one.review.gaps) or None, Need.IF_ANY),
    Field("x_rejected", list[dict[str, Any]], lambda one: one.rejections or None, Need.IF_ANY),
)


@cache
def _item_model() -> type[BaseModel]:
    return checked("VerdictItem", ITEM)


@cache
def _document_model() -> type[BaseModel]:
    return checked("VerdictDocument", DOCUMENT)


def check_document(document: Any) -> str:
    """Return what is wrong with a verdict file apart from its findings; nothing if it can be used."""
    try:
        _document_model().model_validate(document)
    except ValidationError as error:
        return items.explain_error(error)
    return ""


def items_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return all findings of a verdict file, also those that are listed under another."""
    return _every(document["findings"])


def _every(listed: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in listed:
        yield item
        others = item.get("x_shadowed")
        if isinstance(others, list):
            yield from (other for other in others if isinstance(other, dict))


def _summary_of(counting: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    severities = [item.get("severity") for item in counting]
    return {word.lower(): severities.count(word) for word in _SEVERITY_OF}


def _verdict_on(counting: Sequence[Mapping[str, Any]]) -> Verdict:
    """Return the verdict by the rule of the format."""
    blockers = [item for item in counting if item.get("severity") == "Blocker"]
    if any(item.get("x_system_breaking") is True for item in blockers):
        return Verdict.ABORT
    if blockers:
        return Verdict.FAIL
    return Verdict.WARN if any(item.get("severity") == "High" for item in counting) else Verdict.PASS


def render_verdict(review: Review, passed: Pass, report_path: str) -> dict[str, Any]:
    """Return the verdict file of a review whose last pass is given.

    It lists what is open, and what was closed in this review. What its first pass found or found open is `open`,
    whatever was said of it before: only what was said since is shown as a claim, a dispute or a ruling.
    """
    first = next(one for one in review.ledger.passes.values() if one.review == passed.review)
    number = list(review.ledger.passes).index(first.id)
    positions: dict[str, list[_Listed]] = {}
    for finding in review.findings:
        older = finding.pre_existing and finding.state is not FindingState.UNCERTAIN  # and so it does not count
        listed = None if older else _listed(finding, review.ledger, first.id, number)
        if listed:
            positions.setdefault(listed.id, []).append(listed)
    shown = [_first_of(listed) for listed in positions.values()]
    entries = [_item(one) for one in sorted(shown, key=lambda one: one.order)]
    return render(DOCUMENT, _File(review, passed, report_path, entries))


def _listed(finding: Finding, ledger: Ledger, first: PassId, number: int) -> _Listed | None:
    """Return a finding with its status; None if it was closed before this review, or by the first look of it."""
    said = _said_since(finding, ledger, first, number)
    if not finding.state.is_open:
        closed = any(change.state is not None for change in said)
        return _Listed(finding, VERDICT_STATUS[finding.state]) if closed else None
    return _Listed(finding, _open_status(finding, anything_said=any(said)))


def _said_since(finding: Finding, ledger: Ledger, first: PassId, number: int) -> Iterator[Change]:
    """Yield what was said of a finding after the first pass of a review, which is the pass of that number."""
    for change, passes_before in zip(finding.history, ledger.passes_before[finding.id], strict=True):
        if passes_before > number and change.pass_id != first:
            yield change


def _open_status(finding: Finding, *, anything_said: bool) -> str:
    """Return the status of an open finding: what was said of it last. What is uncertain can be claimed as well."""
    if not anything_said:
        return "open"
    if finding.disputed:
        return "wont_fix"
    return "fixed" if finding.claimed else VERDICT_STATUS[finding.state]


def _first_of(listed: Sequence[_Listed]) -> _Listed:
    """Return the first of the findings at one position, with the others."""
    first, *others = sorted(listed, key=lambda one: one.precedence)
    return replace(first, others=tuple(others))


def is_earlier(found: Mapping[str, Any], now: Mapping[str, Any], ledger: Ledger) -> bool:
    """Return whether a verdict file shows an earlier moment than `now`, as after a kill. Then nobody edited it.

    It is of an earlier pass, or more was said of a finding since: `x_history` counts what had been said when it was
    written.
    """
    moment = found["reviewId"], found["timestamp"]
    if moment != (now["reviewId"], now["timestamp"]):
        return moment in ((passed.review, passed.started_at) for passed in ledger.passes.values())
    said = {item["x_finding"]: item["x_history"] for item in items_of(now)}
    return any(_count(item) < said.get(str(item.get("x_finding")), 0) for item in items_of(found))


def _count(item: Mapping[str, Any]) -> float:
    """Return how much had been said of a finding when its item was written; without a number, it is up to date."""
    count = item.get("x_history")
    return count if isinstance(count, int) else inf


def read_verdict_edits(
    edited: Mapping[str, Any], written: Mapping[str, Any], ledger: Ledger, where: str, *, at: str, by: str
) -> ViewEdits:
    """Return what `by` says in a verdict file by the statuses that differ from those that awf would write into it.

    In a file that shows an earlier moment, the statuses of findings about which more was said since do not count, and
    what else differs is no edit.
    """
    known = {item["x_finding"]: item for item in items_of(written)}
    by_position = {item["id"]: item for item in reversed(known.values())}
    changed = [key for key in {**written, **edited} if not _same(edited, written, key)]
    events, refused, seen = [], [], set[str]()
    for item in items_of(edited):
        before = known.get(str(item.get("x_finding"))) or by_position.get(str(item.get("id")))
        if before is None:
            changed.append("findings")
            continue
        seen.add(before["x_finding"])
        changed += [key for key in {**before, **item} if key != NOTE and not _same(item, before, key)]
        if _count(item) < before["x_history"]:
            continue
        said = _say(item, before, ledger.findings[FindingId(before["x_finding"])], at, by)
        if isinstance(said, str):
            refused.append(said)
        elif said is not None:
            events.append(said)
    if is_earlier(edited, written, ledger):
        return ViewEdits(tuple(events))
    if seen != set(known):
        changed.append("findings")
    return ViewEdits(tuple(events), put_back(where, changed, refused))


def _same(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    """Return whether two objects agree on a key. Statuses and lists of findings are looked at one by one."""
    return key in ("status", "findings", "x_shadowed") or same_json(one.get(key), other.get(key))


def _say(item: Mapping[str, Any], before: Mapping[str, Any], finding: Finding, at: str, by: str) -> Any:
    """Return the event of a changed status, or why it does not count; None if nothing changes."""
    status, note = item.get("status"), item.get(NOTE)
    if status == before["status"]:
        return None
    move = f"#{finding.number} {before['status']}→{str(status)[:20]}"
    if not isinstance(status, str) or status not in _AGENT_SAYS:
        return f"{move}: an agent says `fixed`, `wont_fix` or `open`"
    said = said_in_file(finding, _AGENT_SAYS[status], note if isinstance(note, str) else "", at=at, who=by)
    return f"{move}: {said}" if isinstance(said, str) else said


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what a verdict file of another tool reports; raise ValueError. Paths below `root` become relative to it.

    Its statuses are taken as they are. A file that rejects the change although no finding in it says why is a
    reviewer's rejection; a summary that its findings do not bear out is a note.
    """
    document = items.limit_nesting(strict_json.loads(data), "it")
    _document_model().model_validate(document)
    entries = list(items_of(document))
    counting = [item for item in entries if item.get("status") in COUNTING]
    unexplained = (
        document["verdict"] in (Verdict.FAIL, Verdict.ABORT) and _verdict_on(counting).rank < Verdict.FAIL.rank
    )
    summary = _summary_of(counting)
    noted = () if document["summary"] == summary else (f"its summary is not that of its findings: {_counts(summary)}",)
    return items.collect_items(
        reviewer or FORMAT,
        FORMAT,
        entries,
        lambda item, input_id: _draft(item, input_id, root, document),
        verdict="BLOCK" if unexplained else "",
        argument=f"its verdict is {document['verdict']}, and no finding in it says why" if unexplained else "",
        notes=noted,
    )


def _counts(summary: Mapping[str, int]) -> str:
    """Return a summary in words, without severities that nothing has."""
    return ", ".join(f"{number} {word}" for word, number in summary.items() if number) or "none counts"


def _draft(given: Any, input_id: str, root: str, document: Mapping[str, Any]) -> Draft:
    item: Any = _item_model().model_validate(given)
    severity = _SEVERITY_OF[item.severity]
    fix = None if item.x_fix_absent else item.recommendation or None
    autofix_class, owner = default_autofix(fix, severity)
    lines = _LINES.fullmatch(item.lineRange or "")
    location = Location(
        path=items.strip_root(item.file, root),
        start=int(lines[1]) if lines else None,
        end=int(lines[2]) if lines and lines[2] else None,
    )
    extra = unknown_keys(ITEM, given)
    left = f"wont_fix in the verdict file of review {document['reviewId']}"
    return Draft(
        input_id=input_id,
        reviewer=item.domain,
        title=item.title,
        severity=severity,
        confidence=_confidence(item.confidence),
        category=default_category(item.domain),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        system_breaking=_breaks_system(item, document),
        locations=(location,),
        tool_ids={"verdict/v1": item.id},
        state=_STATE_OF[item.status],
        suppressed=left if item.status == "wont_fix" else None,
        ext={FORMAT: extra} if extra else {},
    )


def _confidence(fraction: float) -> Confidence:
    """Return a confidence that is reported whatever it is: the format has none that is not."""
    confidence = confidence_from_fraction(fraction)
    return replace(confidence, value=max(confidence.value, _REPORTED))


def _breaks_system(item: Any, document: Mapping[str, Any]) -> bool:
    """Return whether a finding endangers the whole system: any Blocker of an ABORT, unless the file says which."""
    if document["verdict"] != Verdict.ABORT or item.severity != "Blocker":
        return bool(item.x_system_breaking)
    told = any("x_system_breaking" in other for other in items_of(document))
    return bool(item.x_system_breaking) if told else True
