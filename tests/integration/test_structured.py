"""Findings that code can read, through whole runs of the real command: reviews, reports, answers, edits.

A status comes from what was found, never from what was claimed; what cannot be read is never clean.
"""

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

from pipeline.app.history import RunHistory
from pipeline.app.store import load_state
from pipeline.engine.outcome import Outcome
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.model import Finding, FindingState, What
from pipeline.journal.sqlite import SqliteJournal

CODE = (
    "import os\n\n\ndef load(path):\n    handle = open(path)\n    return handle.read()\n\n\nprint(load(os.devnull))\n"
)
LOOP = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "gate" kind="decision" {
  route when="findings() > 0" to="fix"
  route when="true" to="end"
}
stage "fix" kind="llm" prompt="Fix it"
transition from="rev" to="gate"
transition from="fix" to="rev"
"""
ONCE = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
transition from="rev" to="end"
"""


def item(title: str = "The handle is never closed", **more: Any) -> dict[str, Any]:
    """One finding as a reviewer returns it."""
    return {
        "title": title,
        "severity": "P1",
        "file": "app.py",
        "line": 5,
        "why_it_matters": "descriptors run out under load",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "suggested_fix": "use a with block",
        "confidence": 100,
        "evidence": ["app.py:5 -- handle = open(path)"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any], **more: Any) -> str:
    """A whole return."""
    return json.dumps(
        {
            "reviewer": "rev",
            "findings": list(items),
            "reviewed": ["app.py and w.awf.kdl: read"],
            "residual_risks": [],
            "testing_gaps": [],
            **more,
        }
    )


REPAIRED = {"write": {"app.py": f"{CODE}# repaired\n"}, "reply": "Done."}
FIXED = "\n\n[FINDING 1: fixed]\n"
CLAIMED = {**REPAIRED, "reply": f"Done.{FIXED}"}


def fenced(text: str) -> str:
    return f"I looked at it.\n\n```json\n{text}\n```\n"


