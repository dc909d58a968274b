"""Which findings a page, a download or a decision is about, as an address has it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from starlette.exceptions import HTTPException

from pipeline.app.findings.queries import STATE_GROUPS, FindingFilter, parse_states
from pipeline.findings.model import Finding, FindingState, Gate, Severity
from pipeline.web.rendering import whole_number

OUTSTANDING = "outstanding"  # what is meant where no state is named
STATES = (*(name for name in STATE_GROUPS if name != "all"), *map(str, FindingState), "all")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class FindingsQuery:
    """The filters of the page of findings; empty ones ask for nothing."""

    state: str = OUTSTANDING
    severity: str = ""
    gate: str = ""
    file: str = ""
    stage: str = ""
    reviewer: str = ""
    words: str = ""
    page: int = 1
    run: str = ""  # whose findings they are, where each run has its own

    @property
    def plain(self) -> bool:
        """Whether nothing but what is outstanding was asked for."""
        return replace(self, page=1, run="") == FindingsQuery()

    def query(self) -> dict[str, str]:
        """The filters as parts of an address, without the page."""
        usual = self.state == OUTSTANDING
        named = ("severity", "gate", "file", "stage", "reviewer")
        told = {name: getattr(self, name) for name in named}
        return {"run": self.run, "state": "" if usual else self.state, **told, "q": self.words}

    def filter(self) -> FindingFilter:
        """What a finding must be."""
        return FindingFilter(
            states=_states(self.state),
            severities=_one(Severity, self.severity),
            gates=_one(Gate, self.gate),
            files=(self.file,) if self.file else (),
            stages=frozenset({self.stage} - {""}),
            reviewers=frozenset({self.reviewer} - {""}),
            words=tuple(self.words.split()),
        )

    def among(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those of some findings that are wanted, in the order in which they come."""
        return list(filter(self.filter().matches, findings))


def wanted_of(given: Mapping[str, str]) -> FindingsQuery:
    """The filters that an address names."""
    return FindingsQuery(
        state=given.get("state") or OUTSTANDING,
        severity=given.get("severity", ""),
        gate=given.get("gate", ""),
        file=given.get("file", "").strip(),
        stage=given.get("stage", ""),
        reviewer=given.get("reviewer", ""),
        words=given.get("q", "").strip(),
        page=whole_number(given.get("page", "")) or 1,
        run=given.get("run", ""),
    )


def _states(name: str) -> frozenset[FindingState]:
    try:
        return parse_states((name,))
    except ValueError:
        raise _unknown("state", name, STATES) from None


def _one(kind: type[E], name: str) -> frozenset[E]:
    try:
        return frozenset({kind(name)}) if name else frozenset()
    except ValueError:
        raise _unknown(kind.__name__.lower(), name, kind) from None


def _unknown(what: str, name: str, known: Iterable[str]) -> HTTPException:
    return HTTPException(400, f'There is no {what} "{name}"; it is one of {", ".join(known)}.')
