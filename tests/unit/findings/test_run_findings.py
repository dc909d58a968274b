"""The findings of a run: they go into the ledger with their visits, whichever process ran them; nothing is lost."""

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.context import EMPTY, Context, Key, Set
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource, stage_operations
from pipeline.engine.ports import AgentResult, AgentStatus, Assessment, Concluded, Conclusion, Job, JournalError
from pipeline.engine.records import RunCreated
from pipeline.engine.state import Cursor, Progress, State, begin
from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged, Pass
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.keys import KEPT, ReviewKey
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.model import Actor, Change, Finding, FindingState, ReportStatus, Suppression, What
from pipeline.findings.plugin import ReviewFindings
from pipeline.findings.run_findings import RunFindings
from pipeline.handlers.llm import judge_results
from pipeline.journal.memory import MemoryJournal
from pipeline.language.model import LlmStage, Stage

NOW = 1_794_800_000.0  # in November 2026
SOURCE = """workflow "W" {
version 2
start "rev"
stage "rev" kind="llm" auto_status=true prompt="x"
stage "qa" kind="llm" auto_status=true prompt="x"
stage "lint" kind="tool" command="true" findings="sarif"
stage "both" kind="parallel" { branch "rev"; branch "qa"; }
stage "fix" kind="llm" prompt="x"
stage "end" kind="exit"
LOOP
}
"""
LOOP = 'loop "l" { stages "rev" "fix"; on "stalled" to="end"; }'
CODE = "one = 1\ntwo = compute(one)\nthree = 3\n"
FIXED = "[FINDING 1: fixed]"


def item(title: str = "It is never checked", line: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "title": title,
        "severity": "P1",
        "file": "a.py",
        "line": line,
        "why_it_matters": "It breaks.",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "confidence": 100,
        "evidence": [f"a.py:{line} -- {CODE.splitlines()[line - 1]}"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any]) -> str:
    return json.dumps({"findings": items, "reviewed": ["a.py: read"], "residual_risks": [], "testing_gaps": []})


