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

from pipeline.findings.events import FindingChanged, Pass
from pipeline.findings.fingerprints import line_range, verdict_id
from pipeline.findings.formats import items, strict_json
from pipeline.findings.formats.fields import Field, Need, checked, filled, parse, render, unknown_keys
from pipeline.findings.formats.record import given_fix, recommendation
from pipeline.findings.formats.view_edits import ViewEdits, changed_keys, put_back
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Confidence,
    Draft,
    Finding,
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
_RULE = "only `status` may be edited"
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
    def place(self) -> Location:
        """Where it is: its own place, or a file that supports it."""
        paths = (item.path for item in self.finding.evidence)
        return self.finding.location or Location(path=next(filter(None, paths), ""))

    @property
    def id(self) -> str:
        """Its position: who reported it, a hash of the path, and the lines."""
        return verdict_id(self.finding.reviewer, self.place.path, line_range(self.place))

    @property
    def severity(self) -> Severity:
        """How bad it is. What is uncertain blocks, and the format has one word for that."""
        return Severity.CRITICAL if self.finding.state is FindingState.UNCERTAIN else self.finding.severity

    @property
    def breaks_system(self) -> bool | None:
        """Whether it endangers the whole system; None if it is no Blocker."""
        if self.severity is not Severity.CRITICAL:
            return None
        return self.finding.system_breaking and self.finding.severity is Severity.CRITICAL

    @property
    def order(self) -> tuple[int, float, str, int, str]:
        """A sort key: by severity, confidence and place."""
        finding, place = self.finding, self.place
        return (
            self.severity.rank,
            -confidence_to_fraction(finding.confidence),
            place.path,
            place.start or 0,
            finding.id,
        )


def _given_confidence(fraction: float) -> Confidence:
    """Return a confidence that is reported whatever it is: the format has none that is not."""
    confidence = confidence_from_fraction(fraction)
    return replace(confidence, value=max(confidence.value, _REPORTED))


ITEM = (
    Field("id", items.NotBlank, lambda one: one.id),
    Field("domain", items.NotBlank, lambda one: one.finding.reviewer, reads="reviewer"),
    Field(
        "severity",
        Literal["Blocker", "High", "Medium", "Low", "Info"],
        lambda one: VERDICT_SEVERITY[one.severity],
        reads="severity",
        read=_SEVERITY_OF.__getitem__,
    ),
    Field(
        "confidence",
        Annotated[float, Limit(ge=0.5, le=1)],
        lambda one: confidence_to_fraction(one.finding.confidence),
        reads="confidence",
        read=_given_confidence,
    ),
    Field("file", items.NotBlank, lambda one: one.place.path),
    Field(
        "lineRange",
        Annotated[str, AfterValidator(_check_lines)],
        lambda one: one.place.lines,
        Need.IF_ANY,
    ),
    Field("title", items.NotBlank, lambda one: items.excerpt(one.finding.title, _MAX_TITLE), reads="title"),
    Field("recommendation", str, lambda one: recommendation(one.finding), reads="fix", read=given_fix),
    Field(
        "status",
        Literal["open", "fixed", "verified", "reopened", "wont_fix"],
        lambda one: one.status,
        reads="state",
        read=_STATE_OF.__getitem__,
    ),
    Field("x_finding", str, lambda one: str(one.finding.id), Need.IF_ANY),
    Field("x_line", str, lambda one: _line_id(one.finding), Need.IF_ANY),
    Field("x_history", int, lambda one: len(one.finding.history), Need.IF_ANY),
    Field("x_system_breaking", bool, lambda one: one.breaks_system, Need.IF_KNOWN),
    Field("x_fix_absent", bool, lambda one: not one.finding.fix, Need.IF_ANY),
    Field("x_shadowed", list[dict[str, Any]], lambda one: [_item(other) for other in one.others], Need.IF_ANY),
)


def _item(one: _Listed) -> dict[str, Any]:
    return render(ITEM, one) | unknown_keys(ITEM, one.finding.ext.get(FORMAT, {}))


def _line_id(finding: Finding) -> str | None:
    """Return the line of work that a finding is part of, if another finding gave it its number."""
    return None if finding.line in ("", finding.id) else str(finding.line)


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
        """The verdict on what is listed. Nothing passes that was not looked at."""
        least = Verdict.PASS if self.review.complete else Verdict.FAIL
        return max(_verdict_on(self.counting), least, key=lambda verdict: verdict.rank)


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
    Field("x_incomplete", list[str], lambda one: list(one.review.gaps), Need.IF_ANY),
    Field("x_untaken", list[str], lambda one: list(one.review.ledger.untaken), Need.IF_ANY),
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
    counted = (one for one in review.findings if not one.pre_existing or one.state is FindingState.UNCERTAIN)
    found = [_Listed(one, _status(one, review.ledger, first.id, number)) for one in counted]
    positions: dict[str, list[_Listed]] = {}
    for one in sorted(found, key=lambda one: (not one.finding.state.is_open, one.order)):
        if one.status:
            positions.setdefault(one.id, []).append(one)
    shown = [replace(one, others=tuple(others)) for one, *others in positions.values()]
    entries = [_item(one) for one in sorted(shown, key=lambda one: one.order)]
    return render(DOCUMENT, _File(review, passed, report_path, entries))


