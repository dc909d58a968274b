"""The records of a project in `.wystack/`: one file per finding, one per review pass.

A finding's record can be edited. A field that is what awf would write changes nothing; any other value is an edit by an
agent, which becomes a ledger event if it is legal, and is reported and put back if it is not. Fields that begin with
`x_` hold what the format has no field for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.findings.events import FieldsEdited, LedgerEvent, Pass, StateChanged
from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.formats.items import NotBlank
from pipeline.findings.formats.view_edits import ViewEdits, join_edits, refuse, same_json
from pipeline.findings.model import (
    Actor,
    Category,
    Change,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    GateDecision,
    Location,
    PassId,
    Severity,
)
from pipeline.findings.scales import RECORD_SEVERITY, RECORD_STATUS, confidence_from_word, confidence_to_word
from pipeline.findings.triage import STATE_OF, agent_refusal, change_state, state_after
from pipeline.findings.verdicts import RECORD, Shipping, tree_changed
from pipeline.language.model import Lens

FORMAT = RECORD
VERSION = 1
NO_FIX = "No concrete fix proposed; needs a decision: "
NO_REASON = "No reason was given beyond the title; see the evidence."
_TRIAGE_CHANGES = ("state", "seen", "decision")  # the changes of a history that a record shows
_MAX_ENTRIES = 1000  # of a history that is imported
_MAX_NOTE = 500  # characters of one of them
_MAX_LINE = 10**9


def parse_time(text: str) -> datetime:
    """A moment that can be compared with others; raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("out of range") from error


def _check_time(text: str) -> str:
    parse_time(text)
    return text


_Status = Literal["open", "false-positive", "fixed", "wont-fix", "uncertain"]
_Line = Annotated[int, Field(ge=1, le=_MAX_LINE)]


class EvidenceRef(BaseModel):
    """A place that supports a finding; `path` may also name a work item or a specification."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    path: Annotated[str, Field(min_length=1)]
    startLine: _Line | None = None
    endLine: _Line | None = None
    symbol: str = ""
    quote: Annotated[str, Field(max_length=QUOTE)] = ""

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
    by: Annotated[Actor, Field(strict=False)]
    note: str = ""
    x_by: str = ""  # who it was, where `by` has no name for it


class FindingRecord(BaseModel):
    """A finding as a project keeps it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    schemaVersion: int = VERSION
    kind: str = "entity"
    role: str = "claim"
    authority: str = "computed"
    type: str = "review.finding"
    findingId: str
    reviewId: str
    task: Annotated[str, Field(pattern=r"^(TASK-|$)")] = ""
    scope: str = ""
    title: NotBlank
    category: Annotated[Category, Field(strict=False)]
    gate: Annotated[Gate, Field(strict=False)]
    severity: Literal["critical", "high", "medium", "low"]
    confidence: Literal["high", "medium", "low"]
    evidence: list[EvidenceRef]
    reasoning: str
    reproduction: str | None = None
    recommendation: NotBlank
    min_fix_scope: str = ""
    suggested_regression_tests: list[str] = []
    status: _Status
    triage_history: list[TriageEntry]
    signature: str
    sources: list[str]
    lens: Annotated[Lens, Field(strict=False)]
    agreement_count: int = 1
    createdAt: str = ""
    updatedAt: str = ""
    x_state: Annotated[FindingState, Field(strict=False)] | None = None
    x_severity: Literal["low", "info"] | None = None
    x_fix_absent: bool = False
    x_reasoning_absent: bool = False
    x_system_breaking: bool = False
    x_written: Any = None  # a digest that the first version of awf wrote; it is not read


