"""What a run found, by whom, and in which round it went away, from the records of its journal.

A round is everything up to a fix and the fix itself; a finding is gone in the first later round in which the stage that
reported it ran again and did not.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.app.history import VisitRecord
from pipeline.engine.outcome import Outcome, Status

_FIX = "fix"
_TOOL = "selfci"
_TEST = "unit test"
# A finding: a failed unit test, or a place in a file with what is wrong there.
_FINDING = re.compile(
    r"^(?:- )?(?:(?P<test>(?:FAIL|ERROR): \w+)|(?P<file>\w+\.py):(?P<line>\d+): (?P<text>.+?))(?: \(\S+\))?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """One finding: who reported it, in which round, and the round in which it was gone."""

    by: str
    place: str
    text: str
    round: int
    gone: int | None = None  # None while it is outstanding


@dataclass(frozen=True, slots=True)
class _Look:
    """One visit of a stage that reports: in which round it was, and what it said."""

    stage: str
    round: int
    said: tuple[tuple[str, str, str], ...]  # what tells a finding from others, its place, its text


def findings_of(visits: Iterable[VisitRecord]) -> list[Found]:
    """Every finding once, in the order it was first reported."""
    looks = list(_looks(visits))
    found: dict[tuple[str, str], Found] = {}
    for number, look in enumerate(looks):
        for key, place, text in look.said:
            gone = _gone(key, look.stage, looks[number + 1 :])
            found.setdefault((look.stage, key), Found(_who(look.stage, place), place, text, look.round, gone))
    return list(found.values())


def _looks(visits: Iterable[VisitRecord]) -> Iterator[_Look]:
    number = 1
    for seen in visits:
        if seen.outcome is not None:
            said = tuple(_said(seen.outcome)) if seen.outcome.status is Status.FAIL else ()
            yield _Look(seen.stage, number, said)
        number += seen.stage == _FIX


def _said(outcome: Outcome) -> Iterator[tuple[str, str, str]]:
    for match in _FINDING.finditer(outcome.response):
        if match["test"]:
            yield match["test"], _TEST, match["test"]
        else:
            yield f"{match['file']}: {match['text']}", f"{match['file']}:{match['line']}", match["text"]


def _gone(key: str, stage: str, later: Iterable[_Look]) -> int | None:
    for look in later:
        if look.stage == stage and key not in {said[0] for said in look.said}:
            return look.round
    return None


def _who(stage: str, place: str) -> str:
    """The stage, and of the tool stage also which of its tools."""
    if stage != _TOOL:
        return stage
    return f"{stage} (unittest)" if place == _TEST else f"{stage} (check.py)"
