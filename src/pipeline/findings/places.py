"""Where findings are now: renamed files are followed by git, and what happened to their lines is marked.

A finding keeps the place at which it was reported until it is reported again. What is shown follows the code, and
changes nothing in the ledger: a mark is no state.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from pipeline.findings.evidence import WORK_ITEMS, RepositoryFiles
from pipeline.findings.fingerprints import lines_unchanged, read_source
from pipeline.findings.git import GitRefusedError, TreeSnapshots
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, LineMap, line_maps
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding, Location

TOUCHED = "touched"  # its lines changed since it was reported
GONE = "file is gone"

_Place = TypeVar("_Place", bound=Location)


def follow_renames(
    lines: Sequence[Line], ledger: Ledger, root: Path, environment: Mapping[str, str]
) -> tuple[Line, ...]:
    """Return lines of work whose findings are in the files as they are called now."""
    members = [finding for line in lines for finding in line.members]
    now = {finding.id: finding for finding in follow_findings(members, ledger, root, environment)}
    return tuple(replace(line, members=tuple(now[finding.id] for finding in line.members)) for line in lines)


def follow_findings(
    findings: Sequence[Finding], ledger: Ledger, root: Path, environment: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return findings with their places in the files as they are called now.

    Git is asked only about findings whose file is missing, so that nobody waits for it otherwise.
    """
    paths = {place.path for finding in findings for place in finding.locations if place.path}
    missing = {path for path in paths if not os.path.lexists(root / path)}
    if not missing:
        return tuple(findings)
    lost = {finding.id for finding in findings if any(place.path in missing for place in finding.locations)}
    passes = {finding.placed_in for finding in findings if finding.id in lost}
    maps = line_maps(ledger, GitHistory(root, environment), _tree_of(root, environment), passes)
    return tuple(_move(one, maps.get(one.placed_in, LineMap())) if one.id in lost else one for one in findings)


def former_names(ledger: Ledger, paths: Sequence[str], root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names under which open findings know files that are now called one of some paths."""
    found = [finding for finding in ledger.findings.values() if finding.state.is_open]
    now = follow_findings(found, ledger, root, environment)
    pairs = [
        pair for old, new in zip(found, now, strict=True) for pair in zip(old.locations, new.locations, strict=True)
    ]
    return tuple(sorted({old.path for old, new in pairs if new.path != old.path and new.path in paths}))


def _tree_of(root: Path, environment: Mapping[str, str]) -> str:
    """Return the tree of the files as they are; without it what is committed is compared."""
    try:
        return TreeSnapshots(environment).tree(root)
    except GitRefusedError:
        return ""


def _move(finding: Finding, lines: LineMap) -> Finding:
    """Return a finding with its places in the files as they are called now."""
    return replace(
        finding,
        locations=tuple(_moved(place, lines) for place in finding.locations),
        evidence=tuple(_moved(item, lines) for item in finding.evidence),
    )


def _moved(place: _Place, lines: LineMap) -> _Place:
    """Return a place in a renamed file; one in a deleted file, or in a file of the same name, as it is."""
    path = lines.path(place.path)
    if path in ("", place.path):
        return place
    start = lines.line(place.path, place.start) if place.start else None
    if start is None or place.start is None:  # the line was changed as well: it may be anywhere
        return replace(place, path=path)
    size = (place.end or place.start) - place.start
    return replace(place, path=path, start=start, end=start + size if place.end else None)


class Marks:
    """Tells what happened to the code of findings since they were reported, by the files below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._page = cache(partial(read_source, RepositoryFiles(root)))  # many findings are about the same files

    def of_finding(self, finding: Finding) -> tuple[str, ...]:
        """Return the marks of a finding; none for one that is closed, or that is not about a file."""
        place = finding.location
        if place is None or not finding.state.is_open or finding.category in WORK_ITEMS:
            return ()
        if not os.path.lexists(self._root / place.path):
            return (GONE,)
        return (TOUCHED,) if lines_unchanged(finding, self._page(place.path)) is False else ()

    def of_line(self, line: Line) -> tuple[str, ...]:
        """Return the marks of the open members of a line of work, each once."""
        return tuple(dict.fromkeys(mark for finding in line.open_members for mark in self.of_finding(finding)))
