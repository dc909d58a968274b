"""Triage stages: whoever is there decides on the open findings one by one, or the run waits.

Decisions go on record with the stage. Whoever stops before its end has decided nothing; tickets that were filed stay.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.errors import AwfError
from pipeline.findings.keys import ReviewKey
from pipeline.findings.model import Actor
from pipeline.findings.trackers.chain import Chain
from pipeline.findings.trackers.registry import Open, TrackerContext, with_brought
from pipeline.findings.walk.deciders import AsRecommended, ByFile, Decider, Panel
from pipeline.findings.walk.effects import Question
from pipeline.findings.walk.machine import decisions
from pipeline.findings.walk.menu import OptionKey
from pipeline.findings.walk.report import WalkReport
from pipeline.findings.walk.session import Session, opened
from pipeline.findings.walk.state import Fixes, Walk
from pipeline.findings.walk.telling import counts, markdown
from pipeline.findings.walk.wording import counted
from pipeline.findings.walk.written import RecordedAnswers, of_visit

if TYPE_CHECKING:
    from pipeline.findings.clerk import Clerk


class TriageHandler:
    """Walks through what is open with whoever is there. No fix is made here: that is for where `apply` leads."""

    def __init__(
        self,
        clerk: "Clerk",
        environ: Mapping[str, str],
        trackers: Callable[[], Mapping[str, Open]],
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
        written = RecordedAnswers(of_visit(_answers(job), job.visit))
        advance = [AsRecommended()] if job.state.options.get("auto_approve") else []
        panel = Panel([ByFile(written), *advance, *self._present])
        chain = Chain(TrackerContext(job.directory, job.store, self._environ), trackers=with_brought(self._trackers()))
        confirms = not (written.words or advance)  # who answers beforehand cannot know what a tracker is called
        session = Session(opened(self._clerk.ledger(), chain, confirms=confirms), panel.tell, chain, _nothing_yet)
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
    unasked = f"{counted(left, 'answer')} left over: so many questions were not asked"
    unwalked = f"{counted(in_words, 'report')} without findings to decide on; fixed like any other"
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