def sarif(*messages: str) -> str:
    place = {"physicalLocation": {"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 2}}}
    results = [{"ruleId": "X", "level": "error", "message": {"text": text}, "locations": [place]} for text in messages]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": results}]})


class Run:
    """A run on paper: what its stages answer is read, concluded and committed."""

    def __init__(self, root: Path, loop: str = "") -> None:
        self.root = root
        self.store = root / ".awf"
        self.journal = MemoryJournal()
        self.context = Context({})
        self.environ: dict[str, str] = {}
        self.now = NOW
        source = SOURCE.replace("LOOP", loop)
        self.state: State = begin(
            RunCreated(at=0.0, run_id="r", file="w", source=source, goal="g", cwd=str(root), version="0")
        )
        self.begin_again()

    def begin_again(self) -> None:
        """A new process takes the run up: what was in memory is gone."""
        snapshots = TreeSnapshots(self.environ, self.store)
        self.findings = RunFindings(
            LedgerStore(self.journal), self.root, self.environ, lambda: self.now, snapshots, self.store
        )

    def in_git(self) -> None:
        """Put the files under version control."""
        for words in (["init", "-q", "-b", "main"], ["add", "a.py"], ["commit", "-qm", "start"]):
            git(self.root, *words)
        self.environ = dict(os.environ)
        self.begin_again()

    def stage(self, name: str) -> Stage:
        return self.state.workflow.stage(name)

    def job(self, name: str, visit: int = 1, attempt: int = 1) -> Job:
        return Job(self.stage(name), visit, attempt, self.state, self.store, lambda _: None, lambda _: None)

    def fix_prompt(self, context: Context | None = None) -> str:
        """The findings that a fix stage would be given now."""
        job = self.job("fix")
        return self.findings.prompts.fix_section(
            job._replace(state=self.state._replace(context=context or self.context)), 5000
        )

    def start(self, name: str, visit: int = 1, cursor: str = "") -> dict[str, Any]:
        """Begin a visit, of a branch if the cursor is at another stage."""
        self.state = self.state._replace(cursor=Cursor(cursor or name, visit))
        return {KEPT: self.findings.prompts.start(self.stage(name), visit, self.state)}

    def read(self, name: str, *answers: str, visit: int = 1) -> Assessment:
        """What reading answers says, of a visit that has begun."""
        assessment = self.findings.read_answer(self.job(name, visit), answers)
        assert assessment is not None
        return assessment

    def answered(self, name: str, *answers: str, visit: int = 1, cursor: str = "") -> Concluded:
        """A review's visit, whose answers were read and judged as its handler does."""
        kept, stage = self.start(name, visit, cursor), self.stage(name)
        assert isinstance(stage, LlmStage)
        results = [AgentResult(AgentStatus.OK, text) for text in answers]
        assessment = self.findings.read_answer(self.job(name, visit), answers)
        outcome = judge_results(stage, results, "", assessment)
        assert outcome.failure is None, outcome.reason
        return Concluded(stage, visit, outcome.model_copy(update={"kept": kept}))

    def review(self, *answers: str, visit: int = 1, name: str = "rev") -> Outcome:
        """A whole visit of a review, committed; its final outcome."""
        return self.conclude(self.answered(name, *answers, visit=visit))[name]

    def fix(self, response: str = "", visit: int = 1, **more: Any) -> None:
        """A whole visit of the fixer, committed."""
        self.state = self.state._replace(cursor=Cursor("fix", visit))
        values: dict[str, Any] = {"status": Status.SUCCESS, "response": response}
        self.conclude(Concluded(self.stage("fix"), visit, Outcome(**values | more)))

    def lint(self, *, report: str | None = None, output: str = "noise", visit: int = 1, **more: Any) -> Outcome:
        """A whole visit of the tool, committed, which left these files."""
        kept, folder = self.start("lint", visit), self.store / f"runs/r/lint/{visit}"
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text(output)
        if report is not None:
            (folder / "report").write_text(report)
        values: dict[str, Any] = {"status": Status.SUCCESS, "source": StatusSource.EXIT_CODE, "kept": kept}
        values["logs"] = {"stdout": f"runs/r/lint/{visit}/stdout.log"}
        return self.conclude(Concluded(self.stage("lint"), visit, Outcome(**values | more)))["lint"]

    def conclude(self, *visits: Concluded) -> dict[str, Outcome]:
        """Conclude visits together and commit that: their final outcomes by stage."""
        conclusion = self.findings.conclude(visits, self.context, self.state, NOW)
        final = conclusion.amend(visits)
        self.commit(conclusion)
        own = [operation for one in final for operation in stage_operations(one.stage, one.outcome)]
        self.context = self.context.apply([*own, *conclusion.operations])
        self.findings.after_commit()
        return {one.stage.id: one.outcome for one in final}

    def commit(self, conclusion: Conclusion) -> None:
        """Add the lines of a conclusion to the ledger."""
        self.journal.append_ledger([line.text for line in conclusion.lines])

    def ledger(self) -> Ledger:
        return LedgerStore(self.journal).ledger()

    def findings_now(self) -> list[Finding]:
        return list(self.ledger().findings.values())

    def only(self) -> Finding:
        (finding,) = self.findings_now()
        return finding

    def passes(self) -> list[Pass]:
        return list(self.ledger().passes.values())

    def decide(self, state: FindingState, **fields: Any) -> None:
        """A person gives the only finding another state."""
        change = Change(at="2026-11-17T00:00:00Z", what=What.TRIAGE, who="anna", by=Actor.USER, state=state)
        LedgerStore(self.journal).append([FindingChanged(id=self.only().id, change=change, fields=fields)])

    def verdict(self) -> str:
        return str(self.context.get(ReviewKey.VERDICT))


def git(root: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
    return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout


def dismissal(**more: Any) -> dict[str, Any]:
    return {"suppression": Suppression(reason="by design", by=Actor.USER, **more).model_dump()}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run in a directory with one file."""
    (tmp_path / "a.py").write_text(CODE)
    return Run(tmp_path)


# --- one pass --------------------------------------------------------------------------------------------------------


def test_reading_an_answer_records_nothing_and_decides_nothing(run: Run) -> None:
    """It says whether the answer can be read; the status is set when the visit is concluded."""
    visited = run.answered("rev", found(item()))
    assert (visited.outcome.status, run.findings_now()) == (Status.SUCCESS, [])
    final = run.conclude(visited)["rev"]
    assert (final.status, [finding.title for finding in run.findings_now()]) == (Status.FAIL, ["It is never checked"])
    assert run.context.list_at(ReviewKey.REPORTS)[0]["findingIds"] == [run.only().id]


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a new process joins"])
def test_branches_are_taken_in_together(run: Run, *, restarts: bool) -> None:
    """They are one pass and one line of work; each has the status of its own findings, whichever process joins them."""
    milder = item(severity="P2", why_it_matters="It breaks now and then.")
    branches = [
        run.answered("rev", found(milder), cursor="both"),
        run.answered("qa", found(item("It is not checked")), cursor="both"),
    ]
    if restarts:
        run.begin_again()
        run.findings.on_resume("r")
    final = run.conclude(*branches)
    assert {name: outcome.status for name, outcome in final.items()} == {
        "rev": Status.PARTIAL_SUCCESS,
        "qa": Status.FAIL,
    }
    (passed,) = run.passes()
    assert (passed.stage, [look.reviewer for look in passed.coverage.looks]) == ("both", ["qa", "rev"])
    assert {finding.reviewer for finding in run.findings_now()} == {"rev", "qa"}
    (line,) = run.ledger().lines()
    assert (line.severity, len(line.members), run.verdict()) == ("high", 2, "WARN")
    reports = run.context.list_at(ReviewKey.REPORTS)
    assert [(report["stageId"], len(report["findingIds"])) for report in reports] == [("rev", 1), ("qa", 1)]


def test_a_process_that_dies_before_the_commit_leaves_nothing(run: Run) -> None:
    """The next one concludes the same visit to the same lines of the ledger."""
    visited = run.answered("rev", found(item()))
    first = run.findings.conclude([visited], run.context, run.state, NOW)
    assert run.findings_now() == []
    run.begin_again()
    assert run.findings.conclude([visited], run.context, run.state, NOW) == first


def test_a_round_is_a_turn_of_the_loop(run: Run) -> None:
    """Reviews one after the other are a pass each and share a round and a review; a second visit begins the next."""
    for visit in (1, 2):
        for name in ("rev", "qa"):
            run.review(found(), visit=visit, name=name)
    passes = run.passes()
    assert [passed.round for passed in passes] == [1, 1, 2, 2]
    first, second, third, fourth = (passed.review for passed in passes)
    assert (first == second, third == fourth, first == third) == (True, True, False)


# --- what an answer is asked again -----------------------------------------------------------------------------------


def test_a_review_that_rules_on_too_few_findings_is_asked_once_more(run: Run) -> None:
    """By their numbers; what is still missing stays as it was, and the result says so."""
    run.review(found(item(), item("Another", 3)))
    run.fix(FIXED)
    (run.root / "a.py").write_text(CODE.replace("compute(one)", "one"))
    assert run.start("rev", 2)[KEPT]["asked"] == tuple(finding.id for finding in run.findings_now())
    assert "#1" in run.read("rev", f"{found()}\n[FINDING 2: not fixed]", visit=2).wish
    assert run.read("rev", f"{found()}\n[FINDING 1: fixed]\n[FINDING 2: upheld]", visit=2).wish == ""
    outcome = run.review(f"{found()}\n[FINDING 2: not fixed]", f"{found()}\n[FINDING 2: not fixed]", visit=2)
    assert [finding.state for finding in run.findings_now()] == [FindingState.FIX_CLAIMED, FindingState.OPEN]
    assert run.passes()[-1].coverage.looks[0].unruled == (1,)
    assert (outcome.status, "#1" in outcome.reason) == (Status.FAIL, True)


def test_words_do_not_pass_while_findings_of_the_reviewer_are_open(run: Run) -> None:
    """A reviewer that answers in words is asked once more for its rulings; without them its stage fails."""
    run.review(found(item()))
    run.fix(FIXED)
    words = "It is fine now.\n[STATUS: success]"
    run.start("rev", 2)
    asked = run.read("rev", words, visit=2)
    assert (asked.status, asked.problem, "#1" in asked.wish) == (None, "", True)
    assert run.review(words, words, visit=2).status is Status.FAIL
    assert (run.only().state, run.verdict()) == (FindingState.FIX_CLAIMED, "WARN")
    assert len(run.context.list_at(ReviewKey.REPORTS)) == 2
    (run.root / "a.py").write_text(CODE.replace("compute(one)", "one"))
    assert run.review(f"{words}\n{FIXED}", visit=3).status is Status.SUCCESS
    assert (run.only().state, run.verdict()) == (FindingState.VERIFIED_FIXED, "PASS")


def test_fixed_on_an_unchanged_tree_is_asked_again_and_no_ruling(run: Run) -> None:
    """Nothing can have been fixed: the finding stays open, and the review fails for it."""
    run.in_git()
    run.review(found(item()))
    run.start("rev", 2)
    assert "#1" in run.read("rev", f"{found()}\n{FIXED}", visit=2).wish
    outcome = run.review(f"{found()}\n{FIXED}", visit=2)
    assert (run.only().state, outcome.status, run.verdict()) == (FindingState.OPEN, Status.FAIL, "WARN")


@pytest.mark.parametrize(
    "second", ["[STATUS: success]", found(item())[:-30], found()], ids=["words", "cut off", "nothing found"]
)
def test_an_unreadable_item_is_kept_after_a_second_answer(run: Run, second: str) -> None:
    """A second answer does not take back what the first one returned."""
    first = found(item(file="", why_it_matters="", evidence=[]))
    run.start("rev")
    assert "`file`" in run.read("rev", first).problem
    outcome = run.review(first, second)
    assert (outcome.status, run.verdict()) == (Status.FAIL, "FAIL")
    assert [(finding.title, finding.state) for finding in run.findings_now()] == [
        ("It is never checked", FindingState.UNCERTAIN)
    ]


P0 = item("SQL injection", severity="P0")
MILDER = item("SQL injection", 3, severity="P3")
UNREAD = item("Odd", 3, file="", why_it_matters="", evidence=[])


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps([P0]),
        str([P0]),
        json.dumps({"result": {"reviewer": "rev", "findings": [P0], "residual_risks": [], "testing_gaps": []}}),
        found()[:-1] + ', "more": ' + found(P0) + "}",
        f"{found(P0)}\n{found(MILDER)}",
    ],
    ids=["a bare list", "single quotes", "wrapped", "a second list", "told twice, milder"],
)
def test_findings_in_an_odd_form_never_pass_by_a_status(run: Run, answer: str) -> None:
    """What holds findings is read; the status beside it does not make it clean."""
    outcome = run.review(f"{answer}\n[STATUS: success]")
    assert (outcome.status, run.verdict()) == (Status.FAIL, "FAIL")
    assert "SQL injection" in {finding.title for finding in run.findings_now()}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (found({**P0, "owner": None}, UNREAD), found(item("A typo", 3, severity="P3"))),
        (found(P0, UNREAD), found(MILDER, UNREAD)),
        (found(P0)[:-60], found(item("A typo", 3, severity="P3"))),
        (json.dumps([P0]), found()),
        (found(P0).replace('"findings": [', '"findings": [ // these'), found()),
    ],
    ids=["unreadable, then another", "readable, then milder", "cut off", "a bare list", "a comment"],
)
def test_a_second_answer_erases_nothing(run: Run, first: str, second: str) -> None:
    """Whatever the second answer leaves out or tells milder, the first one's grave finding blocks."""
    outcome = run.review(first, f"{second}\n[STATUS: success]")
    assert (outcome.status, run.verdict()) == (Status.FAIL, "FAIL")
    assert "SQL injection" in {finding.title for finding in run.findings_now()}


def test_an_item_that_points_outside_keeps_a_review_from_being_clean(run: Run) -> None:
    """It is kept as a finding that blocks, with its reason, and the review fails for it."""
    outcome = run.review(found(item(file="../../etc/passwd", evidence=["../../etc/passwd:1 -- root"])))
    assert outcome.status is Status.FAIL
    assert (run.only().state, run.only().gate.value, run.verdict()) == ("uncertain", "must", "FAIL")
    assert run.only().unreadable


# --- tools, and stages that fail -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files", [{"report": sarif("no check")}, {"output": sarif("no check")}], ids=["file", "output"]
)
def test_the_report_of_a_tool_is_read_from_its_files(run: Run, files: dict[str, str]) -> None:
    """By whichever process concludes the visit; the findings decide the status."""
    assert run.lint(**files).status is Status.FAIL  # type: ignore[arg-type]
    assert (run.only().reviewer, run.only().tool) == ("lint", True)


def test_a_failure_whose_report_stays_unreadable_is_a_finding(run: Run) -> None:
    """The command failed, and that is kept whatever became of its report."""
    failure = Failure(kind=FailureClass.EXIT_NONZERO, digest="bad")
    run.lint(status=Status.FAIL, reason="bad", failure=failure)
    assert (run.only().title, run.only().failing_stage) == ("bad", "lint")


def test_only_the_last_attempt_of_a_visit_counts(run: Run) -> None:
    """A tool that reported, was tried again and ran out of time has not answered."""
    report = run.root / "given"
    report.write_text(sarif("no check"))
    run.start("lint")
    assert run.findings.read_report(run.job("lint"), report).problem == ""
    run.state = run.state._replace(progress=Progress(failed={"lint": 1}))
    failure = Failure(kind=FailureClass.TIMEOUT, digest="too slow")
    run.lint(report=sarif("no check"), status=Status.FAIL, failure=failure)
    (passed,) = run.passes()
    assert [(look.reviewer, look.status) for look in passed.coverage.looks] == [("lint", ReportStatus.MISSING)]
    assert (passed.entries, run.findings_now(), run.verdict()) == ((), [], "FAIL")


@pytest.mark.parametrize("kind", [FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL])
def test_nothing_passes_until_everybody_has_answered(run: Run, kind: FailureClass) -> None:
    """Whether the error was routed or stopped the run; the answer of another reviewer does not make up for it."""
    silent = Failure(kind=kind, digest="no word")
    run.review(found())
    assert run.verdict() == "PASS"
    run.fix(status=Status.FAIL, failure=silent)
    assert run.verdict() == "PASS", "a fixer reviews nothing"
    routed = Outcome(status=Status.FAIL, failure=silent, kept=run.start("rev", 2))
    run.conclude(Concluded(run.stage("rev"), 2, routed))
    run.review(found(), visit=2, name="qa")
    assert run.verdict() == "FAIL"
    run.review(found(), visit=3)
    assert run.verdict() == "PASS"
    stopped = routed.model_copy(update={"status": Status.ERROR})
    conclusion = run.findings.conclude([Concluded(run.stage("rev"), 4, stopped)], run.context, run.state, NOW)
    assert (conclusion.outcomes, conclusion.operations, len(conclusion.lines)) == ({}, (), 1)
    run.commit(conclusion)
    assert list(run.ledger().owed()) == ["rev"]
    run.review(found(), visit=4, name="qa")
    assert (run.verdict(), "FAIL" in run.findings.objection("r")) == ("FAIL", True)


# --- what is said of known findings ----------------------------------------------------------------------------------


def test_a_dismissed_finding_is_left_out_of_status_and_report(run: Run) -> None:
    """A review that reports it with another finding is about the other one alone."""
    run.review(found(item()))
    run.decide(FindingState.WONT_FIX, **dismissal())
    outcome = run.review(found(item(), item("Another", 3, severity="P2")), visit=2)
    assert (outcome.status, outcome.reason[-16:]) == (Status.PARTIAL_SUCCESS, "Another (a.py:3)")
    ids = run.context.list_at(ReviewKey.REPORTS)[-1]["findingIds"]
    assert [run.ledger().findings[id].title for id in ids] == ["Another"]


def test_an_expired_dismissal_fails_the_stage_again(run: Run) -> None:
    """Expiry is judged by the time of the review, for the status as for the ledger."""
    run.review(found(item()))
    run.decide(FindingState.WONT_FIX, **dismissal(expires="2026-06-01"))
    assert run.review(found(item()), visit=2).status is Status.FAIL
    assert run.only().state is FindingState.REOPENED


def test_only_open_findings_of_the_reports_are_listed(run: Run) -> None:
    """A claimed fix is listed until it is verified or dismissed."""
    run.review(found(item()))
    assert ", open)" in run.fix_prompt()
    run.fix(FIXED)
    assert ", fix_claimed" in run.fix_prompt()
    run.decide(FindingState.FALSE_POSITIVE)
    assert run.fix_prompt() == ""


def test_a_finding_is_listed_under_its_line_of_work(run: Run) -> None:
    """A person may have joined it with one that no report of this run refers to."""
    run.review(found(item(), item("Another", 3)))
    first, second = run.findings_now()
    joined = Change(at=first.created_at, what=What.JOINED, who="anna", by=Actor.USER, ref=first.id)
    LedgerStore(run.journal).append([FindingChanged(id=second.id, change=joined, fields={"line": first.id})])
    text = run.fix_prompt(Context({ReviewKey.REPORTS: [{"findingIds": [second.id]}]}))
    assert (f"#{first.number} (must" in text, f"#{second.number} (must" in text) == (True, False)
    assert second.title in text


def test_silence_leaves_a_claimed_fix_as_it_is_and_a_ruling_verifies_it(run: Run) -> None:
    """Also if the line is gone; once it is verified, later silence leaves it verified."""
    run.review(found(item()))
    run.fix(FIXED)
    (run.root / "a.py").write_text("one = 1\nthree = 3\n")
    assert run.review(found(), visit=2).status is Status.FAIL
    assert (run.only().state, run.verdict()) == (FindingState.FIX_CLAIMED, "WARN")
    for visit, answer in ((3, f"{found()}\n{FIXED}"), (4, found())):
        assert run.review(answer, visit=visit).status is Status.SUCCESS
        assert (run.only().state, run.verdict()) == (FindingState.VERIFIED_FIXED, "PASS")
    assert run.context.list_at(ReviewKey.REPORTS) == []


def test_a_finding_that_is_reported_and_called_fixed_is_open(run: Run) -> None:
    """A report outweighs the ruling by its number."""
    run.review(found(item()))
    run.review(f"{found(item())}\n{FIXED}", visit=2)
    assert run.only().state is FindingState.OPEN
    run.fix(FIXED)
    run.review(f"{found(item())}\n{FIXED}", visit=3)
    assert run.only().state is FindingState.REOPENED
    assert not [change for change in run.only().history if change.note.startswith("regression")]


@pytest.mark.parametrize("loop", [LOOP, ""], ids=["a loop", "no loop"])
def test_a_loop_is_told_that_it_is_stalled_and_when_it_is_not_any_more(tmp_path: Path, loop: str) -> None:
    """After the second claimed fix that did not hold, until it is fixed; where there is no loop nobody asks."""
    (tmp_path / "a.py").write_text(CODE)
    run, told = Run(tmp_path, loop), []
    for visit, answer in enumerate((*[found(item())] * 3, f"{found()}\n{FIXED}"), 1):
        run.review(answer, visit=visit)
        told.append(ReviewKey.STALLED in run.context)
        run.fix(FIXED, visit)
    assert told == [False, False, bool(loop), False]


def test_an_answer_of_a_failed_stage_does_not_count(run: Run) -> None:
    """An agent that broke off claims nothing."""
    run.review(found(item()))
    run.fix(FIXED, status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT, digest="it broke off"))
    assert run.only().state is FindingState.OPEN


# --- the verdict -----------------------------------------------------------------------------------------------------


def test_a_run_is_held_by_the_pass_that_sees_danger(run: Run) -> None:
    """A later one that does not see it holds nothing, and does not make the verdict better."""
    run.review(found(item(severity="P0", system_breaking=True)))
    assert (run.verdict(), bool(run.context.get(Key.HOLD))) == ("ABORT", True)
    visited = run.answered("qa", found())
    conclusion = run.findings.conclude([visited], run.context, run.state, NOW)
    assert list(conclusion.operations) == [Set(ReviewKey.VERDICT, "ABORT")]
    assert "ABORT" in run.findings.objection("r")


@pytest.mark.parametrize(
    ("more", "status", "verdict"),
    [({"system_breaking": True, "pre_existing": True}, Status.SUCCESS, "PASS"), ({}, Status.FAIL, "FAIL")],
    ids=["older than the change", "ordinary"],
)
def test_any_other_critical_finding_holds_nothing(run: Run, more: dict[str, Any], status: Status, verdict: str) -> None:
    """What is older than the change neither fails nor holds; an ordinary one goes to the fixer."""
    assert run.review(found(item(severity="P0", **more))).status is status
    assert (run.verdict(), Key.HOLD in run.context) == (verdict, False)


# --- files -----------------------------------------------------------------------------------------------------------


def record_of(run: Run) -> Path:
    (path,) = (run.root / ".wystack/findings").glob("*.json")
    return path


def test_edits_of_a_paused_run_are_recorded_on_resume(run: Run) -> None:
    """Resuming reads the files before it writes them; illegal edits are put back and noted."""
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
    assert run.only().state is FindingState.FIX_CLAIMED
    run.fix()
    assert len(run.context.list_at(ReviewKey.NOTES)) == 1


def test_edits_during_a_stage_are_attributed_to_it(run: Run) -> None:
    """An edit has the rights of an agent, whatever name it gives."""
    (run.root / ".wystack").mkdir()
    run.review(found(item(severity="P2")))
    path = record_of(run)
    entry = {"at": "2026-01-01T00:00:00Z", "status": "wont-fix", "note": "by design", "by": "user"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "wont-fix", "triage_history": [entry]}))
    run.fix()
    assert (run.only().state, run.only().history[-1].who) == (FindingState.WONT_FIX, "stage:fix")
    assert run.only().history[-1].by is not Actor.USER


