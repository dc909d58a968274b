"""Rules about single values that have a form of their own: durations, retries, conditions."""

from collections.abc import Iterator

from pipeline.language.diagnostics import Problem, error
from pipeline.language.source import Span


@error("AWF015")
def bad_duration(span: Span, what: str, why: str, stage: str | None) -> Iterator[Problem]:
    """A duration is not written as one.

    Durations are `250ms`, `30s`, `10m`, `2h`, `1d`, and sums such as `1h30m`.

    ## Why is this bad?
    A bare number would be read as seconds by one reader and as milliseconds by the next.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make" timeout=600
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make" timeout="10m"
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"{what}: {why}", None, stage)


@error("AWF016")
def bad_retry(span: Span, why: str, stage: str | None) -> Iterator[Problem]:
    """A `retry` asks for something that cannot be done.

    ## Why is this bad?
    All four attributes are honoured exactly as written: `max_attempts` from 1 to 100, `backoff` one of `none`, `fixed`
    and `exponential`, `delay` not longer than `max_delay`.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make" {
      retry max_attempts=0
    }
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make" {
      retry max_attempts=3 backoff="exponential" delay="500ms" max_delay="30s"
    }
    transition from="build" to="done"
    ```
    """
    yield Problem(span, f"retry: {why}", None, stage)


@error("AWF017")
def malformed_expression(span: Span, inside: Span, why: str, help: str | None, stage: str | None) -> Iterator[Problem]:
    r"""A condition cannot be read.

    A condition is built of `==` `!=` `<` `<=` `>` `>=` `&&` `||` `!`, parentheses, texts, numbers, `true`, `false` and
    the functions `outcome`, `output`, `exists`, `context`, `visits`, `findings` and `verdict`.

    ## Why is this bad?
    A condition that is only half understood sends the run the wrong way.

    ## Example
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0 and visits(\"fix\") < 3" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="tool" command="make fix"
    transition from="fix" to="gate"
    ```

    ## Use instead
    ```kdl
    stage "gate" kind="decision" {
      route when="findings() > 0 && visits(\"fix\") < 3" to="fix"
      route when="true" to="done"
    }
    stage "fix" kind="tool" command="make fix"
    transition from="fix" to="gate"
    ```
    """
    yield Problem(span, f"this condition cannot be read: {why}", help, stage, inside)
