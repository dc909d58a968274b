"""The programs that the suite runs, and how each is pointed at a model on loopback.

Each keeps all its state below a home directory of the test; the user's own is neither read nor written.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path

KEY = "sk-for-a-model-on-loopback"
MODEL = "scripted"
NOWHERE = "http://127.0.0.1:9"  # a proxy that does not exist: whatever is not on loopback is refused at once


class Ability(Enum):
    """What the tests expect of a program that does not lack it."""

    PERMISSION = auto()  # it can be kept from writing
    SESSION = auto()  # a session can be continued
    TOKENS = auto()  # it reports those of all requests
    OWN_COST = auto()  # it reports what the answer cost, and no more


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's program. `settle` writes its settings below a home directory and returns its variables.

    With a `command` it is an agent of the Agent Client Protocol, which `passed` variables reach besides its key.
    """

    name: str
    provider: str
    model: str
    settle: Callable[[Path, str], Mapping[str, str]]
    shell: str  # its shell tool, which a model may ask for even when it is not offered
    writer: str
    patience: float  # seconds within which it has asked the model and run a first tool, on a busy machine
    command: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    lacks: Mapping[Ability, str] = field(default_factory=dict)  # and why

    @property
    def executable(self) -> str:
        """What has to be on PATH."""
        return self.command[0] if self.command else self.name

    @property
    def backend(self) -> str:
        """The backend of a run with it."""
        return "acp" if self.command else self.name

    @property
    def settings(self) -> str:
        """The settings of a user who runs it."""
        command, passed = (" ".join(f'"{word}"' for word in words) for words in (self.command, self.passed))
        return f"acp {{ command {command}; pass {passed}; }}\n" if self.command else ""


def _claude(home: Path, url: str) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_MAX_RETRIES": "2",  # each takes twice as long as the one before
    }


def _codex(home: Path, url: str) -> Mapping[str, str]:
    _write(
        home / "codex" / "config.toml",
        'model = "gpt-5"\nmodel_provider = "local"\n'
        "[model_providers.local]\n"
        f'name = "local"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
        "request_max_retries = 1\nstream_max_retries = 2\n",
    )
    return {"OPENAI_API_KEY": KEY, "CODEX_HOME": str(home / "codex")}


def _gemini(home: Path, url: str) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"maxAttempts": 2},  # five seconds apart
    }
    _write(home / "gemini" / ".gemini" / "settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_HOME": str(home / "gemini")}


def _opencode(home: Path, url: str) -> Mapping[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "{env:LOCAL_API_KEY}"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": options,
        "models": {MODEL: {"limit": {"context": 100_000, "output": 8_000}, "cost": {"input": 2, "output": 10}}},
    }
    config = {"provider": {"local": provider}, "small_model": f"local/{MODEL}"}
    _write(home / "config" / "opencode" / "opencode.json", json.dumps(config))
    return {"LOCAL_API_KEY": KEY, "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _pi(home: Path, url: str) -> Mapping[str, str]:
    price = {"input": 2, "output": 10, "cacheRead": 0, "cacheWrite": 0}
    local = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "$LOCAL_API_KEY"}
    _write(
        home / "pi" / "models.json",
        json.dumps({"providers": {"local": {**local, "models": [{"id": MODEL, "cost": price}]}}}),
    )
    _write(home / "pi" / "settings.json", json.dumps({"retry": {"maxRetries": 2, "baseDelayMs": 500}}))
    return {"LOCAL_API_KEY": KEY, "PI_CODING_AGENT_DIR": str(home / "pi")}


_CLAUDE = Program("claude", "anthropic", "claude-opus-5-5", _claude, "Bash", "Write", 15)
_CODEX = Program("codex", "openai", "gpt-5", _codex, "exec_command", "apply_patch", 15)
_GEMINI = Program("gemini", "gemini", "gemini-2.5-pro", _gemini, "run_shell_command", "write_file", 30)
_OPENCODE = Program("opencode", "local", MODEL, _opencode, "bash", "write", 45)
_PI = Program("pi", "local", MODEL, _pi, "bash", "write", 15)

COMMAND_LINE = (_CLAUDE, _CODEX, _GEMINI, _OPENCODE, _PI)
ACP = (
    replace(
        _CLAUDE,
        name="claude-agent-acp",
        command=("claude-agent-acp",),
        passed=("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_MAX_RETRIES"),
        model="opus",  # it offers short names only
        lacks={Ability.OWN_COST: "the cost of its requests for titles is part of what it reports"},
    ),
    replace(_CODEX, name="codex-acp", command=("codex-acp",), passed=("CODEX_HOME",)),
    replace(
        _GEMINI,
        name="gemini-acp",
        command=("gemini", "--acp"),
        passed=("GEMINI_CLI_HOME",),
        lacks={Ability.SESSION: "it empties a session that is loaded in the minute of its start"},
    ),
    replace(
        _OPENCODE,
        name="opencode-acp",
        command=("opencode", "acp"),
        passed=("OPENCODE_DISABLE_MODELS_FETCH",),
        lacks={Ability.TOKENS: "it reports those of the last request only; its cost is complete"},
    ),
    replace(
        _PI,
        name="pi-acp",
        command=("pi-acp",),
        passed=("PI_CODING_AGENT_DIR",),
        lacks={Ability.PERMISSION: "it never asks, and its adapter cannot restrict its tools"},
    ),
)
PROGRAMS = (*COMMAND_LINE, *ACP)


def variables(program: Program, directory: Path, url: str, path: str) -> dict[str, str]:
    """The environment of a user of this program, whose home is below `directory`."""
    home = directory / "home"
    temporary = directory / "tmp"
    for folder in (home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    offline = {"HTTPS_PROXY": NOWHERE, "HTTP_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
    places = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state", "cache")}
    _write(home / "config" / "awf" / "config.kdl", program.settings)
    return {"PATH": path, "HOME": str(home), "TMPDIR": str(temporary), **offline, **places, **program.settle(home, url)}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
