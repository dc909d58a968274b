"""The base of what findings are made of: frozen values, checked when they are made, that go to JSON and back.

They are pydantic dataclasses with slots, not models: a ledger can hold a million of them, and these need less memory.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import ConfigDict
from pydantic_core import SchemaSerializer, SchemaValidator

CLOSED = ConfigDict(extra="forbid")


class FindingValue:
    """Reading and writing, named as in pydantic's models."""

    __slots__ = ()
    __pydantic_serializer__: ClassVar[SchemaSerializer]
    __pydantic_validator__: ClassVar[SchemaValidator]

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The fields as plain data."""
        dumped: dict[str, Any] = self.__pydantic_serializer__.to_python(self, **options)
        return dumped

    def model_dump_json(self, **options: Any) -> str:
        """The fields as JSON."""
        return self.__pydantic_serializer__.to_json(self, **options).decode()

    @classmethod
    def model_validate(cls, data: Mapping[str, Any]) -> Self:
        """A value from plain data; raises ValueError when the data do not fit."""
        value: Self = cls.__pydantic_validator__.validate_python(dict(data))
        return value
