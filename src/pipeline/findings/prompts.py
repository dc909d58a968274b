"""What the stages of a run are given: the change since a reviewer's last look, findings to rule on, findings to fix.

What a review was given to look at is noted before each of its attempts and kept with its outcome, so that any process
can conclude the visit in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pipeline.engine.ports import Job
from pipeline.engine.state import State
from pipeline.findings import known
from pipeline.findings.events import iso
from pipeline.findings.fix_prompt import chosen_section, fix_section
from pipeline.findings.git import TreeSnapshots, pathspecs, round_moment
from pipeline.findings.keys import ReviewKey, count_reports, finding_ids, is_reporting
from pipeline.findings.known import considered_section, known_section
from pipeline.findings.ledger import LedgerStore, hidden_items, open_lines, open_of_run
from pipeline.findings.looks import (
    Start,
    Target,
    closed_elsewhere,
    is_mostly_new,
    last_tree,
    may_be_back,
    others_of,
    target_of,
    to_rule_on,
)
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.places import follow_findings, follow_renames, former_names
from pipeline.findings.reports import reviewer_of
from pipeline.findings.review_options import ReviewOptions, review_options
from pipeline.language.model import BaseStage, is_review


class Prompts:
    """The prompts of one run, as far as they are about findings."""

    def __init__(
        self, ledgers: LedgerStore, environ: Mapping[str, str], now: Callable[[], float], snapshots: TreeSnapshots
    ) -> None:
        self._ledgers = ledgers
        self._environ = environ
        self._now = now
        self._snapshots = snapshots
        self._targets: dict[tuple[str, str], Target] = {}  # by base and tree
        self._starts: dict[tuple[str, int, int], Start] = {}  # by stage, visit and attempt

    # --- what a review is given to look at ---------------------------------------------------------------------------

    def start(self, stage: BaseStage, visit: int, state: State) -> dict[str, Any]:
        """Return what a review or a tool is given to look at, to be kept with its outcome."""
        attempt = state.progress.attempt(stage.id)
        taken = self._snapshots.take(state.directory, round_moment(state, attempt, "start"))
        start = Start(self._now(), taken.head, taken.branch, taken.tree)
        if is_review(stage):
            since, asked = self._since(stage, state, taken.tree), self._asked(stage, state, taken.tree)
            start = replace(start, since=since, asked=tuple(finding.id for finding in asked))
        self._starts[stage.id, visit, attempt] = start
        return asdict(start)

    def start_of(self, job: Job) -> Start:
        """Return what was noted before the attempt."""
        return self._starts[job.stage.id, job.visit, job.state.progress.attempt(job.stage.id)]

    def forget(self, stage: str, visit: int) -> None:
        """Drop what was noted for a visit that is concluded."""
        self._starts = {key: start for key, start in self._starts.items() if key[:2] != (stage, visit)}

    def target(self, state: State, tree: str) -> Target:
        """Return what is reviewed, with the names under which open findings know its files."""
        options = named_options(state)
        key = options.base, tree
        if key not in self._targets:
            branch = self._snapshots.checkout(state.directory).branch if tree else ""
            target = target_of(options, state.run_id, tree, state.directory, self._environ, branch)
            if target.paths is not None:
                former = former_names(self._ledgers.ledger(), target.paths, state.directory, self._environ)
                target = replace(target, paths=(*target.paths, *former))
            self._targets[key] = target
        return self._targets[key]

    def _since(self, stage: BaseStage, state: State, tree: str) -> str:
        """Return the tree that a review has seen, if it is to be given only what changed since; else nothing."""
        options = review_options(state)
        if options.whole or not tree:
            return ""
        seen = last_tree(self._ledgers.ledger(), reviewer_of(stage), self.target(state, tree))
        if not seen or seen == tree or options.mode == "verify":
            return seen
        within = pathspecs(options.paths)
        new = is_mostly_new(state.directory, self._environ, options.base, seen, tree, within)
        return "" if new else seen

    def _asked(self, stage: BaseStage, state: State, tree: str) -> list[Finding]:
        """Return the findings that a review is to rule on: open ones, and fixed ones that may be back."""
        ledger, target = self._ledgers.ledger(), self.target(state, tree)
        reviewer, present = reviewer_of(stage), reviewers_present(state)
        back = may_be_back(ledger, target, tree, state.directory, self._environ)
        back += [one for one in closed_elsewhere(ledger, target) if one not in back]
        own = [one for one in back if one.reviewer == reviewer or one.reviewer not in present]
        return [*to_rule_on(ledger, target, reviewer, present, every=review_options(state).open), *own]

    # --- the sections of a prompt ------------------------------------------------------------------------------------

    def known_section(self, job: Job, room: int) -> str:
        """Return the findings that a review rules on by number, in `room` characters if their lines need no more."""
        ledger, start = self._ledgers.ledger(), self.start_of(job)
        target = self.target(job.state, start.tree)
        asked = [ledger.findings[FindingId(id)] for id in start.asked if id in ledger.findings]
        others = others_of(ledger, target, {finding.id for finding in asked}) if target.mode != "verify" else []
        asked, others = list(self._follow(asked, job)), list(self._follow(others, job))
        return known_section(asked, others, room, _task(start, target))

    def considered_section(self, job: Job) -> str:
        """Return the dismissed findings in the files of the change; in all files if those are unknown."""
        paths = self.target(job.state, self.start_of(job).tree).paths
        return considered_section(
            self._ledgers.ledger(), paths, iso(self._now()), lambda found: self._follow(found, job)
        )

    def fix_section(self, job: Job, room: int) -> str:
        """Return the open findings that reports refer to, for an agent, in at most `room` characters.

        After a triage these are the findings that were chosen, by whichever reviewer.
        """
        ledger, context, run = self._ledgers.ledger(), job.context, job.run_id
        known = [ledger.findings[FindingId(id)] for id in finding_ids(context) if id in ledger.findings]
        wanted = {finding.line for finding in known}
        left = follow_renames(open_lines(ledger), ledger, job.directory, self._environ)
        if ReviewKey.CHOSEN in context:
            own = (one for one in open_of_run(ledger, run) if one.failing_stage)
            wanted |= {one.line for one in own if count_reports(context, one.failing_stage)}
            return chosen_section(left, context, wanted, room)
        found = [line for line in left if line.id in wanted]
        return fix_section(found, room, filtered=len(hidden_items(ledger, run)))

    def _follow(self, findings: Sequence[Finding], job: Job) -> tuple[Finding, ...]:
        """Return findings in the files as they are called now."""
        return follow_findings(findings, self._ledgers.ledger(), job.directory, self._environ)


def _task(start: Start, target: Target) -> str:
    """Return what a review is to do beside ruling on findings."""
    if target.mode == "verify":
        return known.VERIFY
    if not start.since:
        return known.WHOLE
    return known.SAME if start.since == start.tree else known.DELTA


def named_options(state: State) -> ReviewOptions:
    """Return what a run reviews, with a name for it, so that the same change is recognised in the next run."""
    options = review_options(state)
    return options if options.target else replace(options, target=state.workflow.name)


def reviewers_present(state: State) -> frozenset[str]:
    """Return the reviewers and tools that take part in the reviews of a run."""
    return frozenset(reviewer_of(stage) for stage in state.workflow.stages if is_reporting(stage))
