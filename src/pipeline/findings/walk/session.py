"""A walk with its effects: findings are read from the ledger, tickets filed, fixes made, decisions recorded."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.backends.process import run_program
from pipeline.files import NotAFile, read_file
from pipeline.findings.answers import fixer_events, read_answers
from pipeline.findings.events import DecisionMade, FixAttempted, LedgerEvent
from pipeline.findings.excerpts import Excerpt
from pipeline.findings.fingerprints import norm_title
from pipeline.findings.fix_prompt import Members, findings_section
from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger, open_findings
from pipeline.findings.merge import passes
from pipeline.findings.model import (
    AutofixClass,
    Decision,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    RawFinding,
)
from pipeline.findings.scales import P_LEVEL
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus
from pipeline.findings.triage import importance
from pipeline.findings.walk.machine import (
    Action,
    Fixes,
    OptionKey,
    Route,
    Step,
    Validation,
    Walk,
    WalkItem,
    answer,
    begin,
    choices,
    findings_to_validate,
    recommend,
    record_fallback,
    record_fixes,
    record_ticket,
    record_validations,
)
from pipeline.findings.walk.present import Question, confirmation, details, question, skip_reason
from pipeline.findings.walk.validation import Validate

TASK = "Fix all findings listed below, in one go. They were accepted by a person; change nothing else."
_MAX_PROMPT = 100_000  # characters of the findings
_FIXER_SECONDS = 4 * 3600.0
_NEAR = 3  # lines by which two reports of one defect may differ

Fixer = Callable[[Sequence[Finding]], Fixes]
"""Makes fixes, all in one go."""


@dataclass(slots=True)
class Session:
    """One walk with those who take part in it. Its state can be read at any time, such as after an interruption."""

    walk: Walk
    tell: Callable[[str], None]  # reports to the person who decides what was done
    trackers: TrackerChain
    fixer: Fixer
    excerpts: Callable[[Finding], Sequence[Excerpt]] = lambda _finding: ()  # the code that a finding is about

    def run(self, choose: Callable[[Question], OptionKey], validate: Validate | None = None) -> Walk:
        """Put every question to `choose` until the walk is done; a walk that validates needs `validate`."""
        while self.walk.step is not Step.DONE:
            if asked := self.advance():
                self.answer(choose(asked))
            elif findings := self.to_validate:
                self.record_validations(asyncio.run(validate(findings)) if validate else {})
        return self.walk

    def advance(self) -> Question | None:
        """File tickets and make fixes, then return the next question; None if there is none.

        In that case the walk is done, or waits for the validation of `to_validate`.
        """
        while not choices(before := self.walk):
            match before.step:
                case Step.FILING:
                    self.walk = record_ticket(before, self.trackers.file(before.item.finding))
                case Step.FALLING_BACK:
                    self.trackers.fall_back()
                    self.walk = record_fallback(before, self.trackers.status())
                case Step.FIXING:
                    self.walk = record_fixes(before, self.fixer(before.accepted))
                case _:
                    return None
            self._confirm(before)
        return self._question(before)

    def answer(self, key: OptionKey) -> None:
        """Answer the question with the key of an option."""
        before = self.walk
        self.walk = answer(before, key)
        self._confirm(before)

    @property
    def to_validate(self) -> tuple[Finding, ...]:
        """The findings that a validator must look at before the walk continues."""
        return findings_to_validate(self.walk) if self.walk.step is Step.VALIDATING else ()

    def record_validations(self, results: Mapping[FindingId, Validation]) -> None:
        """Continue with what a validator said, by the ids of the findings."""
        self.walk = record_validations(self.walk, results)

    def _question(self, walk: Walk) -> Question:
        asked = question(walk)
        if asked.plan:
            return replace(asked, details=f"```\n{asked.plan}\n```")
        item = walk.item if asked.finding else None
        return replace(asked, details=details(item, self.excerpts(item.finding))) if item else asked

    def _confirm(self, before: Walk) -> None:
        """Confirm a decision that a person made just now, and every ticket; a plan was shown before."""
        if before.step not in (Step.ASKING, Step.FILING, Step.FAILED):
            return
        decision = self.walk.decisions.get(before.item.finding.id)
        if decision and (decision.action == Action.DEFER or not before.plan):
            self.tell(confirmation(before.item, Action(decision.action), decision.ref))

    @property
    def tickets(self) -> tuple[str, ...]:
        """The tickets that were filed: they stay, whatever becomes of the walk."""
        return tuple(attempt.reference for attempt in self.walk.tickets if attempt.reference)


def open_walk(
    ledger: Ledger,
    trackers: TrackerChain,
    artifacts: Path | None = None,
    *,
    route: Route | None = Route.EACH,
    wanted: Callable[[Finding], bool] = lambda _finding: True,
    advisory: bool = False,
    validates: bool = False,
    confirms: bool = False,
    seed_wording: bool = False,
) -> Walk:
    """Return a walk through the open findings that are wanted; without a route it asks for one.

    No tracker is looked for if there is nothing to decide.
    """
    findings = pending_findings(filter(wanted, open_findings(ledger)), advisory=advisory)
    if route is Route.MUST:
        findings = [finding for finding in findings if finding.gate.value is Gate.MUST]
    status = trackers.status() if findings else NO_TRACKER
    returns = read_artifacts(artifacts, findings) if artifacts else {}
    items = tuple(_item(finding, ledger, status, artifacts, returns) for finding in findings)
    return begin(items, status, ledger, route=route, validates=validates, confirms=confirms, seed_wording=seed_wording)


def pending_findings(findings: Iterable[Finding], *, advisory: bool = False) -> list[Finding]:
    """Return the open findings of this change that need a decision, most severe first; advice only if asked for."""
    classes = {AutofixClass.GATED_AUTO, AutofixClass.MANUAL} | ({AutofixClass.ADVISORY} if advisory else set())
    found = [
        finding
        for finding in findings
        if finding.autofix_class in classes
        and finding.state.active
        and not finding.pre_existing
        and passes(finding.severity, finding.confidence)
    ]
    return sorted(found, key=lambda finding: (P_LEVEL[finding.severity], importance(finding)))


def safe_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the open findings of this change that are fixed without a decision."""
    return [
        finding
        for finding in findings
        if finding.autofix_class is AutofixClass.SAFE_AUTO
        and finding.state.active
        and not finding.pre_existing
        and passes(finding.severity, finding.confidence)
    ]


