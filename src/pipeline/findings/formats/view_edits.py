"""What was changed in a file that shows findings, as ledger events and sentences."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.findings.events import LedgerEvent
from pipeline.text import plural

_MAX_KEYS = 6  # named in one sentence
_MAX_FILES = 3  # with a sentence each


@dataclass(frozen=True, slots=True)
class ViewEdits:
    """The edits that count, and a sentence about each file with others, which are put back."""

    events: tuple[LedgerEvent, ...] = ()
    problems: tuple[str, ...] = ()


def join_edits(parts: Sequence[ViewEdits]) -> ViewEdits:
    """Return the edits of several files, in order."""
    return ViewEdits(
        tuple(event for part in parts for event in part.events),
        tuple(problem for part in parts for problem in part.problems),
    )


def put_back(where: str, keys: Iterable[str], refused: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the sentence about a file with edits that do not count; none if there are no such edits."""
    names = [f"`{key}`" for key in dict.fromkeys(keys)]
    if len(names) > _MAX_KEYS:
        names = [*names[:_MAX_KEYS], f"{len(names) - _MAX_KEYS} more"]
    changed = [f"only `status` may be edited, not {', '.join(names)}"] if names else []
    reasons = [*dict.fromkeys(refused), *changed]
    return (f"{where} was put back: {'; '.join(reasons)}",) if reasons else ()


def summed_up(problems: Sequence[str], directory: str) -> tuple[str, ...]:
    """Return the sentences about the files of a directory; about many of them, one says how many more there are."""
    if len(problems) <= _MAX_FILES:
        return tuple(problems)
    more = plural(len(problems) - _MAX_FILES, "more file")
    return (*problems[:_MAX_FILES], f"{directory}: {more} put back")


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. To Python, true is 1 as well."""
    return bool(one == other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
