"""Any program as an agent: the prompt on its standard input, the answer on its standard output."""

from pathlib import Path

from pipeline.engine.agent import AgentError, AgentEvent, AgentStatus, Emit, ErrorKind, Request, Result
from pipeline.engine.process import Command, Ending, Finished, Processes


class CommandBackend:
    """Runs one program for every request. It knows nothing of the request but the prompt."""

    name = "command"

    def __init__(self, argv: tuple[str, ...], processes: Processes) -> None:
        self._argv = argv
        self._processes = processes

    async def run(self, request: Request, emit: Emit) -> Result:
        """Run the program; what it writes is its answer."""
        emit(AgentEvent("started"))
        finished = await self._processes.run(
            _command(self._argv, request), lambda line: emit(AgentEvent("text", line.decode(errors="replace")))
        )
        status, error = _judge(self._argv, finished)
        text = _read(finished.stdout, request.limits.output_bytes)
        return Result(status, text, error, exit_code=finished.exit_code, argv=self._argv)


def _command(argv: tuple[str, ...], request: Request) -> Command:
    return Command(
        argv=argv,
        cwd=request.cwd,
        env=request.env,
        artifacts=request.artifacts,
        stdin=request.prompt,
        timeout=request.limits.timeout,
        idle=request.limits.idle,
        output_bytes=request.limits.output_bytes,
    )


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        return file.read(limit).decode(errors="replace")  # what follows the limit is a note about what was cut


def _judge(argv: tuple[str, ...], finished: Finished) -> tuple[AgentStatus, AgentError | None]:
    match finished.ending:
        case Ending.TIMEOUT:
            return AgentStatus.TIMEOUT, None
        case Ending.IDLE:
            return AgentStatus.IDLE, None
        case Ending.SPAWN_ERROR:
            return AgentStatus.ERROR, AgentError(ErrorKind.SPAWN, finished.message)
        case Ending.SIGNAL:
            return AgentStatus.ERROR, AgentError(ErrorKind.KILLED, f'"{argv[0]}" was killed by {finished.message}')
    if finished.exit_code == 0:
        return AgentStatus.OK, None
    return AgentStatus.ERROR, AgentError(ErrorKind.UNKNOWN, _complaint(argv, finished))


def _complaint(argv: tuple[str, ...], finished: Finished) -> str:
    said = [line for line in finished.stderr_tail.split("\n") if line.strip()]
    last = said[-1].strip() if said else "it said nothing on its standard error"
    return f'"{argv[0]}" exited with code {finished.exit_code}: {last}'
