"""Checks of what leads from stage to stage: transitions, routes, options, branches and loops."""

from collections import Counter
from collections.abc import Iterator

from pipeline.language.diagnostics import Problem, error
from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import (
    DecisionStage,
    ExitStage,
    HumanStage,
    LlmStage,
    ParallelStage,
    ToolStage,
    TriageStage,
    Workflow,
)
from pipeline.text import did_you_mean


@error("AWF020")
def unknown_stage(workflow: Workflow) -> Iterator[Problem]:
    """`start`, a transition, a route, an option, a branch or a retry target names a stage that does not exist."""
    ids = workflow.by_id
    if workflow.start and workflow.start not in ids:
        message = f'unknown start stage "{workflow.start}"'
        yield Problem(workflow.spans.of("start"), message, did_you_mean(workflow.start, ids))
    for edge in edges(workflow):
        if edge.target and edge.target not in ids:
            message = f'unknown stage "{edge.target}" in the {edge.role} of "{edge.source}"'
            yield Problem(edge.target_span, message, did_you_mean(edge.target, ids), edge.source)
        if edge.role is EdgeRole.TRANSITION and edge.source and edge.source not in ids:
            message = f'transition from unknown stage "{edge.source}"'
            yield Problem(edge.spans.of("from"), message, did_you_mean(edge.source, ids))


@error("AWF025")
def no_catch_all(workflow: Workflow) -> Iterator[Problem]:
    """A decision has no catch-all route."""
    for stage in workflow.stages:
        if isinstance(stage, DecisionStage) and not any(route.when.always for route in stage.routes):
            message = f'stage "{stage.id}" has no catch-all route'
            yield Problem(stage.spans.node, message, 'add: route when="true" to="stage"', stage.id)


@error("AWF026")
def mixed_routing(workflow: Workflow) -> Iterator[Problem]:
    """A stage that does not use transitions has one."""
    for transition in workflow.transitions:
        stage = workflow.by_id.get(transition.source)
        match stage:
            case HumanStage():
                how, help = "leaves by its options", "make it an option of the stage"
            case DecisionStage():
                how, help = "leaves by its routes", "make it a route of the stage"
            case TriageStage():
                how, help = 'leaves by "apply" and "done"', "remove the transition"
            case ExitStage():
                how, help = "ends the run", "remove the transition"
            case _:
                continue
        message = f'stage "{stage.id}" ({stage.kind}) {how} and cannot have transitions'
        yield Problem(transition.spans.node, message, help, stage.id)


@error("AWF041")
def triage_ways(workflow: Workflow) -> Iterator[Problem]:
    """A triage stage lacks `apply` or `done`."""
    for stage in workflow.stages:
        if isinstance(stage, TriageStage):
            for name, target in (("apply", stage.apply), ("done", stage.done)):
                if target is None:
                    message = f'stage "{stage.id}" has no "{name}"'
                    yield Problem(stage.spans.node, message, f'add: {name} to="stage"', stage.id)


@error("AWF027")
def branch_rules(workflow: Workflow) -> Iterator[Problem]:
    """A parallel stage has invalid branches."""
    owners: dict[str, str] = {}
    for stage in workflow.stages:
        if isinstance(stage, ParallelStage):
            yield from _branch_problems(stage, workflow, owners)
    if workflow.start in owners:
        message = f'the start stage "{workflow.start}" is a branch of "{owners[workflow.start]}"'
        yield Problem(workflow.spans.of("start"), message, f'start at "{owners[workflow.start]}"')
    for edge in edges(workflow):
        if edge.role is EdgeRole.BRANCH:
            continue
        if (owner := owners.get(edge.target)) is not None:
            message = f'"{edge.target}" is a branch of "{owner}" and cannot be reached from "{edge.source}"'
            yield Problem(edge.target_span, message, f'lead to "{owner}"', edge.target)
        if (owner := owners.get(edge.source)) is not None:
            message = f'"{edge.source}" is a branch of "{owner}" and cannot lead anywhere itself'
            yield Problem(edge.spans.of("from"), message, f'add a transition to "{owner}"', edge.source)


def _branch_problems(stage: ParallelStage, workflow: Workflow, owners: dict[str, str]) -> Iterator[Problem]:
    """Check the branches of one parallel stage and add them to `owners`."""
    count = len(stage.branches)
    if count < 2:
        message = f'stage "{stage.id}" has {"only one branch" if count else "no branches"}'
        yield Problem(stage.spans.node, message, 'add: branch "stage"', stage.id)
    elif isinstance(stage.join, int) and stage.join > count:
        message = f'stage "{stage.id}" needs {stage.join} branches to succeed and has {count}'
        yield Problem(stage.spans.of("join"), message, f"ask for {count} at most, or add branches", stage.id)
    for branch in stage.branches:
        target = workflow.by_id.get(branch.stage)
        if branch.stage in owners:
            message = f'"{branch.stage}" is already a branch of "{owners[branch.stage]}"'
            yield Problem(branch.spans.of("stage"), message, "name it as a branch once", stage.id)
        elif target is not None and not isinstance(target, LlmStage | ToolStage):
            kind = getattr(target, "kind", "unknown")
            message = f'"{branch.stage}" is a stage of kind {kind} and cannot be a branch'
            yield Problem(branch.spans.of("stage"), message, "branches are llm or tool stages", stage.id)
        owners.setdefault(branch.stage, stage.id)


@error("AWF039")
def loop_stages(workflow: Workflow) -> Iterator[Problem]:
    """A loop has no stages, an unknown stage, or a stage of another loop."""
    owners = Counter(name for loop in workflow.loops for name in set(loop.stages))
    for loop in workflow.loops:
        span = loop.spans.of("stages")
        if not loop.stages:
            help = 'name them, starting with the first of a round: stages "review" "fix"'
            yield Problem(loop.spans.node, f'loop "{loop.name}" has no stages', help)
        for name in loop.stages:
            if name not in workflow.by_id:
                message = f'unknown stage "{name}" in loop "{loop.name}"'
                yield Problem(span, message, did_you_mean(name, workflow.by_id))
            elif owners[name] > 1:
                yield Problem(span, f'stage "{name}" is in more than one loop', "keep it in one of them")


@error("AWF040")
def loop_ending(workflow: Workflow) -> Iterator[Problem]:
    """A loop has no exit for `exhausted`, two exits for one signal, or an exit that leads back into the loop."""
    for loop in workflow.loops:
        if loop.exit_for("exhausted") is None:
            message = f'loop "{loop.name}" has no exit for "exhausted"'
            yield Problem(loop.spans.node, message, 'add: on "exhausted" to="stage"')
        signals = Counter(loop_exit.signal for loop_exit in loop.exits)
        for loop_exit in loop.exits:
            if signals[loop_exit.signal] > 1:
                message = f'loop "{loop.name}" has two exits for "{loop_exit.signal}"'
                yield Problem(loop_exit.spans.of("signal"), message, "remove one of them")
            if loop_exit.to in loop.stages:
                message = f'the exit of loop "{loop.name}" for "{loop_exit.signal}" leads back into the loop'
                yield Problem(loop_exit.spans.of("to"), message, "lead to a stage outside the loop")


CHECKS = (
    *(unknown_stage, no_catch_all, mixed_routing, branch_rules, triage_ways),
    *(loop_stages, loop_ending),
)
