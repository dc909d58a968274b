"""What a run is started with, as it is recorded: without secrets. What must be run as it stands may hold none."""

from typing import Any, TypeVar

from pipeline.engine.records import RunCreated, WorkflowAdopted
from pipeline.errors import AwfError
from pipeline.redaction import Redactor

Described = TypeVar("Described", RunCreated, WorkflowAdopted)


def without_secrets(redactor: Redactor, record: Described) -> Described:
    """A workflow as it is recorded, with its goal, options and prompts; one that holds a secret itself is refused."""
    _refuse(redactor, f'the workflow "{record.file}"', record.source)
    said: dict[str, Any] = {"prompts": redactor.value(record.prompts)}
    if isinstance(record, RunCreated):
        said |= {"goal": redactor.text(record.goal), "options": options_without_secrets(redactor, record.options)}
    return record.model_copy(update=said)


def options_without_secrets(redactor: Redactor, options: dict[str, Any]) -> dict[str, Any]:
    """How a run was started; an agent's command that holds a secret is refused."""
    _refuse(redactor, "the agent's command", " ".join(options.get("agent_command") or ()))
    clean: dict[str, Any] = redactor.value(options)
    return clean


def _refuse(redactor: Redactor, what: str, text: str) -> None:
    """Redacted it would do something else, and nobody would know why."""
    if redactor.text(text) == text:
        return
    lines = [number for number, line in enumerate(text.split("\n"), 1) if redactor.text(line) != line]
    where = f" in line {lines[0]}" if lines and "\n" in text else ""
    help = 'name the variable that holds it, such as "$MY_TOKEN", and it is given to the command'
    raise AwfError(f"{what} holds a secret{where}, which would be recorded", help=help)
