"""An agent that speaks the Agent Client Protocol on its standard streams, and does what the prompt tells it.

The prompt is a JSON list of steps, each a list of a name and its arguments; the options are about how it begins.
With `--kit` it is built with the protocol's own kit, to show that both sides mean the same protocol.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

OPTIONS = [
    {"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Agent:
    """The agent's side, one message at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.numbers = itertools.count(1000)
        self.calls = itertools.count(1)
        self.session = "s-1"
        self.stop: dict[str, Any] = {"stopReason": "end_turn"}
        self.settings: list[Any] = []
        self.slow = False

    def write(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def update(self, kind: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.write({"method": "session/update", "params": {"sessionId": self.session, "update": update}})

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self.numbers)
        self.write({"id": number, "method": method, "params": {"sessionId": self.session, **params}})
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("id") == number:
                return message.get("result", message.get("error"))
        return None

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message:
                answer = getattr(self, "on_" + message["method"].replace("/", "_"))(message["params"])
                self.write({"id": message["id"], **answer})

    def on_initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.append(params["clientCapabilities"])
        if self.options.silent:
            self.wait()
        told = {"protocolVersion": self.options.speaks, "agentCapabilities": {"loadSession": self.options.load}}
        return {"result": {**told, "agentInfo": {"name": self.options.name, "version": "1.2"}}}

    def on_session_new(self, params: dict[str, Any]) -> dict[str, Any]:
        assert Path(params["cwd"]).is_absolute()
        return {"result": {"sessionId": self.session, **json.loads(self.options.offers)}}

    def on_session_load(self, params: dict[str, Any]) -> dict[str, Any]:
        self.session = params["sessionId"]
        self.update("user_message_chunk", content={"type": "text", "text": "what was asked"})
        self.say("what was answered long ago")
        return {"result": None}

    def on_session_set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.append([params["configId"], params["value"]])
        return {"result": json.loads(self.options.offers)}

    def on_session_set_model(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.append(params["modelId"])
        return {"result": {}}

    def on_session_set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.append(params["modeId"])
        return {"result": {}}

    def on_session_prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        for name, *arguments in json.loads(params["prompt"][0]["text"]):
            if error := getattr(self, "do_" + name)(*arguments):
                return {"error": error}
        return {"result": self.stop}

    def do_say(self, text: str) -> None:
        self.say(text)

    def do_think(self, text: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def do_big(self, size: int) -> None:
        self.say("x" * size)

    def do_settings(self) -> None:
        self.say(json.dumps(self.settings))

    def do_env(self, name: str) -> None:
        self.say(os.environ.get(name, "nothing"))

    def do_tool(self, kind: str, title: str, *, status: str = "completed") -> None:
        call = f"c-{next(self.calls)}"
        self.update("tool_call", toolCallId=call, title=title, kind=kind, status="pending")
        self.update("tool_call_update", toolCallId=call, status=status)

    def do_permit(self, kind: str, title: str) -> None:
        call = f"c-{next(self.calls)}"
        self.update("tool_call", toolCallId=call, title=title, kind=kind, status="pending")
        answer = self.ask("session/request_permission", {"toolCall": {"toolCallId": call}, "options": OPTIONS})
        done = answer["outcome"].get("optionId") == "yes"
        self.update("tool_call_update", toolCallId=call, status="completed" if done else "failed")
        self.say(answer["outcome"].get("optionId", "cancelled") + "\n")

    def do_ask(self, method: str, params: dict[str, Any]) -> None:
        self.say(json.dumps(self.ask(method, params)))

    def do_raw(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def do_complain(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_die(self, code: int) -> None:
        os._exit(code)

    def do_kill(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def do_fail(self, error: dict[str, Any]) -> dict[str, Any]:
        return error

    def do_stop(self, reason: str) -> None:
        self.stop["stopReason"] = reason

    def do_update(self, kind: str, fields: dict[str, Any]) -> None:
        self.update(kind, **fields)

    def do_result(self, fields: dict[str, Any]) -> None:
        self.stop |= fields

    def do_usage(self, usage: dict[str, int] | None) -> None:
        self.stop["usage"] = usage

    def do_cost(self, amount: float) -> None:
        self.update("usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})

    def do_record(self, path: str, *messages: dict[str, Any]) -> None:
        """Record messages in the file of a session, as pi does."""
        with Path(path).open("a") as file:
            file.writelines(json.dumps({"type": "message", "message": message}) + "\n" for message in messages)

    def do_grandchild(self) -> None:
        """Start a process that leaves the session, as the agents' own shell tools do."""
        program = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
        Path("pid.part").write_text(str(program.pid))
        Path("pid.part").rename("pid")

    def do_wait(self) -> None:
        """Work until it is cancelled, and tell how that came."""
        for line in sys.stdin:
            if json.loads(line).get("method") == "session/cancel":
                Path("cancelled").touch()
                self.stop["stopReason"] = "cancelled"
                return

    def do_deaf(self) -> None:
        """Hear neither the protocol nor a signal that can be ignored."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("deaf").touch()
        signal.pause()

    def do_leave_slowly(self) -> None:
        self.slow = True

    def leave(self) -> None:
        """As an agent does that has a session to write."""
        if self.slow:
            time.sleep(0.3)
            Path("left").touch()

    def do_permit_when_cancelled(self) -> None:
        self.do_wait()
        answer = self.ask("session/request_permission", {"toolCall": {"toolCallId": "late"}, "options": OPTIONS})
        Path("late").write_text(json.dumps(answer))

    def wait(self) -> None:
        """Hear nothing and say nothing."""
        while sys.stdin.read(1):
            pass


def serve_with_the_kit() -> None:
    """The same in little, with the protocol's own kit on this side."""
    import asyncio  # noqa: PLC0415 - only this way of starting needs it and the kit

    import acp  # noqa: PLC0415 - as above
    from acp.schema import AgentCapabilities, Implementation, PermissionOption, ToolCallUpdate, Usage  # noqa: PLC0415 - as above

    path = str(Path("made.txt").absolute())

    class KitAgent:
        def on_connect(self, conn: acp.Client) -> None:
            self.client = conn

        async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> acp.InitializeResponse:
            return acp.InitializeResponse(
                protocol_version=protocol_version,
                agent_capabilities=AgentCapabilities(load_session=True),
                agent_info=Implementation(name="kit", version="7"),
            )

        async def new_session(self, *_: Any, **__: Any) -> acp.NewSessionResponse:
            return acp.NewSessionResponse(session_id="kit-1")

        async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
            await self.client.session_update(session_id, acp.update_agent_message_text("banner"))
            await self.client.session_update(session_id, acp.start_tool_call("c", "Edit it", kind="edit"))
            permission = await self.client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id="c"),
                options=[PermissionOption(option_id=o["optionId"], name="n", kind=o["kind"]) for o in OPTIONS],
            )
            await self.client.session_update(session_id, acp.update_tool_call("c", status="completed"))
            await self.client.write_text_file(session_id=session_id, path=path, content=prompt[0].text)
            read = await self.client.read_text_file(session_id=session_id, path=path)
            answer = f"{permission.outcome.model_dump()['option_id']} {read.content}"
            await self.client.session_update(session_id, acp.update_agent_message_text(answer))
            return acp.PromptResponse(
                stop_reason="end_turn", usage=Usage(total_tokens=15, input_tokens=10, output_tokens=5)
            )

    asyncio.run(acp.run_agent(cast(acp.Agent, KitAgent())))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kit", action="store_true")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--garbage", action="store_true")
    parser.add_argument("--help-instead", action="store_true")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--name", default="test")
    parser.add_argument("--speaks", type=int, default=1)
    parser.add_argument("--offers", default="{}")
    options = parser.parse_args()
    if options.kit:
        serve_with_the_kit()
        return
    if options.garbage:
        sys.stdout.write('hello, I am no agent\n42\n{"neither": "one"}\n[1]\n')
        return
    if options.help_instead:
        sys.exit("Options:\n  --acp  Be an agent [boolean]")
    agent = Agent(options)
    agent.serve()
    agent.leave()


if __name__ == "__main__":
    main()
