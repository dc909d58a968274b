"""One fixer for all accepted fixes: what it is given, what it says, and what that means for the ledger."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.backends.program import run_program
from pipeline.engine.ports import STAGE_VARIABLE
from pipeline.findings.events import FindingChanged
from pipeline.findings.explanation import said_text
from pipeline.findings.fix_prompt import findings_section
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Said
from pipeline.findings.rulings import CLAIMS, claims, read_said
from pipeline.findings.walk.state import Fixes

TASK = "Fix all findings listed below, in one go. They were accepted by a person; change nothing else."
FIXER = "fixer"  # who claims a fix that was made outside of a run
_MAX_PROMPT = 100_000  # characters of the findings
_SECONDS = 4 * 3600.0
_SILENT = "the fixer did not mention it"


def run_fixer(command: Sequence[str], root: Path, environ: Mapping[str, str], lines: Sequence[Line]) -> Fixes:
    """Make fixes with one run of a program, which reads the findings and says what became of each.

    Without a command, or without fixes to make, it is not run.
    """
    if not command or not lines:
        return Fixes()
    try:
        done = run_program(
            command,
            env={**environ, STAGE_VARIABLE: "fixer"},
            cwd=root,
            stdin=fixer_prompt(lines).encode(errors="replace"),
            timeout=_SECONDS,
            inherit_stderr=True,
        )
    except OSError as error:
        return read_fixes(lines, "", f"{command[0]}: {error.strerror}")
    error_text = f"the fixer exited with code {done.returncode}" if done.returncode else ""
    return read_fixes(lines, done.stdout.decode(errors="replace"), error_text)


def fixer_prompt(lines: Sequence[Line]) -> str:
    """Return what a fixer is given: everything at once, since one fix may affect another."""
    return f"{TASK}\n\n{findings_section(lines, _MAX_PROMPT)}\n"


def read_fixes(lines: Sequence[Line], text: str, error: str = "") -> Fixes:
    """Return what became of the fixes by a fixer's own words. What it does not mention has failed.

    It may name any member of a line of work; of two answers about one line the worse counts, as in the ledger.
    """
    claimed = [one for one in read_said(text) if one.word in CLAIMS]
    said = {line.id: _worst(line, claimed, error or _SILENT) for line in lines}
    made = frozenset(id for id, one in said.items() if one.word == "fixed")
    failed = {id: said_text(one.word, one.why) for id, one in said.items() if id not in made}
    return Fixes(made, failed, tuple(said.values()))


def _worst(line: Line, claimed: Sequence[Said], silent: str) -> Said:
    """Return the worst that was said about a line of work; that it is not fixed if nothing was."""
    numbers = {member.number for member in line.members}
    answers = [one for one in claimed if one.number in numbers]
    return min(answers, key=lambda one: CLAIMS.index(one.word), default=Said(line.number, "not_fixed", silent))


def fix_events(fixes: Fixes, ledger: Ledger, at: str, run: str = "") -> list[FindingChanged]:
    """Return the claims of a fixer, for the ledger: one for each open member of a line of work."""
    return claims(fixes.said, ledger, who=FIXER, run=run, at=at)
