"""Rules about conditions that can be read: what they ask about exists, and their types fit."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.language.diagnostics import Problem, error
from pipeline.language.expressions import Expression
from pipeline.language.expressions.parse import Function
from pipeline.language.expressions.types import impossible_values, mismatches
from pipeline.language.model import DecisionStage, LlmStage, Workflow
from pipeline.language.source import Span
from pipeline.text import did_you_mean

_ABOUT_A_VALUE = frozenset({Function.OUTPUT, Function.EXISTS})


class Use(NamedTuple):
    """A condition where it stands."""

    expression: Expression
    span: Span
    stage: str


def conditions(workflow: Workflow) -> Iterator[Use]:
    """Every condition of the file."""
    for stage in workflow.stages:
        if isinstance(stage, DecisionStage):
            for route in stage.routes:
                yield Use(route.when, route.at.of("when"), stage.id)
    for transition in workflow.transitions:
        if transition.when is not None:
            yield Use(transition.when, transition.at.of("when"), transition.source)


@error("AWF029")
def unknown_stage_in_condition(workflow: Workflow, uses: Sequence[Use]) -> Iterator[Problem]:
    r"""A condition asks about a stage that does not exist.

    ## Why is this bad?
    The outcome of a stage that never runs is always `not_run`, so the condition could never change.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="outcome(\"biuld\") == \"success\""
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="outcome(\"build\") == \"success\""
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```
    """
    bases = {stage.response_key_base for stage in workflow.stages if isinstance(stage, LlmStage)}
    for use in uses:
        for call in use.expression.calls():
            name = call.argument
            if name is None or call.function is Function.CONTEXT:
                continue
            if call.function in _ABOUT_A_VALUE:
                name = name.partition(".")[0]
                if name in bases:
                    continue
            if name not in workflow.by_id:
                message = f'the condition asks about "{name}", and there is no such stage'
                yield Problem(use.span, message, did_you_mean(name, workflow.by_id), use.stage, call.span)


@error("AWF030")
def type_mismatch(workflow: Workflow, uses: Sequence[Use]) -> Iterator[Problem]:  # noqa: ARG001 - one signature
    r"""A condition compares or joins values whose types can never fit.

    ## Why is this bad?
    `<` between a text and a number has no answer, and a number is neither true nor false.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="visits(\"build\") < \"3\""
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="visits(\"build\") < 3"
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```
    """
    for use in uses:
        for found in mismatches(use.expression):
            yield Problem(use.span, found.message, None, use.stage, found.span)


@error("AWF031")
def impossible_value(workflow: Workflow, uses: Sequence[Use]) -> Iterator[Problem]:  # noqa: ARG001 - one signature
    r"""A condition compares an outcome or a verdict with a word that it never is.

    ## Why is this bad?
    `outcome("build") != "sucess"` is always true: a typing error that sends every run the same way.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="outcome(\"build\") != \"sucess\""
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="outcome(\"build\") != \"success\""
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```
    """
    for use in uses:
        for found in impossible_values(use.expression):
            message = f'{found.function}() is never "{found.value}"'
            help = did_you_mean(found.value, found.possible) or f"it is one of {', '.join(found.possible)}"
            yield Problem(use.span, message, help, use.stage, found.span)
