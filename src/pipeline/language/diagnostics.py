"""What is wrong with a file, as values: a rule sees a problem; at its place in the file it is a diagnostic."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import cleandoc
from typing import Any, Generic, ParamSpec

from pipeline.language.nodes import span_inside
from pipeline.language.source import SourceText, Span


class RuleSeverity(StrEnum):
    """Whether a problem stops a run."""

    ERROR = "error"  # the file cannot be run
    WARNING = "warning"  # it can, and somebody will be sorry


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule saw: where, what, what to do about it, and at which stage.

    `inside` narrows `span` to a part of the text written there, counted in the text's own characters.
    """

    span: Span
    message: str
    help: str | None = None
    stage: str | None = None
    inside: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem as a person or another program reads it; lines and columns count from 1."""

    code: str
    severity: RuleSeverity
    file: str
    line: int
    column: int
    width: int  # how many characters of the line it is about
    message: str
    help: str | None
    stage: str | None


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them stops a run."""
    return any(diagnostic.severity is RuleSeverity.ERROR for diagnostic in diagnostics)


P = ParamSpec("P")


@dataclass(frozen=True)
class Rule(Generic[P]):
    """A check with its page. Calling it gives its problems, each with the rule that saw it."""

    code: str
    name: str
    severity: RuleSeverity
    page: str = field(repr=False)
    check: Callable[P, Iterator[Problem]] = field(repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list["RuleHit"]:
        return [(self, problem) for problem in self.check(*args, **kwargs)]


RuleHit = tuple[Rule[Any], Problem]


def error(code: str) -> Callable[[Callable[P, Iterator[Problem]]], Rule[P]]:
    """Make a function the rule of this code; what it sees stops a run."""
    return lambda check: _rule(code, RuleSeverity.ERROR, check)


def warning(code: str) -> Callable[[Callable[P, Iterator[Problem]]], Rule[P]]:
    """Make a function the rule of this code; what it sees does not stop a run."""
    return lambda check: _rule(code, RuleSeverity.WARNING, check)


def _rule(code: str, severity: RuleSeverity, check: Callable[P, Iterator[Problem]]) -> Rule[P]:
    name = check.__name__.replace("_", "-")
    return Rule(code, name, severity, cleandoc(check.__doc__ or ""), check)


def to_diagnostics(source: SourceText, seen: Iterable[RuleHit]) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file, sorted by position, each told once."""
    placed = {_place(source, rule, problem) for rule, problem in seen}
    return tuple(sorted(placed, key=lambda d: (d.line, d.column, d.code, d.message)))


def _place(source: SourceText, rule: Rule[Any], problem: Problem) -> Diagnostic:
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
