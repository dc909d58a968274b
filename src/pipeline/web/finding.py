"""One finding: what it says, the lines it is about, who reported it, what was tried and decided, and its history.

Lines are read from files inside the repository only, and no secret in them is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.ledger import suggest_finding
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.explanation import last_seen
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import Evidence, Finding
from pipeline.redaction import Redactor
from pipeline.text import REPLACEMENT, is_control
from pipeline.web.findings import read_query
from pipeline.web.page import current_site, current_store, error_page, render, url, wants_json

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


def finding(request: Request) -> Response:
    """The page, or the whole record as JSON."""
    store, name = current_store(request), request.path_params["name"]
    run_id = read_query(request, store).run
    ledger = store.findings(run_id).snapshot.ledger
    found = ledger.find(name)
    if found is None:
        help = f"{suggest_finding(name, ledger)}."
        return error_page(request, 404, "Not found", f'There is no finding "{name}".', help)
    if wants_json(request):
        return JSONResponse(finding_record(found, ledger))
    leader = ledger.leader(found.id)
    values = {
        "finding": found,
        "ledger": ledger,
        "excerpts": read_excerpts(found, store.root, current_site(request).redactor),
        "texts": [item.raw for item in found.evidence if not item.path and item.raw],
        "leader": ledger.findings[leader] if leader != found.id else None,
        "members": ledger.members(found.id),
        "links": list(_links(found, ledger)),
        "last_seen": last_seen(found),
        "run_id": run_id,
        "live": url("s", store.name, "findings", found.number, run=run_id, part="details"),
    }
    return render(request, "finding.html", values)


def _links(found: Finding, ledger: Ledger) -> Iterator[tuple[str, str, str]]:
    """The links from and to a finding: what they say, the other finding's id, and a note."""
    for link in found.links:
        yield link.kind.replace("_", " "), link.to, link.note
    for other in ledger.findings.values():
        for link in other.links:
            if link.to == found.id and link.kind != DUPLICATE_OF:  # members are listed with their texts
                yield f"{link.kind.replace('_', ' ')} this:", other.id, link.note


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
    shown = text[:_MAX_LENGTH] + ("…" if len(text) > _MAX_LENGTH else "")
    return "".join(REPLACEMENT if is_control(char) and char != "\t" else char for char in shown)


ROUTES = [Route("/s/{store}/findings/{name}", finding)]
