"""Reviewdog's diagnostics, in and out: one object with all of them (rdjson), or one per line (rdjsonl).

A line that cannot be read makes the whole file unreadable: it may be where the file was cut off.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from pipeline.findings.formats import items, strict_json
from pipeline.findings.formats.fields import filled
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Draft, Evidence, Finding, Location, Report, Severity
from pipeline.findings.scales import RDJSON_SEVERITY, category_of_rule, reviewer_name

FORMAT = "rdjson"
_SEVERITY: Mapping[str | int, Severity] = {
    **dict.fromkeys(("ERROR", 1), Severity.HIGH),
    **dict.fromkeys(("WARNING", 2, "UNKNOWN_SEVERITY", 0), Severity.MEDIUM),
    **dict.fromkeys(("INFO", 3), Severity.LOW),
}


class _Position(items.ForeignModel):
    line: int = Field(default=0, ge=0)
    column: int = 0


class _Range(items.ForeignModel):
    start: _Position = _Position()
    end: _Position = _Position()


class _Place(items.ForeignModel):
    path: str = Field(min_length=1)
    range: _Range = _Range()

    def in_repository(self, root: str) -> Location:
        """Return the place below a root."""
        start, end = items.check_lines(self.range.start.line, self.range.end.line, self.range.end.column)
        return Location(path=items.relative_path(self.path, root), start=start, end=end)


class _Related(items.ForeignModel):
    message: str = ""
    location: _Place


class _Suggestion(items.ForeignModel):
    text: str = ""


class _Code(items.ForeignModel):
    value: str = ""


class _Source(items.ForeignModel):
    name: str = ""


class _Diagnostic(items.ForeignModel):
    message: str = Field(min_length=1)
    location: _Place | None = None
    severity: str | int = 0
    source: _Source = _Source()
    code: _Code = _Code()
    suggestions: items.Many[_Suggestion] = ()
    related_locations: items.Many[_Related] = ()


class _Report(items.ForeignModel):
    diagnostics: list[Any]
    source: _Source = _Source()


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return the diagnostics of either shape; raise ValueError."""
    whole = _parse(data)
    report = _Report.model_validate(whole)
    name = reviewer or reviewer_name(report.source.name) or FORMAT
    defaults = {key: whole[key] for key in ("source", "severity") if whole.get(key) is not None}

    return items.collect_items(
        name, FORMAT, report.diagnostics, lambda item, input_id: _read_item(item, defaults, input_id, name, root)
    )


def _parse(data: bytes) -> Any:
    """Return the object with all diagnostics; for one per line, or a single one, make it."""
    text = strict_json.decode_text(data)
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or not all(line.startswith("{") for line in lines):
        return strict_json.parse(text)
    values = [strict_json.parse(line) for line in lines]
    if len(values) == 1 and "message" not in values[0]:
        return values[0]
    return {"diagnostics": values}


def _read_item(item: Any, defaults: dict[str, Any], input_id: str, reviewer: str, root: str) -> Draft:
    if not isinstance(item, dict):
        raise items.ItemError("it should be an object")
    kept = {key: value for key, value in item.items() if value is not None}
    diagnostic = _Diagnostic.model_validate(defaults | kept)
    if diagnostic.severity not in _SEVERITY:
        raise items.ItemError(f"`severity` should be ERROR, WARNING or INFO, not {diagnostic.severity!r}")
    return items.tool_finding(
        input_id,
        reviewer,
        diagnostic.message,
        _SEVERITY[diagnostic.severity],
        category_of_rule(reviewer_name(diagnostic.source.name) or reviewer, diagnostic.code.value),
        fix=items.replacement_text(diagnostic.suggestions[0].text) if diagnostic.suggestions else None,
        locations=(diagnostic.location.in_repository(root),) if diagnostic.location else (),
        evidence=tuple(_evidence(related, root) for related in diagnostic.related_locations),
        ext=items.unread_keys(FORMAT, kept | {"ruleId": diagnostic.code.value}, ("message", "location", "suggestions")),
    )


def _evidence(related: _Related, root: str) -> Evidence:
    place = related.location.in_repository(root)
    return Evidence(path=place.path, start=place.start, end=place.end, raw=related.message)


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return the open findings, by number, each with its reviewer as the source."""
    shown = items.by_number(finding for finding in findings if finding.state.is_open)
    diagnostics = [_diagnostic(finding, items.line_number(finding, ledger)) for finding in shown]
    return strict_json.dumps({"source": {"name": "awf"}, "diagnostics": diagnostics}).decode()


def _diagnostic(finding: Finding, number: int) -> dict[str, Any]:
    fix = f"Fix: {finding.fix}" if finding.fix else ""  # not a suggestion: tools would insert the words
    diagnostic: dict[str, Any] = {
        "message": "\n\n".join(filter(None, (finding.title, finding.impact, fix, f"(#{number})"))),
        "severity": RDJSON_SEVERITY[finding.severity],
        "source": {"name": finding.reviewer},
        "code": {"value": items.rule_id(finding) or str(finding.category)},
    }
    if finding.location:
        diagnostic["location"] = _place(finding.location)
    return diagnostic


def _place(location: Location) -> dict[str, Any]:
    lines = filled(start=filled(line=location.start), end=filled(line=location.end))
    return filled(path=location.path, range=lines)
