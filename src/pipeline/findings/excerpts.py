"""The lines of code that a finding is about, as they are now.

Lines are read from files inside the repository only, and no secret in them is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.model import Evidence, Finding
from pipeline.redaction import Redactor
from pipeline.text import REPLACEMENT, is_control, truncate_length

_CONTEXT = 4  # lines before and after
_MAX_LINES = 60  # of one excerpt
_MAX_LENGTH = 400  # characters of a line
_MAX_EXCERPTS = 8


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file as they are now, or why they are not shown."""

    evidence: Evidence
    lines: tuple[tuple[int, str, bool], ...] = ()  # number, text, and whether the finding is about it
    note: str = ""


def read_excerpts(finding: Finding, root: Path, redactor: Redactor) -> list[Excerpt]:
    """The lines that the evidence of a finding names, then its other locations, each once."""
    named = dict[tuple[str, int | None], Evidence]()
    locations = [Evidence(path=one.path, start=one.start, end=one.end) for one in finding.locations]
    for item in (*finding.evidence, *locations):
        if item.path:
            named.setdefault((item.path, item.start), item)
    files, excerpts = RepositoryFiles(root), list[Excerpt]()
    for item in list(named.values())[:_MAX_EXCERPTS]:
        excerpts.append(_build_excerpt(item, files.lines(item.path), redactor))
    return excerpts


def _build_excerpt(item: Evidence, source: Sequence[str] | None, redactor: Redactor) -> Excerpt:
    if source is None:
        return Excerpt(item, note="The repository has no such file now, or none that can be shown.")
    if item.start is None:
        return Excerpt(item)
    if item.start > len(source):
        return Excerpt(item, note=f"The file has only {len(source)} lines now.")
    redacted = redactor.text("\n".join(source)).split("\n")  # of the whole file: a secret may span several lines
    if len(redacted) != len(source):
        return Excerpt(item, note="These lines contain a secret and are not shown.")
    last = min(max(item.end or item.start, item.start), len(source))
    first, until = max(item.start - _CONTEXT, 1), min(last + _CONTEXT, len(source), item.start + _MAX_LINES)
    lines = tuple(
        (number, _visible(redacted[number - 1]), item.start <= number <= last) for number in range(first, until + 1)
    )
    quoted = _is_quoted(item.quote, source[item.start - 1 : last])
    return Excerpt(item, lines, "" if quoted else "The quoted text is not on these lines now: the file has changed.")


def _is_quoted(quote: str, lines: Sequence[str]) -> bool:
    """Whether the first line of a quote is on the lines; spacing does not count, and a quote may be truncated."""
    first = next((words for line in quote.splitlines() if (words := " ".join(line.split()))), "")
    return first.rstrip("…. ") in " ".join(" ".join(lines).split())


def _visible(text: str) -> str:
    """A line in which nothing is hidden and nothing reverses the reading direction."""
    shown = truncate_length(text, _MAX_LENGTH)
    return "".join(REPLACEMENT if is_control(char) and char != "\t" else char for char in shown)
