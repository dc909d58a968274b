"""The records of a project in `.wystack/`: one file per finding, one per review pass.

Each kind of file is a table of fields, in the order of the format. A project adds to the `triage_history` of a finding;
nothing else in its record is read back. Fields that begin with `x_` hold what the format has no field for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic import Field as Limit

from pipeline.findings.events import FindingRaised, Look, Pass
from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.formats.fields import Field, Need, checked, render, unknown_keys
from pipeline.findings.formats.items import NotBlank, explain_error
from pipeline.findings.formats.view_edits import ViewEdits, put_back, same_json
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    Category,
    Change,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    Location,
    PassId,
    Severity,
    What,
)
from pipeline.findings.reviews import Review
from pipeline.findings.scales import RECORD_SEVERITY, RECORD_STATUS, confidence_from_word, confidence_to_word
from pipeline.findings.triage import said_in_file
from pipeline.language.lens import Lens

FORMAT = "record"
VERSION = 1
NO_FIX = "No concrete fix proposed; needs a decision: "
NO_REASON = "No reason was given beyond the title; see the evidence."
_TRIAGE = (What.SEEN, What.RULING, What.CLAIM, What.DECISION, What.TRIAGE)  # the changes that a record shows
_MAX_ENTRIES = 1000  # of a history that is imported
_MAX_NOTE = 500  # characters of one of them
_MAX_LINE = 10**9


def _check_time(text: str) -> str:
    """Return a time if it is one, also in UTC."""
    moment = datetime.fromisoformat(text)
    try:
        (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is out of range") from error
    return text


_Status = Literal["open", "false-positive", "fixed", "wont-fix", "uncertain"]
_LineNumber = Annotated[int, Limit(ge=1, le=_MAX_LINE)]


class EvidenceRef(BaseModel):
    """A place that supports a finding; `path` may also name a work item or a specification."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    path: Annotated[str, Limit(min_length=1)]
    startLine: _LineNumber | None = None
    endLine: _LineNumber | None = None
    symbol: str = ""
    quote: Annotated[str, Limit(max_length=QUOTE)] = ""

    @model_validator(mode="after")
    def _check_lines(self) -> "EvidenceRef":
        if (self.startLine is None) != (self.endLine is None) or (self.startLine or 0) > (self.endLine or 0):
            raise ValueError("startLine and endLine are not a range")
        return self