class Project:
    """A git repository with a little code in it, and the run that works there."""

    def __init__(self, awf: Awf, folder: Path) -> None:
        self.awf_anywhere = awf
        self.folder = folder
        folder.mkdir()
        (folder / "app.py").write_text(CODE)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
            subprocess.run(named, cwd=folder, check=True, capture_output=True)

    def run(self, body: str, script: dict[str, Any] | None = None, start: str = "rev") -> dict[str, Any]:
        """Run a workflow with this body until it stops."""
        head = f'workflow "W" {{\nversion 2\nstart "{start}"\nsettings {{ max_visits 4; }}\n'
        (self.folder / "w.awf.kdl").write_text(f'{head}{body}\nstage "end" kind="exit"\n}}\n')
        (self.folder / "script.json").write_text(json.dumps(script or {}))
        given = ["--backend", "scripted", "--script", "script.json", "--run-id", "r", "--json"]
        return self._ended(self.awf("run", "w.awf.kdl", *given))

    def resume(self, *more: str) -> dict[str, Any]:
        return self._ended(self.awf("resume", "r", "--json", *more))

    def awf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.awf_anywhere(*arguments, cwd=self.folder)

    @staticmethod
    def _ended(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        assert done.stdout, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        failed = [event for event in events if event.get("event") == "plugin_failed"]
        return {**events[-1], "code": done.returncode, "complaints": [json.dumps(event) for event in failed]}

    def outcomes(self, stage: str) -> list[Outcome]:
        """The outcome of each visit of a stage, or of its last attempt."""
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            visits = RunHistory.read(entry.record for entry in journal.entries("r")).visits_of(stage)
        return [outcome for visit in visits if (outcome := visit.outcome or visit.error)]

    def context(self, key: str) -> Any:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            return load_state(journal, "r").context.get(key)

    def ledger(self) -> Ledger:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            return LedgerStore(journal).ledger()

    def findings(self) -> list[Finding]:
        return list(self.ledger().findings.values())

    def only(self) -> Finding:
        (finding,) = self.findings()
        return finding

    def verdict_file(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.folder / ".code-review/review-latest.json").read_text())
        return read


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project of its own."""
    return Project(awf, tmp_path / "project")


def test_the_status_is_that_of_the_findings_whatever_the_answer_claims(project: Project) -> None:
    """A grave finding fails a review that says success, and `awf why` tells of the contradiction."""
    first = f"{fenced(found(item()))}\n[STATUS: success]"
    ended = project.run(LOOP, {"rev": [first, found() + FIXED], "fix": REPAIRED})
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])
    failed, passed = json.loads(project.awf("why", "r", "rev", "--json").stdout)
    assert (failed["status"], failed["source"]) == ("fail", "structured")
    assert len(failed["notes"]) == 1
    assert "(app.py:5)" in failed["reason"]
    assert (passed["status"], passed["source"]) == ("success", "structured")


def test_findings_go_to_the_fixer_by_their_numbers(project: Project) -> None:
    """The report names them; the prompt has one line for each, says how to answer, and has the raw JSON only once."""
    both = found(item(), item("A second one", line=9, evidence=["app.py:9 -- print(load(os.devnull))"]))
    project.run(LOOP, {"rev": [both, found()]})
    assert [finding.number for finding in project.findings()] == [1, 2]
    first = project.context("review.findings")[0]
    assert sorted(first["findingIds"]) == sorted(finding.id for finding in project.findings())
    assert project.context("review.verdict") == "WARN"
    prompt = project.awf("prompt", "r", "fix", "--visit", "1").stdout
    assert prompt.count("- #1 (must, high, open) app.py:5: ") == prompt.count("- #2 (must, high, open) app.py:9: ") == 1
    assert "[FINDING N: fixed]" in prompt
    assert '"requires_verification"' not in prompt


def test_why_explains_a_finding_of_the_run(project: Project) -> None:
    """By its id or its number, as `awf findings why` does, and as JSON; one that is not there is told as that."""
    project.run(ONCE, {"rev": found(item())})
    story = project.awf("findings", "why", "1").stdout
    id = story.split()[1]
    assert id.startswith("fnd_")
    assert [project.awf("why", "r", name).stdout for name in (id, "#1")] == [story, story]
    parts = json.loads(project.awf("why", "r", id, "--json").stdout)
    assert all(f"  {line}" in story for part in parts for line in part["lines"])
    missing = project.awf("why", "r", "#99")
    assert (missing.returncode, "#99" in missing.stderr) == (2, True)


def test_a_return_that_was_cut_off_is_asked_for_again(project: Project) -> None:
    """A truncated answer is never repaired into fewer findings.

    If the second is cut off as well, the run pauses, and what it names is kept as unreadable.
    """
    whole = found(item())
    project.run(LOOP, {"rev": [whole[:-40], found()], "fix": "done"})
    (outcome,) = project.outcomes("rev")
    assert (outcome.status, outcome.failure and outcome.failure.kind) == ("error", "protocol")
    assert project.context("review.findings") is None
    assert [(one.title, bool(one.unreadable)) for one in project.findings()] == [(item()["title"], True)]


def test_one_unreadable_item_among_others_keeps_the_review_from_being_clean(project: Project) -> None:
    """An item that cannot be read is kept as a finding of its own, and the review fails."""
    fine = item("Too long a name", severity="P3", confidence=50)
    project.run(ONCE, {"rev": found(fine, item("Odd", file="", why_it_matters="", evidence=[]))})
    (outcome,) = project.outcomes("rev")
    assert (outcome.status, "Odd" in outcome.reason) == ("fail", True)
    finding = project.only()
    assert (finding.title, finding.state, finding.gate.value) == ("Odd", "uncertain", "must")
    assert "`file`" in finding.unreadable
    assert project.context("review.verdict") == "FAIL"


def test_findings_below_the_gate_do_not_fail_the_stage(project: Project) -> None:
    """What nobody is sure of is kept in the pass with its reason, and fails nothing."""
    ended = project.run(LOOP, {"rev": found(item(severity="P2", confidence=50))})
    assert ended["path"] == ["rev", "gate", "end"]
    (passed,) = project.ledger().passes.values()
    assert [(entry.input_id, str(entry.disposition)) for entry in passed.entries] == [("rev#1", "filtered")]


SAYS_FAIL = "\n[STATUS: fail]\n[FAILURE_REASON: the design is wrong]"


def test_a_failure_that_no_kept_finding_explains_is_a_finding_that_blocks(project: Project) -> None:
    """The worse reading wins: the only item is filtered, and the review still says that it fails."""
    ended = project.run(ONCE, {"rev": found(item(severity="P2", confidence=50)) + SAYS_FAIL})
    assert ended["outstanding"] == 1
    (outcome,) = project.outcomes("rev")
    assert (outcome.status, outcome.source) == ("fail", "marker")
    finding = project.only()
    assert (finding.title, finding.state, finding.gate.value) == ("the design is wrong", "uncertain", "must")
    assert project.awf("verdict").returncode == 1


def test_a_failure_beside_a_finding_is_explained_by_it(project: Project) -> None:
    """Whatever its severity: nothing is added, and the stage fails by its own word."""
    ended = project.run(ONCE, {"rev": found(item(severity="P3")) + SAYS_FAIL})
    assert ended["outstanding"] == 1
    assert [outcome.status for outcome in project.outcomes("rev")] == ["fail"]
    assert project.only().title == "The handle is never closed"


def test_a_dismissed_finding_does_not_fail_the_review_again(project: Project) -> None:
    """A suggestion dismissed in the verdict file stays so, and the next review that reports it passes."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "wont_fix", "by design"))
    ended = project.run(body, {"rev": found(item(severity="P2"))})
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])
    assert [outcome.status for outcome in project.outcomes("rev")] == ["partial_success", "success"]
    assert project.only().state is FindingState.WONT_FIX
    assert str(list(project.ledger().passes.values())[-1].entries[0].disposition) == "suppressed"
    assert [one["status"] for one in project.verdict_file()["findings"]] in ([], ["wont_fix"])