def test_what_must_be_fixed_is_not_dismissed_by_an_edit(run: Run) -> None:
    """It is disputed, and stays open; whatever else was changed is put back."""
    (run.root / ".wystack").mkdir()
    run.review(found(item()))
    path = record_of(run)
    entry = {"at": "2026-11-17T00:00:00Z", "status": "false-positive", "note": "no", "by": "user"}
    edited = {"status": "false-positive", "triage_history": [entry], "gate": "suggest"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **edited}))
    run.fix()
    assert (run.only().state, run.only().gate.value, run.only().disputed) == (FindingState.OPEN, "must", True)
    record = json.loads(path.read_text())
    assert (record["status"], record["gate"]) == ("open", "must")
    assert [(one["by"], one["x_by"]) for one in record["triage_history"]] == [("finish-task", "stage:fix")]


def test_what_is_put_back_twice_is_noted_once_in_a_run_whichever_process_does_it(run: Run) -> None:
    """A crash in between repeats nothing."""
    (run.root / ".wystack").mkdir()
    run.review(found(item()))
    path = record_of(run)
    before = path.read_bytes()
    for visit in (1, 2):
        path.write_text(path.read_text().replace('"gate": "must"', '"gate": "suggest"'))
        run.fix(visit=visit)
        assert path.read_bytes() == before
        run.begin_again()
    assert len(run.context.list_at(ReviewKey.NOTES)) == 1