class TriageEntry(BaseModel):
    """One step of a finding's triage."""

    model_config = ConfigDict(strict=True, frozen=True)

    at: Annotated[str, AfterValidator(_check_time)]
    status: _Status
    note: str
    by: Annotated[Actor, Limit(strict=False)]
    x_by: str = ""  # the name of who said it


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the record of a finding is written from."""

    finding: Finding
    line: Line

    @property
    def sources(self) -> list[str]:
        """Everyone who reported the defect, the reviewer of this finding first, in an order that no state changes."""
        members = sorted(self.line.members, key=lambda member: member.number)
        return list(dict.fromkeys((self.finding.reviewer, *(member.reviewer for member in members))))


_Words = Annotated[str, Limit(pattern=r"^(TASK-|$)")]

FINDING_RECORD = (
    Field("schemaVersion", int, lambda _: VERSION, Need.USUAL),
    Field("kind", str, lambda _: "entity", Need.USUAL),
    Field("role", str, lambda _: "claim", Need.USUAL),
    Field("authority", str, lambda _: "computed", Need.USUAL),
    Field("type", str, lambda _: "review.finding", Need.USUAL),
    Field("findingId", str, lambda one: one.finding.id),
    Field("reviewId", str, lambda one: one.finding.pass_id),
    Field("task", _Words, lambda one: _task_name(one.finding.task), Need.USUAL),
    Field("scope", str, lambda one: one.finding.scope, Need.USUAL),
    Field("title", NotBlank, lambda one: one.finding.title),
    Field("category", Annotated[Category, Limit(strict=False)], lambda one: str(one.finding.category)),
    Field("gate", Annotated[Gate, Limit(strict=False)], lambda one: str(one.finding.gate)),
    Field("severity", Literal["critical", "high", "medium", "low"], lambda one: RECORD_SEVERITY[one.finding.severity]),
    Field("confidence", Literal["high", "medium", "low"], lambda one: confidence_to_word(one.finding.confidence)),
    Field("evidence", list[EvidenceRef], lambda one: _render_evidence(one.finding)),
    Field("reasoning", str, lambda one: reason_of(one.finding) or NO_REASON),
    Field("reproduction", str | None, lambda one: one.finding.reproduction, Need.USUAL),
    Field("recommendation", NotBlank, lambda one: one.finding.fix or no_fix_text(one.finding)),
    Field("min_fix_scope", str, lambda one: one.finding.min_fix_scope or "", Need.USUAL),
    Field("suggested_regression_tests", list[str], lambda one: list(one.finding.regression_tests), Need.USUAL),
    Field("status", _Status, lambda one: RECORD_STATUS[one.finding.state]),
    Field("triage_history", list[TriageEntry], lambda one: list(_triage_history(one.finding))),
    Field("signature", str, lambda one: one.finding.signature),
    Field("sources", list[str], lambda one: one.sources),
    Field("lens", Annotated[Lens, Limit(strict=False)], lambda one: str(one.finding.lens)),
    Field("agreement_count", int, lambda one: len(one.sources), Need.USUAL),
    Field("createdAt", str, lambda one: one.finding.created_at, Need.USUAL),
    Field("updatedAt", str, lambda one: one.finding.updated_at, Need.USUAL),
    Field("x_state", str, lambda one: _finer_state(one.finding.state), Need.IF_ANY),
    Field("x_severity", Literal["low", "info"], lambda one: _finer_severity(one.finding.severity), Need.IF_ANY),
    Field("x_fix_absent", bool, lambda one: not one.finding.fix or None, Need.IF_ANY),
    Field("x_reasoning_absent", bool, lambda one: not reason_of(one.finding) or None, Need.IF_ANY),
    Field("x_system_breaking", bool, lambda one: one.finding.system_breaking or None, Need.IF_ANY),
    Field("x_tool", bool, lambda one: one.finding.tool or None, Need.IF_ANY),
    Field("x_line", str, lambda one: one.line.id if len(one.line.members) > 1 else None, Need.IF_ANY),
)


@cache
def _finding_record() -> type[BaseModel]:
    return checked("FindingRecord", FINDING_RECORD)


def render_record(finding: Finding, line: Line) -> dict[str, Any]:
    """Return the record of a finding that is part of a line of work."""
    extra = unknown_keys(FINDING_RECORD, finding.ext.get(FORMAT, {}))
    return render(FINDING_RECORD, _Shown(finding, line)) | extra


def reason_of(finding: Finding) -> str:
    """Return why a finding matters; nothing if that says no more than the title."""
    return "" if _restates_title(finding.impact, finding.title) else finding.impact


def no_fix_text(finding: Finding) -> str:
    """Return the recommendation for a finding without a fix."""
    return NO_FIX + (reason_of(finding) or finding.title)


def _restates_title(reason: str, title: str) -> bool:
    return not reason.strip() or norm_title(reason) == norm_title(title)


def _task_name(task: str) -> str:
    return task if not task or task.startswith("TASK-") else f"TASK-{task}"


def _finer_state(state: FindingState) -> str | None:
    """Return the state if its status is also that of another one, which is the usual meaning."""
    return str(state) if state in (FindingState.REOPENED, FindingState.FIX_CLAIMED) else None


def _finer_severity(severity: Severity) -> str | None:
    return str(severity) if severity is Severity.INFO else None


def _render_evidence(finding: Finding) -> list[dict[str, Any]]:
    """Return what supports a finding. What names no path is about the finding's own file, or about its task."""
    own = finding.location.path if finding.location else ""
    own = own or _task_name(finding.task) or finding.scope or finding.id
    return [_render_place(item, own) for item in finding.evidence or finding.locations]


def _render_place(item: Location, own: str) -> dict[str, Any]:
    text = ""
    if isinstance(item, Evidence):
        text = item.quote or ("" if item.path else item.raw)
    ref = EvidenceRef.model_construct(
        path=item.path or own,
        startLine=item.start,
        endLine=item.end or item.start,
        symbol=item.symbol,
        quote=text[:QUOTE],
    )
    return ref.model_dump(exclude_defaults=True)


def _triage_history(finding: Finding) -> Iterator[dict[str, Any]]:
    """Return the entries of a finding's triage, each with the status that it left the finding in."""
    state = FindingState.OPEN
    for change in finding.history:
        state = change.state or state
        if change.what in _TRIAGE:
            entry = {"at": change.at, "status": RECORD_STATUS[state], "note": change.note or change.word}
            entry["by"] = str(change.by)
            if change.who != change.by:
                entry["x_by"] = change.who
            yield entry


