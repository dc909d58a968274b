"""Looking at findings again: what code sees, what a reviewer says, and what is recorded.

The store is not locked while a reviewer works, and a ruling is recorded before the next finding is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.app.findings.agent import FindingsAgent, open_agent
from pipeline.app.findings.ledger import Repository, find_finding, open_ledger
from pipeline.app.store import process_label
from pipeline.app.wiring import Runtime
from pipeline.backends.environment import child_environment
from pipeline.backends.git import git_in
from pipeline.backends.process import LocalProcesses
from pipeline.engine.ports import ProcessCommand, Processes
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.revalidate import (
    CodeCheck,
    Ruling,
    build_question,
    check_code,
    rule_by_code,
    rule_by_reviewer,
    ruling_events,
    should_ask,
    suggested_tests,
)
from pipeline.findings.transitions import CodeState
from pipeline.findings.triage import importance
from pipeline.handlers.tool import describe_failure

STAGE = "revalidate"  # the name of the reviewer in a script; its visits are the findings in the order they are asked
_GREP = (
    *("grep", "--untracked", "-h", "--only-matching", "--word-regexp"),
    *("--fixed-strings", "-f", "-", "--", "."),
)
_QUOTES_FINDINGS = (".wystack", ".code-review", ".awf", "*.json", "*.sarif", "*.md", "*.txt", "*.xml")
_SEARCH_SECONDS = 30.0
_COMMAND_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class RevalidationResult:
    """The ruling on each finding, in the order they were looked at."""

    rulings: tuple[Ruling, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def unanswered(self) -> bool:
        """Whether a reviewer was asked and gave no answer."""
        return any(ruling.unanswered for ruling in self.rulings)

    def as_json(self) -> list[dict[str, Any]]:
        """The rulings for a program."""
        return [
            {
                "id": ruling.finding.id,
                "number": ruling.finding.number,
                "before": str(ruling.finding.state),
                "after": str(ruling.after or ruling.finding.state),
                "mechanical": str(ruling.check.condition),
                "judged": ruling.judged,
                "reason": ruling.reason,
            }
            for ruling in self.rulings
        ]


async def ask_reviewer(reviewer: FindingsAgent, finding: Finding, check: CodeCheck, visit: int) -> Ruling:
    """The ruling that follows from a reviewer's answer."""
    outcome = await reviewer.ask(build_question(finding, check), finding.id, visit)
    if outcome.failure:
        return Ruling(finding, check, f"{check}; the reviewer gave no answer: {outcome.reason}", unanswered=True)
    return rule_by_reviewer(finding, check, reviewer.backend.name, outcome.response)


@dataclass(frozen=True, slots=True)
class Revalidation:
    """One look at some findings of a store."""

    repository: Repository
    runtime: Runtime
    now: datetime
    options: Mapping[str, Any] = field(default_factory=dict)  # which agent looks, as for a run

    async def run(self, names: Sequence[str], command: str = "") -> RevalidationResult:
        """Look at the named findings, or at all that are open or claimed to be fixed, claimed fixes first."""
        runtime = self.runtime
        processes = LocalProcesses(process_label(runtime.store, STAGE), redactor=runtime.redactor)
        reviewer = None
        if self.options.get("backend"):  # first: an unknown backend must change nothing
            reviewer = open_agent(STAGE, "revalidations", self.repository.root, runtime, self.now, self.options)
        with open_ledger(runtime.store, self.repository, self.now) as opened:
            ledger, problems = opened.ledger.copy(), list(opened.problems)
        picked = [find_finding(name, ledger) for name in names]
        if not names:
            picked = [finding for finding in ledger if finding.state.needs_attention]
        if not picked:
            return RevalidationResult(problems=tuple(problems))
        failure = await self._run_command(command, processes) if command else None
        rulings, asked = dict[str, Ruling](), list[Ruling]()
        for finding, check in self._check(picked, ledger, failure):
            rulings[finding.id] = rule_by_code(finding, check)
            if reviewer and should_ask(finding, check, named=bool(names)):
                asked.append(rulings[finding.id])
        waiting = {ruling.finding.id for ruling in asked}
        problems += self._record(rulings, [id for id in rulings if id not in waiting])
        for visit, ruling in enumerate(asked, 1):
            if reviewer:
                rulings[ruling.finding.id] = await ask_reviewer(reviewer, ruling.finding, ruling.check, visit)
                problems += self._record(rulings, [ruling.finding.id])
        return RevalidationResult(tuple(rulings.values()), tuple(dict.fromkeys(problems)))

    def _check(self, picked: Iterable[Finding], ledger: Ledger, failure: str | None) -> list[tuple[Finding, CodeCheck]]:
        root, environment = self.repository.root, self.repository.environment
        code = CodeState(RepositoryFiles(root), line_maps(ledger, GitHistory(root, environment)))
        unique = {finding.id: finding for finding in picked}.values()
        claimed_first = sorted(unique, key=lambda one: (one.state is not FindingState.FIX_CLAIMED, importance(one)))
        names = [name for finding in claimed_first for name in suggested_tests(finding.regression_tests)]
        tests = search_code(names, root, environment)
        return [(finding, check_code(finding, code, tests, failure)) for finding in claimed_first]

    def _record(self, rulings: dict[str, Ruling], ids: Sequence[str]) -> tuple[str, ...]:
        """Record rulings, but leave alone a finding whose state changed while it was looked at."""
        with open_ledger(self.runtime.store, self.repository, self.now) as opened:
            for id in ids:
                ruling, now = rulings[id], opened.ledger.findings[rulings[id].finding.id]
                if ruling.after is None or now.state is ruling.finding.state:
                    rulings[id] = replace(ruling, finding=now)
                else:
                    reason = f"its state changed to {now.state} meanwhile, so it was left alone; {ruling.reason}"
                    rulings[id] = Ruling(now, ruling.check, reason)
            events = [event for id in ids for event in ruling_events(rulings[id], opened.at)]
            return opened.problems + opened.record(events)

    async def _run_command(self, command: str, processes: Processes) -> str:
        """Run the command that must pass before a fix is accepted; why it failed, or empty."""
        with TemporaryDirectory(prefix="awf-") as folder:
            done = await processes.run(
                ProcessCommand(
                    argv=("/bin/sh", "-c", command),
                    cwd=self.repository.root,
                    env=child_environment(self.runtime.environ, extra_names=self.runtime.settings.environment),
                    artifacts=Path(folder),
                    timeout=_COMMAND_SECONDS,
                )
            )
        kind, reason = describe_failure(done)
        return (reason or str(kind)) if kind else ""


def search_code(words: Iterable[str], root: Path, environment: Mapping[str, str]) -> frozenset[str] | None:
    """Which of some words occur in the code, untracked files included; None when git cannot tell."""
    wanted = "\n".join(dict.fromkeys(words))
    if not wanted:
        return frozenset()
    excluded = (f":(exclude){name}" for name in _QUOTES_FINDINGS)
    try:
        done = git_in(root, environment).run_sync(*_GREP, *excluded, stdin=wanted.encode(), timeout=_SEARCH_SECONDS)
    except OSError:  # git is missing or does not answer
        return None
    found = frozenset(done.stdout.decode(errors="replace").split())
    return found if done.returncode in (0, 1) else None
