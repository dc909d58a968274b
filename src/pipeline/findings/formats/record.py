"""The records of a project in `.wystack/`: one file per finding, one per review pass.

Each kind of file is a table of fields, in the order of the format: its name, its type, how it is written and how it is
read. A project adds to the `triage_history` of a finding; nothing else in its record is read back, and all of it only
where the ledger does not know the finding, as after a clone. Fields that begin with `x_` hold what the format has no
field for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic import Field as Limit

from pipeline.findings.events import FindingChanged, FindingRaised, Look, Pass
from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.formats.fields import Field, Need, checked, filled, parse, render, unknown_keys
from pipeline.findings.formats.items import NotBlank, OrElse, explain_error
from pipeline.findings.formats.view_edits import ViewEdits, changed_keys, put_back
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
_RULE = "only new entries of `triage_history` count"
_TRIAGE = (What.SEEN, What.RULING, What.CLAIM, What.DECISION, What.TRIAGE)  # the changes that a record shows
_FINER_STATE = MappingProxyType(  # of a status that usually means another state
    {state: str(state) for state in (FindingState.REOPENED, FindingState.FIX_CLAIMED)}
)
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


_Time = Annotated[str, AfterValidator(_check_time)]
_TimeIfAny = Annotated[str, AfterValidator(_check_time), OrElse(None)]  # no finding is lost for an odd one
_Task = Annotated[str, Limit(pattern=r"^(TASK-|$)")]
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
        given = [line for line in (self.startLine, self.endLine) if line]
        if len(given) == 1 or given != sorted(given):
            raise ValueError("startLine and endLine are not a range")
        return self


class TriageEntry(BaseModel):
    """One step of a finding's triage."""

    model_config = ConfigDict(strict=True, frozen=True)

    at: _Time
    status: _Status
    note: str
    by: Annotated[Actor, Limit(strict=False)]
    x_by: str = ""  # the name of who said it


_entries = TypeAdapter(list[TriageEntry])


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


def reason_of(finding: Finding) -> str:
    """Return why a finding matters; nothing if that says no more than the title."""
    return "" if _restates_title(finding.impact, finding.title) else finding.impact


def _restates_title(reason: str, title: str) -> bool:
    return not reason.strip() or norm_title(reason) == norm_title(title)


def recommendation(finding: Finding) -> str:
    """Return the fix of a finding; without one, that there is none and what a decision is about."""
    return finding.fix or NO_FIX + (reason_of(finding) or finding.title)


def given_fix(recommendation: str) -> str | None:
    """Return the fix that a recommendation is; None if it says that there is none."""
    if recommendation.startswith(NO_FIX):
        return None
    return recommendation or None


def _given_reason(reasoning: str) -> str:
    return "" if reasoning == NO_REASON else reasoning


def _task_name(task: str) -> str:
    return f"TASK-{task.removeprefix('TASK-')}" if task else ""


def _render_evidence(finding: Finding) -> list[dict[str, Any]]:
    """Return what supports a finding. What names no path is about the finding's own file, or about its task."""
    if not finding.evidence:
        return [_ref(place, place.path) for place in finding.locations]
    paths = (place.path for place in finding.locations)
    own = next(filter(None, (*paths, _task_name(finding.task), finding.scope, finding.id)))
    return [
        _ref(item, item.path, item.quote) if item.path else _ref(item, own, item.quote or item.raw)
        for item in finding.evidence
    ]


def _ref(place: Location, path: str, quote: str = "") -> dict[str, Any]:
    end = place.end or place.start
    return filled(path=path, startLine=place.start, endLine=end, symbol=place.symbol, quote=quote[:QUOTE])


def _evidence_in(refs: Sequence[EvidenceRef]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(path=ref.path, start=ref.startLine, end=ref.endLine, symbol=ref.symbol, quote=ref.quote)
        for ref in refs
    )


def _triage_history(finding: Finding) -> Iterator[dict[str, Any]]:
    """Return the entries of a finding's triage, each with the status that it left the finding in."""
    state = FindingState.OPEN
    for change in finding.history:
        state = change.state or state
        if change.what in _TRIAGE:
            name = "" if change.who == change.by else change.who
            entry = {"at": change.at, "status": RECORD_STATUS[state], "note": change.note or change.word}
            yield entry | {"by": str(change.by)} | filled(x_by=name)


