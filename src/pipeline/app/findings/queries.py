"""What commands and pages ask of a ledger: which findings match, and the verdict on them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from pipeline.app.findings.ledger import find_pass
from pipeline.errors import AwfError
from pipeline.findings.events import ItemOutcome, Pass, ReviewerVerdict
from pipeline.findings.ledger import Ledger, hidden_items, last_passes
from pipeline.findings.model import Category, Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.reviews import Review, last_review, ledger_verdicts, review_ids, standing_rejections
from pipeline.findings.triage import importance
from pipeline.findings.verdicts import Shipping, Verdict, Verdicts
from pipeline.text import plural

ALL_STATES = frozenset(FindingState)
NEEDS_ATTENTION = frozenset(state for state in FindingState if state.needs_attention)
DISMISSED_STATES = frozenset(state for state in FindingState if state.dismissed)
STATE_GROUPS = {
    "all": ALL_STATES,
    "outstanding": NEEDS_ATTENTION,
    "active": frozenset(state for state in FindingState if state.active),
    "dismissed": DISMISSED_STATES,
}
"""Names for several states at once."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """Which findings are meant. An empty condition matches every finding."""

    states: frozenset[FindingState] = NEEDS_ATTENTION
    severities: frozenset[Severity] = frozenset()
    gates: frozenset[Gate] = frozenset()
    categories: frozenset[Category] = frozenset()
    files: tuple[str, ...] = ()  # prefixes of paths, or patterns
    stages: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()  # each in the number, title, category or path, or a prefix of the id
    since: datetime | None = None  # raised, reported or changed then or later
    among: frozenset[FindingId] | None = None  # one of these; None is any

    def matches(self, finding: Finding) -> bool:
        """Whether a finding meets every condition."""
        return (
            finding.state in self.states
            and (self.among is None or finding.id in self.among)
            and (not self.severities or finding.severity in self.severities)
            and (not self.gates or finding.gate.value in self.gates)
            and (not self.categories or finding.category in self.categories)
            and (not self.files or any(_is_in(finding, name) for name in self.files))
            and (not self.stages or any(vote.stage in self.stages for vote in finding.votes))
            and (not self.reviewers or any(vote.reviewer in self.reviewers for vote in finding.votes))
            and (not self.words or _contains(finding, self.words))
            and (self.since is None or (_parse_time(finding.updated_at) or _EARLIEST) >= self.since)
        )


def select(findings: Iterable[Finding], wanted: FindingFilter) -> list[Finding]:
    """The findings that match, the most important first."""
    return sorted(filter(wanted.matches, findings), key=importance)


def narrow(names: Iterable[str], ledger: Ledger, wanted: FindingFilter) -> tuple[list[str], list[str]]:
    """The names of findings that match, and of those that do not. An unknown name stays, so that it is reported."""
    known = {name: ledger.find(name) if name else None for name in dict.fromkeys(names)}
    others = [name for name, finding in known.items() if finding is not None and not wanted.matches(finding)]
    return [name for name in known if name not in others], others


@dataclass(frozen=True, slots=True)
class FilteredItems:
    """What reviewers returned and the gate kept out of the ledger, and what they could not assess."""

    items: tuple[tuple[Pass, ItemOutcome], ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it for a program."""
        items = [
            {"pass": passed.id, "run": passed.run, "stage": passed.stage, **outcome.model_dump(mode="json")}
            for passed, outcome in self.items
        ]
        return {
            "filtered": items,
            "residual_risks": list(self.residual_risks),
            "testing_gaps": list(self.testing_gaps),
        }


def filtered_items(ledger: Ledger, run: str = "") -> FilteredItems:
    """What the gate filtered or demoted in the last passes of a run, or of the last run or import."""
    covered = [passed.coverage for passed in last_passes(ledger, run)]
    return FilteredItems(
        tuple(hidden_items(ledger, run)),
        tuple(dict.fromkeys(text for one in covered for text in one.residual_risks)),
        tuple(dict.fromkeys(text for one in covered for text in one.testing_gaps)),
    )


def parse_states(names: Iterable[str]) -> frozenset[FindingState]:
    """The states that names mean, each that of a state or of a group."""
    groups = (STATE_GROUPS.get(name) or {FindingState(name.replace("-", "_"))} for name in names)
    return frozenset().union(*groups)


def parse_since(text: str, ledger: Ledger) -> datetime:
    """The time that a date, a time or a pass means."""
    if time := _parse_time(text):
        return time
    try:
        return _parse_time(find_pass(text, ledger).started_at) or _EARLIEST
    except AwfError as error:
        help = f"give a date such as 2026-01-31, or a pass; {error.help}"
        raise AwfError(f'"{text}" is neither a date nor a pass', help=help) from error


def _contains(finding: Finding, words: tuple[str, ...]) -> bool:
    paths = " ".join(location.path for location in finding.locations)
    text = f"#{finding.number} {finding.title} {finding.category} {paths}".casefold()
    return all(word.casefold() in text or finding.id.startswith(word) for word in words)


def _is_in(finding: Finding, name: str) -> bool:
    wanted = name.removeprefix("./")
    if any(sign in wanted for sign in "*?["):
        return any(fnmatchcase(location.path, wanted) for location in finding.locations)
    return any(location.path.startswith(wanted) for location in finding.locations)