SARIF = json.dumps(
    {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "lint"}},
                "results": [
                    {
                        "ruleId": "X1",
                        "level": "error",
                        "message": {"text": "open without close"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": "app.py"},
                                    "region": {"startLine": 5},
                                }
                            }
                        ],
                    }
                ],
            }
        ],
    }
)
JUNIT = (
    '<testsuites><testsuite name="s" tests="1" failures="1"><testcase classname="t" name="test_load" file="app.py" '
    'line="5"><failure message="it leaks">assert 1 == 2</failure></testcase></testsuite></testsuites>'
)
TOOL = """
stage "lint" kind="tool" findings="FORMAT" command="COMMAND"
stage "gate" kind="decision" {
  route when="verdict() == \\"WARN\\"" to="warned"
  route when="verdict() == \\"none\\"" to="unknown"
  route when="true" to="end"
}
stage "warned" kind="tool" command="true"
stage "unknown" kind="tool" command="true"
transition from="lint" to="gate"
transition from="warned" to="end"
transition from="unknown" to="end"
"""


def tool(format: str, command: str) -> str:
    return TOOL.replace("FORMAT", format).replace("COMMAND", command)


@pytest.mark.parametrize(
    ("format", "into"), [("sarif", ' > \\"$AWF_REPORT\\"; echo noise'), ("junit", "")], ids=["a file", "its output"]
)
def test_a_tools_report_is_read_from_its_output_or_its_file(project: Project, format: str, into: str) -> None:
    """A tool that ends well and reports a grave finding has failed; `verdict()` sees it in conditions."""
    (project.folder / "given").write_text({"sarif": SARIF, "junit": JUNIT}[format])
    ended = project.run(tool(format, f"cat given{into}"), start="lint")
    assert ended["path"] == ["lint", "gate", "warned", "end"]
    (outcome,) = project.outcomes("lint")
    assert (outcome.status, outcome.source) == ("fail", "structured")
    finding = project.only()
    assert (finding.location and finding.location.path, finding.reviewer) == ("app.py", "lint")


