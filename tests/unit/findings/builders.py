"""Findings and files that a test builds in one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.findings.events import Pass
from pipeline.findings.fingerprints import VERDICT, add_fingerprints, finding_id, signature
from pipeline.findings.linemap import LineMap
from pipeline.findings.match import Matching, match
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    Location,
    PassId,
    Severity,
)

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
