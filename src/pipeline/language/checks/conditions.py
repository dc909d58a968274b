"""Checks of conditions: the stages and types in them, and whether they have any effect."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from pipeline.language.diagnostics import Problem, error, warning
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges
from pipeline.language.expressions.parse import (
    UNREADABLE,
    And,
    Comparison,
    Expression,
    Function,
    FunctionCall,
    Literal,
    Not,
    Operator,
    Or,
    Tree,
    walk,
)
from pipeline.language.model import (
    DecisionStage,
    HumanStage,
    LlmStage,
    OnResult,
    ParallelStage,
    TriageStage,
    Workflow,
    is_review,
)
from pipeline.language.source import START, Span
from pipeline.text import did_you_mean

OUTCOMES = ("success", "fail", "partial_success", "retry", "skipped", "cancelled", "not_run")
VERDICTS = ("PASS", "WARN", "FAIL", "ABORT", "none")
VALUES = MappingProxyType({Function.OUTCOME: OUTCOMES, Function.VERDICT: VERDICTS})  # of functions with a closed set


class ConditionUse(NamedTuple):
    """A condition and where it is used."""

    expression: Expression
    span: Span
    stage: str


def conditions(workflow: Workflow) -> Iterator[ConditionUse]:
    """Every condition of a workflow."""
    for stage in workflow.stages:
        if isinstance(stage, DecisionStage):
            for route in stage.routes:
                yield ConditionUse(route.when, route.spans.of("when"), stage.id)
    for transition in workflow.transitions:
        if transition.when is not None:
            yield ConditionUse(transition.when, transition.spans.of("when"), transition.source)


@error("AWF029")
def unknown_stage_in_condition(workflow: Workflow) -> Iterator[Problem]:
    """A condition refers to a stage that does not exist."""
    bases = {stage.response_key_base for stage in workflow.stages if isinstance(stage, LlmStage)}
    for use in conditions(workflow):
        for call in use.expression.calls():
            name = call.argument
            if name is None or call.function in (Function.CONTEXT, Function.INPUT):
                continue
            if call.function in (Function.OUTPUT, Function.EXISTS):
                name = name.partition(".")[0]
                if name in bases:
                    continue
            if name not in workflow.by_id:
                help = did_you_mean(name, workflow.by_id)
                yield Problem(use.span, f'unknown stage "{name}" in a condition', help, use.stage, call.span)


class ValueType(Enum):
    """What is known about a value before the run; the value is its name in messages."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    UNKNOWN = "known only at run time"


_RETURN_TYPES = {
    Function.OUTCOME: ValueType.TEXT,
    Function.OUTPUT: ValueType.UNKNOWN,
    Function.EXISTS: ValueType.BOOLEAN,
    Function.CONTEXT: ValueType.UNKNOWN,
    Function.INPUT: ValueType.UNKNOWN,  # unless the workflow declares it
    Function.VISITS: ValueType.NUMBER,
    Function.FINDINGS: ValueType.NUMBER,
    Function.REPORTS: ValueType.NUMBER,
    Function.VERDICT: ValueType.TEXT,
}


InputTypes = Mapping[str, ValueType]
_NO_INPUTS: InputTypes = MappingProxyType({})


def input_types(workflow: Workflow) -> InputTypes:
    """The type of each input that a workflow declares."""
    return {item.name: type_of(Literal(item.initial, START)) for item in workflow.inputs}


def type_of(tree: Tree, inputs: InputTypes = _NO_INPUTS) -> ValueType:
    """The static type of a tree."""
    match tree:
        case FunctionCall(Function.INPUT, str(name)) if name in inputs:
            return inputs[name]
        case Literal(bool()):
            return ValueType.BOOLEAN
        case Literal(value):
            return ValueType.TEXT if isinstance(value, str) else ValueType.NUMBER
        case FunctionCall(function):
            return _RETURN_TYPES[function]
        case _:
            return ValueType.BOOLEAN


@error("AWF030")
def type_mismatch(workflow: Workflow) -> Iterator[Problem]:
    """A condition combines values of incompatible types."""
    inputs = input_types(workflow)
    for use in conditions(workflow):
        for span, message in mismatches(use.expression, inputs):
            yield Problem(use.span, message, None, use.stage, span)


def mismatches(expression: Expression, inputs: InputTypes = _NO_INPUTS) -> Iterator[tuple[Span, str]]:
    """Every place where evaluation is certain to fail, and why."""
    yield from _require_boolean(expression.tree, "a condition", inputs)
    for node in walk(expression.tree):
        match node:
            case Not(operand):
                yield from _require_boolean(operand, "!", inputs)
            case And(terms) | Or(terms):
                for term in terms:
                    yield from _require_boolean(term, "&&" if isinstance(node, And) else "||", inputs)
            case Comparison(operator, left, right) if operator.orders:
                types = [type_of(left, inputs), type_of(right, inputs)]
                if ValueType.BOOLEAN in types:
                    wrong = (left, right)[types.index(ValueType.BOOLEAN)]
                    yield wrong.span, f"{operator} needs numbers or text, but {wrong} is true or false"
                elif ValueType.UNKNOWN not in types and types[0] is not types[1]:
                    yield node.span, f"{operator} cannot compare {types[0].value} with {types[1].value}: {node}"


def _require_boolean(tree: Tree, where: str, inputs: InputTypes) -> Iterator[tuple[Span, str]]:
    found = type_of(tree, inputs)
    if found not in (ValueType.BOOLEAN, ValueType.UNKNOWN):
        yield tree.span, f"{where} needs true or false, but {tree} is {found.value}"


