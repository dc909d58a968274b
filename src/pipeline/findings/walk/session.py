"""A walk opened and on its way: what it asks for is done here, by those who are given, and nothing else is done."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.block import confirmation
from pipeline.findings.walk.detail import Artifact
from pipeline.findings.walk.effects import Dispatch, FallBack, File, Question, Validate, WalkDone
from pipeline.findings.walk.entry import entry
from pipeline.findings.walk.machine import answer, ask, begin, dispatched, fell_back, filed, validated
from pipeline.findings.walk.menu import OptionKey
from pipeline.findings.walk.report import WalkReport
from pipeline.findings.walk.sinks import NO_SINKS, Trackers
from pipeline.findings.walk.state import Fixes, Route, Step, Validation, Walk, around

Fixer = Callable[[Sequence[Finding]], Fixes]
"""Makes fixes, all in one go."""
Validator = Callable[[Sequence[Finding]], Mapping[FindingId, Validation]]
"""Says of findings, by their ids, whether they hold."""
Choose = Callable[[Question], OptionKey]
"""Gives the option that somebody chose."""


def opened(
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
    waiting = entry(ledger, NO_SINKS, advisory=advisory)
    sinks = trackers.sinks() if waiting else NO_SINKS
    items = tuple(
        replace(item, same_as=tuple(other.number for id in item.finding.may_be if (other := ledger.find(id))))
        for item in entry((item.finding for item in waiting), sinks, known, advisory=advisory)
    )
    return begin(items, sinks, around(ledger), route=route, confirms=confirms)


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
