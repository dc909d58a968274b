"""A walk with its effects: lines of work are read from the ledger, tickets filed, fixes made, decisions recorded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.engine.outcome import StatusSource
from pipeline.errors import AwfError
from pipeline.files import NotAFile, read_file
from pipeline.findings.events import FindingChanged
from pipeline.findings.excerpts import Excerpt
from pipeline.findings.fingerprints import norm_title
from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger, open_lines
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Change, Draft, Finding, FindingId, FindingState, What
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import Effect, FileTicket, Fix, NextTracker, Tell, Validate, walk
from pipeline.findings.walk.present import details, one_line, skip_reason
from pipeline.findings.walk.state import (
    Choice,
    Fixes,
    Route,
    Validation,
    Walk,
    WalkItem,
    by_level,
    last_action,
    must_be_fixed,
    pending_lines,
    recommend,
)
from pipeline.findings.walk.validation import Validator
from pipeline.handlers.questions import Question, Reply, Responder
from pipeline.text import plural

_NEAR = 3  # lines by which two reports of one defect may differ

Result = Reply | Mapping[FindingId, Validation]
Fixer = Callable[[Sequence[Line]], Fixes]
"""Makes fixes, all in one go."""


def no_fixer(_lines: Sequence[Line]) -> Fixes:
    """Make no fix: it is accepted, and made later."""
    return Fixes()


class Session:
    """One walk with those who take part in it.

    It carries out every effect but validation, and stops at what it has to wait for: a question, or findings to be
    validated. Whoever drives it sends the answer.
    """

    def __init__(
        self,
        begun: Walk,
        route: Route | None,
        trackers: TrackerChain,
        tell: Callable[[str], None],
        fixer: Fixer = no_fixer,
        excerpts: Callable[[Finding], Sequence[Excerpt]] = lambda _finding: (),  # the code that a finding is about
    ) -> None:
        self.tickets: list[str] = []  # that were filed: they stay, whatever becomes of the walk
        self.fixing = False  # whether a fixer has begun
        self.outcome: Walk | None = None  # once everything is decided
        self.waiting: Question | Validate | None = None  # what is to be sent next is for this
        self.sources: set[StatusSource] = set()  # of all answers: with auto-approval they are not a person's
        self.tell = tell
        self._steps = walk(begun, route)
        self._items = {item.id: item for item in begun.items}
        self._safe_fixes = begun.safe_fixes
        self._trackers, self._fixer, self._excerpts = trackers, fixer, excerpts

    def advance(self) -> None:
        """Go on to the first question."""
        self._send(None)

    def send(self, result: Result) -> None:
        """Continue with the answer to the question, or with what a validator said.

        Raises AwfError if the answer is not one of the options.
        """
        if not isinstance(result, Reply):
            self._send(result)
            return
        asked = self.waiting
        if not isinstance(asked, Question) or not asked.accepts(result.option):
            expected = f"choose one of {', '.join(asked.keys)}" if isinstance(asked, Question) else "nothing was asked"
            raise AwfError(f'illegal answer "{one_line(result.option, 60)}": {expected}')
        self.sources.add(result.source)
        self._send(result.option)

    def discarded(self) -> list[str]:
        """Return what to tell a person if the walk stops here; nothing if it is done."""
        if self.outcome:
            return []
        if self._safe_fixes.said:
            lines = ["Stopped: every decision is discarded. Safe fixes were made before the first question: they stay."]
        else:
            lines = ["Stopped: every decision is discarded, and nothing was recorded."]
        if self.fixing:
            lines.append("The fixer was running: check what it has changed.")
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

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Tell():
                return self.tell(effect.text)
            case FileTicket():
                return self._file(effect.line)
            case NextTracker():
                self._trackers.fall_back()
                return self._trackers.status()
            case Fix():
                self.fixing = True
                return self._fixer(effect.lines)
            case Validate():
                raise AssertionError(effect)

    def _file(self, line: Line) -> Filed | TicketFailed:
        result = self._trackers.file(line)
        if isinstance(result, Filed):
            self.tickets.append(result.url)
        return result

    def _with_details(self, question: Question) -> Question:
        item = self._items.get(FindingId(question.about))
        if item is None:
            return question
        return replace(question, details=details(item, self._excerpts(item.finding)))


async def respond(waiting: Question | Validate, responder: Responder, validate: Validator | None) -> Result | None:
    """Ask for what a session waits for; None if nobody answers. Without a validator nothing is validated."""
    if isinstance(waiting, Question):
        return await responder.ask(waiting)
    responder.tell(f"Checking {plural(len(waiting.lines), 'finding')} against the code...")
    return await validate(waiting.lines) if validate else {}


def open_walk(
    ledger: Ledger,
    trackers: TrackerChain,
    artifacts: Path | None = None,
    *,
    route: Route | None = Route.EACH,
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
        lines = list(filter(must_be_fixed, lines))
    status = trackers.status() if lines else NO_TRACKER
    returns = read_artifacts(artifacts, lines) if artifacts else {}
    items = tuple(walk_item(line, ledger, status, artifacts, returns) for line in follow(lines))
    return Walk(items, status, ledger, validates=validates, confirms=confirms, seed_wording=seed_wording)


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


def decided_walk(ledger: Ledger, lines: Iterable[Line], run: str = "", fixes: Fixes | None = None) -> Walk:
    """Return a finished walk that made the last decisions on some lines, with what became of the fixes since."""
    shown = list(lines)
    decided = {line.id: _last_choice(line) for line in shown}
    choices = {id: choice for id, choice in decided.items() if choice}
    items = tuple(walk_item(line, ledger, NO_TRACKER) for line in shown)
    return Walk(items, NO_TRACKER, ledger, choices=choices, fixes=fixes or _fixes_since(shown, run))


def _last_choice(line: Line) -> Choice | None:
    action = last_action(line)
    return Choice(action, line.decisions[-1].note, line.decisions[-1].ref) if action else None


def _fixes_since(lines: Iterable[Line], run: str) -> Fixes:
    """Return what became of lines of work by their state, and by the last claim about them in a run."""
    made, failed = set[Any](), dict[Any, str]()
    for line in lines:
        claims = [change for finding in line.members for change in finding.claims if change.run == run]
        if line.state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED):
            made.add(line.id)
        elif claims and claims[-1].word != "fixed":
            failed[line.id] = ", ".join(filter(None, (claims[-1].word.replace("_", " "), claims[-1].note)))
    return Fixes(frozenset(made), failed)


def triage_of_run(ledger: Ledger, run: str) -> Walk | None:
    """Return what was decided in the triage of a run as a finished walk; None if nothing was."""
    lines = [line for line in ledger.lines() if line.decisions and line.decisions[-1].run == run]
    return decided_walk(ledger, sorted(lines, key=by_level), run) if run and lines else None


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
    returns: Mapping[str, tuple[Draft, ...]] | None = None,
) -> WalkItem:
    """Return a line of work with what its findings say, else what the first of its reviewers says in a whole return."""
    members = (line.lead, *line.others)
    draft = next(_returned(members, returns or {}), None)
    impact = next((one.impact for one in members if one.impact), draft.impact if draft else "")
    why = next((one.why_it_works for one in members if one.why_it_works), draft.why_it_works if draft else "")
    pointer = f"{artifacts}/{draft.reviewer}.json → findings[].suggested_fix" if draft else ""
    doubts = dict.fromkeys(id for one in members for id in one.may_be)
    return WalkItem(
        line,
        recommend(line, trackers),
        impact=impact,
        why_it_works=why,
        pointer=pointer or f"awf findings show {line.number or line.id}",
        skip_reason=skip_reason(line.lead, impact),
        unexplained_by=() if impact else line.reviewers,
        same_as=tuple(other.number for other in map(ledger.find, doubts) if other),
    )


def _returned(members: Iterable[Finding], returns: Mapping[str, tuple[Draft, ...]]) -> Iterator[Draft]:
    """Yield the members as their reviewers returned them."""
    for finding in members:
        yield from (draft for draft in returns.get(finding.reviewer, ()) if _is_same(finding, draft))


def _is_same(finding: Finding, draft: Draft) -> bool:
    """Return whether they are in the same file, at most three lines apart, with the same title."""
    here, there = finding.location, draft.location
    if here is None or there is None or here.path != there.path:
        return False
    near = abs((here.start or 0) - (there.start or 0)) <= _NEAR
    return near and norm_title(finding.title) == norm_title(draft.title)
