"""What the formats share: models, items to drafts, paths, lines and texts as tools write them.

Nothing is repaired: a file that was cut off is unreadable as a whole, and an item that cannot be read is kept as such.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from posixpath import normpath
from typing import Annotated, Any, ClassVar, TypeVar, cast
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Draft,
    Finding,
    Location,
    Report,
    ReportStatus,
    Severity,
)
from pipeline.findings.scales import default_autofix, default_category, severity_of_text
from pipeline.text import truncate_length

MAX_BYTES = 256 * 1024 * 1024  # of one file
MAX_DEPTH = 64  # levels of nesting that are kept with a finding
MAX_FAULTS = 20  # listed for one item
TOOL_CONFIDENCE = Confidence(value=100, scale="tool")  # a tool states what it computed
WRITTEN_FORMATS = ("", "review", "verdict")  # what reviewers write; tools write the others
CONTRADICTION = "the report contradicts itself: findings may be missing"

_REPORTED = 75  # the confidence of an unreadable item: none is filtered for it
_TITLES = ("title", "plain_title", "message", "text", "name", "summary", "description", "issue", "problem")
_SEVERITIES = ("severity", "level", "priority")
_PATHS = ("file", "path", "filePath", "filename", "uri")
_LINES = ("line", "start_line", "startLine")
_LINE_NUMBER = re.compile(r"[1-9]\d{0,8}")
_PROBLEMS = {
    "missing": "is missing",
    "too_short": "should not be empty",
    "string_too_short": "should not be empty",
    "string_type": "should be a text",
    "bool_type": "should be true or false",
    "int_type": "should be an integer",
    **dict.fromkeys(("list_type", "tuple_type"), "should be a list"),
    **dict.fromkeys(("model_type", "dict_type"), "should be an object"),
}  # for pydantic's types of errors; its other messages are used without their subject
_SUBJECT = re.compile(r"^(?:Input|String|Value error,) ")
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_FILE_URI = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


NotBlank = Annotated[str, AfterValidator(_check_not_blank)]
Item = TypeVar("Item")
Many = Annotated[tuple[Item, ...], Strict(False)]  # a JSON list; unlike a list it is not copied as a default


class UnreadableFile(ValueError):
    """Why a file cannot be read as a whole."""


class ItemError(ValueError):
    """Why one item cannot be read as a finding."""


class NothingWrong(ItemError):
    """An item that reports a success."""


class ForeignModel(BaseModel):
    """The part of a foreign format that is read. Unknown keys are ignored; null usually means left out."""

    model_config = ConfigDict(frozen=True, strict=True)
    faulty_nulls: ClassVar[frozenset[str]] = frozenset()  # keys whose null is a fault: it may hide what was found

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if item is not None or key in cls.faulty_nulls}


class CamelModel(ForeignModel):
    """A foreign model whose keys are in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


@dataclass(frozen=True, slots=True)
class OrElse:
    """Annotates a field that only describes: a value of the wrong type counts as `default`."""

    default: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic fall back to the default."""
        return core_schema.with_default_schema(handler(source), default=self.default, on_error="default")


def limit_nesting(value: Any, what: str) -> Any:
    """Return the value; raise ItemError if it is nested too deeply to be stored and written again."""
    if _is_deeper(value, MAX_DEPTH):
        raise ItemError(f"{what} is nested more than {MAX_DEPTH} levels deep")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested deeper than a number of levels."""
    if not isinstance(value, dict | list):
        return False
    members = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(member, levels - 1) for member in members)


def malformed_report(reviewer: str, format: str, problem: str) -> Report:
    """Return the report of a reviewer or tool whose answer cannot be used."""
    return Report(reviewer=reviewer, status=ReportStatus.MALFORMED, problem=problem, format=format)


def collect_items(
    reviewer: str,
    format: str,
    items: Iterable[Item],
    read_item: Callable[[Item, str], Draft],
    contradictions: Iterable[Any] = (),
    **fields: Any,
) -> Report:
    """Return a report with a draft for each item, in order; one that cannot be read says why.

    A contradiction is something the report says about its findings as a whole that the findings do not bear out.
    """
    drafts = [_read(item, f"{reviewer}#{number}", format, read_item) for number, item in enumerate(items, 1)]
    drafts += [
        unreadable_draft(raw, f"{reviewer}#{number}", format, CONTRADICTION)
        for number, raw in enumerate(contradictions, len(drafts) + 1)
    ]
    status = ReportStatus.RETURNED if drafts else ReportStatus.EMPTY
    return Report(reviewer, status=status, drafts=tuple(drafts), format=format, **fields)


def _read(item: Item, input_id: str, format: str, read_item: Callable[[Item, str], Draft]) -> Draft:
    try:
        return read_item(item, input_id)
    except NothingWrong as error:
        return replace(unreadable_draft(item, input_id, format, ""), harmless=str(error))
    except ValueError as error:
        return unreadable_draft(item, input_id, format, explain_error(error))


