"""Rules about loops: what goes round, and how it ends."""

from collections import Counter
from collections.abc import Iterator

from pipeline.language.diagnostics import Problem, error
from pipeline.language.model import Loop, Workflow
from pipeline.text import did_you_mean


@error("AWF039")
def loop_stages(workflow: Workflow) -> Iterator[Problem]:
    r"""A loop names no stages, a stage that is not there, or one that is in another loop.

    ## Why is this bad?
    Rounds are counted where the loop begins, and its signals hold for its own stages. Over nothing it bounds nothing.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" when="outcome(\"check\") == \"success\""
    transition from="check" to="fix"
    transition from="fix" to="check"
    loop "fixing" {
      stages "check" "fx"
      on "exhausted" to="done"
    }
    ```

    ## Use instead
    ```kdl
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" when="outcome(\"check\") == \"success\""
    transition from="check" to="fix"
    transition from="fix" to="check"
    loop "fixing" {
      stages "check" "fix"
      on "exhausted" to="done"
    }
    ```
    """
    owners = Counter(name for loop in workflow.loops for name in set(loop.stages))
    for loop in workflow.loops:
        if not loop.stages:
            help = 'name them, the one a round begins with first: stages "review" "fix"'
            yield Problem(loop.at.span, f'loop "{loop.name}" has no stages', help)
        for name in loop.stages:
            if name not in workflow.by_id:
                message = f'loop "{loop.name}" names the stage "{name}", which is not there'
                yield Problem(loop.at.of("stages"), message, did_you_mean(name, workflow.by_id))
            elif owners[name] > 1:
                help = "name it in one of them only"
                yield Problem(loop.at.of("stages"), f'stage "{name}" is in more than one loop', help)


@error("AWF040")
def loop_ending(workflow: Workflow) -> Iterator[Problem]:
    r"""A loop does not say where it leads when its rounds are used up, says it twice, or leads back into itself.

    ## Why is this bad?
    A loop that cannot be left goes on for as long as the run may, which is what it was written to prevent.

    ## Example
    ```kdl
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" when="outcome(\"check\") == \"success\""
    transition from="check" to="fix"
    transition from="fix" to="check"
    loop "fixing" {
      stages "check" "fix"
      max_rounds 3
    }
    ```

    ## Use instead
    ```kdl
    stage "check" kind="tool" command="make check"
    stage "fix" kind="llm" prompt="Fix what the check found"
    transition from="check" to="done" when="outcome(\"check\") == \"success\""
    transition from="check" to="fix"
    transition from="fix" to="check"
    loop "fixing" {
      stages "check" "fix"
      max_rounds 3
      on "exhausted" to="done"
    }
    ```
    """
    for loop in workflow.loops:
        if loop.leads("exhausted") is None:
            help = 'add: on "exhausted" to="stage"'
            yield Problem(loop.at.span, f'loop "{loop.name}" does not say where it leads when it is exhausted', help)
        yield from _ways_out(loop)


def _ways_out(loop: Loop) -> Iterator[Problem]:
    signals = Counter(way.signal for way in loop.exits)
    for way in loop.exits:
        if signals[way.signal] > 1:
            message = f'loop "{loop.name}" has the signal "{way.signal}" twice'
            yield Problem(way.at.of("signal"), message, "keep one of them")
        if way.to in loop.stages:
            message = f'loop "{loop.name}" leads back into itself on "{way.signal}"'
            yield Problem(way.at.of("to"), message, "lead to a stage that is not in the loop")
