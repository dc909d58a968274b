"""`$goal`, `${goal}` and `${context.key}`: put into prompts as text, into commands only as environment variables."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.engine.context import Context

_VARIABLE = re.compile(r"\$(?:goal\b|\{goal\}|\{context\.(?P<key>[^}\s]+)\})")
_SHELL = re.compile(r"\\.|\$\$|'|\"|" + _VARIABLE.pattern, re.DOTALL)
_NAMED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command for the shell, with the context keys it uses and the names of their variables."""

    text: str
    keys: dict[str, str]  # variable -> context key
    mentions: frozenset[str]  # every variable the command names


def expand_prompt(text: str, goal: str, context: Context) -> str:
    """A prompt with its variables filled in, each once: what comes in is not looked at again."""

    def value(found: re.Match[str]) -> str:
        key = found["key"]
        return goal if key is None else _text(context.get(key))

    return _VARIABLE.sub(value, text)


def shell_command(command: str) -> ShellCommand:
    """A command whose variables are taken from the environment, so that no value is ever read as shell code.

    Inside double quotes a variable stays inside them; single quotes are left for it and entered again.
    """
    keys: dict[str, str] = {}
    return ShellCommand("".join(_rewritten(command, keys)), keys, frozenset(_NAMED.findall(command)))


def _rewritten(command: str, keys: dict[str, str]) -> Iterator[str]:
    quote = ""
    at = 0
    for found in _SHELL.finditer(command):
        yield command[at : found.start()]
        at = found.end()
        word = found[0]
        if word in ("'", '"'):
            quote = "" if quote == word else quote or word
        elif word.startswith("$") and word != "$$":
            word = _in_quotes(_variable(found["key"], keys), quote)
        elif quote == "'" and word.startswith("\\"):
            at = found.start() + 1  # a backslash means nothing between single quotes; what follows it may
            word = "\\"
        yield word
    yield command[at:]


def _variable(key: str | None, keys: dict[str, str]) -> str:
    if key is None:
        return "AWF_GOAL"
    name = "AWF_CTX_" + re.sub(r"[^A-Za-z0-9]", "_", key).upper()
    while keys.get(name, key) != key:
        name += "_"
    keys[name] = key
    return name


def _in_quotes(name: str, quote: str) -> str:
    return {"": f'"${{{name}}}"', '"': f"${{{name}}}", "'": f"'\"${{{name}}}\"'"}[quote]


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def context_text(context: Context, key: str) -> str:
    """A context value as text: as it is, or as JSON when it is no text."""
    return _text(context.get(key))
