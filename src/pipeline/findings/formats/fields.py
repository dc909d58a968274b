"""Tables of fields: one declaration says how a file is written, what it may contain, and how it is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model


class Need(Enum):
    """Whether a file has a field."""

    REQUIRED = auto()  # every file has it
    USUAL = auto()  # it is always written, and may be missing in a file from elsewhere
    IF_KNOWN = auto()  # it is written unless its value is None
    IF_ANY = auto()  # it is written if there is something to say: a text, an item, a yes


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a file: the type of its value, how that is computed, and what a reader makes of it.

    `Field("tests", list[str], write_tests, reads="regression_tests", read=tuple)` is written by `write_tests`, and read
    into the attribute `regression_tests` as a tuple. A field without such an attribute is only written.
    """

    key: str
    type: Any
    write: Callable[[Any], Any]
    need: Need = Need.REQUIRED
    reads: str = ""
    read: Callable[[Any], Any] = _unchanged


def render(table: Sequence[Field], source: Any) -> dict[str, Any]:
    """Return a file as an object: the fields of a table, in its order."""
    found = ((field, field.write(source)) for field in table)
    return {field.key: value for field, value in found if _is_written(field.need, value)}


def _is_written(need: Need, value: Any) -> bool:
    if need is Need.IF_ANY:
        return bool(value)
    return need is not Need.IF_KNOWN or value is not None


def checked(name: str, table: Sequence[Field]) -> type[BaseModel]:
    """Return the model that checks a file from elsewhere. It keeps the keys that the table does not have."""
    fields: dict[str, Any] = {field.key: (field.type, ... if field.need is Need.REQUIRED else None) for field in table}
    return create_model(name, __config__=ConfigDict(strict=True, frozen=True, extra="allow"), **fields)


def parse(table: Sequence[Field], checked_file: BaseModel) -> dict[str, Any]:
    """Return what a file that was checked says, by attribute. What it leaves out is left out."""
    given = ((field, getattr(checked_file, field.key)) for field in table if field.reads)
    return {field.reads: field.read(value) for field, value in given if value is not None}


def filled(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if value}


def unknown_keys(table: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file has beyond the fields of a table."""
    known = {field.key for field in table}
    return {key: value for key, value in given.items() if key not in known}
