"""One program that makes all accepted fixes: it is given the findings as text, and says what became of each."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.findings.answers import Answer, read_answers
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.walk.state import Fixes
from pipeline.findings.worklist import worklist

TASK = "Fix all findings listed below, in one go. They were accepted by a person; change nothing else."
_ROOM = 100_000  # characters of the findings
_SILENT = "the fixer did not say what became of it"


@dataclass(slots=True)
class Program:
    """A program that makes fixes in a repository. Without a command all of them stay to be made."""

    command: Sequence[str]
    root: Path
    environ: Mapping[str, str]
    said: list[Answer] = field(default_factory=list)  # what became of each, in its own words

    def __call__(self, findings: Sequence[Finding]) -> Fixes:
        """Run it once for all these findings."""
        if not self.command:
            return Fixes()
        ids = {finding.number: finding.id for finding in findings}
        try:
            done = self._run(f"{TASK}\n\n{worklist(findings, _ROOM)}\n")
        except OSError as error:
            reason = f"{self.command[0]} cannot be run: {error.strerror}"
            return Fixes(failed=dict.fromkeys(ids.values(), reason))
        self.said += [one for one in read_answers(done.stdout.decode(errors="replace")) if one.number in ids]
        return self._fixes(ids, f"the fixer ended with exit code {done.returncode}" if done.returncode else _SILENT)

    def _run(self, text: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            self.command,
            cwd=self.root,
            env=dict(self.environ),
            input=text.encode(errors="replace"),
            stdout=subprocess.PIPE,
            check=False,
        )

    def _fixes(self, ids: Mapping[int, FindingId], otherwise: str) -> Fixes:
        made = frozenset(ids[one.number] for one in self.said if one.word == "fixed")
        why = {ids[one.number]: ", ".join(filter(None, (one.word.replace("_", " "), one.why))) for one in self.said}
        return Fixes(made, {id: why.get(id, otherwise) for id in ids.values() if id not in made})
