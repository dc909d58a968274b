"""Checks of inputs: their declarations, and what conditions, prompts and commands make of them."""

from collections.abc import Iterator

from pipeline.language.checks.conditions import conditions
from pipeline.language.diagnostics import Problem, error
from pipeline.language.expressions.parse import Function
from pipeline.language.inputs import help_for_unknown, undeclared_inputs
from pipeline.language.model import HumanStage, LlmStage, ToolStage, Workflow


@error("AWF042")
def unknown_input(workflow: Workflow) -> Iterator[Problem]:
    """A condition, prompt or command uses an input that is not declared."""
    declared = {item.name for item in workflow.inputs}
    for use in conditions(workflow):
        for call in use.expression.calls():
            if call.function is Function.INPUT and (name := call.argument or "") not in declared:
                message = f'unknown input "{name}" in a condition'
                yield Problem(use.span, message, help_for_unknown(name, workflow), use.stage, call.span)
    for stage in workflow.stages:
        if isinstance(stage, LlmStage | HumanStage):
            what, text = "prompt", stage.prompt or ""
        elif isinstance(stage, ToolStage):
            what, text = "command", stage.command
        else:
            continue
        for name, inside in undeclared_inputs(text, workflow, command=what == "command"):
            message = f'unknown input "{name}" in the {what} of stage "{stage.id}"'
            yield Problem(stage.spans.of(what), message, help_for_unknown(name, workflow), stage.id, inside)


@error("AWF043")
def input_conflict(workflow: Workflow) -> Iterator[Problem]:
    """An input is required and has a default, or a stage writes to the context keys of inputs."""
    for item in workflow.inputs:
        if item.required and item.default is not None:
            message = f'input "{item.name}" is required and has a default'
            yield Problem(item.spans.of("required"), message, "remove one of them")
    for stage in workflow.stages if workflow.inputs else ():
        key = stage.response_key_base if isinstance(stage, LlmStage) and stage.response_key_base else stage.id
        if key == "input":
            attribute = "id" if key == stage.id else "response_key_base"
            message = f'stage "{stage.id}" writes to the context keys of inputs'
            yield Problem(stage.spans.of(attribute), message, "rename it", stage.id)


CHECKS = (unknown_input, input_conflict)
