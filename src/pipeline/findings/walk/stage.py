"""Triage stages: whoever is there decides on the open findings one by one, or the run waits.

Decisions go on record with the stage. Whoever stops before its end has decided nothing; tickets that were filed stay.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.errors import AwfError
from pipeline.findings.keys import ReviewKey
from pipeline.findings.model import Actor
from pipeline.findings.trackers import OpenTracker, TrackerContext, all_trackers
from pipeline.findings.trackers.chain import Chain
from pipeline.findings.walk.machine import Question, decisions
from pipeline.findings.walk.present import Fixes, OptionKey, Walk, count_of, one_line, parse_choice
from pipeline.findings.walk.report import WalkReport, counts, markdown
from pipeline.findings.walk.session import Session, open_walk

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings


_SHOWN = 60  # characters of an answer


@dataclass(slots=True)
class RecordedAnswers:
    """Answers, and how many of them were given."""

    words: Sequence[str]
    given: int = 0

    @property
    def left(self) -> int:
        """How many were not asked for."""
        return len(self.words) - self.given

    def choose(self, question: Question) -> OptionKey | None:
        """The next answer, which must be one of the options; None when there is no more."""
        if not self.left:
            return None
        word = self.words[self.given]
        self.given += 1
        if (key := parse_choice(question.options, word)) is None:
            keys = ", ".join(option.key for option in question.options)
            asked = question.stem.split("\n", 1)[0]
            message = f'answer {self.given}, "{one_line(word, _SHOWN)}", is no answer to: {asked}'
            raise AwfError(message, help=f"one of {keys}")
        return key


def answers_for_visit(given: Sequence[Any], visit: int) -> Sequence[str]:
    """What was written for one visit of a stage: the visit's list of words. Words in no list are for the first."""
    visits = given if any(isinstance(one, list) for one in given) else [[*given]]
    found = visits[visit - 1] if visit <= len(visits) else []
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AwfError(f"the answers to visit {visit} are no list of words", help='write ["apply", "skip"]')
    return words


_ONWARD = (
    OptionKey.REST,
    OptionKey.PROCEED,
    OptionKey.FALLBACK,
)  # what accepts all that is recommended, wherever it is offered


class Decider(Protocol):
    """Somebody who may be asked."""

    @property
    def source(self) -> StatusSource:
        """Where their decisions come from."""

    async def choose(self, question: Question) -> OptionKey | None:
        """The option they choose; None when they have no answer."""

    def tell(self, line: str) -> None:
        """Let them know what was done."""

    def leave(self) -> None:
        """Let them go: nothing more is asked."""


class _Absent:
    """Somebody who is not there to hear anything."""

    def tell(self, line: str) -> None:
        """Say it to nobody."""

    def leave(self) -> None:
        """Nobody has to go."""


@dataclass(frozen=True, slots=True)
class ByFile(_Absent):
    """Whoever wrote down answers."""

    written: RecordedAnswers
    source: StatusSource = StatusSource.HUMAN

    async def choose(self, question: Question) -> OptionKey | None:
        """The next answer."""
        return self.written.choose(question)


@dataclass(frozen=True, slots=True)
class AsRecommended(_Absent):
    """A word given in advance: every recommendation is accepted, and no ticket is given up while a tracker is left."""

    source: StatusSource = StatusSource.OVERRIDE

    async def choose(self, question: Question) -> OptionKey | None:
        """All of the rest where that is offered, else what is recommended."""
        keys = [option.key for option in question.options]
        marked = next((option.key for option in question.options if option.marked), keys[0])
        return next((key for key in _ONWARD if key in keys), marked)


@dataclass(slots=True)
class Panel:
    """Everybody who may decide at one visit: each question goes to the first who has an answer."""

    deciders: Sequence[Decider]
    heard: set[StatusSource] = field(default_factory=set)  # where decisions came from so far

    async def choose(self, question: Question) -> OptionKey | None:
        """The answer of the first who has one; None when nobody has."""
        for decider in self.deciders:
            if (key := await decider.choose(question)) is not None:
                self.heard.add(decider.source)
                return key
        return None

    @property
    def source(self) -> StatusSource:
        """Where the whole decision comes from: once a person was bypassed, it is nobody's."""
        asked = (StatusSource.OVERRIDE, StatusSource.HUMAN)
        return next((source for source in asked if source in self.heard), StatusSource.DEFAULT)

    def tell(self, line: str) -> None:
        """Let all of them know what was done."""
        for decider in self.deciders:
            decider.tell(line)

    def leave(self) -> None:
        """Let all of them go."""
        for decider in self.deciders:
            decider.leave()


