"""Items that cannot be read as findings, made into claims that somebody has to look at: nothing returned is dropped."""

from dataclasses import replace
from hashlib import sha256

from pipeline.findings.claims import Claim, Rejected, Return
from pipeline.findings.model import AutofixClass, Confidence, Owner, Severity
from pipeline.findings.scales import category_of

RAW = 4000  # characters of an item's text that are kept
_SURE = 75  # nothing unreadable is filtered for its confidence
_WRITTEN = ("", "review", "verdict")  # formats that reviewers write; tools write the others


def of_rejected(item: Rejected, answer: Return) -> Claim:
    """The claim of an item that its reader could not use."""
    return Claim(
        input_id=item.input_id,
        reviewer=answer.reviewer,
        title=item.title.strip() or _nameless(item.input_id, answer.reviewer),
        severity=Severity.CRITICAL if item.system_breaking else item.severity,
        system_breaking=item.system_breaking,
        confidence=Confidence(value=_SURE, scale="anchor" if answer.format in _WRITTEN else "tool"),
        category=category_of(answer.reviewer),
        impact=_bounded(item.raw or item.reason),
        locations=(item.location,) if item.location else (),
        unreadable=item.reason or "it cannot be read as a finding",
    )


def of_refused(claim: Claim, reason: str) -> Claim:
    """The claim of an item that was read, and has no title or lies outside the repository."""
    told = (
        claim.title,
        *map(str, claim.locations),
        claim.impact,
        claim.fix or "",
        *(one.raw for one in claim.evidence),
    )
    return replace(
        claim,
        title=claim.title if claim.title.strip() else _nameless(claim.input_id, claim.reviewer),
        confidence=replace(claim.confidence, value=max(_SURE, claim.confidence.value)),
        impact=_bounded("\n".join(part for part in told if part)) or reason,
        fix=None,
        autofix_class=AutofixClass.MANUAL,
        owner=Owner.HUMAN,
        pre_existing=False,
        evidence=(),
        state=None,
        suppressed=None,
        unreadable=reason,
    )


def _nameless(input_id: str, reviewer: str) -> str:
    return f"Unreadable finding {input_id.rpartition('#')[2]} of {reviewer}"


def _bounded(raw: str) -> str:
    """The beginning of a text; the hash of all of it tells two apart that begin alike."""
    if len(raw) <= RAW:
        return raw
    digest = sha256(raw.encode(errors="replace")).hexdigest()[:16]
    return f"{raw[:RAW]}… ({len(raw)} characters, sha256 {digest})"
