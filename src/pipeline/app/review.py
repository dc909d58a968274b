"""Reviews of the current change: what is compared, the workflow that reviews it, and what it found."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.app.check import CheckedWorkflow
from pipeline.app.findings.queries import review_json
from pipeline.app.settings import ToolSettings
from pipeline.engine.ports import Journal
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.git import (
    GitRefusedError,
    TreeSnapshots,
    changed_names,
    default_branch,
    pathspecs,
    query_git,
    read_checkout,
)
from pipeline.findings.ledger import Ledger, passes_of
from pipeline.findings.model import Finding
from pipeline.findings.reports import reviewer_of
from pipeline.findings.review_options import is_review_command
from pipeline.findings.reviews import Review, review, review_of_run
from pipeline.findings.untaken import answered, stopped_runs
from pipeline.findings.verdicts import Verdict
from pipeline.language.model import (
    Access,
    Branch,
    Effects,
    Lens,
    LlmStage,
    ParallelStage,
    Stage,
    ToolStage,
    Workflow,
    is_review,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText
from pipeline.language.write import write_workflow
from pipeline.text import did_you_mean

WORKFLOW = "review"  # its name in the catalog
REVIEWS = "reviews"  # the parallel stage that runs its reviewers


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """What is reviewed: the difference between a commit and the files as they are now."""

    base: str
    target: str  # such as `main..HEAD`
    paths: tuple[str, ...] = ()  # from the root of the repository; empty: everything
    scope: str = "changeset"
    files: int = 0  # that differ


def find_target(
    root: Path, environ: Mapping[str, str], store: Path, base: str | None, paths: Sequence[Path]
) -> ReviewTarget:
    """Compare the files with a base, by default where this branch left the default branch.

    Awf's own files are not part of the change. Raises AwfError outside a repository, for an
    unknown ref and for a path outside.
    """
    checkout = read_checkout(root, environ)
    if not checkout.root:
        raise AwfError("not a git repository", help="change to one; awf review compares with a commit")
    if not checkout.head:
        raise AwfError("the repository has no commit to compare with", help="commit something first")
    top = Path(checkout.root)
    name = base or default_branch(root, environ) or "HEAD"
    commit = query_git(root, environ, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not commit:
        raise AwfError(f'unknown ref "{name}"', help="name a branch, a tag or a commit")
    fork = query_git(root, environ, "merge-base", commit, "HEAD") or commit
    change = "HEAD" if name == "HEAD" else f"{name}..HEAD"
    within = tuple(_path_in(top, path) for path in paths)
    tree = TreeSnapshots(environ, store).tree(root)
    changed = changed_names(root, environ, fork, tree, pathspecs(within))
    target = f"{change} -- {' '.join(within)}" if within else change
    return ReviewTarget(fork, target, within, _scope(top, within), len(changed))


def _scope(top: Path, within: Sequence[str]) -> str:
    if not within:
        return "changeset"
    return "file" if len(within) == 1 and (top / within[0]).is_file() else "package"


def _path_in(top: Path, path: Path) -> str:
    """A path from the root of the repository."""
    absolute = Path(os.path.normpath(path.absolute()))
    if not absolute.is_relative_to(top.resolve()):
        raise AwfError(f'"{path}" is outside the repository', help=f"name a path below {top}")
    return absolute.relative_to(top.resolve()).as_posix()


def choose_reviewers(
    workflow: Workflow,
    lenses: Collection[Lens],
    only: Collection[str],
    tools: Sequence[ToolSettings],
    claims: Sequence[Finding] = (),
) -> list[Stage]:
    """The reviewers of a workflow and the tools that are wanted: those named in `only`, or else by lens.

    For a verification these are the ones that reported the `claims`, if each claim has one. Raises AwfError for a name
    that nothing has, and if nothing is left.
    """
    reviews = _reviews_of(workflow)
    offered = _offered(workflow, reviews, tools)
    known = {name: None for stage in offered for name in sorted(_names(stage))}
    for name in only:
        if name not in known:
            help = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise AwfError(f'unknown reviewer or tool "{name}"', help=help)
    chosen = [one for one in offered if (_names(one) & set(only) if only else _lens(one) in lenses)]
    if not chosen:
        raise AwfError(f"no reviewer has the lens {', '.join(lenses)}", help=f'add one to "{REVIEWS}" in the workflow')
    raised = [one for one in chosen if any(claim.reviewer in _names(one) for claim in claims)]
    ruling = {name for stage in raised for name in _names(stage)}
    return raised if claims and all(claim.reviewer in ruling for claim in claims) else chosen


def required_reviewers(workflow: Workflow, tools: Sequence[ToolSettings], chosen: Sequence[Stage]) -> tuple[str, ...]:
    """Return who has to look before a change ships: whom `awf review` runs by default, and whom it was told to run."""
    offered = _offered(workflow, _reviews_of(workflow), tools)
    default = [stage for stage in offered if _lens(stage) is Lens.CODE_REVIEW]
    return tuple(dict.fromkeys(map(reviewer_of, (*default, *chosen))))


def _reviews_of(workflow: Workflow) -> ParallelStage:
    reviews = workflow.by_id.get(REVIEWS)
    if not isinstance(reviews, ParallelStage):
        help = "awf review chooses among its branches; start from a copy of the workflow that awf ships"
        raise AwfError(f'the workflow "{WORKFLOW}" has no parallel stage "{REVIEWS}"', help=help)
    return reviews


def _offered(workflow: Workflow, reviews: ParallelStage, tools: Sequence[ToolSettings]) -> list[Stage]:
    """Return every reviewer of a workflow, and the tools beside them."""
    reviewers = [workflow.by_id[branch.stage] for branch in reviews.branches]
    return [*reviewers, *(_tool_stage(tool, workflow) for tool in tools)]


def _names(stage: Stage) -> set[str]:
    """What a reviewer or tool is called in findings: the id of its stage, or the reviewer's name."""
    return {stage.id, *([stage.reviewer] if isinstance(stage, LlmStage) and stage.reviewer else [])}


