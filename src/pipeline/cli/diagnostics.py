"""Problems of workflows and settings as text for people, JSON, GitHub annotations or SARIF."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from urllib.parse import quote

import click

from pipeline import __version__
from pipeline.app.check import CheckedWorkflow, every_rule
from pipeline.cli.terminal import Style, sanitize
from pipeline.language.diagnostics import Diagnostic, RuleSeverity
from pipeline.language.source import SourceText
from pipeline.text import display_width, plural

_MAX_EXCERPT = 100  # columns of a source line
_EXCERPT_FRAME = 6  # columns around an excerpt: the bar, two ellipses and the last column


def print_diagnostics(checked: CheckedWorkflow) -> None:
    """Print the problems of a workflow that a command cannot use to standard error."""
    click.echo(format_text([checked], Style.of(sys.stderr)), err=True, nl=False)


def format_text(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """Format each problem with its source line and a caret, then a summary."""
    blocks = [format_diagnostic(problem, one.source, style) for one in checked for problem in one.diagnostics]
    severities = [problem.severity for one in checked for problem in one.diagnostics]
    files = plural(len(checked), "workflow")
    if not severities:
        return style.good(f"{files} checked, no problems.") + "\n"
    counts = {word: severities.count(word) for word in RuleSeverity}
    found = " and ".join(plural(count, word) for word, count in counts.items() if count)
    paint = style.error if counts[RuleSeverity.ERROR] else style.warning
    return "\n".join([*blocks, paint(f"{files} checked, {found} found.") + ' Run "awf explain CODE" for details.\n'])


def format_diagnostic(problem: Diagnostic, source: SourceText, style: Style) -> str:
    """Format one problem with its source line and its help."""
    paint = style.error if problem.severity is RuleSeverity.ERROR else style.warning
    location = style.name(f"{sanitize(problem.file)}:{problem.line}:{problem.column}")
    lines = [f"{location}: {paint(f'{problem.severity}[{problem.code}]')}: {sanitize(problem.message)}"]
    lines += _excerpt(problem, source, style) if source.text else []
    if problem.help:
        lines.append(f"  {style.quiet('= help:')} {sanitize(problem.help)}")
    return "\n".join(lines) + "\n"


def _excerpt(problem: Diagnostic, source: SourceText, style: Style) -> Iterator[str]:
    """Yield the source line and a caret below it; a long line is cut, because wrapping would misplace the caret."""
    number = str(problem.line)
    margin = " " * len(number)
    room = max(min(_MAX_EXCERPT, style.width - len(margin) - _EXCERPT_FRAME), 20)
    line, column = sanitize(source.line(problem.line)), problem.column - 1
    if len(line) > room:
        start = max(0, min(column - room // 3, len(line) - room))
        before, after = "…" if start else "", "…" if start + room < len(line) else ""
        line, column = before + line[start : start + room] + after, column - start + len(before)
    carets = "^" * max(1, display_width(line[column : column + problem.width]))
    yield style.quiet(f"{margin} |")
    yield f"{style.quiet(f'{number} |')} {line}".rstrip()
    yield f"{style.quiet(f'{margin} |')} {' ' * display_width(line[:column])}{style.error(carets)}"


def format_json(checked: Sequence[CheckedWorkflow]) -> str:
    """Format all problems as one array of objects."""
    fields = ("code", "severity", "file", "line", "column", "message", "help", "stage")
    rows = [{name: getattr(problem, name) for name in fields} for one in checked for problem in one.diagnostics]
    return json.dumps(rows, indent=2) + "\n"


def format_github(checked: Sequence[CheckedWorkflow]) -> str:
    """Format all problems as workflow commands, which GitHub Actions turns into annotations."""
    lines = []
    for problem in (problem for one in checked for problem in one.diagnostics):
        properties = {
            "file": problem.file,
            "line": problem.line,
            "col": problem.column,
            "endColumn": problem.column + problem.width,
            "title": f"{problem.code} in {problem.stage}" if problem.stage else problem.code,
        }
        written = ",".join(f"{name}={_escape(value, ':,')}" for name, value in properties.items())
        message = problem.message + (f"\nhelp: {problem.help}" if problem.help else "")
        lines.append(f"::{problem.severity} {written}::{_escape(message)}\n")
    return "".join(lines)


def _escape(value: object, also: str = "") -> str:
    """Percent-encode what would end a line or a property of a workflow command."""
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{also}" else c for c in str(value))


def format_sarif(checked: Sequence[CheckedWorkflow]) -> str:
    """Format all problems as SARIF 2.1.0, with the rules they violate."""
    problems = [problem for one in checked for problem in one.diagnostics]
    codes = {problem.code for problem in problems}
    rules = [
        {
            "id": rule.code,
            "name": rule.name,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": rule.page},
            "defaultConfiguration": {"level": rule.severity},
        }
        for rule in every_rule()
        if rule.code in codes
    ]
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "awf", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(problem, index[problem.code]) for problem in problems],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _sarif_result(problem: Diagnostic, rule: int) -> dict[str, object]:
    path = PurePath(problem.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    region = {"startLine": problem.line, "startColumn": problem.column, "endColumn": problem.column + problem.width}
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": problem.message + (f" ({problem.help})" if problem.help else "")},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}],
    }


FORMATS: dict[str, Callable[[Sequence[CheckedWorkflow]], str]] = {
    "text": lambda checked: format_text(checked, Style.of(sys.stdout)),
    "json": format_json,
    "github": format_github,
    "sarif": format_sarif,
}
