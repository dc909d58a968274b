"""How the findings stand: the verdicts, what is only claimed, and who did not answer. Silence is no pass."""

from dataclasses import asdict, dataclass
from typing import Any

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, Gate, Severity
from pipeline.findings.passes import Coverage
from pipeline.findings.showing import standing
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, Verdicts, never_clean


@dataclass(frozen=True, slots=True)
class Dismissed:
    """A finding that would block had nobody dismissed it."""

    id: str
    number: int
    title: str
    severity: str
    state: str
    by: str
    note: str

    @classmethod
    def of(cls, finding: Finding) -> "Dismissed":
        """Who dismissed a finding and why, as its suppression or else its history says."""
        said = next((one for one in reversed(finding.history) if one.state is finding.state), None)
        by, note = (said.by, said.note) if said else ("", "")
        if held := finding.suppression:
            by, note = held.by or by, held.reason or note
        return cls(finding.id, finding.number, finding.title, str(finding.severity), str(finding.state), by, note)


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """The verdicts on all findings, and whether the last pass can be relied on."""

    verdicts: Verdicts
    claimed: int  # fixes that nobody has verified
    coverage: Coverage | None  # None: nothing was reviewed
    dismissed: tuple[Dismissed, ...] = ()  # what would block otherwise

    @property
    def complete(self) -> bool:
        """Whether there is a pass, and the last answer of everybody who was asked could be read."""
        return self.coverage is not None and self.verdicts.complete

    @property
    def gaps(self) -> list[str]:
        """Whose last answer could not be read, and why."""
        if self.coverage is None:
            return ["nothing was reviewed: there is no pass in this store"]
        return [
            f"{name} is {status}: {self.coverage.problems.get(name, 'it gave no answer')}"
            for name, status in self.coverage.silent.items()
        ]

    def failing(self, worst: Verdict = Verdict.FAIL) -> bool:
        """Whether a gate must hold the change back: from a verdict on, a claimed fix being no fix until verified."""
        order = list(Verdict)
        return not self.complete or order.index(self.verdicts.after_verification) >= order.index(worst)

    def as_json(self) -> dict[str, Any]:
        """The verdicts for a program. Where somebody did not answer, nothing ships and nothing is ready."""
        ready = self.verdicts.readiness if self.complete else Readiness.NOT_READY
        return {
            "verdict": str(self._stated(self.verdicts.verdict)),
            "after_verification": str(self._stated(self.verdicts.after_verification)),
            "ship": self.complete and self.verdicts.shipping is Shipping.SHIP,
            "readiness": str(ready),
            "complete": self.complete,
            "summary": dict(self.verdicts.summary),
            "dismissed": [asdict(one) for one in self.dismissed],
        }

    def told(self) -> str:
        """The verdict in one line."""
        said, proven = self._stated(self.verdicts.verdict), self._stated(self.verdicts.after_verification)
        text = f"{said}{_counts(self.verdicts.summary)}"
        if self.claimed and said != proven:
            fixes = "1 claimed fix is" if self.claimed == 1 else f"{self.claimed} claimed fixes are"
            text = f"{said} as claimed{_counts(self.verdicts.summary)}; {proven} until {fixes} verified"
        return text if self.complete else f"{text}; the review is incomplete"

    def _stated(self, verdict: Verdict) -> Verdict:
        return verdict if self.complete else never_clean(verdict)


def standing_of(ledger: Ledger) -> VerdictSummary:
    """How the findings of a ledger stand after its last pass."""
    claimed = sum(finding.state is FindingState.FIX_CLAIMED and not finding.pre_existing for finding in ledger)
    dismissed = (finding for finding in ledger if finding.state.dismissed and _would_block(finding))
    return VerdictSummary(standing(ledger), claimed, ledger.coverage(), tuple(map(Dismissed.of, dismissed)))


def _would_block(finding: Finding) -> bool:
    grave = finding.gate.value is Gate.MUST or finding.severity.rank <= Severity.HIGH.rank
    return grave and not finding.pre_existing


def _counts(summary: dict[str, int]) -> str:
    told = ", ".join(f"{number} {severity}" for severity, number in summary.items() if number)
    return f" ({told})" if told else ""
