"""`awf`: the group of commands, and the one place where an error becomes an exit code."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import click

from pipeline import __version__
from pipeline.cli import terminal as streams
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.text import did_you_mean

Commands = Mapping[str, tuple[str, str]]  # the module whose `command` it is, and what it is for


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are used."""

    commands_known: ClassVar[Commands] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(self.commands_known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.commands_known:
            return None
        found: click.Command = importlib.import_module(self.commands_known[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(sorted((name, purpose) for name, (_, purpose) in self.commands_known.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], self.commands_known)
            raise click.UsageError(f"{error.message.rstrip('.')}; {hint}" if hint else error.message, ctx) from None


# What each command is for; its module in this package has its name and holds a click command called `command`.
COMMANDS = {
    "answer": "Answer a run that waits for a person, from anywhere.",
    "cancel": "Stop a run, from anywhere.",
    "config": "Print the settings in force, and where each was set.",
    "context": "Print what a run keeps.",
    "demo": "Watch a run: a small project with defects, found and repaired.",
    "doctor": "Show which agents are there, and what a run lacks.",
    "explain": "Print what a rule checks, why, and how to mend it.",
    "findings": "Take in, list, explain and decide what reviews and tools found.",
    "logs": "Print what a tool wrote, or an agent answered.",
    "prompt": "Print the whole text that a stage's agent received.",
    "report": "Write what a run did as one page, for people.",
    "resume": "Resume a run where it stopped.",
    "run": "Run a workflow.",
    "runs": "List the runs, the newest first.",
    "serve": "Show runs and findings in a browser, as they happen.",
    "show": "Draw a workflow, or that of a run.",
    "status": "Show where a run is, and what to do next.",
    "validate": "Check workflows and say everything that is wrong with them.",
    "verdict": "Tell what the findings come to.",
    "why": "Tell why a run went where it went.",
    "worker": "Run the stages of a cluster's runs on this machine.",
    "workflows": "List the workflows that are found by name.",
}


class Awf(LazyGroup):
    """All commands."""

    commands_known: ClassVar[Commands] = {name: (f"pipeline.cli.{name}", purpose) for name, purpose in COMMANDS.items()}

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; one whose reader has had enough ends well, which click would call a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            streams.flush_streams()
            return ExitCode.SUCCESS


@click.command(cls=Awf, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="awf", message="%(prog)s %(version)s")
def awf() -> None:
    """Run AI-coding workflows that lose nothing they found."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    streams.reopen_closed_streams()
    code = exit_code(lambda: awf.main(prog_name="awf", standalone_mode=False))
    streams.flush_streams()
    if "temporalio" in sys.modules:
        # Taking the interpreter apart while a thread of Temporal's library is inside it would abort the process, and
        # its exit code be lost (github.com/temporalio/sdk-python/issues/300).
        os._exit(code)
    sys.exit(code)


def exit_code(run: Callable[[], object]) -> int:
    """Run a command; tell a person what went wrong, and the shell by a number."""
    try:
        result = run()
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except AwfError as error:
        print_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.CANCELLED
    except OSError as error:
        print_error(_translate_os_error(error))
        return ExitCode.RUN_FAILED
    return result if isinstance(result, int) else ExitCode.SUCCESS


def _translate_os_error(error: OSError) -> AwfError:
    """What the system says that nobody has put into better words."""
    try:
        Path.cwd()
    except OSError:
        return AwfError("the current directory is no longer there", help="go to another one with cd, and try again")
    what = error.filename or "the output, or a file, cannot be written or read"
    return AwfError(f"{what}: {error.strerror or error}", help="put that right, and try again")


def print_error(error: AwfError) -> None:
    """Print an error and what to do about it, but no secret, and nothing that acts on a terminal."""
    from pipeline.redaction import redactor_of  # noqa: PLC0415 - only an error needs it

    style, redactor = Style.of(sys.stderr), redactor_of(os.environ)
    with suppress(OSError):  # the exit code says it too
        click.echo(f"{style.error('error')}: {sanitize(redactor.text(error.message))}", err=True)
        if error.help:
            click.echo(f"{style.quiet('help')}: {sanitize(redactor.text(error.help))}", err=True)
