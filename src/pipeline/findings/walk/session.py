"""A walk opened and on its way: what it asks for is done here, by those who are given, and nothing else is done."""

import subprocess
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.findings.answers import Answer, read_answers
from pipeline.findings.fix_prompt import findings_section
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.trackers.ticket import NO_TRACKER, Trackers
from pipeline.findings.walk.machine import (
    Dispatch,
    FallBack,
    File,
    Question,
    Validate,
    WalkDone,
    answer,
    ask,
    begin,
    dispatched,
    fell_back,
    filed,
    validated,
)
from pipeline.findings.walk.present import (
    Action,
    Artifact,
    Fixes,
    OptionKey,
    Route,
    Step,
    Validation,
    Walk,
    confirmation,
    walk_context,
    walk_items,
)
from pipeline.findings.walk.report import WalkReport

TASK = "Fix all findings listed below, in one go. They were accepted by a person; change nothing else."
_ROOM = 100_000  # characters of the findings
_SILENT = "the fixer did not say what became of it"


@dataclass(slots=True)
class FixerProgram:
    """A program that makes fixes in a repository. Without a command all of them stay to be made."""

    command: Sequence[str]
    root: Path
    environ: Mapping[str, str]
    said: list[Answer] = field(default_factory=list)  # what became of each, in its own words

    def __call__(self, findings: Sequence[Finding]) -> Fixes:
        """Run it once for all these findings."""
        if not self.command:
            return Fixes()
        ids = {finding.number: finding.id for finding in findings}
        try:
            done = self._run(f"{TASK}\n\n{findings_section(findings, _ROOM)}\n")
        except OSError as error:
            reason = f"{self.command[0]} cannot be run: {error.strerror}"
            return Fixes(failed=dict.fromkeys(ids.values(), reason))
        self.said += [one for one in read_answers(done.stdout.decode(errors="replace")) if one.number in ids]
        return self._fixes(ids, f"the fixer ended with exit code {done.returncode}" if done.returncode else _SILENT)

    def _run(self, text: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            self.command,
            cwd=self.root,
            env=dict(self.environ),
            input=text.encode(errors="replace"),
            stdout=subprocess.PIPE,
            check=False,
        )

    def _fixes(self, ids: Mapping[int, FindingId], otherwise: str) -> Fixes:
        made = frozenset(ids[one.number] for one in self.said if one.word == "fixed")
        why = {ids[one.number]: ", ".join(filter(None, (one.word.replace("_", " "), one.why))) for one in self.said}
        return Fixes(made, {id: why.get(id, otherwise) for id in ids.values() if id not in made})


Fixer = Callable[[Sequence[Finding]], Fixes]
"""Makes fixes, all in one go."""
Validator = Callable[[Sequence[Finding]], Mapping[FindingId, Validation]]
"""Says of findings, by their ids, whether they hold."""
Choose = Callable[[Question], OptionKey]
"""Gives the option that somebody chose."""


def open_walk(
    ledger: Ledger,
    trackers: Trackers,
    known: Mapping[str, Artifact] | None = None,
    *,
    route: Route | None = Route.EACH,
    advisory: bool = False,
    confirms: bool = False,
) -> Walk:
    """A walk through what is open; without a route it asks for one.

    No tracker is looked for when there is nothing to decide.
    """
    waiting = walk_items(ledger, NO_TRACKER, advisory=advisory)
    sinks = trackers.sinks() if waiting else NO_TRACKER
    items = tuple(
        replace(item, same_as=tuple(other.number for id in item.finding.may_be if (other := ledger.find(id))))
        for item in walk_items((item.finding for item in waiting), sinks, known, advisory=advisory)
    )
    return begin(items, sinks, walk_context(ledger), route=route, confirms=confirms)


@dataclass(slots=True)
class Session:
    """One walk with those who take part in it. Where it stands can be seen at any time, as when it is interrupted."""

    walk: Walk
    tell: Callable[[str], None]  # says to whoever decides what was done
    trackers: Trackers
    fixer: Fixer
    validator: Validator = lambda _findings: {}

    def run(self, choose: Choose) -> WalkReport:
        """Go on until nothing is left to ask or do."""
        talk = self.talk()
        try:
            question = next(talk)
            while True:
                question = talk.send(choose(question))
        except StopIteration as over:
            report: WalkReport = over.value
            return report

    def talk(self) -> Generator[Question, OptionKey, WalkReport]:
        """Every question in its turn, to be sent its answer; all else is done on the way. The report comes last."""
        while not isinstance(coming := ask(self.walk), WalkDone):
            before = self.walk
            self.walk = answer(before, (yield coming)) if isinstance(coming, Question) else self._after(coming)
            for line in _confirmed(before, self.walk):
                self.tell(line)
        return coming.report

    @property
    def tickets(self) -> tuple[str, ...]:
        """The tickets that were made: they stay, whatever becomes of the walk."""
        return tuple(made.reference for made in self.walk.decided.values() if made.action is Action.DEFER)

    def _after(self, coming: File | FallBack | Validate | Dispatch) -> Walk:
        match coming:
            case File():
                return filed(self.walk, self.trackers.file(coming.finding))
            case FallBack():
                self.trackers.fall_back(coming.reason)
                return fell_back(self.walk, self.trackers.sinks())
            case Validate():
                return validated(self.walk, self.validator(coming.findings))
            case Dispatch():
                accepted = set(coming.ids)
                queue = [item.finding for item in self.walk.items if item.finding.id in accepted]
                return dispatched(self.walk, self.fixer(queue))


def _confirmed(before: Walk, after: Walk) -> Iterator[str]:
    """A line for the decision that came with a step; of a plan that was agreed to, only for tickets."""
    if after.decided is before.decided:
        return
    planned = before.step is Step.PREVIEWING or bool(before.plan)
    made = after.decided.get(before.item.finding.id)
    if made and (made.action is Action.DEFER or not planned):
        yield confirmation(before.item, made.action, made.reference)
