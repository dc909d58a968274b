"""What an agent's program is: its version, and whether it still takes the flags it is used with.

A program is asked once and remembered until its file changes. What is remembered is a help, never a need: a file that
is broken or cannot be written costs the asking, and nothing else.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.backends.agents.base import AgentProgram
from pipeline.engine.ports import ExitReason, ProcessCommand, Processes, ProcessResult

TIMEOUT = 30.0  # seconds for each question; the slowest agent takes about five to start
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_LONGEST_HELP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a program said of itself. With a `problem` it could not be asked."""

    path: str
    version: str = ""
    missing: tuple[str, ...] = ()  # flags that its help does not name
    problem: str = ""


def probe_cache_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where probes are remembered; a relative XDG_CACHE_HOME means nothing, as its standard says."""
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home / ".cache") / "awf" / "agents.json"


async def probe(
    agent: AgentProgram,
    path: Path,
    processes: Processes,
    env: Mapping[str, str],
    cache: Path | None,
    words: tuple[str, ...] = (),
) -> ProbeResult:
    """Ask the program at `path` what it is, unless it is remembered; `words` stand before every argument of ours."""
    real = _real(path)
    identity = _identity(agent, real, words)
    if cache and (known := _known(_remembered(cache).get(real), identity)):
        return replace(known, path=str(path))
    asked = await _ask(agent, (str(path), *words), processes, env)
    if cache and not asked.problem:
        entry = {"of": identity, "version": asked.version, "missing": list(asked.missing)}
        _write(cache, {**_remembered(cache), real: entry})
    return asked


async def _ask(
    agent: AgentProgram, program: tuple[str, ...], processes: Processes, env: Mapping[str, str]
) -> ProbeResult:
    told = []
    for arguments in (("--version",), agent.help):
        with tempfile.TemporaryDirectory(prefix="awf-probe-") as folder:
            place = Path(folder)
            command = ProcessCommand((*program, *arguments), place, env, place, timeout=TIMEOUT)
            finished = await processes.run(command)
            if problem := _problem(command, finished):
                return ProbeResult(program[0], problem=problem)
            told.append(_said(finished))
    version, help = told
    missing = tuple(flag for flag in agent.flags if not _names(help, flag))
    return ProbeResult(program[0], _version(version), missing)


def _problem(command: ProcessCommand, finished: ProcessResult) -> str:
    asked = f'"{" ".join(command.argv)}"'
    match finished.ending:
        case ExitReason.EXITED if finished.exit_code == 0:
            return ""
        case ExitReason.EXITED:
            last = next((line for line in reversed(finished.stderr_tail.split("\n")) if line.strip()), "")
            return f"{asked} exited with code {finished.exit_code}" + (f": {last.strip()}" if last else "")
        case ExitReason.TIMEOUT | ExitReason.IDLE:
            return f"{asked} did not end within {TIMEOUT:g} seconds"
        case _:
            return f"{asked} failed: {finished.message}"


def _said(finished: ProcessResult) -> str:
    """Both streams: some programs print their help as an error."""
    parts = []
    for path in (finished.stdout, finished.stderr):
        with path.open("rb") as file:
            parts.append(file.read(_LONGEST_HELP).decode(errors="replace"))
    return "\n".join(parts)


def _version(said: str) -> str:
    found = _VERSION.search(said)
    return found[0] if found else said.strip().partition("\n")[0]


def _names(help: str, flag: str) -> bool:
    """Whether a help text names a flag, and not only a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help) is not None


def _real(path: Path) -> str:
    return str(path.resolve())


def _identity(agent: AgentProgram, real: str, words: tuple[str, ...]) -> list[int | str]:
    """Changes with the file, and with what is asked of it. Package managers set old times: `ctime` is the true one."""
    asked = (*words, agent.name, *agent.help, *agent.flags)
    try:
        state = Path(real).stat()
    except OSError:
        return [*asked]  # it is not there: asking it will say so, and that is not remembered
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, *asked]


def _known(entry: Any, identity: list[int | str]) -> ProbeResult | None:
    match entry:
        case {"of": of, "version": str(version), "missing": [*missing]} if of == identity:
            return ProbeResult("", version, tuple(map(str, missing)))
    return None


def _remembered(cache: Path) -> dict[str, Any]:
    try:
        found = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # there is none yet, or it is broken: the program is asked again
    return found if isinstance(found, dict) else {}


def _write(cache: Path, content: dict[str, Any]) -> None:
    """Write the file whole or not at all, since two commands may do so at once; where that fails, so be it."""
    with suppress(OSError), tempfile.TemporaryDirectory(dir=_made(cache.parent)) as folder:
        draft = Path(folder) / cache.name
        draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
        draft.replace(cache)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
