"""mypy's output in: plain text, JSON lines (`--output json`), or both.

Text is read because only text says that there are no errors (in JSON a clean run prints nothing, and silence is never
taken for a clean run), and because it ends with their number, which shows whether anything is missing.
"""

import re
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from pipeline.findings.formats import items, strict_json
from pipeline.findings.model import Draft, Location, Report, ReportStatus, Severity
from pipeline.findings.scales import category_of_rule

FORMAT = "mypy"
_SEVERITY = {"error": Severity.HIGH, "note": Severity.INFO}
_MESSAGE = re.compile(
    r"(?P<file>\S.*?)(?::(?P<line>\d{1,9})(?::\d+)?(?::(?P<end_line>\d{1,9}):\d+)?)?: "
    r"(?P<severity>error|note): (?P<message>.*?)(?:  \[(?P<code>[a-z][a-z0-9-]*)\])?"
)
_TOTAL = re.compile(
    r"Success: no issues found in [1-9]\d* source files?|Found ([1-9]\d{0,8}) errors? in \d+ files?(?: \(.*\))?"
)
_STOPPED = re.compile(
    r'\(errors prevented further checking\)$|: error: INTERNAL ERROR|^\{.*"code": ?"syntax"', re.MULTILINE
)  # a file that cannot be parsed stops mypy


class _Line(items.ForeignModel):
    file: str
    line: int = Field(default=-1, ge=-1)
    end_line: int = -1
    severity: Literal["error", "note"]
    message: str = Field(min_length=1)
    code: str = ""
    hint: str = ""


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what mypy found; raise ValueError."""
    name, text = reviewer or FORMAT, strict_json.decode_text(data)
    report = items.collect_items(
        name, FORMAT, _parse(text), lambda item, input_id: _read_item(item, input_id, name, root)
    )
    if _STOPPED.search(text):
        return replace(report, status=ReportStatus.PARTIAL, problem="mypy may have found more: it stopped early")
    return report


def _parse(text: str) -> list[Any]:
    """Return the fields of each message, and the text of each line that is none.

    If mypy says how many errors there are, all of them must be listed: `Success` means none.
    """
    messages: list[Any] = []
    totals: list[int] = []
    for number, line in enumerate(map(str.rstrip, text.split("\n")), 1):
        if line[:1].isspace():
            raise items.UnreadableFile(f"line {number} is indented; run mypy with --no-pretty or --output json")
        if total := _TOTAL.fullmatch(line):
            totals.append(int(total[1] or 0))
        elif line.startswith("{"):
            messages.append(strict_json.parse(line))
        elif line:
            _add_line(messages, line)
    if not messages and not totals:
        raise items.UnreadableFile("it is empty: a clean run says so in text, but prints nothing with --output json")
    if not text.endswith("\n") and not line.startswith("{"):  # a JSON value that could be parsed is whole
        raise items.UnreadableFile("the last line does not end: it was cut off")
    errors = sum(isinstance(item, dict) and item.get("severity") == "error" for item in messages)
    if totals and sum(totals) != errors:
        raise items.UnreadableFile(f"it counts {sum(totals)} errors and lists {errors}")
    return messages


def _add_line(messages: list[Any], line: str) -> None:
    """Append a line of text; a note about the line of the error before it is the hint of that error, as in JSON."""
    match = _MESSAGE.fullmatch(line)
    if match is None:
        messages.append(line)
        return
    item = {
        "file": match["file"],
        "line": int(match["line"] or -1),
        "end_line": int(match["end_line"] or -1),
        "severity": match["severity"],
        "message": match["message"],
        "code": match["code"] or "",
    }
    last = messages[-1] if messages and isinstance(messages[-1], dict) else {}
    error_here = (last.get("file"), last.get("line"), last.get("severity")) == (item["file"], item["line"], "error")
    if item["severity"] == "note" and error_here:
        last["hint"] = items.excerpt(f"{last.get('hint') or ''}\n{item['message']}".strip())
    else:
        messages.append(item)


def _read_item(item: Any, input_id: str, reviewer: str, root: str) -> Draft:
    if isinstance(item, str):
        raise items.ItemError("not a message of mypy's")
    message = _Line.model_validate(item)
    start, end = items.check_lines(max(message.line, 0), max(message.end_line, 0))
    return items.tool_finding(
        input_id,
        reviewer,
        message.message,
        _SEVERITY[message.severity],
        category_of_rule(FORMAT),
        impact=items.excerpt(message.hint),
        locations=(Location(path=items.relative_path(message.file, root), start=start, end=end),),
        ext={FORMAT: {"ruleId": message.code}},
    )
