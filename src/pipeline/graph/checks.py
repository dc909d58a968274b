"""Checks that need the graph: what can be reached, what can end, what loops."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from pipeline.graph.analysis import Graph, find_cycles, reachable_from, subgraph
from pipeline.language.checks.conditions import constant
from pipeline.language.diagnostics import Problem, error, warning
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges, failure_transitions
from pipeline.language.expressions.parse import Function
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
from pipeline.text import listing

_FIX_LIKE = re.compile(r"(?:\A|[_-])(?:fix|repair)", re.IGNORECASE)
_LIMITS = frozenset({"max_visits", "max_stages", "max_duration", "max_cost_usd"})


@error("AWF034")
def unreachable_stage(graph: Graph) -> Iterator[Problem]:
    """A stage cannot be reached from the start."""
    for stage in graph.workflow.stages:
        if stage.id not in graph.reachable:
            message = f'stage "{stage.id}" cannot be reached from "{graph.workflow.start}"'
            yield Problem(stage.spans.node, message, "add a transition to it, or remove it", stage.id)


@error("AWF035")
def no_exit(graph: Graph) -> Iterator[Problem]:
    """No exit can be reached from the start."""
    spans = graph.workflow.spans
    if not graph.exits:
        yield Problem(spans.node, "the workflow has no exit", 'add: stage "exit" kind="exit"')
    elif not graph.reachable.intersection(graph.exits):
        message = f'no exit can be reached from "{graph.workflow.start}"'
        yield Problem(spans.of("start"), message, f'add a transition to "{graph.exits[0]}"')


@error("AWF036")
def dead_end(graph: Graph) -> Iterator[Problem]:
    """No exit can be reached from this stage."""
    if not graph.exits:
        return  # reported once for the whole workflow
    for stage in graph.workflow.stages:
        in_path = stage.id in graph.reachable and stage.id not in graph.owners
        if in_path and stage.id not in graph.can_exit:
            reason = "no exit can be reached" if graph.successors[stage.id] else "no transition leads on"
            yield Problem(stage.spans.node, f'{reason} from stage "{stage.id}"', "add a transition from it", stage.id)


@warning("AWF101")
def unbounded_loop(graph: Graph) -> Iterator[Problem]:
    """A loop has no limit but the default."""
    workflow = graph.workflow
    if _LIMITS & workflow.settings.spans.attributes.keys():
        return
    counted = {
        edge.source
        for edge in edges(workflow)
        if edge.when and any(call.function is Function.VISITS for call in edge.when.calls())
    }
    for cycle in graph.loops:
        if not counted.isdisjoint(cycle) or any(set(cycle) <= set(loop.stages) for loop in workflow.loops):
            continue
        unattended = {name for name in cycle if not waits_for_person(workflow.by_id[name])}
        if any(find_cycles(subgraph(graph.successors, unattended))):
            stage = workflow.by_id[cycle[0]]
            visits = workflow.settings.max_visits
            names = [f'"{name}"' for name in cycle]
            message = f"the loop of {listing(names, 4)} has no limit but the default of {visits} visits per stage"
            help = "set max_visits in settings, or use visits() in a condition"
            yield Problem(stage.spans.node, message, help, stage.id)


@warning("AWF103")
def gate_without_return(graph: Graph) -> Iterator[Problem]:
    """A goal gate has no retry target and is not part of a loop."""
    looping = set(chain.from_iterable(graph.loops))
    for stage in graph.workflow.stages:
        is_gate = isinstance(stage, LlmStage | ToolStage) and stage.goal_gate and stage.retry_target is None
        if is_gate and looping.isdisjoint(_cursor_stages(graph, stage.id)):
            message = f'goal gate "{stage.id}" has no retry target: a run that misses it fails'
            yield Problem(stage.spans.of("goal_gate"), message, 'add: retry_target="stage"', stage.id)


@warning("AWF106")
def fix_without_findings(graph: Graph) -> Iterator[Problem]:
    """A fix stage has no review or tool stage before it."""
    stages = graph.workflow.stages
    reporting = (stage.id for stage in stages if isinstance(stage, ToolStage) or is_review(stage))
    sources = set(chain.from_iterable(_cursor_stages(graph, name) for name in reporting))
    informed = reachable_from(graph.successors, chain.from_iterable(graph.successors[source] for source in sources))
    for stage in stages:
        fixes = isinstance(stage, LlmStage) and not is_review(stage) and _FIX_LIKE.search(stage.id)
        if fixes and informed.isdisjoint(_cursor_stages(graph, stage.id)):
            message = f'stage "{stage.id}" fixes findings, but no review or tool stage comes before it'
            yield Problem(stage.spans.node, message, "add a review or a tool stage before it", stage.id)


@warning("AWF108")
def bypassed_gate(graph: Graph) -> Iterator[Problem]:
    """An exit can be reached without passing a goal gate."""
    workflow = graph.workflow
    gates = [stage for stage in workflow.stages if isinstance(stage, LlmStage | ToolStage) and stage.goal_gate]
    if workflow.start not in graph.successors:
        return
    for stage in gates:
        bypassing = [
            reachable_from(graph.successors, [workflow.start], blocked={passed})
            for passed in _cursor_stages(graph, stage.id)
        ]
        for name in graph.exits:
            if all(name in reached for reached in bypassing):
                message = f'exit "{name}" can be reached without passing goal gate "{stage.id}"'
                help = "lead every transition through it, or remove goal_gate"
                yield Problem(stage.spans.of("goal_gate"), message, help, stage.id)


@warning("AWF110")
def exit_past_review(graph: Graph) -> Iterator[Problem]:
    """An exit can be reached past a review that could not run."""
    reviews = [stage for stage in graph.workflow.stages if isinstance(stage, LlmStage) and is_review(stage)]
    reviewed = frozenset(chain.from_iterable(_cursor_stages(graph, stage.id) for stage in reviews))
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges(graph.workflow):
        leaving[edge.source].append(edge)
    for stage in reviews:
        if stage.on_error is OnError.ROUTE and (name := _unreviewed_exit(graph, leaving, stage.id, reviewed)):
            message = f'exit "{name}" can be reached when review "{stage.id}" could not run'
            help = 'route on="fail" to another review, or use on_error="pause"'
            if stage.goal_gate:
                help += "; the goal gate stops the run only at the exit"
            yield Problem(stage.spans.of("on_error"), message, help, stage.id)


def _unreviewed_exit(
    graph: Graph, leaving: Mapping[str, Sequence[Edge]], review: str, reviewed: frozenset[str]
) -> str | None:
    """The first exit that a run can reach after an error of a review without passing any review."""
    stages = graph.workflow.by_id
    decisions = {name for name, stage in stages.items() if isinstance(stage, DecisionStage)}
    outcomes = {review: "fail"}
    ahead: list[str] = []
    for name in sorted(_cursor_stages(graph, review)):
        stage = stages[name]
        fails = not isinstance(stage, ParallelStage) or stage.join == "all"
        known = {**outcomes, name: "fail"} if fails else outcomes
        ahead += _next_stages(leaving.get(name, ()), decisions, known, failed=True if fails else None)
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in seen or name in reviewed or name not in stages:
            continue
        seen.add(name)
        if isinstance(stages[name], ExitStage):
            return name
        failed = False if name in decisions else None
        ahead += _next_stages(leaving.get(name, ()), decisions, outcomes, failed=failed)
    return None


def _next_stages(
    leaving: Sequence[Edge], decisions: Collection[str], outcomes: Mapping[str, str], *, failed: bool | None
) -> Iterator[str]:
    """Where a stage may lead, given some outcomes and whether the stage itself failed (None: unknown)."""
    if failed:
        followed = failure_transitions(leaving, decisions)
    else:
        followed = by_preference(edge for edge in leaving if edge.role in FOLLOWED)
    for edge in followed:
        holds = _holds(edge, outcomes, failed=failed)
        if holds is not False:
            yield edge.target
        if holds and (edge.conditional or failed is not None):
            break  # later ones are never followed
    else:
        yield from (edge.target for edge in leaving if edge.role is EdgeRole.RETRY)
    yield from (edge.target for edge in leaving if edge.role in (EdgeRole.OPTION, EdgeRole.LOOP))


def _holds(edge: Edge, outcomes: Mapping[str, str], *, failed: bool | None) -> bool | None:
    """Whether an edge's condition holds; None if that differs between runs."""
    when = constant(edge.when.tree, outcomes) if edge.when else True
    if edge.on is None or edge.on is OnResult.ALWAYS or when is False:
        return when
    if failed is None:
        return None
    return when if edge.on.holds(passed=not failed) else False


def _cursor_stages(graph: Graph, stage: str) -> frozenset[str]:
    """Where the cursor is while a stage runs: at the stage itself, or at the parallel stages that run it."""
    return graph.owners.get(stage, frozenset({stage}))


CHECKS = (
    *(unreachable_stage, no_exit, dead_end, unbounded_loop),
    *(gate_without_return, fix_without_findings, bypassed_gate, exit_past_review),
)