def test_a_pass_records_the_state_at_the_start_of_the_review(run: Run) -> None:
    """Commit, branch and time are those of the start; files that changed meanwhile keep it from shipping."""
    (run.root / ".wystack").mkdir()
    run.in_git()
    head = git(run.root, "rev-parse", "HEAD").strip()
    run.now = NOW - 100
    visited = run.answered("rev", found())
    run.now = NOW
    (run.root / "a.py").write_text(CODE + "four = 4\n")
    git(run.root, "commit", "-qam", "meanwhile")
    run.conclude(visited)
    (passed,) = run.passes()
    assert (passed.head, passed.branch, passed.started_at) == (head, "main", "2026-11-16T03:31:40Z")
    (path,) = (run.root / ".wystack/reviews").glob("*.json")
    record = json.loads(path.read_text())
    assert (passed.changed, record["verdict"], record["diff_sha"]) == (True, "block-on-rejection", head)
    run.review(found(), visit=2)
    last = run.passes()[-1]
    assert (last.head != head, last.changed) == (True, False)


def test_a_report_file_of_a_tool_is_not_a_change(run: Run) -> None:
    """New files do not count; changed ones do."""
    run.in_git()
    for visit, name in enumerate(("given", "a.py"), 1):
        kept = run.start("lint", visit)
        (run.root / name).write_text("more = 1\n")
        folder = run.store / f"runs/r/lint/{visit}"
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text(sarif())
        logs = {"stdout": f"runs/r/lint/{visit}/stdout.log"}
        run.conclude(Concluded(run.stage("lint"), visit, Outcome(status=Status.SUCCESS, logs=logs, kept=kept)))
    assert [passed.changed for passed in run.passes()] == [False, True]


