"""What was changed in a file that shows findings, as ledger events and sentences."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.findings.events import LedgerEvent
from pipeline.text import listing, plural

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


def changed_keys(edited: Mapping[str, Any], written: Mapping[str, Any], apart: Container[str]) -> list[str]:
    """Return the keys of an object that were edited, without those that are looked at apart from the others.

    Values are compared as JSON: to Python, true is 1 as well.
    """
    keys = (key for key in {**written, **edited} if key not in apart)
    return [key for key in keys if _as_json(edited.get(key)) != _as_json(written.get(key))]


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def put_back(where: str, rule: str, keys: Iterable[str], refused: Iterable[str]) -> tuple[str, ...]:
    """Return the sentence about a file with edits that do not count; none if there are no such edits.

    It gives the reasons why edits were refused, and the rule that the edited keys break: `only x may be edited`.
    """
    reasons = [*dict.fromkeys(refused)]
    if names := [f"`{key}`" for key in dict.fromkeys(keys)]:
        reasons.append(f"{rule}, not {listing(names, _MAX_KEYS, 'or')}")
    return (f"{where} was put back: {'; '.join(reasons)}",) if reasons else ()


def summed_up(problems: Sequence[str], directory: str) -> tuple[str, ...]:
    """Return the sentences about the files of a directory; about many of them, one says how many more there are."""
    if len(problems) <= _MAX_FILES:
        return tuple(problems)
    more = plural(len(problems) - _MAX_FILES, "more file")
    return (*problems[:_MAX_FILES], f"{directory}: {more} put back")
