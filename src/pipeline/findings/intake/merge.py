"""Many claims about one defect become one finding. Nothing is asserted that nobody asserted.

Severity and confidence come from one claim together; all that the others said stays, as votes.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from posixpath import dirname
from typing import Any, TypeVar

from pipeline.findings.claims import Claim
from pipeline.findings.intake.anchor import Placed
from pipeline.findings.intake.gate import passes, promoted
from pipeline.findings.intake.group import Group
from pipeline.findings.intake.policy import Policy
from pipeline.findings.intake.wording import MOST
from pipeline.findings.model import UNREADABLE, AutofixClass, Finding, FindingId, FindingState, Owner, Suppression, Vote
from pipeline.findings.passes import Pass
from pipeline.findings.signature import raw_signature, signature
from pipeline.findings.value import FindingValue

_Part = TypeVar("_Part", bound=FindingValue)
_CLASSES = (AutofixClass.SAFE_AUTO, AutofixClass.GATED_AUTO, AutofixClass.MANUAL)
_OWNERS = tuple(Owner)  # the most careful last
_WORDS = ("impact", "fix", "plain_title", "reproduction", "min_fix_scope")


def ordered(group: Group) -> list[tuple[Placed, str]]:
    """The claims of a group, each with why it is in it; first the one whose severity and confidence stand."""
    members = list(zip(group.members, ("", *group.reasons), strict=True))
    if len(members) == 1:  # as most are
        return members
    return sorted(members, key=lambda member: (_standing(member[0]), member[0].order))


def merge(members: Sequence[Placed], policy: Policy, passed: Pass) -> Finding:
    """One finding out of the claims of a group, in their order. It has no id yet, and its gate is not decided."""
    claims = [member.claim for member in members]
    first, lead = members[0], claims[0]
    agreement = len({policy.origin(claim.reviewer) for claim in claims} - {""})
    evidence = _union(member.evidence for member in members)
    return Finding(
        id=FindingId(""),
        signature=raw_signature(lead.reviewer, lead.impact)
        if lead.unreadable
        else signature(lead.category, evidence, lead.title),
        fingerprints=_filled(claim.tool_ids for claim in claims),
        title=lead.title,
        scope=lead.scope or dirname(first.place.path),
        **_words(claims),
        category=lead.category,
        severity=lead.severity,
        confidence=promoted(first.confidence, agreement),
        **_handling(claims),
        pre_existing=all(claim.pre_existing for claim in claims),
        system_breaking=any(claim.system_breaking for claim in claims),
        locations=_union(member.locations for member in members),
        evidence=evidence,
        votes=tuple(_vote(member, passed) for member in members),
        sources=tuple(sorted({claim.reviewer for claim in claims})),
        lens=lead.lens,
        task=passed.task,
        agreement=max(agreement, 1),
        **_state(members),
        pass_id=passed.id,
        created_at=passed.started_at,
        updated_at=passed.started_at,
        ext=_filled(claim.ext for claim in claims) | ({UNREADABLE: lead.unreadable} if lead.unreadable else {}),
    )


def _standing(member: Placed) -> tuple[int, ...]:
    """What decides whose word stands: the worst of those that are sure enough, else the surest."""
    severity, confidence = member.claim.severity, member.confidence
    worst, surest = severity.rank, -confidence.value
    return (0, worst, surest) if passes(severity, confidence) else (1, surest, worst)


def _words(claims: Sequence[Claim]) -> dict[str, Any]:
    """What is told in words: by the first that tells it."""
    told = {name: text for claim in reversed(claims) for name in _WORDS if (text := getattr(claim, name))}
    tests = tuple(dict.fromkeys(test for claim in claims for test in claim.regression_tests))
    return {**told, "regression_tests": tests}


def _handling(claims: Sequence[Claim]) -> dict[str, Any]:
    """How careful a fix must be: as careful as the most careful says."""
    classes = {claim.autofix_class for claim in claims} - {AutofixClass.ADVISORY}
    return {
        "autofix_class": max(classes, key=_CLASSES.index, default=AutofixClass.ADVISORY),
        "owner": max((claim.owner for claim in claims), key=_OWNERS.index),
        "requires_verification": any(claim.requires_verification for claim in claims),
    }


def _state(members: Sequence[Placed]) -> dict[str, Any]:
    """Open, unless its source knows better, suppresses it, or nothing in the code could be held against it."""
    claims = [member.claim for member in members]
    if claims[0].unreadable:
        return {"state": FindingState.UNCERTAIN}
    given = next((claim.state for claim in claims if claim.state), None)
    if all(claim.suppressed is not None for claim in claims):
        state = given if given and given.dismissed else FindingState.WONT_FIX
        return {"state": state, "suppression": Suppression(reason=claims[0].suppressed or "", by=claims[0].reviewer)}
    if given:
        return {"state": given}
    return {"state": FindingState.OPEN if any(member.sure for member in members) else FindingState.UNCERTAIN}


def _vote(member: Placed, passed: Pass) -> Vote:
    claim = member.claim
    return Vote(
        reviewer=claim.reviewer,
        pass_id=passed.id,
        stage=claim.stage or passed.stage,
        run=passed.run,
        title=claim.title,
        severity=claim.severity,
        confidence=claim.confidence.value,
        autofix_class=claim.autofix_class,
        owner=claim.owner,
        action=claim.action,
        input_id=claim.input_id,
        tool=member.by_tool,
    )


def _union(parts: Iterable[tuple[_Part, ...]]) -> tuple[_Part, ...]:
    """All of them once, in their order, up to what a finding holds."""
    every = tuple(chain.from_iterable(parts))
    return every if len(every) < 2 else tuple(islice(dict.fromkeys(every), MOST))


def _filled(parts: Iterable[Any]) -> dict[str, Any]:
    """Everything that is said under any name; under one name, what is said first."""
    filled: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            filled.setdefault(name, value)
    return filled