def _status(finding: Finding, ledger: Ledger, first: PassId, number: int) -> str:
    """Return the status of a finding by what was said after the first pass of a review, which has that number.

    It is empty if the finding was closed before that. What is uncertain can be claimed and disputed as well.
    """
    changes = zip(finding.history, ledger.passes_before[finding.id], strict=True)
    said = [change for change, passes in changes if passes > number and change.pass_id != first]
    if not finding.state.is_open:
        return VERDICT_STATUS[finding.state] if any(change.state for change in said) else ""
    if not said:
        return "open"
    if finding.disputed:
        return "wont_fix"
    return "fixed" if finding.claimed else VERDICT_STATUS[finding.state]


def is_earlier(found: Mapping[str, Any], now: Mapping[str, Any], ledger: Ledger) -> bool:
    """Return whether a verdict file shows an earlier moment than `now`, as after a kill. Then nobody edited it.

    It is of an earlier pass, more was said of a finding since, or other runs had not handed over what they were told:
    `x_history` counts what had been said when it was written, `x_untaken` names those runs.
    """
    if found.get("x_untaken", []) != now.get("x_untaken", []):
        return True
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
    what else differs is no edit. A program that drops the fields that only awf writes names a finding by its position.
    """
    known = {item["x_finding"]: item for item in items_of(written)}
    at_position = {item["id"]: item for item in reversed(known.values())}
    changed = changed_keys(edited, written, ("findings",))
    events, refused, seen = [], [], set[str]()
    for item in items_of(edited):
        before = known.get(str(item.get("x_finding"))) or at_position.get(str(item.get("id")))
        finding = ledger.findings.get(before["x_finding"]) if before else None
        if before is None or finding is None:
            changed.append("findings")
            continue
        seen.add(finding.id)
        changed += changed_keys(item, before, (NOTE, "status", "x_shadowed"))
        if item.get("status") == before["status"] or _count(item) < before["x_history"]:
            continue
        said = _say(item, finding, at, by)
        if isinstance(said, FindingChanged):
            events.append(said)
        elif said:
            refused.append(f"#{finding.number} {before['status']}→{str(item.get('status'))[:20]}: {said}")
    if is_earlier(edited, written, ledger):
        return ViewEdits(tuple(events))
    if seen != set(known):
        changed.append("findings")
    return ViewEdits(tuple(events), put_back(where, _RULE, changed, refused))


def _say(item: Mapping[str, Any], finding: Finding, at: str, by: str) -> FindingChanged | str | None:
    """Return the event of a changed status, or why it does not count; None if nothing changes."""
    note, word = item.get(NOTE), _AGENT_SAYS.get(str(item.get("status")))
    if word is None:
        return "an agent says `fixed`, `wont_fix` or `open`"
    return said_in_file(finding, word, note if isinstance(note, str) else "", at=at, who=by)


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what a verdict file of another tool reports; raise ValueError. Paths below `root` become relative to it.

    Its statuses are taken as they are. A file that rejects the change although no finding in it says why is a
    reviewer's rejection; a summary that its findings do not bear out is a note.
    """
    document = items.limit_nesting(strict_json.loads(data), "it")
    _document_model().model_validate(document)
    entries = list(items_of(document))
    counting = [item for item in entries if item.get("status") in COUNTING]
    summary, rejects = _summary_of(counting), document["verdict"] in (Verdict.FAIL, Verdict.ABORT)
    unexplained = rejects and _verdict_on(counting).rank < Verdict.FAIL.rank
    noted = () if document["summary"] == summary else ("its summary is not that of its findings",)
    return items.collect_items(
        reviewer or FORMAT,
        FORMAT,
        entries,
        lambda item, input_id: _draft(item, input_id, root, document),
        verdict="BLOCK" if unexplained else "",
        argument=f"its verdict is {document['verdict']}, and no finding in it says why" if unexplained else "",
        notes=noted,
    )


def _draft(given: Any, input_id: str, root: str, document: Mapping[str, Any]) -> Draft:
    item: Any = _item_model().model_validate(given)
    said = parse(ITEM, item)
    autofix_class, owner = default_autofix(said["fix"], said["severity"])
    numbers = [int(number) for number in re.findall(r"\d+", item.lineRange or "")]
    start, end = (*numbers, None, None)[:2]
    aborts = document["verdict"] == Verdict.ABORT and item.severity == "Blocker"  # unless the file says which
    left = f"wont_fix in the verdict file of review {document['reviewId']}"
    return Draft(
        input_id=input_id,
        **said,
        category=default_category(item.domain),
        autofix_class=autofix_class,
        owner=owner,
        system_breaking=aborts if item.x_system_breaking is None else item.x_system_breaking,
        locations=(Location(path=items.strip_root(item.file, root), start=start, end=end),),
        tool_ids={"verdict/v1": item.id},
        suppressed=left if item.status == "wont_fix" else None,
        ext=filled(**{FORMAT: unknown_keys(ITEM, given)}),
    )
