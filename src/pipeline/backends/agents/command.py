"""Any program as an agent: the prompt on its standard input, the answer on its standard output."""

from pathlib import Path

from pipeline.backends.agents.base import AgentTranscript, Now, command_for, judge, local_now
from pipeline.backends.environment import provider_variables
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentResult, Emit, ErrorKind, Processes


class CommandBackend:
    """Runs one program for every request. It knows nothing of the request but the prompt."""

    name = "command"

    def __init__(
        self, argv: tuple[str, ...], processes: Processes, variables: tuple[str, ...] = (), *, now: Now = local_now
    ) -> None:
        self._argv = argv
        self._processes = processes
        self._variables = variables
        self._now = now

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and those the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Run the program; what it writes is its answer."""
        emit(AgentEvent("started"))
        finished = await self._processes.run(
            command_for(self._argv, request), lambda line: emit(AgentEvent("text", line.decode(errors="replace")))
        )
        limit = request.limits.output_bytes
        said = _read(finished.stdout, limit + 1)
        text = said[:limit].decode(errors="replace")
        return judge(self._argv, finished, AgentTranscript(text, ended=True, error=_too_long(said, limit)), self._now())


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def _too_long(said: bytes, limit: int) -> AgentError | None:
    if len(said) <= limit:  # what follows the limit is a note about what was cut
        return None
    beginning = said[:200].decode(errors="replace")
    return AgentError(ErrorKind.PROTOCOL, f"the answer was cut off: it has more than {limit:,} bytes: {beginning}")
