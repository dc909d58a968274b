"""The errors of what the engine needs from outside. Whoever only handles them loads nothing else of the engine."""

from pipeline.errors import AwfError, ExitCode


class JournalError(AwfError):
    """The journal cannot be read or written. What was recorded stays as it is."""

    exit_code = ExitCode.RUN_FAILED


class RunExists(JournalError):
    """A run of this name already exists."""

    exit_code = ExitCode.USAGE


class UnknownRun(AwfError):
    """There is no run of this name."""


class RunIsOwned(AwfError):
    """Another process is driving this run."""


class PluginFailed(AwfError):
    """A plugin raised while the run depended on it."""

    def __init__(self, plugin: str, hook: str, error: BaseException) -> None:
        cause = error.message if isinstance(error, AwfError) else f"{type(error).__name__}: {error}"
        super().__init__(f'plugin "{plugin}" failed in {hook}: {cause}', help="fix or remove the plugin")
        self.plugin, self.hook = plugin, hook


class WorkspaceError(AwfError):
    """A workspace could not be created, committed, merged or removed."""

    exit_code = ExitCode.RUN_FAILED
