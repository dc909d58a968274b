"""What findings are made of: values that are frozen, checked when they are made, and closed to names they do not know.

A ledger has a hundred thousand of them and more, so that each takes as little room and time as it can: less than a
model of pydantic's does.
"""

import dataclasses
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Self, get_type_hints

from pydantic import ConfigDict, TypeAdapter

CLOSED = ConfigDict(extra="forbid")


class FindingValue:
    """A dataclass of pydantic's with these methods of its models."""

    __slots__ = ()

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with some fields changed; what is given is taken as it is."""
        make, fields = _open(type(self))
        other: Self = make(*fields(self))
        for name, value in update.items():
            setattr(other, name, value)
        other.__class__ = type(self)
        return other

    def revised(self, changes: Mapping[str, Any], *, update: Mapping[str, Any]) -> Self:
        """The same with some fields changed, each checked as when it is made, and others taken as they are."""
        kinds = _kinds(type(self))
        checked = {name: kinds[name].validator.validate_python(value) for name, value in changes.items()}
        return self.model_copy(update={**update, **checked})

    def plain(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """New values for some fields as JSON has them, in the order of the fields."""
        kinds = _kinds(type(self))
        told = ((name, kind.serializer) for name, kind in kinds.items() if name in changes)
        return {name: kind.to_python(changes[name], mode="json") for name, kind in told}

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The fields as plain data."""
        dumped: dict[str, Any] = _adapter(type(self)).dump_python(self, **options)
        return dumped

    def model_dump_json(self, **options: Any) -> str:
        """The fields as JSON."""
        return _adapter(type(self)).dump_json(self, **options).decode()

    @classmethod
    def model_validate(cls, data: Mapping[str, Any]) -> Self:
        """One from plain data."""
        made: Self = _adapter(cls).validate_python(dict(data))
        return made


_ADAPTERS: dict[type[FindingValue], TypeAdapter[Any]] = {}
_KINDS: dict[type[FindingValue], dict[str, TypeAdapter[Any]]] = {}
_OPEN: dict[type[FindingValue], tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {}


def _adapter(kind: type[FindingValue]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def _kinds(kind: type[FindingValue]) -> dict[str, TypeAdapter[Any]]:
    """What each field may be."""
    if kind not in _KINDS:
        hints, names = get_type_hints(kind, include_extras=True), tuple[str, ...](kind.__slots__)
        _KINDS[kind] = {name: TypeAdapter(hints[name]) for name in names}
    return _KINDS[kind]


def _open(kind: type[FindingValue]) -> tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]:
    """The same kind, not frozen, and all fields of a value: a frozen one can be filled only slot by slot, slowly."""
    if kind not in _OPEN:
        names: tuple[str, ...] = kind.__slots__
        opened = dataclasses.make_dataclass(kind.__name__, names, bases=(FindingValue,), slots=True)
        _OPEN[kind] = opened, attrgetter(*names)
    return _OPEN[kind]
