"""Triage stages: people decide on the open findings one by one, or the run waits.

Decisions are recorded with the stage. If a triage is stopped before its end nothing was decided; filed tickets stay.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.engine.outcome import Outcome, Status, StatusSource, Usage
from pipeline.engine.ports import AgentQuestion, HumanAnswer, Job, Mailbox, Waiting
from pipeline.errors import AwfError
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.model import Actor, Decision, Finding, FindingId
from pipeline.findings.plugin import ReviewKey
from pipeline.findings.review_options import review_options
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import OpenTracker, TrackerContext
from pipeline.findings.walk.machine import Action, Fixes, OptionKey, Reply, Route, Validation, Walk
from pipeline.findings.walk.present import Question, one_line, parse_choice
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import Session, decision_events, is_settled, open_walk
from pipeline.findings.walk.validation import VALIDATE, VALIDATED, Validate, validate_findings
from pipeline.language.model import LlmStage, TriageStage
from pipeline.redaction import redactor_of
from pipeline.text import plural

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings


DECIDED = "decided"  # the option of an answer that holds decisions


def decisions_answer(
    run_id: str, stage: str, visit: int, decisions: Mapping[FindingId, Decision], by: str, at: float
) -> HumanAnswer:
    """Return what was decided elsewhere as an answer for the mailbox of a waiting run."""
    actions = {id: decision.action for id, decision in decisions.items()}
    return HumanAnswer(run_id, stage, visit, DECIDED, json.dumps(actions), by, at)


def read_decisions(answer: HumanAnswer | None) -> dict[str, Action]:
    """Return the decisions in an answer, by finding; empty if it has none. Raises AwfError if it cannot be read."""
    if answer is None or answer.option != DECIDED:
        return {}
    try:
        return {id: Action(action) for id, action in json.loads(answer.feedback).items()}
    except (ValueError, AttributeError) as error:
        raise AwfError(f"the decisions that {answer.by or 'someone'} left cannot be read: {error}") from None


class Decider(Protocol):
    """A person who may answer the questions of a triage, such as at the terminal."""

    async def choose(self, question: Question) -> OptionKey | None:
        """Return the chosen option, or None without an answer."""

    def tell(self, line: str) -> None:
        """Say what was done."""

    def leave(self) -> None:
        """Nothing more is asked."""


@dataclass(slots=True)
class RecordedAnswers:
    """Answers that were written down beforehand: one for each question, in the order in which they are asked."""

    words: Sequence[str]
    given: int = 0

    @property
    def remaining(self) -> int:
        """How many answers were not asked for."""
        return len(self.words) - self.given

    def next_answer(self, question: Question) -> OptionKey | None:
        """Return the next answer, or None after the last. Raises AwfError if it is not one of the options."""
        if not self.remaining:
            return None
        word = self.words[self.given]
        self.given += 1
        key = parse_choice(question.options, word)
        if key is None:
            asked = question.stem.split("\n", 1)[0]
            message = f'answer {self.given}, "{one_line(word, 60)}", is not an answer to: {asked}'
            raise AwfError(message, help=f"choose one of {', '.join(option.key for option in question.options)}")
        return key


@dataclass(slots=True)
class Panel:
    """Who decides at one visit: what was decided elsewhere, recorded answers, auto-approval, then people."""

    decided: Mapping[str, Action]
    recorded: RecordedAnswers
    auto_approve: bool
    people: Sequence[Decider]
    source: StatusSource = StatusSource.DEFAULT  # of all decisions; with auto-approval they are not a person's

    async def choose(self, question: Question) -> OptionKey | None:
        """Return the first answer, or None if nobody has one."""
        offered = {option.key for option in question.options}
        key: OptionKey | None = self.decided.get(question.finding or "")
        key = key if key in offered else self.recorded.next_answer(question)
        if key is None and self.auto_approve:
            self.source = StatusSource.OVERRIDE
            return _approve(question)
        for person in self.people:
            key = key or await person.choose(question)
        if key and self.source is StatusSource.DEFAULT:
            self.source = StatusSource.HUMAN
        return key

    def tell(self, line: str) -> None:
        """Report to the people what was done."""
        for person in self.people:
            person.tell(line)


def _approve(question: Question) -> OptionKey:
    """Accept all recommendations; no ticket is given up while a tracker is left."""
    recommended = [option.key for option in question.options if option.recommended]
    preferred = (Reply.REST, Reply.PROCEED, Reply.FALLBACK, *recommended)
    offered = {option.key for option in question.options}
    return next(key for key in preferred if key in offered)


@dataclass(frozen=True, slots=True)
class TriageHandler:
    """Runs triage stages. No fix is made here: that is for the stage that `apply` leads to."""

    findings: "RunFindings"
    environ: Mapping[str, str]
    trackers: Callable[[], Mapping[str, OpenTracker]]  # of plugins
    people: Sequence[Decider]
    mailbox: Mailbox | None = None  # with what people decide elsewhere

    async def run(self, job: Job) -> Outcome | Waiting:
        """Ask until everything is decided; the outcome says whether there is something to fix."""
        try:
            return await self._triage(job)
        except AwfError as error:  # an answer that fits no question
            help = f"; {error.help}" if error.help else ""
            return Outcome(status=Status.ERROR, reason=f"{error.message}{help}")

    async def _triage(self, job: Job) -> Outcome | Waiting:
        given = (job.state.options.get("answers") or {}).get(job.stage.id, ())
        recorded = RecordedAnswers(answers_for_visit(given, job.visit))
        left = self.mailbox.answer(job.run_id, job.stage.id, job.visit) if self.mailbox else None
        decided = read_decisions(left)
        stage = job.stage
        assert isinstance(stage, TriageStage)  # noqa: S101 - the stage of this handler
        approves = stage.route == "must" or bool(job.state.options.get("auto_approve"))
        panel = Panel(decided, recorded, approves, self.people)
        context = TrackerContext(job.directory, job.store, self.environ)
        chain = TrackerChain(context, stage.tracker or "", all_trackers(self.trackers()))
        walk = open_walk(
            self.findings.ledger(),
            chain,
            route=Route.EACH if decided else None if stage.route == "ask" else Route(stage.route),
            wanted=lambda finding: finding.id in decided if decided else not is_settled(finding, job.run_id),
            advisory=stage.advisory,
            validates=stage.validation,
            # Who answers beforehand cannot know a tracker's name.
            confirms=not (decided or recorded.words or panel.auto_approve),
        )
        excerpts = partial(read_excerpts, root=job.directory, redactor=redactor_of(self.environ))
        session = Session(walk, panel.tell, chain, fixer=lambda _findings: Fixes(), excerpts=excerpts)
        validator = JobValidator(job, stage.validator)
        if not await _decide(session, panel, validator.validate):
            return Waiting()
        walk = session.walk
        by = Actor.ORCHESTRATOR if panel.source is StatusSource.OVERRIDE else Actor.USER
        self.findings.hold(job.stage.id, job.visit, lambda at: decision_events(walk, at, str(by), job.run_id))
        reports = job.context.list_at(ReviewKey.REPORTS)
        settled = [finding for finding in walk.ledger if is_settled(finding, job.run_id)]
        asked = {finding.failing_stage for finding in (*settled, *(item.finding for item in walk.items))}
        prose = sum(
            not (isinstance(report, dict) and (report.get("findingIds") or report.get("stageId") in asked))
            for report in reports
        )
        outcome = _outcome(walk, panel.source, unused=recorded.remaining, prose=prose)
        return outcome.model_copy(update={"usage": validator.usage, "notes": (*outcome.notes, *validator.problems)})


@dataclass(slots=True)
class JobValidator:
    """Validates findings with an agent of the run, and adds up what that cost."""

    job: Job
    agent: LlmStage
    usage: Usage | None = None
    problems: dict[str, None] = field(default_factory=dict)  # why an agent gave no answer, each once

    async def validate(self, findings: Sequence[Finding]) -> Mapping[FindingId, Validation]:
        """Ask about each finding."""
        return await validate_findings(findings, review_options(self.job.state).base, self._ask)

    async def _ask(self, number: int, _finding: Finding, text: str) -> str:
        question = AgentQuestion(self.agent, VALIDATE, number, text, VALIDATED)
        outcome = await self.job.ask_agent(self.job, question)
        if outcome.usage:
            self.usage = self.usage.plus(outcome.usage) if self.usage else outcome.usage
        if outcome.failure:
            self.problems[f"not validated: {outcome.reason}"] = None
            return ""
        return outcome.response


async def _decide(session: Session, panel: Panel, validate: Validate) -> bool:
    """Put every question to the panel; False if nobody answers one."""
    decided = False
    try:
        while not decided:
            if question := session.advance():
                key = await panel.choose(question)
                if key is None:
                    break
                session.answer(key)
            elif findings := session.to_validate:
                panel.tell(f"Checking {plural(len(findings), 'finding')} against the code...")
                session.record_validations(await validate(findings))
            else:
                decided = True
    finally:
        if not decided:
            _tell_discarded(session, panel)
        for person in panel.people:
            person.leave()
    return decided


def _tell_discarded(session: Session, panel: Panel) -> None:
    panel.tell("Stopped: every decision is discarded, and nothing was recorded.")
    if session.tickets:
        panel.tell("\n  ".join(["Tickets that were filed stay:", *session.tickets]))


def _outcome(walk: Walk, source: StatusSource, *, unused: int, prose: int) -> Outcome:
    """Return the outcome of a walk. Reports in prose cannot be walked through: they go to the fix, not to the exit."""
    ids = [str(finding.id) for finding in walk.accepted]
    notes = [f"{plural(unused, 'answer')} left over: fewer questions were asked"] if unused else []
    in_prose = f"{plural(prose, 'report')} without findings to decide on; fixed like any other"
    return Outcome(
        status=Status.SUCCESS,
        source=source,
        reason=in_prose if prose and not ids else report_data(walk)["summary"],
        response=render_report(walk),
        updates={ReviewKey.CHOSEN: ids} if ids else {},
        preferred_label="apply" if ids or prose else "done",
        notes=(*notes, *([in_prose] if prose else [])),
    )


def answers_for_visit(given: Sequence[Any], visit: int) -> Sequence[str]:
    """Return the answers for one visit of a stage: its list of words. Words outside a list are for the first visit."""
    visits = given if any(isinstance(one, list) for one in given) else [[*given]]
    found = visits[visit - 1] if visit <= len(visits) else []
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AwfError(f"the answers for visit {visit} must be a list of words", help='write ["apply", "skip"]')
    return words
