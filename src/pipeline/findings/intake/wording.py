"""What a claim says, made fit to be kept: every text can be written down, and a reason is more than its title."""

from dataclasses import dataclass, replace
from typing import Any

from pipeline.findings.claims import Claim
from pipeline.findings.intake.paths import PathRefused
from pipeline.findings.signature import norm_title

MOST = 1000  # pieces of evidence, and places, of one finding
_TEXTS = (
    "input_id", "reviewer", "title", "impact", "fix", "plain_title", "reproduction", "min_fix_scope", "scope",
    "action", "stage", "suppressed", "unreadable",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worded:
    """A claim that can be kept, and what had to be said of it."""

    claim: Claim
    notes: tuple[str, ...] = ()


def word(claim: Claim) -> Worded | PathRefused:
    """A claim fit to be kept, or why there is none."""
    if not claim.title.strip():
        return PathRefused("it has no title: say in a few words what is wrong")
    changes, notes = _legible_texts(claim), []
    if claim.impact and not claim.unreadable and norm_title(claim.impact) == norm_title(claim.title):
        changes["impact"] = ""
        notes.append("its reason only repeats its title and was left out")
    for name, what in (("evidence", "pieces of evidence"), ("locations", "places")):
        if (count := len(getattr(claim, name))) > MOST:
            notes.append(f"only {MOST} of its {count} {what} are kept")
            changes[name] = getattr(claim, name)[:MOST]
    return Worded(replace(claim, **changes) if changes else claim, tuple(notes))


def legible(text: str) -> str:
    """A text without halves of characters, which no file can hold."""
    if text.isascii():
        return text
    return text.encode(errors="replace").decode()


def title_key(title: str) -> str:
    """What titles are compared by; one without any letter is itself."""
    return norm_title(title) or title.strip()


def _legible_texts(claim: Claim) -> dict[str, Any]:
    """The texts of a claim that no file can hold, as one can."""
    changes: dict[str, Any] = {}
    for name in _TEXTS:
        text = getattr(claim, name)
        if text and legible(text) != text:
            changes[name] = legible(text)
    if claim.regression_tests:
        changes["regression_tests"] = tuple(map(legible, claim.regression_tests))
    if claim.tool_ids:
        changes["tool_ids"] = {legible(name): legible(value) for name, value in claim.tool_ids.items()}
    return changes