@pytest.mark.parametrize(("format", "prints"), [("sarif", "echo all is well"), ("junit", "true")], ids=["odd", "none"])
def test_a_report_that_cannot_be_read_pauses_the_run_though_the_tool_ended_well(
    project: Project, format: str, prints: str
) -> None:
    """No report is not a clean report: nothing is decided by it, and the verdict says who did not answer."""
    ended = project.run(tool(format, prints), start="lint")
    assert (ended["code"], ended["path"]) == (3, [])
    (outcome,) = project.outcomes("lint")
    assert (outcome.status, outcome.failure and outcome.failure.kind) == ("error", "protocol")
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["complete"]) == (1, False)


@pytest.mark.parametrize(("ends", "kind"), [("exit 3", "exit_nonzero"), ("kill -9 $$", "signal")])
def test_a_clean_report_of_a_tool_that_failed_is_still_a_failure(project: Project, ends: str, kind: str) -> None:
    """The worse of exit code and report counts, in the ledger too: it does not ship."""
    clean = json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]})
    (project.folder / "given").write_text(clean)
    project.run(tool("sarif", f"cat given; {ends}"), start="lint")
    (outcome,) = project.outcomes("lint")
    assert outcome.failure is not None
    assert (outcome.status.passes, outcome.failure.kind) == (False, kind)
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["ship"]) == (1, False)


def test_a_clean_review_does_not_pass_while_another_reviewer_is_missing(project: Project) -> None:
    """The run pauses before anything is decided, and what is shown of it says that the review is incomplete."""
    body = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "again" kind="llm" auto_status=true prompt="Review it again"
transition from="rev" to="again"
transition from="again" to="end"
"""
    assert project.run(body, {"rev": found(), "again": "hm"})["code"] == 3
    assert project.outcomes("again")[0].status == "error"
    assert project.verdict_file()["verdict"] == "FAIL"
    said = json.loads(project.awf("verdict", "--json").stdout)
    assert (said["complete"], said["ship"]) == (False, False)


@pytest.mark.parametrize(("second", "expected"), [("hm", "FAIL"), ("It is fine.\n[STATUS: success]", "PASS")])
def test_a_reviewer_whose_error_is_routed_is_not_made_good_by_another(
    project: Project, second: str, expected: str
) -> None:
    """The verdict of a run stays bad until the reviewer that said nothing has answered, in words or not."""
    body = """
