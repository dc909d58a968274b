"""Drafts, known findings and files that a test builds in one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.findings.events import Pass
from pipeline.findings.fingerprints import VERDICT, add_fingerprints, finding_id, signature
from pipeline.findings.linemap import LineMap
from pipeline.findings.match import Match, match
from pipeline.findings.model import (
    Category,
    Confidence,
    Draft,
    Evidence,
    Finding,
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
) -> Draft:
    """A draft of a pass, signed, not yet matched."""
    evidence = (Evidence(path=path, start=line, end=end, quote=quote, symbol=symbol),)
    values: dict[str, Any] = {
        "input_id": "correctness#1",
        "reviewer": "correctness",
        "title": title,
        "category": category,
        "severity": severity,
        "confidence": Confidence(value=75, scale="anchor"),
        "locations": (Location(path=path, start=line, end=end, symbol=symbol),),
        "evidence": evidence,
        "signature": signature(category, evidence, title),
    }
    return Draft(**values | more)


_SHARED = (
    *("signature", "reviewer", "title", "impact", "fix", "category", "severity", "confidence", "locations"),
    *("evidence", "unreadable", "autofix_class", "owner", "pre_existing", "system_breaking"),
)


def known(drafts: Sequence[Draft], files: Files, **more: Any) -> list[Finding]:
    """Drafts as findings of an earlier pass: with fingerprints and ids."""
    done, taken = list[Finding](), set[str]()
    for one in add_fingerprints(drafts, files):
        id = finding_id(one.signature, taken)
        taken.add(id)
        values: dict[str, Any] = {name: getattr(one, name) for name in _SHARED} | {
            "id": id,
            "number": len(taken),
            "fingerprints": dict(one.fingerprints),
            "aliases": tuple(one.fingerprints[VERDICT] for _ in one.locations[:1]),
            "tool": one.by_tool,
            "pass_id": PassId("one"),
            "created_at": FIRST,
            "updated_at": FIRST,
        }
        done.append(Finding(**values | more))
    return done


def found(
    before: Sequence[Draft], old: Files, after: Sequence[Draft], new: Files, lines: LineMap | None = None
) -> list[Match]:
    """What matching makes of drafts before and after an edit."""
    return match(known(before, old), add_fingerprints(after, new), {"one": lines} if lines else {})


def assessment(id: str = "two", **more: Any) -> Pass:
    """A pass in which everybody looked at everything and answered."""
    return Pass(id=PassId(id), started_at=SECOND, review="0badcafe", **more)
