"""A secret planted in the environment of a whole run: no byte of the store and no output shows it."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.integration.conftest import Awf

KEY = 'planted+key/of "anthropic" 4711'
TOKEN = "planted-token-0815"  # noqa: S105 - the secret that is planted
PATTERN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"  # known to nobody, but by its looks
WORKFLOW = """
workflow "Secrets" {
  version 2
  start "dump"
  settings { max_visits 5; }
  stage "dump" kind="tool" command="env; python3 speak.py"
  stage "broken" kind="tool" command="python3 speak.py; python3 speak.py >&2; echo FAILED $(cat token.txt); exit 3"
  stage "build" kind="llm" provider="anthropic" prompt="Build: $goal. It said: ${context.broken.response}"
  stage "review" kind="llm" provider="anthropic" auto_status=true prompt="Review: ${context.tool.output}"
  stage "ask" kind="human" prompt="Is it good?" {
    option "yes" label="Yes" to="exit"
    option "no" label="No" to="build"
  }
  stage "exit" kind="exit"
  transition from="dump" to="broken"
  transition from="broken" to="build" when="outcome(\\"broken\\") != \\"success\\""
  transition from="build" to="review"
  transition from="review" to="ask" when="outcome(\\"review\\") != \\"success\\""
  transition from="review" to="exit" when="outcome(\\"review\\") == \\"success\\""
}
"""
SPEAK = """
import base64, json, sys
for name in ("key.txt", "token.txt"):
    secret = open(name).read()
    for at in range(len(secret)):
        sys.stdout.write(secret[at]); sys.stdout.flush()
    print()
    print("plain:", secret, json.dumps({"secret": secret}))
    for before in ("", "?", "??", "user:"):
        print(base64.b64encode((before + secret + "?").encode()).decode())
    print("no line feed " + secret, end="", flush=True)
    print()
