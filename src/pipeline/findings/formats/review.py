"""What a review agent returns, in and out: JSON with all fields, or compact without the detail.

It is read strictly: a return that cannot be read is malformed as a whole, an item that cannot be read is kept as
unreadable. `find_reviews`, `parse_review` and `read_item` are the three steps from an answer to raw findings.
"""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline.findings.events import Coverage
from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import (
    OrElse,
    UnreadableFile,
    collect_items,
    explain_error,
    kept_keys,
    limit_nesting,
    strip_root,
)
from pipeline.findings.ledger import Ledger
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
from pipeline.findings.scales import (
    ANCHORS,
    P_LEVEL,
    confidence_from_anchor,
    confidence_to_anchor,
    default_category,
)

FORMAT = "review"
MAX_TITLE = 100  # characters
MAX_TITLE_WORDS = 10  # more are noted
_SEVERITY = {"P0": Severity.CRITICAL, "P1": Severity.HIGH, "P2": Severity.MEDIUM, "P3": Severity.LOW}
_REVIEWER = re.compile(rb'"reviewer"\s*:\s*"([^"\\]{1,100})"')  # in a return that was cut off
_HEAD = 64 * 1024  # bytes that are searched for it
_EVIDENCE = re.compile(
    r"`?(?P<path>(?=[^\s:`./]*[./])[^\s:`]+):(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?`?(?:\s+(?:--|—|–)\s+(?P<code>.*))?",
    re.DOTALL,
)
_OBJECT = re.compile(r'\{\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*:', re.DOTALL)  # a brace and a whole key
_FINDINGS, _REVIEWER_KEY = re.compile(r'"findings"\s*:'), re.compile(r'"reviewer"\s*:')
_AFTER_OBJECT = "` \n\t\r"  # what may follow the end: white space and a fence
_decoder = json.JSONDecoder()


def _check_title(title: str) -> str:
    if not title.strip():
        raise ValueError("should not be empty")
    return title


def _check_anchor(confidence: int) -> int:
    if confidence not in ANCHORS:
        raise ValueError(f"should be one of {', '.join(map(str, ANCHORS))}")
    return confidence


class ReviewItem(BaseModel):
    """One finding of a return. The compact form leaves out reason and evidence; unknown keys are kept."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    title: Annotated[str, Field(max_length=MAX_TITLE), AfterValidator(_check_title)]
    severity: Literal["P0", "P1", "P2", "P3"]
    file: str
    line: int = Field(ge=1)
    why_it_matters: str = ""
    autofix_class: Annotated[AutofixClass, Field(strict=False)]
    owner: Annotated[Owner, Field(strict=False)]
    requires_verification: bool
    suggested_fix: str | None = None
    confidence: Annotated[int, AfterValidator(_check_anchor)]
    evidence: list[str] = Field(default_factory=list, min_length=1)
    pre_existing: bool
    # What the format cannot express, written by `write` and read back.
    x_title: Annotated[str, OrElse("")] = ""
    x_severity: Annotated[Literal["low", "info", ""], OrElse("")] = ""
    x_system_breaking: Annotated[bool, OrElse(False)] = False
    x_line_absent: Annotated[bool, OrElse(False)] = False
    x_evidence_absent: Annotated[bool, OrElse(False)] = False


class Review(BaseModel):
    """A return."""

    model_config = ConfigDict(strict=True, frozen=True)

    reviewer: str
    findings: list[Any]
    residual_risks: list[str]
    testing_gaps: list[str]


def read(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What a reviewer returned; raises ValueError. The name of who was asked wins over the one in the return."""
    review = parse_review(data)
    name = reviewer or review.reviewer
    return collect_items(
        name,
        FORMAT,
        review.findings,
        lambda item, input_id: read_item(item, input_id, name, root),
        residual_risks=tuple(review.residual_risks),
        testing_gaps=tuple(review.testing_gaps),
    )


def parse_review(data: bytes) -> Review:
    """The return in a JSON text; raises UnreadableFile."""
    try:
        return Review.model_validate(limit_nesting(strict_json.loads(data), "it"))
    except ValueError as error:
        named = _REVIEWER.search(data[:_HEAD])
        raise UnreadableFile(explain_error(error), named[1].decode(errors="replace") if named else "") from error


def read_item(value: Any, input_id: str, reviewer: str, root: str = "") -> RawFinding:
    """One item of a return as a raw finding; raises ValueError, which names every faulty field."""
    item = ReviewItem.model_validate(value)
    words = len(item.title.split())
    whole_title = item.x_title and shorten_title(item.x_title) == item.title
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=item.x_title if whole_title else item.title,
        severity=_severity(item),
        confidence=confidence_from_anchor(item.confidence),
        category=default_category(reviewer),
        impact=item.why_it_matters,
        fix=item.suggested_fix or None,
        autofix_class=item.autofix_class,
        owner=item.owner,
        requires_verification=item.requires_verification,
        pre_existing=item.pre_existing,
        system_breaking=item.x_system_breaking,
        locations=(Location(path=strip_root(item.file, root), start=None if item.x_line_absent else item.line),),
        evidence=() if item.x_evidence_absent else tuple(parse_evidence(text, root) for text in item.evidence),
        action=_implied_action(item),
        notes=(f"its title has {words} words; use at most {MAX_TITLE_WORDS}",) if words > MAX_TITLE_WORDS else (),
        ext={FORMAT: item.model_extra} if item.model_extra else {},
    )


