"""The run's key-value store and its four operations. A context is never changed: an operation gives a new one.

The journal keeps the operations, so what a stage costs is what it changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeGuard, get_args, overload


class Entries(Sequence[Any]):
    """The first so many items of a list that others share, which only ever gets longer."""

    __slots__ = ("_count", "shared")

    def __init__(self, shared: list[Any], count: int) -> None:
        self.shared = shared
        self._count = count

    def plus(self, item: Any) -> "Entries":
        """These and one more."""
        shared, count = self.shared, self._count
        if count == len(shared):
            shared.append(item)
        if shared[count] is not item:  # somebody else has gone on from here, maybe just now and in another thread
            shared = [*shared[:count], item]
        return Entries(shared, count + 1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return islice(self.shared, self._count)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        place = range(self._count)[index]
        return self.shared[place] if isinstance(place, int) else [self.shared[at] for at in place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries | list):
            return NotImplemented
        return len(self) == len(other) and all(own == its for own, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __repr__(self) -> str:
        return repr(list(self))


def only_added(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether a list is known to be another with something added, or nothing. None of the items is looked at."""
    if not before or after is before:
        return True
    shares = isinstance(before, Entries) and isinstance(after, Entries) and after.shared is before.shared
    return shares and len(after) >= len(before)


Json = Any  # None, bool, int, float, str, list and dict of these; never changed in place
OperationName = Literal["set", "delete", "append", "discard"]


class Key:
    """The well-known keys."""

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
    FINDINGS = "review.findings"
    CHOSEN = "review.chosen"  # the findings that the next fixer is given, by their ids, and no others
    VERDICT = "review.verdict"
    STALLED = "review.stalled"  # why one more round of fixing would be of no use
    HOLD = "run.hold"  # why a person has to look before the run goes on; taken away when somebody resumes it


def status_key(stage: str) -> str:
    """Where a stage's last status is kept."""
    return f"{stage}.status"


def response_key(base: str) -> str:
    """Where a stage's answer is kept, cut to what a summary can show."""
    return f"{base}.response"


def full_response_key(base: str) -> str:
    """Where a stage's whole answer is kept."""
    return f"{base}._full_response"


def is_private(key: str) -> bool:
    """Whether a key is kept out of the context summary: one of its parts begins with an underscore."""
    return key.startswith("_") or "._" in key


class Operation(NamedTuple):
    """One change of a context, in the form that a record keeps."""

    name: OperationName
    key: str
    value: Json = None


Set = partial(Operation, "set")  # give a key a value
Delete = partial(Operation, "delete")  # take a key away, if it is there
Append = partial(Operation, "append")  # add a value to the end of a list, which is made when absent
Discard = partial(Operation, "discard")  # remove from a list the entries that have all of these fields


_NAMES = get_args(OperationName)


def is_operation(made: object) -> bool:
    """Whether something that a plugin made is an operation, and one that can be recorded."""
    if not (isinstance(made, Operation) and made.name in _NAMES and isinstance(made.key, str)):
        return False
    try:
        check_json(made.value)
    except (TypeError, RecursionError):  # the second of a value that holds itself
        return False
    return made.name != "discard" or isinstance(made.value, dict)


def check_json(value: Json) -> None:
    """Raise TypeError for what JSON would make another value of, or has no words for."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r:.80} is not a text")
            if type(part) is not str:
                check_json(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            check_json(part)
    elif not (value is None or isinstance(value, (str, int, float))):
        raise TypeError(f"{value!r:.80} is not a JSON value")


Recorded = tuple[OperationName, str, Json]  # an operation, made here or read from a journal


@dataclass(frozen=True, slots=True)
class Context:
    """A snapshot of the store."""

    held: Mapping[str, Json | Entries]

    @property
    def values(self) -> dict[str, Json]:
        """All of it."""
        return {key: self.get(key) for key in self.held}

    def get(self, key: str, default: Json = None) -> Json:
        """A value, or the default when the key is absent."""
        value = self.held.get(key, default)
        return list(value) if type(value) is Entries else value

    def list_at(self, key: str) -> Sequence[Json]:
        """The list at a key; empty when there is none."""
        value = self.held.get(key)
        return value if _is_list(value) else []

    def __contains__(self, key: object) -> bool:
        return key in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def apply(self, operations: Iterable[Recorded]) -> "Context":
        """The context after some operations, in their order."""
        values = dict(self.held)
        for name, key, value in operations:
            match name:
                case "set":
                    values[key] = value
                case "delete":
                    values.pop(key, None)
                case "append":
                    values[key] = _entries(values.get(key)).plus(value)
                case "discard":
                    if _is_list(present := values.get(key)):
                        values[key] = _entries([entry for entry in present if not _matches(entry, value)])
        return Context(values)


EMPTY = Context({})


def _is_list(value: Json | Entries) -> TypeGuard[Sequence[Json]]:
    return type(value) is Entries or isinstance(value, list)


def _entries(value: Json | Entries) -> Entries:
    if type(value) is Entries:
        return value
    items = list(value) if isinstance(value, list) else []
    return Entries(items, len(items))


def _matches(entry: Json, fields: Mapping[str, Json]) -> bool:
    return isinstance(entry, dict) and all(name in entry and entry[name] == value for name, value in fields.items())
