"""A workflow as KDL text that reads as the same workflow. Comments and spacing of an original file are not kept."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from pipeline.language.expressions import Expression
from pipeline.language.model import Element, Loop, Models, Workflow, WorkflowSettings, write_duration

_INDENT = "  "
_ATTRIBUTES_AS_NODES = (Workflow, WorkflowSettings, Models, Loop)  # one line each, as people write them
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\]|[^ -~]')


def write_workflow(workflow: Workflow) -> str:
    """The text of a workflow."""
    return "\n".join(_element("workflow", workflow, "")) + "\n"


def _element(name: str, element: Element, indent: str) -> Iterator[str]:
    """The lines of a node: arguments, then what differs from the defaults, then child nodes."""
    model = type(element)
    head = [name, *(_value(getattr(element, field)) for field in model.positional)]
    body: list[str] = []
    for field_name, field in model.model_fields.items():
        attribute, value = field.alias or field_name, getattr(element, field_name)
        implied = (
            not field.is_required() and attribute != "kind" and value == field.get_default(call_default_factory=True)
        )
        if attribute not in model.attributes() or implied:
            continue
        if attribute in model.repeatable:
            body += (f"{attribute} {_value(one)}" for one in value)
        elif attribute in model.lists:
            body.append(" ".join([attribute, *map(_value, value)]))
        elif isinstance(element, _ATTRIBUTES_AS_NODES):
            body.append(f"{attribute} {_value(value)}")
        else:
            head.append(f"{attribute}={_value(value)}")
    lines = [f"{indent}{_INDENT}{line}" for line in body]
    for child, field_name in model.blocks.items():
        value = getattr(element, field_name)
        if value != model.model_fields[field_name].default:
            for one in value if isinstance(value, tuple) else (value,):
                lines += _element(child, one, indent + _INDENT)
    if meta := getattr(element, "meta", None):
        lines += [f"{indent}{_INDENT}meta {{", *_data(meta, indent + 2 * _INDENT), f"{indent}{_INDENT}}}"]
    opening = indent + " ".join(head)
    yield from [f"{opening} {{", *lines, f"{indent}}}"] if lines else [opening]


def _data(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """The nodes of free data. A name has one node for each of its values."""
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Mapping):
                yield from [f"{indent}{_value(name)} {{", *_data(one, indent + _INDENT), f"{indent}}}"]
            else:
                yield f"{indent}{_value(name)} {_value(one)}"


def _value(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Enum():
            return _value(value.value)
        case int() | float():
            return repr(value)
        case timedelta():
            return _value(write_duration(value))
        case Expression():
            return _value(value.text)
        case tuple():
            return _value(",".join(value))
        case _:
            escaped = _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or _escape(found[0]), str(value))
            return f'"{escaped}"'


def _escape(character: str) -> str:
    """A character as it is if it can be seen, else by its number."""
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"
