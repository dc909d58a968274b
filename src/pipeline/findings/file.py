"""`findings.json`: everything outstanding, in a file for agents and tools. A copy: the context has the truth."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.context import is_extension

_END = b"\n]\n"


class FindingsFile:
    """The findings of one run as a JSON array. What is only added to is only appended to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Sequence[Any] | None = None

    def current(self, reports: Sequence[Any]) -> Path:
        """The file, holding exactly these reports."""
        if self._written is None or not self._path.exists() or not is_extension(self._written, reports):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(_array(reports))
        elif len(reports) > len(self._written):
            _add(self._path, reports[len(self._written) :], first=not self._written)
        self._written = reports
        return self._path


def _array(reports: Sequence[Any]) -> bytes:
    return b"[\n" + b",\n".join(map(_line, reports)) + _END if reports else b"[" + _END


def _add(path: Path, reports: Sequence[Any], *, first: bool) -> None:
    with path.open("r+b") as file:
        file.seek(-len(_END), os.SEEK_END)
        file.write((b"\n" if first else b",\n") + b",\n".join(map(_line, reports)) + _END)


def _line(report: Any) -> bytes:
    return json.dumps(report).encode()
