"""Any program as an agent: the prompt on its standard input, the answer on its standard output."""

from pathlib import Path

from pipeline.backends.agents.judgement import Reading, judge
from pipeline.backends.agents.program import command_for
from pipeline.backends.environment import provider_variables
from pipeline.engine.agent import AgentEvent, Emit, Request, Result
from pipeline.engine.process import Processes


class CommandBackend:
    """Runs one program for every request. It knows nothing of the request but the prompt."""

    name = "command"

    def __init__(self, argv: tuple[str, ...], processes: Processes, variables: tuple[str, ...] = ()) -> None:
        self._argv = argv
        self._processes = processes
        self._variables = variables

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and those the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: Request, emit: Emit) -> Result:
        """Run the program; what it writes is its answer."""
        emit(AgentEvent("started"))
        finished = await self._processes.run(
            command_for(self._argv, request), lambda line: emit(AgentEvent("text", line.decode(errors="replace")))
        )
        text = _read(finished.stdout, request.limits.output_bytes)
        return judge(self._argv, finished, Reading(text=text, ended=True))


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        return file.read(limit).decode(errors="replace")  # what follows the limit is a note about what was cut