stage "rev" kind="llm" auto_status=true on_error="route" prompt="Review it"
stage "again" kind="llm" auto_status=true prompt="Review it again"
stage "gate" kind="decision" {
  route when="visits(\\"rev\\") < 2" to="rev"
  route when="true" to="end"
}
transition from="rev" to="again" when="outcome(\\"rev\\") == \\"success\\""
transition from="rev" to="again" when="outcome(\\"rev\\") != \\"success\\""
transition from="again" to="gate"
"""
    project.run(body, {"rev": ["hm", second], "again": found()})
    assert project.context("review.verdict") == expected


def test_what_endangers_the_whole_system_waits_for_a_person(project: Project) -> None:
    """The run pauses before anything is fixed, with exit code 3. What is edited meanwhile counts when it is resumed."""
    script = {"rev": [found(item(severity="P0", system_breaking=True)), found() + FIXED], "fix": REPAIRED}
    ended = project.run(LOOP, script)
    assert (ended["status"], ended["code"], ended["path"]) == ("paused", 3, ["rev"])
    assert project.context("review.verdict") == "ABORT"
    assert project.verdict_file()["verdict"] == "ABORT"
    assert (project.folder / ".code-review/abort-reason.md").is_file()
    path = project.folder / ".code-review/review-latest.json"
    path.write_text(path.read_text().replace('"status": "open"', '"status": "fixed"'))
    ended = project.resume()
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])
    assert ended["complaints"] == []
    assert ("file", FindingState.FIX_CLAIMED) in [(change.who, change.state) for change in project.only().history]
    assert project.only().state is FindingState.VERIFIED_FIXED


def test_answers_of_a_fixer_are_claims_and_a_reviews_verify(project: Project) -> None:
    """`[FINDING 1: fixed]` of a fixer claims; the same of the next review verifies."""
    claimed = {**REPAIRED, "reply": f"Done.{FIXED}[FINDING 99: fixed]"}
    project.run(LOOP, {"rev": [found(item()), found() + FIXED], "fix": claimed})
    assert [(change.what, change.who, change.state, change.by) for change in project.only().history] == [
        (What.RAISED, "rev", FindingState.OPEN, "orchestrator"),
        (What.CLAIM, "fix", FindingState.FIX_CLAIMED, "finish-task"),
        (What.RULING, "rev", FindingState.VERIFIED_FIXED, "revalidate"),
    ]


@pytest.mark.parametrize(("reports", "state"), [("cat given", "open"), ("cat given; cp clean given", "verified_fixed")])
def test_a_reviewer_cannot_close_what_a_tool_reported(project: Project, reports: str, state: str) -> None:
    """`[FINDING 1: fixed]` of a review changes nothing; the tool that no longer lists it verifies it."""
    (project.folder / "given").write_text(SARIF)
    clean = json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]})
    (project.folder / "clean").write_text(clean)
    body = f"""
stage "lint" kind="tool" findings="sarif" command="{reports}"
stage "gate" kind="decision" {{
  route when="visits(\\"lint\\") < 2" to="lint"
  route when="true" to="rev"
}}
stage "rev" kind="llm" auto_status=true prompt="Review it"
transition from="lint" to="gate"
transition from="rev" to="end"
"""
    project.run(body, {"rev": found() + FIXED}, start="lint")
    assert project.only().state == state
    assert project.awf("verdict").returncode == 0  # WARN passes here, and does not ship
    said = json.loads(project.awf("verdict", "--json").stdout)
    assert said["ship"] is (state == "verified_fixed")


def test_a_claim_alone_does_not_make_the_verdict_better(project: Project) -> None:
    """The file takes a claim at its word; the verdict of conditions does not until somebody has looked."""
    body = LOOP.replace('transition from="fix" to="rev"', 'transition from="fix" to="end"')
    project.run(body, {"rev": found(item()), "fix": "[FINDING 1: fixed]"})
    assert project.only().state is FindingState.FIX_CLAIMED
    assert project.context("review.verdict") == "WARN"
    assert (project.verdict_file()["verdict"], project.verdict_file()["findings"][0]["status"]) == ("PASS", "fixed")


def test_a_claim_that_the_next_review_refutes_is_reopened_and_counted(project: Project) -> None:
    """Reported again after a claimed fix, it is reopened, and the next prompt says how often it was tried."""
    again = {"write": {"app.py": f"{CODE}# repaired again\n"}, "reply": "Done."}
    project.run(LOOP, {"rev": [found(item()), found(item()), found() + FIXED], "fix": [CLAIMED, again]})
    finding = project.only()
    assert [change.state for change in finding.history if change.state] == [
        FindingState.OPEN,
        FindingState.FIX_CLAIMED,
        FindingState.REOPENED,
        FindingState.VERIFIED_FIXED,
    ]
    prompt = project.awf("prompt", "r", "fix", "--visit", "2").stdout
    assert "reopened, " in prompt


def edit(old: str, new: str, note: str = "") -> str:
    """A stage that changes the status of findings in the verdict file, as an agent would."""
    pair = r"\\\"{}\\\": \\\"{}\\\""
    words = f"s/{pair.format('status', old)}/{pair.format('status', new)}, {pair.format('note', note)}/"
    return f'stage "fix" kind="tool" command="sed -i \'{words}\' .code-review/review-latest.json"'


def test_a_status_that_an_agent_changes_in_the_verdict_file_is_an_event(project: Project) -> None:
    """An agent may say that it fixed a finding; that is a claim, and the file keeps it."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "fixed"))
    ended = project.run(body.replace('from="fix" to="rev"', 'from="fix" to="end"'), {"rev": found(item())})
    assert ended["complaints"] == []
    last = project.only().history[-1]
    assert (project.only().state, last.what, last.who) == (FindingState.FIX_CLAIMED, What.CLAIM, "stage:fix")
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["fixed"]
    assert project.awf("verdict").stdout.startswith("WARN")


