"""What a rule is: a function that yields problems, with a code, a severity, and a docstring that is its page."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Generic, ParamSpec

from pipeline.language.diagnostics import Diagnostic, Problem, Severity
from pipeline.language.nodes import span_inside
from pipeline.language.source import Source

P = ParamSpec("P")


@dataclass(frozen=True)
class Rule(Generic[P]):
    """A check with its page. Calling it gives its problems, each with the rule that saw it."""

    code: str
    name: str
    severity: Severity
    page: str = field(repr=False)
    check: Callable[P, Iterator[Problem]] = field(repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list["Seen"]:
        return [(self, problem) for problem in self.check(*args, **kwargs)]


Seen = tuple[Rule[Any], Problem]


def error(code: str) -> Callable[[Callable[P, Iterator[Problem]]], Rule[P]]:
    """Make a function the rule of this code; what it sees stops a run."""
    return lambda check: _rule(code, Severity.ERROR, check)


def warning(code: str) -> Callable[[Callable[P, Iterator[Problem]]], Rule[P]]:
    """Make a function the rule of this code; what it sees does not stop a run."""
    return lambda check: _rule(code, Severity.WARNING, check)


def _rule(code: str, severity: Severity, check: Callable[P, Iterator[Problem]]) -> Rule[P]:
    name = check.__name__.replace("_", "-")
    return Rule(code, name, severity, cleandoc(check.__doc__ or ""), check)


def settle(source: Source, seen: Iterable[Seen]) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file, sorted by position, each told once."""
    placed = {_place(source, rule, problem) for rule, problem in seen}
    return tuple(sorted(placed, key=lambda d: (d.line, d.column, d.code, d.message)))


def _place(source: Source, rule: Rule[Any], problem: Problem) -> Diagnostic:
    span = problem.span
    if problem.inside is not None:
        span = span_inside(source.text, span, problem.inside)
    line, column = source.position(span.start)
    width = max(1, min(span.end - span.start, len(source.line(line)) - column + 1))
    return Diagnostic(
        rule.code,
        rule.severity,
        source.name,
        line,
        column,
        width,
        problem.message,
        problem.help,
        problem.stage,
    )
