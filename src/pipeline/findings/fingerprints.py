"""What a finding is recognised by. No line number goes in: an edit above a defect must not make it another."""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from math import sqrt
from typing import Protocol

from pipeline.findings.model import Category, Draft, Evidence, Finding, FindingId, Location

QUOTE = 240  # characters of a quotation
_SHORTEST = 8  # characters of a quotation that tells places apart
_COMMENT = re.compile(r"\s(?:#|//|--)\s.*$")
_GENERIC = re.compile(r"(?:\W*|return|pass|else:?|try:?|break|continue|end)[\s;:{}()]*", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_STEM = 5  # letters: rotate and rotation are one word
_EMPTY = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for", "from", "has", "have"),
        *("if", "in", "into", "is", "it", "its", "may", "missing", "no", "not", "of", "on", "or", "possible"),
        *("potential", "should", "that", "the", "this", "to", "when", "where", "which", "with", "without"),
    }
)
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


@lru_cache(maxsize=1 << 14)  # the same titles and lines are asked about again and again
def content_words(texts: tuple[str, ...]) -> frozenset[str]:
    """The stems of the words in some texts, without those that say nothing about a defect."""
    every = {word for text in texts for word in norm_title(text).split()}
    return frozenset(word[:_STEM] for word in every - _EMPTY)


def likeness(words: frozenset[str], others: frozenset[str]) -> float:
    """How much two texts say in the same words, from 0 to 1.

    The mean of two measures: by the shorter text alone it could be part of any long one, by all words together two
    texts of different length would never match.
    """
    shared = len(words & others)
    return shared / sqrt(min(len(words), len(others)) * len(words | others)) if shared else 0.0


def signature(category: Category, evidence: Iterable[Evidence], title: str, *, nth: int = 0) -> str:
    """The hash of what a finding says of which code. `nth` tells equal ones apart that quote nothing."""
    keys = sorted({_evidence_key(item, nth) for item in evidence})
    text = "\0".join((category, *keys, norm_title(title)))
    return f"sha256:{_hash(text)}"


def raw_signature(reviewer: str, raw: str) -> str:
    """The hash of an item that cannot be read: the same text from the same reviewer is the same finding."""
    return f"sha256:{_hash(chr(0).join(('unreadable', reviewer, raw)))}"


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


TEXT = "text/v1"  # the first line it is about
NTH = "nth/v1"  # `2/5`: the second of five lines of its file with that text
WINDOW = "ctx/v1"  # hashes of that line and of three to either side, blank ones left out
SPAN = "span/v1"  # a hash of all its lines, where they are several
VERDICT = "verdict/v1"  # the id in a verdict file
OURS = frozenset({TEXT, NTH, WINDOW, SPAN, VERDICT})

AROUND = 3  # lines of context to either side
_LONGEST = 400  # lines of a span
_TRIES = 100  # places at which a span is looked for
_HASH = 12  # hex digits
_BY_LINE, _BY_QUOTE = "line/v1:", "quote/v1:"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of one file without its spacing, with an index of where each line is."""

    lines: tuple[str, ...]
    places: Mapping[str, Sequence[int]]  # lines counted from 1

    @classmethod
    def of(cls, lines: Iterable[str]) -> "SourceFile":
        """The lines of a file without their spacing."""
        plain = tuple(norm_line(line) for line in lines)
        places = defaultdict[str, list[int]](list)
        for number, line in enumerate(plain, 1):
            places[line].append(number)
        return cls(plain, dict(places))

    def window(self, line: int) -> tuple[str, ...]:
        """The hashes of the lines around one."""
        near = self.lines[max(0, line - 1 - AROUND) : line + AROUND]
        return tuple(line_hash(text) for text in near if text)

    def span(self, start: int, end: int) -> str:
        """The hash of some lines."""
        return line_hash("\n".join(self.lines[start - 1 : min(end, start + _LONGEST)]))


def norm_line(line: str) -> str:
    """A line without what a formatter changes; a very long one is its hash."""
    text = " ".join((line if line.isascii() else unicodedata.normalize("NFC", line)).split())
    return text if len(text) <= QUOTE else f"sha256:{_hash(text)}"


@lru_cache(maxsize=1 << 10)  # a line is in several windows
def line_hash(text: str) -> str:
    """A short hash of a line's text."""
    return _hash(text)[:_HASH]