_FIELDS = frozenset(FindingRecord.model_fields)
_REQUIRED = [name for name, field in FindingRecord.model_fields.items() if field.is_required()]
_EDITABLE = {
    "task": "task",
    "scope": "scope",
    "gate": "gate",
    "severity": "severity",
    "reproduction": "reproduction",
    "recommendation": "fix",
    "min_fix_scope": "min_fix_scope",
    "suggested_regression_tests": "regression_tests",
    "x_severity": "severity",
    "x_system_breaking": "system_breaking",
}  # fields of a record, and the fields of a finding that they change
_TRIAGE = ("status", "triage_history", "x_state")
_FOLLOWS = ("updatedAt", "x_fix_absent", "x_reasoning_absent", "x_written")  # computed from the others
_READ_ONLY = [name for name in FindingRecord.model_fields if name not in (*_EDITABLE, *_TRIAGE, *_FOLLOWS)]


def render_record(finding: Finding) -> dict[str, Any]:
    """The record of a finding."""
    status = RECORD_STATUS[finding.state]
    no_reason = restates_title(finding.impact, finding.title)
    record = {
        "schemaVersion": VERSION,
        "kind": "entity",
        "role": "claim",
        "authority": "computed",
        "type": "review.finding",
        "findingId": str(finding.id),
        "reviewId": str(finding.pass_id),
        "task": _task_name(finding.task),
        "scope": finding.scope,
        "title": finding.title,
        "category": str(finding.category),
        "gate": str(finding.gate.value),
        "severity": RECORD_SEVERITY[finding.severity],
        "confidence": confidence_to_word(finding.confidence),
        "evidence": [_render_evidence(item, finding) for item in finding.evidence or finding.locations],
        "reasoning": NO_REASON if no_reason else finding.impact,
        "reproduction": finding.reproduction,
        "recommendation": finding.fix or no_fix_text(finding),
        "min_fix_scope": finding.min_fix_scope or "",
        "suggested_regression_tests": list(finding.regression_tests),
        "status": status,
        "triage_history": [entry for entry, _ in _triage_steps(finding)],
        "signature": finding.signature,
        "sources": list(finding.sources),
        "lens": str(finding.lens),
        "agreement_count": finding.agreement,
        "createdAt": finding.created_at,
        "updatedAt": finding.updated_at,
        "x_state": None if STATE_OF[status] is finding.state else str(finding.state),
        "x_severity": "info" if finding.severity is Severity.INFO else None,
        "x_fix_absent": not finding.fix or None,
        "x_reasoning_absent": no_reason or None,
        "x_system_breaking": finding.system_breaking or None,
    }
    extra = {key: value for key, value in finding.ext.get(FORMAT, {}).items() if key not in _FIELDS}
    return {key: value for key, value in record.items() if value is not None or key == "reproduction"} | extra


def restates_title(reason: str, title: str) -> bool:
    """Whether a reason says no more than the title."""
    return not reason.strip() or norm_title(reason) == norm_title(title)


def no_fix_text(finding: Finding) -> str:
    """The recommendation for a finding without a fix."""
    return NO_FIX + (finding.title if restates_title(finding.impact, finding.title) else finding.impact)


def _task_name(task: str) -> str:
    return task if not task or task.startswith("TASK-") else f"TASK-{task}"


def _render_evidence(item: Location, finding: Finding) -> dict[str, Any]:
    """One piece of evidence. One without a path is about the finding's own file, or about its task."""
    own_path = finding.location.path if finding.location else _task_name(finding.task) or finding.scope or finding.id
    ref: dict[str, Any] = {"path": item.path or own_path}
    if item.start is not None:
        ref |= {"startLine": item.start, "endLine": item.end or item.start}
    if item.symbol:
        ref["symbol"] = item.symbol
    quote = (item.quote or ("" if item.path else item.raw)) if isinstance(item, Evidence) else ""
    return ref | ({"quote": quote[:QUOTE]} if quote else {})


def _triage_steps(finding: Finding) -> Iterator[tuple[dict[str, Any], FindingState]]:
    """The entries of a finding's triage, each with the state that it left the finding in."""
    state = FindingState.OPEN
    for change in finding.history:
        state = change.state or state
        if change.what not in _TRIAGE_CHANGES:
            continue
        known = change.by in set(Actor)
        by = {"by": change.by} if known else {"by": "orchestrator", "x_by": change.by}
        entry = {"at": change.at, "status": RECORD_STATUS[state], "note": change.note, **by}
        yield {key: value for key, value in entry.items() if value or key != "x_by"}, state


