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

from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.model import Finding, FindingState
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
    return json.dumps({"reviewer": "rev", "findings": list(items), "residual_risks": [], "testing_gaps": [], **more})


REPAIRED = {"write": {"app.py": f"{CODE}# repaired\n"}, "reply": "Done."}


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

    def why(self, stage: str) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.awf("why", "r", stage, "--json").stdout)
        return told

    def context(self, key: str) -> Any:
        done = self.awf("context", "r", key, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def ledger(self) -> Ledger:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            return LedgerStore(journal).ledger()

    def only(self) -> Finding:
        (finding,) = self.ledger()
        return finding

    def verdict_file(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.folder / ".code-review/review-latest.json").read_text())
        return read


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project of its own."""
    return Project(awf, tmp_path / "project")


@pytest.mark.parametrize("dressed", [fenced, str], ids=["fenced", "bare"])
def test_the_status_is_that_of_the_findings_whatever_the_answer_claims(project: Project, dressed: Any) -> None:
    """004 stage rule: a grave finding fails a review that says success, and `awf why` tells of the contradiction."""
    ended = project.run(LOOP, {"rev": [dressed(found(item())) + "\n[STATUS: success]", found()], "fix": REPAIRED})
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])
    first, second = project.why("rev")
    assert (first["status"], first["source"]) == ("fail", "structured")
    assert len(first["notes"]) == 1
    assert "(app.py:5)" in first["reason"]
    assert (second["status"], second["source"]) == ("success", "structured")


def test_a_finding_goes_to_the_fix_by_its_number_and_its_report_names_it(project: Project) -> None:
    """004: the report of a structured review has the ids of its findings, and the fixer sees each by its number."""
    project.run(
        ONCE,
        {"rev": found(item(), item("A second one", line=9, evidence=["app.py:9 -- print(load(os.devnull))"]))},
    )
    ids = [finding.id for finding in project.ledger()]
    (report,) = project.context("review.findings")
    assert sorted(report["findingIds"]) == sorted(ids)
    assert [finding.number for finding in project.ledger()] == [1, 2]
    assert project.context("review.verdict") == "WARN"


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


def test_the_fixers_prompt_lists_every_finding_and_how_to_answer(project: Project) -> None:
    """4.3: one line for each finding with its number, gate, severity, state and place, and the raw JSON only once."""
    project.run(LOOP, {"rev": [found(item()), found()]})
    prompt = project.awf("prompt", "r", "fix").stdout
    assert "- #1 (must, high, open) app.py:5: " in prompt
    assert "[FINDING N: fixed]" in prompt
    assert '"requires_verification"' not in prompt


def test_a_return_that_was_cut_off_is_asked_for_again(project: Project) -> None:
    """4.3: a truncated answer is never repaired into fewer findings; it is asked for once more and read whole."""
    whole = found(item())
    project.run(LOOP, {"rev": [whole[:-40], found()], "fix": "done"})
    (told,) = project.why("rev")
    assert (told["status"], told["failure"]) == ("error", "protocol")
    assert project.context("review.findings") is None
    assert not list(project.ledger())


def test_items_that_are_all_unreadable_are_no_clean_review(project: Project) -> None:
    """0-12: it is asked for once more; what then cannot be read is a finding that blocks, and the review fails."""
    nowhere = {"file": "", "why_it_matters": "", "evidence": []}
    project.run(ONCE, {"rev": found(item("First", **nowhere), item("Second", **nowhere))})
    (told,) = project.why("rev")
    assert told["status"] == "fail"
    assert "`file`" in told["reason"]
    assert {(one.title, one.state, one.gate.value) for one in project.ledger()} == {
        ("First", "uncertain", "must"),
        ("Second", "uncertain", "must"),
    }
    assert project.context("review.verdict") == "FAIL"


def test_one_unreadable_item_among_others_keeps_the_review_from_being_clean(project: Project) -> None:
    """0-12: an item that cannot be read is kept as a finding of its own, and the review fails."""
    fine = item("Too long a name", severity="P3", confidence=50)
    project.run(ONCE, {"rev": found(fine, item("Odd", file="", why_it_matters="", evidence=[]))})
    (told,) = project.why("rev")
    assert told["status"] == "fail"
    assert ("rev#2 'Odd'" in told["reason"], "`file`" in told["reason"]) == (True, True)
    assert [(one.title, one.state, one.gate.value) for one in project.ledger()] == [("Odd", "uncertain", "must")]
    assert project.context("review.verdict") == "FAIL"


def test_findings_below_the_gate_do_not_fail_the_stage(project: Project) -> None:
    """003: what nobody is sure of is kept in the pass with its reason, and fails nothing."""
    ended = project.run(LOOP, {"rev": found(item(severity="P2", confidence=50))})
    assert ended["path"] == ["rev", "gate", "end"]
    (passed,) = project.ledger().passes.values()
    assert [(entry.input_id, str(entry.disposition)) for entry in passed.entries] == [("rev#1", "filtered")]


def test_a_review_that_reports_failure_fails(project: Project) -> None:
    """The worse reading wins, and what the review said is a finding that blocks."""
    said = found(item(severity="P2", confidence=50)) + "\n[STATUS: fail]\n[FAILURE_REASON: the design is wrong]"
    ended = project.run(ONCE, {"rev": said})
    assert ended["outstanding"] == 1
    (told,) = project.why("rev")
    assert (told["status"], told["source"], told["reason"]) == ("fail", "marker", "the design is wrong")
    finding = project.only()
    assert (finding.title, finding.state, finding.gate.value) == ("the design is wrong", "uncertain", "must")
    assert project.awf("verdict").returncode == 1


def test_a_medium_finding_passes_in_part(project: Project) -> None:
    """3.2: only suggestions are `partial_success`, and are reported."""
    project.run(ONCE, {"rev": found(item(severity="P2"))})
    assert project.why("rev")[0]["status"] == "partial_success"
    assert [report["status"] for report in project.context("review.findings")] == ["partial_success"]


def test_a_dismissed_finding_does_not_fail_the_review_again(project: Project) -> None:
    """000-46: a suggestion dismissed in the verdict file stays so, and the next review that reports it passes."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "wont_fix", "by design"))
    ended = project.run(body, {"rev": found(item(severity="P2"))})
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])
    assert project.only().state is FindingState.WONT_FIX
    assert str(list(project.ledger().passes.values())[-1].entries[0].disposition) == "suppressed"
    assert project.verdict_file()["findings"] == []


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


