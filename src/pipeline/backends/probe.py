"""What an agent's program says about itself: its version, and whether it still has the flags it is used with.

Results are cached until the program's file changes. A broken or unwritable cache costs another question, nothing else.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.backends.agents.base import AgentProgram
from pipeline.backends.environment import cache_directory
from pipeline.engine.ports import ExitReason, ProcessCommand, Processes, ProcessResult

TIMEOUT = 30.0  # seconds for each question; the slowest agent takes about five to start
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_LONGEST_HELP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a program said about itself, or the problem that kept it from answering."""

    path: str
    version: str = ""
    missing: tuple[str, ...] = ()  # flags that its help does not name
    problem: str = ""


def probe_cache_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where results are cached."""
    return cache_directory({"HOME": str(home), **environ}) / "agents.json"


async def probe(
    agent: AgentProgram,
    path: Path,
    processes: Processes,
    env: Mapping[str, str],
    cache: Path | None,
    arguments: tuple[str, ...] = (),
    *,
    refresh: bool = False,
) -> ProbeResult:
    """Ask the program at `path` about itself, unless the answer is cached; `arguments` precede our own.

    With `refresh` it is asked in any case.
    """
    real, identity = _identify(agent, path, arguments)
    match None if refresh else _read_cache(cache).get(real):
        case {"of": of, "version": str(version), "missing": [*flags]} if of == identity:
            return ProbeResult(str(path), version, tuple(map(str, flags)))
    answers = []
    for question in (("--version",), agent.help):
        with tempfile.TemporaryDirectory(prefix="awf-probe-") as name:
            folder = Path(name)
            command = ProcessCommand((str(path), *arguments, *question), folder, env, folder, timeout=TIMEOUT)
            finished = await processes.run(command)
            if problem := _problem(command, finished):
                return ProbeResult(str(path), problem=problem)
            # Some programs print their help as an error.
            output = b"\n".join(path.read_bytes()[:_LONGEST_HELP] for path in (finished.stdout, finished.stderr))
            answers.append(output.decode(errors="replace"))
    found = _VERSION.search(answers[0])
    version = found[0] if found else answers[0].strip().partition("\n")[0]
    # A longer flag, such as --model, does not stand for --mode.
    patterns = {flag: rf"(?<![\w-]){re.escape(flag)}(?![\w-])" for flag in agent.flags}
    missing = tuple(flag for flag, pattern in patterns.items() if not re.search(pattern, answers[1]))
    if cache:
        entry = {"of": identity, "version": version, "missing": list(missing)}
        _write_cache(cache, {**_read_cache(cache), real: entry})
    return ProbeResult(str(path), version, missing)


def forget_probe(path: Path, cache: Path | None) -> None:
    """Drop what the program at `path` said about itself."""
    known = _read_cache(cache)
    if cache and known.pop(str(path.resolve()), None) is not None:
        _write_cache(cache, known)


def _problem(command: ProcessCommand, finished: ProcessResult) -> str:
    question = f'"{" ".join(command.argv)}"'
    match finished.ending:
        case ExitReason.EXITED if finished.exit_code == 0:
            return ""
        case ExitReason.EXITED:
            last = next((line for line in reversed(finished.stderr_tail.split("\n")) if line.strip()), "")
            return f"{question} exited with code {finished.exit_code}" + (f": {last.strip()}" if last else "")
        case ExitReason.TIMEOUT | ExitReason.IDLE:
            return f"{question} did not finish within {TIMEOUT:g} seconds"
        case _:
            return f"{question} failed: {finished.message}"


def _identify(agent: AgentProgram, path: Path, arguments: tuple[str, ...]) -> tuple[str, list[int | str]]:
    """The real path of a program, and what changes with its file and with the questions."""
    real, asked = path.resolve(), (*arguments, agent.name, *agent.help, *agent.flags)
    try:
        state = real.stat()
    except OSError:
        return str(real), [*asked]  # the file is gone; asking it will say so, and that is not cached
    # Package managers set an old `mtime`, but cannot set `ctime`.
    return str(real), [state.st_size, state.st_mtime_ns, state.st_ctime_ns, *asked]


def _read_cache(cache: Path | None) -> dict[str, Any]:
    try:
        found = json.loads(cache.read_text(encoding="utf-8")) if cache else {}
    except (OSError, ValueError):
        return {}  # missing or broken: the program is asked again
    return found if isinstance(found, dict) else {}


def _write_cache(cache: Path, content: dict[str, Any]) -> None:
    """Replace the file atomically, since two commands may write it at once."""
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
            draft = Path(folder) / cache.name
            draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
            draft.replace(cache)
