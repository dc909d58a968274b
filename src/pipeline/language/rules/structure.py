"""Rules about single nodes: known names, each thing once, values of the right kind."""

import re
from collections.abc import Iterable, Iterator

from pipeline.language.diagnostics import Problem, error
from pipeline.language.model import STAGE_MODELS, StageKind
from pipeline.language.nodes import Node, Plain, describe, shortened
from pipeline.language.source import Span
from pipeline.text import did_you_mean, nearest

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@error("AWF006")
def unknown_node(node: Node, parent: str, known: Iterable[str]) -> Iterator[Problem]:
    """A block holds a node that has no meaning there.

    ## Why is this bad?
    A node that is not understood would be a wish that is not fulfilled. None is ever ignored.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    transitoin from="build" to="done"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    known = sorted(known)
    listing = f"{parent} takes {', '.join(known)}" if known else f"{parent} takes no block"
    yield Problem(node.span, f'{parent} takes no "{node.name}"', did_you_mean(node.name, known) or listing)


@error("AWF007")
def unknown_property(span: Span, name: str, owner: str, known: Iterable[str], stage: str | None) -> Iterator[Problem]:
    r"""A node has a property that has no meaning there.

    ## Why is this bad?
    A misspelt `auto_status` would turn a review into a rubber stamp, in silence. So every property must be known.

    ## Example
    ```kdl
    stage "review" kind="llm" prompt="Review the change" auto_staus=true
    transition from="review" to="done"
    ```

    ## Use instead
    ```kdl
    stage "review" kind="llm" prompt="Review the change" auto_status=true
    stage "gate" kind="decision" {
      route when="outcome(\"review\") == \"success\"" to="done"
      route when="true" to="fix"
    }
    stage "fix" kind="llm" prompt="Fix what the review found"
    transition from="review" to="gate"
    transition from="fix" to="review"
    settings { max_visits 5; }
    ```
    """
    known = sorted(known)
    help = did_you_mean(name, known)
    if not help and (kinds := [kind for kind, model in STAGE_MODELS.items() if name in model.attributes()]) and stage:
        help = f"it belongs to stages of kind {' and '.join(kinds)}"
    yield Problem(span, f'{owner} takes no "{name}"', help or f"{owner} takes {', '.join(known)}", stage)


@error("AWF008")
def duplicate(span: Span, what: str, owner: str, stage: str | None) -> Iterator[Problem]:
    """A property or a block that may stand once stands twice.

    ## Why is this bad?
    One of the two would win, and the file would not say which.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make" command="make all"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make all"
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"{owner} has {what} twice", "keep one of them", stage)


@error("AWF009")
def missing(span: Span, what: str, owner: str, stage: str | None) -> Iterator[Problem]:
    """Something that must be there is not.

    ## Why is this bad?
    There is no sensible value to assume: a tool without a command or an option without a target means nothing.

    ## Example
    ```kdl
    stage "build" kind="tool" timeout="10m"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make" timeout="10m"
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"{owner} needs {what}", None, stage)


@error("AWF010")
def wrong_value(span: Span, what: str, value: Plain, expected: str, stage: str | None) -> Iterator[Problem]:
    """A value is of the wrong kind or out of range.

    ## Why is this bad?
    `goal_gate="false"` is a text, and a text that is not empty is true to many programs. Here it is an error.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make" goal_gate="yes" retry_target="build"
    transition from="build" to="done"
    settings { max_visits 5; }
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make" goal_gate=true retry_target="build"
    transition from="build" to="done"
    settings { max_visits 5; }
    ```
    """
    yield Problem(span, f"{what} is {describe(value)}, and {expected} is expected", None, stage)


@error("AWF011")
def not_an_integer(span: Span, what: str, value: Plain, stage: str | None) -> Iterator[Problem]:
    """A whole number is needed, and this number is not whole.

    ## Why is this bad?
    Two and a half visits cannot be counted, and rounding would choose for the author.

    ## Example
    ```kdl
    settings { max_visits 2.5; }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    settings { max_visits 3; }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"{what} is {describe(value)}, and a whole number is expected", None, stage)


@error("AWF012")
def unknown_choice(span: Span, what: str, value: Plain, known: Iterable[str], stage: str | None) -> Iterator[Problem]:
    """A value is none of those that are allowed.

    ## Why is this bad?
    An access mode or a join that is not understood cannot be honoured, and the default might do what was to be avoided.

    ## Example
    ```kdl
    stage "look" kind="llm" prompt="Look around" access="readonly"
    transition from="look" to="done"
    ```

    ## Use instead
    ```kdl
    stage "look" kind="llm" prompt="Look around" access="read-only"
    transition from="look" to="done"
    ```
    """
    known = list(known)
    help = did_you_mean(value, known) if isinstance(value, str) else None
    yield Problem(span, f"{what} is {describe(value)}, and one of {', '.join(known)} is expected", help, stage)


@error("AWF013")
def unknown_kind(span: Span, stage: str, kind: Plain) -> Iterator[Problem]:
    """A stage has no kind, or one that does not exist.

    ## Why is this bad?
    The kind says what runs the stage and which properties it takes.

    ## Example
    ```kdl
    stage "build" kind="shell" command="make"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    choices = f"the kinds are {', '.join(StageKind)}"
    if kind is None:
        yield Problem(span, f'stage "{stage}" does not say its kind', choices, stage)
    else:
        help = did_you_mean(str(kind), StageKind) or choices
        yield Problem(span, f'stage "{stage}" has {describe(kind)} as its kind, and there is no such kind', help, stage)


@error("AWF014")
def bad_name(span: Span, name: str) -> Iterator[Problem]:
    """A stage's id is not a plain name.

    It has 1 to 64 letters, digits, `_` and `-`, and starts with a letter or `_`.

    ## Why is this bad?
    A stage's id becomes part of paths and of context keys such as `build.status`. A dot or a slash in it would point
    somewhere else.

    ## Example
    ```kdl
    stage "../build" kind="tool" command="make"
    transition from="../build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    help = 'use 1 to 64 letters, digits, "_" and "-", a letter or "_" first'
    yield Problem(span, f'the stage id "{shortened(name)}" is not a plain name', help)


@error("AWF038")
def stray_value(span: Span, owner: str, value: Plain, stage: str | None) -> Iterator[Problem]:
    """A value stands where none is taken.

    ## Why is this bad?
    A value without a name that nothing reads is a wish that is not fulfilled.

    ## Example
    ```kdl
    stage "build" "make" kind="tool" command="make"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"{owner} has no use for {describe(value)} here", 'give it a name: name="value"', stage)


@error("AWF018")
def missing_start(span: Span) -> Iterator[Problem]:
    """The workflow does not say where it starts.

    ## Why is this bad?
    Taking the first stage would make the order of the file mean something it does not mean anywhere else.

    ## Example
    ```kdl
    workflow "Build" {
      version 2
      stage "build" kind="tool" command="make"
      stage "done" kind="exit"
      transition from="build" to="done"
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
    yield Problem(span, "the workflow does not say where it starts", 'add: start "stage"')


def probable_kind(written: Plain) -> StageKind | None:
    """The kind that was meant, so that the rest of a misspelt stage can be checked too."""
    found = nearest(written, StageKind) if isinstance(written, str) else None
    return StageKind(found) if found else None
