"""`findings.json`: a run's open reports as a file for agents and commands. The context holds the truth."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.context import is_extension

_END = b"\n]\n"


class FindingsFile:
    """The open reports of one run as a JSON array. New reports are appended, so that a stage's cost stays flat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Sequence[Any] | None = None

    def current(self, reports: Sequence[Any]) -> Path:
        """The file, holding exactly these reports."""
        if self._written is None or not self._path.exists() or not is_extension(self._written, reports):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(b"[" + _END)
            self._written = ()
        if added := reports[len(self._written) :]:
            separator = b",\n" if self._written else b"\n"
            with self._path.open("r+b") as file:
                file.seek(-len(_END), os.SEEK_END)
                file.write(separator + b",\n".join(json.dumps(report).encode() for report in added) + _END)
        self._written = reports
        return self._path
