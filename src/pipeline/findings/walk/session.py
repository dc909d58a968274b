"""A walk with its effects: lines of work are read from the ledger, tickets filed, fixes made, decisions recorded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.engine.outcome import StatusSource
from pipeline.errors import AwfError
from pipeline.files import NotAFile, read_file
from pipeline.findings.events import FindingChanged
from pipeline.findings.excerpts import Excerpt
from pipeline.findings.explanation import said_text
from pipeline.findings.fingerprints import norm_title
from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger, open_lines
from pipeline.findings.lines import NEAR, Line
from pipeline.findings.model import Actor, Change, Draft, Finding, FindingId, FindingState, Gate, What
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TrackerStatus
from pipeline.findings.walk.machine import FileTicket, NextTracker, Tell, Validate, walk
from pipeline.findings.walk.present import details, skip_reason
from pipeline.findings.walk.prose import one_line
from pipeline.findings.walk.state import (
    Action,
    Choice,
    Fixes,
    Route,
    Validation,
    Walk,
    WalkItem,
    by_level,
    pending_lines,
    recommend,
)
from pipeline.findings.walk.validation import Validator
from pipeline.handlers.questions import Question, Reply, Responder
from pipeline.text import plural


class Session:
    """One walk with those who take part in it.

    It carries out every effect but validation, and stops at what it has to wait for: a question, or findings to be
    validated. Its driver sends the answer: `decide` that of a responder, a page that of a form.
    """

    def __init__(
        self,
        begun: Walk,
        trackers: TrackerChain,
        tell: Callable[[str], None],
        excerpts: Callable[[Finding], Sequence[Excerpt]] = lambda _finding: (),  # the code that a finding is about
    ) -> None:
        self.tickets: list[str] = []  # that were filed: they stay, whatever becomes of the walk
        self.outcome: Walk | None = None  # once everything is decided
        self.waiting: Question | Validate | None = None  # what is to be sent next is for this
        self.source = StatusSource.DEFAULT  # of the answers: of one that no person gave, if there is any
        self.tell = tell
        self._steps = walk(begun)
        self._items = {item.id: item for item in begun.items}
        self._safe_fixes = begun.safe_fixes
        self._trackers, self._excerpts = trackers, excerpts

    def advance(self) -> None:
        """Go on to the first question."""
        self._send(None)

    def answer(self, reply: Reply) -> None:
        """Continue with the answer to the question; raise AwfError if it is not one of the options."""
        if not isinstance(self.waiting, Question):
            raise AwfError("nothing was asked", help="look at the walk again")
        if not self.waiting.accepts(reply.option):
            help = f"choose one of {', '.join(self.waiting.keys)}"
            raise AwfError(f'illegal answer "{one_line(reply.option, 60)}"', help=help)
        if self.source is not StatusSource.OVERRIDE:
            self.source = reply.source
        self._send(reply.option)

    def validated(self, results: Mapping[FindingId, Validation]) -> None:
        """Continue with what a validator said; it need not have answered about every finding."""
        self._send(results)

    def discarded(self) -> list[str]:
        """Return what to tell a person if the walk is given up."""
        lines = ["Stopped: every decision is discarded, and nothing was recorded."]
        if self._safe_fixes.said:
            lines = ["Stopped: every decision is discarded. Safe fixes were made before the first question: they stay."]
        if self.tickets:
            lines.append("\n  ".join(["Tickets that were filed stay:", *self.tickets]))
        return lines

    def _send(self, result: Any) -> None:
        """Send an answer, carry out what follows from it, and stop at what has to be waited for."""
        self.waiting = None
        try:
            step = self._steps.send(result)
            while not isinstance(step, Question | Validate):
                step = self._steps.send(self._carry_out(step))
        except StopIteration as stopped:
            self.outcome = stopped.value
            return
        self.waiting = self._with_details(step) if isinstance(step, Question) else step

    def _carry_out(self, effect: FileTicket | NextTracker | Tell) -> Any:
        match effect:
            case Tell():
                return self.tell(effect.text)
            case NextTracker():
                self._trackers.fall_back()
                return self._trackers.status()
            case FileTicket():
                result = self._trackers.file(effect.line)
                if isinstance(result, Filed):
                    self.tickets.append(result.url)
                return result

    def _with_details(self, question: Question) -> Question:
        item = self._items.get(FindingId(question.about))
        if item is None:
            return question
        return replace(question, details=details(item, self._excerpts(item.finding)))


async def decide(session: Session, responder: Responder, validate: Validator) -> Walk | None:
    """Put every question to a responder, and return what was decided; None if a question is not answered."""
    session.advance()
    while session.waiting:
        if isinstance(session.waiting, Validate):
            responder.tell(f"Checking {plural(len(session.waiting.lines), 'finding')} against the code...")
            session.validated(await validate(session.waiting.lines))
            continue
        reply = await responder.ask(session.waiting)
        if reply is None:
            return None
        session.answer(reply)
    return session.outcome


def open_walk(
    ledger: Ledger,
    trackers: TrackerChain,
    artifacts: Path | None = None,
    *,
    route: Route = Route.EACH,
    wanted: Callable[[Line], bool] = lambda _line: True,
    follow: Callable[[Sequence[Line]], Sequence[Line]] = tuple,  # puts them into the files as they are called now
    advisory: bool = False,
    validates: bool = False,
    confirms: bool = False,
    seed_wording: bool = False,
) -> Walk:
    """Return a walk through the open lines of work that are wanted, before its first question.

    No tracker is looked for if there is nothing to decide.
    """
    lines = pending_lines(filter(wanted, open_lines(ledger)), advisory=advisory)
    if route is Route.MUST:
        lines = [line for line in lines if line.gate is Gate.MUST]
    status = trackers.status() if lines else NO_TRACKER
    returns = read_artifacts(artifacts, lines) if artifacts else {}
    items = tuple(walk_item(line, ledger, status, artifacts, returns) for line in follow(lines))
    return Walk(items, status, ledger, route=route, validates=validates, confirms=confirms, seed_wording=seed_wording)


def decision_events(done: Walk, at: str, *, who: str, by: Actor, run: str = "") -> list[FindingChanged]:
    """Return what was decided, for the ledger: a decision on a line of work counts for all its open members."""
    return [
        FindingChanged(
            id=finding.id,
            change=Change(
                at=at,
                what=What.DECISION,
                who=who,
                by=by,
                word=str(choice.action),
                note=choice.reason,
                run=run,
                ref=choice.ref,
            ),
        )
        for id, choice in done.choices.items()
        for finding in done.ledger.line(id).open_members
    ]


def decided_walk(ledger: Ledger, lines: Sequence[Line], run: str = "", fixes: Fixes | None = None) -> Walk:
    """Return a finished walk that made the last decisions on some lines, with what became of the fixes since."""
    made = {line.id: line.decisions[-1] for line in lines if line.decisions}
    choices = {id: Choice(Action(change.word), change.note, change.ref) for id, change in made.items()}
    items = tuple(walk_item(line, ledger, NO_TRACKER) for line in lines)
    return Walk(items, NO_TRACKER, ledger, choices=choices, fixes=fixes or _fixes_since(lines, run))


def _fixes_since(lines: Iterable[Line], run: str) -> Fixes:
    """Return what became of lines of work by their state, and by the last claim about them in a run."""
    made, failed = set[FindingId](), dict[FindingId, str]()
    for line in lines:
        claims = [change for finding in line.members for change in finding.claims if change.run == run]
        if line.state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED):
            made.add(line.id)
        elif claims and claims[-1].word != "fixed":
            failed[line.id] = said_text(claims[-1].word, claims[-1].note)
    return Fixes(frozenset(made), failed)


def triage_of_run(ledger: Ledger, run: str) -> Walk | None:
    """Return what was decided in the triage of a run as a finished walk; None if nothing was."""
    lines = [line for line in ledger.lines() if line.decisions and line.decisions[-1].run == run]
    return decided_walk(ledger, sorted(lines, key=by_level), run) if lines else None


def read_artifacts(directory: Path, lines: Iterable[Line]) -> dict[str, tuple[Draft, ...]]:
    """Return the whole returns of the reviewers who reported some findings; unreadable ones are left out."""
    found: dict[str, tuple[Draft, ...]] = {}
    for name in dict.fromkeys(name for line in lines for name in line.reviewers):
        try:
            content = read_file(directory / f"{name}.json") if Path(name).name == name else None
        except (OSError, ValueError, NotAFile):  # the report counts what is missing
            continue
        if content is not None:
            found[name] = FORMATS["review"].read(content, reviewer=name).drafts
    return found


def walk_item(
    line: Line,
    ledger: Ledger,
    trackers: TrackerStatus,
    artifacts: Path | None = None,
    returns: Mapping[str, tuple[Draft, ...]] = MappingProxyType({}),
) -> WalkItem:
    """Return a line of work with what its findings say, else what the first of its reviewers says in a whole return."""
    members = (line.lead, *line.others)
    whole = [draft for one in members for draft in returns.get(one.reviewer, ()) if _is_same(one, draft)]
    said: list[Finding | Draft] = [*members, *whole]
    impact = next((one.impact for one in said if one.impact), "")
    pointer = f"{artifacts}/{whole[0].reviewer}.json → findings[].suggested_fix" if whole else ""
    doubts = dict.fromkeys(id for one in members for id in one.may_be)
    return WalkItem(
        line,
        recommend(line, trackers),
        impact=impact,
        why_it_works=next((one.why_it_works for one in said if one.why_it_works), ""),
        pointer=pointer or f"awf findings show {line.number}",
        skip_reason=skip_reason(line.lead, impact),
        same_as=tuple(other.number for other in map(ledger.find, doubts) if other),
    )


def _is_same(finding: Finding, draft: Draft) -> bool:
    """Return whether they are in the same file, at most three lines apart, with the same title."""
    here, there = finding.location, draft.location
    if here is None or there is None or abs((here.start or 0) - (there.start or 0)) > NEAR:
        return False
    return (here.path, norm_title(finding.title)) == (there.path, norm_title(draft.title))