def test_files_missing_after_a_crash_are_written_on_resume(run: Run) -> None:
    """The pass is on record once, and the verdict file shows it, however often the run is resumed."""
    (run.root / ".wystack").mkdir()
    run.commit(run.findings.conclude([run.answered("rev", found(item()))], run.context, run.state, NOW))
    assert not (run.root / ".code-review").exists()
    for state in (None, None, FindingState.VERIFIED_FIXED):
        if state:
            run.decide(state)
        run.begin_again()
        run.findings.on_resume("r")
        (record,) = (run.root / ".wystack/reviews").glob("*.json")
        assert record.stem == run.passes()[0].id
        shown = json.loads((run.root / ".code-review/review-latest.json").read_text())
        assert shown["findings"][0]["status"] == ("verified" if state else "open")
        assert record_of(run).stem == run.only().id


def test_resuming_a_run_without_findings_writes_nothing(run: Run) -> None:
    """A run that found nothing leaves no files."""
    run.findings.on_resume("r")
    assert sorted(path.name for path in run.root.iterdir()) == ["a.py"]


# --- the plugin ------------------------------------------------------------------------------------------------------


def conclude(plugin: ReviewFindings, run: Run, *visits: Concluded) -> Conclusion:
    return plugin.conclude(visits, run.context, run.state, NOW)


