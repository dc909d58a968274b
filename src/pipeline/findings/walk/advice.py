"""What to do about a finding, as its reviewers advise: settled before anybody is asked, and never thought over."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.findings.model import AutofixClass, Finding
from pipeline.findings.walk.sinks import Sinks
from pipeline.findings.walk.wording import flat

_DOUBTFUL = 50  # a confidence below this is told with the advice


class Action(StrEnum):
    """What can be done about a finding, the most careful first: where reviewers differ, the first one stands."""

    SKIP = "skip"  # nothing is done, and it stays open
    DEFER = "defer"  # a ticket
    APPLY = "apply"  # the fixer gets it
    ACKNOWLEDGE = "acknowledge"  # it was read; there is nothing to fix

    @property
    def word(self) -> str:
        """As it is called in a sentence."""
        return self.capitalize()

    @property
    def done(self) -> str:
        """As it is called when it has been done."""
        return {"skip": "Skipped", "defer": "Deferred", "apply": "Applied", "acknowledge": "Acknowledged"}[self]


@dataclass(frozen=True, slots=True)
class Voice:
    """The last thing one reviewer advised."""

    reviewer: str
    action: Action
    doubtful: bool = False

    def __str__(self) -> str:
        """In a sentence."""
        name = flat(self.reviewer, 60)
        doubt = " (low confidence)" if self.doubtful else ""
        return f"{name[:1].upper()}{name[1:]} recommends {self.action.word}{doubt}"


def voices(finding: Finding) -> tuple[Voice, ...]:
    """Who advised what: each reviewer's last word, in the order in which they first spoke."""
    known = set(Action)
    told = {vote.reviewer: vote for vote in finding.votes if vote.action in known}
    return tuple(Voice(name, Action(vote.action), doubtful=vote.confidence < _DOUBTFUL) for name, vote in told.items())


def tie_break(actions: Iterable[Action]) -> Action | None:
    """The most careful of some actions; None when nobody advised any."""
    return min(actions, key=tuple(Action).index, default=None)


def recommended(finding: Finding, sinks: Sinks) -> Action:
    """What is recommended: what reviewers advise, else what the finding itself suggests."""
    if (advised := tie_break(voice.action for voice in voices(finding))) is not None:
        return advised
    if finding.autofix_class is AutofixClass.ADVISORY:
        return Action.ACKNOWLEDGE
    if finding.fix:
        return Action.APPLY
    return Action.DEFER if sinks.any_sink_available else Action.SKIP


def conflict(finding: Finding, before: Action, after: Action, *, sink: bool) -> str:
    """Who differs, and what was made of it; nothing when all agree and nothing was changed for want of a tracker."""
    heard = voices(finding)
    differ = len({voice.action for voice in heard}) > 1
    moved = before is Action.DEFER and after is Action.SKIP and not sink
    parts = [f"{'; '.join(map(str, heard))}."] if differ else []
    parts += ["Stage 5 recommended Defer; downgraded to Skip — no tracker sink available."] if moved else []
    parts += [f"Agent's recommendation: {after.word}."] if differ else []
    return " ".join(parts)
