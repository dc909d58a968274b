"""Tool stages: a shell command in a process group of its own, whose exit code is the outcome.

A command that fails is a result. One that could not be run, or whose report cannot be read, is an error.
"""

import re
from collections.abc import Callable, Collection, Mapping

from pipeline.engine.context import Key, input_key
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment, ExitReason, Job, ProcessCommand, Processes, ProcessResult, ReadReport
from pipeline.handlers.variables import context_text, input_variable, shell_command
from pipeline.language.model import FindingsFormat, ToolStage
from pipeline.text import REPLACEMENT, last_line, one_line, sanitize_block

LARGEST_VALUE = 100_000  # bytes that fit into an environment variable with room to spare
LONGEST_HEADLINE = 200
REPORT = "report"  # the file to which a command may write what it found instead of printing it

_NOT_RUN = {126: "the command cannot be executed", 127: "the command was not found"}  # exit codes of the shell
# From the most to the least telling; the first that matches is the headline.
_HEADLINES = tuple(
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

Environment = Callable[[Collection[str]], Mapping[str, str]]


class ToolHandler:
    """Runs commands with the variables that `environment` allows, those of plugins, and the context values they use."""

    def __init__(
        self,
        processes: Processes,
        environment: Environment,
        plugin_variables: Callable[[Job], Mapping[str, str]],
        read_report: ReadReport,
    ) -> None:
        self._processes = processes
        self._environment = environment
        self._plugin_variables = plugin_variables
        self._read_report = read_report

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, ToolStage)  # noqa: S101 - ensured by the registry
        command = shell_command(stage.command)
        inputs = {input_variable(item.name): input_key(item.name) for item in job.state.workflow.inputs}
        keys = {**inputs, **command.keys}
        values = {name: context_text(job.context, key) for name, key in keys.items()}
        for name, value in values.items():
            if len(value.encode(errors="replace")) > LARGEST_VALUE:
                job.artifacts.mkdir(parents=True, exist_ok=True)
                path = job.artifacts / "value.txt"
                path.write_text(value, "utf-8", errors="replace")
                return _cannot_run(f'the context value "{keys[name]}" is too long for a command; it is in {path}')
        directory = (job.directory / (stage.cwd or "")).resolve()
        if not directory.is_relative_to(job.directory.resolve()):
            return _cannot_run(f'the directory "{stage.cwd}" lies outside the workspace')
        result = await self._processes.run(
            ProcessCommand(
                argv=("/bin/sh", "-c", command.text),
                cwd=directory,
                env={
                    **self._environment(command.mentions),
                    "AWF_GOAL": job.state.goal,
                    **job.variables,
                    **self._plugin_variables(job),
                    "AWF_REPORT": str(job.artifacts.absolute() / REPORT),
                    **{name: value.replace("\0", REPLACEMENT) for name, value in values.items()},
                },
                artifacts=job.artifacts,
                timeout=stage.timeout.total_seconds(),
            ),
            on_line=lambda line: job.emit({"text": line.decode(errors="replace")}),
        )
        outcome = tool_outcome(job, result)
        if stage.findings is FindingsFormat.TEXT or outcome.status is Status.ERROR:
            return outcome
        written = job.artifacts / REPORT
        return apply_report(outcome, self._read_report(job, written if written.is_file() else result.stdout))


def tool_outcome(job: Job, result: ProcessResult) -> Outcome:
    """What the end of a command means."""
    kind, reason = describe_failure(result)
    status, failure = Status.SUCCESS, None
    if kind:
        status = Status.ERROR if kind is FailureClass.SPAWN_ERROR else Status.FAIL
        failure = Failure(
            kind=kind,
            digest=reason,
            exit_code=result.exit_code,
            stdout_tail=result.stdout_tail,
            stderr_tail=result.stderr_tail,
        )
    response = "\n".join(tail for tail in (result.stdout_tail, result.stderr_tail) if tail)
    return Outcome(
        status=status,
        source=StatusSource.EXIT_CODE,
        reason=reason,
        response=response,
        failure=failure,
        updates={Key.TOOL_OUTPUT: response},
        duration=result.duration,
        logs={"stdout": job.relative_path(result.stdout), "stderr": job.relative_path(result.stderr)},
    )


def describe_failure(result: ProcessResult) -> tuple[FailureClass | None, str]:
    """How a command failed, and why in one line; nothing if it succeeded."""
    match result.ending:
        case ExitReason.EXITED if result.exit_code == 0:
            return None, ""
        case ExitReason.EXITED if result.exit_code in _NOT_RUN:
            last = last_line(result.stderr_tail)
            return FailureClass.SPAWN_ERROR, f"{_NOT_RUN[result.exit_code]}: {last}".removesuffix(": ")
        case ExitReason.EXITED:
            headline = failure_headline(result.stdout_tail, result.stderr_tail, f"exit code {result.exit_code}")
            return FailureClass.EXIT_NONZERO, headline
        case ExitReason.TIMEOUT | ExitReason.IDLE:
            return FailureClass.TIMEOUT, f"stopped after {result.duration:.1f} s: the time limit was reached"
        case ExitReason.SIGNAL:
            return FailureClass.SIGNAL, f"killed by {result.message}"
        case ExitReason.SPAWN_ERROR:
            return FailureClass.SPAWN_ERROR, result.message


def failure_headline(stdout: str, stderr: str, otherwise: str) -> str:
    """One line that says what failed: the first failing test, a count of failures, or the first error.

    Without any, it is `otherwise` with the last line of the output.
    """
    stdout, stderr = sanitize_block(stdout), sanitize_block(stderr)
    matches = (pattern.search(text) for pattern in _HEADLINES for text in (stdout, stderr))
    headline = next((match[0] for match in matches if match), "")
    if not headline:
        last = last_line(stderr or stdout)
        headline = f"{otherwise}: {last}" if last else otherwise
    return one_line(headline, LONGEST_HEADLINE)


def apply_report(outcome: Outcome, report: Assessment) -> Outcome:
    """The worse of how a command ended and what it reported; an error if its report cannot be read."""
    if report.problem:
        ended = f" ({outcome.reason})" if outcome.reason else ""
        reason = f"its report cannot be read: {report.problem}{ended}"
        failure = outcome.failure or Failure(kind=FailureClass.PROTOCOL)
        failure = failure.model_copy(update={"kind": FailureClass.PROTOCOL, "digest": reason})
        return outcome.model_copy(update={"status": Status.ERROR, "reason": reason, "failure": failure})
    if not outcome.status.passes:
        return outcome.model_copy(update={"reason": report.reason or outcome.reason})
    if report.status is None or report.status is Status.SUCCESS:
        return outcome
    return outcome.model_copy(
        update={"status": report.status, "source": StatusSource.STRUCTURED, "reason": report.reason}
    )


def _cannot_run(reason: str) -> Outcome:
    failure = Failure(kind=FailureClass.SPAWN_ERROR, digest=reason)
    return Outcome(status=Status.ERROR, source=StatusSource.EXIT_CODE, reason=reason, failure=failure)
