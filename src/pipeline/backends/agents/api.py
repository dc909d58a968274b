"""A model called directly through pydantic-ai, with file and shell tools of our own.

No tool reaches a file outside of the request's directory, and no command gets a provider's key. Failed requests are not
repeated here: whether and when to retry is decided by the engine.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.backends.agents.base import PathNotAllowed, local_now, resolve_inside
from pipeline.backends.environment import PROVIDER_KEYS, provider_variables
from pipeline.backends.provider_errors import with_retry_after
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentStatus,
    Emit,
    ErrorKind,
    ExitReason,
    ProcessCommand,
    Processes,
)
from pipeline.language.model import Access
from pipeline.redaction import MIN_LENGTH
from pipeline.text import truncate_middle

if TYPE_CHECKING:
    from pipeline.backends.agents.pydantic_agent import PydanticAgent

LONGEST_RESULT = 40_000  # characters of what one tool returns
_LARGEST_FILE = 8 * 1024 * 1024
_MOST_FILES = 20_000  # that one search looks at
_MOST_HITS = 500
_ALL_KEYS = frozenset(chain.from_iterable(PROVIDER_KEYS.values()))

ToolFunction = Callable[..., Any]


class ModelUnavailable(Exception):
    """A request without a usable model."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.CONFIG) -> None:
        super().__init__(message)
        self.error = AgentError(kind, message)


class ApiBackend:
    """Calls the model that a request names."""

    name = "api"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key and address."""
        return provider_variables(provider)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Call the model until it has answered."""
        emit(AgentEvent("started"))
        try:
            agent = await asyncio.to_thread(self._load_agent, request, emit)
            result = await agent.run()
        except ImportError as error:
            install = f"the backend \"api\" is not installed: pip install 'awf-pipeline[api]' ({error})"
            return AgentResult(AgentStatus.ERROR, error=AgentError(ErrorKind.CONFIG, install))
        except ModelUnavailable as error:
            return AgentResult(AgentStatus.ERROR, error=error.error)
        if result.error is None:
            return result
        return result._replace(error=with_retry_after(result.error, (result.error.message,), local_now()))

    def _load_agent(self, request: AgentRequest, emit: Emit) -> "PydanticAgent":
        from pipeline.backends.agents.pydantic_agent import PydanticAgent, model_for  # noqa: PLC0415 - optional, 1 s

        return PydanticAgent(model_for(request), request, emit, self._processes)


class ToolFailure(Exception):
    """A tool call that failed. The model is told why, and continues."""


