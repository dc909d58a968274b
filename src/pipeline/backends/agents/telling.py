"""What agents have in common to tell: which tool they use on what, and which model they are asked for."""

import json

from pipeline.engine.agent import Request

_QUOTED = 300  # characters of a line that could not be read
_SHORT = 120  # characters of what a tool is used for
_TELLING = (
    *("command", "file_path", "filePath", "notebook_path", "dir_path", "path", "pattern", "query", "url"),
    *("description", "skill"),
)


def tool_label(name: str, what: str) -> str:
    """A tool and what it is used for, on one short line: `Bash: pytest -q`."""
    line = " ".join(what.split())
    short = line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
    return f"{name}: {short}" if short else name


def excerpt(line: bytes | object) -> str:
    """The beginning of something that an agent printed and that could not be read."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False)
    return text.strip()[:_QUOTED]


def tool_used(name: str, arguments: object) -> str:
    """A tool and the one of its arguments that tells most."""
    given = arguments if isinstance(arguments, dict) else {}
    return tool_label(name, next((given[key] for key in _TELLING if isinstance(given.get(key), str)), ""))


def model_path(request: Request) -> str:
    """The model with its provider before it, as agents for many providers want it."""
    model = request.model or ""
    return f"{request.provider}/{model}" if request.provider and model and "/" not in model else model
