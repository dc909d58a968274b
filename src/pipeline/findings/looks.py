"""What a review is given to look at, and what each reviewer has looked at before.

A reviewer's last look at a change is remembered across runs, so that a second look costs what changed: it is given the
changes since then, and its open findings by number. The whole change is given again to a new reviewer, after a rebase,
if it is asked for, and if more than half of the change is new.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.findings.events import Pass
from pipeline.findings.git import (
    GitRefusedError,
    changed_line_total,
    changed_names,
    file_text,
    is_tree,
    object_names,
    pathspecs,
    unshown_names,
)
from pipeline.findings.ledger import Ledger, findings_about, is_closed_elsewhere, is_same_branch, passes_of_change
from pipeline.findings.model import Finding, FindingId, FindingState, PassId
from pipeline.findings.review_options import ReviewOptions

MAX_PATHS = 5_000  # files of a change that are listed; of a larger one every file is taken to be a part


@dataclass(frozen=True, slots=True)
class Target:
    """What is reviewed: the change from a base to the files as they are, in one run."""

    run: str
    base: str
    name: str  # such as `main..HEAD`
    mode: str
    scope: str
    paths: tuple[str, ...] | None = None  # the files of the change; None: every file
    unshown: tuple[str, ...] = ()  # those of them whose lines no diff shows
    branch: str = ""  # that is checked out

    def is_same(self, passed: Pass) -> bool:
        """Return whether an earlier pass looked at the same change, to the same extent."""
        if passed.mode == "quick" or passed.changed or not passed.tree or passed.scope != self.scope:
            return False
        if self.run and passed.run == self.run:
            return True
        same_change = bool(self.base) and (passed.base, passed.target) == (self.base, self.name)
        return same_change and is_same_branch(passed.branch, self.branch)

    def findings(self, ledger: Ledger) -> list[Finding]:
        """Return the open findings about it."""
        passes = passes_of_change(ledger, self.run, self.base, self.name, self.branch)
        return [finding for finding in findings_about(ledger, self.paths, passes) if finding.state.is_open]


def target_of(
    options: ReviewOptions, run: str, tree: str, root: Path, environ: Mapping[str, str], branch: str = ""
) -> Target:
    """Return what is reviewed, with the files of the change as far as git knows them."""
    paths: tuple[str, ...] | None = None
    unshown: tuple[str, ...] = ()
    if is_tree(options.base) and is_tree(tree):
        try:
            within = pathspecs(options.paths)
            paths = tuple(changed_names(root, environ, options.base, tree, within))
            unshown = tuple(unshown_names(root, environ, options.base, tree, within)) if paths else ()
        except GitRefusedError:  # unknown: every file is a part of it
            paths = None
    if paths is not None and len(paths) > MAX_PATHS:
        paths = None
    return Target(run, options.base, options.target, options.mode, options.scope, paths, unshown, branch)


def last_tree(ledger: Ledger, reviewer: str, target: Target) -> str:
    """Return the tree that a reviewer looked at last, as a part of the same change; empty if there is none."""
    for passed in reversed(ledger.passes.values()):
        if not target.is_same(passed):
            continue
        if any(look.reviewer == reviewer and look.status.answered for look in passed.coverage.looks):
            return passed.tree
    return ""


def is_mostly_new(
    root: Path, environ: Mapping[str, str], base: str, since: str, tree: str, within: Sequence[str]
) -> bool:
    """Return whether more than half of a change is new since a tree; yes if git cannot tell."""
    try:
        whole = changed_line_total(root, environ, base, tree, within)
        return 2 * changed_line_total(root, environ, since, tree, within) > whole
    except GitRefusedError:
        return True


def to_rule_on(
    ledger: Ledger, target: Target, reviewer: str, present: Collection[str], *, every: bool = False
) -> list[Finding]:
    """Return the open findings that a reviewer is asked to rule on: its own, and claims of those who take no part.

    A verification asks about claimed fixes, and about what was reopened, unless it is to cover `every` open finding.
    """
    found = []
    for finding in target.findings(ledger):
        claimed = finding.state in (FindingState.FIX_CLAIMED, FindingState.REOPENED)
        if target.mode == "verify" and not claimed and not every:
            continue
        absent = finding.reviewer not in present and target.mode == "verify"
        if finding.reviewer == reviewer or absent:
            found.append(finding)
    return found


def closed_elsewhere(ledger: Ledger, target: Target) -> list[Finding]:
    """Return the findings about a target that were closed by their reviewers on another branch only."""
    passes = passes_of_change(ledger, target.run, target.base, target.name, target.branch)
    about = findings_about(ledger, target.paths, passes)
    return [one for one in about if is_closed_elsewhere(one, ledger, target.branch)]


def may_be_back(ledger: Ledger, target: Target, tree: str, root: Path, environ: Mapping[str, str]) -> list[Finding]:
    """Return the fixed findings of a change whose code is back: the same file, or the line that they quote.

    A fix is verified on one tree: on another branch, or after it was reverted, the defect may be there. What a person
    called fixed is not asked about.
    """
    if not tree or target.paths is None:
        return []
    fixed: list[Finding] = []
    places: list[str] = []
    for finding in findings_about(ledger, target.paths, ()):
        path = finding.location.path if finding.location else ""
        reported, verified = _tree_of(ledger, finding.placed_in), _tree_of(ledger, _verified_in(finding))
        is_fixed = finding.state is FindingState.VERIFIED_FIXED and not finding.tool
        if is_fixed and path and reported and verified and "\n" not in path:
            fixed.append(finding)
            places += (f"{of}:{path}" for of in (tree, reported, verified))
    found = object_names(root, environ, places) if places else []
    back: list[Finding] = []
    for one, now, then, later in zip(fixed, found[::3], found[1::3], found[2::3], strict=True):
        if not now or now == later:
            continue
        text, fixed_text = (" ".join(file_text(root, environ, name).split()) for name in (now, later))
        if now == then or any(quote in text and quote not in fixed_text for quote in _quotes(one)):
            back.append(one)
    return back


def _quotes(finding: Finding) -> list[str]:
    """Return the code of its own file that a finding quotes."""
    path = finding.location.path if finding.location else ""
    return [" ".join(item.quote.split()) for item in finding.evidence if item.path == path and item.quote]


def _tree_of(ledger: Ledger, pass_id: str) -> str:
    passed = ledger.passes.get(PassId(pass_id))
    return passed.tree if passed else ""


def _verified_in(finding: Finding) -> str:
    """Return the pass that gave a finding its state; empty if a person did."""
    return next((change.pass_id for change in reversed(finding.history) if change.state), "")


def others_of(ledger: Ledger, target: Target, asked: Collection[FindingId]) -> list[Finding]:
    """Return the open findings about a target that somebody else is asked to rule on."""
    return [finding for finding in target.findings(ledger) if finding.id not in asked]


@dataclass(frozen=True, slots=True)
class Start:
    """What an attempt was given to look at, as it is kept with its outcome."""

    at: float
    head: str = ""
    branch: str = ""
    tree: str = ""  # the files, committed or not; empty if git does not know
    since: str = ""  # the tree of the reviewer's look before, if it was given only what changed since
    asked: tuple[str, ...] = ()  # the findings that it is to rule on

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None, at: float) -> "Start":
        """Return what was kept with an outcome."""
        if not kept:
            return cls(at)
        return cls(**{**kept, "asked": tuple(kept.get("asked", ()))})
