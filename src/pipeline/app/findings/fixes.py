"""Applying what was accepted: one fixer for all findings, and its claims in the ledger. Nothing is committed to git."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.app.findings.agent import open_agent
from pipeline.app.findings.ledger import Repository, open_ledger
from pipeline.app.findings.lookup import find_finding
from pipeline.app.wiring import Runtime
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor
from pipeline.findings.places import follow_renames
from pipeline.findings.trackers.ticket import NO_TRACKER
from pipeline.findings.walk.fixing import FIXER, fix_events, fixer_prompt, read_fixes
from pipeline.findings.walk.session import decided_walk, decision_events, walk_item
from pipeline.findings.walk.state import Action, Choice, Walk, last_action, safe_lines
from pipeline.language.model import Access

STAGE = "fix"  # the name of the agent in a script


@dataclass(frozen=True, slots=True)
class FixResult:
    """What became of the accepted fixes, as a finished walk."""

    walk: Walk
    problems: tuple[str, ...] = ()


def accepted_lines(ledger: Ledger) -> list[Line]:
    """Return the lines of work whose fixes were accepted and are not made yet, after those that need no decision."""
    active = [line for line in ledger.lines() if line.state.active]
    accepted = [line for line in active if last_action(line) is Action.APPLY]
    return [*safe_lines(line for line in active if not line.decisions), *accepted]


async def apply_fixes(
    names: Sequence[str],
    repository: Repository,
    runtime: Runtime,
    now: datetime,
    options: Mapping[str, Any],
    who: str,
) -> FixResult:
    """Let one agent fix the named findings, or all that were accepted or are safe.

    Naming one accepts its fix, for all findings of its line of work. The ledger is not locked while the agent works.
    """
    with open_ledger(runtime.store, repository, now) as opened:
        ledger, problems = opened.ledger.copy(), opened.problems
    lines = [ledger.line(find_finding(name, ledger).id) for name in names] if names else accepted_lines(ledger)
    lines = list({line.id: line for line in lines}.values())
    for line in lines:
        if not line.state.active:
            raise AwfError(f"finding #{line.number} is {line.state}", help="only an open finding can be fixed")
    if not lines:
        return FixResult(decided_walk(ledger, ()), problems)
    lines = list(follow_renames(lines, ledger, repository.root, repository.environment))
    agent = open_agent(STAGE, "fixes", repository.root, runtime, now, options)
    outcome = await agent.ask(fixer_prompt(lines), "all", 1, Access.CODING)
    error = f"the fixer gave no answer: {outcome.reason}" if outcome.failure else ""
    fixes = read_fixes(lines, outcome.response, error)
    with open_ledger(runtime.store, repository, now) as opened:
        accepted = _accept(lines, opened.ledger)
        decided = decision_events(
            accepted, opened.at, who=who if names else FIXER, by=Actor.USER if names else Actor.ORCHESTRATOR
        )
        problems += opened.problems + opened.record([*decided, *fix_events(fixes, opened.ledger, opened.at)])
        after = opened.ledger.copy()
    fixed = follow_renames([after.line(line.id) for line in lines], after, repository.root, repository.environment)
    return FixResult(decided_walk(after, fixed, fixes=fixes), problems)


def _accept(lines: Sequence[Line], ledger: Ledger) -> Walk:
    """Return the walk in which the fixes were accepted that nobody has accepted before."""
    new = [line for line in map(ledger.line, (line.id for line in lines)) if last_action(line) is not Action.APPLY]
    items = tuple(walk_item(line, ledger, NO_TRACKER) for line in new)
    return Walk(items, NO_TRACKER, ledger, choices={line.id: Choice(Action.APPLY) for line in new})
