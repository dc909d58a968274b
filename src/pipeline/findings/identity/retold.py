"""What a new report changes in a known finding: only what it tells differently, and the less sure the match, the less.

Nothing is erased by silence, and evidence and names only grow.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pipeline.findings.identity.anchors import is_loose
from pipeline.findings.identity.texts import AROUND, TEXT, VERDICT, SourceFile, fingerprints, size_of
from pipeline.findings.model import UNREADABLE, AutofixClass, Evidence, Finding, Gate, Location, Observed, Strength
from pipeline.findings.signature import norm_quote

_TOLD = (
    *("title", "plain_title", "impact", "fix", "reproduction", "min_fix_scope", "regression_tests", "scope"),
    *("category", "severity", "confidence", "autofix_class", "owner", "agreement", "pre_existing"),
)
_RAISED = ("requires_verification", "system_breaking")  # one report that says so is enough
_WHERE = frozenset({"fingerprints", "aliases", "sources", "locations"})


def placed(known: Finding, draft: Finding, page: SourceFile | None) -> Finding:
    """A draft moved to the known finding's own line where that is near: a vague report must not make it drift."""
    text, place = known.fingerprints.get(TEXT, ""), draft.location
    if page is None or place is None or place.start is None or text in ("", draft.fingerprints.get(TEXT)):
        return draft
    away, line = min(((abs(line - place.start), line) for line in page.places.get(text, ())), default=(AROUND + 1, 0))
    if away > AROUND:
        return draft
    size = size_of(known.location)
    there = Location(path=place.path, start=line, end=line + size - 1 if size > 1 else None, symbol=place.symbol)
    moved = replace(draft, locations=(there, *draft.locations[1:]))
    return replace(moved, fingerprints=fingerprints(moved, page))


def changes(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """The fields of a known finding that a report tells differently, as JSON values."""
    new = where(known, draft, strength) | (_worse(known, draft) if strength is Strength.FUZZY else _told(known, draft))
    return _differing(known, new)


def where_only(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """What a report changes in a finding that somebody dismissed: where it is, not what it says."""
    return _differing(known, where(known, draft, strength))


def where(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """Places, evidence and names after a report."""
    names = [draft.fingerprints.get(VERDICT, "")]
    if strength is not Strength.FUZZY:  # a guess must not become a name
        names += [*draft.aliases, "" if is_loose(draft) else draft.signature]
    return {
        "locations": draft.locations or known.locations,
        "evidence": _grown(known.evidence, draft.evidence),
        "fingerprints": {**known.fingerprints, **draft.fingerprints},
        "aliases": _union(known.aliases, (name for name in names if name != known.signature)),
        "sources": _union(known.sources, draft.sources),
    }


def observed(known: Finding, changed: Iterable[str], draft: Finding) -> Observed:
    """How a finding that was reported again stands."""
    was, now = known.location, draft.location or known.location
    if was and now and (was.path, was.start) != (now.path, now.start):
        return Observed.MOVED
    return Observed.UPDATED if set(changed) - _WHERE else Observed.UNCHANGED


def _told(known: Finding, draft: Finding) -> dict[str, Any]:
    told = {name: value for name in _TOLD if (value := getattr(draft, name)) not in (None, "", ())}
    raised = {name: True for name in _RAISED if getattr(draft, name)}
    gate = {"gate": draft.gate} if known.gate.by == draft.gate.by else {}
    if known.unreadable and not draft.unreadable:
        return told | raised | gate | {"ext": {name: value for name, value in known.ext.items() if name != UNREADABLE}}
    return told | raised | gate | _milder(known, draft)


def _milder(known: Finding, draft: Finding) -> dict[str, Any]:
    """What a report may not make milder: a rating that another source gave stands until that source takes it back.

    Only a person lowers what endangers the whole system.
    """
    if known.system_breaking and draft.severity.rank > known.severity.rank:
        return {"severity": known.severity, "gate": known.gate}
    last = {vote.reviewer: vote for vote in known.votes}
    others = [vote for name, vote in last.items() if name not in draft.sources]
    if not others:
        return {}
    worst = min(others, key=lambda vote: vote.severity.rank)
    rated = {"severity": known.severity, "confidence": known.confidence}
    kept = rated if draft.severity.rank > known.severity.rank and worst.severity.rank <= known.severity.rank else {}
    must = {"gate": known.gate} if known.gate.value is Gate.MUST else {}
    advice = {"autofix_class": known.autofix_class} if draft.autofix_class is AutofixClass.ADVISORY else {}
    return kept | must | advice | {"pre_existing": known.pre_existing and draft.pre_existing}


def _worse(known: Finding, draft: Finding) -> dict[str, Any]:
    return {"severity": draft.severity} if draft.severity.rank < known.severity.rank else {}


def _differing(known: Finding, new: dict[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in new.items() if value != getattr(known, name)}
    if "fingerprints" in changed:  # of these only those that are others: the rest stays
        prints = changed["fingerprints"].items()
        changed["fingerprints"] = {name: value for name, value in prints if known.fingerprints.get(name) != value}
    return replace(known, **changed).model_dump(mode="json", include=set(changed))


def _grown(known: tuple[Evidence, ...], new: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """All evidence; that which was there before is where it is now."""
    found = {_key(item): item for item in known}
    found.update({_key(item): item for item in new})
    return tuple(found.values())


def _key(evidence: Evidence) -> tuple[str, str, str]:
    return evidence.path, evidence.symbol, norm_quote(evidence.quote or evidence.raw) or evidence.raw


def _union(old: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *(name for name in new if name))))
