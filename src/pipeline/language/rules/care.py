"""Warnings about what runs as written and is hardly ever meant."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pipeline.language.diagnostics import Problem, warning
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges
from pipeline.language.expressions.parse import UNREADABLE, Function, FunctionCall
from pipeline.language.expressions.types import constant
from pipeline.language.model import (
    DecisionStage,
    HumanStage,
    OnResult,
    ParallelStage,
    StageKind,
    ToolStage,
    TriageStage,
    Workflow,
    WorkspaceStage,
    is_review,
    may_write,
)
from pipeline.language.rules.conditions import Use

_ONLY_PASS_ON = frozenset(
    {"tee", "cat", "head", "tail", "less", "more", "sed", "awk", "sort", "uniq", "tr", "cut", "ts"}
)
_SUCCESS, _FAIL, _ALWAYS = (f'on="{on}"' for on in OnResult)
_ONE_PIPE = re.compile(r"(?<!\|)\|&?(?!\|)")


@warning("AWF102")
def unread_review(workflow: Workflow, uses: Sequence[Use]) -> Iterator[Problem]:
    """A review stage whose result no decision reads.

    ## Why is this bad?
    The review costs its time and money, says that the change is broken, and the run goes on as if it had not.

    ## Example
    ```kdl
    stage "review" kind="llm" prompt="Review the change" auto_status=true
    transition from="review" to="done"
    ```

    ## Use instead
    ```kdl
    stage "review" kind="llm" prompt="Review the change" auto_status=true
    stage "gate" kind="decision" {
      route when="findings() > 0" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="llm" prompt="Fix what the review found"
    transition from="review" to="gate"
    transition from="fix" to="review"
    settings { max_visits 5; }
    ```
    """
    reviews = [stage for stage in workflow.stages if is_review(stage)]
    if not reviews:
        return
    read = _stages_read(workflow, uses)
    for stage in reviews:
        if None not in read and stage.id not in read:
            message = f'no condition reads what the review "{stage.id}" says'
            help = f'use on="fail", or route by findings(), verdict() or outcome("{stage.id}")'
            yield Problem(stage.at.span, message, help, stage.id)


def _stages_read(workflow: Workflow, uses: Sequence[Use]) -> set[str | None]:
    """The stages whose result some condition or person is shown; None stands for all of them."""
    calls = [call for use in uses for call in use.expression.calls()]
    read = {_asked(call) for call in calls if call.function not in (Function.CONTEXT, Function.VISITS)}
    read.update(
        transition.source for transition in workflow.transitions if transition.on in (OnResult.SUCCESS, OnResult.FAIL)
    )
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            read.update(key.partition(".")[0] for key in stage.details_from)
        elif isinstance(stage, TriageStage):
            read.add(None)  # it puts before a person whatever was found
        elif isinstance(stage, ParallelStage) and stage.id in read:
            read.update(branch.stage for branch in stage.branches)
    return read


def _asked(call: FunctionCall) -> str | None:
    return call.argument.partition(".")[0] if call.argument is not None else None


@warning("AWF104")
def dead_route(workflow: Workflow, uses: Sequence[Use]) -> Iterator[Problem]:
    """A condition that never changes anything: its way is never taken, or every way leads to the same stage.

    ## Why is this bad?
    The file looks as if it decided something. Usually a priority or a copied line is wrong.

    ## Example
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="fix"
      route when="true" to="done" priority=10
    }
    stage "fix" kind="tool" command="make fix"
    transition from="fix" to="gate"
    settings { max_visits 5; }
    ```

    ## Use instead
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="tool" command="make fix"
    transition from="fix" to="gate"
    settings { max_visits 5; }
    ```
    """
    for use in uses:
        value = None if use.expression.always else constant(use.expression.tree)
        if value is not None:
            message = f"this condition is always {str(value).lower()}: {use.expression}"
            yield Problem(use.span, message, "ask for something that a run can change, or take the way out", use.stage)
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges(workflow):
        if edge.role in FOLLOWED and edge.when is not UNREADABLE:
            leaving[edge.source].append(edge)
    for name, followed in leaving.items():
        stage = workflow.by_id.get(name)
        targets = {edge.target for edge in followed}
        if isinstance(stage, DecisionStage) and len(followed) > 1 and len(targets) == 1:
            message = f'every route of stage "{name}" leads to "{followed[0].target}"'
            yield Problem(stage.at.span, message, "let a route lead elsewhere, or use a transition", name)
        else:
            yield from _shadowed(followed)


def _shadowed(leaving: Sequence[Edge]) -> Iterator[Problem]:
    """The edges that are never followed, whatever the run does, since others always come first."""
    first: dict[str, Edge] = {}  # by condition
    for edge in by_preference(leaving):
        condition = edge.condition or (_ALWAYS if edge.role is EdgeRole.ROUTE else "")  # a decision never fails
        earlier = first.get(_ALWAYS) or first.get(condition) or (first.get(_FAIL) if _SUCCESS in first else None)
        if earlier is not None:
            message = f'this {edge.role} is never followed: the one to "{earlier.target}" always comes first'
            yield Problem(edge.at.span, message, "check the priorities and conditions", edge.source)
        if condition:
            first.setdefault(condition, edge)


@warning("AWF105")
def piped_exit_code(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage pipes its output into a program that always succeeds, and so loses the real exit code.

    ## Why is this bad?
    The shell reports the last program of a pipe. `make check | tee log` succeeds when every check fails. The whole
    output is kept in any case: `awf logs` shows it.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check | tee check.log"
    transition from="check" to="done"
    ```

    ## Use instead
    ```kdl
    stage "check" kind="tool" command="make check > check.log"
    transition from="check" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and (program := _swallower(stage.command)):
            message = f'stage "{stage.id}" reports the exit code of "{program}", not of the command before it'
            help = "leave the pipe out: the whole output is kept in any case"
            yield Problem(stage.at.of("command"), message, help, stage.id)


def _swallower(command: str) -> str | None:
    """The program at the end of a pipe that succeeds whatever it is given, or None."""
    if not _ONE_PIPE.search(command) or "pipefail" in command:
        return None
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        parsed = list(words)
    except ValueError:
        return None  # an unclosed quote: the shell will say so
    ends = [after for pipe, after in pairwise(parsed) if pipe in ("|", "|&")]
    return ends[-1] if ends and ends[-1] in _ONLY_PASS_ON else None


@warning("AWF107")
def timeout_without_default(workflow: Workflow) -> Iterator[Problem]:
    """A human stage has a timeout and no default option.

    ## Why is this bad?
    When nobody answers in time the stage fails. If that is what you want, say where it leads with a default option.

    ## Example
    ```kdl
    stage "ask" kind="human" prompt="Release?" timeout="2d" {
      option "yes" label="Release" to="done"
      option "no" label="Build it again" to="build"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "ask" kind="human" prompt="Release?" timeout="2d" {
      option "yes" label="Release" to="done"
      option "no" label="Build it again" to="build"
      default "no"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, HumanStage) and stage.timeout is not None and stage.default is None:
            message = f'stage "{stage.id}" has a timeout and no default option: it fails when nobody answers'
            yield Problem(stage.at.of("timeout"), message, 'add: default "key"', stage.id)


@warning("AWF109")
def shared_workspace(workflow: Workflow) -> Iterator[Problem]:
    """Branches that run at once may both change files of the run's workspace.

    ## Why is this bad?
    They see each other's half-written files. The commit of the branch that ends first holds what the other had
    written by then, and a crash after it leaves that there: the other branch runs again on its own leftovers.

    ## Example
    ```kdl
    stage "workspace" kind="workspace.create"
    stage "checks" kind="parallel" {
      branch "lint"
      branch "review"
    }
    stage "lint" kind="tool" command="make lint"
    stage "review" kind="llm" prompt="Review the change"
    transition from="workspace" to="checks"
    transition from="checks" to="done"
    ```

    ## Use instead
    ```kdl
    stage "workspace" kind="workspace.create"
    stage "checks" kind="parallel" {
      branch "lint"
      branch "review"
    }
    stage "lint" kind="tool" command="make lint" effects="none"
    stage "review" kind="llm" prompt="Review the change" access="read-only"
    transition from="workspace" to="checks"
    transition from="checks" to="done"
    ```
    """
    made = [stage for stage in workflow.stages if isinstance(stage, WorkspaceStage)]
    if all(stage.kind is not StageKind.WORKSPACE_CREATE for stage in made):
        return
    for stage in workflow.stages:
        if isinstance(stage, ParallelStage) and stage.max_parallel != 1:
            named = [branch.stage for branch in stage.branches if branch.stage in workflow.by_id]
            writing = [f'"{name}"' for name in named if may_write(workflow.by_id[name])]
            if len(writing) > 1:
                message = f"{', '.join(writing[:-1])} and {writing[-1]} may write to the workspace at once"
                help = 'say access="read-only" or effects="none" of those that only look, or run one after the other'
                yield Problem(stage.at.span, message, help, stage.id)
