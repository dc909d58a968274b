"""Lines of the files that findings are about. Nothing outside the repository is opened, and no secret is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.model import Evidence, Finding, Location
from pipeline.redaction import Redactor
from pipeline.text import REPLACEMENT, is_control

_AROUND = 4  # lines to either side
_MOST = 60  # lines of one excerpt
_LONGEST = 400  # characters of a line
_EXCERPTS = 8
_SECRET = "These lines hold a secret, and are not shown."  # noqa: S105 - no password
_MISSING = "There is no such file in the repository now, or none that can be shown."
_SHORTER = "The file has {} lines now, so these are not in it any more."
_CHANGED = "The quoted text is not on these lines now: the file was changed since."


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """One line of a file."""

    number: int
    text: str
    hit: bool  # whether it is one that the finding is about


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file as they are now, or why there are none."""

    path: str
    start: int | None
    end: int | None
    quote: str
    lines: tuple[ExcerptLine, ...] = ()
    note: str = ""

    @property
    def place(self) -> str:
        """Where it is, such as `src/a.py:3-5`."""
        if self.start is None:
            return self.path
        last = f"-{self.end}" if self.end not in (None, self.start) else ""
        return f"{self.path}:{self.start}{last}"


def excerpts(finding: Finding, root: Path, redactor: Redactor) -> list[Excerpt]:
    """What the evidence of a finding points at, and then the places that no evidence names, each once."""
    files = RepositoryFiles(root)
    return [_excerpt(place, files, redactor) for place in list(_places(finding))[:_EXCERPTS]]


def _places(finding: Finding) -> Iterator[Evidence]:
    told = set[tuple[str, int | None]]()
    for item in (*finding.evidence, *map(_bare, finding.locations)):
        if item.path and (item.path, item.start) not in told:
            told.add((item.path, item.start))
            yield item


def _bare(place: Location) -> Evidence:
    return Evidence(path=place.path, start=place.start, end=place.end)


def _excerpt(item: Evidence, files: RepositoryFiles, redactor: Redactor) -> Excerpt:
    found = files.lines(item.path)
    lines, note = ((), _MISSING) if found is None else _lines(item, found, redactor)
    return Excerpt(item.path, item.start, item.end, item.quote, lines, note)


def _lines(item: Evidence, found: Sequence[str], redactor: Redactor) -> tuple[tuple[ExcerptLine, ...], str]:
    if item.start is None:
        return (), ""
    if item.start > len(found):
        return (), _SHORTER.format(len(found))
    last = min(max(item.end or item.start, item.start), len(found))
    first, until = max(item.start - _AROUND, 1), min(last + _AROUND, len(found), item.start + _MOST)
    clean = _clean(found, first - 1, until, redactor)
    if clean is None:
        return (), _SECRET
    lines = tuple(ExcerptLine(at, _inert(text), item.start <= at <= last) for at, text in enumerate(clean, first))
    return lines, _changed(item.quote, found[item.start - 1 : last])


def _clean(lines: Sequence[str], first: int, until: int, redactor: Redactor) -> Sequence[str] | None:
    """Some lines without secrets. A secret may begin before them, so the whole file is looked at."""
    whole = "\n".join(lines)
    safe = redactor.text(whole)
    if safe is whole:
        return lines[first:until]
    marked = safe.split("\n")
    return marked[first:until] if len(marked) == len(lines) else None  # a secret of many lines moved the others


def _changed(quote: str, now: Sequence[str]) -> str:
    """What to say where the quote is on none of the lines; spacing does not count, and a quote may be cut."""
    wanted = next((line for line in map(_spaced, quote.splitlines()) if line), "")
    return "" if wanted.rstrip("…. ") in _spaced(" ".join(now)) else _CHANGED


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _inert(text: str) -> str:
    """A line in which nothing is hidden and nothing reverses the reading direction."""
    shown = text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(REPLACEMENT if is_control(c) and c != "\t" else c for c in shown)
