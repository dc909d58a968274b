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
from pipeline.findings.events import Coverage, ReviewerVerdict
from pipeline.findings.git import TreeSnapshots, changed_names, pathspecs, query_git, read_checkout
from pipeline.findings.ledger import Ledger, hidden_items, open_findings
from pipeline.findings.model import Finding, FindingState, ReportStatus
from pipeline.findings.plugin import ReviewKey
from pipeline.findings.review_options import review_options
from pipeline.findings.reviews import claims_to_verify, review_of
from pipeline.findings.triage import importance
from pipeline.findings.verdicts import BLOCK, Verdict, Verdicts, verdicts
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


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """What is reviewed: the difference between a commit and the files as they are now."""

    base: str
    target: str  # such as `main..HEAD`
    paths: tuple[str, ...] = ()  # from the root of the repository; empty: everything
    scope: str = "changeset"
    files: int = 0  # that differ


def find_target(
    root: Path, environ: Mapping[str, str], store: Path, reports: str, base: str | None, paths: Sequence[Path]
) -> ReviewTarget:
    """Compare the files with a base, by default where this branch left the default branch.

    The store and the directory of reports are not part of the change. Raises AwfError outside a repository, for an
    unknown ref and for a path outside.
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
    changed = changed_names(root, environ, fork, tree, pathspecs(within, reports))
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
    known = {name: None for stage in offered for name in sorted(_names(stage))}
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
    """What a review found, and what it could not look at."""

    run_id: str
    status: RunStatus
    reason: str
    verdicts: Verdicts
    findings: tuple[tuple[Finding, str], ...]  # open, the worst first, each with `new`, `known` or `back again`
    rejections: tuple[str, ...]  # reviewers that reject the whole change, and why
    reviewed: bool  # whether a reviewer or tool answered at all
    gaps: tuple[str, ...]  # reviewers and tools that gave no readable answer, and why
    older: int  # findings that are open, and that this review was not about
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
            "older": self.older,
            "filtered": self.filtered,
            "rejections": list(self.rejections),
            "incomplete": list(self.gaps),
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


def summarize_review(state: State, ledger: Ledger) -> ReviewResult:
    """The result of a run's review so far."""
    passes = [one for one in ledger.passes.values() if one.run == state.run_id]
    review = review_of(ledger, passes[-1]) if passes else None
    findings, last = (review.findings, review.passes) if review else ((), ())
    gaps = tuple(_gaps(state, ledger, review.coverage if review else Coverage()))
    coverage = Coverage(reviewers=dict.fromkeys(gaps, ReportStatus.MISSING))
    blocks = [said for one in last for said in one.reviewer_verdicts if said.verdict == BLOCK]
    blocks += _failures_in_words(state, {one.stage for one in last})
    own = {str(one.id) for one in passes}
    about = {one.id for one in findings}
    still_open = {one.id: one for one in open_findings(ledger)}
    left = sorted(
        (one for one in findings if one.id in still_open), key=lambda one: (one.severity.rank, importance(one))
    )
    return ReviewResult(
        run_id=state.run_id,
        status=state.status,
        reason=state.reason,
        verdicts=verdicts(findings, coverage, blocks),
        rejections=tuple(f"{one.reviewer}: {one.argument}" for one in blocks),
        findings=tuple((one, _since(one, own)) for one in left),
        reviewed=review is not None,
        gaps=gaps,
        older=sum(not one.pre_existing for id, one in still_open.items() if id not in about),
        filtered=len(hidden_items(ledger, state.run_id)),
        cost_usd=round(state.cost_usd, 6),
        tokens=state.tokens,
        seconds=round(state.seconds, 3),
    )


def _gaps(state: State, ledger: Ledger, coverage: Coverage) -> Iterator[str]:
    """The reviewers that gave no readable answer, and why."""
    errors = state.progress.errors
    for stage, error in errors.items():
        yield f"{stage}: {error.reason.partition('could not run: ')[2] or error.reason}"
    named = {name for stage in errors for name in _names(state.workflow.by_id[stage])}
    silent = {name: why for name, why in coverage.silent.items() if name not in named}
    yield from (f"{name}: {coverage.problems.get(name) or why}" for name, why in silent.items())
    if review_options(state).mode == "verify" and state.status.final:
        unruled = (one for one in claims_to_verify(ledger) if one.state is FindingState.FIX_CLAIMED)
        yield from (f"no ruling on the claimed fix of finding #{one.number}" for one in unruled)
    reviews = state.workflow.by_id.get(REVIEWS)
    for branch in reviews.branches if isinstance(reviews, ParallelStage) else ():
        if not any(branch.stage in done for done in (errors, silent, state.visits, state.progress.branches)):
            yield f"{branch.stage}: did not run"


def _failures_in_words(state: State, structured: Collection[str]) -> Iterator[ReviewerVerdict]:
    """The reviewers and tools that failed without a finding that code can read: each rejects the change."""
    for report in state.context.list_at(ReviewKey.REPORTS):
        fields = report if isinstance(report, dict) else {"failureReason": "a report that cannot be read"}
        stage = str(fields.get("stageId", ""))
        if not fields.get("findingIds") and stage not in structured:
            yield ReviewerVerdict(reviewer=stage, verdict=BLOCK, argument=str(fields.get("failureReason", "")))


def _since(finding: Finding, passes: Collection[str]) -> str:
    """Whether a finding is new in some passes, was known before, or was fixed and is back."""
    if finding.state is FindingState.REOPENED:
        return "back again"
    return "new" if any(one.what == "raised" and one.pass_id in passes for one in finding.history) else "known"
