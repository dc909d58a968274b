"""Writes the parts of the documentation that follow from the program: `make docs`. With `--check` it only compares.

A part stands between `<!-- NAME: made by make docs -->` and `<!-- end of NAME -->`; the rest of a page is written by
hand.
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
from docs.meanings import EXIT_CODES, FUNCTIONS, KINDS, MEANINGS
from pydantic.fields import FieldInfo

from pipeline.app.check import every_rule
from pipeline.cli.main import awf
from pipeline.errors import ExitCode
from pipeline.language import model
from pipeline.language.checks.conditions import VALUES
from pipeline.language.expressions import Expression
from pipeline.language.expressions.parse import Function
from pipeline.language.model import write_duration
from pipeline.plugins import hooks as specifications

HERE = Path(__file__).parent
PAGES = "../src/pipeline/language/rules"
WIDE = 100_000  # columns: Markdown wraps by itself
_PART = re.compile(
    r"(?P<begin><!-- (?P<name>[\w.-]+): made by make docs -->\n).*?(?P<end><!-- end of (?P=name) -->)", re.DOTALL
)


def main(arguments: list[str]) -> int:
    """Write what is stale, or with `--check` name it and fail."""
    stale = {page: text for page in sorted(HERE.glob("*.md")) if (text := renewed(page)) != page.read_text()}
    for page, text in stale.items():
        if "--check" not in arguments:
            page.write_text(text)
        print(f"{page.name} {'is stale: run make docs' if '--check' in arguments else 'is written'}")
    return 1 if stale and "--check" in arguments else 0


def renewed(page: Path) -> str:
    """A page with its parts made anew."""
    return _PART.sub(lambda found: f"{found['begin']}\n{PARTS[found['name']]()}\n\n{found['end']}", page.read_text())


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def attributes(element: type[model.Element]) -> str:
    """What an author may write in one element, with its values and defaults."""
    hidden = {"spans", "meta", "kind", *element.blocks.values(), *(["id"] if "id" in element.positional else [])}
    fields = {field.alias or name: field for name, field in element.model_fields.items() if name not in hidden}
    meanings = MEANINGS[element]
    if lost := fields.keys() ^ meanings.keys():
        raise KeyError(f"docs/meanings.py and {element.__name__} do not agree about {', '.join(sorted(lost))}")
    rows = [
        (f"`{name}`{_place(name, element)}", _values(field.annotation), _default(field), meanings[name])
        for name, field in fields.items()
    ]
    return table(("attribute", "value", "default", "meaning"), rows)


def _place(name: str, element: type[model.Element]) -> str:
    return ", an argument" if name in element.positional else ""


def _values(annotation: Any) -> str:
    """What may be written for a type."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_values(part) for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return "names"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{value}`" for value in annotation)
    words = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    return {**words, timedelta: "a duration", Expression: "a condition"}[_plain(annotation)]


def _plain(annotation: Any) -> Any:
    """A type without what is said about it."""
    return _plain(get_args(annotation)[0]) if hasattr(annotation, "__metadata__") else annotation


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
    """What a condition may ask."""
    rows = [(FUNCTIONS[one][0], _gives(one)) for one in Function]
    return table(("function", "value"), rows)


def _gives(function: Function) -> str:
    values = VALUES.get(function, ())
    return FUNCTIONS[function][1] + (": " + " ".join(f"`{value}`" for value in values) if values else "")


def stage_kinds() -> str:
    """Every kind of stage."""
    return table(("kind", "meaning"), [(f"`{kind}`", KINDS[kind]) for kind in model.StageKind])


def rules() -> str:
    """Every rule, with a link to its page."""
    rows = [(f"[{rule.code}]({PAGES}/{rule.code}.md)", rule.severity, rule.name, rule.summary) for rule in every_rule()]
    return table(("code", "severity", "name", "problem"), rows)


def hooks() -> str:
    """Every hook of plugins: what it is given and what it gives, as its specification says."""
    tree = ast.parse(Path(specifications.__file__).read_text())
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return table(("hook", "arguments", "returns", "purpose"), map(_hook, defined))


def _hook(node: ast.FunctionDef) -> tuple[str, ...]:
    given = ", ".join(f"`{argument.arg}`" for argument in node.args.args)
    gives = f"`{ast.unparse(node.returns)}`" if node.returns and ast.unparse(node.returns) != "None" else ""
    return f"`{node.name}`", given, gives, " ".join((ast.get_docstring(node) or "").split())


def exit_codes() -> str:
    """What the shell is told."""
    return table(("exit code", "means"), [(f"`{code.value}`", EXIT_CODES[code]) for code in ExitCode])


def commands() -> str:
    """Every command with its usage, its help and its options."""
    return "\n\n".join(_sections(awf, click.Context(awf, info_name="awf", terminal_width=WIDE, max_content_width=WIDE)))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    yield _section(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is None:
                raise KeyError(f"{context.command_path} lists {name} and does not have it")
            yield from _sections(child, click.Context(child, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> str:
    usage = "```\n" + " ".join(command.get_usage(context).split()).removeprefix("Usage: ") + "\n```"
    said = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    options = [_option(option, context) for option in command.params if isinstance(option, click.Option)]
    parts = (f"## {context.command_path}", said, usage, table(("option", "does"), options) if options else "")
    return "\n\n".join(filter(None, parts))


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    if record is None or not option.help:
        raise KeyError(f"{context.command_path} {option.name} has no help")
    names, words = record
    return f"`{names}`", " ".join(words.split())


ELEMENTS: Mapping[str, type[model.Element]] = {
    "workflow": model.Workflow,
    "settings": model.WorkflowSettings,
    "models": model.Models,
    "profile": model.Profile,
    "llm": model.LlmStage,
    "tool": model.ToolStage,
    "human": model.HumanStage,
    "option": model.HumanOption,
    "route": model.DecisionRoute,
    "parallel": model.ParallelStage,
    "branch": model.Branch,
    "workspace": model.WorkspaceStage,
    "retry": model.Retry,
    "transition": model.Transition,
    "loop": model.Loop,
    "loop-exit": model.LoopExit,
}
PARTS: Mapping[str, Callable[[], str]] = {
    **{name: partial(attributes, element) for name, element in ELEMENTS.items()},
    "stage-kinds": stage_kinds,
    "functions": functions,
    "rules": rules,
    "hooks": hooks,
    "exit-codes": exit_codes,
    "commands": commands,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
