"""One number of open findings: every command and page that shows how many findings of a run are open says the same."""

import io
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from starlette.testclient import TestClient

from pipeline.cli.main import awf, exit_code
from pipeline.web.app import create_app
from pipeline.web.security import AccessPolicy

RUNS = 12  # in each of three stores
TOKEN = "the-token"  # noqa: S105 - of a server that only this test reaches
BASE = "http://127.0.0.1:8765"
WORKFLOW = """workflow "W" {
  version 2
  start "code"
  settings { max_visits 2; }
  stage "code" kind="llm" prompt="Write it"
  stage "check" kind="tool" command="sh check.sh"
  stage "prose" kind="llm" auto_status=true prompt="Review it"
  stage "rev" kind="llm" findings="review" prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix it"
  stage "exit" kind="exit"
  transition from="code" to="check"
  transition from="check" to="prose" on="always"
  transition from="prose" to="rev" on="always"
  transition from="rev" to="gate" on="always"
  transition from="fix" to="check"
}
"""
KINDS: dict[str, dict[str, Any]] = {  # what findings may be like
    "plain": {},
    "minor": {"severity": "P2"},
    "advice": {"severity": "P2", "autofix_class": "advisory"},
    "old": {"pre_existing": True},
    "left to a person": {"owner": "human"},
    "doubtful": {"confidence": 50},  # the gate filters it
}
WORDS = ("unchecked", "leaking", "racing", "stale", "truncated", "unbounded", "shadowed", "swapped")
UNASKED = ("advice", "old")  # what a walk leaves out by default

Command = Callable[..., Any]


def item(number: int, kind: str) -> dict[str, Any]:
    """A finding of a kind; each number has a line and words of its own."""
    return {
        "title": f"{WORDS[number]} value ({kind})",
        "severity": "P1",
        "file": "app.py",
        "line": 10 * number + 1,
        "why_it_matters": f"{WORDS[number]} breaks",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "suggested_fix": "write it otherwise",
        "confidence": 100,
        "evidence": [f"app.py:{10 * number + 1} -- {WORDS[number]}_{number} = compute({number})"],
        "pre_existing": False,
        **KINDS[kind],
    }


def script(chance: random.Random) -> dict[str, list[Any]]:
    """What the agents of one run say and write, in up to three rounds."""
    answers: dict[str, list[Any]] = {"code": [], "prose": [], "rev": [], "fix": []}
    known = [(number, chance.choice([*KINDS])) for number in chance.sample(range(8), chance.randint(0, 4))]
    for visit in range(4):
        code = {"write": {"state": str(chance.randint(0, 1))}, "reply": chance.choice(["Done.", "[FINDING 1: fixed]"])}
        answers["code" if visit == 0 else "fix"].append(code)
        said = chance.choice(["success", "success", "fail", "partial_success"])
        reason = f"[FAILURE_REASON: reason {chance.randint(1, 3)}]" if said != "success" else ""
        answers["prose"].append(f"So I think.\n[STATUS: {said}]\n{reason}")
        found = [item(*one) for one in known if chance.random() < 0.6]
        whole = {"reviewer": "rev", "findings": found, "reviewed": ["app.py: read"]}
        numbers = [number for number in range(1, 41) if chance.random() < 0.7]  # it rules on some
        rulings = "\n".join(f"[FINDING {number}: fixed]" for number in numbers)
        answers["rev"].append(f"```json\n{json.dumps(whole)}\n```\n{rulings}")
    return answers


@pytest.fixture
def project() -> Iterator[Path]:
    """A directory in memory where there is one: a hundred runs wait for the disk longer than they work."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory of its own is made there
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def command(project: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `awf` in this process and read its JSON: what a run prints last, or all that another command prints."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(project / "home"))

    def run(*arguments: str) -> Any:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = exit_code(lambda: awf.main([*arguments, "--json"], prog_name="awf", standalone_mode=False))
        assert code in (0, 3), out.getvalue()[-2000:] + err.getvalue()
        return json.loads(out.getvalue().splitlines()[-1] if arguments[0] == "run" else out.getvalue())

    return run


@pytest.mark.parametrize("seed", range(3))
def test_every_surface_shows_the_same_number(command: Command, project: Path, seed: int) -> None:
    """Random runs share a store; lists, status, report, dashboard and walk agree on each of them."""
    (project / "w.awf.kdl").write_text(WORKFLOW)
    (project / "check.sh").write_text('read state < state; echo "1 failed"; exit "$state"\n')
    lines = [
        f"{WORDS[n // 10]}_{n // 10} = compute({n // 10})" if n % 10 == 0 else f"pass_{n} = {n}" for n in range(80)
    ]
    (project / "app.py").write_text("\n".join(lines) + "\n")
    chance = random.Random(seed)  # noqa: S311 - it must repeat
    ended = dict[str, dict[str, Any]]()
    given = ("--backend", "scripted", "--script", "script.json")
    for number in range(RUNS):
        (project / "script.json").write_text(json.dumps(script(chance)))
        run_id = f"r{number:03}"
        ended[run_id] = command("run", "w.awf.kdl", *given, "--run-id", run_id)

    listed = {one["run_id"]: one for one in command("runs")}
    app = create_app((project / ".awf",), AccessPolicy(TOKEN, "127.0.0.1", 8765, read_only=True), "", {})
    with closing(TestClient(app, base_url=BASE, cookies={"awf-8765": TOKEN})) as client:
        runs = client.get("/").url.path  # the first page is that of the only store
        for run_id in ended:
            found = command("findings", "list", "--run", run_id)
            status = command("status", run_id)
            page = client.get(f"{runs}/{run_id}?format=json").json()
            counts = {listed[run_id]["findings"], status["findings"], page["findings"], len(found)}
            assert counts == {len(found)}, run_id
            assert ended[run_id]["reports"] == ended[run_id]["outstanding"] == len(status["open_reports"])
            assert {one["id"] for one in status["open_findings"]} == {one["id"] for one in found}
            assert listed[run_id]["reports"] == status["reports"] == page["reports"]
            report = command("report", run_id)
            assert (report["findings"], report["reports"]) == (len(found), status["reports"])

    found = command("findings", "list")
    unasked = tuple(f"({kind})" for kind in UNASKED)
    asked = [one for one in found if one["state"] != "fix_claimed" and not one["title"].endswith(unasked)]
    (project / "answers.json").write_text(json.dumps(["skip"] * len(asked)))
    walked = command("findings", "walk", "--answers", "answers.json")
    assert walked["open"] == len(found)
    assert {one["id"] for one in walked["findings"]} == {one["id"] for one in asked}
    assert sum(walked["not_asked"].values()) == len(found) - len(asked)
    assert len({run["status"] for run in ended.values()}) > 1  # some runs end, some reach their limit
    assert any(run["findings"] for run in ended.values())
    assert len(command("findings", "list", "--state", "all")) > len(found)  # and some findings were closed