@pytest.mark.parametrize("format", ["sarif", "junit"])
@pytest.mark.parametrize("into", ["", ' > \\"$AWF_REPORT\\"; echo noise'], ids=["stdout", "report"])
def test_a_tools_report_is_read_from_its_output_or_its_file(project: Project, format: str, into: str) -> None:
    """3.2: a tool that ends well and reports a grave finding has failed; `verdict()` sees it in conditions."""
    (project.folder / "given").write_text({"sarif": SARIF, "junit": JUNIT}[format])
    ended = project.run(tool(format, f"cat given{into}"), start="lint")
    assert ended["path"] == ["lint", "gate", "warned", "end"], project.why("lint")
    (told,) = project.why("lint")
    assert (told["status"], told["source"]) == ("fail", "structured")
    (finding,) = project.ledger()
    assert (finding.location and finding.location.path, finding.sources) == ("app.py", ("lint",))


@pytest.mark.parametrize("format", ["sarif", "junit"])
@pytest.mark.parametrize("prints", ["echo all is well", "true"], ids=["unreadable", "missing"])
def test_a_report_that_cannot_be_read_pauses_the_run_though_the_tool_ended_well(
    project: Project, format: str, prints: str
) -> None:
    """6.6: no report is not a clean report: nothing is decided by it, and the verdict says who did not answer."""
    ended = project.run(tool(format, prints), start="lint")
    assert (ended["code"], ended["path"]) == (3, [])
    (told,) = project.why("lint")
    assert (told["status"], told["failure"]) == ("error", "protocol")
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["complete"]) == (1, False)


def test_a_clean_report_of_a_tool_that_failed_is_still_a_failure(project: Project) -> None:
    """The worse of exit code and report counts."""
    clean = json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]})
    (project.folder / "given").write_text(clean)
    project.run(tool("sarif", "cat given; exit 3"), start="lint")
    (told,) = project.why("lint")
    assert (told["status"], told["failure"], told["reason"][:11]) == ("fail", "exit_nonzero", "exit code 3")


def test_a_clean_review_does_not_pass_while_another_reviewer_is_missing(project: Project) -> None:
    """6.6: the run pauses before anything is decided, and what is shown of it says that the review is incomplete."""
    body = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "again" kind="llm" auto_status=true prompt="Review it again"
