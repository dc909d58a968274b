"""Validation of findings outside of a run."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.app.findings.agent import open_agent
from pipeline.app.wiring import Runtime
from pipeline.findings.lines import Line
from pipeline.findings.model import FindingId
from pipeline.findings.walk.state import Validation
from pipeline.findings.walk.validation import VALIDATE, VALIDATED, Validator, validate_lines
from pipeline.language.model import ModelChoice


def open_validator(
    root: Path,
    runtime: Runtime,
    now: datetime,
    options: Mapping[str, Any],
    base: str,
    choice: ModelChoice | None = None,
) -> Validator:
    """Return what asks the agent that the options name, else the one that a run would use.

    `base` is the commit that the reviewed change started from. Raises AwfError if the agent cannot be used.
    """
    agent = open_agent(VALIDATE, "validations", root, runtime, now, options, choice)

    async def ask(number: int, line: Line, question: str) -> str:
        outcome = await agent.ask(question, line.id, number, passing=VALIDATED)
        return "" if outcome.failure else outcome.response

    async def validate(lines: Sequence[Line]) -> Mapping[FindingId, Validation]:
        return await validate_lines(lines, base, ask)

    return validate
