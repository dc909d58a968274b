"""Looking at findings again, when a person asks for it: what code sees, what a reviewer says, and what is recorded.

The store is not held while a reviewer works. What was decided is on record before the next finding is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.app.findings.ledger import Repository, find_finding, open_ledger, timestamp
from pipeline.app.findings.queries import NEEDS_ATTENTION
from pipeline.app.store import process_label
from pipeline.app.wiring import Runtime, SystemClock
from pipeline.backends.environment import child_environment
from pipeline.backends.git import git_in
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.engine.ports import (
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentStatus,
    Backend,
    ExitReason,
    ProcessCommand,
    Processes,
    ProcessResult,
    RequestLimits,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.model import Finding
from pipeline.findings.revalidate import (
    CodeCheck,
    CommandResult,
    ReviewerAnswer,
    Ruling,
    build_question,
    check_code,
    make_ruling,
    revalidation_order,
    revalidation_refusal,
    ruling_events,
    should_ask,
    suggested_tests,
)
from pipeline.findings.transitions import CodeState
from pipeline.handlers.tool import failure_headline
from pipeline.language.model import Access
from pipeline.plugins.manager import PluginManager

STAGE = "revalidate"  # what a script calls the reviewer; the visits are the findings it is asked about, in order
_GREP = (
    *("grep", "--untracked", "-h", "--only-matching", "--word-regexp"),
    *("--fixed-strings", "-f", "-", "--", "."),
)
_NO_CODE = (".wystack", ".code-review", ".awf", "*.json", "*.sarif", "*.md", "*.txt", "*.xml")  # they quote findings
_SEARCH = 30.0  # seconds
_COMMAND = 1800.0
_LOOK = 1800.0
_SILENT = 900.0


@dataclass(frozen=True, slots=True)
class RevalidationResult:
    """What became of each finding that was looked at, in the order in which they were."""

    rulings: tuple[Ruling, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def unanswered(self) -> bool:
        """Whether a reviewer was asked and did not answer."""
        return any(ruled.trouble for ruled in self.rulings)

    def as_json(self) -> list[dict[str, Any]]:
        """The findings for a program."""
        return [
            {
                "id": ruled.finding.id,
                "number": ruled.finding.number,
                "before": str(ruled.finding.state),
                "after": str(ruled.after or ruled.finding.state),
                "mechanical": str(ruled.mechanical.condition),
                "judged": ruled.judged and str(ruled.judged),
                "reason": ruled.reason,
            }
            for ruled in self.rulings
        ]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rulings that are on record, by finding, and what could not be written or may not be edited."""

    rulings: Mapping[str, Ruling] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Recorded") -> "Recorded":
        """Both, in order."""
        return Recorded({**self.rulings, **other.rulings}, self.problems + other.problems)

    def in_order(self, findings: Sequence[Finding]) -> tuple[Ruling, ...]:
        """The rulings in the order of their findings."""
        return tuple(self.rulings[finding.id] for finding in findings)


@dataclass(frozen=True, slots=True)
class FoundWords:
    """Words that were looked for in a repository's code, all at once."""

    found: frozenset[str] | None  # None: nobody can tell

    def has(self, word: str) -> bool | None:
        """Whether a word is there."""
        return None if self.found is None else word in self.found


def search_code(words: Iterable[str], root: Path, environment: Mapping[str, str]) -> FoundWords:
    """Look for words in all files of code, those that git does not know yet too."""
    wanted = "\n".join(dict.fromkeys(words))
    if not wanted:
        return FoundWords(frozenset())
    try:
        outside = (f":(exclude){name}" for name in _NO_CODE)
        done = git_in(root, environment).run_sync(*_GREP, *outside, stdin=wanted.encode(), timeout=_SEARCH)
    except OSError:  # there is no git, or it does not answer
        return FoundWords(None)
    found = frozenset(done.stdout.decode(errors="replace").split())
    return FoundWords(found if done.returncode in (0, 1) else None)


@dataclass(frozen=True, slots=True)
class FreshReviewer:
    """A backend that is asked about one finding after the other, each time afresh and only to read."""

    backend: Backend
    root: Path
    folder: Path  # where questions and answers are kept
    around: Runtime

    async def ask(self, finding: Finding, seen: CodeCheck, visit: int) -> ReviewerAnswer:
        """What it says of a finding. Question and answer are kept."""
        folder = self.folder / str(finding.id)
        folder.mkdir(parents=True, exist_ok=True)
        prompt = build_question(finding, seen)
        _keep(folder / "question.md", self.around.redactor.text(prompt))
        result = await self.backend.run(self._request(prompt, folder, visit), _unwatched)
        text = self.around.redactor.text(result.text)
        _keep(folder / "answer.md", text)
        return ReviewerAnswer(text, self.around.redactor.text(_trouble(result)), self.backend.name)

    def _request(self, prompt: str, folder: Path, visit: int) -> AgentRequest:
        settings = self.around.settings
        choice = settings.model_choice
        names = (*self.backend.variables(choice.provider), *settings.environment)
        return AgentRequest(
            stage=STAGE,
            visit=visit,
            attempt=1,
            review=True,
            prompt=prompt,
            cwd=self.root,
            artifacts=folder.absolute(),
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=Access.READ_ONLY,
            limits=RequestLimits(timeout=settings.limits.timeout or _LOOK, idle=settings.limits.idle or _SILENT),
            env=child_environment(self.around.environ, extra_names=names),
        )