transition from="rev" to="again"
transition from="again" to="end"
"""
    assert project.run(body, {"rev": found(), "again": "hm"})["code"] == 3
    assert project.why("again")[0]["status"] == "error"
    assert project.verdict_file()["verdict"] == "FAIL"
    said = json.loads(project.awf("verdict", "--json").stdout)
    assert (said["complete"], said["ship"]) == (False, False)


@pytest.mark.parametrize(("second", "expected"), [("hm", "FAIL"), ("It is fine.\n[STATUS: success]", "PASS")])
def test_a_reviewer_whose_error_is_routed_is_not_made_good_by_another(
    project: Project, second: str, expected: str
) -> None:
    """0-12: the verdict of a run stays bad until the reviewer that said nothing has answered, in words or not."""
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
    """001-12: an abort pauses the run before anything is fixed, with exit code 3; `awf resume` goes on."""
    script = {"rev": [found(item(severity="P0", x_system_breaking=True)), found()], "fix": REPAIRED}
    ended = project.run(LOOP, script)
    assert (ended["status"], ended["code"], ended["path"]) == ("paused", 3, ["rev"])
    assert project.context("review.verdict") == "ABORT"
    assert project.verdict_file()["verdict"] == "ABORT"
    assert (project.folder / ".code-review/abort-reason.md").is_file()
    ended = project.resume()
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "fix", "rev", "gate", "end"])


def test_an_edit_while_a_run_is_paused_is_recorded(project: Project) -> None:
    """Views are lenses: what was changed in a file while nobody drove the run is not written over."""
    project.run(LOOP, {"rev": [found(item(severity="P0", x_system_breaking=True)), found()]})
    path = project.folder / ".code-review/review-latest.json"
    path.write_text(path.read_text().replace('"status": "open"', '"status": "fixed"'))
    ended = project.resume()
    assert ended["complaints"] == []
    assert ("file", FindingState.FIX_CLAIMED) in [(change.by, change.state) for change in project.only().history]


def test_answers_of_a_fixer_are_claims_and_a_reviews_verify(project: Project) -> None:
    """C-01, C-06: `[FINDING 1: fixed]` of a fixer claims; the same of the next review verifies."""
    clean = found() + "\n\n[FINDING 1: fixed, the block is closed]\n"
    project.run(LOOP, {"rev": [found(item()), clean], "fix": "Done.\n[FINDING 1: fixed]\n[FINDING 99: fixed]"})
    finding = project.only()
    assert finding.state is FindingState.VERIFIED_FIXED
    assert [(change.what, change.state, change.by) for change in finding.history if change.state] == [
        ("raised", FindingState.OPEN, ""),
        ("state", FindingState.FIX_CLAIMED, "finish-task"),
        ("state", FindingState.VERIFIED_FIXED, "revalidate"),
    ]
    assert [(attempt.by, attempt.outcome) for attempt in finding.attempts] == [("fix", "claimed")]


@pytest.mark.parametrize(("reports", "state"), [("cat given", "open"), ("cat given; cp clean given", "verified_fixed")])
def test_a_reviewer_cannot_close_what_a_tool_still_reports(project: Project, reports: str, state: str) -> None:
    """0-04: `[FINDING 1: fixed]` of a review counts once the tool that reported it no longer does."""
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
    project.run(body, {"rev": found() + "\n\n[FINDING 1: fixed, I looked]\n"}, start="lint")
    assert project.only().state == state
    said = json.loads(project.awf("verdict", "--json").stdout)
    assert said["ship"] is (state == "verified_fixed")


def test_a_claim_alone_does_not_make_the_verdict_better(project: Project) -> None:
    """C-06: the file takes a claim at its word; the verdict of conditions does not until somebody has looked."""
    body = LOOP.replace('transition from="fix" to="rev"', 'transition from="fix" to="end"')
    project.run(body, {"rev": found(item()), "fix": "[FINDING 1: fixed]"})
    assert project.only().state is FindingState.FIX_CLAIMED
    assert project.context("review.verdict") == "WARN"
    assert (project.verdict_file()["verdict"], project.verdict_file()["findings"][0]["status"]) == ("PASS", "fixed")


def test_a_claim_that_the_next_review_refutes_is_reopened_and_counted(project: Project) -> None:
    """4.3: reported again after a claimed fix, it is reopened, with one more try that failed."""
    project.run(LOOP, {"rev": [found(item()), found(item()), found()], "fix": ["[FINDING 1: fixed]", "no word"]})
    finding = project.only()
    assert [attempt.outcome for attempt in finding.attempts] == ["claimed", "not_fixed"]
    assert FindingState.REOPENED in [change.state for change in finding.history]
    prompt = project.awf("prompt", "r", "fix", "--visit", "2").stdout
    assert "reopened, tried 2 times" in prompt
    assert "tried: not_fixed" in prompt


def edit(old: str, new: str, note: str = "") -> str:
    """A stage that changes the status of findings in the verdict file, as an agent would."""
    pair = r"\\\"{}\\\": \\\"{}\\\""
    words = f"s/{pair.format('status', old)}/{pair.format('status', new)}, {pair.format('note', note)}/"
    return f'stage "fix" kind="tool" command="sed -i \'{words}\' .code-review/review-latest.json"'


def test_a_status_that_an_agent_changes_in_the_verdict_file_is_an_event(project: Project) -> None:
    """001-10: open to fixed is a legal move of a team's agent; it is a claim, and the file keeps it."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "fixed"))
    ended = project.run(body.replace('from="fix" to="rev"', 'from="fix" to="end"'), {"rev": found(item())})
    assert ended["complaints"] == []
    finding = project.only()
    assert finding.state is FindingState.FIX_CLAIMED
    assert finding.history[-1].note.endswith("open→fixed")
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["fixed"]


