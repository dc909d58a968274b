"""Rules that need the graph: what can be reached, what can end, what goes round."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from pipeline.graph.analysis import Graph, dominators, find_cycles, reachable_from, subgraph
from pipeline.language.diagnostics import Problem, error, warning
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges, failure_transitions
from pipeline.language.expressions.parse import Function
from pipeline.language.expressions.types import constant
from pipeline.language.model import (
    DecisionStage,
    ExitStage,
    LlmStage,
    OnError,
    OnResult,
    ParallelStage,
    ToolStage,
    is_review,
    waits_for_person,
)

_FIX_LIKE = re.compile(r"(?:\A|[_-])(?:fix|repair)", re.IGNORECASE)
_BOUNDS = frozenset({"max_visits", "max_stages", "max_duration", "max_cost_usd"})


@error("AWF034")
def unreachable_stage(graph: Graph) -> Iterator[Problem]:
    """No way leads from the start to this stage.

    ## Why is this bad?
    A review or a check that nothing leads to never runs, and the file reads as if it did.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "check" kind="tool" command="make check"
    transition from="build" to="done"
    transition from="check" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "check" kind="tool" command="make check"
    transition from="build" to="check"
    transition from="check" to="done"
    ```
    """
    for stage in graph.workflow.stages:
        if stage.id not in graph.reachable:
            message = f'no way leads from "{graph.workflow.start}" to stage "{stage.id}"'
            yield Problem(stage.at.span, message, "lead a transition to it, or remove it", stage.id)


@error("AWF035")
def no_exit(graph: Graph) -> Iterator[Problem]:
    """No exit can be reached from the start.

    ## Why is this bad?
    A run ends at an `exit` stage. Without one in reach it can only fail or go round.

    ## Example
    ```kdl
    workflow "Build" {
      version 2
      start "build"
      stage "build" kind="tool" command="make"
    }
    ```

    ## Use instead
    ```kdl
    workflow "Build" {
      version 2
      start "build"
      stage "build" kind="tool" command="make"
      stage "done" kind="exit"
      transition from="build" to="done"
    }
    ```
    """
    if not graph.exits:
        yield Problem(graph.workflow.at.span, "the workflow has no exit", 'add: stage "exit" kind="exit"')
    elif not graph.reachable.intersection(graph.exits):
        message = f'no exit can be reached from "{graph.workflow.start}"'
        yield Problem(graph.workflow.at.of("start"), message, f'lead a way to "{graph.exits[0]}"')


@error("AWF036")
def dead_end(graph: Graph) -> Iterator[Problem]:
    r"""A stage from which no exit can be reached.

    ## Why is this bad?
    A run that comes here cannot end well: it fails for want of a way, or goes round until a limit stops it.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="visits(\"build\") > 1"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "tidy" kind="tool" command="make tidy"
    transition from="build" to="tidy" when="visits(\"build\") > 1"
    transition from="build" to="done"
    transition from="tidy" to="done"
    ```
    """
    if not graph.exits:
        return  # said once for the whole workflow
    for stage in graph.workflow.stages:
        inside = stage.id in graph.owners or stage.id not in graph.reachable
        if not inside and stage.id not in graph.can_exit:
            leaves = graph.ways[stage.id]
            how = "no exit can be reached" if leaves else "no way leads on"
            yield Problem(stage.at.span, f'from stage "{stage.id}" {how}', "lead a transition from it", stage.id)


@warning("AWF101")
def unbounded_loop(graph: Graph) -> Iterator[Problem]:
    r"""A loop with no bound but the default.

    ## Why is this bad?
    A fix loop that does not converge runs until the default limit of 20 visits stops it. Say how many rounds you are
    willing to pay for: in `settings`, or with `visits(...)` in a condition. A loop that a person is part of is bounded
    by them.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" on="success"
    transition from="check" to="fix" on="fail"
    transition from="fix" to="check"
    ```

    ## Use instead
    ```kdl
    settings { max_visits 5; }
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" on="success"
    transition from="check" to="fix" on="fail"
    transition from="fix" to="check"
    ```
    """
    workflow = graph.workflow
    if _BOUNDS & workflow.settings.at.attributes.keys():
        return
    counted = {
        edge.source
        for edge in edges(workflow)
        if edge.when and any(call.function is Function.VISITS for call in edge.when.calls())
    }
    bounded = [set(loop.stages) for loop in workflow.loops]
    for loop in graph.loops:
        if any(stages.issuperset(loop) for stages in bounded):
            continue
        alone = {name for name in loop if not waits_for_person(workflow.by_id[name])}
        if counted.isdisjoint(loop) and any(find_cycles(subgraph(graph.ways, alone))):
            stage = workflow.by_id[loop[0]]
            visits = workflow.settings.max_visits
            message = f"the loop over {_listing(loop)} has no bound but the default of {visits} visits to a stage"
            help = "set max_visits in settings, or ask visits() in a condition"
            yield Problem(stage.at.span, message, help, stage.id)


@warning("AWF103")
def gate_without_return(graph: Graph) -> Iterator[Problem]:
    """A goal gate with no way back.

    ## Why is this bad?
    When the gate is not satisfied at the exit, the run has no way to try again: all the work before it ends in a
    failure.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check" goal_gate=true
    transition from="check" to="done"
    ```

    ## Use instead
    ```kdl
    settings { max_visits 5; }
    stage "check" kind="tool" command="make check" goal_gate=true retry_target="fix"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done"
    transition from="fix" to="check"
    ```
    """
    looping = set(chain.from_iterable(graph.loops))
    for stage in graph.workflow.stages:
        lonely = isinstance(stage, LlmStage | ToolStage) and stage.goal_gate and stage.retry_target is None
        if lonely and looping.isdisjoint(_where(graph, stage.id)):
            message = f'the goal gate "{stage.id}" has no way back: a run that misses it fails'
            yield Problem(stage.at.of("goal_gate"), message, 'add: retry_target="stage"', stage.id)


@warning("AWF106")
def fix_without_findings(graph: Graph) -> Iterator[Problem]:
    r"""A stage that fixes findings, and no stage before it finds any.

    ## Why is this bad?
    The agent is told to fix what was found and is shown nothing. It will find something to change.

    ## Example
    ```kdl
    stage "implement" kind="llm" prompt="Implement: $goal"
    stage "fix" kind="llm" prompt="Fix all outstanding findings"
    transition from="implement" to="fix"
    transition from="fix" to="done"
    ```

    ## Use instead
    ```kdl
    stage "implement" kind="llm" prompt="Implement: $goal"
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix all outstanding findings"
    transition from="implement" to="check"
    transition from="check" to="done" on="success"
    transition from="check" to="fix" on="fail"
    transition from="fix" to="done"
    ```
    """
    told = _after_findings(graph)
    for stage in graph.workflow.stages:
        fixes = isinstance(stage, LlmStage) and not stage.auto_status and _FIX_LIKE.search(stage.id)
        if fixes and told.isdisjoint(_where(graph, stage.id)):
            message = f'stage "{stage.id}" fixes findings, and no review or tool stage comes before it'
            yield Problem(stage.at.span, message, "lead a review or a tool stage to it", stage.id)


@warning("AWF108")
def bypassed_gate(graph: Graph) -> Iterator[Problem]:
    r"""A way to the exit leads around a goal gate.

    ## Why is this bad?
    A goal gate that never ran is not satisfied, so a run that takes this way fails at the exit, or is sent back.

    ## Example
    ```kdl
    settings { max_visits 5; }
    stage "gate" kind="decision" {
      route when="exists(\"check.response\")" to="check"
      route when="true" to="done"
    }
    stage "check" kind="tool" command="make check" goal_gate=true retry_target="check"
    transition from="check" to="done"
    ```

    ## Use instead
    ```kdl
    settings { max_visits 5; }
    stage "check" kind="tool" command="make check" goal_gate=true retry_target="check"
    transition from="check" to="done"
    ```
    """
    workflow = graph.workflow
    gates = [stage for stage in workflow.stages if isinstance(stage, LlmStage | ToolStage) and stage.goal_gate]
    if not gates or workflow.start not in graph.ways:
        return
    passed = _always_passed(graph)
    for stage in gates:
        for name in graph.exits:
            if name in passed and passed[name].isdisjoint(_where(graph, stage.id)):
                message = f'a way to "{name}" leads around the goal gate "{stage.id}"'
                help = "lead every way through it, or make it no goal gate"
                yield Problem(stage.at.of("goal_gate"), message, help, stage.id)


@warning("AWF110")
def exit_past_review(graph: Graph) -> Iterator[Problem]:
    r"""An exit can be reached past a review that could not run.

    With `on_error="route"` an error of the review (a crash, a quota, an unreadable answer) is routed like a failure.

    ## Why is this bad?
    Nobody has looked at the change, there are no findings, and the run ends as if all were well. Lead `on="fail"` to
    another review, or leave `on_error` at `pause`. If the review is a goal gate, the run cannot succeed past it, but
    every stage before the exit still runs on a change that was not reviewed.

    ## Example
    ```kdl
    settings { max_visits 5; }
    stage "review" kind="llm" prompt="Review the change" auto_status=true on_error="route"
    stage "gate" kind="decision" {
      route when="findings() > 0" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="llm" prompt="Fix what the review found"
    transition from="review" to="gate"
    transition from="fix" to="review"
    ```

    ## Use instead
    ```kdl
    settings { max_visits 5; }
    stage "review" kind="llm" prompt="Review the change" auto_status=true on_error="route"
    stage "second_review" kind="llm" prompt="Review the change" auto_status=true backend="codex"
    stage "gate" kind="decision" {
      route when="findings() > 0" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="llm" prompt="Fix what the review found"
    transition from="review" to="gate" on="success"
    transition from="review" to="second_review" on="fail"
    transition from="second_review" to="gate"
    transition from="fix" to="review"
    ```
    """
    reviews = [stage for stage in graph.workflow.stages if isinstance(stage, LlmStage) and stage.auto_status]
    routed = [stage for stage in reviews if stage.on_error is OnError.ROUTE]
    if not routed:
        return
    reviewed = frozenset(chain.from_iterable(_where(graph, stage.id) for stage in reviews))
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges(graph.workflow):
        leaving[edge.source].append(edge)
    for stage in routed:
        if exit_ := _unreviewed_exit(graph, leaving, stage.id, reviewed):
            message = f'"{exit_}" can be reached when the review "{stage.id}" could not run'
            help = 'lead on="fail" to another review, or use on_error="pause"'
            if stage.goal_gate:
                help += "; the goal gate stops the run only at the exit"
            yield Problem(stage.at.of("on_error"), message, help, stage.id)


def _unreviewed_exit(
    graph: Graph, leaving: Mapping[str, Sequence[Edge]], review: str, reviewed: frozenset[str]
) -> str | None:
    """The first exit that a run can reach after an error of a review, without coming to any review."""
    stages = graph.workflow.by_id
    decisions = {name for name, stage in stages.items() if isinstance(stage, DecisionStage)}
    outcomes = {review: "fail"}
    ahead: list[str] = []
    for place in sorted(_where(graph, review)):
        parallel = stages[place]
        joined = not isinstance(parallel, ParallelStage) or parallel.join == "all"
        known = {**outcomes, place: "fail"} if joined else outcomes
        ahead += _next(leaving.get(place, ()), decisions, known, failed=True if joined else None)
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in seen or name in reviewed or name not in stages:
            continue
        seen.add(name)
        if isinstance(stages[name], ExitStage):
            return name
        ahead += _next(leaving.get(name, ()), decisions, outcomes, failed=False if name in decisions else None)
    return None


def _next(
    leaving: Sequence[Edge], decisions: Collection[str], outcomes: Mapping[str, str], *, failed: bool | None
) -> Iterator[str]:
    """Where a stage can lead when these outcomes are known, and perhaps whether it failed itself."""
    followed = (
        failure_transitions(leaving, decisions) if failed else by_preference(e for e in leaving if e.role in FOLLOWED)
    )
    for edge in followed:
        holds = _holds(edge, outcomes, failed=failed)
        if holds is not False:
            yield edge.target
        if holds and (edge.conditional or failed is not None):
            break  # nothing behind it is ever followed
    else:
        yield from (edge.target for edge in leaving if edge.role is EdgeRole.RETRY)
    yield from (edge.target for edge in leaving if edge.role in (EdgeRole.OPTION, EdgeRole.LOOP))


def _holds(edge: Edge, outcomes: Mapping[str, str], *, failed: bool | None) -> bool | None:
    """Whether an edge's condition holds; None when the run decides it."""
    when = constant(edge.when.tree, outcomes) if edge.when else True
    if edge.on is None or edge.on is OnResult.ALWAYS or when is False:
        return when
    if failed is None:
        return None
    return when if edge.on.holds(passed=not failed) else False


def _always_passed(graph: Graph) -> dict[str, set[str]]:
    """For each exit in reach, the stages that every way from the start to it goes through."""
    above = dominators(graph.ways, graph.workflow.start)
    return {name: set(_up(name, above)) for name in graph.exits if name in above}


def _up(name: str, above: Mapping[str, str]) -> Iterator[str]:
    """A stage and everything above it in a tree."""
    while (parent := above[name]) != name:
        yield name
        name = parent
    yield name


def _where(graph: Graph, stage: str) -> frozenset[str]:
    """The stages at which the cursor stands while a stage runs: itself, or the parallel stages that run it."""
    return graph.owners.get(stage, frozenset({stage}))


def _after_findings(graph: Graph) -> set[str]:
    """The stages that some review or tool stage leads to."""
    finders = (s.id for s in graph.workflow.stages if isinstance(s, ToolStage) or is_review(s))
    places = set(chain.from_iterable(_where(graph, finder) for finder in finders))
    return reachable_from(graph.ways, chain.from_iterable(graph.ways[place] for place in places))


def _listing(names: tuple[str, ...]) -> str:
    shown = [f'"{name}"' for name in names[:4]]
    if len(names) > 4:
        shown.append(f"{len(names) - 4} more")
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + shown[-1]
