"""The error tree and the exit codes: what a failure is called, from a function up to the shell."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `awf` tells the shell."""

    SUCCESS = 0
    RUN_FAILED = 1
    USAGE = 2  # wrong usage, or a workflow with errors
    PAUSED = 3  # paused at a limit, or waiting for a person
    CANCELLED = 130


class AwfError(Exception):
    """Something went wrong that the person at the keyboard can do something about."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