def test_an_illegal_edit_is_refused_reported_and_restored(project: Project) -> None:
    """001-10: a team's agent may not verify; the file says afterwards what it said before."""
    body = LOOP.replace('stage "fix" kind="llm" prompt="Fix it"', edit("open", "verified"))
    ended = project.run(body.replace('from="fix" to="rev"', 'from="fix" to="end"'), {"rev": found(item())})
    assert project.only().state is FindingState.OPEN
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["open"]
    assert ended["complaints"] == []
    (note,) = project.context("review.notes")
    assert note["stage"] == "fix"
    assert project.only().history[-1].by == "stage:fix"


def test_every_pass_of_a_parallel_stage_is_on_record(project: Project) -> None:
    """000-01, 000-20: each assessment has its record in the workspace, also where two end together."""
    (project.folder / ".wystack").mkdir()
    body = """
stage "both" kind="parallel" { branch "one"; branch "two"; }
stage "one" kind="llm" auto_status=true prompt="Review it"
stage "two" kind="llm" auto_status=true prompt="Review it"
transition from="both" to="end"
"""
    other = item("Nothing is printed", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
    ended = project.run(body, {"one": found(item()), "two": found(other)}, start="both")
    assert ended["complaints"] == []
    passes = project.ledger().passes
    records = sorted((project.folder / ".wystack/reviews").glob("REV-*.json"))
    assert [path.stem for path in records] == sorted(passes)
    assert len(passes) == 2
    files = {path.stem for path in (project.folder / ".wystack/findings").glob("fnd_*.json")}
    assert files == {str(finding.id) for finding in project.ledger()}


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
    breaking = found(item(severity="P0", x_system_breaking=True))
    (project.folder / "script.json").write_text(json.dumps({"rev": breaking}))
    died = project.awf("run", "w.awf.kdl", "--script", "script.json", "--run-id", "r")
    assert died.returncode != 0
    ended = project.resume()
    assert (ended["code"], ended["path"]) == (3, ["rev", "kill", "both"])
    assert project.context("review.verdict") == "ABORT"
    assert project.only().system_breaking
    assert not (project.folder / "deployed").exists()


P0 = item("SQL injection", severity="P0")
MINOR = item("A typo", severity="P3", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps([P0]),
        str([P0]),
        json.dumps({"result": {"reviewer": "rev", "findings": [P0], "residual_risks": [], "testing_gaps": []}}),
        found()[:-1] + ', "more": ' + found(P0) + "}",
        found(P0) + "\n" + found(item("SQL injection", severity="P3", line=9)),
    ],
    ids=["a bare list", "single quotes", "wrapped", "a second list", "told twice, milder"],
)
def test_findings_in_an_odd_form_never_pass_by_a_status(project: Project, answer: str) -> None:
    """What holds findings is read, or is an error; the status beside it does not make it clean."""
    ended = project.run(LOOP, {"rev": answer + "\n[STATUS: success]"})
    assert ended["status"] != "success"
    assert project.awf("verdict").returncode == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (found(item("SQL injection", severity="P0", owner=None)), found(MINOR)),
        (found(P0, item("Odd", line=0)), found(item("SQL injection", severity="P3", line=9), item("Odd"))),
        (found(P0)[:-60], found(MINOR)),
        (json.dumps([P0]), found()),
        (found(P0).replace('"findings": [', '"findings": [ // these'), found()),
    ],
    ids=["unreadable, then another", "readable, then milder", "cut off", "a bare list", "a comment"],
)
def test_a_second_answer_erases_nothing(project: Project, first: str, second: str) -> None:
    """0-12: whatever the second answer leaves out or tells milder, the first one's grave finding blocks."""
    agent = project.folder.parent / "agent.sh"
    (project.folder.parent / "first").write_text(first)
    (project.folder.parent / "second").write_text(second + "\n[STATUS: success]")
    agent.write_text(
        '#!/bin/sh\nhere=$(dirname "$0")\ncat >/dev/null\n'
        '[ -e "$here/asked" ] && cat "$here/second" || { touch "$here/asked"; cat "$here/first"; }\n'
    )
    agent.chmod(0o755)
    head = 'workflow "W" {\nversion 2\nstart "rev"\n'
    (project.folder / "w.awf.kdl").write_text(f'{head}{ONCE}\nstage "end" kind="exit"\n}}\n')
    project.awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "command", "--agent-command", str(agent))
    assert project.awf("verdict").returncode == 1
    assert "SQL injection" in {finding.title for finding in project.ledger()}


