"""The error that people see, and the exit codes of `awf`."""

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """The exit codes of `awf`, each with its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    SUCCESS = 0, "success"
    RUN_FAILED = (
        1,
        "the run or its change failed; `awf verdict` says not ready; an import is incomplete; an answer is too late",
    )
    USAGE = 2, "wrong usage, an invalid workflow, or a file or run that does not exist"
    PAUSED = 3, "the run is paused or waits for a person"
    CANCELLED = 130, "the run was cancelled or the command was interrupted"


class AwfError(Exception):
    """An error that the user can do something about: what happened, and in `help` what to do."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