def decision_events(walk: Walk, at: str, by: str, run: str = "") -> list[LedgerEvent]:
    """Return what was decided, for the ledger. A walk that is not done has decided nothing."""
    if walk.step is not Step.DONE:
        return []
    return [
        DecisionMade(at=at, id=id, decision=replace(decision, at=at, by=by, run=run))
        for id, decision in walk.decisions.items()
    ]


def is_settled(finding: Finding, run: str) -> bool:
    """Whether a finding was deferred, skipped or acknowledged in a run: it is not asked about again there."""
    made = [decision for decision in finding.decisions if decision.run == run] if run else []
    return bool(made) and made[-1].action != Action.APPLY


def decided_walk(ledger: Ledger, findings: Iterable[Finding], run: str = "", fixes: Fixes | None = None) -> Walk:
    """Return a finished walk that made the last decisions on some findings, with what became of the fixes since."""
    decisions, made, failed = dict[FindingId, Decision](), set[FindingId](), dict[FindingId, str]()
    shown = list(findings)
    for finding in shown:
        decisions[finding.id] = finding.decisions[-1]
        attempts = [attempt for attempt in finding.attempts if attempt.run == run]
        if finding.state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED):
            made.add(finding.id)
        elif attempts and attempts[-1].outcome != "claimed":
            failed[finding.id] = ", ".join(filter(None, (attempts[-1].outcome.replace("_", " "), attempts[-1].what)))
    items = tuple(_item(finding, ledger, NO_TRACKER, None, {}) for finding in shown)
    return Walk(
        items,
        NO_TRACKER,
        ledger,
        step=Step.DONE,
        position=len(items),
        decisions=decisions,
        fixes=fixes or Fixes(frozenset(made), failed),
    )


def triage_of_run(ledger: Ledger, run: str) -> Walk | None:
    """Return what was decided in the triage of a run as a finished walk; None if nothing was."""
    findings = [finding for finding in ledger if finding.decisions and finding.decisions[-1].run == run]
    by_level = sorted(findings, key=lambda finding: (P_LEVEL[finding.severity], importance(finding)))
    return decided_walk(ledger, by_level, run) if run and by_level else None


def read_artifacts(directory: Path, findings: Iterable[Finding]) -> dict[str, tuple[RawFinding, ...]]:
    """Return the whole returns of the reviewers who reported some findings; unreadable ones are left out."""
    found: dict[str, tuple[RawFinding, ...]] = {}
    for name in dict.fromkeys(name for finding in findings for name in _reviewers(finding)):
        try:
            content = read_file(directory / f"{name}.json") if Path(name).name == name else None
        except (OSError, ValueError, NotAFile):  # the report counts what is missing
            continue
        if content is not None:
            found[name] = FORMATS["review"].read(content, reviewer=name).findings
    return found


