"""Inputs of workflows: the variables that name them in texts, and their values in a run."""

import re
from collections.abc import Iterator, Mapping

from pipeline.errors import AwfError
from pipeline.language.model import InputValue, Workflow
from pipeline.language.source import Span
from pipeline.text import did_you_mean

INPUT_VARIABLE = r"\$(?:input\.(?P<input>[A-Za-z_][A-Za-z0-9_]*)|\{input\.(?P<braced>[^}\s]+)\})"
_IN_PROMPT = re.compile(INPUT_VARIABLE)
_IN_COMMAND = re.compile(r"(?<![\\$])" + INPUT_VARIABLE)  # an escaped one belongs to the shell


def input_name(found: re.Match[str]) -> str | None:
    """The input that a match of INPUT_VARIABLE names; None if it matched something else."""
    return found["input"] or found["braced"]


def undeclared_inputs(text: str, workflow: Workflow, *, command: bool = False) -> Iterator[tuple[str, Span]]:
    """The inputs that a prompt or command uses and the workflow does not declare, and where in the text."""
    declared = {item.name for item in workflow.inputs}
    for found in (_IN_COMMAND if command else _IN_PROMPT).finditer(text):
        if (name := input_name(found)) and name not in declared:
            yield name, Span(*found.span())


def help_for_unknown(name: str, workflow: Workflow) -> str:
    """What to write instead of an unknown input: the nearest name, or those that exist."""
    names = [item.name for item in workflow.inputs]
    listed = (
        f"the inputs are {', '.join(names)}" if names else f'the workflow has no inputs; declare it: input "{name}"'
    )
    return did_you_mean(name, names) or listed


def resolve_inputs(workflow: Workflow, given: Mapping[str, InputValue]) -> tuple[dict[str, InputValue], list[AwfError]]:
    """The value of every input in a run that is given these, and everything that is wrong with them."""
    values: dict[str, InputValue] = {}
    declared = {item.name for item in workflow.inputs}
    problems = [
        AwfError(f'unknown input "{name}"', help=help_for_unknown(name, workflow))
        for name in given
        if name not in declared
    ]
    for item in workflow.inputs:
        example = f"--input {item.name}=..."
        if item.name in given:
            try:
                values[item.name] = item.convert(given[item.name])
            except ValueError as error:
                message = f'the input "{item.name}" must be {error}, not "{given[item.name]}"'
                problems.append(AwfError(message, help=f"give it another value: {example}"))
        elif item.required:
            about = f" ({item.description})" if item.description else ""
            problems.append(AwfError(f'the required input "{item.name}"{about} is missing', help=f"add {example}"))
        else:
            values[item.name] = item.initial
    return values, problems
