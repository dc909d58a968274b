"""What an item that cannot be read as a finding still tells: its raw text, and perhaps title, severity and place."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from pipeline.findings.claims import Rejected
from pipeline.findings.model import Location, Severity

_TITLES = ("title", "plain_title", "message", "text", "name", "summary", "description", "issue", "problem")
_SEVERITIES = ("severity", "level", "priority")
_PATHS = ("file", "path", "filePath", "filename", "uri")
_LINES = ("line", "start_line", "startLine")
_BREAKING = ("x_system_breaking", "system_breaking")
_TITLE = 200  # characters
_LINE = re.compile(r"\d{1,9}")
_WORDS: Mapping[str, Severity] = {
    **dict.fromkeys(("p0", "critical", "blocker", "fatal"), Severity.CRITICAL),
    **dict.fromkeys(("p1", "high", "major", "error"), Severity.HIGH),
    **dict.fromkeys(("p2", "medium", "moderate", "warning", "warn"), Severity.MEDIUM),
    **dict.fromkeys(("p3", "low", "minor", "note"), Severity.LOW),
    **dict.fromkeys(("info", "information", "none"), Severity.INFO),
}


def rejected_item(item: Any, input_id: str, reason: str, title: str, *, harmless: bool = False) -> Rejected:
    """A rejected item with all that its text tells."""
    raw = _value(item)
    fields = raw if isinstance(raw, dict) else {}
    severity = _WORDS.get(_first(fields, _SEVERITIES).lower(), Severity.HIGH)
    path, line = _first(fields, _PATHS), _first(fields, _LINES)
    return Rejected(
        input_id=input_id,
        reason=reason,
        title=(title.strip() or _title(raw))[:_TITLE],
        raw=raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str),
        severity=severity,
        location=Location(path=path, start=int(line) if _LINE.fullmatch(line) and int(line) else None)
        if path
        else None,
        system_breaking=any(fields.get(name) is True for name in _BREAKING),
        harmless=harmless,
    )


def _value(item: Any) -> Any:
    """The item as its source wrote it; readers pass some together with where they found them."""
    if isinstance(item, tuple):
        return _value(item[-1])
    return asdict(item) if is_dataclass(item) and not isinstance(item, type) else item


def _title(raw: Any) -> str:
    """The first line of what calls itself a title, or of a text."""
    told = raw if isinstance(raw, str) else _first(raw, _TITLES) if isinstance(raw, dict) else ""
    return next((line.strip() for line in told.splitlines() if line.strip()), "")


def _first(fields: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    """The first of some fields that is a text or a number, as a text; `{"text": ...}` counts as its text."""
    for name in names:
        value = fields.get(name)
        value = value.get("text") if isinstance(value, dict) else value
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""