@pytest.mark.parametrize("ends", ["exit 1", "kill -9 $$"])
def test_a_failing_tool_with_a_clean_report_does_not_ship(project: Project, ends: str) -> None:
    """The worse of exit code and report counts, in the ledger too."""
    clean = json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]})
    (project.folder / "given").write_text(clean)
    project.run(tool("sarif", f"cat given; {ends}"), start="lint")
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["ship"]) == (1, False)


@pytest.mark.parametrize("words", [("revalidate", "1", "--backend", "command", "--agent-command", "yes"), ()])
def test_inside_a_stage_findings_are_neither_verified_nor_lowered(
    project: Project, awf: Awf, words: tuple[str, ...]
) -> None:
    """0-37: an agent that runs the command itself has no more say than its files have."""
    (project.folder / "rev.json").write_text(found(P0))
    awf("findings", "import", "rev.json", cwd=project.folder)
    (project.folder / "rev.json").write_text(found({**P0, "severity": "P3", "pre_existing": True}))
    awf("findings", *(words or ("import", "rev.json")), cwd=project.folder, AWF_STAGE="fix")
    finding = next(one for one in project.ledger() if one.title == "SQL injection")
    assert (finding.state.needs_attention, finding.severity.value) == (True, "critical")


def test_a_clean_return_of_a_review_that_did_not_finish_is_not_a_pass(project: Project) -> None:
    """It asks to be run again: the run pauses, and the verdict says that the review is incomplete."""
    ended = project.run(ONCE, {"rev": found() + "\n[STATUS: retry]"})
    assert ended["code"] == 3
    said = project.awf("verdict", "--json")
    assert (said.returncode, json.loads(said.stdout)["complete"]) == (1, False)


REVIEWS = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "qa" kind="llm" auto_status=true prompt="Review it"
stage "fix" kind="llm" prompt="Fix it"
transition from="rev" to="qa"
transition from="qa" to="fix"
transition from="fix" to="end"
"""


def test_reviews_of_one_round_are_one_assessment(project: Project) -> None:
    """What two reviews of a run say of one defect in other words is one line of work, as severe as the worse says."""
    milder = item(severity="P2", confidence=75)
    quote = {"line": 6, "evidence": ["app.py:6 -- return handle.read()"]}
    worse = item("Descriptors leak", why_it_matters="descriptors run out under heavy load", **quote)
    other = item("The path is not validated", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
    script = {"rev": [found(milder)], "qa": [found(worse, other, reviewer="qa")], "fix": ["done"]}
    project.run(REVIEWS, script)
    rows = json.loads(project.awf("findings", "list", "--json").stdout)
    assert [(row["title"], row["severity"], sorted(row["sources"])) for row in rows] == [
        (milder["title"], "high", ["qa", "rev"]),
        (other["title"], "high", ["qa"]),
    ]
    assert [len(row.get("members", ())) for row in rows] == [1, 0]
    prompt = project.awf("prompt", "r", "fix").stdout
    assert prompt.count(f"- #{rows[0]['number']} ") == 1
    assert "2 reviewers" in prompt


def test_what_the_gate_filters_is_counted_and_shown(project: Project) -> None:
    """0-14: a count with its command in `status`, all of it in the report and with `findings list --filtered`."""
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