def fingerprints(draft: Draft, page: SourceFile | None) -> dict[str, str]:
    """Return all that a draft can be recognised by, from the file as it is now; None if there is no file."""
    found = {name: value for name, value in draft.tool_ids.items() if name not in OURS}
    place = draft.location
    if place is not None:
        found[VERDICT] = verdict_id(draft.reviewer, place.path, line_range(place))
    if page is None or place is None or place.start is None or not 0 < place.start <= len(page.lines):
        quoted_lines = (norm_line(line) for item in draft.evidence for line in item.quote.splitlines())
        quoted = next(filter(None, quoted_lines), "")
        return found | ({TEXT: quoted} if quoted else {})
    start, size, text = place.start, line_count(place), page.lines[place.start - 1]
    found[WINDOW] = " ".join(page.window(start))
    if size > 1:
        found[SPAN] = page.span(start, start + size - 1)
    if text:
        places = page.places[text]
        found |= {TEXT: text, NTH: f"{bisect_right(places, start)}/{len(places)}"}
    return found


class FindingSources(Protocol):
    """The files that findings are about."""

    def lines(self, path: str) -> Sequence[str] | None:
        """A file's lines now; None when there is no such file in the repository."""
        ...


def add_fingerprints(drafts: Sequence[Draft], sources: FindingSources) -> list[Draft]:
    """Return drafts with their fingerprints. Each file is read once, and one file is held at a time."""
    by_path = defaultdict[str, list[int]](list)
    for index, draft in enumerate(drafts):
        by_path[draft.location.path if draft.location else ""].append(index)
    done = list(drafts)
    for path, indices in by_path.items():
        page = read_source(sources, path)
        for index in indices:
            done[index] = replace(done[index], fingerprints=fingerprints(done[index], page))
    return done


def read_source(sources: FindingSources, path: str) -> SourceFile | None:
    """A file of the repository as it is now; None when there is no such file."""
    lines = sources.lines(path) if path else None
    return None if lines is None else SourceFile.of(lines)


def lines_unchanged(finding: Finding, page: SourceFile | None) -> bool | None:
    """Whether the lines a finding is about are still in a file; None when it never had any."""
    kept = finding.fingerprints
    text = kept.get(TEXT)
    if not text:
        return None
    places = page.places.get(text, ()) if page else ()
    if page is None or len(places) < _count(kept.get(NTH, "")):
        return False
    size = line_count(finding.location)
    return size == 1 or SPAN not in kept or any(page.span(at, at + size - 1) == kept[SPAN] for at in places[:_TRIES])


def evidence_digest(finding: Finding | Draft) -> str:
    """What a dismissal is tied to: the text of the line, or else what was quoted; nothing without either."""
    if text := finding.fingerprints.get(TEXT):
        return _BY_LINE + line_hash(text)
    quotes = sorted({quote for item in finding.evidence if (quote := norm_quote(item.quote or item.raw))})
    return _BY_QUOTE + line_hash("\n".join(quotes)) if quotes else ""


def same_evidence(digest: str, finding: Finding | Draft) -> bool:
    """Whether what was dismissed is what a finding is about, or is beside it. An unknown digest says nothing."""
    now = evidence_digest(finding)
    if not now or digest.partition(":")[0] != now.partition(":")[0]:
        return True
    return digest == now or digest.removeprefix(_BY_LINE) in finding.fingerprints.get(WINDOW, "").split()


def symbol_of(finding: Finding | Draft) -> str:
    """The function or class a finding is in, if anybody said."""
    named = (finding.location.symbol if finding.location else "", *(item.symbol for item in finding.evidence))
    return next((symbol for symbol in named if symbol), "")


def _hash(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()


def line_count(place: Location | None) -> int:
    """How many lines a place has; one where nobody said."""
    if place is None or place.start is None or place.end is None:
        return 1
    return max(1, place.end - place.start + 1)


def _count(nth: str) -> int:
    count = nth.partition("/")[2]
    return int(count) if count.isdecimal() else 1