class TriageHandler:
    """Walks through what is open with whoever is there. No fix is made here: that is for where `apply` leads."""

    def __init__(
        self,
        clerk: "RunFindings",
        environ: Mapping[str, str],
        trackers: Callable[[], Mapping[str, OpenTracker]],
        present: Sequence[Decider],
    ) -> None:
        self._clerk = clerk
        self._environ = environ
        self._trackers = trackers  # that plugins bring
        self._present = present  # at the terminal

    async def run(self, job: Job) -> Outcome | Waiting:
        """Ask until all is decided; the outcome says whether there is something to fix."""
        try:
            return await self._decided(job)
        except AwfError as error:  # an answer that fits no question
            help = f"; {error.help}" if error.help else ""
            return Outcome(status=Status.ERROR, reason=f"{error.message}{help}")

    async def _decided(self, job: Job) -> Outcome | Waiting:
        written = RecordedAnswers(answers_for_visit(_answers(job), job.visit))
        advance = [AsRecommended()] if job.state.options.get("auto_approve") else []
        panel = Panel([ByFile(written), *advance, *self._present])
        chain = Chain(TrackerContext(job.directory, job.store, self._environ), trackers=all_trackers(self._trackers()))
        confirms = not (written.words or advance)  # who answers beforehand cannot know what a tracker is called
        session = Session(open_walk(self._clerk.ledger(), chain, confirms=confirms), panel.tell, chain, _nothing_yet)
        report = await _through(session, panel)
        if report is None:
            return Waiting()
        by = Actor.ORCHESTRATOR if panel.source is StatusSource.OVERRIDE else Actor.USER
        walk = session.walk
        self._clerk.hold(job.stage.id, job.visit, lambda at: decisions(walk, at, str(by)))
        in_words = sum(1 for one in job.context.list_at(ReviewKey.REPORTS) if not _has_findings(one))
        return _outcome(walk, report, panel.source, written.left, in_words)


async def _through(session: Session, panel: Panel) -> WalkReport | None:
    """Ask everything there is to ask; None when somebody is needed and nobody is there."""
    try:
        return await _asked(session.talk(), panel)
    except asyncio.CancelledError:
        panel.tell("Stopped: every decision is discarded, and nothing was recorded.")
        if session.tickets:
            panel.tell("\n  ".join(["Tickets that were filed stay:", *session.tickets]))
        raise
    finally:
        panel.leave()


async def _asked(talk: Generator[Question, OptionKey, WalkReport], panel: Panel) -> WalkReport | None:
    try:
        question = next(talk)
        while (key := await panel.choose(question)) is not None:
            question = talk.send(key)
    except StopIteration as over:
        report: WalkReport = over.value
        return report
    return None


def _has_findings(report: object) -> bool:
    return isinstance(report, dict) and bool(report.get("findingIds"))


def _outcome(walk: Walk, report: WalkReport, source: StatusSource, left: int, in_words: int) -> Outcome:
    """The outcome of a walk. Reports `in_words` cannot be walked through: they go to the fix, never to the exit."""
    ids = [str(id) for id in walk.accepted]
    unasked = f"{count_of(left, 'answer')} left over: so many questions were not asked"
    unwalked = f"{count_of(in_words, 'report')} without findings to decide on; fixed like any other"
    return Outcome(
        status=Status.SUCCESS,
        source=source,
        reason=unwalked if in_words and not ids else report.nothing or counts(report),
        response=markdown(report),
        updates={ReviewKey.CHOSEN: ids} if ids else {},
        preferred_label="apply" if ids or in_words else "done",
        notes=(*((unasked,) if left else ()), *((unwalked,) if in_words else ())),
    )


def _answers(job: Job) -> Sequence[object]:
    found: Sequence[object] = (job.state.options.get("answers") or {}).get(job.stage.id, ())
    return found


def _nothing_yet(findings: Sequence[object]) -> Fixes:
    """Leave the fixes to the stage that comes next."""
    del findings
    return Fixes()