def test_an_illegal_edit_is_refused_reported_and_restored(project: Project) -> None:
    """An agent may not verify; the file says afterwards what it said before."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "verified"))
    ended = project.run(body.replace('from="fix" to="rev"', 'from="fix" to="end"'), {"rev": found(item())})
    assert project.only().state is FindingState.OPEN
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["open"]
    assert ended["complaints"] == []
    (note,) = project.context("review.notes")
    assert note["stage"] == "fix"


BOTH = """
stage "both" kind="parallel" { branch "rev"; branch "qa"; }
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "qa" kind="llm" auto_status=true prompt="Review it"
stage "fix" kind="llm" prompt="Fix it"
transition from="both" to="fix" on="always"
transition from="fix" to="end"
"""


def test_a_parallel_stage_is_one_pass_on_record(project: Project) -> None:
    """Each reviewer is in it; what two of them say of one defect is one line of work, as severe as the worse says."""
    (project.folder / ".wystack").mkdir()
    milder = item(severity="P2", confidence=75)
    quote = {"line": 6, "evidence": ["app.py:6 -- return handle.read()"]}
    worse = item("Descriptors leak", why_it_matters="descriptors run out under heavy load", **quote)
    other = item("The path is not validated", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
    ended = project.run(BOTH, {"rev": found(milder), "qa": found(worse, other)}, start="both")
    assert (ended["path"], ended["complaints"]) == (["rev", "qa", "both", "fix", "end"], [])
    (passed,) = project.ledger().passes
    (record,) = (project.folder / ".wystack/reviews").glob("REV-*.json")
    assert record.stem == passed
    assert sorted(look["reviewer"] for look in json.loads(record.read_text())["x_looks"]) == ["qa", "rev"]
    files = {path.stem for path in (project.folder / ".wystack/findings").glob("fnd_*.json")}
    assert files == {str(finding.id) for finding in project.findings()}
    rows = json.loads(project.awf("findings", "list", "--json").stdout)
    assert [(row["title"], row["severity"], sorted(row["reviewers"])) for row in rows] == [
        (worse["title"], "high", ["qa", "rev"]),
        (other["title"], "high", ["qa"]),
    ]
    prompt = project.awf("prompt", "r", "fix").stdout
    assert prompt.count(f"- #{rows[0]['number']} ") == 1
    assert "2 reviewers" in prompt


def test_a_finding_of_a_finished_branch_survives_the_death_of_the_process(project: Project) -> None:
    """`kill -9` after one branch found what endangers the system: the resumed run is held, and the ledger has it."""
    body = r"""
