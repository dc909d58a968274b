"""Options that several commands share."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline.app.responders import read_answers
from pipeline.app.settings import NOTHING_SET, LoadedSettings, Settings, SettingsPaths, load_settings
from pipeline.backends.agents.scripted import load_script
from pipeline.cli.diagnostics import block
from pipeline.cli.location import default_store, home, nearest_store, project
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.language.model import Workflow
from pipeline.text import did_you_mean

store_option = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_store,
    help="Where runs live. [default: the .awf found upwards from here]",
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
log_option = click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the run's events to a file, one JSON object a line.",
)
wait_option = click.option(
    "--wait", "stay", is_flag=True, help="Wait for `awf answer`, or for a quota to reset, instead of stopping."
)
detach_option = click.option("--detach", is_flag=True, help="On a cluster: hand the run over, and do not watch it.")
visit_option = click.option(
    "--visit", type=click.IntRange(min=1), metavar="N", help="Which visit; the last by default."
)
attempt_option = click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Which attempt at it; the last by default."
)


def settings_files() -> SettingsPaths:
    """Where the settings files are for this user and the project around this directory."""
    project = Path(os.path.normpath(Path.cwd() / nearest_store() / "config.kdl"))
    return replace(SettingsPaths.of(Path.cwd(), home(), os.environ), project=project)


def settings_or_defaults() -> Settings:
    """The settings in force here, for a command that only looks: what has errors says nothing."""
    loaded = _load_once(settings_files())
    _note_ignored(loaded.ignored)
    return loaded.settings if not loaded.problems else NOTHING_SET


def current_settings() -> Settings:
    """The settings in force here; a file with errors stops the command, whatever it was to do."""
    loaded = _load_once(settings_files())
    if not loaded.problems:
        _note_ignored(loaded.ignored)
        return loaded.settings
    style = Style.of(sys.stderr)
    for source, diagnostics in loaded.problems:
        click.echo("\n".join(block(one, source, style) for one in diagnostics), err=True)
    names = " and ".join(f'"{source.name}"' for source, _ in loaded.problems)
    raise AwfError(f"the settings in {names} have errors", help="fix them or remove the file")


@cache  # a command asks for its settings several times
def _load_once(paths: SettingsPaths) -> LoadedSettings:
    return load_settings(paths)


@cache  # noted once per command
def _note_ignored(ignored: str) -> None:
    if ignored:
        click.echo(f"note: {sanitize(ignored)}", err=True)


F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)
_JSON = "name a file of JSON in UTF-8 that you may read"
script_option = click.option("--script", type=_FILE, help="Replies for the scripted backend.")
agent_command_option = click.option("--agent-command", help="The program of the command or acp backend.")
_OPTIONS = (
    click.option("--backend", help="The agent for stages that name none, such as claude or command."),
    script_option,
    agent_command_option,
    click.option("--answers", type=_FILE, help="Answers to human stages."),
    click.option("--summary-budget", type=click.IntRange(1000), help="Characters about the run that agents are given."),
    click.option(
        "--on-error",
        type=click.Choice(["pause", "fail"]),
        help="What a stage that cannot do its job does to the run. [default: pause]",
    ),
    click.option("--auto-approve", is_flag=True, help="Take the approving option wherever a person would be asked."),
)


def agent_options(command: F) -> F:
    """Give a command the options about who works: what `working_options` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_agent_options(
    backend: str | None,
    script: Path | None,
    agent_command: str | None,
    answers: Path | None = None,
    *,
    summary_budget: int | None = None,
    on_error: str | None = None,
    auto_approve: bool = False,
) -> dict[str, Any]:
    """What was given, with the files' contents: a run is taken up again without them. Wrong files are told at once."""
    given = {
        "backend": backend or ("scripted" if script else None),
        "script": _script(script) if script else None,
        "agent_command": _from_the_root(*split_command(agent_command, "--agent-command")) if agent_command else None,
        "answers": read_answers(read_text(answers, _JSON)) if answers else None,
        "summary_budget": summary_budget,
        "on_error": on_error,
        "auto_approve": auto_approve or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def unknown_stage_notes(options: Mapping[str, Any], workflow: Workflow) -> Iterator[str]:
    """What was given for stages that are not there: by a mistyped name a review passes that was to fail."""
    named = {"script": json.loads(options.get("script", "{}")), "answers": options.get("answers", {})}
    for option, stages in named.items():
        for name in stages:
            if name not in workflow.by_id:
                help = did_you_mean(name, workflow.by_id) or "it is left aside"
                yield f'--{option} names the stage "{name}", which is not in the workflow; {help}'


def split_command(command: str, option: str) -> tuple[str, ...]:
    """A program and its arguments, as an option gives them."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        said = f'"{command}" for {option} cannot be taken apart: {error}'
        raise AwfError(said, help="write it as in a shell, with its quotes closed") from None


def _from_the_root(program: str = "", *arguments: str) -> list[str]:
    """A command in which a relative path to the program starts at the project's root, where the run works."""
    if "/" in program and not os.path.isabs(program) and Path.cwd() != project():  # noqa: PTH117 - no path is made of it
        program = f"./{os.path.relpath(program, project())}"
    return [program, *arguments] if program else []


def _script(path: Path) -> str:
    text = read_text(path, _JSON)
    load_script(text)
    return text
