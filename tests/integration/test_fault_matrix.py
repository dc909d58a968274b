"""The fault matrix: whatever goes wrong with a reviewer, no run ends in success and nothing is merged.

Each fault is tried in one workflow, shipped or of the README and the cookbook, and at one of its reviewers, all in
turn; with AWF_FAULT_MATRIX=full in all of them at every reviewer. The run stops and can be resumed; once the
reviewer works, and rules on what was found, it ends as it should, and no finished stage runs twice.
"""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.conftest import Awf
from tests.integration.pages import DOCS, ROOT, blocks, files, sections

REFUSED = "exit 1"
REVIEW = '{"reviewer": "r", "findings": [%s], "reviewed": ["work.txt: read"], "residual_risks": [], "testing_gaps": []}'
ITEM = (
    '{"title": "%s", "severity": "P1", "file": "work.txt", "line": 1, "why_it_matters": "It breaks.", '
    '"autofix_class": "manual", "owner": "downstream-resolver", "requires_verification": false, '
    '"suggested_fix": null, "confidence": %s, "evidence": ["work.txt:1 -- x"], "pre_existing": false}'
)
KEY = r'-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B", "autofixClassification": "manual'  # hidden in part
EMPTY, LEAK, UNREADABLE = REVIEW % "", ITEM % ("It leaks", 75), '{"severity": "P2"}'
SUCCESS = "\n[STATUS: success]"
FOR_A_PERSON = ("a blocker in prose beside an empty list", "malformed JSON")  # what only a person can call a mistake


