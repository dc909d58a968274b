"""Tool stages: a shell command in a process group of its own; its exit code is the outcome.

A command that fails is a result. One that could not be run, or whose report cannot be read, is an error.
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from pipeline.engine.context import Key
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment, ExitReason, Job, ProcessCommand, Processes, ProcessResult, ReadReport
from pipeline.handlers.variables import ShellCommand, context_text, shell_command
from pipeline.language.model import FindingsFormat, ToolStage

LARGEST_VALUE = 100_000  # bytes that fit into an environment variable with room to spare
REPORT = "report"  # the file a command may write what it found to, instead of printing it

_NOT_RUN = {126: "the command cannot be executed", 127: "the command was not found"}  # exit codes of the shell

Environment = Callable[[Collection[str]], Mapping[str, str]]


def _unread(job: Job, report: Path) -> Assessment:
    """Say that nobody reads reports."""
    del job, report
    return Assessment(problem="nothing here reads reports")


class ToolHandler:
    """Runs commands. `environment` gives the clean environment, with the names a command asks for."""

    def __init__(
        self,
        processes: Processes,
        environment: Environment,
        variables: Callable[[Job], Mapping[str, str]],
        read: ReadReport = _unread,
    ) -> None:
        self._processes = processes
        self._environment = environment
        self._more_variables = variables
        self._read = read

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, ToolStage)  # noqa: S101 - the registry sees to it
        command = shell_command(stage.command)
        if too_large := _too_large(job, command):
            return too_large
        directory = (job.directory / (stage.cwd or "")).resolve()
        if not directory.is_relative_to(job.directory.resolve()):
            return _cannot_run(f'the directory "{stage.cwd}" lies outside the workspace')
        finished = await self._processes.run(
            ProcessCommand(
                argv=("/bin/sh", "-c", command.text),
                cwd=directory,
                env=self._variables(job, command),
                artifacts=job.artifacts,
                timeout=stage.timeout.total_seconds(),
            ),
            on_line=lambda line: job.emit({"text": line.decode(errors="replace")}),
        )
        outcome = tool_outcome(job, finished)
        if stage.findings is FindingsFormat.TEXT or outcome.status is Status.ERROR:
            return outcome
        written = job.artifacts / REPORT
        return apply_report(outcome, self._read(job, written if written.is_file() else finished.stdout))

    def _variables(self, job: Job, command: ShellCommand) -> dict[str, str]:
        return {
            **self._environment(command.mentions),
            "AWF_GOAL": job.state.goal,
            **job.variables,
            **self._more_variables(job),
            "AWF_REPORT": str(job.artifacts.absolute() / REPORT),
            **{name: _no_nul(context_text(job.context, key)) for name, key in command.keys.items()},
        }


def tool_outcome(job: Job, finished: ProcessResult) -> Outcome:
    """What the end of a command means."""
    logs = {"stdout": job.relative_path(finished.stdout), "stderr": job.relative_path(finished.stderr)}
    response = "\n".join(tail for tail in (finished.stdout_tail, finished.stderr_tail) if tail)
    common = {
        "response": response,
        "duration": finished.duration,
        "logs": logs,
        "updates": {Key.TOOL_OUTPUT: response},
        "source": StatusSource.EXIT_CODE,
    }
    if finished.ending is ExitReason.EXITED and finished.exit_code == 0:
        return Outcome(status=Status.SUCCESS, **common)
    kind, words = _what_happened(finished)
    line = (
        failure_headline(finished.stdout_tail, finished.stderr_tail, words)
        if kind is FailureClass.EXIT_NONZERO
        else words
    )
    failure = Failure(
        kind=kind,
        digest=line,
        exit_code=finished.exit_code,
        stdout_tail=finished.stdout_tail,
        stderr_tail=finished.stderr_tail,
    )
    status = Status.ERROR if kind is FailureClass.SPAWN_ERROR else Status.FAIL
    return Outcome(status=status, reason=line, failure=failure, **common)


def apply_report(outcome: Outcome, judged: Assessment) -> Outcome:
    """The worse of how a command ended and what it reported; an error when nobody can read what it reported."""
    if judged.problem:
        ended = f" ({outcome.reason})" if outcome.reason else ""
        reason = f"its report cannot be read: {judged.problem}{ended}"
        before = outcome.failure or Failure(kind=FailureClass.PROTOCOL)
        failure = before.model_copy(update={"kind": FailureClass.PROTOCOL, "digest": reason})
        return outcome.model_copy(update={"status": Status.ERROR, "reason": reason, "failure": failure})
    if not outcome.status.passes:
        return outcome.model_copy(update={"reason": judged.reason or outcome.reason})
    if judged.status is Status.SUCCESS:
        return outcome
    return outcome.model_copy(
        update={"status": judged.status, "source": StatusSource.STRUCTURED, "reason": judged.reason}
    )


def _what_happened(finished: ProcessResult) -> tuple[FailureClass, str]:
    match finished.ending:
        case ExitReason.EXITED if finished.exit_code in _NOT_RUN:
            last = next((line for line in reversed(finished.stderr_tail.splitlines()) if line.strip()), "")
            return FailureClass.SPAWN_ERROR, f"{_NOT_RUN[finished.exit_code]}: {last.strip()}".removesuffix(": ")
        case ExitReason.EXITED:
            return FailureClass.EXIT_NONZERO, f"exit code {finished.exit_code}"
        case ExitReason.TIMEOUT | ExitReason.IDLE:
            return FailureClass.TIMEOUT, f"stopped after {finished.duration:.1f} s without an end"
        case ExitReason.SIGNAL:
            return FailureClass.SIGNAL, f"killed by {finished.message}"
        case ExitReason.SPAWN_ERROR:
            return FailureClass.SPAWN_ERROR, finished.message


def _too_large(job: Job, command: ShellCommand) -> Outcome | None:
    """The error of a command that needs a value no environment can hold; the value is written to a file."""
    for key in command.keys.values():
        value = context_text(job.context, key)
        if len(value.encode(errors="replace")) > LARGEST_VALUE:
            job.artifacts.mkdir(parents=True, exist_ok=True)
            path = job.artifacts / "value.txt"
            path.write_text(value, "utf-8", errors="replace")
            return _cannot_run(f'the context value "{key}" is too long for a command; it is in {path}')
    return None


def _cannot_run(reason: str) -> Outcome:
    failure = Failure(kind=FailureClass.SPAWN_ERROR, digest=reason)
    return Outcome(status=Status.ERROR, source=StatusSource.EXIT_CODE, reason=reason, failure=failure)


def _no_nul(text: str) -> str:
    """Environment variables cannot hold NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")  # and links, cursors, titles
