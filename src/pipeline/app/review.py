"""Reviews of the current change: what is compared, the workflow that reviews it, and what it found."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.app.check import CheckedWorkflow
from pipeline.app.findings.queries import finding_row
from pipeline.app.settings import ToolSettings
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.events import Coverage, Disposition, Pass
from pipeline.findings.git import TreeSnapshots, changed_names, query_git, read_checkout
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState, ReportStatus
from pipeline.findings.review_options import review_options
from pipeline.findings.triage import importance
from pipeline.findings.verdicts import Verdict, Verdicts, verdicts
from pipeline.language.model import (
    Branch,
    Effects,
    Lens,
    LlmStage,
    ParallelStage,
    Stage,
    ToolStage,
    Workflow,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText
from pipeline.language.write import write_workflow
from pipeline.text import did_you_mean

WORKFLOW = "review"  # its name in the catalog
REVIEWS = "reviews"  # the parallel stage that runs its reviewers
CLAIMED = (FindingState.FIX_CLAIMED, FindingState.REOPENED)  # what a verification looks at


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

    Raises AwfError outside a repository, for an unknown ref and for a path outside.
    """
    checkout = read_checkout(root, environ)
    if not checkout.root:
        raise AwfError("not a git repository", help="change to one; awf review compares with a commit")
    if not checkout.head:
        raise AwfError("the repository has no commit to compare with", help="commit something first")
    top = Path(checkout.root)
    name = base or _default_branch(root, environ)
    commit = query_git(root, environ, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not commit:
        raise AwfError(f'unknown ref "{name}"', help="name a branch, a tag or a commit")
    fork = query_git(root, environ, "merge-base", commit, "HEAD") or commit
    within = tuple(_path_in(top, path) for path in paths)
    kind = "changeset" if not within else "file" if len(within) == 1 and (top / within[0]).is_file() else "package"
    tree = TreeSnapshots(environ, store).tree(root)
    changed = changed_names(root, environ, fork, tree, within)
    return ReviewTarget(fork, "HEAD" if name == "HEAD" else f"{name}..HEAD", within, kind, len(changed))


def _default_branch(root: Path, environ: Mapping[str, str]) -> str:
    """The branch that changes are made for, as far as git knows; without one, the last commit."""
    remote = query_git(root, environ, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    for name in filter(None, (remote, "main", "master", "origin/main", "origin/master")):
        if query_git(root, environ, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return name
    return "HEAD"


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
    reviews = workflow.by_id.get(REVIEWS)
    if not isinstance(reviews, ParallelStage):
        help = "awf review chooses among its branches; start from a copy of the workflow that awf ships"
        raise AwfError(f'the workflow "{WORKFLOW}" has no parallel stage "{REVIEWS}"', help=help)
    offered: list[Stage] = [workflow.by_id[branch.stage] for branch in reviews.branches]
    offered += (_tool_stage(tool, workflow) for tool in tools)
    known = [name for stage in offered for name in _names(stage)]
    for name in only:
        if name not in known:
            help = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise AwfError(f'unknown reviewer or tool "{name}"', help=help)
    chosen = [one for one in offered if (_names(one) & set(only) if only else _lens(one) in lenses)]
    if not chosen:
        raise AwfError(f"no reviewer has the lens {', '.join(lenses)}", help=f'add one to "{REVIEWS}" in the workflow')
    raised = [one for one in chosen if any(_names(one) & set(claim.sources) for claim in claims)]
    ruling = {name for stage in raised for name in _names(stage)}
    return raised if claims and all(ruling & set(claim.sources) for claim in claims) else chosen


def _names(stage: Stage) -> set[str]:
    """What a reviewer or tool can be called: the id of its stage, or the reviewer's name."""
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
    """What a review found, and what it could not look at."""

    run_id: str
    status: RunStatus
    reason: str
    verdicts: Verdicts
    findings: tuple[tuple[Finding, str], ...]  # open, the worst first, each with `new`, `known` or `back again`
    gaps: tuple[str, ...]  # reviewers and tools that gave no readable answer, and why
    filtered: int  # items that the gate filtered or demoted
    cost_usd: float
    tokens: int
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """The verdict, in which a claimed fix does not count."""
        return self.verdicts.after_verification

    def exit_code(self, worst: Verdict) -> ExitCode:
        """The exit code of the command if a verdict as bad as `worst` is to fail it."""
        if self.status is RunStatus.CANCELLED:
            return ExitCode.CANCELLED
        # A run that an ABORT holds has looked at everything: it is stopped, not incomplete.
        stopped = self.status in (RunStatus.PAUSED, RunStatus.WAITING, RunStatus.RUNNING)
        if self.gaps or (stopped and self.verdict is not Verdict.ABORT):
            return ExitCode.PAUSED
        order = list(Verdict)
        failing = self.status is not RunStatus.SUCCESS or order.index(self.verdict) >= order.index(worst)
        return ExitCode.RUN_FAILED if failing else ExitCode.SUCCESS

    def as_json(self, ledger: Ledger) -> dict[str, Any]:
        """The result for a program."""
        return {
            "run_id": self.run_id,
            "status": str(self.status),
            "reason": self.reason,
            "verdict": str(self.verdict),
            "complete": not self.gaps,
            "summary": dict(self.verdicts.summary),
            "findings": [finding_row(finding, ledger) | {"since": since} for finding, since in self.findings],
            "filtered": self.filtered,
            "incomplete": list(self.gaps),
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


def summarize_review(state: State, ledger: Ledger) -> ReviewResult:
    """The result of a run's review so far."""
    passes = [one for one in ledger.passes.values() if one.run == state.run_id]
    findings = _findings(ledger, passes, state)
    gaps = tuple(_gaps(state, ledger, passes))
    coverage = Coverage(reviewers=dict.fromkeys(gaps, ReportStatus.MISSING))
    said = [verdict for one in passes for verdict in one.reviewer_verdicts]
    open_ones = sorted((one for one in findings if one.state.needs_attention), key=importance)
    own = {str(one.id) for one in passes}
    hidden = (Disposition.FILTERED, Disposition.DEMOTED)
    return ReviewResult(
        run_id=state.run_id,
        status=state.status,
        reason=state.reason,
        verdicts=verdicts(findings, coverage, said),
        findings=tuple((one, _since(one, own)) for one in open_ones),
        gaps=gaps,
        filtered=sum(item.disposition in hidden for one in passes for item in one.entries),
        cost_usd=round(state.cost_usd, 6),
        tokens=state.tokens,
        seconds=round(state.seconds, 3),
    )


def _findings(ledger: Ledger, passes: Sequence[Pass], state: State) -> list[Finding]:
    reported = {ledger.leader(FindingId(id)) for one in passes for id in one.finding_ids if id in ledger.findings}
    verifies = review_options(state).mode == "verify"
    return [one for one in ledger if one.id in reported or (verifies and one.state in CLAIMED)]


def _gaps(state: State, ledger: Ledger, passes: Sequence[Pass]) -> Iterator[str]:
    """The reviewers that gave no readable answer, and why."""
    errors = state.progress.errors
    yield from (f"{stage}: {error.reason}" for stage, error in errors.items())
    coverage = ledger.coverage(passes[-1]) if passes else None
    reviews = state.workflow.by_id.get(REVIEWS)
    branches = [one.stage for one in reviews.branches] if isinstance(reviews, ParallelStage) else []
    if coverage:
        silent = {name: why for name, why in coverage.silent.items() if name not in errors}
        yield from (f"{name}: {coverage.problems.get(name) or why}" for name, why in silent.items())
    for stage in branches:
        if stage not in errors and stage not in state.visits and stage not in state.progress.branches:
            yield f"{stage}: did not run"


def _since(finding: Finding, passes: Collection[str]) -> str:
    """Whether a finding is new in some passes, was known before, or was fixed and is back."""
    if finding.state is FindingState.REOPENED:
        return "back again"
    return "new" if any(one.what == "raised" and one.pass_id in passes for one in finding.history) else "known"