def says(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND\n"


def does_first(first: str, then: str) -> str:
    """What it does when it is asked for the first time, and from then on."""
    return f'if [ -e "$here/asked-$AWF_STAGE" ]; then\n{then}else touch "$here/asked-$AWF_STAGE"\n{first}fi\n'


def complains(words: str) -> str:
    return f"cat >&2 <<'END'\n{words}\nEND\n{REFUSED}\n"


FAULTS = {  # what the agent does instead of reviewing, as a shell script
    "401": complains('API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid key"}}'),
    "403": complains("API Error: 403 Forbidden: your organization has disabled this model"),
    "429": complains("API Error: 429 Too Many Requests: rate limit exceeded"),
    "429 with a reset time": complains("You've hit your usage limit. Try again in 2 hours 5 minutes."),
    "500": complains("API Error: 500 Internal server error"),
    "dropped connection": complains("Error: socket hang up"),
    "hang": "while :; do read -r _ </dev/null; sleep 100; done\n",
    "SIGKILL": "kill -9 $$\n",
    "exit 1": REFUSED,
    "empty answer": "exit 0\n",
    "asks to be run again": says(f"{EMPTY}\n[STATUS: retry]\n[FAILURE_REASON: no sandbox]"),
    "prose without a status": says("It looks fine to me, I have read all of it."),
    "malformed JSON": says('{"reviewer": "r", "findings": [{"title": "It leaks" "severity": P0}]}' + SUCCESS),
    "truncated JSON": says('{"reviewer": "r", "findings": [' + LEAK[:80] + SUCCESS),
    "one of three items unreadable": says(
        REVIEW % ", ".join([ITEM % ("One", 25), ITEM % ("Two", 25), UNREADABLE]) + SUCCESS
    ),
    "JSON without a reviewer": says(f'{{"findings": [{LEAK}]}}{SUCCESS}'),
    "claims success beside findings": says(REVIEW % LEAK + SUCCESS),
    "claims failure without findings": says(f"{EMPTY}\n[STATUS: fail]\n[FAILURE_REASON: it leaks]"),
    "claims a part of success without findings": says(f"{EMPTY}\n[STATUS: partial_success]"),
    "takes its failure back": does_first(says(f"[STATUS: fail]\n{EMPTY}"), says(EMPTY + SUCCESS)),
    "takes its finding back": does_first(
        says("[STATUS: fail]\n" + REVIEW % '{"title": "It leaks"}'), says(EMPTY + SUCCESS)
    ),
    "forgets what it found": does_first(says(REVIEW % LEAK), says(EMPTY + SUCCESS)),
    "finds, and asks to be run again": does_first(says(f"{REVIEW % LEAK}\n[STATUS: retry]"), says(EMPTY + SUCCESS)),
    "finds, and is refused when it is asked again": does_first(
        says(REVIEW % f"{LEAK}, {UNREADABLE}"), complains("API Error: 401 invalid key")
    ),
    "quotes a private key in the middle of an item": says(REVIEW % LEAK.replace("It breaks.", KEY) + SUCCESS),
    "only thinks of a review": says(f"<think>{EMPTY}{SUCCESS}</think>"),
    "an error beside an empty list": says('{"error": "quota exceeded", ' + EMPTY[1:] + SUCCESS),
    "an unfinished empty list": says('{"status": "incomplete", ' + EMPTY[1:] + SUCCESS),
    "refuses beside an empty list": says(f"I could not access the repository.\n{EMPTY}{SUCCESS}"),
    FOR_A_PERSON[0]: says(f"There is a P0: it leaks.\n{EMPTY}{SUCCESS}"),
    "does not say what it examined": says('{"reviewer": "r", "findings": []}' + SUCCESS),
}
SCRIPT = r"""#!/bin/sh
here=${0%/*}
prompt=$(cat)
if [ -e "$here/fault-$AWF_STAGE" ]; then . "$here/fault-$AWF_STAGE"; exit; fi
case $AWF_STAGE in
  find_plan) echo 'A plan.'; echo '[STATUS: success]' ;;
  *review*|rev*)
    echo '{"findings": [], "reviewed": ["work.txt: read"]}'
    echo "$prompt" | sed -n '/^## Known/,/^Reported/s/^- #\([0-9]*\) (.*/[FINDING \1: fixed]/p'
    echo '[STATUS: success]' ;;
  plan|draft|explore) echo 'A plan.' ;;
  *) echo x >>work.txt; echo 'Done.' ;;
esac
"""
SETTINGS = 'limits { idle "700ms"; retry_delay "1ms" }\n'
FEW = "max_visits 2"  # a loop that a fault keeps going proves no more in its tenth round


REVIEWER = re.compile(r'stage "(rev\w+)" kind="llm" (?:auto_status=true|findings="review")')


@dataclass(frozen=True)
class Case:
    """A workflow with stages that review."""

    name: str
    text: str
    shipped: bool = False

    def positions(self) -> dict[str, tuple[str, ...]]:
        reviewers = tuple(REVIEWER.findall(self.text))
        if len(reviewers) < 2:
            return {"all": reviewers}
        middle = {"middle": reviewers[1:2]} if len(reviewers) > 2 else {}
        return {"first": reviewers[:1], **middle, "last": reviewers[-1:], "all": reviewers}


SECTIONS = sections((DOCS / "cookbook.md").read_text())
RECIPES = [
    Case(title, text)
    for title, section in SECTIONS.items()
    for name, text in files(section).items()
    if name.endswith(".awf.kdl") and REVIEWER.search(text)
]
SHIPPED = [
    Case(name, (ROOT / "workflows" / f"{name}.awf.kdl").read_text(), shipped=True)
    for name in ("quick-dev", "implement-plan", "planning")
]
README = Case(
    "README", next(block.text for block in blocks((ROOT / "README.md").read_text()) if block.language == "kdl")
)
CASES = (*SHIPPED, README, *RECIPES)
FULL = os.environ.get("AWF_FAULT_MATRIX") == "full"
CELLS = [
    pytest.param(case, at, fault, id=f"{case.name}-{where}-{fault}")
    for column, fault in enumerate(FAULTS)
    for row, case in enumerate(CASES)
    if FULL or row == column % len(CASES)
    for turn, (where, at) in enumerate(case.positions().items())
    if FULL or turn == column // len(CASES) % len(case.positions())
]


class Project:
    """A repository with an agent whose reviewers can be broken and repaired."""

    def __init__(self, root: Path, home: Path, awf: Awf, case: Case) -> None:
        self.root, self._awf, self.path = root / "project", awf, ""
        self.agent = root / "agent" / "agent.sh"
        self.agent.parent.mkdir()
        self.agent.write_text(SCRIPT)
        self.agent.chmod(0o755)
        settings = home / ".config/awf/config.kdl"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        self.root.mkdir()
        (self.root / ".gitignore").write_text(".awf/\n")
        (self.root / "Makefile").write_text("check:\n\t@true\n")
        self.workflow = f"workflows/{case.name}.awf.kdl" if case.shipped else "w.awf.kdl"
        if case.shipped:
            shutil.copytree(ROOT / "workflows", self.root / "workflows")
        (self.root / self.workflow).write_text(re.sub(r"max_visits \d+", FEW, case.text))
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            self.git(*words)
        self.start = self.git("rev-parse", "main")

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        done = subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def run(self) -> int:
        options = ("--goal", "Do it", "--run-id", "r", "--auto-approve")
        return self.awf("run", self.workflow, *options, "--backend", "command", "--agent-command", str(self.agent))[0]

    def awf(self, *words: str) -> tuple[int, str]:
        done = self._awf(*words, cwd=self.root, **({"PATH": self.path} if self.path else {}))
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    def break_reviewers(self, stages: tuple[str, ...], fault: str) -> None:
        for stage in stages:
            (self.agent.parent / f"fault-{stage}").write_text(FAULTS[fault])

    def repair(self) -> None:
        for file in self.agent.parent.glob("fault-*"):
            file.unlink()

    def visits(self) -> list[dict[str, object]]:
        story = json.loads(self.awf("why", "r", "--json")[1])
        return [part for part in story if part.get("stage") and part["ended"] is not None]


@pytest.mark.parametrize(("case", "broken", "fault"), CELLS)
def test_no_fault_of_a_reviewer_ends_in_success(
    case: Case, broken: tuple[str, ...], fault: str, tmp_path: Path, home: Path, awf: Awf
) -> None:
    """The run stops short of its exit, nothing is merged, and it ends well once the reviewer works."""
    project = Project(tmp_path, home, awf, case)
    project.break_reviewers(broken, fault)
    assert project.run() in (1, 3)
    assert project.git("rev-parse", "main") == project.start, "nothing is merged"
    passed = {part["stage"] for part in project.visits() if part["status"] in ("success", "partial_success")}
    assert not passed & {*broken, "exit", "merge"}
    verdict = json.loads(project.awf("verdict", "--json")[1])
    assert not verdict["ship"]
    assert verdict["verdict"] != "PASS"

    if LEAK in FAULTS[fault]:
        known = json.loads(project.awf("findings", "list", "--state", "all", "--json")[1])
        assert "It leaks" in {finding["title"] for finding in known}, "nothing that was found is lost"

    project.repair()
    for _ in range(3):  # a loop that used up its visits is given more
        code, _ = project.awf("resume", "r", "--now", "--raise", "max_visits=+20")
        if code == 0:
            break
        if fault in FOR_A_PERSON:
            for one in json.loads(project.awf("findings", "list", "--json")[1]):
                project.awf("findings", "triage", str(one["number"]), "--as", "false-positive", "--note", "It is fine.")
    assert code == 0
    seen = Counter((part["stage"], part["visit"]) for part in project.visits())
    assert set(seen.values()) == {1}, "no finished stage runs twice"


TOOLS = {  # what the file of a tool holds, or nothing when there is no such file
    "command not found": "",
    "not executable": "exit 0\n",
    "report missing": "exit 0\n",
    "report unreadable": "echo all is well\n",
    "report cut off": """echo '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "resu'\n""",
}
CLEAN = {
    "check": "exit 0\n",
    "ruff": """echo '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "ruff"}}, "results": []}]}'\n""",
    "pytest": """echo '<testsuite name="t"><testcase name="a"/></testsuite>' >"$AWF_REPORT"\n""",
}
CHECKS = Case("What linters and tests report", files(SECTIONS["What linters and tests report"])["checks.awf.kdl"])
TOOL_CELLS = [
    pytest.param(case, tool, fault, id=f"{case.name}-{tool}-{fault}")
    for case, tools, faults in ((SHIPPED[0], ["check"], 2), (SHIPPED[1], ["check"], 2), (CHECKS, ["ruff", "pytest"], 5))
    for tool in tools
    for fault in list(TOOLS)[:faults]
]


@pytest.mark.parametrize(("case", "tool", "fault"), TOOL_CELLS)
def test_no_fault_of_a_tool_ends_in_success(
    case: Case, tool: str, fault: str, tmp_path: Path, home: Path, awf: Awf
) -> None:
    """A tool that could not run, or whose report nobody can read, stops the run before anything is decided."""
    project = Project(tmp_path, home, awf, case)
    (project.root / ".awf").mkdir()
    (project.root / ".awf/self-check").write_text("#!/bin/sh\nexec check\n")
    (project.root / ".awf/self-check").chmod(0o755)
    project.git("add", "-Af")
    project.git("commit", "-qm", "check")
    project.start = project.git("rev-parse", "main")
    tools = {name: tmp_path / "bin" / name for name in CLEAN}
    tools[tool].parent.mkdir()
    for name, path in tools.items():
        path.write_text("#!/bin/sh\n" + (TOOLS[fault] if name == tool else CLEAN[name]))
        path.chmod(0o644 if name == tool and fault == "not executable" else 0o755)
    if fault == "command not found":
        tools[tool].unlink()
    basics = tmp_path / "basics"  # what the tools of this machine cannot stand in for
    basics.mkdir()
    for name in ("git", "sh", "cat", "dirname", "echo", "make", "sed"):
        (basics / name).symlink_to(str(shutil.which(name)))
    project.path = f"{tools[tool].parent}:{basics}"
    assert project.run() == 3
    assert project.git("rev-parse", "main") == project.start
    assert not {part["stage"] for part in project.visits()} & {"exit", "merge", "gate"}

    tools[tool].write_text(f"#!/bin/sh\n{CLEAN[tool]}")
    tools[tool].chmod(0o755)
    code, said = project.awf("resume", "r")
    assert code == 0, said
    seen = Counter((part["stage"], part["visit"]) for part in project.visits())
    assert set(seen.values()) == {1}, "no finished stage runs twice"


GONE = Case(
    "Lint and review",
    """workflow "Lint and review" {
  version 2
  start "both"
  stage "both" kind="parallel" { branch "ruff"; branch "review"; }
  stage "ruff" kind="tool" findings="sarif" command="cat lint.sarif"
  stage "review" kind="llm" findings="review" prompt="Review it"
  stage "gate" kind="decision" {
    route when="verdict() == \\"PASS\\"" to="exit"
    route when="true" to="stuck"
  }
  stage "stuck" kind="human" prompt="Again?" {
    option "accept" label="Accept it" to="exit" approves=true
    option "again" label="Again" to="both"
  }
  stage "exit" kind="exit"
  transition from="both" to="gate"
}
""",
)
LINT = """{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "ruff"}}, "results": [
  {"ruleId": "X1", "level": "error", "message": {"text": "It leaks"},
   "locations": [{"physicalLocation": {"artifactLocation": {"uri": "work.txt"}}}]}]}]}
"""


def test_a_report_that_is_gone_when_it_is_taken_in_is_no_clean_one(tmp_path: Path, home: Path, awf: Awf) -> None:
    """A tool has ended while a reviewer could not look, and its log is removed before the run is resumed."""
    project = Project(tmp_path, home, awf, GONE)
    (project.root / "lint.sarif").write_text(LINT)
    (project.root / "work.txt").write_text("x\n")
    project.break_reviewers(("review",), "401")
    assert project.run() == 3
    for log in (project.root / ".awf/runs/r/ruff").rglob("*.log"):
        log.unlink()
    project.repair()
    assert project.awf("resume", "r", "--auto-approve")[0] == 3
    statuses = {part["stage"]: part["status"] for part in project.visits()}
    assert (statuses["review"], statuses["ruff"], "exit" in statuses) == ("success", "fail", False)
    verdict = json.loads(project.awf("verdict", "--json")[1])
    assert (verdict["verdict"], verdict["complete"], verdict["ship"]) == ("FAIL", False, False)
