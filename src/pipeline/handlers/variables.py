"""`$goal`, `$input.name` and `${context.key}`: text in prompts, but only environment variables in commands."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.engine.context import Context, input_key
from pipeline.language.inputs import INPUT_VARIABLE, input_name

_VARIABLE = re.compile(rf"\$(?:goal\b|\{{goal\}}|\{{context\.(?P<key>[^}}\s]+)\}})|{INPUT_VARIABLE}")
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

    def value(found: re.Match[str]) -> str:
        key = _context_key(found)
        return goal if key is None else context_text(context, key)

    return _VARIABLE.sub(value, text)


def input_variable(name: str) -> str:
    """The environment variable that holds an input."""
    return f"AWF_INPUT_{name.upper()}"


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
            name = _variable_name(found, keys)
            word = {"": f'"${{{name}}}"', '"': f"${{{name}}}", "'": f"'\"${{{name}}}\"'"}[quote]
        elif quote == "'" and word.startswith("\\"):
            end = found.start() + 1  # a backslash means nothing in single quotes, but what follows it may
            word = "\\"
        yield word
    yield command[end:]


def _context_key(found: re.Match[str]) -> str | None:
    """The context key that a variable stands for; None for the goal."""
    name = input_name(found)
    return input_key(name) if name else found["key"]


def _variable_name(found: re.Match[str], keys: dict[str, str]) -> str:
    """The environment variable for a goal, an input or a context key; two keys never share one."""
    key = _context_key(found)
    if key is None:
        return "AWF_GOAL"
    if name := input_name(found):
        return input_variable(name)
    name = "AWF_CTX_" + re.sub(r"[^A-Za-z0-9]", "_", key).upper()
    while keys.get(name, key) != key:
        name += "_"
    keys[name] = key
    return name
