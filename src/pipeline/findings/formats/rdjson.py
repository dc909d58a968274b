"""Reviewdog's diagnostics, in and out: one object with all (rdjson), or one on each line (rdjsonl).

A line that cannot be read makes the whole unreadable: it may be where the answer was cut off.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from pipeline.findings import scales as tools
from pipeline.findings.formats.items import (
    TOOL_CONFIDENCE,
    ForeignModel,
    ItemError,
    UnreadableFile,
    collect_items,
    headline,
    json_lines,
    json_of,
    limit_nesting,
    malformed_report,
    relative_path,
    replacement_text,
    rest_of_message,
    text_of,
    title_of,
)
from pipeline.findings.model import Evidence, Finding, Location, RawFinding, ReviewerReport, Severity
from pipeline.findings.scales import RDJSON_SEVERITY, default_autofix

FORMAT = "rdjson"
_SEVERITY: Mapping[str | int, Severity] = {
    "ERROR": Severity.HIGH,
    "WARNING": Severity.MEDIUM,
    "INFO": Severity.LOW,
    1: Severity.HIGH,
    2: Severity.MEDIUM,
    3: Severity.LOW,
}


class _Position(ForeignModel):
    line: int = Field(default=0, ge=0)
    column: int = 0


class _Range(ForeignModel):
    start: _Position = _Position()
    end: _Position | None = None


class _Place(ForeignModel):
    path: str
    range: _Range = _Range()


class _Related(ForeignModel):
    message: str = ""
    location: _Place


class _Suggestion(ForeignModel):
    range: _Range = _Range()
    text: str = ""


class _Code(ForeignModel):
    value: str = ""
    url: str = ""


class _Source(ForeignModel):
    name: str = ""


class _Diagnostic(ForeignModel):
    message: str = Field(min_length=1)
    location: _Place | None = None
    severity: str | int | None = None
    source: _Source = _Source()
    code: _Code = _Code()
    suggestions: list[_Suggestion] = Field(default_factory=list)
    related_locations: list[_Related] = Field(default_factory=list)


_SUGGESTIONS = TypeAdapter(list[_Suggestion])


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """The diagnostics of either shape. `root` is the repository's directory, for tools that write absolute paths."""
    try:
        whole = _whole(data)
    except UnreadableFile as error:
        return malformed_report(reviewer or FORMAT, FORMAT, f"it cannot be read as rdjson: {error}")
    source = whole.get("source")
    tool = source.get("name") if isinstance(source, dict) else ""
    name = reviewer or tools.reviewer_name(tool if isinstance(tool, str) else "") or FORMAT
    usual = {key: whole[key] for key in ("source", "severity") if whole.get(key) is not None}
    return collect_items(
        name, FORMAT, whole["diagnostics"], lambda item, input_id: _claim(item, usual, input_id, name, root), title_of
    )


def _whole(data: bytes) -> dict[str, Any]:
    text = text_of(data)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and lines[0].endswith("}") and lines[1].startswith("{"):
        return {"diagnostics": list(json_lines(text))}
    value = json_of(data)
    if isinstance(value, dict) and isinstance(value.get("diagnostics"), list):
        return value
    if isinstance(value, dict) and "message" in value:
        return {"diagnostics": [value]}
    raise UnreadableFile("it has no list named diagnostics, and is no diagnostic itself")


def _claim(item: Any, usual: Mapping[str, Any], input_id: str, reviewer: str, root: str) -> RawFinding:
    if not isinstance(item, dict):
        raise ItemError(f"it is {type(item).__name__}, and a diagnostic is an object")
    told = _Diagnostic.model_validate({**usual, **{key: value for key, value in item.items() if value is not None}})
    severity = _severity(told.severity)
    fix = replacement_text(told.suggestions[0].text) if told.suggestions else None
    autofix_class, owner = default_autofix(fix, severity)
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(told.message),
        severity=severity,
        confidence=TOOL_CONFIDENCE,
        category=tools.category_of_rule(tools.reviewer_name(told.source.name) or reviewer, told.code.value),
        impact=rest_of_message(told.message),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        locations=(_location(told.location, root),) if told.location and told.location.path else (),
        evidence=tuple(_evidence(related, root) for related in told.related_locations),
        ext={FORMAT: limit_nesting({key: item[key] for key in item if key not in ("message", "location")}, "it")},
    )


def _severity(value: str | int | None) -> Severity:
    if value in (None, "UNKNOWN_SEVERITY", 0):
        return Severity.MEDIUM
    if value not in _SEVERITY:
        raise ItemError(f"its severity is {value!r}, and ERROR, WARNING or INFO was expected")
    return _SEVERITY[value]


def _lines(place: _Place) -> tuple[int | None, int | None]:
    """The lines of a range. One that ends before a line's first column does not touch that line."""
    start, last = place.range.start.line, place.range.end
    end = last.line - (last.column == 1 and last.line > start) if last else 0
    if start and 0 < end < start:
        raise ItemError(f"its range ends on line {end}, before it begins on line {start}")
    return start or None, (end or None) if start else None


def _location(place: _Place, root: str) -> Location:
    start, end = _lines(place)
    return Location(path=relative_path(place.path, root), start=start, end=end)


def _evidence(related: _Related, root: str) -> Evidence:
    start, end = _lines(related.location)
    return Evidence(path=relative_path(related.location.path, root), start=start, end=end, raw=related.message)


def encode(findings: Iterable[Finding]) -> str:
    """Those findings that somebody has still to look at, in the order of their numbers."""
    shown = sorted((one for one in findings if one.state.needs_attention), key=lambda one: (one.number, one.id))
    whole = {"source": {"name": "awf"}, "diagnostics": [_diagnostic(finding) for finding in shown]}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _diagnostic(finding: Finding) -> dict[str, Any]:
    fix = f"Fix: {finding.fix}" if finding.fix else ""
    diagnostic: dict[str, Any] = {
        "message": "\n\n".join(part for part in (finding.title, finding.impact, fix) if part),
        "severity": RDJSON_SEVERITY[finding.severity],
        "code": _code(finding),
    }
    if finding.location:
        diagnostic["location"] = {"path": finding.location.path} | _range(finding.location)
    suggestions = _suggestions(_kept(finding).get("suggestions")) if finding.state.active else []
    return diagnostic | ({"suggestions": suggestions} if suggestions else {})


def _kept(finding: Finding) -> Mapping[str, Any]:
    kept = finding.ext.get(FORMAT)
    return kept if isinstance(kept, dict) else {}


def _suggestions(kept: Any) -> list[dict[str, Any]]:
    """What a tool proposed to put where; a fix in words is part of the message, for it can be put nowhere."""
    try:
        return [item.model_dump() for item in _SUGGESTIONS.validate_python(kept or [])]
    except ValidationError:  # not what this format calls a suggestion: it stays where it is kept
        return []


def _code(finding: Finding) -> dict[str, str]:
    """The rule of the tool that found it, or its category."""
    code = _kept(finding).get("code")
    value = code.get("value") if isinstance(code, dict) else None
    sarif = finding.ext.get("sarif")
    rule = value or (sarif.get("ruleId") if isinstance(sarif, dict) else None)
    return {"value": rule if isinstance(rule, str) else str(finding.category)}


def _range(location: Location) -> dict[str, Any]:
    if not location.start:
        return {}
    return {"range": {"start": {"line": location.start}} | ({"end": {"line": location.end}} if location.end else {})}
