"""`awf`: the command group, and the one place where an error becomes an exit code."""

import gc
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import click

from pipeline import __version__
from pipeline.cli.terminal import Style, flush_streams, reopen_closed_streams
from pipeline.errors import AwfError, ExitCode
from pipeline.redaction import redactor_of
from pipeline.text import did_you_mean, sanitize

Commands = Mapping[str, tuple[str, str]]  # name -> where it is (module:attribute), and its purpose

COMMANDS: Commands = {
    "answer": ("pipeline.cli.answer:answer_command", "Answer a run that waits for a person."),
    "cancel": ("pipeline.cli.answer:cancel_command", "Cancel a run."),
    "config": ("pipeline.cli.config:command", "Show the settings and where each one is set."),
    "context": ("pipeline.cli.logs:context_command", "Print the context of a run."),
    "demo": ("pipeline.cli.demo:command", "Watch a sample project being reviewed and fixed."),
    "doctor": ("pipeline.cli.doctor:command", "Check which agents work here and what is missing."),
    "explain": ("pipeline.cli.diagnostics:explain_command", "Explain a rule and how to fix what it reports."),
    "findings": ("pipeline.cli.findings:command", "Import, list, explain and decide findings."),
    "init": ("pipeline.cli.init:command", "Propose the settings and the check of this project."),
    "logs": ("pipeline.cli.logs:logs_command", "Print the output of a tool or the answer of an agent."),
    "prompt": ("pipeline.cli.logs:prompt_command", "Print the full prompt of a stage."),
    "report": ("pipeline.cli.report:command", "Write a run as one page."),
    "resume": ("pipeline.cli.run:resume_command", "Resume a run where it stopped."),
    "review": ("pipeline.cli.review:command", "Review the current change."),
    "run": ("pipeline.cli.run:run_command", "Run a workflow."),
    "runs": ("pipeline.cli.runs:command", "List runs, newest first."),
    "serve": ("pipeline.cli.services:serve_command", "Show runs and findings in a browser."),
    "show": ("pipeline.cli.workflows:show_command", "Draw a workflow, or the workflow of a run."),
    "status": ("pipeline.cli.status:command", "Show where a run is and what to do next."),
    "validate": ("pipeline.cli.diagnostics:validate_command", "Check workflows and report all problems."),
    "verdict": ("pipeline.cli.findings.show:verdict_command", "Print the verdict on everything that is open."),
    "why": ("pipeline.cli.why:command", "Explain why a run took its path."),
    "worker": ("pipeline.cli.services:worker_command", "Run stages of a cluster's runs on this machine."),
    "workflows": ("pipeline.cli.workflows:workflows_command", "List the workflows available by name."),
}


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, so that help is quick."""

    lazy_commands: ClassVar[Commands] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.lazy_commands:
            return None
        module, _, attribute = self.lazy_commands[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(sorted((name, purpose) for name, (_, purpose) in self.lazy_commands.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], self.lazy_commands)
            raise click.UsageError(f"{error.message.rstrip('.')}; {hint}" if hint else error.message, ctx) from None


class Awf(LazyGroup):
    """All commands of `awf`."""

    lazy_commands: ClassVar[Commands] = COMMANDS

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; succeed if its reader closes the pipe, which click would report as a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            flush_streams()
            return ExitCode.SUCCESS


@click.command(cls=Awf, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="awf", message="%(prog)s %(version)s")
def awf() -> None:
    """Run AI-coding workflows that lose nothing they found."""


def main() -> None:
    """Run the command line and exit with its code."""
    reopen_closed_streams()
    code = exit_code(lambda: awf.main(prog_name="awf", standalone_mode=False))
    flush_streams()
    gc.freeze()  # all of it dies with the process: to look for cycles first takes 40 of the 240 ms of `awf status`
    if "temporalio" in sys.modules:
        # Shutting the interpreter down while one of Temporal's threads is inside it would abort the process and lose
        # the exit code (github.com/temporalio/sdk-python/issues/300).
        os._exit(code)
    sys.exit(code)


def exit_code(run: Callable[[], object]) -> int:
    """Run a command, print its error if it raises one, and return its exit code."""
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
    """Describe an operating system error that no command has translated."""
    try:
        Path.cwd()
    except OSError:
        return AwfError("the current directory no longer exists", help="change to another directory and try again")
    subject = error.filename or "a file or the output cannot be read or written"
    return AwfError(f"{subject}: {error.strerror or error}", help="correct this and try again")


def print_error(error: AwfError) -> None:
    """Print an error and its help without secrets and terminal control characters."""
    style, redactor = Style.of(sys.stderr), redactor_of(os.environ)
    with suppress(OSError):  # the exit code reports the error too
        click.echo(f"{style.error('error')}: {sanitize(redactor.text(error.message))}", err=True)
        if error.help:
            click.echo(f"{style.quiet('help')}: {sanitize(redactor.text(error.help))}", err=True)
