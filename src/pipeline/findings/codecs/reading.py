"""What every reader of a tool's output needs: bytes made into values, and items made into claims or refusals.

Nothing here repairs: an answer that was cut off is unreadable as a whole; an item that is no claim is rejected.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.findings.claims import Claim, Rejected, Return, Returned
from pipeline.findings.codecs import strict
from pipeline.findings.codecs.rejected import rejected_item
from pipeline.findings.model import Confidence

LARGEST = 256 * 1024 * 1024  # bytes of one answer
DEEPEST = 64  # levels of what is kept of an item for its format; no tool nests so deep
TOOL = Confidence(value=100, scale="tool")  # a tool states what it computed
Item = TypeVar("Item")


class ReportPart(BaseModel):
    """A part of what a tool writes, with the names that it has there; what is not read of it is passed over."""

    model_config = ConfigDict(frozen=True, strict=True)


class Unreadable(Exception):
    """Why an answer cannot be read as a whole."""


class ItemRefused(ValueError):
    """Why one item cannot be a claim."""


class NothingWrong(ItemRefused):
    """An item that says that nothing is wrong."""


def text_of(data: bytes) -> str:
    """The text of an answer."""
    try:
        return _sized(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8: byte {error.start} cannot be read") from error


def json_of(data: bytes) -> Any:
    """The value of an answer in JSON."""
    try:
        return strict.loads(_sized(data))
    except ValueError as error:
        raise Unreadable(f"{error}; it may have been cut off" if data else "it is empty") from error


def json_lines(text: str) -> Iterator[Any]:
    """The values of an answer with one on each line."""
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.strip():
                yield json_of(line.encode())
        except Unreadable as error:
            raise Unreadable(f"line {number}: {error}") from error


def _sized(data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise Unreadable(f"it has {len(data):,} bytes, and at most {LARGEST:,} are read; split it")
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


def shallow(value: Any, what: str) -> Any:
    """The value, which is to be kept as it is; refused when it nests too deep to be written again."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [inner for item in level for inner in _inside(item) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise ItemRefused(f"{what} is nested more than {DEEPEST} levels deep")


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def malformed(reviewer: str, format: str, problem: str) -> Return:
    """The return of a source whose answer cannot be used."""
    return Return(reviewer=reviewer, status=Returned.MALFORMED, problem=problem, format=format)


def gather(
    reviewer: str,
    format: str,
    items: Iterable[Item],
    claim: Callable[[Item, str], Claim],
    title: Callable[[Item], str],
    **rest: Any,
) -> Return:
    """A claim or a refusal for each item, in their order."""
    claims: list[Claim] = []
    rejected: list[Rejected] = []
    for number, item in enumerate(items, 1):
        input_id = f"{reviewer}#{number}"
        try:
            claims.append(claim(item, input_id))
        except ValueError as error:
            harmless = isinstance(error, NothingWrong)
            rejected.append(rejected_item(item, input_id, reason_of(error), title(item), harmless=harmless))
    status = Returned.RETURNED if claims or rejected else Returned.EMPTY
    whole: dict[str, Any] = {"status": status, "format": format, **rest}
    return Return(reviewer=reviewer, findings=tuple(claims), unreadable=tuple(rejected), **whole)


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


def beyond(message: str) -> str:
    """What a message says beyond its headline."""
    return "" if headline(message) == message.strip() else excerpt(message)


def replacement(text: str) -> str:
    """A tool's fix in words."""
    return excerpt(f"Replace with: {text}" if text else "Remove it.", 400)


def excerpt(text: str, most: int = 2000) -> str:
    """The beginning of a text, at a length that can be kept with a finding."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
