"""What is wrong with a file, as values: a rule sees a problem; at its place in the file it is a diagnostic."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.language.source import Span


class Severity(StrEnum):
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
    severity: Severity
    file: str
    line: int
    column: int
    width: int  # how many characters of the line it is about
    message: str
    help: str | None
    stage: str | None


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any of them stops a run."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
