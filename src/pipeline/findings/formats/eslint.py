"""ESLint's JSON in: an array with one object per file, and in it the messages and those that were suppressed."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, TypeAdapter

from pipeline.findings.formats import items, strict_json
from pipeline.findings.model import Draft, Location, Report, Severity
from pipeline.findings.scales import category_of_rule

FORMAT = "eslint"
_SEVERITY = {2: Severity.HIGH, 1: Severity.MEDIUM}
_READ_KEYS = frozenset(("message", "line", "endLine", "severity", "suppressions", "filePath"))


class _Fix(items.CamelModel):
    text: str = ""


class _Suppression(items.CamelModel):
    justification: str = ""


class _Message(items.CamelModel):
    message: str = Field(min_length=1)
    severity: int = Field(ge=1, le=2)
    rule_id: str = ""
    line: int = Field(default=0, ge=0)
    end_line: int = Field(default=0, ge=0)
    fix: _Fix | None = None
    suppressions: items.Many[_Suppression] = ()


class _File(items.CamelModel):
    faulty_nulls = frozenset({"errorCount", "fatalErrorCount", "warningCount"})

    file_path: str
    messages: list[Any]
    suppressed_messages: items.Many[Any] = ()
    error_count: Any = 0
    fatal_error_count: Any = 0
    warning_count: Any = 0


_files = TypeAdapter(items.Many[_File])


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return what ESLint found; raise ValueError."""
    files = _files.validate_python(strict_json.loads(data))
    if not files:
        raise items.UnreadableFile("it lists no file: nothing was checked")
    name = reviewer or FORMAT
    return items.collect_items(
        name,
        FORMAT,
        [_with_path(item, file, root) for file in files for item in (*file.messages, *file.suppressed_messages)],
        lambda item, input_id: _read_item(item, input_id, name),
        contradictions=[_with_path(count, file, root) for file in files for count in _miscounts(file)],
        covered=tuple(dict.fromkeys(items.relative_path(file.file_path, root) for file in files if not _fatal(file))),
    )


def _with_path(item: Any, file: _File, root: str) -> Any:
    return {**item, "filePath": items.relative_path(file.file_path, root)} if isinstance(item, dict) else item


def _fatal(file: _File) -> bool:
    """Return whether ESLint could not check a file, such as one that cannot be parsed."""
    return any(isinstance(message, dict) and message.get("fatal") is True for message in file.messages)


def _miscounts(file: _File) -> Iterator[dict[str, str]]:
    messages = [message for message in file.messages if isinstance(message, dict)]
    counts = (
        ("errorCount", file.error_count, sum(message.get("severity") == 2 for message in messages)),
        ("fatalErrorCount", file.fatal_error_count, sum(message.get("fatal") is True for message in messages)),
        ("warningCount", file.warning_count, sum(message.get("severity") == 1 for message in messages)),
    )
    for key, stated, listed in counts:
        if not strict_json.is_int(stated) or stated < 0:
            yield {"message": f"{key} is not a count: {str(stated)[:200]}"}
        elif stated > listed:
            yield {"message": f"{key} is {stated}, but only {listed} are listed"}


def _read_item(item: Mapping[str, Any], input_id: str, reviewer: str) -> Draft:
    message = _Message.model_validate(item)
    start, end = items.check_lines(message.line, message.end_line)
    suppressed = None
    if message.suppressions:
        reasons = (suppression.justification for suppression in message.suppressions)
        suppressed = next(filter(None, reasons), "suppressed in the source")
    return items.tool_finding(
        input_id,
        reviewer,
        message.message,
        _SEVERITY[message.severity],
        category_of_rule(FORMAT, message.rule_id),
        fix=items.replacement_text(message.fix.text) if message.fix else None,
        locations=(Location(path=item["filePath"], start=start, end=end),),
        suppressed=suppressed,
        ext=items.unread_keys(FORMAT, item, _READ_KEYS),
    )