def _parse_time(text: str) -> datetime | None:
    """A time, in UTC if it does not say; None if it cannot be read, as in a foreign record."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def finding_row(finding: Finding, ledger: Ledger) -> dict[str, Any]:
    """A finding as one JSON object of a list."""
    location, members = finding.location, ledger.members(finding.id)
    return {
        "id": finding.id,
        "number": finding.number,
        "title": finding.title,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "severity": str(finding.severity),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "category": str(finding.category),
        "file": location.path if location else None,
        "line": location.start if location else None,
        "end_line": location.end if location else None,
        "sources": list(finding.sources),
        "lens": str(finding.lens),
        "agreement": finding.agreement,
        "attempts": len(finding.attempts),
        **({"may_be": list(finding.may_be)} if finding.may_be else {}),
        **({"members": [member.id for member in members]} if members else {}),
    }


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """The verdicts on all findings, and the numbers behind them."""

    verdicts: Verdicts
    required: int  # findings that must be fixed
    claimed: int  # fixes that nobody has verified
    gaps: tuple[str, ...]  # whose last answer could not be read, and why
    dismissed: tuple[dict[str, Any], ...]  # the findings that would block if they were not dismissed
    silent: tuple[str, ...] = ()  # the reviewers with gaps
    review: Review | None = None  # the last one
    review_id: str = ""
    older: tuple[Finding, ...] = ()  # what needs attention and the last review is not about
    rejections: tuple[ReviewerVerdict, ...] = ()  # the reviewers that reject the change in their last answer

    def failing(self, worst: Verdict = Verdict.FAIL) -> bool:
        """Whether a gate must stop the change: the verdict without claimed fixes is at least this bad, or has gaps."""
        order = list(Verdict)
        return not self.verdicts.complete or order.index(self.verdicts.after_verification) >= order.index(worst)

    def as_json(self) -> dict[str, Any]:
        """The verdicts for a program. With a gap nothing ships and nothing is ready."""
        return {
            "verdict": str(self.verdicts.verdict),
            "after_verification": str(self.verdicts.after_verification),
            "ship": self.verdicts.shipping is Shipping.SHIP,
            "readiness": str(self.verdicts.readiness),
            "complete": self.verdicts.complete,
            "summary": dict(self.verdicts.summary),
            "dismissed": list(self.dismissed),
            "review": self._review_json(),
        }

    def _review_json(self) -> dict[str, Any] | None:
        """The verdict of the last review alone; None if there was none."""
        if self.review is None:
            return None
        return {
            "id": self.review_id,
            "passes": [str(passed.id) for passed in self.review.passes],
            "verdict": str(self.review.verdicts.verdict),
            "ship": self.review.verdicts.shipping is Shipping.SHIP,
            "tree_changed": self.review.tree_changed,
            "older": [str(finding.id) for finding in self.older],
        }

    @property
    def difference(self) -> str:
        """How the verdict of the last review alone differs, and why; empty if it does not."""
        if self.review is None:
            return ""
        own = self.review.verdicts
        if (own.verdict, own.shipping) == (self.verdicts.verdict, self.verdicts.shipping):
            return ""
        silent = [name for name in self.silent if name not in self.review.coverage.silent]
        rejecting = [one.reviewer for one in self.rejections if one not in self.review.rejections]
        names = list(dict.fromkeys(name for finding in self.older for name in finding.sources))
        by = f" by {' and '.join(names)}" if len(names) in (1, 2) else f" by {len(names)} reviewers" if names else ""
        reasons = {
            f"{plural(len(self.older), 'older finding')}{by} still open": bool(self.older),
            f"no readable answer of {', '.join(silent)}": bool(silent),
            f"{', '.join(rejecting)} rejected the change earlier": bool(rejecting),
        }
        return "; ".join([f"{own.verdict} for this review", *(text for text, applies in reasons.items() if applies)])

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        claimed, verified = self.verdicts.verdict, self.verdicts.after_verification
        counts = ", ".join(f"{number} {severity}" for severity, number in self.verdicts.summary.items() if number)
        text = f" ({counts})" if counts else ""
        if self.claimed and claimed != verified:
            fixes = "1 claimed fix is" if self.claimed == 1 else f"{self.claimed} claimed fixes are"
            text = f" as claimed{text}; {verified} until {fixes} verified"
        return f"{claimed}{text}" + ("" if self.verdicts.complete else "; the review is incomplete")


def summarize_verdict(ledger: Ledger) -> VerdictSummary:
    """The verdicts on a ledger after its last pass."""
    own = [finding for finding in ledger if not finding.pre_existing]
    severe = (Severity.CRITICAL, Severity.HIGH)
    coverage = ledger.coverage()
    gaps = ["nothing was reviewed: this store has no pass"]
    review = last_review(ledger)
    about = {finding.id for finding in review.findings} if review else set()
    if coverage:
        silent = coverage.silent.items()
        gaps = [f"{name} is {status}: {coverage.problems.get(name, 'no answer')}" for name, status in silent]
    return VerdictSummary(
        ledger_verdicts(ledger),
        required=sum(one.state.active and one.gate.value is Gate.MUST for one in own),
        claimed=sum(one.state is FindingState.FIX_CLAIMED for one in own),
        gaps=tuple(gaps),
        dismissed=tuple(
            _dismissal_row(one)
            for one in own
            if one.state.dismissed and (one.gate.value is Gate.MUST or one.severity in severe)
        ),
        silent=tuple(coverage.silent) if coverage else (),
        review=review,
        review_id=review_ids(ledger)[review.passes[-1].id] if review else "",
        older=tuple(one for one in own if one.state.needs_attention and one.id not in about),
        rejections=tuple(standing_rejections(ledger)),
    )


def _dismissal_row(finding: Finding) -> dict[str, Any]:
    """Who dismissed a finding and why, by its suppression or else by its history."""
    change = next((one for one in reversed(finding.history) if one.state is finding.state), None)
    by, note = (change.by, change.note) if change else ("", "")
    if suppression := finding.suppression:
        by, note = suppression.by or by, suppression.reason or note
    row = {"id": finding.id, "number": finding.number, "title": finding.title}
    return row | {"severity": str(finding.severity), "state": str(finding.state), "by": by, "note": note}
