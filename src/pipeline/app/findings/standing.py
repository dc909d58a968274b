"""How the findings stand: the verdicts, what is only claimed, and who did not answer. Silence is no pass."""

from dataclasses import dataclass
from typing import Any

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import State
from pipeline.findings.passes import Pass
from pipeline.findings.showing import standing
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, Verdicts


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdicts on all findings, and whether the last pass can be relied on."""

    verdicts: Verdicts
    claimed: int  # fixes that nobody has verified
    last: Pass | None

    @property
    def complete(self) -> bool:
        """Whether there is a pass, and everybody in it answered."""
        return self.last is not None and self.verdicts.complete

    @property
    def gaps(self) -> list[str]:
        """Who did not answer in the last pass, and why."""
        if self.last is None:
            return ["nothing was reviewed: there is no pass in this store"]
        told = self.last.coverage
        return [
            f"{name} is {status}: {told.problems.get(name, 'it gave no answer')}"
            for name, status in told.silent.items()
        ]

    def failing(self, worst: Verdict = Verdict.FAIL) -> bool:
        """Whether a gate must hold the change back: from a verdict on, a claimed fix being no fix until verified."""
        order = list(Verdict)
        return not self.complete or order.index(self.verdicts.after_verification) >= order.index(worst)

    def as_json(self) -> dict[str, Any]:
        """The verdicts for a program. Where somebody did not answer, nothing ships and nothing is ready."""
        ready = self.verdicts.readiness if self.complete else Readiness.NOT_READY
        return {
            "verdict": str(self.verdicts.verdict),
            "after_verification": str(self.verdicts.after_verification),
            "ship": self.complete and self.verdicts.shipping is Shipping.SHIP,
            "readiness": str(ready),
            "complete": self.complete,
            "summary": dict(self.verdicts.summary),
        }

    def told(self) -> str:
        """The verdict in one line."""
        said, proven = self.verdicts.verdict, self.verdicts.after_verification
        text = f"{said}{_counts(self.verdicts.summary)}"
        if self.claimed and said != proven:
            fixes = "1 claimed fix is" if self.claimed == 1 else f"{self.claimed} claimed fixes are"
            text = f"{said} as claimed{_counts(self.verdicts.summary)}; {proven} until {fixes} verified"
        return text if self.complete else f"INCOMPLETE, so not clean; {text} by what was found"


def standing_of(ledger: Ledger) -> Standing:
    """How the findings of a ledger stand after its last pass."""
    claimed = sum(finding.state is State.FIX_CLAIMED and not finding.pre_existing for finding in ledger)
    return Standing(standing(ledger), claimed, ledger.last)


def _counts(summary: dict[str, int]) -> str:
    told = ", ".join(f"{number} {severity}" for severity, number in summary.items() if number)
    return f" ({told})" if told else ""
