"""`$goal`, `${goal}` and `${context.key}`: text in prompts, but only environment variables in commands."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.engine.context import Context

_VARIABLE = re.compile(r"\$(?:goal\b|\{goal\}|\{context\.(?P<key>[^}\s]+)\})")
_SHELL_TOKEN = re.compile(r"\\.|\$\$|'|\"|" + _VARIABLE.pattern, re.DOTALL)
_SHELL_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command for the shell, and the environment variables it uses."""

    text: str
    keys: dict[str, str]  # variable -> context key
    mentions: frozenset[str]  # every variable that the command names


def context_text(context: Context, key: str) -> str:
    """A context value as text: a string as it is, nothing for null, anything else as JSON."""
    value = context.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def expand_prompt(text: str, goal: str, context: Context) -> str:
    """A prompt with its variables replaced; variables within their values are not."""
    return _VARIABLE.sub(lambda found: goal if found["key"] is None else context_text(context, found["key"]), text)


def shell_command(command: str) -> ShellCommand:
    """A command whose variables come from the environment, so that no value is ever read as shell code.

    Inside double quotes a variable stays inside them; single quotes are closed before it and opened again.
    """
    keys: dict[str, str] = {}
    return ShellCommand("".join(_rewrite(command, keys)), keys, frozenset(_SHELL_VARIABLE.findall(command)))


def _rewrite(command: str, keys: dict[str, str]) -> Iterator[str]:
    quote = ""
    end = 0
    for found in _SHELL_TOKEN.finditer(command):
        yield command[end : found.start()]
        end = found.end()
        word = found[0]
        if word in ("'", '"'):
            quote = "" if quote == word else quote or word
        elif word.startswith("$") and word != "$$":
            name = _variable_name(found["key"], keys)
            word = {"": f'"${{{name}}}"', '"': f"${{{name}}}", "'": f"'\"${{{name}}}\"'"}[quote]
        elif quote == "'" and word.startswith("\\"):
            end = found.start() + 1  # a backslash means nothing in single quotes, but what follows it may
            word = "\\"
        yield word
    yield command[end:]


def _variable_name(key: str | None, keys: dict[str, str]) -> str:
    """The environment variable for a context key, or for the goal; two keys never share one."""
    if key is None:
        return "AWF_GOAL"
    name = "AWF_CTX_" + re.sub(r"[^A-Za-z0-9]", "_", key).upper()
    while keys.get(name, key) != key:
        name += "_"
    keys[name] = key
    return name
