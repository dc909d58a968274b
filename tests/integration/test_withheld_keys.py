"""A key that an agent was not given: the error names it, with the setting that passes it."""

import json
import re
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """workflow "W" {
  version 2
  start "ask"
  stage "ask" kind="llm" prompt="x"
  stage "end" kind="exit"
  transition from="ask" to="end"
}
"""
KEYS = {"FOO_API_KEY": "value-of-foo-1234567", "BAR_TOKEN": "value-of-bar-1234567", "PLAIN": "value-of-plain"}


def settings(home: Path, text: str) -> None:
    path = home / ".config/awf/config.kdl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("backend", ["command", "claude"])
def test_an_auth_error_names_the_setting_that_passes_a_key(awf: Awf, tmp_path: Path, home: Path, backend: str) -> None:
    """Put into the settings word for word, it does; values are never shown."""
    agent = tmp_path / "agent"
    answer = {"type": "result", "is_error": False, "subtype": "success", "result": "fine", "session_id": "s"}
    printed = json.dumps(answer) if backend == "claude" else "fine"
    flags = 'case "$*" in *--help*|*--version*) exit 3;; esac'
    refuse = '[ -n "$FOO_API_KEY" ] || { echo "Error: 401 unauthorized" >&2; exit 1; }'
    agent.write_text(f"#!/bin/sh\n{flags}\ncat >/dev/null\n{refuse}\necho '{printed}'\n")
    agent.chmod(0o755)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    program = f'agent "{backend}" {{ program "{agent}"'
    settings(home, f"{program} }}\n")
    done = awf("run", "w.awf.kdl", "--backend", backend, "--run-id", "r", "--json", **KEYS)
    assert done.returncode == 3, done.stderr
    (error,) = json.loads(awf("status", "r", "--json").stdout)["errors"]
    assert error["kind"] == "auth"
    assert (f'agent "{backend}" {{ pass "FOO_API_KEY" }}' in error["reason"], "PLAIN" in error["reason"]) == (
        True,
        False,
    )
    assert "BAR_TOKEN" in error["reason"]
    shown = awf("doctor", **KEYS).stdout
    assert f'agent "{backend}" {{ pass "FOO_API_KEY" }}' in re.sub(r"\s+", " ", shown)
    assert not any(value in done.stdout + done.stderr + shown for value in KEYS.values())
    settings(home, f'{program}; pass "FOO_API_KEY" }}\n')
    assert awf("resume", "r", **KEYS).returncode == 0