"""
AGENT = """
import os, sys
prompt = sys.stdin.read()
key = os.environ["ANTHROPIC_API_KEY"]
token = open("token.txt").read()
print("I was given", key, "and read", token, "and PATTERN")
print("the other is in my environment:", "MY_TOKEN" in os.environ)
print("it failed with", key, file=sys.stderr)
print("[STATUS: fail]")
print("[FAILURE_REASON: the key", key, "does not work]")
"""


def forms(secret: str) -> set[str]:
    """All that must not be seen of a secret, in any of its forms."""
    encoded = {base64.b64encode(b"?" * n + secret.encode())[4:-4].decode() for n in range(3)}
    return {secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""), *encoded}


FORBIDDEN = {form.encode() for secret in (KEY, TOKEN, PATTERN) for form in forms(secret)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a workflow, tools that print the secrets, and an agent that does."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "secrets.awf.kdl").write_text(WORKFLOW)
    (project / "speak.py").write_text(SPEAK)
    (project / "agent.py").write_text(AGENT.replace("PATTERN", PATTERN))
    (project / "key.txt").write_text(KEY)
    (project / "token.txt").write_text(TOKEN)
    (project / "answers.json").write_text(json.dumps({"ask": [{"option": "yes", "feedback": f"as {TOKEN} says"}]}))
    return project


class Session:
    """Runs `awf` with the secrets in its environment, and keeps all that it prints."""

    def __init__(self, awf: Awf, project: Path) -> None:
        self._awf = awf
        self._project = project
        self.printed = ""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self._awf(*arguments, cwd=self._project, ANTHROPIC_API_KEY=KEY, MY_TOKEN=TOKEN)
        self.printed += done.stdout + done.stderr
        return done

    def start(self, run_id: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        agent = f"{sys.executable} agent.py"
        return self.run(
            *("run", "secrets.awf.kdl", "--run-id", run_id, "--goal", f"use {KEY} and {TOKEN}", "--log", "events.log"),
            *("--backend", "command", "--agent-command", agent, "--answers", "answers.json", *arguments),
        )


@pytest.fixture
def session(awf: Awf, project: Path) -> Session:
    """The command, with the secrets planted."""
    return Session(awf, project)


def seen(data: bytes) -> set[bytes]:
    """What of the secrets can be seen in some bytes."""
    return {form for form in FORBIDDEN if form in data}


def stored(project: Path) -> dict[str, bytes]:
    """Every file that a run leaves."""
    paths = [path for path in (project / ".awf").rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in [*paths, project / "events.log"]}


def look(session: Session, run_id: str) -> None:
    """Everything that can be asked about a run; what is compressed in the store is printed too."""
    for command in (("status",), ("status", "--json"), ("why",), ("context",), ("context", "--json")):
        session.run(command[0], run_id, *command[1:])
    for stage in ("dump", "broken", "build", "review"):
        assert session.run("logs", run_id, stage).returncode == 0
        session.run("logs", run_id, stage, "--stderr")
    for stage in ("build", "review"):
        assert session.run("prompt", run_id, stage).returncode == 0
    session.run("context", run_id, "review.findings")
    session.run("context", run_id, "build.response.full")
    session.run("runs")


def test_a_planted_secret_is_nowhere(session: Session, project: Path) -> None:
    """Tools and agents print it in every way, a goal and an answer hold it; neither store nor screen shows it."""
    assert session.start("r1").returncode == 0
    assert session.start("r2", "--json").returncode == 0
    for run_id in ("r1", "r2"):
        look(session, run_id)
    files = stored(project)
    assert len(files) > 15
    assert {path: found for path, data in files.items() if (found := seen(data))} == {}
    assert seen(session.printed.encode()) == set()
    assert "[redacted ANTHROPIC_API_KEY]" in session.printed
    assert "[redacted MY_TOKEN]" in session.printed


def test_the_search_would_find_it(session: Session, project: Path) -> None:
    """A run whose environment does not hold the secret shows what the same search finds then: nobody knew it."""
    (project / "token.txt").write_text("planted-token-nobody-knows")
    session.start("r1")
    assert any(b"planted-token-nobody-knows" in data for data in stored(project).values())


def test_a_tool_gets_no_key_and_an_agent_only_its_own(session: Session, project: Path) -> None:
    """Not even redacted: the names are not there."""
    session.start("r1")
    environment = (project / ".awf/runs/r1/dump/1/stdout.log").read_text(errors="replace").split("\n")
    assert any(line.startswith("PATH=") for line in environment)
    assert not any(line.startswith(("ANTHROPIC_API_KEY=", "MY_TOKEN=")) for line in environment)
    answer = (project / ".awf/runs/r1/build/1/stdout.log").read_text()
    assert "I was given [redacted ANTHROPIC_API_KEY] and read [redacted MY_TOKEN] and [redacted]" in answer
    assert "the other is in my environment: False" in answer


def test_what_a_run_says_is_redacted_in_words(session: Session) -> None:
    """A person sees which variable was meant, in the goal, in a reason and in an answer to a question."""
    events = [json.loads(line) for line in session.start("r1", "--json").stdout.splitlines()]
    assert events[0]["goal"] == "use [redacted ANTHROPIC_API_KEY] and [redacted MY_TOKEN]"
    failed = {event["stage"]: event["reason"] for event in events if event["event"] == "stage_failed"}
    assert failed["review"] == "the key [redacted ANTHROPIC_API_KEY] does not work"
    assert failed["broken"] == "FAILED [redacted MY_TOKEN]"
    context = session.run("context", "r1").stdout
    assert "as [redacted MY_TOKEN] says" in context


@pytest.mark.parametrize("secret", [TOKEN, PATTERN])
def test_a_workflow_with_a_secret_is_refused(session: Session, project: Path, secret: str) -> None:
    """It would be recorded, and redacted it would do something else."""
    (project / "secrets.awf.kdl").write_text(WORKFLOW.replace("exit 3", f"curl -u {secret}; exit 3"))
    refused = session.start("r1")
    assert refused.returncode == 2
    assert ('"secrets.awf.kdl"' in refused.stderr, "line 7" in refused.stderr) == (True, True)
    assert not any(seen(path.read_bytes()) for path in (project / ".awf").rglob("*") if path.is_file())


def test_an_agent_command_with_a_secret_is_refused(session: Session, project: Path) -> None:
    """So would it."""
    refused = session.run(
        *("run", "secrets.awf.kdl", "--goal", "g", "--run-id", "r1"),
        *("--backend", "command", "--agent-command", f"echo {TOKEN}"),
    )
    assert refused.returncode == 2
    assert "command" in refused.stderr
    assert not any(seen(path.read_bytes()) for path in (project / ".awf").rglob("*") if path.is_file())
