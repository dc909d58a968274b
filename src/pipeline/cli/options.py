"""Options that several commands share, and the settings they work with."""

import os
import shlex
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeline.cli.location import default_store, project, settings_paths
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.text import sanitize

if TYPE_CHECKING:
    from pipeline.app.setting_paths import SettingsPaths
    from pipeline.app.settings import LoadedSettings, Settings

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_JSON_HELP = "name a readable JSON file in UTF-8"

store_option = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_store,
    help="Directory of the runs. [default: the nearest .awf, here or in a parent directory]",
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
visit_option = click.option("--visit", type=click.IntRange(min=1), metavar="N", help="The visit. [default: the last]")
attempt_option = click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="The attempt of the visit. [default: the last]"
)
script_option = click.option("--script", type=_FILE, help="JSON file with replies for the scripted backend.")
agent_command_option = click.option("--agent-command", help="Program for the command or acp backend.")


def agent_options(command: F) -> F:
    """Add the options that `read_agent_options` takes."""
    options = (
        click.option("--backend", help="The agent for stages that name none, such as claude or command."),
        script_option,
        agent_command_option,
        click.option("--answers", type=_FILE, help="JSON file with answers for human stages."),
        click.option(
            "--summary-budget",
            type=click.IntRange(1000),
            metavar="N",
            help="Maximum length of the summary that precedes a prompt, in characters.",
        ),
        click.option(
            "--on-error",
            type=click.Choice(["pause", "fail"]),
            help="What to do when a stage cannot do its job. [default: pause]",
        ),
        click.option(
            "--auto-approve",
            is_flag=True,
            help="Choose the approving option instead of asking a person; never against a FAIL or ABORT.",
        ),
    )
    for option in reversed(options):
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
    """Return the given options with the contents of their files, which a resume does not need again."""
    from pipeline.app.responders import read_answers  # noqa: PLC0415 - brings the driver, and only runs need it
    from pipeline.backends.agents.scripted import load_script  # noqa: PLC0415 - as above

    replies = None
    if script:
        replies = read_text(script, _JSON_HELP)
        load_script(replies)  # refuse a bad file now, not at its first stage
    program: list[str] | None = None
    if agent_command:
        program = list(split_command(agent_command, "--agent-command"))
        name = next(iter(program), "")
        if "/" in name and not os.path.isabs(name) and Path.cwd() != project():  # noqa: PTH117 - a Path would drop ./
            program[0] = f"./{os.path.relpath(name, project())}"  # the run works at the root of the project
    given = {
        "backend": backend or ("scripted" if script else None),
        "script": replies,
        "agent_command": program,
        "answers": read_answers(read_text(answers, _JSON_HELP)) if answers else None,
        "summary_budget": summary_budget,
        "on_error": on_error,
        "auto_approve": auto_approve or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def split_command(command: str, option: str) -> tuple[str, ...]:
    """Split the value of an option into a program and its arguments."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise AwfError(f'{option} "{command}": {error}', help="quote it as in a shell") from None


def settings_or_defaults() -> "Settings":
    """Load the settings for a command that only reads; files with errors count as empty."""
    from pipeline.app.settings import NOTHING_SET  # noqa: PLC0415 - takes 40 ms; help and options need no settings

    loaded = _load_settings(settings_paths())
    return loaded.settings if not loaded.problems else NOTHING_SET


def current_settings() -> "Settings":
    """Load the settings; print every error in their files and raise AwfError if there are any."""
    from pipeline.cli.diagnostics import format_diagnostic  # noqa: PLC0415 - brings the checks of workflows

    loaded = _load_settings(settings_paths())
    if not loaded.problems:
        return loaded.settings
    style = Style.of(sys.stderr)
    for source, problems in loaded.problems:
        click.echo("\n".join(format_diagnostic(problem, source, style) for problem in problems), err=True)
    names = " and ".join(f'"{source.name}"' for source, _ in loaded.problems)
    raise AwfError(f"errors in the settings {names}", help="fix them or remove the file")


@cache  # once per command, which may ask for its settings several times
def _load_settings(paths: "SettingsPaths") -> "LoadedSettings":
    from pipeline.app.settings import load_settings  # noqa: PLC0415 - as above

    loaded = load_settings(paths)
    if loaded.ignored:
        click.echo(f"note: {sanitize(loaded.ignored)}", err=True)
    return loaded
