"""Tables of fields: one declaration says how a file is written, and what a file from elsewhere may contain."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model


class Need(Enum):
    """Whether a file has a field."""

    REQUIRED = auto()  # every file has it
    USUAL = auto()  # it is always written, and may be missing in a file from elsewhere
    IF_ANY = auto()  # it is written if there is something to say


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a file, with the type of its value and how that is computed."""

    key: str
    type: Any
    value: Callable[[Any], Any]
    need: Need = Need.REQUIRED


def render(table: Sequence[Field], source: Any) -> dict[str, Any]:
    """Return a file as an object: the fields of a table, in its order."""
    found = ((field, field.value(source)) for field in table)
    return {field.key: value for field, value in found if value is not None or field.need is not Need.IF_ANY}


def checked(name: str, table: Sequence[Field]) -> type[BaseModel]:
    """Return the model that checks a file from elsewhere. It keeps the keys that the table does not have."""
    fields: dict[str, Any] = {field.key: (field.type, ... if field.need is Need.REQUIRED else None) for field in table}
    return create_model(name, __config__=ConfigDict(strict=True, frozen=True, extra="allow"), **fields)


def unknown_keys(table: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file has beyond the fields of a table."""
    known = {field.key for field in table}
    return {key: value for key, value in given.items() if key not in known}
