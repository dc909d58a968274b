"""Any agent that speaks the Agent Client Protocol, by its command.

It is asked to stop by the protocol first; whatever it answers, nothing that it started is left when `run` returns or
raises.
"""

import asyncio
import secrets
from contextlib import suppress
from functools import partial
from subprocess import Popen
from typing import IO, cast

from pipeline.backends import sweep
from pipeline.backends.agents.acp_client import Client
from pipeline.backends.agents.acp_peer import Peer
from pipeline.backends.agents.acp_talk import Talk
from pipeline.backends.agents.judgement import Now, Reading, judge, local_now
from pipeline.backends.agents.program import command_for
from pipeline.backends.child import Child
from pipeline.backends.environment import provider_variables
from pipeline.backends.process import finished, how_it_ended, spool, start, to_the_end
from pipeline.backends.spool import Lines, Redacted
from pipeline.engine.agent import AgentError, AgentEvent, AgentStatus, Emit, ErrorKind, Limits, Request, Result
from pipeline.engine.process import Ending
from pipeline.redaction import PATTERNS_ONLY, Redactor

_FAREWELL = 1.0  # seconds an agent has to leave by itself when it has answered: it may have a session to write


class AcpBackend:
    """Runs one agent for every request. All it starts carries `label`, by which `sweep.kill_labelled` finds it."""

    name = "acp"

    def __init__(
        self,
        argv: tuple[str, ...],
        label: str,
        variables: tuple[str, ...] = (),
        *,
        grace: float = 5.0,
        patience: float = 60.0,  # seconds until it must have said hello
        redactor: Redactor = PATTERNS_ONLY,
        now: Now = local_now,
    ) -> None:
        self._argv = argv
        self._label = label
        self._variables = variables
        self._grace = grace
        self._patience = patience
        self._redactor = redactor
        self._now = now

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and those the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: Request, emit: Emit) -> Result:
        """Start the agent, have it answer, and stop it."""
        emit(AgentEvent("started"))
        token = f"{self._label}:{secrets.token_hex(16)}"
        command = command_for(self._argv, request)
        request.artifacts.mkdir(parents=True, exist_ok=True)
        with spool(command, "stdout") as out, spool(command, "stderr") as err:
            program = start(command, token, talks=True)
            if isinstance(program, str):
                why = AgentError(ErrorKind.SPAWN, self._redactor.text(program))
                return Result(AgentStatus.ERROR, error=why, argv=self._argv)
            with Redacted(self._redactor, out.write) as said, Redacted(self._redactor, err.write) as complained:
                client = Client(request.cwd, request.access, emit)
                line = _Line(program, client, said, complained, request.limits.output_bytes)
                talk = Talk(line.peer, client, request, emit, self._patience)
                ending, reading = await self._see_through(request.limits, line, talk, token)
            # How it ended after its answer is our doing and tells nothing.
            how = how_it_ended(ending, 0 if reading.ended else line.code)
            return judge(self._argv, finished(out, err, *how, duration=line.child.duration), reading, self._now())

    async def _see_through(self, limits: Limits, line: "_Line", talk: Talk, token: str) -> tuple[Ending, Reading]:
        try:
            await line.open()
            return await self._watch(limits, line, talk)
        finally:
            line.hang_up()
            try:
                grace = 0.0 if line.child.exited else self._grace
                await to_the_end(partial(sweep.stop, line.child.pid, token, grace))
            finally:
                line.close()

    async def _watch(self, limits: Limits, line: "_Line", talk: Talk) -> tuple[Ending, Reading]:
        talking = asyncio.ensure_future(talk.hold())
        running = asyncio.ensure_future(line.child.over(limits.timeout, limits.idle))
        try:
            await asyncio.wait((talking, running), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                await line.farewell()
                return Ending.EXITED, talking.result()
            if (ending := running.result()) is Ending.EXITED:
                await line.last_words()
                return ending, await talking
            await self._call_off(line, talk, talking)
            return ending, talking.result() if talking.done() else talk.told()
        except asyncio.CancelledError:
            await self._call_off(line, talk, talking)
            raise
        finally:
            await _drop(talking, running)

    async def _call_off(self, line: "_Line", talk: Talk, talking: asyncio.Future[Reading]) -> None:
        """Ask it to stop and give it its time: an agent that stops by itself leaves none of its commands running."""
        if not talk.cancel():
            return
        gone = asyncio.ensure_future(line.child.over(None, None))
        try:
            await asyncio.wait((talking, gone), timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _drop(gone)


class _Line:
    """The pipes to a program that runs, and what goes over them. What is kept of it is kept without secrets.

    What the program is answered by is not: it may write a file in which something looks like a key.
    """

    def __init__(
        self, program: Popen[bytes], client: Client, said: Redacted, complained: Redacted, longest: int
    ) -> None:
        self.peer = Peer(self.send, client.answer, client.hear)
        self.code: int | None = None
        self._lines = Lines(self.peer.take, longest)
        self.child = Child(program, (said.feed, self._lines.feed), (complained.feed,))
        self._pipe = cast(IO[bytes], program.stdin)
        self._stdin: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Begin to read and write."""
        self.child.watch()
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._pipe)

    def send(self, data: bytes) -> None:
        """Write, or keep it until it can be written: an agent that does not read must not stop us."""
        if self._stdin and not self._stdin.is_closing():
            self._stdin.write(data)

    async def farewell(self) -> None:
        """Let it leave by itself."""
        if self._stdin:
            self._stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self.child.over(None, None)

    async def last_words(self) -> None:
        """Read what an agent that is gone said last, and wait for no more."""
        await self.child.drained()
        self._lines.finish()
        self.peer.hang_up("")

    def hang_up(self) -> None:
        """Write no more."""
        self.peer.hang_up("")
        if self._stdin is None:
            self._pipe.close()
        elif not self._stdin.is_closing():
            self._stdin.abort()

    def close(self) -> None:
        """Let go of the program."""
        self.code = self.child.close()


async def _drop(*futures: asyncio.Future[Reading] | asyncio.Future[Ending]) -> None:
    """Cancel what still runs, and take what it raised."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