def unreadable_draft(item: Any, input_id: str, format: str, reason: str) -> Draft:
    """Return an item that cannot be read as a finding, with the title, severity and place that its data still give."""
    raw = item[-1] if isinstance(item, tuple) else item  # SARIF's come together with their run
    raw = asdict(cast("Any", raw)) if is_dataclass(raw) else raw
    told = {"title": raw} if isinstance(raw, str) else raw
    members = told.items() if isinstance(told, dict) else ()
    fields = {key: value.get("text") if isinstance(value, dict) else value for key, value in members}
    reviewer = input_id.rpartition("#")[0]
    path, line = first_text(fields, _PATHS), first_text(fields, _LINES)
    start = int(line) if _LINE_NUMBER.fullmatch(line) else None
    return Draft(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(first_text(fields, _TITLES)),
        severity=severity_of_text(first_text(fields, _SEVERITIES)) or Severity.HIGH,
        confidence=Confidence(value=_REPORTED, scale="anchor" if format in WRITTEN_FORMATS else "tool"),
        category=default_category(reviewer),
        impact=raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str),
        system_breaking=any(fields.get(name) is True for name in ("x_system_breaking", "system_breaking")),
        locations=(Location(path=path, start=start),) if path else (),
        unreadable=reason,
    )


def text_of(value: Any) -> str:
    """Return a text or number as a text; nothing for what is blank or anything else."""
    text = str(value) if type(value) in (str, int, float) else ""
    return text if text.strip() else ""


def first_text(item: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of some fields that is a text or a number."""
    texts = (text_of(item.get(name)) for name in names)
    return next(filter(None, texts), "")


def explain_error(error: ValueError) -> str:
    """Return what is wrong with a file or an item: every faulty field of it, on one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = []
    for fault in error.errors(include_url=False, include_context=False)[:MAX_FAULTS]:
        field = ".".join(map(str, fault["loc"]))
        problem = _PROBLEMS.get(fault["type"]) or _SUBJECT.sub("", fault["msg"])
        given = fault["input"]
        if isinstance(given, str | int | float) and problem.startswith("should"):
            problem += f", not {excerpt(repr(given), 40)}"
        faults.append(f"{f'`{field}`' if field else 'it'} {problem}")
    return "; ".join(faults)


def tool_finding(
    input_id: str, reviewer: str, message: str, severity: Severity, category: Category, **fields: Any
) -> Draft:
    """Return a draft from a tool's message; its first line is the title."""
    title = headline(message)
    autofix_class, owner = default_autofix(fields.get("fix"), severity)
    known: dict[str, Any] = {
        "confidence": TOOL_CONFIDENCE,
        "impact": "" if title == message.strip() else excerpt(message),
        "autofix_class": autofix_class,
        "owner": owner,
    }
    return Draft(input_id, reviewer, title, severity, category=category, **(known | fields))


def unread_keys(format: str, item: Mapping[str, Any], read: Container[str]) -> dict[str, Any]:
    """Return what an item says beyond the keys that are read, to be kept with its finding."""
    return {format: limit_nesting({key: item[key] for key in item if key not in read}, "it")}


def check_lines(start: int, end: int, end_column: int = 0) -> tuple[int | None, int | None]:
    """Return the first and last line of a range; 0 means not given. An end at column 1 excludes its line."""
    if start < end and end_column == 1:
        end -= 1
    if 0 < end < start:
        raise ItemError(f"it ends on line {end}, before it starts on line {start}")
    return (start, end or None) if start else (None, None)


def by_number(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in the order of their numbers."""
    return sorted(findings, key=lambda finding: (finding.number, finding.id))


def line_number(finding: Finding, ledger: Ledger) -> int:
    """Return the number of the line of work that a finding is part of."""
    return ledger.findings.get(finding.line, finding).number


def kept_keys(finding: Finding, format: str) -> Mapping[str, Any]:
    """Return what a finding keeps of the item it was read from in a format."""
    kept = finding.ext.get(format)
    return kept if isinstance(kept, dict) else {}


def rule_id(finding: Finding) -> str:
    """Return the rule by which a tool reported a finding; nothing if there is none."""
    rules = (kept.get("ruleId") for kept in finding.ext.values() if isinstance(kept, dict))
    return next((rule for rule in rules if isinstance(rule, str)), "")


def headline(text: str) -> str:
    """Return the first line of a text that is not blank, shortened to the length of a title."""
    return excerpt(next(iter(text.strip().splitlines()), "").strip(), 200)


def excerpt(text: str, limit: int = 2000) -> str:
    """Return the beginning of a text."""
    return truncate_length(text, limit)


def replacement_text(text: str) -> str:
    """Return a tool's fix in words."""
    return excerpt(f"Replace with: {text}" if text else "Remove it.", 400)


def relative_path(path: str, root: str = "") -> str:
    """Return a path below `root` without it, any other in its shortest form. What lies elsewhere is refused later."""
    if not path:
        return ""
    plain, base = _with_slashes(path), _with_slashes(root).rstrip("/")
    if base and plain.startswith(f"{base}/"):
        plain = plain[len(base) + 1 :].lstrip("/")
    return normpath(plain)


def strip_root(path: str, root: str) -> str:
    """Return a path below `root` without it, any other path as it is."""
    return path.removeprefix(root.rstrip("/") + "/") if root else path


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute, on Unix or on Windows."""
    return path.startswith("/") or bool(_WINDOWS_DRIVE.match(path))


def path_from_uri(uri: str) -> str:
    """Return the path in a `file:` URI or a relative reference; any other URI unquoted."""
    match = _FILE_URI.fullmatch(uri)
    if match is None:
        return unquote(uri)
    path, host = unquote(match["path"]), match["host"]
    if _WINDOWS_DRIVE.match(path[1:]):
        return path[1:]
    return path if host in (None, "", "localhost") else f"//{host}{path}"


def _with_slashes(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS_DRIVE.match(path) else path
