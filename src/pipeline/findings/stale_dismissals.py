"""Dismissals that are of no use any more, so that none of them hides a defect some day that nobody looked at.

Looking changes nothing: what is of no use stays as it is until somebody decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.findings.fingerprints import WINDOW, evidence_digest, line_hash, read_source
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.transitions import CodeState

_LINE = "line/v1:"  # digests of one line; what was only quoted cannot be looked up
_TELLING = ("raised", "seen", "absent", "state")  # the last of these says whether a finding was looked for in vain


class StaleReason(StrEnum):
    """Why a dismissal is of no use."""

    EXPIRED = "expired"  # its last day is over
    CHANGED = "changed"  # the code that it was made for is no longer there
    UNMATCHED = "unmatched"  # the last pass that could have reported the finding did not


def find_stale_dismissals(ledger: Ledger, repository: GitHistory, at: str) -> dict[FindingId, tuple[StaleReason, ...]]:
    """The dismissed findings whose dismissal is of no use, and why."""
    code = _Code(ledger, repository)
    found = {one.id: tuple(_reasons(one, code, at)) for one in ledger if one.state.dismissed}
    return {id: reasons for id, reasons in found.items() if reasons}


def describe_stale(finding: Finding, reason: StaleReason) -> str:
    """Why the dismissal of a finding is of no use, in words."""
    match reason:
        case StaleReason.EXPIRED:
            return f"it held until {finding.suppression.expires if finding.suppression else 'a day that is over'}"
        case StaleReason.CHANGED:
            return "the code it was made for is no longer there"
        case StaleReason.UNMATCHED:
            return f"{_missed(finding)} looked there, and nobody reported it"


def _reasons(finding: Finding, code: "_Code", at: str) -> Iterator[StaleReason]:
    held = finding.suppression
    if held and held.expires and at[: len(held.expires)] > held.expires:
        yield StaleReason.EXPIRED
    if code.lost(finding):
        yield StaleReason.CHANGED
    if _missed(finding):
        yield StaleReason.UNMATCHED


def _missed(finding: Finding) -> str:
    """The last pass that looked where a finding is and did not report it, if it was dismissed by then."""
    last = next((change for change in reversed(finding.history) if change.what in _TELLING), None)
    return last.pass_id if last and last.what == "absent" else ""


@dataclass(slots=True)
class _Code:
    """The files that were dismissed in, each read once; where they went is asked only when one is missing."""

    ledger: Ledger
    repository: GitHistory
    _hashes: dict[str, frozenset[str] | None] = field(default_factory=dict)  # of the lines of a file
    _ground: CodeState | None = None

    def lost(self, finding: Finding) -> bool:
        """Whether the line that was dismissed is nowhere in its file; what never was in one is not looked for."""
        held = finding.suppression
        digest = (held and held.digest) or evidence_digest(finding)
        if finding.location is None or WINDOW not in finding.fingerprints or not digest.startswith(_LINE):
            return False
        there = self._lines(finding.location.path)
        if there is None:
            there = self._lines(self._path_now(finding))
        return there is None or digest.removeprefix(_LINE) not in there

    def _lines(self, path: str) -> frozenset[str] | None:
        if path not in self._hashes:
            page = read_source(self.repository, path)
            self._hashes[path] = None if page is None else frozenset(map(line_hash, page.places))
        return self._hashes[path]

    def _path_now(self, finding: Finding) -> str:
        if self._ground is None:
            self._ground = CodeState(self.repository, line_maps(self.ledger, self.repository))
        return self._ground.path_now(finding)