def _severity(item: ReviewItem) -> Severity:
    """P3 is low, but what is only advice is information."""
    if item.severity == "P3" and item.x_severity:
        return Severity(item.x_severity)
    if item.severity == "P3" and item.autofix_class is AutofixClass.ADVISORY:
        return Severity.INFO
    return _SEVERITY[item.severity]


def _implied_action(item: ReviewItem) -> str:
    """What the reviewer would do, which a return only implies: without a fix, or with one for a release, put it off."""
    if item.autofix_class is AutofixClass.ADVISORY:
        return "acknowledge"
    fixable = item.autofix_class is AutofixClass.SAFE_AUTO or (item.suggested_fix or "").strip()
    return "apply" if fixable and item.owner is not Owner.RELEASE else "defer"


def parse_evidence(raw: str, root: str = "") -> Evidence:
    """What `path:line -- code` points to; any other text stays a text."""
    match = _EVIDENCE.fullmatch(raw.strip())
    if match is None:
        return Evidence(raw=raw)
    start, end = int(match["start"]) or None, int(match["end"] or 0) or None
    if start is None or (end is not None and end < start):
        return Evidence(raw=raw)
    code = (match["code"] or "").strip()
    if len(code) > 2 and code[0] == code[-1] == "`" and "`" not in code[1:-1]:
        code = code[1:-1]
    return Evidence(path=strip_root(match["path"], root), start=start, end=end, quote=code[:QUOTE], raw=raw)


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Findings as a reviewer would return them, with the risks and gaps of the last pass."""
    coverage = ledger.last.coverage if ledger.last else Coverage()
    review = {
        "reviewer": "awf",
        "findings": [_item(finding) for finding in findings],
        "residual_risks": list(coverage.residual_risks),
        "testing_gaps": list(coverage.testing_gaps),
    }
    return strict_json.dumps(review).decode()


def _item(finding: Finding) -> dict[str, Any]:
    located = finding.location or next((item for item in finding.evidence if item.path), None)
    path, line = (located.path, located.start) if located else (finding.task or finding.scope, None)
    advisory = finding.autofix_class is AutofixClass.ADVISORY
    ambiguous = {Severity.LOW: advisory, Severity.INFO: not advisory}.get(finding.severity, False)
    item: dict[str, Any] = {
        "title": shorten_title(finding.title),
        "severity": P_LEVEL[finding.severity],
        "file": path,
        "line": line or 1,
        "why_it_matters": finding.impact,
        "autofix_class": str(finding.autofix_class),
        "owner": str(finding.owner),
        "requires_verification": finding.requires_verification,
        "suggested_fix": finding.fix,
        "confidence": confidence_to_anchor(finding.confidence),
        "evidence": [format_evidence(evidence) for evidence in finding.evidence] or [f"{path}:{line or 1}"],
        "pre_existing": finding.pre_existing,
    }
    beyond = {
        "x_title": finding.title if len(finding.title) > MAX_TITLE else "",
        "x_severity": str(finding.severity) if ambiguous else "",
        "x_system_breaking": finding.system_breaking,
        "x_line_absent": line is None,
        "x_evidence_absent": not finding.evidence,
    }
    return item | {key: value for key, value in beyond.items() if value} | dict(kept_keys(finding, FORMAT))


def format_evidence(evidence: Evidence) -> str:
    """Evidence as a text: its source's own, if there is one."""
    if evidence.raw:
        return evidence.raw
    location = str(Location(path=evidence.path, start=evidence.start, end=evidence.end))
    return " -- ".join(filter(None, (location, evidence.quote)))


def shorten_title(title: str) -> str:
    """A title no longer than the format allows."""
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


class _UncountedText(str):
    """A text in which a JSON error does not count the lines before it: there may be an error at every brace."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        """No lines."""
        return 0

    def rfind(self, *_: object) -> int:
        """No line before."""
        return -1


def find_reviews(answer: str) -> list[str]:
    """Every JSON object with `findings` in what an agent said, fenced or bare.

    One that cannot be read is included, up to the end of the answer. It is not repaired: its reader reports the fault.
    """
    found: list[str] = []
    last_line = answer.rstrip(_AFTER_OBJECT).rfind("\n") + 1
    last_key = max(answer.rfind('"reviewer"'), answer.rfind('"findings"'))
    uncounted, end = _UncountedText(answer), 0
    while (opening := _OBJECT.search(answer, end)) and (start := opening.start()) < last_key:
        value, end = _decode_object(uncounted, start)
        has_findings = _FINDINGS.search(answer, start, end)
        if value is not None:
            if "findings" in value or has_findings:
                found.append(answer[start:end])
        else:
            has_reviewer, cut_off = _REVIEWER_KEY.search(answer, start, end), end >= last_line
            if (has_findings and has_reviewer) or (cut_off and (has_findings or has_reviewer)):
                found.append(answer[start:])
    return found


def _decode_object(text: _UncountedText, start: int) -> tuple[dict[str, Any] | None, int]:
    """An object and its end, or None and where it stops making sense, so that no part is read twice."""
    try:
        return _decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, max(error.pos, start + 1)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        line = text.find("\n", start)
        return None, len(text) if line < 0 else line + 1
