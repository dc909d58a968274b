"""Findings, files and ledgers for the tests of identity, in as few words as a test wants to say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.findings.events import FindingRaised, LedgerEvent, Pass, PassRecorded
from pipeline.findings.fingerprints import VERDICT, add_fingerprints, finding_id, signature
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import LineMap
from pipeline.findings.match import Matching, match
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    PassId,
    Severity,
    Suppression,
)
from pipeline.findings.transitions import CodeState, Fix, Upshot, upshot

FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
CODE = [
    "def rotate(store, old):",
    "    token = make_token(old.user)",
    "    store.save(token)",
    "    log.info('rotated')",
    "    return token",
    "",
    "def revoke(store, old):",
    "    store.delete(old.key)",
    "    log.info('revoked')",
    "    return None",
]


@dataclass(frozen=True, slots=True)
class Files:
    """Files that are held in memory."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of one of them."""
        return self.texts.get(path)


def draft(
    line: int | None = 3,
    title: str = "Old token stays valid",
    *,
    path: str = "src/session.py",
    end: int | None = None,
    category: Category = Category.SECURITY,
    severity: Severity = Severity.MEDIUM,
    quote: str = "",
    symbol: str = "",
    **more: Any,
) -> Finding:
    """A finding of a pass, not yet identified."""
    evidence = (Evidence(path=path, start=line, end=end, quote=quote, symbol=symbol),)
    values: dict[str, Any] = {
        "id": FindingId(""),
        "signature": signature(category, evidence, title),
        "title": title,
        "category": category,
        "severity": severity,
        "confidence": Confidence(value=75),
        "locations": (Location(path=path, start=line, end=end, symbol=symbol),),
        "evidence": evidence,
        "sources": ("security",),
        "pass_id": PassId("one"),
        "created_at": FIRST,
        "updated_at": FIRST,
    }
    return Finding(**values | more)


def known(drafts: Sequence[Finding], files: Files, **more: Any) -> list[Finding]:
    """The same findings as an earlier pass left them: with their fingerprints and ids."""
    done, taken = list[Finding](), set[str]()
    for one in add_fingerprints(drafts, files):
        id = one.id or finding_id(one.signature, taken)
        taken.add(id)
        names = (*one.aliases, *(one.fingerprints[VERDICT] for _ in one.locations[:1]))
        done.append(replace(one, **{"id": id, "aliases": names} | more))
    return done


def found(
    before: Sequence[Finding],
    old: Files,
    after: Sequence[Finding],
    new: Files,
    lines: LineMap | None = None,
) -> Matching:
    """What matching makes of findings before and after an edit."""
    return match(known(before, old), add_fingerprints(after, new), {"one": lines} if lines else None)


def assessment(id: str = "two", **more: Any) -> Pass:
    """A pass that looked at everything, and to which everybody answered."""
    return Pass(id=PassId(id), started_at=SECOND, **more)


@dataclass(slots=True)
class Second:
    """A second pass over findings that a first one raised."""

    ledger: Ledger
    result: Upshot
    matching: Matching

    @property
    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [event.kind for event in self.result.events]

    def event(self, kind: str) -> Any:
        """The only event of a kind."""
        (one,) = [event for event in self.result.events if event.kind == kind]
        return one

    def after(self) -> Ledger:
        """The ledger with what happened."""
        for event in self.result.events:
            self.ledger.apply(event)
        return self.ledger


def second(
    before: Sequence[Finding],
    after: Sequence[Finding],
    *,
    old: Files | None = None,
    new: Files | None = None,
    state: FindingState = FindingState.OPEN,
    events: Sequence[LedgerEvent] = (),
    passed: Pass | None = None,
    first: Pass | None = None,
    maps: Mapping[str, LineMap] | None = None,
    fixes: Sequence[Fix] = (),
    at: str = SECOND,
    withheld: Sequence[int] = (),
    suppression: Suppression | None = None,
    **more: Any,
) -> Second:
    """Raise some findings, put them into a state, and assess again."""
    old = old or Files({"src/session.py": CODE})
    new = new or old
    ledger = Ledger([PassRecorded(at=FIRST, assessment=first or assessment("one"))])
    for one in known(before, old, state=state, suppression=suppression, **more):
        ledger.apply(FindingRaised(at=FIRST, finding=one))
    for event in events:
        ledger.apply(event)
    drafts = add_fingerprints(after, new)
    matching = match(tuple(ledger.findings.values()), drafts, maps)
    ground = CodeState(new, maps or {}, tuple(fixes))
    result = upshot(ledger, matching, drafts, passed or assessment(), at, ground, withheld)
    return Second(ledger, result, matching)
