"""Which of the tools that a program offers does what a script asks for, and with which arguments."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from tests.agents.server.conversation import Call, Conversation, Reply, Tool
from tests.agents.server.script import Plain, ReadFile, Say, SayWhether, Shell, WriteFile

_SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")
_READERS = ("Read", "read", "read_file")
_WRITERS = ("Write", "write", "write_file")
_COMMAND = ("command", "cmd")
_PATH = ("file_path", "filePath", "absolute_path", "path")
_TEXT = ("content", "text")


def reply_to(step: Plain, conversation: Conversation) -> Reply:
    """What the model says to carry a step out."""
    match step:
        case Say(text, cut):
            return Reply(text, cut=cut)
        case SayWhether(needle, then, otherwise):
            told = [turn.text for turn in conversation.turns if turn.by == "tool"]
            return Reply(then if told and needle in told[-1] else otherwise)
        case Shell(command, name):
            return Reply(call=_shell(conversation.tools, command, name))
        case ReadFile(path):
            reader = _offered(conversation.tools, _READERS)
            return Reply(
                call=_on_file(reader, path) if reader else _shell(conversation.tools, f"cat {shlex.quote(path)}")
            )
        case WriteFile(path, text, name):
            writer = _offered(conversation.tools, _WRITERS) or Tool(name)
            return Reply(call=_on_file(writer, path, text))
        case _:
            raise TypeError(f"{step} is a fault and no reply")


def _offered(tools: Iterable[Tool], names: tuple[str, ...]) -> Tool | None:
    by_name = {tool.name: tool for tool in tools}
    return next((by_name[name] for name in names if name in by_name), None)


def _shell(tools: Iterable[Tool], command: str, otherwise: str = "Bash") -> Call:
    tool = _offered(tools, _SHELLS) or Tool(otherwise)
    name = tool.argument(*_COMMAND) or _COMMAND[0]
    listed = (tool.schema.get("properties") or {}).get(name, {}).get("type") == "array"
    value: object = ["bash", "-c", command] if listed else command
    return Call(tool.name, _complete(tool, {name: value}))


def _on_file(tool: Tool, path: str, text: str | None = None) -> Call:
    arguments = {tool.argument(*_PATH) or _PATH[0]: path}
    if text is not None:
        arguments[tool.argument(*_TEXT) or _TEXT[0]] = text
    return Call(tool.name, _complete(tool, arguments))


def _complete(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """With a word for every other text that the tool insists on, such as a description."""
    properties = tool.schema.get("properties") or {}
    missing = (name for name in tool.schema.get("required") or () if name not in arguments)
    return {**arguments, **{name: "as asked" for name in missing if properties.get(name, {}).get("type") == "string"}}