class FileTools:
    """The files of a directory, for a model to read and write."""

    def __init__(self, root: Path) -> None:
        self.denied: list[str] = []
        self._root = root
        self._writing = threading.Lock()  # a model may ask for two edits of one file at once

    def read_file(self, path: str, first_line: int = 1, lines: int = 2000) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the working directory.
            first_line: The number of the line to begin with; the first is 1.
            lines: How many lines to read.
        """
        start = max(first_line, 1) - 1
        text = _read_text(self._resolve(path))
        return truncate_middle(
            "".join(islice(text.splitlines(keepends=True), start, start + max(lines, 0))), LONGEST_RESULT
        )

    def list_files(self, path: str = ".") -> str:
        """List the files below a directory, one a line, relative to the working directory.

        Args:
            path: The directory, relative to the working directory.
        """
        top = self._resolve(path)
        if not top.is_dir():
            raise ToolFailure(f'"{path}" is not a directory')
        return _join_hits(self._relative(file) for file in _walk(top))

    def search(self, text: str, path: str = ".") -> str:
        """Find the lines that hold a text, as `file:line: content`.

        Args:
            text: What to look for, literally: it is not a pattern.
            path: The file or directory to look in, relative to the working directory.
        """
        top = self._resolve(path)
        if not text:
            raise ToolFailure("the text to look for is empty")
        return _join_hits(hit for file in _walk(top) for hit in self._find(text, file))

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing what it holds; directories are created as needed.

        Args:
            path: The file, relative to the working directory.
            content: The whole new content.
        """
        with self._writing:
            _write_text(self._resolve(path), content)
        return f'"{path}" was written'

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once in a file.

        Args:
            path: The file, relative to the working directory.
            old: The exact old text, with enough around it to occur only once.
            new: The new text.
        """
        with self._writing:
            target = self._resolve(path)
            text = _read_text(target)
            count = text.count(old) if old else 0
            if count != 1:
                raise ToolFailure(f'the old text occurs {count} times in "{path}"; it must occur exactly once')
            _write_text(target, text.replace(old, new))
        return f'"{path}" was edited'

    def _resolve(self, name: str) -> Path:
        try:
            return resolve_inside(self._root, name)
        except PathNotAllowed as error:
            self.denied.append(name)
            raise ToolFailure(str(error)) from error

    def _relative(self, file: Path) -> str:
        return file.relative_to(self._root.resolve()).as_posix()

    def _find(self, text: str, file: Path) -> Iterator[str]:
        try:
            lines = _read_text(resolve_inside(self._root, str(file))).split("\n")
        except (ToolFailure, PathNotAllowed):
            return  # binary files, and links that lead out
        for number, line in enumerate(lines, 1):
            if text in line:
                yield f"{self._relative(file)}:{number}: {line[:400]}"


class ShellTool:
    """Runs a model's commands in its directory."""

    def __init__(self, request: AgentRequest, processes: Processes, on_output: Callable[[], None]) -> None:
        self._request = request
        self._processes = processes
        self._on_output = on_output
        self._numbers = itertools.count(1)

    async def run_command(self, command: str, seconds: float = 600) -> str:
        """Run a shell command in the working directory and return its exit code and output.

        Args:
            command: The command, for /bin/sh.
            seconds: How long it may take.
        """
        finished = await self._processes.run(
            ProcessCommand(
                argv=("/bin/sh", "-c", command),
                cwd=self._request.cwd,
                env=without_provider_keys(self._request.env, self._request.provider),
                artifacts=self._request.artifacts / f"command-{next(self._numbers)}",
                timeout=seconds,
                output_bytes=self._request.limits.output_bytes,
            ),
            lambda _: self._on_output(),
        )
        if finished.ending is ExitReason.EXITED:
            ended = f"exit code {finished.exit_code}"
        else:
            ended = "stopped: it took too long" if finished.ending is ExitReason.TIMEOUT else finished.message
        printed = (path.read_text(encoding="utf-8", errors="replace") for path in (finished.stdout, finished.stderr))
        return f"{ended}\n{''.join(truncate_middle(part, LONGEST_RESULT) for part in printed)}"


def tools_for(access: Access, files: FileTools, shell: ShellTool) -> tuple[ToolFunction, ...]:
    """The tools that a stage's access grants."""
    reading = (files.read_file, files.list_files, files.search)
    match access:
        case Access.NONE:
            return ()
        case Access.READ_ONLY:
            return reading
        case Access.CODING:
            return (*reading, files.write_file, files.edit_file, shell.run_command)


def without_provider_keys(env: Mapping[str, str], provider: str | None) -> dict[str, str]:
    """The variables without any provider's key or address, nor copies of a key under another name."""
    names = _ALL_KEYS | set(provider_variables(provider))
    secret = {name for name in env if name in names or name.upper().endswith("_API_KEY")}
    keys = {
        env[name] for name in secret if len(env[name]) >= MIN_LENGTH
    }  # a shorter value, such as a region, is not a key
    return {name: value for name, value in env.items() if name not in secret and value not in keys}


def _join_hits(hits: Iterator[str]) -> str:
    lines = list(islice(hits, _MOST_HITS + 1))
    if len(lines) > _MOST_HITS:
        lines[_MOST_HITS] = f"[more than {_MOST_HITS}; the rest is omitted]"
    return truncate_middle("\n".join(lines), LONGEST_RESULT) or "[nothing found]"


def _walk(top: Path) -> Iterator[Path]:
    """Every file below, in order, without Git's own; links to directories are not followed."""
    if top.is_file():
        yield top
    left = _MOST_FILES
    for directory, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name != ".git")
        yield from (Path(directory, name) for name in sorted(names)[:left])
        left = max(left - len(names), 0)
        if not left:
            return


def _read_text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            raise ToolFailure(f'"{path.name}" is not a file of at most {_LARGEST_FILE} bytes')
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolFailure(f'cannot read "{path.name}" as text: {error}') from error


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    except (OSError, UnicodeEncodeError) as error:
        raise ToolFailure(f'cannot write "{path.name}": {error}') from error
