"""What a finding is recognised by. No line number goes in: an edit above a defect must not make it another."""

import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache
from hashlib import sha256

from pipeline.findings.model import Category, Evidence, FindingId, Location

QUOTE = 240  # characters of a quotation
_SHORTEST = 8  # characters of a quotation that tells places apart
_COMMENT = re.compile(r"\s(?:#|//|--)\s.*$")
_GENERIC = re.compile(r"(?:\W*|return|pass|else:?|try:?|break|continue|end)[\s;:{}()]*", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_LENGTHS = (8, 12, 16, 32, 64)  # hex digits of an id; more when a shorter one is taken


@lru_cache(maxsize=1 << 10)  # one is asked about several times in a row
def norm_quote(quote: str) -> str:
    """A quotation without what editors and reviewers change; empty when it could stand anywhere."""
    text = unicodedata.normalize("NFC", quote)
    last = max(text.rfind("\n", 0, -1) - 3, 0)  # a comment ends the text, so it begins in the last line or right before
    text = " ".join((text[:last] + _COMMENT.sub("", text[last:])).split())[:QUOTE]
    return "" if len(text) < _SHORTEST or _GENERIC.fullmatch(text) else text


def norm_title(title: str) -> str:
    """A title without case, punctuation and spacing."""
    return " ".join(_PUNCTUATION.sub(" ", unicodedata.normalize("NFC", title).lower()).split())


def signature(category: Category, evidence: Iterable[Evidence], title: str, *, nth: int = 0) -> str:
    """The hash of what a finding says of which code. `nth` tells equal ones apart that quote nothing."""
    keys = sorted({_evidence_key(item, nth) for item in evidence})
    text = "\0".join((category, *keys, norm_title(title)))
    return f"sha256:{sha256(text.encode(errors='replace')).hexdigest()}"


def raw_signature(reviewer: str, raw: str) -> str:
    """The hash of an item that cannot be read: the same text from the same reviewer is the same finding."""
    return f"sha256:{sha256(chr(0).join(('unreadable', reviewer, raw)).encode(errors='replace')).hexdigest()}"


def _evidence_key(evidence: Evidence, nth: int) -> str:
    quote = norm_quote(evidence.quote or evidence.raw)
    if not quote and not evidence.symbol:
        return f"{evidence.path}\0#{nth}"
    return f"{evidence.path}\0{evidence.symbol}\0{quote}"


def finding_id(signed: str, taken: Container[str]) -> FindingId:
    """The id of a new finding: the beginning of its signature, longer where that is another's."""
    digest = signed.removeprefix("sha256:")
    ids = (f"fnd_{digest[:length]}" for length in _LENGTHS)
    return FindingId(next((name for name in ids if name not in taken), f"fnd_{digest}"))


def line_range(location: Location | None) -> str:
    """`42-58`, `42`, or `0` for a whole file."""
    return (location.lines if location else "") or "0"


def verdict_id(domain: str, path: str, lines: str) -> str:
    """The id of a finding in a verdict file: by position, and so never used to recognise it."""
    return f"{domain}-{sha256(path.encode()).hexdigest()[:8]}-{lines}"
