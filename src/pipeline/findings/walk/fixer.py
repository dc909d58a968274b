"""One program that makes all accepted fixes: it is given the findings as text, and says what became of each."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.answers import Answer, read_answers
from pipeline.findings.listing import listing
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.walk.state import Fixes
from pipeline.findings.walk.wording import flat

TASK = "Fix all findings listed below, in one go. They were accepted by a person; change nothing else."
_ROOM = 100_000  # characters of the findings
_SILENT = "the fixer did not say what became of it"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a fixer did: for the report, and its own words for the ledger."""

    fixes: Fixes
    answers: tuple[Answer, ...] = ()


def fix_all(command: Sequence[str], findings: Sequence[Finding], root: Path, environ: Mapping[str, str]) -> Fixed:
    """Run a fixer once, in the repository, for all these findings."""
    told = f"{TASK}\n\n{listing(findings, _ROOM)}\n"
    try:
        done = subprocess.run(
            command, cwd=root, env=dict(environ), input=told.encode(), stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        return Fixed(Fixes(failed=dict.fromkeys(_ids(findings), f"{command[0]} cannot be run: {error.strerror}")))
    ended = f"the fixer ended with exit code {done.returncode}" if done.returncode else _SILENT
    return _fixed(findings, read_answers(done.stdout.decode(errors="replace")), ended)


def _fixed(findings: Sequence[Finding], said: Sequence[Answer], otherwise: str) -> Fixed:
    asked = {finding.number: finding.id for finding in findings}
    answers = tuple(answer for answer in said if answer.number in asked)
    made = frozenset(asked[answer.number] for answer in answers if answer.word == "fixed")
    why = {asked[answer.number]: flat(f"{answer.word.replace('_', ' ')} {answer.why}") for answer in answers}
    failed = {id: why.get(id, otherwise) for id in _ids(findings) if id not in made}
    return Fixed(Fixes(made, failed), answers)


def _ids(findings: Sequence[Finding]) -> list[FindingId]:
    return [finding.id for finding in findings]