def read_record_edits(finding: Finding, edited: Mapping[str, Any], at: str, by: str) -> ViewEdits:
    """What `by` changed in the record of a finding, no matter whom the record names.

    A record that shows an earlier moment, as after a crash or a checkout, adds to the triage; nothing else is read from
    it, because an old value cannot be distinguished from an edit.
    """
    shown = render_record(finding)
    changed = [key for key in _FIELDS if key in edited and not same_json(edited[key], shown.get(key))]
    moment = edited.get("updatedAt", finding.updated_at)
    earlier = moment != finding.updated_at and moment in (finding.created_at, *(one.at for one in finding.history))
    triage = _read_triage(finding, edited, shown["triage_history"], at, by, earlier=earlier)
    problems = [f"`{key}` is missing" for key in _REQUIRED if key not in edited]
    if earlier:
        fields = ViewEdits(outdated=any(key in (*_EDITABLE, *_READ_ONLY) for key in changed))
    else:
        fields, refused = _read_fields(finding, edited, changed, at, by)
        problems += refused
    refusals = refuse(finding, [*problems, *triage.problems], f"record of {finding.id}", at, by)
    return join_edits([fields, ViewEdits(triage.events), refusals])


def _read_fields(
    finding: Finding, edited: Mapping[str, Any], changed: Sequence[str], at: str, by: str
) -> tuple[ViewEdits, list[str]]:
    """The edits of fields other than triage, and what is wrong with those that are refused."""
    faults, changes = _faults(edited), dict[str, Any]()
    problems = [f"`{key}` cannot be edited" for key in _READ_ONLY if key in changed]
    for key, name in _EDITABLE.items():
        if key not in changed:
            continue
        if problem := faults.get(key) or _weakens(finding, key, edited):
            problems.append(f"`{key}` {problem}")
        elif key == "gate":
            gate = GateDecision(value=Gate(edited["gate"]), by=by, policy="edited")
            changes["gate"] = gate.model_dump(mode="json")
        else:
            changes[name] = edited[key] if key != "min_fix_scope" else edited[key] or None
    extra = {key: value for key, value in edited.items() if key not in _FIELDS}
    if not same_json(extra, finding.ext.get(FORMAT, {})):
        changes["ext"] = {FORMAT: extra}
    events = (FieldsEdited(at=at, id=finding.id, by=by, changes=changes),) if changes else ()
    return ViewEdits(events), problems