FINDING_RECORD = (
    Field("schemaVersion", int, lambda _: VERSION, Need.USUAL),
    Field("kind", str, lambda _: "entity", Need.USUAL),
    Field("role", str, lambda _: "claim", Need.USUAL),
    Field("authority", str, lambda _: "computed", Need.USUAL),
    Field("type", str, lambda _: "review.finding", Need.USUAL),
    Field("findingId", str, lambda one: one.finding.id, reads="id"),
    Field("reviewId", str, lambda one: one.finding.pass_id, reads="pass_id"),
    Field("task", _Task, lambda one: _task_name(one.finding.task), Need.USUAL, "task"),
    Field("scope", str, lambda one: one.finding.scope, Need.USUAL, "scope"),
    Field("title", NotBlank, lambda one: one.finding.title, reads="title"),
    Field(
        "category", Annotated[Category, Limit(strict=False)], lambda one: str(one.finding.category), reads="category"
    ),
    Field("gate", Annotated[Gate, Limit(strict=False)], lambda one: str(one.finding.gate), reads="gate"),
    Field(
        "severity",
        Literal["critical", "high", "medium", "low"],
        lambda one: RECORD_SEVERITY[one.finding.severity],
        reads="severity",
        read=Severity,
    ),
    Field(
        "confidence",
        Literal["high", "medium", "low"],
        lambda one: confidence_to_word(one.finding.confidence),
        reads="confidence",
        read=confidence_from_word,
    ),
    Field(
        "evidence", list[EvidenceRef], lambda one: _render_evidence(one.finding), reads="evidence", read=_evidence_in
    ),
    Field("reasoning", str, lambda one: reason_of(one.finding) or NO_REASON, reads="impact", read=_given_reason),
    Field("reproduction", str | None, lambda one: one.finding.reproduction, Need.USUAL, "reproduction"),
    Field("recommendation", NotBlank, lambda one: recommendation(one.finding), reads="fix", read=given_fix),
    Field("min_fix_scope", str, lambda one: one.finding.min_fix_scope or "", Need.USUAL, "min_fix_scope"),
    Field(
        "suggested_regression_tests",
        list[str],
        lambda one: list(one.finding.regression_tests),
        Need.USUAL,
        "regression_tests",
        tuple,
    ),
    Field("status", _Status, lambda one: RECORD_STATUS[one.finding.state]),
    Field("triage_history", list[TriageEntry], lambda one: list(_triage_history(one.finding))),
    Field("signature", str, lambda one: one.finding.signature, reads="signature"),
    Field(
        "sources",
        Annotated[list[NotBlank], Limit(min_length=1)],
        lambda one: one.sources,
        reads="reviewer",
        read=itemgetter(0),
    ),
    Field("lens", Annotated[Lens, Limit(strict=False)], lambda one: str(one.finding.lens), reads="lens"),
    Field("agreement_count", int, lambda one: len(one.sources), Need.USUAL),
    Field("createdAt", _TimeIfAny, lambda one: one.finding.created_at, Need.USUAL, "created_at"),
    Field("updatedAt", _TimeIfAny, lambda one: one.finding.updated_at, Need.USUAL, "updated_at"),
    Field("x_state", str, lambda one: _FINER_STATE.get(one.finding.state), Need.IF_ANY),
    Field("x_fix_absent", bool, lambda one: not one.finding.fix, Need.IF_ANY),
    Field("x_system_breaking", bool, lambda one: one.finding.system_breaking, Need.IF_ANY, "system_breaking"),
    Field("x_tool", bool, lambda one: one.finding.tool, Need.IF_ANY, "tool"),
    Field("x_line", str, lambda one: one.line.id if len(one.line.members) > 1 else None, Need.IF_ANY, "line"),
)


@cache
def _finding_record() -> type[BaseModel]:
    return checked("FindingRecord", FINDING_RECORD)


def render_record(finding: Finding, line: Line) -> dict[str, Any]:
    """Return the record of a finding that is part of a line of work."""
    extra = unknown_keys(FINDING_RECORD, finding.ext.get(FORMAT, {}))
    return render(FINDING_RECORD, _Shown(finding, line)) | extra


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
    return ViewEdits(tuple(events), put_back(where, _RULE, changed_keys(edited, shown, follows), refused))