def read_record_edits(finding: Finding, line: Line, edited: Mapping[str, Any], where: str, by: str) -> ViewEdits:
    """Return what `by` says in the record of a finding, no matter whom the record names.

    That are the entries of the triage that the ledger does not have. Everything else that differs is put back: the
    record was edited, or shows an earlier moment, as after a checkout of an old commit.
    """
    shown = render_record(finding, line)
    known = {_identity(entry) for entry in shown["triage_history"]}
    given = edited.get("triage_history")
    entries = given if isinstance(given, list) else []
    new = [entry for entry in entries if isinstance(entry, dict) and _identity(entry) not in known]
    events, refused = _say(finding, new, by)
    follows = ("status", "x_state", "updatedAt", "triage_history") if new else ()
    changed = [key for key in {**shown, **edited} if not same_json(edited.get(key), shown.get(key))]
    if "status" in changed and not new:
        changed.remove("status")
        refused.append("a `status` counts with a new entry in `triage_history` that says why")
    return ViewEdits(tuple(events), put_back(where, (key for key in changed if key not in follows), refused))


def _identity(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return what distinguishes an entry from others. The ledger decides who said it and what came of it."""
    return str(entry.get("at")), str(entry.get("note"))


def _say(finding: Finding, entries: Sequence[Mapping[str, Any]], by: str) -> tuple[list[Any], list[str]]:
    """Return what the entries of a triage change, up to the first that is refused, and why entries do not count."""
    scratch, events = Ledger([FindingRaised(at=finding.created_at, finding=finding)]), list[Any]()
    refused: list[str] = []
    for given in entries:
        try:
            entry = TriageEntry.model_validate(given)
        except ValidationError as error:
            return events, [*refused, f"an entry of `triage_history` is invalid: {explain_error(error)}"]
        now = scratch.findings[finding.id]
        said = said_in_file(now, entry.status, entry.note, at=entry.at, who=by)
        if isinstance(said, str):
            return events, [*refused, f"`status` {entry.status} is refused: {said}"]
        if said is None:
            refused.append(f"an entry of `triage_history` says {entry.status}, and it is {now.state} already")
            continue
        scratch.apply(said)
        events.append(said)
    return events, refused


def import_record(given: Mapping[str, Any], at: str) -> Finding | str:
    """Return the finding of a record that the ledger does not know, as after a clone; or why it cannot be used.

    It is open whatever the record says, because it was not reviewed here; what the record says is in its history.
    """
    try:
        record: Any = _finding_record().model_validate(given)
        return _finding_of(record, at)
    except ValidationError as error:
        return explain_error(error)


def _finding_of(record: Any, at: str) -> Finding | str:
    """Return the finding in a record that was checked; why there is none if it does not say what is wrong."""
    if _restates_title(record.reasoning, record.title):
        return "`reasoning` only repeats the title"
    if not record.sources:
        return "`sources` names nobody"
    evidence = tuple(
        Evidence(path=ref.path, start=ref.startLine, end=ref.endLine, symbol=ref.symbol, quote=ref.quote)
        for ref in record.evidence
    )
    places = [Location(path=item.path, start=item.start, end=item.end, symbol=item.symbol) for item in evidence]
    no_fix = record.x_fix_absent and record.recommendation.startswith(NO_FIX)
    no_reason = record.x_reasoning_absent and record.reasoning == NO_REASON
    is_info = record.x_severity == Severity.INFO and record.severity == RECORD_SEVERITY[Severity.INFO]
    extra = dict(record.model_extra)
    return Finding(
        id=FindingId(record.findingId),
        line=FindingId(record.x_line or ""),
        signature=record.signature,
        reviewer=record.sources[0],
        tool=bool(record.x_tool),
        pass_id=PassId(record.reviewId),
        task=record.task or "",
        scope=record.scope or "",
        title=record.title,
        category=record.category,
        gate=record.gate,
        severity=Severity.INFO if is_info else Severity(record.severity),
        confidence=confidence_from_word(record.confidence),
        locations=tuple(dict.fromkeys(places)),
        evidence=evidence,
        impact="" if no_reason else record.reasoning,
        fix=None if no_fix else record.recommendation,
        reproduction=record.reproduction,
        min_fix_scope=record.min_fix_scope or None,
        regression_tests=tuple(record.suggested_regression_tests or ()),
        system_breaking=bool(record.x_system_breaking),
        lens=record.lens,
        created_at=_time_or(record.createdAt, at),
        updated_at=_time_or(record.updatedAt, at),
        history=tuple(_import_history(record, at)),
        ext={FORMAT: extra} if extra else {},
    )


def _import_history(record: Any, at: str) -> Iterator[Change]:
    who = record.sources[0]
    yield Change(
        at=_time_or(record.createdAt, at), what=What.RAISED, who=who, by=Actor.ORCHESTRATOR, state=FindingState.OPEN
    )
    for entry in record.triage_history[-_MAX_ENTRIES:]:
        said = (entry.x_by or entry.by)[:_MAX_NOTE]
        note = f"{entry.status}: {entry.note}"[:_MAX_NOTE]
        yield Change(at=entry.at, what=What.SEEN, who=said, by=entry.by, note=note)
    if record.status != "open":
        note = f"its record says {record.status}; nobody here has looked"
        yield Change(at=at, what=What.SEEN, who=FORMAT, by=Actor.ORCHESTRATOR, note=note)


def _time_or(text: str | None, at: str) -> str:
    try:
        return _check_time(text or "")
    except ValueError:
        return at


@dataclass(frozen=True, slots=True)
class _ShownPass:
    """What the record of a pass is written from: all of it, or what one lens saw."""

    passed: Pass
    verdict: str
    skill: str
    looks: tuple[Look, ...]
    findings: tuple[Finding, ...]
    lens: str | None = None

    def gates(self, gate: Gate) -> int:
        """Return how many of its findings have a gate, as of now."""
        return sum(finding.gate is gate for finding in self.findings)


PASS_RECORD = (
    Field("schemaVersion", int, lambda _: VERSION),
    Field("id", str, lambda one: one.passed.id),
    Field("type", str, lambda _: "review"),
    Field("task", _Words, lambda one: _task_name(one.passed.task)),
    Field("skill", str, lambda one: one.skill),
    Field("branch", str, lambda one: one.passed.branch),
    Field("base", str, lambda one: one.passed.base),
    Field("diff_sha", str, lambda one: one.passed.head),
    Field("started_at", str, lambda one: one.passed.started_at),
    Field("verdict", str, lambda one: one.verdict),
    Field("must_count", int, lambda one: one.gates(Gate.MUST)),
    Field("suggest_count", int, lambda one: one.gates(Gate.SUGGEST)),
    Field("caller", str, lambda one: one.passed.caller),
    Field("round", int, lambda one: one.passed.round),
    Field("finding_ids", list[str], lambda one: [finding.id for finding in one.findings]),
    Field("patterns", list[dict[str, str]], lambda one: [pattern.model_dump() for pattern in one.passed.patterns]),
    Field(
        "reviewer_verdicts",
        list[dict[str, str]],
        lambda one: [_said_of_all(look) for look in one.looks if look.verdict],
    ),
    Field("x_review", str, lambda one: one.passed.review),
    Field("x_mode", str, lambda one: one.passed.mode),
    Field("x_lens", str, lambda one: one.lens, Need.IF_ANY),
    Field("x_tree_changed", bool, lambda one: one.passed.changed or None, Need.IF_ANY),
    Field("x_looks", list[dict[str, Any]], lambda one: [_look(look) for look in one.looks]),
)


def render_pass(review: Review, passed: Pass) -> list[dict[str, Any]]:
    """Return the records of a pass: its own, and if reviewers looked through several lenses, one for each of those.

    All have the one verdict on the target. The counts are those of the findings as they are now.
    """
    known = review.ledger.findings
    found = tuple(known[FindingId(id)] for id in passed.finding_ids if id in known)
    looks = passed.coverage.looks
    lenses = [*dict.fromkeys(str(look.lens) for look in looks)]
    skill = "full-review" if len(lenses) > 1 else "code-review"
    shown = [_ShownPass(passed, str(review.shipping), skill, looks, found)]
    for lens in lenses if len(lenses) > 1 else ():
        its_looks = tuple(look for look in looks if look.lens == lens)
        its_findings = tuple(finding for finding in found if finding.lens == lens)
        shown.append(_ShownPass(passed, str(review.shipping), "code-review", its_looks, its_findings, lens))
    return [render(PASS_RECORD, one) for one in shown]


def _said_of_all(look: Look) -> dict[str, str]:
    return {"reviewer": look.reviewer, "verdict": look.verdict, "argument": look.argument}


def _look(look: Look) -> dict[str, Any]:
    return look.model_dump(mode="json", exclude_defaults=True)