def plugin_of(run: Run) -> ReviewFindings:
    return ReviewFindings(run.journal, run.root, {}, TreeSnapshots({}), run.store, lambda: NOW)


def test_an_unreadable_ledger_raises(run: Run) -> None:
    """A stage whose findings cannot be kept does not pass."""
    visited = run.answered("rev", found(item()))
    run.journal.append_ledger(["no event"])
    plugin = plugin_of(run)
    with pytest.raises(JournalError):
        plugin.before_stage(run.stage("rev"), 2, run.state)
    with pytest.raises(JournalError, match="line 1 "):
        conclude(plugin, run, visited)


def test_unwritable_files_raise_after_the_commit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written as soon as that is possible."""
    plugin = plugin_of(run)
    run.commit(conclude(plugin, run, run.answered("rev", found(item()))))
    with monkeypatch.context() as full:
        full.setattr("pipeline.files.write_file", refuse)
        with pytest.raises(AwfError):
            plugin.committed(EMPTY, EMPTY)
    plugin_of(run).before_stage(run.stage("rev"), 2, run.state)
    assert (run.root / ".code-review/review-latest.json").is_file()


def refuse(*_paths: Any, **_options: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stage_without_findings_does_not_read_the_ledger(run: Run) -> None:
    """Most stages report nothing and say nothing of findings."""
    run.journal.append_ledger(["no event"])
    plugin = plugin_of(run)
    fixed = Concluded(run.stage("fix"), 1, Outcome(status=Status.SUCCESS))
    assert conclude(plugin, run, fixed) == Conclusion(operations=[], lines=())
    worklist = plugin.brief(run.job("fix")).worklist
    assert worklist is not None
    assert worklist.render(5000) == ""
    plugin.committed(EMPTY, EMPTY)


@pytest.mark.parametrize("directory", [".wystack", ".code-review"])
def test_a_directory_of_views_concerns_the_ledger(run: Run, directory: str) -> None:
    """A stage may have edited a file there."""
    (run.root / directory).mkdir()
    run.journal.append_ledger(["no event"])
    with pytest.raises(JournalError):
        conclude(plugin_of(run), run, Concluded(run.stage("fix"), 1, Outcome(status=Status.SUCCESS)))