def _faults(record: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the fields of a record, by name."""
    try:
        FindingRecord.model_validate(record)
    except ValidationError as error:
        return {str(one["loc"][0]): f"is invalid: {one['msg']}" for one in error.errors(include_url=False)}
    return {}


def _weakens(finding: Finding, key: str, edited: Mapping[str, Any]) -> str:
    """Why an agent may not make less of a finding; nothing for other edits."""
    value = edited[key]
    if key == "x_severity" and (value is None or edited.get("severity") != RECORD_SEVERITY[Severity.INFO]):
        return f"cannot be {value} with this severity"
    if key == "gate" and finding.gate.value is Gate.MUST:
        return f"cannot become {value}"
    if key in ("severity", "x_severity") and Severity(value).rank > finding.severity.rank:
        return f"cannot be lowered to {value}"
    return "cannot be taken back" if key == "x_system_breaking" and finding.system_breaking else ""


def _read_triage(
    finding: Finding, edited: Mapping[str, Any], ours: Sequence[Mapping[str, Any]], at: str, by: str, *, earlier: bool
) -> ViewEdits:
    """The decisions in a record. A history may only grow; that of an older record may lack what was decided since."""
    given = edited.get("triage_history", ours)
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        return ViewEdits(problems=("`triage_history` is not a list of entries",))
    known = [_identity(entry) for entry in ours]
    theirs = [_identity(entry) for entry in given]
    new = [entry for entry in given if _identity(entry) not in known]
    elsewhere = new and edited.get("updatedAt", finding.updated_at) != finding.updated_at
    if theirs[: len(known)] != known and not (earlier or elsewhere):
        return ViewEdits(problems=("`triage_history` was rewritten or shortened: only add to its end",))
    if new:
        missing = [entry for entry in ours if _identity(entry) not in theirs]
        return _read_decisions(finding, new, missing, edited, at, by)
    states = [state for entry, state in _triage_steps(finding) if _identity(entry) in theirs]
    raised = next((one.state for one in finding.history if one.what == "raised" and one.state), finding.state)
    before = finding.state if theirs == known else [raised, *states][-1]
    return _read_status(finding, before, edited, at, by)


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What distinguishes an entry from others. The author is not part of it: awf decides who that is."""
    return str(entry.get("at")), str(entry.get("status")), str(entry.get("note", ""))


def _read_decisions(
    finding: Finding,
    new: Sequence[Mapping[str, Any]],
    missing: Sequence[Mapping[str, Any]],  # entries that were made here and are not in the file
    edited: Mapping[str, Any],
    at: str,
    by: str,
) -> ViewEdits:
    """New entries of a history, all of them or none. A later decision that was made here prevails."""
    try:
        entries = [TriageEntry.model_validate(entry) for entry in new]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return ViewEdits(problems=(f"`triage_history` has an invalid entry: {where}: {first['msg']}",))
    if not missing and edited.get("status", entries[-1].status) != entries[-1].status:
        last = entries[-1].status
        return ViewEdits(problems=(f"`status` and the last entry of `triage_history` ({last}) differ",))
    if missing:
        entries.sort(key=lambda entry: parse_time(entry.at))
    now, events = finding, list[LedgerEvent]()
    for entry in entries:
        if problem := _refusal(now, entry.status, entry.note, by):
            return ViewEdits(problems=(problem,))
        state = state_after(now.state, entry.status)
        event = change_state(finding, state, at=entry.at, by=by, note=entry.note)
        now = replace(now, state=event.state, suppression=event.suppression)
        events.append(event)
    decided_at = min(parse_time(entries[-1].at), parse_time(at))
    later = [entry for entry in missing if parse_time(entry["at"]) > decided_at]
    if later and now.state is not finding.state:
        decided = later[-1]
        kept = StateChanged(
            at=at,
            id=finding.id,
            state=finding.state,
            by=decided.get("x_by", decided["by"]),
            note=f"kept: decided at {decided['at']}",
            suppression=finding.suppression,
        )
        events.append(kept)
    return ViewEdits(tuple(events))


def _read_status(finding: Finding, before: FindingState, edited: Mapping[str, Any], at: str, by: str) -> ViewEdits:
    """A status that was changed without an entry in the history, or a finer state of the same status."""
    status = edited.get("status", RECORD_STATUS[before])
    if not isinstance(status, str) or status not in STATE_OF:
        return ViewEdits(problems=(f"`status` is not one of {', '.join(STATE_OF)}",))
    state = state_after(finding.state, status)
    if status != RECORD_STATUS[before]:
        if problem := _refusal(finding, status, "", by):
            return ViewEdits(problems=(f"`status` {status}: {problem}",))
    elif "x_state" in edited and edited["x_state"] != str(before):
        finer = next((one for one in FindingState if one == edited["x_state"] and one.needs_attention), None)
        if finer is None or RECORD_STATUS[finer] != status:
            return ViewEdits(problems=(f"`x_state` is not a state of the status {status}",))
        state = finer
    else:
        return ViewEdits()
    return ViewEdits((change_state(finding, state, at=at, by=by, note="record edited"),))


def _refusal(finding: Finding, status: str, note: str, by: str) -> str:
    """Why an agent may not say this. An entry that leaves an open finding as it is only adds a note."""
    only_a_note = finding.state.active and state_after(finding.state, status) is finding.state
    return "" if only_a_note else agent_refusal(finding, status, note, by)


def import_record(given: Mapping[str, Any], at: str) -> Finding | str:
    """The finding of a record that the ledger does not know, as after a fresh clone; or why it cannot be used.

    It is open whatever the record says, because it was not reviewed here; what the record says is in its history.
    """
    if faults := _faults(given):
        name, fault = next(iter(faults.items()))
        return f"`{name}` {fault}"
    record = FindingRecord.model_validate(given)
    if restates_title(record.reasoning, record.title):
        return "`reasoning` only repeats the title"
    no_fix = record.x_fix_absent and record.recommendation.startswith(NO_FIX)
    no_reason = record.x_reasoning_absent and record.reasoning == NO_REASON
    finer = record.x_severity if record.severity == RECORD_SEVERITY[Severity.INFO] else None
    evidence = [
        Evidence(path=ref.path, start=ref.startLine, end=ref.endLine, symbol=ref.symbol, quote=ref.quote)
        for ref in record.evidence
    ]
    places = [Location(path=item.path, start=item.start, end=item.end, symbol=item.symbol) for item in evidence]
    try:
        return Finding(
            id=FindingId(record.findingId),
            signature=record.signature,
            pass_id=PassId(record.reviewId),
            task=record.task,
            scope=record.scope,
            title=record.title,
            category=record.category,
            gate=GateDecision(value=record.gate, policy="edited"),
            severity=Severity(finer or record.severity),
            confidence=confidence_from_word(record.confidence),
            locations=tuple(dict.fromkeys(places)),
            evidence=tuple(evidence),
            impact="" if no_reason else record.reasoning,
            fix=None if no_fix else record.recommendation,
            reproduction=record.reproduction,
            min_fix_scope=record.min_fix_scope or None,
            regression_tests=tuple(record.suggested_regression_tests),
            system_breaking=record.x_system_breaking,
            sources=tuple(record.sources),
            lens=record.lens,
            agreement=min(max(record.agreement_count, 1), _MAX_ENTRIES),
            created_at=_time_or(record.createdAt, at),
            updated_at=_time_or(record.updatedAt, at),
            history=tuple(_import_history(record, at)),
            ext={FORMAT: dict(record.model_extra)} if record.model_extra else {},
        )
    except ValidationError as error:
        return f"it is not a finding: {error.errors(include_url=False)[0]['msg']}"


def _import_history(record: FindingRecord, at: str) -> Iterator[Change]:
    for entry in record.triage_history[-_MAX_ENTRIES:]:
        note = f"{entry.status}: {entry.note}"[:_MAX_NOTE]
        yield Change(at=entry.at, what="seen", by=(entry.x_by or entry.by)[:_MAX_NOTE], note=note)
    if record.status != "open":
        yield Change(at=at, what="seen", note=f"its record says {record.status}; nobody here has looked")


def _time_or(text: str, at: str) -> str:
    try:
        return _check_time(text)
    except ValueError:
        return at


def render_pass(passed: Pass, findings: Mapping[FindingId, Finding], verdict: str) -> dict[str, Any]:
    """The record of a pass, with the counts of its findings' gates. An incomplete pass never says `ship`."""
    gates = [findings[FindingId(id)].gate.value for id in passed.finding_ids]
    complete = passed.coverage.complete
    ships = complete and not tree_changed(passed)
    return {
        "schemaVersion": VERSION,
        "id": str(passed.id),
        "type": "review",
        "task": _task_name(passed.task),
        "skill": passed.skill,
        "branch": passed.branch,
        "base": passed.base,
        "diff_sha": passed.head,
        "started_at": passed.started_at,
        "verdict": str(verdict) if ships or verdict != Shipping.SHIP else str(Shipping.BLOCK_ON_REJECTION),
        "must_count": gates.count(Gate.MUST),
        "suggest_count": gates.count(Gate.SUGGEST),
        "caller": passed.caller,
        "round": passed.round,
        "finding_ids": list(passed.finding_ids),
        "patterns": [pattern.model_dump() for pattern in passed.patterns],
        "reviewer_verdicts": [said.model_dump() for said in passed.reviewer_verdicts],
        **({} if complete else {"x_incomplete": dict(passed.coverage.problems)}),
        **passed.ext.get(FORMAT, {}),
    }
