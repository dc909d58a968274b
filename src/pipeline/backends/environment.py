"""The environment variables that a program gets: those on a list, never all variables of the user."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from pipeline.redaction import SECRET_NAMES, matches_any

_ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TERM", "TMPDIR", "TZ", "XDG_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "NIX_SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
_SECRET = (*SECRET_NAMES, "AWS_*", "AZURE_*", "TWINE_*", "SSH_AUTH_SOCK", "CLAUDE_CODE_MESSAGING_*")
_REDIRECTING = ("*_BASE_URL",)  # would send the user's own test suite to another host
_OUTER_AGENT = ("CLAUDECODE", "CLAUDE_CODE_*", "AI_AGENT", "OPENCODE", "GEMINI_CLI", "CODEX_*SANDBOX*")
_NEVER = (*_SECRET, *_REDIRECTING, *_OUTER_AGENT)

_GEMINI = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
_GOOGLE_CLOUD = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")

PROVIDER_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {  # a key comes with the address it is meant for
        "anthropic": (
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            "ANTHROPIC_BASE_URL",
        ),
        "openai": ("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"),
        "gemini": _GEMINI,
        "google": _GEMINI,
        "vertex": _GOOGLE_CLOUD,
        "openrouter": ("OPENROUTER_API_KEY",),
        "bedrock": (*_AWS, "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
        "azure": ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
    }
)

_KEY_LIKE = ("*_KEY", "*_TOKEN", "API_KEY")
_WITH_SETTINGS = ("claude", "codex", "gemini", "opencode", "pi", "command")  # `agent` blocks
_MAX_HINTS = 5  # keys that a message names


def child_environment(base: Mapping[str, str], *, extra_names: Collection[str] = ()) -> dict[str, str]:
    """The variables that every program needs, and those in `extra_names`.

    A secret must be named in full: a pattern such as `XDG_*`, built in or given, never matches one.
    """
    named = frozenset(extra_names)
    patterns = (*_ALLOWED, *named)
    return {
        name: value
        for name, value in base.items()
        if name in named or (matches_any(name, patterns) and not matches_any(name.upper(), _NEVER))
    }


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where this program caches files for a user; a relative XDG_CACHE_HOME is ignored, as its standard says."""
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path(environ.get("HOME", "~")).expanduser() / ".cache") / "awf"


def provider_variables(provider: str | None) -> tuple[str, ...]:
    """The variables that hold a provider's key and address."""
    if not provider:
        return ()
    name = re.sub(r"\W", "_", provider, flags=re.ASCII).upper()
    return PROVIDER_KEYS.get(provider.lower(), (f"{name}_API_KEY", f"{name}_BASE_URL"))


def withheld_keys(base: Mapping[str, str], given: Collection[str]) -> tuple[str, ...]:
    """The variables that look like a key and are not among those given to a program, keys of known providers first."""
    known = frozenset(name for names in PROVIDER_KEYS.values() for name in names if matches_any(name, SECRET_NAMES))
    found = [name for name, value in base.items() if value and (name in known or matches_any(name, _KEY_LIKE))]
    return tuple(sorted((name for name in found if name not in given), key=lambda name: (name not in known, name)))


def withheld_hint(agent: str, keys: Collection[str]) -> str:
    """A sentence with the settings that pass the keys to an agent; empty without keys."""
    if not keys:
        return ""
    form = 'acp { pass "%s" }' if agent == "acp" else f'agent "{agent}" {{ pass "%s" }}'
    if agent not in (*_WITH_SETTINGS, "acp"):
        form = 'environment "%s"'
    lines = " or ".join(form % name for name in [*keys][:_MAX_HINTS])
    more = f", and {len(keys) - _MAX_HINTS} more" if len(keys) > _MAX_HINTS else ""
    return (
        f"not passed to {agent}: {', '.join([*keys][:_MAX_HINTS])}{more}; to pass one, put into your settings: {lines}"
    )
