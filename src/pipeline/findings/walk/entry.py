"""Which findings are put before a person, and in which order: the gravest and surest first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.findings.intake.gate import passes
from pipeline.findings.model import AutofixClass, Finding
from pipeline.findings.scales import P_LEVEL, anchor_of
from pipeline.findings.walk.advice import Action, recommended
from pipeline.findings.walk.detail import NO_DETAIL, Artifact, Detail, detail
from pipeline.findings.walk.sinks import Sinks

_DECIDED_HERE = (AutofixClass.GATED_AUTO, AutofixClass.MANUAL)


@dataclass(frozen=True, slots=True)
class Item:
    """One finding to be decided on, with what is recommended and what is told of it."""

    finding: Finding
    recommended: Action
    detail: Detail = NO_DETAIL
    same_as: tuple[int, ...] = ()  # the numbers of findings that it may be the same as

    @property
    def advisory(self) -> bool:
        """Whether there is nothing to fix."""
        return self.finding.autofix_class is AutofixClass.ADVISORY

    @property
    def level(self) -> str:
        """Its severity, P0 to P3."""
        return P_LEVEL[self.finding.severity]


def entry(
    findings: Iterable[Finding],
    sinks: Sinks,
    artifacts: Mapping[str, Artifact] | None = None,
    *,
    advisory: bool = False,
) -> tuple[Item, ...]:
    """The findings that need a decision; advice only where it is asked for."""
    classes = (*_DECIDED_HERE, AutofixClass.ADVISORY) if advisory else _DECIDED_HERE
    wanted = [finding for finding in findings if finding.autofix_class in classes and pending(finding)]
    known = artifacts or {}
    return tuple(
        Item(finding, recommended(finding, sinks), detail(finding, known)) for finding in sorted(wanted, key=_order)
    )


def pending(finding: Finding) -> bool:
    """Whether a finding is open, of this change, and sure enough to be put before a person."""
    return finding.state.active and not finding.pre_existing and passes(finding.severity, finding.confidence)


def _order(finding: Finding) -> tuple[str, int, str, int, int, str]:
    place = finding.location
    where = (place.path, place.start or 0) if place else ("", 0)
    return (P_LEVEL[finding.severity], -anchor_of(finding.confidence), *where, finding.number, finding.id)
