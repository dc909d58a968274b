"""What a quick review and a verification ask of their reviewers, beyond the prompts of the workflow."""

from collections.abc import Iterable, Iterator, Sequence

from pipeline.engine.ports import Journal
from pipeline.engine.state import State
from pipeline.findings.answers import quote_line
from pipeline.findings.explanation import location_text
from pipeline.findings.ledger import LedgerStore
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.review_options import review_options
from pipeline.findings.reviews import claims_to_verify
from pipeline.language.model import BaseStage, LlmStage, is_review
from pipeline.plugins.hooks import hookimpl

_QUICK = """## A quick review

Report only P0 and P1: what breaks in normal use, loses data or opens a security hole. Leave out everything else."""
_VERIFY = """## Findings to verify

This review only verifies fixes. Check each finding below against the code as it is now, and report no other ones. Rule
on every one by its number, one line each, outside any code block:

[FINDING N: fixed]
[FINDING N: not fixed, because ...]"""
_LENGTH = 300  # characters of a text from a finding


class ReviewMode:
    """A plugin that tells reviewers what the mode of the run asks of them."""

    def __init__(self, journal: Journal) -> None:
        self._ledgers = LedgerStore(journal)

    @hookimpl
    def summary_sections(self, stage: BaseStage, state: State) -> Iterator[str]:
        """What to leave out of a quick review, or which findings to verify."""
        mode = review_options(state).mode if is_review(stage) else "full"
        if mode == "quick":
            yield _QUICK
        elif mode == "verify":
            reviewers = [one for one in state.workflow.stages if is_review(one)]
            claims = claims_for(stage, reviewers, claims_to_verify(self._ledgers.ledger()))
            lines = [_claim_line(claim) for claim in claims] or ["None of them is yours: report no findings."]
            yield "\n".join([_VERIFY, "", *lines])


def claims_for(stage: BaseStage, reviewers: Iterable[BaseStage], claims: Sequence[Finding]) -> list[Finding]:
    """The claims that a reviewer rules on: those of its own findings, and those whose reviewers are not there."""
    present = {name for one in reviewers for name in reviewer_names(one)}
    return [claim for claim in claims if reviewer_names(stage) & {*claim.sources} or not present & {*claim.sources}]


def reviewer_names(stage: BaseStage) -> set[str]:
    """What a reviewer or tool is called in findings: the id of its stage, or the reviewer's name."""
    return {stage.id, *([stage.reviewer] if isinstance(stage, LlmStage) and stage.reviewer else [])}


def _claim_line(claim: Finding) -> str:
    change = next((one for one in reversed(claim.history) if one.state is claim.state), None)
    said = f" Last said about it: {quote_line(change.note, _LENGTH)}" if change and change.note else ""
    state = "reopened" if claim.state is FindingState.REOPENED else "claimed to be fixed"
    where = f"{claim.severity}, {quote_line(location_text(claim), _LENGTH)}, {state}"
    impact = f" {quote_line(claim.impact, _LENGTH)}" if claim.impact else ""
    return f"- #{claim.number} ({where}): {quote_line(claim.title, _LENGTH)}.{impact}{said}"
