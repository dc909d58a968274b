"""A check of JSON against a schema, for the words that SARIF's schema uses. A word it does not know is an error."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_SILENT = {"$schema", "$id", "id", "title", "description", "default", "format", "definitions", "deprecated"}


def errors(value: Any, schema: Mapping[str, Any], whole: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """What is wrong with a value, and where."""
    for word, told in schema.items():
        if word == "$ref":
            yield from errors(value, whole["definitions"][told.removeprefix("#/definitions/")], whole, at)
        elif word not in _SILENT:
            yield from (f"{at}: {problem}" for problem in _CHECKS[word](value, told))
    yield from _inside(value, schema, whole, at)


def _inside(value: Any, schema: Mapping[str, Any], whole: Mapping[str, Any], at: str) -> Iterator[str]:
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in known:
                yield from errors(item, known[name], whole, f"{at}/{name}")
            elif other is False:
                yield f"{at}: {name!r} is not known"
            elif isinstance(other, dict):
                yield from errors(item, other, whole, f"{at}/{name}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from errors(item, schema["items"], whole, f"{at}/{number}")
    choices = schema.get("anyOf", ())
    if choices and all(any(True for _ in errors(value, choice, whole)) for choice in choices):
        yield f"{at}: it is none of {choices}"


def _type(value: Any, told: Any) -> Iterator[str]:
    names = told if isinstance(told, list) else [told]
    fits = any(isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)
    if not fits:
        yield f"{value!r} is not of type {told}"


def _required(value: Any, names: list[str]) -> Iterator[str]:
    yield from (f"{name!r} is missing" for name in names if isinstance(value, dict) and name not in value)


def _enum(value: Any, choices: list[Any]) -> Iterator[str]:
    if value not in choices:
        yield f"{value!r} is none of {choices}"


def _pattern(value: Any, pattern: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(pattern, value):
        yield f"{value!r} does not match {pattern}"


def _minimum(value: Any, least: float) -> Iterator[str]:
    if isinstance(value, int | float) and value < least:
        yield f"{value} is less than {least}"


def _maximum(value: Any, most: float) -> Iterator[str]:
    if isinstance(value, int | float) and value > most:
        yield f"{value} is more than {most}"


def _min_items(value: Any, least: int) -> Iterator[str]:
    if isinstance(value, list) and len(value) < least:
        yield f"it has fewer than {least} items"


def _unique(value: Any, told: bool) -> Iterator[str]:  # noqa: FBT001 - a schema's own value
    if told and isinstance(value, list) and any(item in value[:index] for index, item in enumerate(value)):
        yield "an item is there twice"


def _min_length(value: Any, least: int) -> Iterator[str]:
    if isinstance(value, str) and len(value) < least:
        yield f"{value!r} is too short"


def _elsewhere(_: Any, __: Any) -> Iterator[str]:
    yield from ()


_CHECKS: Mapping[str, Callable[[Any, Any], Iterator[str]]] = {
    "type": _type,
    "required": _required,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "minItems": _min_items,
    "minLength": _min_length,
    "uniqueItems": _unique,
    "properties": _elsewhere,
    "additionalProperties": _elsewhere,
    "items": _elsewhere,
    "anyOf": _elsewhere,
}
