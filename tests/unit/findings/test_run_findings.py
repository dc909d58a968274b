"""The findings of a run: they go into the ledger with their stage, whichever process ran it; nothing is lost."""

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.context import Context, Key, Operation
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource, stage_operations
from pipeline.engine.ports import Job, JournalError, LedgerLine
from pipeline.engine.records import RunCreated
from pipeline.engine.state import Progress, State, begin
from pipeline.errors import AwfError
from pipeline.findings.events import LinkAdded, StateChanged
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.ledger import DUPLICATE_OF, Ledger, LedgerStore
from pipeline.findings.model import Finding, FindingState, Link, ReportStatus, Suppression
from pipeline.findings.plugin import ReviewFindings, ReviewKey
from pipeline.findings.run_findings import RunFindings
from pipeline.journal.memory import MemoryJournal
from pipeline.language.model import FindingsFormat, LlmStage, ToolStage

NOW = 1_794_800_000.0  # in November 2026
REV = LlmStage(id="rev", prompt="x", auto_status=True)
FIX = LlmStage(id="fix", prompt="x")
LINT = ToolStage(id="lint", command="true", findings=FindingsFormat.SARIF)
SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="llm" prompt="x"\nstage "end" kind="exit"\n}\n'
CODE = "one = 1\ntwo = compute(one)\nthree = 3\n"


def item(title: str = "It is never checked", **more: Any) -> dict[str, Any]:
    return {
        "title": title,
        "severity": "P1",
        "file": "a.py",
        "line": 2,
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "confidence": 100,
        "evidence": ["a.py:2 -- two = compute(one)"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any]) -> str:
    return json.dumps({"reviewer": "rev", "findings": list(items), "residual_risks": [], "testing_gaps": []})