@error("AWF031")
def impossible_value(workflow: Workflow) -> Iterator[Problem]:
    """A condition compares an outcome or verdict with a value it never has."""
    for use in conditions(workflow):
        for function, literal in impossible_values(use.expression):
            possible = VALUES[function]
            help = did_you_mean(str(literal.value), possible) or f"it is one of {', '.join(possible)}"
            yield Problem(use.span, f"{function}() is never {literal}", help, use.stage, literal.span)


def impossible_values(expression: Expression) -> Iterator[tuple[Function, Literal]]:
    """Every comparison of a function that has a closed set of values with a text outside that set."""
    for node in walk(expression.tree):
        if isinstance(node, Comparison) and not node.operator.orders:
            for call, literal in ((node.left, node.right), (node.right, node.left)):
                match call, literal:
                    case FunctionCall(function), Literal(str(value)):
                        if function in VALUES and value not in VALUES[function]:
                            yield function, literal


@warning("AWF102")
def unread_review(workflow: Workflow) -> Iterator[Problem]:
    """No condition uses the result of a review."""
    read = _stages_read(workflow)
    for stage in workflow.stages:
        if is_review(stage) and None not in read and stage.id not in read:
            message = f'no condition uses the result of review "{stage.id}"'
            help = f'use on="fail", or a condition with findings(), verdict() or outcome("{stage.id}")'
            yield Problem(stage.spans.node, message, help, stage.id)


def _stages_read(workflow: Workflow) -> set[str | None]:
    """The stages whose result a condition uses or a person sees; None stands for all stages."""
    read: set[str | None] = set()
    for use in conditions(workflow):
        for call in use.expression.calls():
            if call.function not in (Function.CONTEXT, Function.INPUT, Function.VISITS):
                read.add(call.argument.partition(".")[0] if call.argument is not None else None)
    results = (OnResult.SUCCESS, OnResult.FAIL)
    read.update(transition.source for transition in workflow.transitions if transition.on in results)
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            read.update(key.partition(".")[0] for key in stage.details_from)
        elif isinstance(stage, TriageStage):
            read.add(None)  # it shows every finding to a person
        elif isinstance(stage, ParallelStage) and stage.id in read:
            read.update(branch.stage for branch in stage.branches)
    return read


@warning("AWF104")
def dead_route(workflow: Workflow) -> Iterator[Problem]:
    """A condition has no effect: it never changes, or its transition is never followed."""
    inputs = input_types(workflow)
    for use in conditions(workflow):
        value = None if use.expression.always else constant(use.expression.tree, inputs=inputs)
        if value is not None:
            message = f"this condition is always {str(value).lower()}: {use.expression}"
            yield Problem(use.span, message, "use a value that can change during a run, or remove it", use.stage)
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges(workflow):
        if edge.role in FOLLOWED and edge.when is not UNREADABLE:
            leaving[edge.source].append(edge)
    for name, followed in leaving.items():
        stage = workflow.by_id.get(name)
        targets = {edge.target for edge in followed}
        if isinstance(stage, DecisionStage) and len(followed) > 1 and len(targets) == 1:
            message = f'every route of stage "{name}" leads to "{followed[0].target}"'
            yield Problem(stage.spans.node, message, "change a target, or use a transition", name)
        else:
            yield from _never_followed(followed)


_SUCCESS, _FAIL, _ALWAYS = (f'on="{on}"' for on in OnResult)


def _never_followed(leaving: Sequence[Edge]) -> Iterator[Problem]:
    """Find edges that are never followed because others always come first."""
    first: dict[str, Edge] = {}  # by condition
    for edge in by_preference(leaving):
        condition = edge.condition or (_ALWAYS if edge.role is EdgeRole.ROUTE else "")  # a decision never fails
        earlier = first.get(_ALWAYS) or first.get(condition) or (first.get(_FAIL) if _SUCCESS in first else None)
        if earlier is not None:
            message = f'this {edge.role} is never followed: the one to "{earlier.target}" always comes first'
            yield Problem(edge.spans.node, message, "check priorities and conditions", edge.source)
        if condition:
            first.setdefault(condition, edge)


def constant(
    tree: Tree, outcomes: Mapping[str, str] = MappingProxyType({}), inputs: InputTypes = _NO_INPUTS
) -> bool | None:
    """The value of a condition in every run in which stages have these outcomes; None if it differs between runs."""
    match tree:
        case Literal(bool(value)):
            return value
        case Not(operand):
            inner = constant(operand, outcomes, inputs)
            return None if inner is None else not inner
        case And(terms) | Or(terms):
            values = {constant(term, outcomes, inputs) for term in terms}
            deciding = isinstance(tree, Or)
            if deciding in values:
                return deciding
            return None if None in values else not deciding
        case Comparison(operator) if not operator.orders:
            left, right = (_substitute(side, outcomes) for side in (tree.left, tree.right))
            types = type_of(left, inputs), type_of(right, inputs)
            if types[0] is not types[1]:
                return None if ValueType.UNKNOWN in types else operator is Operator.UNEQUAL
            if isinstance(left, Literal) and isinstance(right, Literal):
                return (left.value == right.value) is (operator is Operator.EQUAL)
    return None


def _substitute(tree: Tree, outcomes: Mapping[str, str]) -> Tree:
    """Replace `outcome("stage")` with the outcome, where it is known."""
    match tree:
        case FunctionCall(Function.OUTCOME, str(stage)) if stage in outcomes:
            return Literal(outcomes[stage], tree.span)
    return tree


CHECKS = (unknown_stage_in_condition, type_mismatch, impossible_value, unread_review, dead_route)
