"""`awf validate` and `awf explain`: problems of workflows, in every output format, and the rules behind them."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from urllib.parse import quote

import click

from pipeline import __version__
from pipeline.app.check import CheckedWorkflow, check_all, every_rule
from pipeline.cli.location import catalog
from pipeline.cli.terminal import Style, best_effort_output
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.plugin import review_format
from pipeline.language.diagnostics import Diagnostic, RuleSeverity, has_errors
from pipeline.language.source import SourceText
from pipeline.text import did_you_mean, display_width, escape_command, plural, sanitize

REVIEW_FORMAT = "review-format"
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
        written = ",".join(f"{name}={escape_command(value, ':,')}" for name, value in properties.items())
        message = problem.message + (f"\nhelp: {problem.help}" if problem.help else "")
        lines.append(f"::{problem.severity} {written}::{escape_command(message)}\n")
    return "".join(lines)


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
    results = []
    for problem in problems:
        path = PurePath(problem.file)
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        region = {"startLine": problem.line, "startColumn": problem.column, "endColumn": problem.column + problem.width}
        result = {
            "ruleId": problem.code,
            "ruleIndex": index[problem.code],
            "level": problem.severity,
            "message": {"text": problem.message + (f" ({problem.help})" if problem.help else "")},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}],
        }
        results.append(result)
    driver = {"name": "awf", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


FORMATS: dict[str, Callable[[Sequence[CheckedWorkflow]], str]] = {
    "text": lambda checked: format_text(checked, Style.of(sys.stdout)),
    "json": format_json,
    "github": format_github,
    "sarif": format_sarif,
}


@click.command("validate")
@click.argument("workflows", nargs=-1, required=True, metavar="FILE|NAME|DIRECTORY...")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True, help="Output format."
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def validate_command(workflows: tuple[str, ...], form: str) -> int:
    """Check workflows and report every problem.

    Exits with 2 if there is an error; warnings alone are not errors. A directory stands for all workflows in it.
    """
    checked = check_all(catalog(), workflows)
    with best_effort_output():
        click.echo(FORMATS[form](checked), nl=False)
    failed = any(has_errors(workflow.diagnostics) for workflow in checked)
    return ExitCode.USAGE if failed else ExitCode.SUCCESS


@click.command("explain")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the rule as one object, or all rules as an array.")
def explain_command(code: str | None, *, as_json: bool) -> None:
    """Print what a rule checks, why, and how to fix what it reports.

    CODE is a rule's code or name, such as AWF012 or unknown-choice. Without one, all rules are listed. "review-format"
    prints what agents are told about the findings they return.
    """
    if code == REVIEW_FORMAT:
        click.echo(review_format(), nl=False)
        return
    rules = every_rule()
    found = [rule for rule in rules if code is None or code.upper() == rule.code or code.lower() == rule.name]
    if code is not None and not found:
        names = [REVIEW_FORMAT, *(name for rule in rules for name in (rule.code, rule.name))]
        raise AwfError(f'unknown rule "{code}"', help=did_you_mean(code, names) or '"awf explain" lists all rules')
    if as_json:
        rows = [{"code": r.code, "name": r.name, "severity": r.severity, "page": r.page} for r in found]
        click.echo(json.dumps(rows if code is None else rows[0], indent=2))
    elif code is None:
        click.echo("\n".join(f"{rule.code}  {rule.severity:<8}{rule.summary}" for rule in rules))
    else:
        (rule,) = found
        click.echo(f"# {rule.code} {rule.name} ({rule.severity})\n\n{rule.page}")
