"""ESLint's JSON in: an array with one object for each file, and in it what was found and what was suppressed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from pipeline.findings import scales as tools
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.items import (
    TOOL_CONFIDENCE,
    ForeignModel,
    ItemError,
    UnreadableFile,
    collect_items,
    headline,
    json_of,
    limit_nesting,
    malformed_report,
    relative_path,
    replacement_text,
    rest_of_message,
    title_of,
)
from pipeline.findings.model import Location, RawFinding, ReviewerReport, Severity
from pipeline.findings.scales import default_autofix

FORMAT = "eslint"
_SEVERITY = {2: Severity.HIGH, 1: Severity.MEDIUM}
_READ = frozenset(("message", "line", "endLine", "severity", "suppressions"))


class _Fix(ForeignModel):
    text: str = ""


class _Suppression(ForeignModel):
    kind: str = ""
    justification: str = ""


class _Message(ForeignModel):
    message: str = Field(min_length=1)
    severity: int
    ruleId: str | None = None  # noqa: N815 - the format's own name
    line: int | None = Field(default=None, ge=0)
    endLine: int | None = Field(default=None, ge=0)  # noqa: N815 - the format's own name
    fix: _Fix | None = None
    suppressions: list[_Suppression] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Miscount:
    """A count of a file that its messages do not bear out."""

    path: str
    message: str


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """What ESLint found. `root` is the repository's directory, for ESLint writes absolute paths."""
    name = reviewer or FORMAT
    try:
        files = _files(json_of(data))
    except UnreadableFile as error:
        return malformed_report(name, FORMAT, f"it cannot be read as ESLint's JSON: {error}")
    paths = [relative_path(file["filePath"], root) for file in files]
    items = [(path, item) for path, file in zip(paths, files, strict=True) for item in _items(path, file)]
    return collect_items(
        name,
        FORMAT,
        items,
        lambda item, input_id: _claim(*item, input_id, name),
        lambda item: title_of(item[1]),
        covered=tuple(dict.fromkeys(paths)),
    )


def _files(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise UnreadableFile("it is not a list of files with at least one: no file was looked at")
    for file in value:
        if not isinstance(file, dict) or not isinstance(file.get("filePath"), str) or not _lists(file):
            raise UnreadableFile("one of its files has no filePath, or no list of messages")
    return value


def _lists(file: Mapping[str, Any]) -> bool:
    return isinstance(file.get("messages"), list) and isinstance(file.get("suppressedMessages", []), list)


def _items(path: str, file: Mapping[str, Any]) -> list[Any]:
    return [*file["messages"], *file.get("suppressedMessages", []), *_miscounts(path, file)]


def _miscounts(path: str, file: Mapping[str, Any]) -> Iterator[_Miscount]:
    messages = [one for one in file["messages"] if isinstance(one, dict)]
    listed = {
        "errorCount": sum(one.get("severity") == 2 for one in messages),
        "fatalErrorCount": sum(one.get("fatal") is True for one in messages),
        "warningCount": sum(one.get("severity") == 1 for one in messages),
    }
    for key, shown in listed.items():
        count = file.get(key, 0)
        if not strict.is_int(count) or count < 0:
            yield _Miscount(path, f"{key} is not a whole number: {str(count)[:200]}")
        elif count > shown:
            yield _Miscount(path, f"{key} is {count}, and {shown} of them are listed")


def _claim(path: str, item: Any, input_id: str, reviewer: str) -> RawFinding:
    if isinstance(item, _Miscount):
        raise ItemError("the report contradicts itself: messages of this file may be missing")
    told = _Message.model_validate(item)
    if told.severity not in _SEVERITY:
        raise ItemError(f"its severity is {told.severity}, and 1 or 2 was expected")
    severity, fix = _SEVERITY[told.severity], replacement_text(told.fix.text) if told.fix else None
    autofix_class, owner = default_autofix(fix, severity)
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(told.message),
        severity=severity,
        confidence=TOOL_CONFIDENCE,
        category=tools.category_of_rule(FORMAT, told.ruleId or ""),
        impact=rest_of_message(told.message),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        locations=(_location(path, told),),
        suppressed=_suppressed(told.suppressions),
        ext={
            FORMAT: limit_nesting({key: item[key] for key in item if key not in _READ}, "what it says beyond a claim")
        },
    )


def _location(path: str, told: _Message) -> Location:
    if not told.line:
        return Location(path=path)
    if told.endLine and told.endLine < told.line:
        raise ItemError(f"it ends on line {told.endLine}, before it begins on line {told.line}")
    return Location(path=path, start=told.line, end=told.endLine or None)


def _suppressed(suppressions: list[_Suppression]) -> str | None:
    if not suppressions:
        return None
    return next((item.justification for item in suppressions if item.justification), "suppressed in the source")
