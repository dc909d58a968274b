"""Rules about the ways between stages: their ends exist, and each stage leaves by its own kind of way."""

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
    """`start`, a transition, a route, an option, a branch or a retry target names a stage that does not exist.

    ## Why is this bad?
    A run that gets there could not go on.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="biuld" to="done"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    ids = workflow.by_id
    if workflow.start and workflow.start not in ids:
        message = f'the workflow starts at "{workflow.start}", and there is no such stage'
        yield Problem(workflow.at.of("start"), message, did_you_mean(workflow.start, ids))
    for edge in edges(workflow):
        if edge.target and edge.target not in ids:
            message = f'the {edge.role} of "{edge.source}" leads to "{edge.target}", and there is no such stage'
            yield Problem(edge.at.of(edge.attribute), message, did_you_mean(edge.target, ids), edge.source)
        if edge.role is EdgeRole.TRANSITION and edge.source and edge.source not in ids:
            message = f'a transition starts at "{edge.source}", and there is no such stage'
            yield Problem(edge.at.of("from"), message, did_you_mean(edge.source, ids))


@error("AWF025")
def no_catch_all(workflow: Workflow) -> Iterator[Problem]:
    """A decision has no route for the case that no condition holds.

    ## Why is this bad?
    Conditions seldom cover every case that happens. The run would fail at the one they forgot.

    ## Example
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="build"
      route when="findings() == 0" to="done"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="gate"
    settings { max_visits 5; }
    ```

    ## Use instead
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="build"
      route when="true" to="done"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="gate"
    settings { max_visits 5; }
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, DecisionStage) and not any(route.when.always for route in stage.routes):
            message = f'stage "{stage.id}" has no route that is always open'
            yield Problem(stage.at.span, message, 'add: route when="true" to="stage"', stage.id)


@error("AWF026")
def mixed_routing(workflow: Workflow) -> Iterator[Problem]:
    """A stage that routes by its options or routes, or that ends the run, has transitions too.

    ## Why is this bad?
    Human stages leave by their options, decisions by their routes, triages by `apply` and `done`, exits not at all,
    every other stage by transitions. With two ways of leaving, one would be dead.

    ## Example
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="build"
      route when="true" to="done"
    }
    stage "build" kind="tool" command="make"
    transition from="gate" to="done"
    transition from="build" to="gate"
    settings { max_visits 5; }
    ```

    ## Use instead
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="build"
      route when="true" to="done"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="gate"
    settings { max_visits 5; }
    ```
    """
    for transition in workflow.transitions:
        stage = workflow.by_id.get(transition.source)
        if isinstance(stage, HumanStage):
            how, help = "leaves by its options", "make it an option of the stage"
        elif isinstance(stage, DecisionStage):
            how, help = "leaves by its routes", "make it a route of the stage"
        elif isinstance(stage, TriageStage):
            how, help = 'leaves by "apply" and "done"', "remove the transition"
        elif isinstance(stage, ExitStage):
            how, help = "ends the run", "remove the transition"
        else:
            continue
        message = f'stage "{stage.id}" ({stage.kind}) {how} and cannot have a transition'
        yield Problem(transition.at.span, message, help, stage.id)


@error("AWF041")
def triage_ways(workflow: Workflow) -> Iterator[Problem]:
    r"""A triage does not say where it leads with fixes to be made, or where with none.

    ## Why is this bad?
    Both happen: somebody accepts fixes, or skips them all. The run would fail at the case that was forgotten.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check" findings="sarif"
    stage "triage" kind="triage" {
      apply to="fix"
    }
    stage "fix" kind="llm" prompt="Fix the findings"
    transition from="check" to="triage"
    transition from="fix" to="done"
    ```

    ## Use instead
    ```kdl
    stage "check" kind="tool" command="make check" findings="sarif"
    stage "triage" kind="triage" {
      apply to="fix"
      done to="done"
    }
    stage "fix" kind="llm" prompt="Fix the findings"
    transition from="check" to="triage"
    transition from="fix" to="done"
    ```
    """
    for stage in workflow.stages:
        if not isinstance(stage, TriageStage):
            continue
        for name, way, case in (("apply", stage.apply, "with fixes to be made"), ("done", stage.done, "with none")):
            if way is None:
                message = f'stage "{stage.id}" does not say where it leads {case}'
                yield Problem(stage.at.span, message, f'add: {name} to="stage"', stage.id)


@error("AWF027")
def branch_rules(workflow: Workflow) -> Iterator[Problem]:
    """A parallel stage's branches are not what they must be.

    There are two or more of them; each is an `llm` or `tool` stage named only there, with no transitions of its own;
    and no more have to succeed than there are.

    ## Why is this bad?
    A branch starts and ends inside its parallel stage. A way into or out of it from elsewhere would leave the others
    hanging.

    ## Example
    ```kdl
    stage "checks" kind="parallel" {
      branch "lint"
      branch "test"
    }
    stage "lint" kind="tool" command="make lint"
    stage "test" kind="tool" command="make test"
    transition from="checks" to="done"
    transition from="lint" to="done"
    ```

    ## Use instead
    ```kdl
    stage "checks" kind="parallel" {
      branch "lint"
      branch "test"
    }
    stage "lint" kind="tool" command="make lint"
    stage "test" kind="tool" command="make test"
    transition from="checks" to="done"
    ```
    """
    owners: dict[str, str] = {}
    for stage in workflow.stages:
        if isinstance(stage, ParallelStage):
            yield from _fan_out(stage, workflow, owners)
    yield from _ways_into(workflow, owners)


def _fan_out(stage: ParallelStage, workflow: Workflow, owners: dict[str, str]) -> Iterator[Problem]:
    count = len(stage.branches)
    if count < 2:
        message = f'stage "{stage.id}" has {["no branch", "one branch"][count]}, and two or more are needed'
        yield Problem(stage.at.span, message, 'add: branch "stage"', stage.id)
    elif isinstance(stage.join, int) and stage.join > count:
        message = f'stage "{stage.id}" wants {stage.join} branches to succeed and has {count}'
        yield Problem(stage.at.of("join"), message, f"ask for {count} at most, or add branches", stage.id)
    for branch in stage.branches:
        target = workflow.by_id.get(branch.stage)
        if branch.stage in owners:
            message = f'"{branch.stage}" is a branch of "{owners[branch.stage]}" already'
            yield Problem(branch.at.of("stage"), message, "a stage can be a branch once", stage.id)
        elif target is not None and not isinstance(target, LlmStage | ToolStage):
            message = f'"{branch.stage}" is a {getattr(target, "kind", "unknown")} stage and cannot be a branch'
            yield Problem(branch.at.of("stage"), message, "branches are llm or tool stages", stage.id)
        owners.setdefault(branch.stage, stage.id)


def _ways_into(workflow: Workflow, owners: dict[str, str]) -> Iterator[Problem]:
    if workflow.start in owners:
        message = f'the workflow starts at "{workflow.start}", which is a branch of "{owners[workflow.start]}"'
        yield Problem(workflow.at.of("start"), message, f'start at "{owners[workflow.start]}"')
    for edge in edges(workflow) if owners else ():
        if edge.role is EdgeRole.BRANCH:
            continue
        if edge.target in owners:
            message = (
                f'"{edge.target}" is a branch of "{owners[edge.target]}" and cannot be led to from "{edge.source}"'
            )
            help = f'lead to "{owners[edge.target]}"'
            yield Problem(edge.at.of(edge.attribute), message, help, edge.target)
        if edge.source in owners:
            message = f'"{edge.source}" is a branch of "{owners[edge.source]}" and has no ways of its own'
            help = f'let "{owners[edge.source]}" lead on'
            yield Problem(edge.at.of("from"), message, help, edge.source)
