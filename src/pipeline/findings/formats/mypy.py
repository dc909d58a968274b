"""mypy's output in: plain, `--pretty`, or one JSON object on each line (`--output json`).

mypy ends by saying how many errors there are: where fewer were read, the output was cut off.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from pipeline.findings import scales as tools
from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats.items import (
    TOOL_CONFIDENCE,
    ForeignModel,
    ItemError,
    UnreadableFile,
    collect_items,
    excerpt,
    headline,
    json_lines,
    malformed_report,
    reason_of,
    relative_path,
    text_of,
)
from pipeline.findings.model import Evidence, Location, RawFinding, ReviewerReport, Severity
from pipeline.findings.scales import default_autofix

FORMAT = "mypy"
_TOLD = re.compile(
    r"(?P<path>\S.*?):(?P<line>\d{1,9})(?::\d+)?(?::(?P<end>\d{1,9}):\d+)?: "
    r"(?P<kind>error|note|warning): ?(?P<message>.*)"
)
_BARE = re.compile(r"(?P<path>\S.*?): (?P<kind>error|note|warning): (?P<message>.*)")
_CODE = re.compile(r"\[([a-z][a-z0-9-]*)\]$")
_SUMMARY = re.compile(r"Found \d+ errors? in \d+ files?.*|(?P<clean>Success: no issues found.*)")
_COUNT = re.compile(r"Found (\d+) errors?\b")  # anywhere in a line
_DIGITS = 9  # of a count
_LONGEST = 1000  # characters of a message to which more lines are added
_NOTES = 200  # to one thing told
_DEFINED = re.compile(r".* defined (?:here|in .*)")


@dataclass(frozen=True, slots=True)
class _Told:
    """One thing that mypy says, with the notes that belong to it."""

    path: str
    line: int
    end: int
    kind: str
    message: str
    code: str = ""
    quote: str = ""
    notes: tuple[str, ...] = ()


class _Line(ForeignModel):
    file: str
    line: int = Field(ge=-1)
    end_line: int | None = None
    message: str = Field(min_length=1)
    hint: str | None = None
    code: str | None = None
    severity: Literal["error", "note", "warning"]


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What mypy found. An output that says nothing at all is not a clean one."""
    name = reviewer or FORMAT
    try:
        text = text_of(data)
        told: list[_Told | str] = (
            [*map(_of_json, json_lines(text))] if text.lstrip().startswith("{") else _of_text(text)
        )
    except UnreadableFile as error:
        return malformed_report(name, FORMAT, f"it cannot be read as the output of mypy: {error}")
    return collect_items(
        name, FORMAT, told, _claims(name, root), lambda item: item if isinstance(item, str) else item.message
    )


def _of_json(value: object) -> _Told | str:
    try:
        told = _Line.model_validate(value)
    except ValueError as error:
        return f"not an object as mypy writes it: {reason_of(error)}"
    notes = tuple(told.hint.split("\n")) if told.hint else ()
    return _Told(told.file, told.line, told.end_line or 0, told.severity, told.message, told.code or "", "", notes)


def _of_text(text: str) -> list[_Told | str]:
    found: list[_Told | str] = []
    counts: list[str] = []
    clean = False
    for line in text.split("\n"):
        counts += _counts(line)
        summary = _SUMMARY.fullmatch(line.rstrip())
        clean = clean or bool(summary and summary["clean"])
        if line.strip() and not summary:
            _add(found, line.rstrip("\r"))
    _check(text, found, counts, clean=clean)
    return found


def _counts(line: str) -> list[str]:
    """The errors that a line counts, unless it is an error itself or the source that one is about."""
    quoted = line[:1].isspace() and not _COUNT.match(line.strip())
    counts = [] if quoted else _COUNT.findall(line)
    return counts if counts and not _told(line.rstrip("\r")) else []


def _add(found: list[_Told | str], line: str) -> None:
    """One line: a thing told, a note to the last, the rest of its message, or the code it is about."""
    last = found[-1] if found else None
    if told := _told(line):
        if isinstance(last, _Told) and _belongs(told, last):
            found[-1] = replace(last, notes=(*last.notes[:_NOTES], told.message))
        else:
            found.append(told)
    elif not isinstance(last, _Told):
        found.append(line)
    elif not line.startswith(" "):
        found[-1] = _coded(replace(last, message=f"{last.message[:_LONGEST]} {line}"))
    elif not last.quote:
        found[-1] = replace(last, quote=line.strip()[:QUOTE])


def _told(line: str) -> _Told | None:
    match = _TOLD.fullmatch(line)
    if match:
        told = _Told(match["path"], int(match["line"]), int(match["end"] or 0), match["kind"], match["message"])
        return _coded(told)
    bare = _BARE.fullmatch(line)
    return _coded(_Told(bare["path"], 0, 0, bare["kind"], bare["message"])) if bare else None


def _coded(told: _Told) -> _Told:
    match = _CODE.search(told.message)
    return replace(told, message=told.message[: match.start()].rstrip(), code=match[1]) if match else told


def _belongs(told: _Told, last: _Told) -> bool:
    same = (told.path, told.line) == (last.path, last.line)
    return told.kind == "note" and last.kind == "error" and (same or bool(_DEFINED.fullmatch(told.message)))


def _check(text: str, found: list[_Told | str], counts: list[str], *, clean: bool) -> None:
    errors = sum(isinstance(item, _Told) and item.kind == "error" for item in found)
    if not found and not counts and not clean:
        raise UnreadableFile("it says nothing, not even that there are no errors")
    if not text.endswith("\n"):
        raise UnreadableFile("its last line does not end: it was cut off")
    if clean and (counts or errors):
        raise UnreadableFile("it reports errors and says that there are none")
    if any(len(count) > _DIGITS for count in counts):
        raise UnreadableFile(f"its count of errors has more than {_DIGITS} digits")
    counted = sum(map(int, counts))
    if counts and (counted != errors or not counted):
        raise UnreadableFile(f"it counts {counted} errors and shows {errors}")


def _claims(reviewer: str, root: str) -> Callable[[_Told | str, str], RawFinding]:
    def claim(told: _Told | str, input_id: str) -> RawFinding:
        if isinstance(told, str):
            raise ItemError(f"it is no line of mypy's: {told[:200]}")
        return _claim(told, input_id, reviewer, root)

    return claim


def _claim(told: _Told, input_id: str, reviewer: str, root: str) -> RawFinding:
    severity = {"error": Severity.HIGH, "warning": Severity.MEDIUM}.get(told.kind, Severity.INFO)
    autofix_class, owner = default_autofix(None, severity)
    path, start, end = relative_path(told.path, root), max(told.line, 0) or None, told.end or None
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(told.message) or "mypy says nothing of it",
        severity=severity,
        confidence=TOOL_CONFIDENCE,
        category=tools.category_of_rule(FORMAT),
        impact=excerpt("\n".join(told.notes)),
        autofix_class=autofix_class,
        owner=owner,
        locations=(Location(path=path, start=start, end=end if start and end and end >= start else None),),
        evidence=(Evidence(path=path, start=start, end=start, quote=told.quote),) if told.quote else (),
        ext={FORMAT: {"code": told.code}} if told.code else {},
    )
