"""Generates the parts of the documentation that describe the program: `make docs`. `--check` only compares.

A generated part is between `<!-- NAME: made by make docs -->` and `<!-- end of NAME -->`. The rest of a page is
written by hand.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from docs.meanings import FUNCTIONS, KINDS, MEANINGS
from pydantic.fields import FieldInfo

from pipeline.app.check import every_rule
from pipeline.app.setting_table import DECLARATIONS
from pipeline.cli.main import awf
from pipeline.errors import ExitCode
from pipeline.findings.plugin import review_format
from pipeline.language import model
from pipeline.language.checks.conditions import VALUES
from pipeline.language.expressions import Expression
from pipeline.language.expressions.parse import Function
from pipeline.language.model import write_duration
from pipeline.plugins import hooks as specifications

HERE = Path(__file__).parent
PAGES = "../src/pipeline/language/rules"
WIDE = 100_000  # columns: Markdown needs no wrapping
_PART = re.compile(
    r"(?P<begin><!-- (?P<name>[\w.-]+): made by make docs -->\n).*?(?P<end><!-- end of (?P=name) -->)", re.DOTALL
)


def main(arguments: list[str]) -> int:
    """Write stale pages, or with `--check` name them and fail."""
    stale = {page: text for page in sorted(HERE.glob("*.md")) if (text := regenerate(page)) != page.read_text()}
    for page, text in stale.items():
        if "--check" not in arguments:
            page.write_text(text)
        print(f"{page.name}: {'stale, run make docs' if '--check' in arguments else 'written'}")
    return 1 if stale and "--check" in arguments else 0


def regenerate(page: Path) -> str:
    """Return the text of a page with its generated parts replaced."""
    return _PART.sub(lambda found: f"{found['begin']}\n{PARTS[found['name']]()}\n\n{found['end']}", page.read_text())


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def attributes(element: type[model.Element]) -> str:
    """Tabulate the attributes of an element with their values and defaults."""
    hidden = {"spans", "meta", "kind", *element.blocks.values(), *(["id"] if "id" in element.positional else [])}
    fields = {field.alias or name: field for name, field in element.model_fields.items() if name not in hidden}
    meanings = MEANINGS[element]
    if lost := fields.keys() ^ meanings.keys():
        raise KeyError(f"docs/meanings.py and {element.__name__} disagree about {', '.join(sorted(lost))}")
    rows = [
        (
            f"`{name}`{', an argument' if name in element.positional else ''}",
            _values(field.annotation),
            _default(field),
            meanings[name],
        )
        for name, field in fields.items()
    ]
    return table(("attribute", "value", "default", "meaning"), rows)


def _values(annotation: Any) -> str:
    """Describe the values that a type accepts."""
    while hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        parts = [_values(part) for part in get_args(annotation) if part is not type(None)]
        return " or ".join(part for part in parts if part != "a whole number" or "a number" not in parts)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return "names"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{value}`" for value in annotation)
    words = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    return {**words, timedelta: "a duration", Expression: "a condition"}[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    match field.default:
        case None | "" | ():
            return ""
        case bool(value):
            return f"`{str(value).lower()}`"
        case timedelta() as value:
            return f"`{write_duration(value)}`"
        case value:
            return f"`{value}`"


def functions() -> str:
    """Tabulate the functions of conditions."""
    rows = []
    for function in Function:
        usage, meaning = FUNCTIONS[function]
        values = " ".join(f"`{value}`" for value in VALUES.get(function, ()))
        rows.append((usage, f"{meaning}: {values}" if values else meaning))
    return table(("function", "value"), rows)


def stage_kinds() -> str:
    """Tabulate the kinds of stages."""
    return table(("kind", "meaning"), [(f"`{kind}`", KINDS[kind]) for kind in model.StageKind])


def rules() -> str:
    """Tabulate the rules, each with a link to its page."""
    rows = [(f"[{rule.code}]({PAGES}/{rule.code}.md)", rule.severity, rule.name, rule.summary) for rule in every_rule()]
    return table(("code", "severity", "name", "problem"), rows)


def hooks() -> str:
    """Tabulate the plugin hooks with their arguments, return types and docstrings."""
    rows = []
    for node in ast.parse(Path(specifications.__file__).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            arguments = ", ".join(f"`{argument.arg}`" for argument in node.args.args)
            returns = ast.unparse(node.returns) if node.returns else "None"
            purpose = " ".join((ast.get_docstring(node) or "").split())
            rows.append((f"`{node.name}`", arguments, f"`{returns}`" if returns != "None" else "", purpose))
    return table(("hook", "arguments", "returns", "purpose"), rows)


def settings() -> str:
    """Tabulate the settings with their values, what applies without them, and who may set them."""
    rows = [
        (
            f"`{declared.name}`",
            declared.type.at(0).words + (", several" if declared.type.several else ""),
            f"`{declared.default}`"
            if declared.default
            else declared.without or ("required" if declared.required else ""),
            declared.meaning,
            declared.setter,
        )
        for declared in DECLARATIONS
    ]
    return table(("setting", "value", "without it", "meaning", "who sets it"), rows)


def exit_codes() -> str:
    """Tabulate the exit codes."""
    return table(("exit code", "meaning"), [(f"`{code.value}`", code.meaning) for code in ExitCode])


def commands() -> str:
    """Describe every command with its usage, its help and its options."""
    return "\n\n".join(_sections(awf, click.Context(awf, info_name="awf", terminal_width=WIDE, max_content_width=WIDE)))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = "```\n" + " ".join(command.get_usage(context).split()).removeprefix("Usage: ") + "\n```"
    help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    options = [_option(option, context) for option in command.params if isinstance(option, click.Option)]
    parts = (f"## {context.command_path}", help, usage, table(("option", "description"), options) if options else "")
    yield "\n\n".join(filter(None, parts))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is None:
                raise KeyError(f"{context.command_path} lists {name} but does not have it")
            yield from _sections(child, click.Context(child, info_name=name, parent=context))


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    if record is None or not option.help:
        raise KeyError(f"{context.command_path} {option.name} has no help")
    names, description = record
    return f"`{names}`", " ".join(description.split())


ELEMENTS: Mapping[str, type[model.Element]] = {
    "workflow": model.Workflow,
    "settings": model.WorkflowSettings,
    "input": model.WorkflowInput,
    "models": model.Models,
    "profile": model.Profile,
    "llm": model.LlmStage,
    "tool": model.ToolStage,
    "human": model.HumanStage,
    "option": model.HumanOption,
    "route": model.DecisionRoute,
    "triage": model.TriageStage,
    "parallel": model.ParallelStage,
    "branch": model.Branch,
    "workspace": model.WorkspaceStage,
    "retry": model.Retry,
    "transition": model.Transition,
    "loop": model.Loop,
    "loop-exit": model.LoopExit,
}


def answer_format() -> str:
    """Return what agents are told about the form of their answers, without its heading."""
    return review_format().partition("\n")[2].strip()


PARTS: Mapping[str, Callable[[], str]] = {
    **{name: partial(attributes, element) for name, element in ELEMENTS.items()},
    "stage-kinds": stage_kinds,
    "functions": functions,
    "rules": rules,
    "hooks": hooks,
    "exit-codes": exit_codes,
    "config": settings,
    "commands": commands,
    "review-format": answer_format,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
