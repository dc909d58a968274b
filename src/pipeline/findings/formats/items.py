"""Paths as tools write them, made relative to the repository's root.

A path that lies elsewhere is kept as it is: it is refused later, where it can be told.
"""

import gc
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from posixpath import normpath
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.findings.formats import strict_json as strict
from pipeline.findings.model import Confidence, RawFinding, ReportStatus, ReviewerReport, UnreadableItem
from pipeline.findings.normalize import rejected_item

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)


def relative_path(path: str, root: str = "") -> str:
    """A path below the root, without the root; any other in its shortest form."""
    if not path:
        return ""
    plain, base = _posix(path), _posix(root).rstrip("/") if root else ""
    if base and plain.startswith(f"{base}/"):
        plain = plain[len(base) + 1 :].lstrip("/") or "."
    return normpath(plain)


def is_absolute(path: str) -> bool:
    """Whether a path does not depend on where one stands."""
    return path.startswith("/") or bool(_WINDOWS.match(path))


def path_from_uri(uri: str) -> str:
    """The path that a URI names; another scheme than `file` is kept with its name."""
    match = _FILE.fullmatch(uri)
    if match is None:
        return unquote(uri)
    path = unquote(match["path"])
    if _WINDOWS.match(path[1:]):
        return path[1:]
    host = match["host"] or ""
    return path if host in ("", "localhost") else f"//{host}{path}"


def _posix(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS.match(path) else path


MAX_BYTES = 256 * 1024 * 1024  # bytes of one answer
MAX_DEPTH = 64  # levels of what is kept of an item for its format; no tool nests so deep
TOOL_CONFIDENCE = Confidence(value=100, scale="tool")  # a tool states what it computed
Item = TypeVar("Item")


class ForeignModel(BaseModel):
    """A part of what a tool writes, with the names that it has there; what is not read of it is passed over."""

    model_config = ConfigDict(frozen=True, strict=True)


class UnreadableFile(Exception):
    """Why an answer cannot be read as a whole."""


class ItemError(ValueError):
    """Why one item cannot be a claim."""


class NothingWrong(ItemError):
    """An item that says that nothing is wrong."""


def text_of(data: bytes) -> str:
    """The text of an answer."""
    try:
        return _sized(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8: byte {error.start} cannot be read") from error


def json_of(data: bytes) -> Any:
    """The value of an answer in JSON."""
    try:
        return strict.loads(_sized(data))
    except ValueError as error:
        raise UnreadableFile(f"{error}; it may have been cut off" if data else "it is empty") from error


def json_lines(text: str) -> Iterator[Any]:
    """The values of an answer with one on each line."""
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.strip():
                yield json_of(line.encode())
        except UnreadableFile as error:
            raise UnreadableFile(f"line {number}: {error}") from error


def _sized(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise UnreadableFile(f"it has {len(data):,} bytes, and at most {MAX_BYTES:,} are read; split it")
    return data


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the search for cycles: it would walk a large answer again and again, in which there are none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def limit_nesting(value: Any, what: str) -> Any:
    """The value, which is to be kept as it is; refused when it nests too deep to be written again."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise ItemError(f"{what} is nested more than {MAX_DEPTH} levels deep")


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def malformed_report(reviewer: str, format: str, problem: str) -> ReviewerReport:
    """The return of a source whose answer cannot be used."""
    return ReviewerReport(reviewer=reviewer, status=ReportStatus.MALFORMED, problem=problem, format=format)


def collect_items(
    reviewer: str,
    format: str,
    items: Iterable[Item],
    claim: Callable[[Item, str], RawFinding],
    title: Callable[[Item], str],
    **rest: Any,
) -> ReviewerReport:
    """A claim or a refusal for each item, in their order."""
    claims: list[RawFinding] = []
    rejected: list[UnreadableItem] = []
    for number, item in enumerate(items, 1):
        input_id = f"{reviewer}#{number}"
        try:
            claims.append(claim(item, input_id))
        except ValueError as error:
            harmless = isinstance(error, NothingWrong)
            rejected.append(rejected_item(item, input_id, reason_of(error), title(item), harmless=harmless))
    status = ReportStatus.RETURNED if claims or rejected else ReportStatus.EMPTY
    whole: dict[str, Any] = {"status": status, "format": format, **rest}
    return ReviewerReport(reviewer=reviewer, findings=tuple(claims), unreadable=tuple(rejected), **whole)


def reason_of(error: ValueError) -> str:
    """What is wrong with an item, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def title_of(item: Any) -> str:
    """What a refused item calls itself, as far as it does."""
    message = item.get("message") if isinstance(item, dict) else None
    text = message.get("text") if isinstance(message, dict) else message
    return headline(text) if isinstance(text, str) and text.strip() else ""


def own_title(item: Any) -> str:
    """The title of a refused item that has one by that name."""
    title = item.get("title") if isinstance(item, dict) else None
    return title if isinstance(title, str) else ""


def headline(text: str) -> str:
    """The first line of a text that says something, not longer than a title should be."""
    return excerpt(next((line.strip() for line in text.splitlines() if line.strip()), ""), 200)


def rest_of_message(message: str) -> str:
    """What a message says beyond its headline."""
    return "" if headline(message) == message.strip() else excerpt(message)


def replacement_text(text: str) -> str:
    """A tool's fix in words."""
    return excerpt(f"Replace with: {text}" if text else "Remove it.", 400)


def excerpt(text: str, most: int = 2000) -> str:
    """The beginning of a text, at a length that can be kept with a finding."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