def _item(
    finding: Finding,
    ledger: Ledger,
    trackers: TrackerStatus,
    artifacts: Path | None,
    returns: Mapping[str, tuple[RawFinding, ...]],
) -> WalkItem:
    """Return a finding with what it says, else what the first of its reviewers says whose return has it."""
    reviewer, raw = next(_reported(finding, returns), ("", None))
    impact = finding.impact or (raw.impact if raw else "")
    shown = f"awf findings show {finding.number or finding.id}"
    return WalkItem(
        finding,
        recommend(finding, trackers),
        impact=impact,
        why_it_works=finding.why_it_works or (raw.why_it_works if raw else ""),
        pointer=f"{artifacts}/{reviewer}.json → findings[].suggested_fix" if raw else shown,
        skip_reason=skip_reason(finding, impact),
        unexplained_by=() if impact else _reviewers(finding),
        same_as=tuple(other.number for id in finding.may_be if (other := ledger.find(id))),
        members=tuple(ledger.members(finding.id)),
    )


def _reviewers(finding: Finding) -> tuple[str, ...]:
    return tuple(dict.fromkeys(vote.reviewer for vote in finding.votes)) or finding.sources


def _reported(finding: Finding, returns: Mapping[str, tuple[RawFinding, ...]]) -> Iterator[tuple[str, RawFinding]]:
    """A finding as its reviewers returned it: in the same file, at most three lines away, with the same title."""
    here = finding.location
    if here is None:
        return
    for name in _reviewers(finding):
        titles = {norm_title(finding.title), *(norm_title(one.title) for one in finding.votes if one.reviewer == name)}
        for raw in returns.get(name, ()):
            there = raw.locations[0] if raw.locations else None
            near = there and here.path == there.path and abs((here.start or 0) - (there.start or 0)) <= _NEAR
            if near and norm_title(raw.title) in titles:
                yield name, raw


def run_fixer(
    command: Sequence[str], root: Path, environ: Mapping[str, str], members: Members, findings: Sequence[Finding]
) -> Fixes:
    """Make fixes with one run of a program, which reads the findings and says what became of each.

    Without a command nothing is fixed.
    """
    if not command:
        return Fixes()
    try:
        done = run_program(
            command,
            env=environ,
            cwd=root,
            stdin=fixer_prompt(findings, members).encode(errors="replace"),
            timeout=_FIXER_SECONDS,
            inherit_stderr=True,
        )
    except OSError as error:
        return read_fixes(findings, "", f"{command[0]}: {error.strerror}")
    error_text = f"the fixer exited with code {done.returncode}" if done.returncode else ""
    return read_fixes(findings, done.stdout.decode(errors="replace"), error_text)


def fixer_prompt(findings: Sequence[Finding], members: Members) -> str:
    """What a fixer is given: all findings at once, since one fix may affect another."""
    return f"{TASK}\n\n{findings_section(findings, _MAX_PROMPT, members)}\n"


def read_fixes(findings: Sequence[Finding], said: str, error: str = "") -> Fixes:
    """What became of the fixes by a fixer's own words. What it does not mention has failed."""
    ids = {finding.number: finding.id for finding in findings}
    answers = tuple(one for one in read_answers(said) if one.number in ids)
    failed = dict.fromkeys(ids.values(), error or "the fixer did not mention it")
    for one in answers:
        failed[ids[one.number]] = ", ".join(filter(None, (one.word.replace("_", " "), one.why)))
    made = frozenset(ids[one.number] for one in answers if one.word == "fixed")
    return Fixes(made, {id: reason for id, reason in failed.items() if id not in made}, answers)


def fix_events(fixes: Fixes, ledger: Ledger, at: str, by: str = "fixer") -> Iterator[LedgerEvent]:
    """Return the attempts and claims of a fixer, for the ledger."""
    yield from fixer_events(fixes.answers, ledger, run="", round=1, by=by, at=at)
    answered = {answer.number for answer in fixes.answers}
    for id, reason in fixes.failed.items():
        if ledger.findings[id].number not in answered:
            attempt = FixAttempt(round=1, by=by, what=reason, outcome="not_fixed")
            yield FixAttempted(at=at, id=id, attempt=attempt)