def _lens(stage: Stage) -> Lens:
    return stage.lens if isinstance(stage, LlmStage) else Lens.CODE_REVIEW


def _tool_stage(tool: ToolSettings, workflow: Workflow) -> ToolStage:
    id = tool.name if tool.name not in workflow.by_id else f"tool-{tool.name}"
    return ToolStage(id=id, command=tool.command, findings=tool.findings, effects=Effects.NONE)


def with_reviewers(checked: CheckedWorkflow, workflow: Workflow, chosen: Sequence[Stage]) -> CheckedWorkflow:
    """A workflow whose stage `reviews` runs the chosen reviewers and tools, with a source that says so."""
    reviews = workflow.by_id[REVIEWS]
    assert isinstance(reviews, ParallelStage)  # noqa: S101 - ensured when the reviewers were chosen
    join = min(reviews.join, len(chosen)) if isinstance(reviews.join, int) else reviews.join
    branches = tuple(Branch(stage=stage.id) for stage in chosen)
    others = {branch.stage for branch in reviews.branches} - {stage.id for stage in chosen}
    kept = [stage for stage in workflow.stages if stage.id not in others]
    kept[kept.index(reviews)] = reviews.model_copy(update={"branches": branches, "join": join})
    added = [stage for stage in chosen if stage.id not in workflow.by_id]
    text = write_workflow(workflow.model_copy(update={"stages": (*kept, *added)}))
    source = SourceText(checked.source.name, text)
    # Read again, not the copy: that still knows the stages of the original by their ids.
    selected = parse_workflow(source).workflow
    return replace(checked, source=source, workflow=selected, workflow_for_preflight=selected)


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """A review run, and what is known about its target now."""

    run_id: str
    status: RunStatus
    reason: str
    review: Review
    gaps: tuple[str, ...]  # reviewers and tools that gave no readable answer, and why
    cost_usd: float
    tokens: int
    seconds: float
    waiting: tuple[str, ...] = ()  # who found something that no pass has taken in yet

    def exit_code(self, worst: Verdict) -> ExitCode:
        """Return the exit code of the command if a verdict as bad as `worst` is to fail it."""
        if self.status is RunStatus.CANCELLED:
            return ExitCode.CANCELLED
        # A run that an ABORT holds has looked at everything: it is stopped, not incomplete.
        stopped = self.status in (RunStatus.PAUSED, RunStatus.WAITING, RunStatus.RUNNING)
        if self.gaps or (stopped and self.review.verdict is not Verdict.ABORT):
            return ExitCode.PAUSED
        failing = self.status is not RunStatus.SUCCESS or self.review.verdict.rank >= worst.rank or self.review.changed
        return ExitCode.RUN_FAILED if failing else ExitCode.SUCCESS

    def as_json(self) -> dict[str, Any]:
        """Return the result for a program."""
        return review_json(self.review) | {
            "run_id": self.run_id,
            "status": str(self.status),
            "reason": self.reason,
            "complete": not self.gaps,
            "incomplete": list(self.gaps),
            "waiting": list(self.waiting),
            "filtered": self.review.filtered,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """What became of the files while fixes were made, by whomever."""

    names: tuple[str, ...] = ()  # of those that changed since the first look, from the root of the repository
    uncommitted: tuple[str, ...] = ()  # of these, those that the last commit does not have like this
    problem: str = ""  # why git cannot tell


def changed_files(state: State, ledger: Ledger, environ: Mapping[str, str], store: Path) -> ChangedFiles | None:
    """Return the files that changed since a run's first look; None if no stage was to change any."""
    passes = passes_of(ledger, state.run_id)
    if not passes or not passes[0].tree or not any(_writes(state.workflow.stage(id)) for id in state.visits):
        return None
    root = state.directory
    try:
        now = TreeSnapshots(environ, store).tree(root)
        names = changed_names(root, environ, passes[0].tree, now)
        uncommitted = set(changed_names(root, environ, "HEAD", now))
    except GitRefusedError as error:
        return ChangedFiles(problem=error.message)
    return ChangedFiles(tuple(names), tuple(name for name in names if name in uncommitted))


def _writes(stage: Stage) -> bool:
    """Return whether a stage is an agent that may change files."""
    return isinstance(stage, LlmStage) and stage.access is Access.CODING and not is_review(stage)


def summarize_review(state: State, ledger: Ledger) -> ReviewResult:
    """Return the result of a run's review so far."""
    about = review_of_run(ledger, state.run_id) or review(ledger)
    return ReviewResult(
        run_id=state.run_id,
        status=state.status,
        reason=state.reason,
        review=about,
        gaps=tuple(dict.fromkeys((*_unfinished(state), *about.gaps))),
        waiting=answered(state),
        cost_usd=round(state.cost_usd, 6),
        tokens=state.tokens,
        seconds=round(state.seconds, 3),
    )


def refuse_if_answers_wait(journal: Journal) -> None:
    """Raise AwfError if a review was stopped after somebody had found something.

    Resuming that review takes it in; a new one would leave it behind. Only somebody who cancels it by name drops it:
    Ctrl-C does not.
    """
    for run, state in stopped_runs(journal):
        if is_review_command(state.options) and (names := answered(state)):
            help = f"awf resume {run} takes it in; awf cancel {run} drops it"
            raise AwfError(f"run {run} was stopped, and what {', '.join(names)} found is not taken in yet", help=help)


def _unfinished(state: State) -> Iterator[str]:
    """Yield the reviewers and tools that could not answer or were not asked, and why."""
    errors = state.progress.errors
    for stage, error in errors.items():
        name = reviewer_of(state.workflow.stage(stage))
        yield f"{name}: {error.reason.partition('could not run: ')[2] or error.reason}"
    reviews = state.workflow.by_id.get(REVIEWS)
    for branch in reviews.branches if isinstance(reviews, ParallelStage) else ():
        if not any(branch.stage in done for done in (errors, state.visits, state.progress.branches)):
            yield f"{branch.stage}: did not run"
