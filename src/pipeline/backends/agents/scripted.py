"""An agent whose answers stand in a file: for tests, demos and dry runs of a new workflow."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from pipeline.backends.agents.script import Reply, Script, parse_script
from pipeline.engine.agent import AgentError, AgentEvent, AgentStatus, Emit, ErrorKind, Limits, Request, Result

_NOTICED = 0.01  # seconds that somebody else may wait for a turn


class ScriptedBackend:
    """Answers by stage and visit from a script; a stage with no entry completes, and passes when it is a review."""

    name = "scripted"

    def __init__(self, script: Script | Mapping[str, object]) -> None:
        self._script = script if isinstance(script, Script) else parse_script(script)
        self._gave_way = 0.0

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """None: it starts no program."""
        del provider
        return ()

    async def run(self, request: Request, emit: Emit) -> Result:
        """Wait, write and answer as the script says."""
        emit(AgentEvent("started"))
        reply = self._script.reply(request.stage, request.visit)
        if reply.delay <= 0:
            await self._give_way()
        elif ended := await _wait(reply.delay, request.limits):
            return Result(ended)
        if reply.files and (refused := _write(reply.files, request.cwd)):
            return Result(AgentStatus.ERROR, error=refused)
        result = _answer(reply, request)
        if result.text:
            emit(AgentEvent("text", result.text))
        return result

    async def _give_way(self) -> None:
        """Let others go on, but not with each answer: to look for others takes longer than to read an answer."""
        now = time.monotonic()
        if now - self._gave_way >= _NOTICED:
            self._gave_way = now
            await asyncio.sleep(0)


async def _wait(delay: float, limits: Limits) -> AgentStatus | None:
    """Wait as a slow and silent agent would: its limits hold."""
    ends = [(limits.timeout, AgentStatus.TIMEOUT), (limits.idle, AgentStatus.IDLE)]
    reached = [(limit, status) for limit, status in ends if limit is not None and limit <= delay]
    seconds, status = min(reached, default=(delay, None))
    await asyncio.sleep(seconds)
    return status


def _write(files: Mapping[str, str], cwd: Path) -> AgentError | None:
    try:
        targets = {(cwd / name).resolve(): text for name, text in files.items()}
        if outside := [target for target in targets if not target.is_relative_to(cwd.resolve())]:  # by a symbolic link
            return AgentError(ErrorKind.DENIED, f'the script may not write "{outside[0]}": it is outside of "{cwd}"')
        for target, text in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError, RuntimeError) as error:  # resolve() calls a loop of links a RuntimeError
        return AgentError(ErrorKind.CONFIG, f"the script's files cannot be written: {error}")
    return None


def _answer(reply: Reply, request: Request) -> Result:
    if reply.error:
        return Result(AgentStatus.ERROR, error=AgentError(reply.error, reply.message, reply.retry_after))
    text = _default(request) if reply.text is None else reply.text
    return Result(AgentStatus.OK, text, usage=reply.usage, outcome=reply.outcome)


def _default(request: Request) -> str:
    return f"Completed: {request.stage}" + ("\n[STATUS: success]" if request.review else "")
