"""What the values of a workflow file may be: durations, conditions, flags, lists, counts, each with its own error."""

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field, GetPydanticSchema, PlainSerializer
from pydantic_core import PydanticCustomError, core_schema

from pipeline.language.durations import format_duration, parse_duration
from pipeline.language.expressions import Expression, ExpressionError, parse_expression


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("duration", 'a duration needs its unit and quotes, such as "30s" or "10m"')
    try:
        return parse_duration(value)
    except ValueError as error:
        raise PydanticCustomError("duration", "{why}", {"why": str(error)}) from None


def _positive_duration(value: object) -> object:
    duration = _duration(value)
    if not duration:
        raise PydanticCustomError("duration", "a limit of no time at all lets nothing run")
    return duration


def _condition(value: object) -> object:
    if isinstance(value, Expression):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "a condition is text")
    try:
        return parse_expression(value)
    except ExpressionError as error:
        about = {"why": error.message, "start": error.span.start, "end": error.span.end, "help": error.help}
        raise PydanticCustomError("expression", "{why}", about) from None


def _auto_status(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _comma_separated(value: object) -> object:
    if isinstance(value, str):
        return tuple(part for item in value.split(",") if (part := item.strip()))
    return tuple(value) if isinstance(value, list) else value


Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(format_duration)]
TimeLimit = Annotated[timedelta, BeforeValidator(_positive_duration), PlainSerializer(format_duration)]
_CONDITION = core_schema.no_info_plain_validator_function(
    _condition, serialization=core_schema.plain_serializer_function_ser_schema(lambda expression: expression.text)
)
Condition = Annotated[Expression, GetPydanticSchema(lambda _source, _handler: _CONDITION)]  # its fields are no model
Flag = Annotated[bool, BeforeValidator(_auto_status)]
Keys = Annotated[tuple[str, ...], BeforeValidator(_comma_separated)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
SummaryBudget = Annotated[int, Field(ge=1000, le=10_000_000)]
