"""Applying what was accepted: one fixer for all findings, and its claims in the ledger. Nothing is committed to git."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.app.findings.agent import open_agent
from pipeline.app.findings.ledger import Repository, find_finding, open_ledger
from pipeline.app.wiring import Runtime
from pipeline.errors import AwfError
from pipeline.findings.events import DecisionMade
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Decision, Finding
from pipeline.findings.walk.machine import Action, Walk
from pipeline.findings.walk.session import decided_walk, fix_events, fixer_prompt, read_fixes, safe_findings
from pipeline.language.model import Access

STAGE = "fix"  # the name of the agent in a script


@dataclass(frozen=True, slots=True)
class FixResult:
    """What became of the accepted fixes, as a finished walk."""

    walk: Walk
    problems: tuple[str, ...] = ()


def accepted_findings(ledger: Ledger) -> list[Finding]:
    """The open findings whose fixes were accepted and are not applied yet, after those that need no decision."""
    accepted = [
        finding
        for finding in ledger
        if finding.state.active and finding.decisions and finding.decisions[-1].action == Action.APPLY
    ]
    return [*safe_findings(finding for finding in ledger if not finding.decisions), *accepted]


async def apply_fixes(
    names: Sequence[str], repository: Repository, runtime: Runtime, now: datetime, options: Mapping[str, Any]
) -> FixResult:
    """Let one agent fix the named findings, or all that were accepted or are safe; naming one accepts its fix.

    The ledger is not locked while the agent works.
    """
    with open_ledger(runtime.store, repository, now) as opened:
        ledger, problems = opened.ledger.copy(), opened.problems
    findings = [find_finding(name, ledger) for name in names] if names else accepted_findings(ledger)
    findings = list({finding.id: finding for finding in findings}.values())
    for finding in findings:
        if not finding.state.active:
            raise AwfError(f"finding #{finding.number} is {finding.state}", help="only an open finding can be fixed")
    if not findings:
        return FixResult(decided_walk(ledger, ()), problems)
    agent = open_agent(STAGE, "fixes", repository.root, runtime, now, options)
    outcome = await agent.ask(fixer_prompt(findings, ledger.members), "all", 1, Access.CODING)
    error = f"the fixer gave no answer: {outcome.reason}" if outcome.failure else ""
    fixes = read_fixes(findings, outcome.response, error)
    with open_ledger(runtime.store, repository, now) as opened:
        by = Actor.USER if names else Actor.ORCHESTRATOR
        decision = Decision(at=opened.at, action=Action.APPLY, by=by)
        decided = {one.id for one in opened.ledger if one.decisions and one.decisions[-1].action == Action.APPLY}
        new = [DecisionMade(at=opened.at, id=one.id, decision=decision) for one in findings if one.id not in decided]
        problems += opened.problems + opened.record([*new, *fix_events(fixes, opened.ledger, opened.at)])
        after = opened.ledger.copy()
    return FixResult(decided_walk(after, [after.findings[one.id] for one in findings], fixes=fixes), problems)