stage "both" kind="parallel" max_parallel=1 { branch "rev"; branch "kill" }
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "kill" kind="tool" command="test -e killed || { touch killed; kill -9 $PPID; sleep 60; }"
stage "deploy" kind="tool" command="touch deployed"
transition from="both" to="deploy" on="always"
transition from="deploy" to="end"
"""
    head = 'workflow "W" {\nversion 2\nstart "both"\n'
    (project.folder / "w.awf.kdl").write_text(f'{head}{body}\nstage "end" kind="exit"\n}}\n')
    breaking = found(item(severity="P0", system_breaking=True))
    (project.folder / "script.json").write_text(json.dumps({"rev": breaking}))
    died = project.awf("run", "w.awf.kdl", "--script", "script.json", "--run-id", "r")
    assert died.returncode != 0
    ended = project.resume()
    assert (ended["code"], ended["path"]) == (3, ["rev", "kill", "both"])
    assert project.context("review.verdict") == "ABORT"
    assert project.only().system_breaking
    assert not (project.folder / "deployed").exists()


P0 = item("SQL injection", severity="P0")


def test_a_second_answer_erases_nothing(project: Project) -> None:
    """Whatever the second answer leaves out, the grave finding of the first one blocks."""
    agent = project.folder.parent / "agent.sh"
    (project.folder.parent / "first").write_text(found(P0)[:-60])
    (project.folder.parent / "second").write_text(found(item("A typo", severity="P3")) + "\n[STATUS: success]")
    agent.write_text(
        '#!/bin/sh\nhere=$(dirname "$0")\ncat >/dev/null\n'
        '[ -e "$here/asked" ] && cat "$here/second" || { touch "$here/asked"; cat "$here/first"; }\n'
    )
    agent.chmod(0o755)
    head = 'workflow "W" {\nversion 2\nstart "rev"\n'
    (project.folder / "w.awf.kdl").write_text(f'{head}{ONCE}\nstage "end" kind="exit"\n}}\n')
    project.awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "command", "--agent-command", str(agent))
    assert project.awf("verdict").returncode == 1
    assert "SQL injection" in {finding.title for finding in project.findings()}


def test_inside_a_stage_findings_are_neither_verified_nor_lowered(project: Project, awf: Awf) -> None:
    """An agent that runs the command itself has no more say than its files have."""
    (project.folder / "rev.json").write_text(found(P0))
    awf("findings", "import", "rev.json", cwd=project.folder)
    (project.folder / "rev.json").write_text(found({**P0, "severity": "P3", "pre_existing": True}) + FIXED)
    awf("findings", "import", "rev.json", cwd=project.folder, AWF_STAGE="fix")
    finding = next(one for one in project.findings() if one.title == "SQL injection")
    assert (finding.state.is_open, finding.severity.value, finding.pre_existing) == (True, "critical", False)


def test_a_clean_return_of_a_review_that_did_not_finish_is_not_a_pass(project: Project) -> None:
    """It asks to be run again: the run pauses, and the verdict says that the review is incomplete."""
    ended = project.run(ONCE, {"rev": found() + "\n[STATUS: retry]"})
    assert ended["code"] == 3
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["complete"]) == (1, False)


def test_what_the_gate_filters_is_counted_and_shown(project: Project) -> None:
    """A count with its command in `status`, all of it in the report and with `findings list --filtered`."""
    minor = item("A doubtful name", confidence=25)
    answer = json.loads(found(minor)) | {"residual_risks": ["Nobody tried it on Windows."]}
    project.run(ONCE, {"rev": json.dumps(answer)})
    assert json.loads(project.awf("status", "--json").stdout)["filtered"] == 1
    assert "awf findings list --filtered --run" in project.awf("status").stdout
    listed = json.loads(project.awf("findings", "list", "--filtered", "--format", "json").stdout)
    assert [one["title"] for one in listed["filtered"]] == ["A doubtful name"]
    pages = json.loads(project.awf("report", "--json").stdout)
    for page in (pages["markdown"], pages["html"]):
        text = (project.folder / page).read_text()
        assert "A doubtful name" in text
        assert "Nobody tried it on Windows." in text
