"""The tools of a model that is asked directly: files and commands, as far as the stage's access lets it.

No tool reaches a file outside of the request's directory, and no command gets a provider's key. What a tool gives back
is cut to what a model can read.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pipeline.backends.agents.base import PathNotAllowed, resolve_inside
from pipeline.backends.environment import PROVIDER_KEYS, provider_variables
from pipeline.engine.ports import AgentRequest, ExitReason, ProcessCommand, Processes, ProcessResult
from pipeline.language.model import Access
from pipeline.redaction import MIN_LENGTH

LONGEST_ANSWER = 40_000  # characters of what one tool gives back
_LARGEST_FILE = 8 * 1024 * 1024
_MOST_FILES = 20_000  # that one search looks at
_MOST_FOUND = 500
_ALL_KEYS = frozenset(chain.from_iterable(PROVIDER_KEYS.values()))

ToolFunction = Callable[..., Any]


class ToolFailure(Exception):
    """A tool that could not do what it was asked; the model is told and goes on."""


class FileTools:
    """The files of a directory, for a model to read and write."""

    def __init__(self, root: Path) -> None:
        self.denied: list[str] = []
        self._root = root
        self._changing = threading.Lock()  # a model may ask for two edits of one file at once

    def read_file(self, path: str, first_line: int = 1, lines: int = 2000) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the working directory.
            first_line: The number of the line to begin with; the first is 1.
            lines: How many lines to read.
        """
        start = max(first_line, 1) - 1
        return cut("".join(islice(_text(self._inside(path)).splitlines(keepends=True), start, start + max(lines, 0))))

    def list_files(self, path: str = ".") -> str:
        """List the files below a directory, one a line, relative to the working directory.

        Args:
            path: The directory, relative to the working directory.
        """
        top = self._inside(path)
        if not top.is_dir():
            raise ToolFailure(f'"{path}" is not a directory')
        return _some(self._name(file) for file in _walk(top))

    def search(self, text: str, path: str = ".") -> str:
        """Find the lines that hold a text, as `file:line: content`.

        Args:
            text: What to look for, as it stands: it is no pattern.
            path: The file or directory to look in, relative to the working directory.
        """
        top = self._inside(path)
        if not text:
            raise ToolFailure("there is no text to look for")
        return _some(hit for file in _walk(top) for hit in self._hits(file, text))

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, in place of what it holds; directories are made as needed.

        Args:
            path: The file, relative to the working directory.
            content: All that the file shall hold.
        """
        with self._changing:
            _write(self._inside(path), content)
        return f'"{path}" was written'

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands exactly once in a file.

        Args:
            path: The file, relative to the working directory.
            old: What stands there, exactly, with enough around it to be found once.
            new: What shall stand there instead.
        """
        with self._changing:
            target = self._inside(path)
            text = _text(target)
            found = text.count(old) if old else 0
            if found != 1:
                raise ToolFailure(f'the old text stands {found} times in "{path}", and must stand there once')
            _write(target, text.replace(old, new))
        return f'"{path}" was edited'

    def _inside(self, name: str) -> Path:
        try:
            return resolve_inside(self._root, name)
        except PathNotAllowed as error:
            self.denied.append(name)
            raise ToolFailure(str(error)) from error

    def _name(self, file: Path) -> str:
        return file.relative_to(self._root.resolve()).as_posix()

    def _hits(self, file: Path, text: str) -> Iterator[str]:
        try:
            lines = _text(resolve_inside(self._root, str(file))).split("\n")
        except (ToolFailure, PathNotAllowed):
            return  # a search passes over what is no text, and over links that lead out
        for number, line in enumerate(lines, 1):
            if text in line:
                yield f"{self._name(file)}:{number}: {line[:400]}"


class ShellTool:
    """Commands of a model, run in its directory."""

    def __init__(self, request: AgentRequest, processes: Processes, heard: Callable[[], None]) -> None:
        self._request = request
        self._processes = processes
        self._heard = heard
        self._numbers = itertools.count(1)

    async def run_command(self, command: str, seconds: float = 600) -> str:
        """Run a shell command in the working directory, and give back its exit code and what it printed.

        Args:
            command: The command, for /bin/sh.
            seconds: How long it may take.
        """
        finished = await self._processes.run(
            ProcessCommand(
                argv=("/bin/sh", "-c", command),
                cwd=self._request.cwd,
                env=without_keys(self._request.env, self._request.provider),
                artifacts=self._request.artifacts / f"command-{next(self._numbers)}",
                timeout=seconds,
                output_bytes=self._request.limits.output_bytes,
            ),
            lambda _: self._heard(),
        )
        return _report(finished)


def tools_for(request: AgentRequest, files: FileTools, shell: ShellTool) -> tuple[ToolFunction, ...]:
    """The tools that a stage's access gives."""
    reading = (files.read_file, files.list_files, files.search)
    match request.access:
        case Access.NONE:
            return ()
        case Access.READ_ONLY:
            return reading
        case Access.CODING:
            return (*reading, files.write_file, files.edit_file, shell.run_command)


def without_keys(env: Mapping[str, str], provider: str | None) -> dict[str, str]:
    """The variables without any provider's key or address, under whatever name the key stands."""
    names = _ALL_KEYS | set(provider_variables(provider))
    ours = {name for name in env if name in names or name.upper().endswith("_API_KEY")}
    keys = {env[name] for name in ours if len(env[name]) >= MIN_LENGTH}  # a region is no key, and stands elsewhere too
    return {name: value for name, value in env.items() if name not in ours and value not in keys}


def cut(text: str) -> str:
    """As much of a text as a model is given: its beginning and its end."""
    if len(text) <= LONGEST_ANSWER:
        return text
    half = LONGEST_ANSWER // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out here]\n{text[-half:]}"


def _report(finished: ProcessResult) -> str:
    endings = {
        ExitReason.EXITED: f"exit code {finished.exit_code}",
        ExitReason.TIMEOUT: "it took too long and was stopped",
    }
    how = endings.get(finished.ending, finished.message)
    return f"{how}\n{cut(_printed(finished.stdout))}{cut(_printed(finished.stderr))}"


def _printed(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _some(found: Iterator[str]) -> str:
    lines = list(islice(found, _MOST_FOUND + 1))
    more = [f"[there are more than {_MOST_FOUND}]"] if len(lines) > _MOST_FOUND else []
    return cut("\n".join([*lines[:_MOST_FOUND], *more])) or "[nothing was found]"


def _walk(top: Path) -> Iterator[Path]:
    """Every file below, in order; links to directories are not followed, and Git's own files are passed over."""
    if top.is_file():
        yield top
    left = _MOST_FILES
    for directory, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name != ".git")
        yield from (Path(directory, name) for name in sorted(names)[:left])
        left = max(left - len(names), 0)
        if not left:
            return


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            raise ToolFailure(f'"{path.name}" is not a file of at most {_LARGEST_FILE} bytes')
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolFailure(f'"{path.name}" cannot be read as text: {error}') from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    except (OSError, UnicodeEncodeError) as error:
        raise ToolFailure(f'"{path.name}" cannot be written: {error}') from error