@dataclass(frozen=True, slots=True)
class Revalidation:
    """One look at some findings of a store."""

    repository: Repository
    around: Runtime
    now: datetime
    options: Mapping[str, Any] = field(default_factory=dict)  # who looks, as a run is told

    async def look(self, names: Sequence[str], command: str = "") -> RevalidationResult:
        """Look at the findings of these names, or at all that are open or said to be fixed."""
        reviewer = self._reviewer()
        with open_ledger(
            self.around.store, self.repository.root, timestamp(self.now), self.repository.trust
        ) as open_book:
            ledger, problems = open_book.book.ledger().copy(), open_book.problems
        picked = revalidation_order(_picked(names, ledger))
        if not picked:
            return RevalidationResult(problems=problems)
        ran = await self._run(command) if command else None
        seen = self._seen(picked, ledger, ran)
        asked = {finding.id for finding, facts in seen if reviewer and _is_asked(finding, facts, named=bool(names))}
        done = self._recorded([_unasked(*one) for one in seen if one[0].id not in asked])
        if reviewer:
            done += await self._judged([one for one in seen if one[0].id in asked], reviewer)
        return RevalidationResult(done.in_order(picked), tuple(dict.fromkeys(problems + done.problems)))

    def _seen(
        self, picked: Sequence[Finding], ledger: Ledger, ran: CommandResult | None
    ) -> list[tuple[Finding, CodeCheck]]:
        root, environment = self.repository.root, self.repository.environment
        history = GitHistory(root, environment)
        ground = CodeState(history, line_maps(ledger, history))
        names = (name for finding in picked for name in suggested_tests(finding.regression_tests))
        words = search_code(names, root, environment)
        return [(finding, check_code(finding, ground, words, ran)) for finding in picked]

    async def _judged(self, asked: Sequence[tuple[Finding, CodeCheck]], reviewer: FreshReviewer) -> Recorded:
        done = Recorded()
        for visit, (finding, facts) in enumerate(asked, 1):
            said = await reviewer.ask(finding, facts, visit)
            done += self._recorded([make_ruling(finding, facts, said)])
        return done

    def _recorded(self, rulings: Sequence[Ruling]) -> Recorded:
        """Write down what was decided, but for findings that somebody else decided about meanwhile.

        The files are written in the same breath: an old status in them would be taken for somebody's edit.
        """
        at = timestamp(self.now)
        with open_ledger(self.around.store, self.repository.root, at, self.repository.trust) as open_book:
            current = [_current(ruled, open_book.book.ledger()) for ruled in rulings]
            open_book.book.append([event for ruled in current for event in ruling_events(ruled, at)])
            shown = open_book.views.refresh(open_book.book.ledger(), at)
        return Recorded({ruled.finding.id: ruled for ruled in current}, open_book.problems + shown)

    def _reviewer(self) -> FreshReviewer | None:
        """Whoever was named; nobody is asked who was not."""
        if not (name := self.options.get("backend")):
            return None
        plugins = PluginManager(SystemClock().now, redactor=self.around.redactor)
        plugins.load_installed()
        label = process_label(self.around.store, STAGE)
        around = self.around
        backends = BackendSelector(
            self.options, self._processes(), plugins.agent_backends(), around.settings, around.environ, label
        )
        folder = around.store / "revalidations" / self.now.strftime("%Y%m%dT%H%M%S.%fZ")
        return FreshReviewer(backends.get(str(name)), self.repository.root, folder, around)

    def _processes(self) -> Processes:
        return LocalProcesses(process_label(self.around.store, STAGE), redactor=self.around.redactor)

    async def _run(self, command: str) -> CommandResult:
        """Run the command that has to pass before anything is fixed."""
        with TemporaryDirectory(prefix="awf-") as folder:
            finished = await self._processes().run(
                ProcessCommand(
                    argv=("/bin/sh", "-c", command),
                    cwd=self.repository.root,
                    env=child_environment(self.around.environ, extra_names=self.around.settings.environment),
                    artifacts=Path(folder),
                    timeout=_COMMAND,
                )
            )
        if finished.ending is ExitReason.EXITED and finished.exit_code == 0:
            return CommandResult(passed=True)
        words = f"exit code {finished.exit_code}" if finished.ending is ExitReason.EXITED else _ended(finished)
        return CommandResult(passed=False, said=failure_headline(finished.stdout_tail, finished.stderr_tail, words))


def _picked(names: Sequence[str], ledger: Ledger) -> list[Finding]:
    if not names:
        return [finding for finding in ledger if finding.state in NEEDS_ATTENTION]
    return list({finding.id: finding for finding in (find_finding(name, ledger) for name in names)}.values())


def _is_asked(finding: Finding, facts: CodeCheck, *, named: bool) -> bool:
    return not revalidation_refusal(finding) and should_ask(finding, facts, named=named)


def _unasked(finding: Finding, facts: CodeCheck) -> Ruling:
    if why := revalidation_refusal(finding):
        return Ruling(finding, facts, f"it was not looked at: {why}")
    return make_ruling(finding, facts, None)


def _current(ruled: Ruling, ledger: Ledger) -> Ruling:
    """A ruling on a finding as it is now. One that is no longer what was looked at is left alone."""
    now = ledger.findings[ruled.finding.id]
    if ruled.after is None or now.state is ruled.finding.state:
        return replace(ruled, finding=now)
    return Ruling(now, ruled.mechanical, f"meanwhile it is {now.state}, so it was left alone; {ruled.reason}")


def _ended(finished: ProcessResult) -> str:
    return f"{finished.ending} after {finished.duration:.0f} s {finished.message}".strip()


def _unwatched(event: AgentEvent) -> None:
    """Take no notice of what a reviewer does meanwhile."""


def _trouble(result: AgentResult) -> str:
    if result.status is AgentStatus.OK:
        return ""
    return f"{result.error.kind}: {result.error.message}" if result.error else f"it ended with {result.status}"


def _keep(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")
