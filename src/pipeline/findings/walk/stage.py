"""Triage stages: people decide on the open findings one by one, or the run waits.

Decisions are recorded with the stage. If a triage is stopped before its end nothing was decided; filed tickets stay.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.engine.outcome import Outcome, Status, StatusSource, Usage
from pipeline.engine.ports import AgentQuestion, HumanAnswer, Job, Mailbox, Waiting
from pipeline.errors import AwfError
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.fix_prompt import stages_in_prose
from pipeline.findings.keys import ReviewKey
from pipeline.findings.ledger import open_lines
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, FindingId
from pipeline.findings.places import follow_renames
from pipeline.findings.review_options import review_options
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import OpenTracker, TrackerContext
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import Session, decide, decision_events, open_walk
from pipeline.findings.walk.state import Action, Choice, Route, Validation, Walk, is_settled
from pipeline.findings.walk.validation import VALIDATE, VALIDATED, validate_lines
from pipeline.handlers.questions import (
    AutoApprove,
    Decided,
    RecordedAnswers,
    Responder,
    ResponderChain,
    answer_for_visit,
)
from pipeline.language.model import LlmStage, TriageStage
from pipeline.redaction import redactor_of
from pipeline.text import plural

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings


DECIDED = "decided"  # the option of an answer that holds decisions


def decisions_answer(
    run_id: str, stage: str, visit: int, choices: Mapping[FindingId, Choice], by: str, at: float
) -> HumanAnswer:
    """Return what was decided elsewhere as an answer for the mailbox of a waiting run."""
    actions = {id: choice.action for id, choice in choices.items()}
    return HumanAnswer(run_id, stage, visit, DECIDED, json.dumps(actions), by, at)


def read_decisions(answer: HumanAnswer | None) -> dict[str, Action] | None:
    """Return the decisions in an answer, by line of work; None without an answer. Raises AwfError if it is malformed.

    A person may have decided nothing: that ends the stage as well.
    """
    if answer is None or answer.option != DECIDED:
        return None
    try:
        return {id: Action(action) for id, action in json.loads(answer.feedback).items()}
    except (ValueError, AttributeError) as error:
        raise AwfError(f"the decisions that {answer.by or 'someone'} left cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class TriageHandler:
    """Runs triage stages. No fix is made here: that is for the stage that `apply` leads to."""

    findings: "RunFindings"
    environ: Mapping[str, str]
    trackers: Callable[[], Mapping[str, OpenTracker]]  # of plugins
    people: Sequence[Responder]
    mailbox: Mailbox | None = None  # with what people decide elsewhere

    async def run(self, job: Job) -> Outcome | Waiting:
        """Ask until everything is decided; the outcome says whether there is something to fix."""
        try:
            return await self._triage(job)
        except AwfError as error:  # an answer that fits no question
            help = f"; {error.help}" if error.help else ""
            return Outcome(status=Status.ERROR, reason=f"{error.message}{help}")

    async def _triage(self, job: Job) -> Outcome | Waiting:
        stage = job.stage
        assert isinstance(stage, TriageStage)  # noqa: S101 - the stage of this handler
        decided = read_decisions(self.mailbox.answer(job.run_id, stage.id, job.visit) if self.mailbox else None)
        recorded = RecordedAnswers(answers_for_visit(job.state.options.get("answers") or {}, stage.id, job.visit))
        approves = stage.route == "must" or bool(job.state.options.get("auto_approve"))
        panel = ResponderChain([Decided(decided or {}), recorded, *([AutoApprove()] if approves else self.people)])
        context = TrackerContext(job.directory, job.store, self.environ)
        chain = TrackerChain(context, stage.tracker or "", all_trackers(self.trackers()))
        ledger = self.findings.ledger()

        def is_wanted(line: Line) -> bool:
            return not is_settled(line, job.run_id) if decided is None else line.id in decided

        begun = open_walk(
            ledger,
            chain,
            route=Route(stage.route) if decided is None else Route.EACH,
            wanted=is_wanted,
            follow=lambda lines: follow_renames(lines, ledger, job.directory, self.environ),
            advisory=stage.advisory,
            validates=stage.validation,
            confirms=decided is None and not recorded.words and not approves,  # else the tracker was not known
        )
        excerpts = partial(read_excerpts, root=job.directory, redactor=redactor_of(self.environ))
        session, validator = Session(begun, chain, panel.tell, excerpts), JobValidator(job, stage.validator)
        try:
            done = await decide(session, panel, validator.validate)
        finally:
            if session.outcome is None:
                for line in session.discarded():
                    panel.tell(line)
            panel.leave()
        if done is None:
            return Waiting()
        by, who = Actor.USER, "user"
        if session.source is StatusSource.OVERRIDE:
            by, who = Actor.ORCHESTRATOR, stage.id
        self.findings.hold(
            stage.id, job.visit, lambda at: list(decision_events(done, at, who=who, by=by, run=job.run_id))
        )
        outcome = _outcome(done, session.source, unused=recorded.remaining, prose=_in_prose(done, job))
        return outcome.model_copy(update={"usage": validator.usage, "notes": (*outcome.notes, *validator.problems)})


@dataclass(slots=True)
class JobValidator:
    """Validates findings with an agent of the run, and adds up what that cost."""

    job: Job
    agent: LlmStage
    usage: Usage | None = None
    problems: dict[str, None] = field(default_factory=dict)  # why an agent gave no answer, each once

    async def validate(self, lines: Sequence[Line]) -> Mapping[FindingId, Validation]:
        """Ask about each line of work."""
        return await validate_lines(lines, review_options(self.job.state).base, self._ask)

    async def _ask(self, number: int, _line: Line, text: str) -> str:
        question = AgentQuestion(self.agent, VALIDATE, number, text, VALIDATED)
        outcome = await self.job.ask_agent(self.job, question)
        if outcome.usage:
            self.usage = self.usage.plus(outcome.usage) if self.usage else outcome.usage
        if outcome.failure:
            self.problems[f"not validated: {outcome.reason}"] = None
            return ""
        return outcome.response


def _in_prose(done: Walk, job: Job) -> int:
    """Count the reports that have no findings to decide on."""
    settled = [line for line in open_lines(done.ledger) if is_settled(line, job.run_id)]
    return len(stages_in_prose(job.context, [*settled, *(item.line for item in done.items)]))


def _outcome(walk: Walk, source: StatusSource, *, unused: int, prose: int) -> Outcome:
    """Return the outcome of a walk. Reports in prose cannot be walked through: they go to the fix, not to the exit."""
    ids = [str(finding.id) for line in walk.accepted for finding in line.open_members]
    reason, notes = report_data(walk)["summary"], []
    if unused:
        notes.append(f"{plural(unused, 'answer')} left over: fewer questions were asked")
    if prose:
        notes.append(f"{plural(prose, 'report')} without findings to decide on; fixed like any other")
        reason = reason if ids else notes[-1]
    return Outcome(
        status=Status.SUCCESS,
        source=source,
        reason=reason,
        response=render_report(walk),
        updates={ReviewKey.CHOSEN: ids} if ids else {},
        preferred_label="apply" if ids or prose else "done",
        notes=tuple(notes),
    )


def answers_for_visit(answers: Mapping[str, Sequence[Any]], stage: str, visit: int) -> Sequence[str]:
    """Return the answers for one visit of a stage: a word, or a list of words, one for each question."""
    given = answer_for_visit(answers, stage, visit) or []
    if isinstance(given, dict):
        raise AwfError(f"the answers for visit {visit} must be a list of words", help='write ["apply", "skip"]')
    return [given] if isinstance(given, str) else given
