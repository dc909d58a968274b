"""The run's key-value store and the four operations that change it.

The journal records operations rather than snapshots, so a stage costs what it changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

Json = Any  # None, bool, int, float, str, and lists and dicts of these; never changed in place
OperationName = Literal["set", "delete", "append", "discard"]


class Key:
    """The well-known context keys."""

    GOAL = "graph.goal"
    NAME = "graph.name"
    OUTCOME = "outcome"
    LAST_STAGE = "last_stage"
    LAST_RESPONSE = "last_response"
    TOOL_OUTPUT = "tool.output"
    HUMAN_SELECTED = "human.gate.selected"
    HUMAN_LABEL = "human.gate.label"
    HUMAN_FEEDBACK = "human.gate.feedback"
    HUMAN_BY = "human.gate.by"
    WORKSPACE_PATH = "workspace.path"
    WORKSPACE_BRANCH = "workspace.branch"
    WORKSPACE_BASE = "workspace.base"
    WORKSPACE_COMMIT = "workspace.commit"
    HOLD = "run.hold"  # why a person has to look before the run continues; cleared when the run is resumed


def status_key(stage: str) -> str:
    """Return the key of a stage's latest status."""
    return f"{stage}.status"


def input_key(name: str) -> str:
    """Return the key of an input's value."""
    return f"input.{name}"


def response_key(base: str) -> str:
    """Return the key of a stage's answer, shortened for summaries."""
    return f"{base}.response"


def full_response_key(base: str) -> str:
    """Return the key of a stage's whole answer."""
    return f"{base}._full_response"


def is_private(key: str) -> bool:
    """Return whether a key is kept out of summaries because one of its parts begins with an underscore."""
    return key.startswith("_") or "._" in key


class Operation(NamedTuple):
    """One change to a context, as a record stores it."""

    name: OperationName
    key: str
    value: Json = None


RecordedOperation = tuple[OperationName, str, Json]  # an `Operation`, or one read from a journal

Set = partial(Operation, "set")  # set a key to a value
Delete = partial(Operation, "delete")  # remove a key, if present
Append = partial(Operation, "append")  # add a value to the list at a key, creating the list if needed
Discard = partial(Operation, "discard")  # remove the list entries that have all of these fields
Hold = partial(Operation, "set", Key.HOLD)  # pause the run before its next stage, for the reason given


def check_operation(value: Operation) -> Operation:
    """Return an operation if it can be recorded; raise TypeError if not."""
    if value.name not in get_args(OperationName) or not isinstance(value.key, str):
        raise TypeError(f"{value!r:.80} is not an operation on a key")
    if value.name == "discard" and not isinstance(value.value, dict):
        raise TypeError(f"{value!r:.80} does not say which fields to look for")
    check_json(value.value)
    return value


def check_json(value: Json) -> Json:
    """Return a value if JSON can represent it without changing it; raise TypeError if not."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r:.80} is not a string")
            check_json(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check_json(item)
    elif not (value is None or isinstance(value, (str, int, float))):
        raise TypeError(f"{value!r:.80} is not a JSON value")
    return value


@dataclass(frozen=True, slots=True)
class Context:
    """An immutable snapshot of the store."""

    values: Mapping[str, Json]

    def get(self, key: str, default: Json = None) -> Json:
        """Return the value at a key, or the default."""
        return self.values.get(key, default)

    def list_at(self, key: str) -> Sequence[Json]:
        """Return the list at a key, or an empty list if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, list) else []

    def __contains__(self, key: object) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def apply(self, operations: Iterable[RecordedOperation]) -> "Context":
        """Return the context after some operations, applied in order."""
        values = dict(self.values)
        for name, key, value in operations:
            match name:
                case "set":
                    values[key] = value
                case "delete":
                    values.pop(key, None)
                case "append":
                    present = values.get(key)
                    values[key] = [*present, value] if isinstance(present, list) else [value]
                case "discard":
                    if isinstance(present := values.get(key), list):
                        values[key] = [
                            entry
                            for entry in present
                            if not (isinstance(entry, dict) and value.items() <= entry.items())
                        ]
        return Context(values)


EMPTY = Context({})


def is_extension(before: Sequence[Json], after: Sequence[Json]) -> bool:
    """Return whether a list is another one with nothing but entries added at its end."""
    return len(after) >= len(before) and list(after[: len(before)]) == list(before)
