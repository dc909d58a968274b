"""The fault matrix with the real agents: whatever happens to a reviewer, no run of `awf` succeeds because of it."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.agents.conftest import Serve
from tests.agents.harness import awf, commit_all
from tests.agents.programs import Program, variables
from tests.agents.server.script import Cause, Drop, Hang, Kill, Refuse, Say, Script, Shell, Step
from tests.agents.situations import RESET, subscribed

pytestmark = pytest.mark.real_agent

RUN = "faulty"
WORKFLOW = """workflow "Faults" {
  version 2
  start "reviews"
  settings { max_visits 1; }
  stage "reviews" kind="parallel" { branch "review_code"; branch "review_tests"; }
  stage "review_code" kind="llm" findings="review" access="read-only" prompt="Do what ZZcodeZZ says." {
    retry max_attempts=1 // the agents' own retries take long enough
  }
  stage "review_tests" kind="llm" findings="review" access="read-only" backend="command" prompt="Review the tests."
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Do what ZZfixZZ says."
  stage "exit" kind="exit"
  transition from="reviews" to="gate"
  transition from="fix" to="reviews"
}
"""
REVIEW = '{"reviewer": "r", "findings": [%s], "residual_risks": [], "testing_gaps": []}'
ITEM = (
    '{"title": "%s", "severity": "P1", "file": "work.txt", "line": 1, "why_it_matters": "It breaks.", '
    '"autofix_class": "gated_auto", "owner": "review-fixer", "requires_verification": true, '
    '"suggested_fix": "Fix it.", "confidence": %s, "evidence": ["work.txt:1 -- work"], "pre_existing": false}'
)
THREE = REVIEW % ", ".join([ITEM % ("One", 25), ITEM % ("Two", 25), ITEM % ("It leaks", '"no idea"')])
FIX = Shell("echo fixed > work.txt")  # silence verifies only what was changed
GOOD = {"ZZcodeZZ": (Say(REVIEW % ""),), "ZZfixZZ": (FIX, Say("Done."))}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a reviewer, and the error that `awf why` then names; `but` names the exceptions."""

    name: str
    step: Step
    error: str | None  # None: the review was read, and failed
    limit: str = ""  # of the settings, by which a program is stopped that does not give up
    but: Mapping[str, str] = field(default_factory=dict)
    is_subscriber: bool = False


FAULTS = (
    Fault("401", Refuse(401), "auth"),
    Fault("403", Refuse(403), "auth"),
    Fault("429", Refuse(429), "rate_limit", "timeout"),
    Fault("429-reset", Refuse(429, RESET, Cause.USAGE_LIMIT), "quota", "timeout", is_subscriber=True),
    Fault("500", Refuse(500), "server", "timeout"),
    Fault("dropped", Drop(torn=True), "network", "timeout"),
    Fault("hang", Hang(), "silent", "idle"),
    Fault(
        "killed",
        Kill(),
        "killed",
        "timeout",
        {"gemini": "unknown", "gemini-acp": "unknown", "pi-acp": "timeout"},  # see the situation of this name
    ),
    Fault("empty", Say(""), "empty"),
    Fault("prose", Say("It looks fine to me, I have read all of it."), "protocol"),
    Fault("malformed", Say('{"reviewer": "r", "findings": [{"title": "It leaks" "severity": P0}]}'), "protocol"),
    Fault("truncated", Say('{"reviewer": "r", "findings": [' + ITEM[:80]), "protocol"),
    Fault("unreadable-item", Say(f"{THREE}\n[STATUS: success]"), None),
    Fault("contradiction", Say(REVIEW % ITEM % ("It leaks", 75) + "\n[STATUS: success]"), None),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_fault_of_a_reviewer_ends_in_success(program: Program, fault: Fault, tmp_path: Path, serve: Serve) -> None:
    """The run stops with the error's kind and no verdict to ship; once the model works, a resume finishes it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "w.awf.kdl").write_text(WORKFLOW)
    (project / "work.txt").write_text("work\n")
    commit_all(project)
    server = serve({**GOOD, "ZZcodeZZ": (fault.step,)})
    environ = variables(program, tmp_path, server.url, os.environ["PATH"])
    if fault.is_subscriber:
        environ = subscribed(environ)
    settings = project / ".awf/config.kdl"
    settings.parent.mkdir()
    model = f'model "{program.model}"\nprovider "{program.provider}"\n'
    limit = f'limits {{ {fault.limit} "{program.patience:.0f}s"; }}\n' if fault.limit else ""
    settings.write_text(model + limit)
    (tmp_path / "nothing.json").write_text(REVIEW % "")
    healthy = f'agent "command" {{ program "cat" "{tmp_path}/nothing.json"; }}\n'
    Path(environ["XDG_CONFIG_HOME"], "awf/config.kdl").write_text(program.settings + healthy)
    agents = ("--backend", program.backend)

    stopped = awf(project, environ, "run", "w.awf.kdl", *agents, "--run-id", RUN)
    assert stopped.returncode in (1, 3), stopped.stdout + stopped.stderr
    reviews = [visit for visit in _visits(project, environ) if visit["stage"] == "review_code"]
    assert {visit["error"] or visit["failure"] for visit in reviews} == {fault.but.get(program.name, fault.error)}
    assert not {visit["status"] for visit in reviews} & {"success", "partial_success"}
    assert '"ship": true' not in awf(project, environ, "verdict", "--json").stdout

    server.script = Script(GOOD)
    settings.write_text(model)
    done = awf(project, environ, "resume", RUN, *agents, "--now", "--raise", "max_visits=+20")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = Counter((visit["stage"], visit["visit"]) for visit in _visits(project, environ) if visit["ended"])
    assert set(seen.values()) == {1}, "no finished stage runs twice"


def _visits(project: Path, environ: dict[str, str]) -> list[dict[str, Any]]:
    story = json.loads(awf(project, environ, "why", RUN, "--json").stdout)
    return [entry for entry in story if entry.get("stage")]
