"""Checking findings against the present code before fixes are applied in bulk."""

import asyncio
from collections.abc import Sequence

from pipeline.app.findings.agent import FindingsAgent
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.walk.machine import NOT_VALIDATED, Validation
from pipeline.findings.walk.validation import build_validation_question, read_validation

STAGE = "validate"  # the name of the agent in a script; its visits are the findings in the order they are asked about
_AT_ONCE = 4


def validate_findings(findings: Sequence[Finding], agent: FindingsAgent, base: str = "") -> dict[FindingId, Validation]:
    """Ask a read-only agent about each finding, a few at once. One that gives no answer has validated nothing."""

    async def ask_all() -> list[Validation]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(visit: int, finding: Finding) -> Validation:
            async with limit:
                reply = await agent.ask(build_validation_question(finding, base), finding.id, visit)
            return NOT_VALIDATED if reply.error else read_validation(reply.text)

        return await asyncio.gather(*(ask(visit, finding) for visit, finding in enumerate(findings, 1)))

    return dict(zip((finding.id for finding in findings), asyncio.run(ask_all()), strict=True))
