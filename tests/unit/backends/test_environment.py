"""Which variables reach a program."""

import pytest

from pipeline.backends.environment import PROVIDER_KEYS, child_environment, provider_variables

SECRETS = (
    "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_OAUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_API_KEY "
    "GEMINI_API_KEY GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS OPENROUTER_API_KEY AWS_SECRET_ACCESS_KEY AWS_PROFILE "
    "AZURE_OPENAI_API_KEY GH_TOKEN GITHUB_TOKEN GITLAB_TOKEN NPM_TOKEN PYPI_TOKEN TWINE_PASSWORD DATABASE_URL "
    "SSH_AUTH_SOCK MY_SECRET MY_TOKEN MY_PASSWORD MY_CREDENTIALS XDG_TOKEN LC_PASSWORD XDG_api_key "
    "CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_MESSAGING_TOKEN ANTHROPIC_BASE_URL OPENAI_BASE_URL "
    "CLAUDECODE CLAUDE_CODE_ENTRYPOINT AI_AGENT OPENCODE GEMINI_CLI CODEX_SANDBOX CODEX_SANDBOX_NETWORK_DISABLED"
)
NEEDED = (
    "PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TERM TMPDIR TZ XDG_CONFIG_HOME XDG_RUNTIME_DIR "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy"
)


def agent_environment(given: dict[str, str], provider: str | None, more: tuple[str, ...] = ()) -> dict[str, str]:
    """What an agent of a provider gets."""
    return child_environment(given, extra_names=(*provider_variables(provider), *more))


def base(names: str) -> dict[str, str]:
    return {name: f"value of {name}" for name in names.split()}


def test_what_every_program_needs_is_passed() -> None:
    """Paths, locale, certificates and proxies reach a tool with their values."""
    assert child_environment(base(NEEDED)) == base(NEEDED)


def test_nothing_else_is_passed() -> None:
    """A tool gets no secret, provider address, trace of an outer agent, or unknown variable."""
    assert child_environment(base(f"{SECRETS} EDITOR MY_SETTING AWF_PROCESS")) == {}


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_named_variable_is_passed(name: str) -> None:
    """A variable named in full is passed, even a secret."""
    assert child_environment(base(SECRETS), extra_names=[name]) == base(name)


def test_a_pattern_matches_no_secret() -> None:
    """A pattern passes what it matches, except what must be named in full."""
    given = base("MY_SETTING MY_TOKEN CLAUDE_CODE_ENTRYPOINT")
    assert child_environment(given, extra_names=["MY_*", "CLAUDE_CODE_*"]) == base("MY_SETTING")


def test_a_named_variable_that_is_not_set_is_left_out() -> None:
    """Naming an unset variable does not create it."""
    assert child_environment({}, extra_names=["MY_TOKEN"]) == {}


@pytest.mark.parametrize("provider", PROVIDER_KEYS)
def test_an_agent_gets_the_keys_of_its_provider(provider: str) -> None:
    """It gets its own provider's keys and no other's."""
    every_key = base(" ".join(key for keys in PROVIDER_KEYS.values() for key in keys))
    own = PROVIDER_KEYS[provider]
    assert agent_environment(every_key, provider) == base(" ".join(own))
    assert agent_environment(every_key, provider.upper()).keys() == set(own)


def test_an_unknown_provider_has_conventional_variables() -> None:
    """NAME_API_KEY and NAME_BASE_URL are what everybody calls them."""
    given = base("MISTRAL_API_KEY FIRE_WORKS_API_KEY OPENAI_API_KEY")
    assert agent_environment(given, "mistral") == base("MISTRAL_API_KEY")
    assert agent_environment(given, "fire-works") == base("FIRE_WORKS_API_KEY")


def test_without_a_provider_there_are_no_keys() -> None:
    """Such an agent gets what a tool gets, and the variables that are named."""
    assert agent_environment(base(f"{SECRETS} PATH"), None, ("MY_TOKEN",)) == base("PATH MY_TOKEN")