def _identity(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return what distinguishes an entry from others. The ledger decides who said it and what came of it."""
    return str(entry.get("at")), str(entry.get("note"))


def _say(finding: Finding, given: Sequence[Mapping[str, Any]], by: str) -> tuple[list[FindingChanged], list[str]]:
    """Return what the new entries of a triage change, one after the other, and why entries do not count."""
    try:
        entries = _entries.validate_python(given)
    except ValidationError as error:
        return [], [f"a new entry of `triage_history` is invalid: {explain_error(error)}"]
    scratch = Ledger([FindingRaised(at=finding.created_at, finding=finding)])
    events, refused = [], []
    for entry in entries:
        now = scratch.findings[finding.id]
        said = said_in_file(now, entry.status, entry.note, at=entry.at, who=by)
        if isinstance(said, FindingChanged):
            scratch.apply(said)
            events.append(said)
        else:
            refused.append(f"the entry {entry.status} in `triage_history` is refused: {said or f'it is {now.state}'}")
    return events, refused


def import_record(given: Mapping[str, Any], at: str) -> Finding | str:
    """Return the finding of a record that the ledger does not know, as after a clone; or why it cannot be used.

    It is open or uncertain whatever the record says, because it was not reviewed here; what the record says is in its
    history.
    """
    try:
        record: Any = _finding_record().model_validate(given)
    except ValidationError as error:
        return explain_error(error)
    if _restates_title(record.reasoning, record.title):
        return "`reasoning` only repeats the title"
    said = {"created_at": at, "updated_at": at} | parse(FINDING_RECORD, record)
    places = (Location(path=ref.path, start=ref.start, end=ref.end, symbol=ref.symbol) for ref in said["evidence"])
    unsure = record.status == "uncertain" and not record.x_state  # that of a claimed fix
    state = FindingState.UNCERTAIN if unsure else FindingState.OPEN
    return Finding(
        **said,
        state=state,
        locations=tuple(dict.fromkeys(places)),
        history=tuple(_import_history(record, state, said["reviewer"], said["created_at"], at)),
        ext=filled(**{FORMAT: dict(record.model_extra)}),
    )


def _import_history(record: Any, state: FindingState, reviewer: str, created_at: str, at: str) -> Iterator[Change]:
    """Yield that a finding was raised, and what its record says of it, which decides nothing."""
    yield Change(at=created_at, what=What.RAISED, who=reviewer, by=Actor.ORCHESTRATOR, state=state)
    for entry in record.triage_history[-_MAX_ENTRIES:]:
        said = (entry.x_by or entry.by)[:_MAX_NOTE]
        note = f"{entry.status}: {entry.note}"[:_MAX_NOTE]
        yield Change(at=entry.at, what=What.SEEN, who=said, by=entry.by, note=note)
    if record.status != "open":
        note = f"its record says {record.status}; nobody here has looked"
        yield Change(at=at, what=What.SEEN, who=FORMAT, by=Actor.ORCHESTRATOR, note=note)


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
    Field("task", _Task, lambda one: _task_name(one.passed.task)),
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
    Field("x_tree_changed", bool, lambda one: one.passed.changed, Need.IF_ANY),
    Field("x_looks", list[dict[str, Any]], lambda one: [_look(look) for look in one.looks]),
)


def render_pass(review: Review, passed: Pass) -> list[dict[str, Any]]:
    """Return the records of a pass: its own, and if reviewers looked through several lenses, one for each of those.

    All have the one verdict on the target. The counts are those of the findings as they are now.
    """
    known, looks, verdict = review.ledger.findings, passed.coverage.looks, str(review.shipping)
    found = tuple(known[FindingId(id)] for id in passed.finding_ids if id in known)
    lenses = dict.fromkeys(look.lens for look in looks)
    if len(lenses) < 2:
        return [render(PASS_RECORD, _ShownPass(passed, verdict, "code-review", looks, found))]
    shown = [_ShownPass(passed, verdict, "full-review", looks, found)]
    for lens in lenses:
        its_looks = tuple(look for look in looks if look.lens is lens)
        its_findings = tuple(finding for finding in found if finding.lens is lens)
        shown.append(_ShownPass(passed, verdict, "code-review", its_looks, its_findings, str(lens)))
    return [render(PASS_RECORD, one) for one in shown]


def _said_of_all(look: Look) -> dict[str, str]:
    return {"reviewer": look.reviewer, "verdict": look.verdict, "argument": look.argument}


def _look(look: Look) -> dict[str, Any]:
    return look.model_dump(mode="json", exclude_defaults=True)
