"""Problems found in a file: the rule that was broken, where, and what to do about it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.language.source import SourceText, Span, span_inside

_PAGES = Path(__file__).with_name("rules")


class RuleSeverity(StrEnum):
    """Whether a broken rule stops a run."""

    ERROR = "error"  # the workflow cannot run
    WARNING = "warning"  # it can, but probably not as intended


@dataclass(frozen=True, slots=True)
class Problem:
    """One place that breaks a rule.

    `inside` narrows `span` to a part of the string written there, counted in the string's own characters.
    """

    span: Span
    message: str
    help: str | None = None
    stage: str | None = None
    inside: Span | None = None


@dataclass(frozen=True)
class Rule:
    """A rule of the language. Calling it runs its check; a rule without one is reported by the reader."""

    code: str
    name: str
    severity: RuleSeverity = RuleSeverity.ERROR
    check: Callable[..., Iterable[Problem]] | None = field(default=None, repr=False)

    def __call__(self, *args: Any) -> list["RuleHit"]:
        return [RuleHit(self, problem) for problem in self.check(*args)] if self.check else []

    def hit(self, span: Span, message: str, help: str | None = None, stage: str | None = None) -> "RuleHit":
        """A problem that breaks this rule."""
        return RuleHit(self, Problem(span, message, help, stage))

    @property
    def page(self) -> str:
        """The page that `awf explain` prints: `rules/CODE.md`, or the docstring of a plugin's check."""
        file = _PAGES / f"{self.code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8").partition("\n\n")[2].rstrip()  # without its heading
        return cleandoc(self.check.__doc__ or "") if self.check else ""

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0]


class RuleHit(NamedTuple):
    """A problem and the rule it breaks."""

    rule: Rule
    problem: Problem


def error(code: str) -> Callable[[Callable[..., Iterable[Problem]]], Rule]:
    """Make a check the rule with this code; its problems stop a run."""
    return lambda check: Rule(code, check.__name__.replace("_", "-"), RuleSeverity.ERROR, check)


def warning(code: str) -> Callable[[Callable[..., Iterable[Problem]]], Rule]:
    """Make a check the rule with this code; its problems do not stop a run."""
    return lambda check: Rule(code, check.__name__.replace("_", "-"), RuleSeverity.WARNING, check)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem as people and programs read it; lines and columns count from 1."""

    code: str
    severity: RuleSeverity
    file: str
    line: int
    column: int
    width: int  # the characters of the line it is about
    message: str
    help: str | None
    stage: str | None


def to_diagnostics(source: SourceText, hits: Iterable[RuleHit]) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file, sorted by position and without repetitions."""
    diagnostics = set()
    for rule, problem in hits:
        span = problem.span
        if problem.inside is not None:
            span = span_inside(source.text, span, problem.inside)
        line, column = source.position(span.start)
        width = max(1, min(span.end - span.start, len(source.line(line)) - column + 1))
        about = (problem.message, problem.help, problem.stage)
        diagnostics.add(Diagnostic(rule.code, rule.severity, source.name, line, column, width, *about))
    return tuple(sorted(diagnostics, key=lambda d: (d.line, d.column, d.code, d.message)))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them stops a run."""
    return any(diagnostic.severity is RuleSeverity.ERROR for diagnostic in diagnostics)
