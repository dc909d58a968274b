"""How what was checked is written down: for a person, as JSON, for GitHub's annotations, as SARIF."""

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from urllib.parse import quote

from pipeline import __version__
from pipeline.app.check import CheckedWorkflow, every_rule
from pipeline.cli.terminal import Style, sanitize
from pipeline.language.diagnostics import Diagnostic, RuleSeverity
from pipeline.language.source import SourceText
from pipeline.text import display_width, plural

LINE_WIDTH = 100  # of an excerpt at most; a terminal that wraps it would put the caret elsewhere
_AROUND = 6  # columns of an excerpt that are not its text: the bar, two ellipses and the last one


def text(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """Each problem with its line and a caret, then the sum."""
    blocks = [block(d, one.source, style) for one in checked for d in one.diagnostics]
    return "\n".join([*blocks, summary(checked, style)]) + "\n"


def block(diagnostic: Diagnostic, source: SourceText, style: Style) -> str:
    """One problem as a person reads it."""
    paint = style.error if diagnostic.severity is RuleSeverity.ERROR else style.warning
    where = style.name(f"{sanitize(diagnostic.file)}:{diagnostic.line}:{diagnostic.column}")
    lines = [f"{where}: {paint(f'{diagnostic.severity}[{diagnostic.code}]')}: {sanitize(diagnostic.message)}"]
    lines += _excerpt(diagnostic, source, style) if source.text else []
    if diagnostic.help:
        lines.append(f"  {style.quiet('= help:')} {sanitize(diagnostic.help)}")
    return "\n".join(lines) + "\n"


def _excerpt(diagnostic: Diagnostic, source: SourceText, style: Style) -> Iterator[str]:
    number = str(diagnostic.line)
    margin = " " * len(number)
    room = max(min(LINE_WIDTH, style.width - len(margin) - _AROUND), 20)
    line, column = _window(sanitize(source.line(diagnostic.line)), diagnostic.column - 1, room)
    carets = "^" * max(1, display_width(line[column : column + diagnostic.width]))
    yield style.quiet(f"{margin} |")
    yield f"{style.quiet(f'{number} |')} {line}".rstrip()
    yield f"{style.quiet(f'{margin} |')} {' ' * display_width(line[:column])}{style.error(carets)}"


def _window(line: str, column: int, room: int) -> tuple[str, int]:
    """The part of a long line around a column, and the column in it."""
    if len(line) <= room:
        return line, column
    start = max(0, min(column - room // 3, len(line) - room))
    shown = line[start : start + room]
    before, after = "…" if start else "", "…" if start + room < len(line) else ""
    return before + shown + after, column - start + len(before)


def summary(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """How many files are fine, or how many problems there are."""
    found = [diagnostic.severity for one in checked for diagnostic in one.diagnostics]
    files = plural(len(checked), "workflow")
    if not found:
        return style.good(f"{files} checked, nothing to say.")
    errors, warnings = found.count(RuleSeverity.ERROR), found.count(RuleSeverity.WARNING)
    parts = [plural(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    paint = style.error if errors else style.warning
    ending = ' "awf explain CODE" tells more.'
    return paint(f"{files} checked, {' and '.join(parts)} found.") + ending


def as_json(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """One array of objects."""
    del style
    rows = [
        {
            "code": d.code,
            "severity": d.severity,
            "file": d.file,
            "line": d.line,
            "column": d.column,
            "message": d.message,
            "help": d.help,
            "stage": d.stage,
        }
        for one in checked
        for d in one.diagnostics
    ]
    return json.dumps(rows, indent=2) + "\n"


def github(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """Workflow commands that GitHub Actions turns into annotations."""
    del style
    return "".join(_annotation(diagnostic) for one in checked for diagnostic in one.diagnostics)


def _annotation(d: Diagnostic) -> str:
    properties = {
        "file": d.file,
        "line": d.line,
        "col": d.column,
        "endColumn": d.column + d.width,
        "title": f"{d.code} in {d.stage}" if d.stage else d.code,
    }
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = d.message + (f"\nhelp: {d.help}" if d.help else "")
    return f"::{d.severity} {written}::{_data(message)}\n"


def _data(value: object) -> str:
    return str(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def sarif(checked: Sequence[CheckedWorkflow], style: Style) -> str:
    """SARIF 2.1.0, with the rules that were broken."""
    del style
    found = [diagnostic for one in checked for diagnostic in one.diagnostics]
    broken = {diagnostic.code for diagnostic in found}
    rules = [
        {
            "id": rule.code,
            "name": rule.name,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": rule.page},
            "defaultConfiguration": {"level": rule.severity},
        }
        for rule in every_rule()
        if rule.code in broken
    ]
    driver = {"name": "awf", "version": __version__, "rules": rules}
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, index[diagnostic.code]) for diagnostic in found],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _result(d: Diagnostic, rule: int) -> dict[str, object]:
    region = {"startLine": d.line, "startColumn": d.column, "endColumn": d.column + d.width}
    place = {"artifactLocation": {"uri": _uri(d.file)}, "region": region}
    message = d.message + (f" ({d.help})" if d.help else "")
    return {
        "ruleId": d.code,
        "ruleIndex": rule,
        "level": d.severity,
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


FORMATS = {"text": text, "json": as_json, "github": github, "sarif": sarif}
