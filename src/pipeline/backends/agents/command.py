"""Any program as an agent: the prompt on its standard input, the answer on its standard output."""

from pipeline.backends.agents.base import AgentTranscript, agent_result, command_for
from pipeline.backends.environment import provider_variables
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentResult, Emit, ErrorKind, Processes


class CommandBackend:
    """Runs one program for every request. All it gets of the request is the prompt."""

    name = "command"

    def __init__(self, argv: tuple[str, ...], processes: Processes, variables: tuple[str, ...] = ()) -> None:
        self._argv = argv
        self._processes = processes
        self._variables = variables

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and the variables the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Run the program; what it prints is the answer."""
        emit(AgentEvent("started"))
        finished = await self._processes.run(
            command_for(self._argv, request), lambda line: emit(AgentEvent("text", line.decode(errors="replace")))
        )
        limit = request.limits.output_bytes
        with finished.stdout.open("rb") as file:
            output = file.read(limit + 1)
        answer = AgentTranscript(text=output[:limit].decode(errors="replace"), ended=True)
        if len(output) > limit:  # what follows is a note about the rest
            answer.error = AgentError(ErrorKind.PROTOCOL, f"the answer is longer than {limit:,} bytes")
        return agent_result(self._argv, request, finished, answer)
