"""A review: everything that is known about one target. Every screen, file and page shows this one value.

The target of a pass is the change that it looked at: the findings in files of that change, and all that were reported
when somebody looked at it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from pipeline.findings.events import Coverage, Look, Pass
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger, findings_about, hidden_items, is_closed_elsewhere, passes_about, passes_of
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding, FindingState, PassId, ReportStatus, Severity
from pipeline.findings.verdicts import (
    Readiness,
    Shipping,
    Verdict,
    blocks,
    counts,
    readiness,
    shipping,
    summary,
    verdict,
)
from pipeline.text import listing, plural

_MAX_NAMED = 5  # files in a sentence
PARTS = ("package", "file")  # the scopes of a look at a part of the change


@dataclass(frozen=True)
class Review:
    """What is known about the target of a pass."""

    ledger: Ledger
    passed: Pass | None  # the last look at it; None if nobody has looked yet
    findings: tuple[Finding, ...]  # about the target, in any state, by whomever and whenever reported
    coverage: Coverage  # the last look of each reviewer, and of those who owe an answer

    @property
    def id(self) -> str:
        """The id of the review: eight hexadecimal digits; empty if there is none."""
        return self.passed.review if self.passed else ""

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes of this review, oldest first."""
        return tuple(one for one in self.ledger.passes.values() if one.review == self.id)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on everything that is open about the target."""
        return verdict(self.findings, self.coverage)

    @property
    def shipping(self) -> Shipping:
        """The verdict of the pass record."""
        return shipping(self.findings, self.coverage, whole=not self.unseen and not self.only_tools)

    @property
    def only_tools(self) -> bool:
        """Whether no reviewer has looked: a clean list of a tool is no look at the change."""
        about = passes_about(self.ledger, self.passed) if self.passed else []
        return all(look.tool for one in about for look in one.coverage.looks)

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """Who has not looked at every part of the change up to this very tree; a quick look is none."""
        return reviewers_without_a_look(self.ledger, self.passed) if self.passed else ()

    @property
    def missing_looks(self) -> str:
        """Who has not looked, as a sentence; empty if everybody has."""
        if not self.unseen:
            return ""
        if self.passed and self.passed.mode == "quick":
            return "a quick review does not count as a look at the whole change"
        has = "has" if len(self.unseen) == 1 else "have"
        return f"{', '.join(self.unseen)} {has} not looked at every part of the change as it is"

    def readiness(self, *, fixed: bool = False) -> Readiness:
        """Return the verdict of a completion report; nothing that was not looked at is ready."""
        if self.changed or self.unseen or self.blocking_elsewhere:
            return Readiness.NOT_READY
        return readiness(self.findings, self.coverage, fixed=fixed)

    @property
    def complete(self) -> bool:
        """Whether somebody looked, and everybody who was asked gave a readable answer."""
        return bool(self.coverage.looks) and self.coverage.complete

    @property
    def passes_by_itself(self) -> bool:
        """Whether nothing fails the change, so that no person has to approve it."""
        return self.complete and self.verdict.rank < Verdict.FAIL.rank

    @property
    def changed(self) -> bool:
        """Whether files changed while the reviewers looked."""
        return self.passed is not None and self.passed.changed

    @property
    def unshown(self) -> str:
        """The changed files whose lines no reviewer was shown, as a sentence; empty if there is none."""
        names = self.passed.unshown if self.passed else ()
        return f"Not text, and so shown to no reviewer: {listing(names, _MAX_NAMED)}" if names else ""

    @property
    def part(self) -> bool:
        """Whether only a part of the change was looked at."""
        return self.passed is not None and self.passed.scope in PARTS

    @cached_property
    def open(self) -> tuple[Line, ...]:
        """The open lines of work about the target, the most important first."""
        heads = dict.fromkeys(finding.line for finding in self.findings if finding.state.is_open)
        return tuple(sorted(map(self.ledger.line, heads), key=lambda line: importance(line.lead)))

    @property
    def counting(self) -> tuple[Finding, ...]:
        """The open findings that count against the change."""
        return tuple(filter(counts, self.findings))

    @property
    def blocking(self) -> tuple[Line, ...]:
        """The open lines of work that keep the change from shipping, the most important first."""
        heads = {finding.line for finding in self.counting if blocks(finding)}
        return tuple(line for line in self.open if line.id in heads)

    @property
    def summary(self) -> dict[str, int]:
        """How many open lines of work count, by their worst severity."""
        heads = {finding.line for finding in self.counting}
        worst = (min(line.open_members, key=lambda one: one.severity.rank) for line in self.open if line.id in heads)
        return summary(worst)

    @property
    def claimed(self) -> tuple[Finding, ...]:
        """The claimed fixes that nobody has verified."""
        return tuple(one for one in self.counting if one.state is FindingState.FIX_CLAIMED)

    @cached_property
    def elsewhere(self) -> tuple[Line, ...]:
        """The open lines of work that are not about the target."""
        about = {finding.line for finding in self.findings}
        found = (line for line in self.ledger.lines() if line.is_open and line.id not in about)
        return tuple(sorted(found, key=lambda line: importance(line.lead)))

    @property
    def blocking_elsewhere(self) -> tuple[Line, ...]:
        """The open lines of work in other files that must be dealt with before anything is merged."""
        return tuple(line for line in self.elsewhere if any(map(blocks, line.open_members)))

    @property
    def gaps(self) -> tuple[str, ...]:
        """Why the review is incomplete, one sentence for each reviewer."""
        if not self.coverage.looks:
            return ("nothing was reviewed yet: awf review",)
        return tuple(f"{look.reviewer}: {look.problem or look.status}" for look in self.coverage.gaps)

    @property
    def unruled(self) -> tuple[str, ...]:
        """Who did not rule on which open findings that they were given."""
        numbers = {finding.number for finding in self.counting}
        found = ((look.reviewer, [f"#{one}" for one in look.unruled if one in numbers]) for look in self.coverage.looks)
        unruled = (f"{reviewer} did not rule on {', '.join(left)}" for reviewer, left in found if left)
        fixed = ((look.reviewer, [f"#{one}" for one in look.back]) for look in self.coverage.looks if look.back)
        back = (f"{reviewer} did not say whether {', '.join(named)} is back" for reviewer, named in fixed)
        return (*unruled, *back)

    @property
    def filtered(self) -> int:
        """How many items the gate kept out of the ledger."""
        return len(hidden_items(self.ledger, self.passed.run if self.passed else ""))

    @property
    def headline(self) -> str:
        """The verdict in one line, with what it rests on."""
        numbers = zip(Severity, self.summary.values(), strict=True)
        named = ", ".join(f"{number} {severity}" for severity, number in numbers if number)
        text = f"{self.verdict} ({named})" if named else str(self.verdict)
        uncertain = sum(finding.state is FindingState.UNCERTAIN for finding in self.counting)
        if uncertain:
            text += f"; {plural(uncertain, 'finding')} uncertain, which blocks"
        if self.claimed:
            text += f"; {plural(len(self.claimed), 'claimed fix is', 'claimed fixes are')} not verified yet"
        older = sum(finding.state.is_open and not counts(finding) for finding in self.findings)
        if older:
            text += f"; {plural(older, 'open finding')} older than the change, not counted"
        return text if self.complete else f"{text}; the review is incomplete"


def review_of_run(ledger: Ledger, run: str) -> Review | None:
    """Return what is known about the target of a run; None if nobody has looked in it."""
    own = passes_of(ledger, run)
    return review(ledger, own[-1]) if own else None


def review(ledger: Ledger, passed: Pass | None = None) -> Review:
    """Return what is known about the target of a pass, by default of the last one."""
    passed = passed or ledger.last
    if passed is None:
        return Review(ledger, None, tuple(ledger.findings.values()), Coverage(looks=tuple(ledger.owed().values())))
    about = _findings_about(ledger, passed)
    return Review(ledger, passed, about, _coverage(ledger, passed, about))


def _findings_about(ledger: Ledger, passed: Pass) -> tuple[Finding, ...]:
    """Return the findings about the target of a pass, with all members of their lines of work."""
    lines = {finding.line for finding in findings_about(ledger, passed.paths, passes_about(ledger, passed))}
    about = (finding for finding in ledger.findings.values() if finding.line in lines)
    return tuple(_as_old_as(finding, ledger, passed) for finding in about)


def _as_old_as(finding: Finding, ledger: Ledger, passed: Pass) -> Finding:
    """Return a finding that is older than another change as one that may be part of this one."""
    judged = ledger.passes.get(PassId(finding.placed_in)) if finding.pre_existing else None
    return replace(finding, pre_existing=False) if judged and judged.base != passed.base else finding


def _coverage(ledger: Ledger, passed: Pass, about: Sequence[Finding]) -> Coverage:
    """Return the last look of everyone who has looked in the same run or pass, and of all who owe an answer.

    The reviewer of a finding that was closed on another branch owes a ruling on this one.
    """
    looks = dict(ledger.looks_of(passed.run) if passed.run else passed.coverage.by_reviewer)
    looks |= ledger.owed(passed)
    for run, names in ledger.untaken.items():
        problem = f"what it found in run {run} is not taken in yet; if that was stopped: awf resume {run}"
        looks |= {name: Look(reviewer=name, status=ReportStatus.MISSING, problem=problem) for name in names}
    named = {finding.id for finding in about}
    for finding in ledger.findings.values():
        placed = ledger.passes.get(PassId(finding.placed_in))
        concerns = finding.id in named or bool(placed and placed.branch and placed.branch == passed.branch)
        if concerns and is_closed_elsewhere(finding, ledger, passed.branch):
            problem = f"#{finding.number} was closed on another branch, and is not ruled on here"
            looks[finding.reviewer] = Look(reviewer=finding.reviewer, status=ReportStatus.MISSING, problem=problem)
    return replace(passed.coverage, looks=tuple(looks.values()))


def review_id(ledger: Ledger, id: str, run: str, round: int, mode: str) -> str:
    """Return the id of the review that a new pass belongs to: eight hexadecimal digits."""
    last = ledger.last
    if last and (mode == "verify" or (run and (last.run, last.round) == (run, round))):
        return last.review
    return sha256(id.encode()).hexdigest()[:8]


def reviewers_without_a_look(ledger: Ledger, passed: Pass) -> tuple[str, ...]:
    """Return who has not looked at every part of the change up to the very tree of a pass.

    Required is who the last pass names that names anyone, else everyone who ever looked at this change at its lines. A
    look at the whole change is enough; a look at what changed since an earlier tree is, if the same reviewer has seen
    that tree in the same way.
    """
    about = passes_about(ledger, passed)
    required = next((one.required for one in reversed(about) if one.required), ())
    if not required and not passed.run and not passed.base:  # an import speaks for itself, unless others were named
        required = ledger.required or tuple(passed.coverage.by_reviewer)
    looks = (look for one in about for look in one.coverage.looks if not look.status_only)
    required = required or tuple(dict.fromkeys(look.reviewer for look in looks))
    return tuple(name for name in required if not _has_seen(name, passed, about))


def _has_seen(reviewer: str, passed: Pass, about: Sequence[Pass]) -> bool:
    """Return whether a chain of looks leads from the tree of a pass back to a look at the whole change.

    An imported verification is about claims: before it, any tree may have been seen. A look that does not say whether a
    fixed finding is back is none.
    """
    wanted = passed.tree  # empty: any
    for one in reversed(about[: about.index(passed) + 1]):
        look = one.coverage.by_reviewer.get(reviewer)
        if one.changed or one.mode == "quick" or one.scope in PARTS or look is None or not look.status.answered:
            continue
        if (wanted and one.tree != wanted and one is not passed) or (look.paths is not None and not look.tool):
            continue
        if one is passed and look.back:
            return False
        if look.is_whole and (one.run or one.mode != "verify"):
            return True
        wanted = look.since
    return False
