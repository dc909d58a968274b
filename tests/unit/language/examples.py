"""Workflows written as text, checked."""

import re
from collections.abc import Callable

from pipeline.app.check import CheckedWorkflow, check_draft
from pipeline.language.diagnostics import Diagnostic
from pipeline.language.reader import parse_workflow
from pipeline.language.source import decode


def check_text(
    text: str, prompt_text: Callable[[str], str | None] = {"prompts/plan.md": "Plan it"}.get
) -> CheckedWorkflow:
    """Check a whole file."""
    return check_draft(parse_workflow(decode("example.awf.kdl", text.encode())), prompt_text)


def codes(text: str) -> list[str]:
    """The codes of a file's diagnostics, by position."""
    return [diagnostic.code for diagnostic in check_text(text).diagnostics]


def whole(example: str) -> str:
    """An example as a file: with the header, the start and the exit that it leaves out."""
    if example.startswith("workflow"):
        return example
    first = re.search(r'stage "([^"]*)"', example)
    assert first is not None
    exit_stage = "" if 'kind="exit"' in example else 'stage "done" kind="exit"\n'
    return f'workflow "Example" {{\nversion 2\nstart "{first[1]}"\n{example}\n{exit_stage}}}\n'


def bounded(lines: str) -> str:
    """The same, with a limit for its loops."""
    return whole(f"settings {{ max_visits 5; }}\n{lines}\n")


def marked(text: str, found: Diagnostic) -> str:
    """The part of a line that a diagnostic marks."""
    start = found.column - 1
    return text.splitlines()[found.line - 1][start : start + found.width]


def problems(text: str) -> list[tuple[str, str]]:
    """The code of each diagnostic and what it marks."""
    return [(found.code, marked(text, found)) for found in check_text(text).diagnostics]