# From the most telling to the least; the first that is found is the digest.
_TELLING = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) [^(\s].*$",  # pytest
        r"^--- FAIL: .*$",  # go test
        r"^[ \t]*(?:✕|✖|×|not ok) .*$",  # jest, mocha, TAP
        r"^(?:FAIL|ERROR): .*$",  # unittest
        r"^test .* \.\.\. FAILED$",  # cargo test
        r"^.*\b[1-9]\d* (?:failed|failures?|errors?)\b.*$",
        r"^.*\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL)\b.*$",
        r"^.*\b(?:[Ff]ail(?:ed|ure)?|FAIL(?:ED)?)\b.*$",
    )
)
LONGEST_HEADLINE = 200


def failure_headline(stdout: str, stderr: str, otherwise: str) -> str:
    """The first failing test, a count of failures, or the first error line; `otherwise` when none is to be seen."""
    stdout, stderr = (_COLOURS.sub("", text) if "\x1b" in text else text for text in (stdout, stderr))
    for pattern in _TELLING:
        for text in (stdout, stderr):
            if found := pattern.search(text):
                return _one_line(found[0])
    last = next((line for line in reversed((stderr or stdout).splitlines()) if line.strip()), "")
    return _one_line(f"{otherwise}: {last.strip()}" if last else otherwise)


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 10 * LONGEST_HEADLINE]).split())
    return line if len(line) <= LONGEST_HEADLINE else line[: LONGEST_HEADLINE - 1] + "…"
