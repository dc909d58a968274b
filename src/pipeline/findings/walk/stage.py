"""Triage stages: people decide on the open findings one by one, or the run waits.

Decisions are recorded with the stage. If a triage is stopped before its end nothing was decided; filed tickets stay.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.errors import AwfError
from pipeline.findings.keys import ReviewKey
from pipeline.findings.model import Actor, Finding
from pipeline.findings.trackers import OpenTracker, TrackerContext, all_trackers
from pipeline.findings.trackers.chain import TrackerChain
from pipeline.findings.walk.machine import Fixes, OptionKey, Walk
from pipeline.findings.walk.present import Question, one_line, parse_choice
from pipeline.findings.walk.report import render_report, summarize
from pipeline.findings.walk.session import Session, decision_events, open_walk
from pipeline.text import plural

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings


class Decider(Protocol):
    """Someone who may answer the questions of a triage."""

    @property
    def source(self) -> StatusSource:
        """Where the decisions come from."""

    async def choose(self, question: Question) -> OptionKey | None:
        """Return the chosen option, or None without an answer."""

    def tell(self, line: str) -> None:
        """Say what was done."""

    def leave(self) -> None:
        """Nothing more is asked."""


class _Absent:
    """Someone who does not need to know what was done."""

    def tell(self, line: str) -> None:
        """Ignore it."""

    def leave(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class RecordedAnswers(_Absent):
    """Answers that were written down beforehand: one for each question, in the order in which they are asked."""

    words: Sequence[str]
    given: int = 0
    source: StatusSource = StatusSource.HUMAN

    @property
    def left(self) -> int:
        """How many answers were not asked for."""
        return len(self.words) - self.given

    async def choose(self, question: Question) -> OptionKey | None:
        return self.next_answer(question)

    def next_answer(self, question: Question) -> OptionKey | None:
        """Return the next answer, or None after the last. Raises AwfError if it is not one of the options."""
        if not self.left:
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
class RecommendedAnswers(_Absent):
    """Accepts every recommendation; no ticket is given up while a tracker is left."""

    source: StatusSource = StatusSource.OVERRIDE

    async def choose(self, question: Question) -> OptionKey | None:
        recommended = [option.key for option in question.options if option.recommended]
        preferred = (OptionKey.REST, OptionKey.PROCEED, OptionKey.FALLBACK, *recommended)
        offered = {option.key for option in question.options}
        return next(key for key in preferred if key in offered)


@dataclass(slots=True)
class Deciders:
    """Everyone who may decide at one visit: each question goes to the first who has an answer."""

    deciders: Sequence[Decider]
    heard: set[StatusSource] = field(default_factory=set)

    async def choose(self, question: Question) -> OptionKey | None:
        """Return the first answer, or None if nobody has one."""
        for decider in self.deciders:
            key = await decider.choose(question)
            if key is not None:
                self.heard.add(decider.source)
                return key
        return None

    @property
    def source(self) -> StatusSource:
        """The source of the whole decision: once a person was bypassed, it is not a person's."""
        order = (StatusSource.OVERRIDE, StatusSource.HUMAN)
        return next((source for source in order if source in self.heard), StatusSource.DEFAULT)

    def tell(self, line: str) -> None:
        """Say to all of them what was done."""
        for decider in self.deciders:
            decider.tell(line)

    def leave(self) -> None:
        """Nothing more is asked of any of them."""
        for decider in self.deciders:
            decider.leave()


class TriageHandler:
    """Runs triage stages. No fix is made here: that is for the stage that `apply` leads to."""

    def __init__(
        self,
        findings: "RunFindings",
        environ: Mapping[str, str],
        trackers: Callable[[], Mapping[str, OpenTracker]],
        deciders: Sequence[Decider],
    ) -> None:
        self._findings = findings
        self._environ = environ
        self._trackers = trackers  # of plugins
        self._deciders = deciders  # at the terminal

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
        automatic = [RecommendedAnswers()] if job.state.options.get("auto_approve") else []
        deciders = Deciders([recorded, *automatic, *self._deciders])
        context = TrackerContext(job.directory, job.store, self._environ)
        chain = TrackerChain(context, trackers=all_trackers(self._trackers()))
        confirms = not (recorded.words or automatic)  # who answers beforehand cannot know a tracker's name
        walk = open_walk(self._findings.ledger(), chain, confirms=confirms)
        session = Session(walk, deciders.tell, chain, _leave_to_next_stage)
        if not await _decide(session, deciders):
            return Waiting()
        walk = session.walk
        by = Actor.ORCHESTRATOR if deciders.source is StatusSource.OVERRIDE else Actor.USER
        self._findings.hold(job.stage.id, job.visit, lambda at: decision_events(walk, at, str(by)))
        prose = sum(not _has_findings(report) for report in job.context.list_at(ReviewKey.REPORTS))
        return _outcome(walk, deciders.source, unused=recorded.left, prose=prose)


async def _decide(session: Session, deciders: Deciders) -> bool:
    """Put every question to the deciders; False if nobody answers one."""
    try:
        return await _converse(session.converse(), deciders)
    except asyncio.CancelledError:
        deciders.tell("Stopped: every decision is discarded, and nothing was recorded.")
        if session.tickets:
            deciders.tell("\n  ".join(["Tickets that were filed stay:", *session.tickets]))
        raise
    finally:
        deciders.leave()


async def _converse(conversation: Generator[Question, OptionKey, None], deciders: Deciders) -> bool:
    try:
        question = next(conversation)
        while (key := await deciders.choose(question)) is not None:
            question = conversation.send(key)
    except StopIteration:
        return True
    return False


def _has_findings(report: object) -> bool:
    return isinstance(report, dict) and bool(report.get("findingIds"))


def _outcome(walk: Walk, source: StatusSource, *, unused: int, prose: int) -> Outcome:
    """Return the outcome of a walk. Reports in prose cannot be walked through: they go to the fix, not to the exit."""
    ids = [str(finding.id) for finding in walk.accepted]
    notes = [f"{plural(unused, 'answer')} left over: fewer questions were asked"] if unused else []
    in_prose = f"{plural(prose, 'report')} without findings to decide on; fixed like any other"
    return Outcome(
        status=Status.SUCCESS,
        source=source,
        reason=in_prose if prose and not ids else summarize(walk),
        response=render_report(walk),
        updates={ReviewKey.CHOSEN: ids} if ids else {},
        preferred_label="apply" if ids or prose else "done",
        notes=(*notes, *([in_prose] if prose else [])),
    )


def _leave_to_next_stage(findings: Sequence[Finding]) -> Fixes:
    del findings
    return Fixes()


def answers_for_visit(given: Sequence[Any], visit: int) -> Sequence[str]:
    """Return the answers for one visit of a stage: its list of words. Words outside a list are for the first visit."""
    visits = given if any(isinstance(one, list) for one in given) else [[*given]]
    found = visits[visit - 1] if visit <= len(visits) else []
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AwfError(f"the answers for visit {visit} must be a list of words", help='write ["apply", "skip"]')
    return words