def sarif(*messages: str) -> str:
    place = {"physicalLocation": {"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 2}}}
    results = [{"ruleId": "X", "level": "error", "message": {"text": text}, "locations": [place]} for text in messages]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": results}]})


class Run:
    """A run on paper: what its stages leave is read and committed."""

    def __init__(self, root: Path, journal: MemoryJournal | None = None) -> None:
        self.root = root
        self.store = root / ".awf"
        self.journal = journal or MemoryJournal()
        self.context = Context({})
        self.environ: dict[str, str] = {}
        self.now = NOW
        record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd=str(root), version="0")
        self.state: State = begin(record)
        self.begin_again()

    def begin_again(self) -> None:
        """A new process takes the run up: what was in memory is gone."""
        snapshots = TreeSnapshots(self.environ, self.store)
        self.findings = RunFindings(
            LedgerStore(self.journal), self.root, self.environ, lambda: self.now, snapshots, self.store
        )

    def job(self, stage: LlmStage | ToolStage, visit: int, attempt: int = 1) -> Job:
        return Job(stage, visit, attempt, self.state, self.store, lambda _: None, lambda _: None)

    def review(self, answer: str, visit: int = 1, stage: LlmStage = REV) -> Outcome:
        """A review's answer, read and judged as its handler does, and committed."""
        judged = self.findings.read_answer(self.job(stage, visit), [answer])
        assert judged is not None
        if judged.problem:  # as the handler does: it is asked again, and answers the same
            judged = self.findings.read_answer(self.job(stage, visit), [answer, answer])
        assert judged is not None
        assert not judged.problem, judged.problem
        outcome = Outcome(status=judged.status, source=StatusSource.STRUCTURED, reason=judged.reason, response=answer)
        self.done(stage, outcome, visit)
        return outcome

    def done(self, stage: LlmStage | ToolStage, outcome: Outcome, visit: int = 1) -> list[Operation]:
        """What the end of a stage leaves; its lines are committed, and the files written."""
        added = self.after(stage, outcome, visit)
        self.journal.append_ledger([one.text for one in added if isinstance(one, LedgerLine)])
        operations = [one for one in added if not isinstance(one, LedgerLine)]
        self.context = self.context.apply([*stage_operations(stage, outcome), *operations])
        self.findings.after_commit()
        return operations

    def after(self, stage: LlmStage | ToolStage, outcome: Outcome, visit: int = 1) -> list[Operation | LedgerLine]:
        context = self.context.apply(stage_operations(stage, outcome))
        return list(self.findings.after_stage(stage, visit, outcome, context, self.state, NOW))

    def ledger(self) -> Ledger:
        return LedgerStore(self.journal).ledger()

    def only(self) -> Finding:
        (finding,) = self.ledger()
        return finding

    def turn(self, state: FindingState, **more: Any) -> None:
        turned = StateChanged(at="2026-01-01T00:00:00Z", id=self.only().id, state=state, by="user", **more)
        LedgerStore(self.journal).append([turned])


def git(root: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
    return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run in a directory with one file."""
    (tmp_path / "a.py").write_text(CODE)
    return Run(tmp_path)


def structured(answer: str, status: Status = Status.FAIL) -> Outcome:
    return Outcome(status=status, source=StatusSource.STRUCTURED, response=answer)


def test_findings_of_a_branch_are_recorded_by_the_process_that_joins_it(run: Run) -> None:
    """A recorded branch is not run again after a crash, and its findings are kept."""
    run.begin_again()
    run.done(REV, structured(found(item())))
    assert run.only().title == "It is never checked"
    assert run.context.list_at(ReviewKey.REPORTS)[0]["findingIds"] == [run.only().id]


@pytest.mark.parametrize("name", ["report", "stdout.log"])
def test_a_report_to_an_earlier_process_is_read_from_its_files(run: Run, name: str) -> None:
    """The report of a tool, or its output if it wrote none, is read from the store."""
    folder = run.store / "runs/r/lint/1"
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_text("noise")
    (folder / name).write_text(sarif("no check"))
    logs = {"stdout": "runs/r/lint/1/stdout.log"}
    run.done(LINT, Outcome(status=Status.FAIL, source=StatusSource.STRUCTURED, logs=logs))
    assert run.only().sources == ("lint",)


def test_a_failure_whose_report_stays_unreadable_is_a_finding(run: Run) -> None:
    """0-02: the command failed, and that is kept whatever became of its report."""
    folder = run.store / "runs/r/lint/1"
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_text("noise")
    failure = Failure(kind=FailureClass.EXIT_NONZERO, digest="bad")
    logs = {"stdout": "runs/r/lint/1/stdout.log"}
    run.done(LINT, Outcome(status=Status.FAIL, reason="bad", failure=failure, logs=logs))
    assert (run.only().title, run.only().fingerprints["stage/v1"]) == ("bad", "W/lint")


def test_only_the_last_attempt_of_a_visit_counts(run: Run) -> None:
    """A visit's findings are those of its last attempt."""
    report = run.root / "given"
    report.write_text(sarif("no check"))
    assert run.findings.read_report(run.job(LINT, 1, attempt=1), report).status is Status.FAIL
    run.state = run.state._replace(progress=Progress(failed={"lint": 1}))
    failure = Failure(kind=FailureClass.TIMEOUT, digest="too slow")
    run.done(LINT, Outcome(status=Status.FAIL, failure=failure))
    (passed,) = run.ledger().passes.values()
    assert (passed.entries, passed.coverage.reviewers) == ((), {"lint": ReportStatus.MISSING})
    assert list(run.ledger()) == []


def test_an_expired_dismissal_fails_the_stage_again(run: Run) -> None:
    """000-46: expiry is judged by the time of the review, for the status as for the ledger."""
    run.review(found(item()))
    run.turn(FindingState.WONT_FIX, suppression=Suppression(reason="later", by="user", expires="2026-06-01"))
    assert run.review(found(item()), visit=2).status is Status.FAIL
    assert run.only().state is FindingState.REOPENED


def test_a_dismissed_finding_is_left_out_of_status_and_report(run: Run) -> None:
    """000-46: a review that reports it with another finding is about the other one alone."""
    run.review(found(item()))
    run.turn(FindingState.WONT_FIX, suppression=Suppression(reason="by design", by="user"))
    other = item("Another", line=3, severity="P2", evidence=["a.py:3 -- three = 3"])
    outcome = run.review(found(item(), other), visit=2)
    assert outcome.status is Status.PARTIAL_SUCCESS
    assert outcome.reason.endswith("Another (a.py:3)")
    ids = run.context.list_at(ReviewKey.REPORTS)[-1]["findingIds"]
    assert [run.ledger().findings[id].title for id in ids] == ["Another"]


def test_only_open_findings_of_the_reports_are_listed(run: Run) -> None:
    """4.3: a claimed fix is listed until it is verified or dismissed."""
    run.review(found(item()))
    assert ", open)" in run.findings.fix_prompt(run.context, 5000, "r")
    run.done(FIX, Outcome(status=Status.SUCCESS, response="[FINDING 1: fixed]"))
    assert ", fix_claimed" in run.findings.fix_prompt(run.context, 5000, "r")
    run.turn(FindingState.FALSE_POSITIVE)
    assert run.findings.fix_prompt(run.context, 5000, "r") == ""
    assert run.findings.fix_prompt(Context({}), 5000, "r") == ""


def test_a_reported_finding_that_was_merged_is_listed_with_its_leader(run: Run) -> None:
    """A person may merge it into one that no report of this run refers to."""
    run.review(found(item(), item("Another", line=3, evidence=["a.py:3 -- three = 3"])))
    first, second = run.ledger()
    LedgerStore(run.journal).append(
        [LinkAdded(at=first.created_at, id=second.id, link=Link(kind=DUPLICATE_OF, to=first.id))]
    )
    text = run.findings.fix_prompt(Context({ReviewKey.REPORTS: [{"findingIds": [second.id]}]}), 5000, "r")
    assert f"#{first.number} (must" in text
    assert "    also: " in text


def test_a_verified_finding_stays_verified_when_it_is_not_reported(run: Run) -> None:
    """4.4: also in later rounds."""
    run.review(found(item()))
    run.done(FIX, Outcome(status=Status.SUCCESS, response="[FINDING 1: fixed]"))
    (run.root / "a.py").write_text("one = 1\nthree = 3\n")
    run.review(found(), visit=2)
    assert run.only().state is FindingState.FIX_CLAIMED
    run.review(found() + "\n[FINDING 1: fixed]\n", visit=3)
    assert run.only().state is FindingState.VERIFIED_FIXED


def test_a_finding_that_is_reported_and_called_fixed_is_open(run: Run) -> None:
    """4.3: a report outweighs the answer about its number."""
    run.review(found(item()))
    run.review(found(item()) + "\n[FINDING 1: fixed]\n", visit=2)
    assert run.only().state is FindingState.OPEN
    run.done(FIX, Outcome(status=Status.SUCCESS, response="[FINDING 1: fixed]"))
    run.review(found(item()) + "\n[FINDING 1: fixed]\n", visit=3)
    assert run.only().state is FindingState.REOPENED
    assert not [change for change in run.only().history if change.note.startswith("regression")]


LOOPED = SOURCE.replace(
    "}\n",
    """
stage "fix" kind="llm" prompt="x"
loop "l" { stages "a" "fix"; on "stalled" to="end"; }
}
""",
)


@pytest.mark.parametrize(("source", "said"), [(LOOPED, ["", "", "2 times", ""]), (SOURCE, ["", "", "", ""])])
def test_a_loop_is_told_that_it_is_stalled_and_when_it_is_not_any_more(run: Run, source: str, said: list[str]) -> None:
    """4.3: after the second time that a fix did not hold; where there is no loop nobody asks."""
    run.state = begin(RunCreated(at=0.0, run_id="r", file="w", source=source, cwd=str(run.root), version="0"))
    told = []
    for visit, answer in enumerate((found(item()), found(item()), found(item()), found()), 1):
        run.review(answer, visit)
        told.append(str(run.context.get(ReviewKey.STALLED, ""))[-7:])
        run.done(FIX, Outcome(status=Status.SUCCESS, response="[FINDING 1: fixed]"), visit)
    assert told == said


def test_an_answer_of_a_failed_stage_does_not_count(run: Run) -> None:
    """An agent that broke off claims nothing."""
    run.review(found(item()))
    failure = Failure(kind=FailureClass.AGENT, digest="it broke off")
    run.done(FIX, Outcome(status=Status.FAIL, response="[FINDING 1: fixed]", failure=failure))
    assert run.only().state is FindingState.OPEN


def test_the_verdict_is_set_and_a_run_is_held_by_what_its_review_saw(run: Run) -> None:
    """001-12: a pass that sees what endangers the system holds the run; one that does not see it holds nothing."""
    run.review(found(item(severity="P0", x_system_breaking=True)))
    assert run.context.get(ReviewKey.VERDICT) == "ABORT"
    assert run.context.get(Key.HOLD)
    operations = run.done(LlmStage(id="other", prompt="x", auto_status=True), structured(found(), Status.SUCCESS))
    assert {one.key for one in operations} == {ReviewKey.VERDICT}


def test_a_pre_existing_finding_does_not_hold_the_run(run: Run) -> None:
    """C-34: it is separated, and neither fails nor holds."""
    outcome = run.review(found(item(severity="P0", x_system_breaking=True, pre_existing=True)))
    assert outcome.status is Status.SUCCESS
    assert Key.HOLD not in run.context


def test_an_ordinary_critical_finding_does_not_hold_the_run(run: Run) -> None:
    """001-11: FAIL goes to the fixer; only ABORT holds."""
    run.review(found(item(severity="P0")))
    assert (run.context.get(ReviewKey.VERDICT), Key.HOLD in run.context) == ("FAIL", False)


@pytest.mark.parametrize("kind", [FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL])
def test_a_pass_verdict_is_removed_when_a_reviewer_does_not_answer(run: Run, kind: FailureClass) -> None:
    """6.6: PASS needs an answer from everybody; a bad verdict stays."""
    run.review(found())
    assert run.context.get(ReviewKey.VERDICT) == "PASS"
    silent = Outcome(status=Status.FAIL, failure=Failure(kind=kind, digest="no word"))
    run.done(FIX, silent)
    assert run.context.get(ReviewKey.VERDICT) == "PASS", "a fixer reviews nothing"
    run.done(REV, silent, visit=2)
    assert ReviewKey.VERDICT not in run.context
    run.review(found(item(severity="P0")), visit=3)
    run.done(REV, silent, visit=4)
    assert run.context.get(ReviewKey.VERDICT) == "FAIL"


def test_an_item_that_points_outside_keeps_a_review_from_being_clean(run: Run) -> None:
    """000-37, 0-12: it is refused with its reason, kept as a finding, and the review fails for it."""
    outcome = run.review(found(item(file="../../etc/passwd", evidence=["../../etc/passwd:1 -- root"])))
    assert outcome.status is Status.FAIL
    assert "rev#1" in outcome.reason
    assert [(one.state, one.gate.value) for one in run.ledger()] == [("uncertain", "must")]
    assert run.context.get(ReviewKey.VERDICT) == "FAIL"


@pytest.mark.parametrize(
    "second", ["[STATUS: success]", found(item())[:-30], found()], ids=["words", "cut off", "nothing found"]
)
def test_an_unreadable_item_is_kept_after_a_second_answer(run: Run, second: str) -> None:
    """0-12: a second answer does not take back what the first returned."""
    first = found(item(file="", evidence=[]))
    asked = run.findings.read_answer(run.job(REV, 1), [first])
    assert asked is not None
    assert "`file`" in asked.problem
    judged = run.findings.read_answer(run.job(REV, 1), [first, second])
    assert judged is not None
    assert (judged.status, judged.problem) == (Status.FAIL, "")
    run.done(REV, Outcome(status=Status.FAIL, source=StatusSource.STRUCTURED, response=first + second))
    assert [(one.title, one.state) for one in run.ledger()] == [("It is never checked", "uncertain")]
    assert run.context.get(ReviewKey.VERDICT) == "FAIL"


def test_a_lone_surrogate_does_not_lose_the_report(run: Run) -> None:
    """Text that cannot be encoded is replaced."""
    run.review(found(item("Half \ud800 a character")))
    assert len(list(run.ledger())) == 1


def test_edits_of_a_paused_run_are_recorded_on_resume(run: Run) -> None:
    """Resuming reads the files before it writes them; illegal edits are reverted and noted."""
    run.review(found(item()))
    file = run.root / ".code-review/review-latest.json"
    file.write_text(file.read_text().replace('"status": "open"', '"status": "fixed"'))
    run.begin_again()
    run.findings.on_resume("r")
    assert run.only().state is FindingState.FIX_CLAIMED
    file.write_text(file.read_text().replace('"status": "fixed"', '"status": "verified"'))
    run.begin_again()
    run.findings.on_resume("r")
    assert '"status": "fixed"' in file.read_text()
    assert run.only().history[-1].note.startswith("put back: fixed→verified is refused")
    assert (run.only().state, run.only().history[-1].by) == (FindingState.FIX_CLAIMED, "file")
    run.done(FIX, Outcome(status=Status.SUCCESS))
    (note,) = run.context.list_at("review.notes")
    assert "is refused" in note["note"]


def test_edits_during_a_stage_are_attributed_to_it(run: Run) -> None:
    """0-37: an edit has the rights of an agent, whatever name it gives."""
    (run.root / ".wystack").mkdir()
    run.review(found(item(severity="P2")))
    (path,) = (run.root / ".wystack/findings").glob("*.json")
    record = json.loads(path.read_text())
    entry = {"at": "2026-01-01T00:00:00Z", "status": "wont-fix", "note": "by design", "by": "user"}
    path.write_text(json.dumps({**record, "status": "wont-fix", "triage_history": [entry]}))
    run.done(FIX, Outcome(status=Status.SUCCESS))
    assert (run.only().state, run.only().history[-1].by) == (FindingState.WONT_FIX, "stage:fix")
    assert json.loads(path.read_text())["triage_history"][0]["x_by"] == "stage:fix"


def test_what_must_be_fixed_is_not_dismissed_by_an_edit(run: Run) -> None:
    """0-37: it is put back byte for byte, noted in the run and in its own history."""
    (run.root / ".wystack").mkdir()
    run.review(found(item()))
    (path,) = (run.root / ".wystack/findings").glob("*.json")
    before = path.read_bytes()
    entry = {"at": "2026-01-01T00:00:00Z", "status": "false-positive", "note": "no", "by": "user"}
    edited = {**json.loads(before), "status": "false-positive", "triage_history": [entry], "gate": "suggest"}
    path.write_text(json.dumps(edited))
    run.done(FIX, Outcome(status=Status.SUCCESS))
    assert (run.only().state, run.only().gate.value) == (FindingState.OPEN, "must")
    assert path.read_bytes() == before
    assert len(run.context.list_at("review.notes")) == 2
    assert run.only().history[-1].note.startswith("put back: ")


def test_what_is_put_back_twice_is_noted_once_in_a_run_whichever_process_does_it(run: Run) -> None:
    """A crash in between repeats nothing."""
    (run.root / ".wystack").mkdir()
    run.review(found(item()))
    (path,) = (run.root / ".wystack/findings").glob("*.json")
    for visit in (1, 2):
        path.write_text(path.read_text().replace('"gate": "must"', '"gate": "suggest"'))
        run.done(FIX, Outcome(status=Status.SUCCESS), visit)
        run.begin_again()
    assert len(run.context.list_at("review.notes")) == 1
    assert '"gate": "must"' in path.read_text()


def test_a_pass_records_the_state_at_the_start_of_the_review(run: Run) -> None:
    """0-31: commit, branch and time are those of the start; files that changed meanwhile keep it from shipping."""
    (run.root / ".wystack").mkdir()
    for words in (["init", "-q", "-b", "main"], ["add", "a.py"], ["commit", "-qm", "start"]):
        git(run.root, *words)
    head = git(run.root, "rev-parse", "HEAD").strip()
    run.environ = dict(os.environ)
    run.begin_again()
    run.now = NOW - 100
    run.findings.start_attempt(REV, 1, run.state)
    run.now = NOW
    (run.root / "a.py").write_text(CODE + "four = 4\n")
    git(run.root, "commit", "-qam", "meanwhile")
    run.review(found())
    (passed,) = run.ledger().passes.values()
    assert (passed.head, passed.branch) == (head, "main")
    assert passed.started_at == "2026-11-16T03:31:40Z"
    (path,) = (run.root / ".wystack/reviews").glob("*.json")
    record = json.loads(path.read_text())
    assert (record["x_tree_changed"], record["verdict"], record["diff_sha"]) == (True, "block-on-rejection", head)
    run.findings.start_attempt(REV, 2, run.state)
    run.review(found(), visit=2)
    last = list(run.ledger().passes.values())[-1]
    assert (last.head != head, last.ext) == (True, {})


def test_a_report_file_of_a_tool_is_not_a_change(run: Run) -> None:
    """0-31: new files do not count; changed ones do."""
    for words in (["init", "-q", "-b", "main"], ["add", "a.py"], ["commit", "-qm", "start"]):
        git(run.root, *words)
    run.environ = dict(os.environ)
    run.begin_again()
    for visit, name in enumerate(("given", "a.py"), 1):
        run.findings.start_attempt(LINT, visit, run.state)
        (run.root / name).write_text(sarif())
        run.findings.read_report(run.job(LINT, visit), run.root / name)
        run.done(LINT, Outcome(status=Status.SUCCESS, source=StatusSource.STRUCTURED), visit)
    assert [bool(passed.ext) for passed in run.ledger().passes.values()] == [False, True]


def test_files_missing_after_a_crash_are_written_on_resume(run: Run) -> None:
    """000-01, 001-13: each pass of the run is on record, and the verdict file is that of the last, each once."""
    (run.root / ".wystack").mkdir()
    added = [*run.after(REV, structured(found(item()))), *run.after(LINT, Outcome(status=Status.SUCCESS))]
    other = LlmStage(id="other", prompt="x", auto_status=True)
    added += run.after(other, structured(found(), Status.SUCCESS))
    run.journal.append_ledger([one.text for one in added if isinstance(one, LedgerLine)])
    assert not (run.root / ".code-review").exists()
    for _ in range(2):
        run.begin_again()
        run.findings.on_resume("r")
        assert len(list((run.root / ".wystack/reviews").glob("*.json"))) == len(run.ledger().passes) == 2
        assert len(list((run.root / ".wystack/findings").glob("*.json"))) == 1
    run.turn(FindingState.VERIFIED_FIXED)
    run.begin_again()
    run.findings.on_resume("r")
    assert len(list((run.root / ".wystack/reviews").glob("*.json"))) == 2


def test_resuming_a_run_without_findings_writes_nothing(run: Run) -> None:
    """A run that found nothing leaves no files."""
    run.findings.on_resume("r")
    assert sorted(path.name for path in run.root.iterdir()) == ["a.py"]


def plugin_of(run: Run) -> ReviewFindings:
    return ReviewFindings(run.journal, run.root, {}, TreeSnapshots({}), run.store, lambda: NOW)


def test_an_unreadable_ledger_raises(run: Run) -> None:
    """A stage whose findings cannot be kept does not pass."""
    run.journal.append_ledger(["no event"])
    plugin = plugin_of(run)
    outcome = structured(found(item()))
    with pytest.raises(JournalError):
        plugin.read_answer(run.job(REV, 1), [outcome.response])
    with pytest.raises(JournalError, match="line 1 "):
        plugin.after_stage(REV, 1, outcome, run.context, run.state, NOW)


def test_unwritable_files_raise_after_the_commit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written as soon as that is possible."""
    plugin = plugin_of(run)
    outcome = structured(found(item()))
    assert plugin.read_answer(run.job(REV, 1), [outcome.response]) is not None
    added = plugin.after_stage(REV, 1, outcome, run.context, run.state, NOW)
    run.journal.append_ledger([one.text for one in added if isinstance(one, LedgerLine)])
    with monkeypatch.context() as full:
        full.setattr("pipeline.files.write_file", refuse)
        with pytest.raises(AwfError):
            plugin.after_commit()
    plugin.on_resume("r")
    assert (run.root / ".code-review/review-latest.json").is_file()


def refuse(*_paths: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stage_without_findings_does_not_read_the_ledger(run: Run) -> None:
    """Most stages report nothing and answer nothing."""
    run.journal.append_ledger(["no event"])
    plugin = plugin_of(run)
    assert not list(plugin.after_stage(FIX, 1, Outcome(status=Status.SUCCESS), run.context, run.state, NOW))
    assert plugin.read_answer(run.job(REV, 1), ["It is bad."]) is None
    assert plugin.worklist(run.job(FIX, 1)).render(5000) == ""
    plugin.after_commit()


@pytest.mark.parametrize("directory", [".wystack", ".code-review"])
def test_a_directory_of_views_concerns_the_ledger(run: Run, directory: str) -> None:
    """A stage may have edited a file there."""
    (run.root / directory).mkdir()
    run.journal.append_ledger(["no event"])
    plugin = plugin_of(run)
    with pytest.raises(JournalError):
        plugin.after_stage(FIX, 1, Outcome(status=Status.SUCCESS), run.context, run.state, NOW)
