"""A report shows what the records say, and nothing a run said can act on its reader."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.strategies import plain
from tests.unit.markdown_shape import shape

from pipeline.app.history import HistoryBuilder, RunHistory
from pipeline.app.report import content
from pipeline.app.report.content import (
    PathStep,
    ReviewSummary,
    RunReport,
    build_report,
    describe_changes,
    finding_history,
    read_review,
    summarize_review,
)
from pipeline.app.report.render import render_html, render_markdown
from pipeline.cli.report import command
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.ports import JournalEntry
from pipeline.engine.records import AnyRecord, RunCreated, RunPaused, RunResumed, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.findings.events import (
    Coverage,
    Disposition,
    FindingChanged,
    FindingRaised,
    ItemOutcome,
    Look,
    Pass,
    PassRecorded,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    Change,
    FindingId,
    FindingState,
    Gate,
    Location,
    PassId,
    ReportStatus,
    Severity,
    What,
)
from pipeline.findings.rounds import Round
from pipeline.journal.memory import MemoryJournal
from pipeline.journal.sqlite import SqliteJournal

AT = "2026-01-02T03:04:05Z"
BEGAN = 1_767_323_045.0
EVIL = 'a`b|c\n# d <script>alert(1)</script> \x1b[31m"e" \u202ef ![x](http://x.invalid) @all ```'
SOURCE = """
workflow "Ship" {
  version 2
  start "build"
  settings { max_visits 50; }
  stage "build" kind="llm" prompt="Build"
  stage "check" kind="tool" command="check"
  stage "exit" kind="exit"
  transition from="build" to="check"
  transition from="check" to="build" when="outcome(\\"check\\") != \\"success\\""
  transition from="check" to="exit" when="outcome(\\"check\\") == \\"success\\""
}
"""


def created(goal: str = "Ship it.\n\nSoon.", cwd: str = "/") -> RunCreated:
    return RunCreated(at=BEGAN, run_id="r1", file="ship.awf.kdl", source=SOURCE, goal=goal, cwd=cwd, version="1")


def done(stage: str, visit: int, to: str | None, *, reason: str = "", passed: bool = True, **more: Any) -> AnyRecord:
    usage = Usage(input_tokens=1200, output_tokens=300, cost_usd=0.25) if stage == "build" else None
    status = Status.SUCCESS if passed else Status.FAIL
    return VisitCompleted(
        at=BEGAN + 60,
        stage=stage,
        visit=visit,
        attempt=1,
        outcome=Outcome(status=status, reason=reason, duration=12.5, usage=usage),
        chosen=Selection(target=to, reason="because"),
        **{"operations": (), **more},
    )


def run_records(rounds: int = 1, reason: str = "2 tests failed", goal: str = "Ship it.\n\nSoon.") -> list[AnyRecord]:
    """A run that fails its check a number of times, then passes."""
    records: list[AnyRecord] = [created(goal)]
    for number in range(1, rounds + 1):
        records += [
            done("build", number, "check"),
            done("check", number, "build", reason=reason, passed=False),
        ]
    last = rounds + 1
    return [*records, done("build", last, "check"), done("check", last, "exit"), *ended()]


def ended() -> list[AnyRecord]:
    return [done("exit", 1, None, ends=Status.SUCCESS)]


def ledger(title: str = "The handle is never closed") -> Ledger:
    """Two rounds: a severe finding of two reviewers that a fix missed, and a minor one that was fixed.

    Another run has a finding in another file.
    """
    found = Ledger()
    hidden = ItemOutcome(input_id="qa#3", disposition=Disposition.FILTERED, reason="unsure", title=title)
    looks = Coverage(looks=(Look(reviewer="qa", status=ReportStatus.RETURNED),), residual_risks=(title,))
    for number, run in ((1, "other"), (1, "r1"), (2, "r1")):
        passed = Pass(
            id=PassId(f"REV-{number}-{run}"),
            started_at=AT,
            review="0badcafe",
            run=run,
            round=number,
            paths=("src/app.py",),
            coverage=looks,
            entries=(hidden,),
        )
        found.apply(PassRecorded(at=AT, assessment=passed))
    minor = {"severity": Severity.LOW, "title": "A word is misspelt", "gate": Gate.SUGGEST}
    place = (Location(path="src/app.py", start=5),)
    grave = {"severity": Severity.HIGH, "title": title, "gate": Gate.MUST, "locations": place}
    for name, run, more in (
        ("small", "r1", minor | {"locations": ()}),
        ("grave", "r1", grave),
        ("foreign", "other", {"title": "Not of this run"}),
        ("member", "r1", grave | {"reviewer": "security", "severity": Severity.MEDIUM, "line": "fnd_grave"}),
    ):
        raised = plain(id=FindingId(f"fnd_{name}"), signature=f"sha256:{name}", pass_id=f"REV-1-{run}", **more)
        said = Change(at=AT, what=What.RAISED, who=raised.reviewer, by=Actor.ORCHESTRATOR, state=raised.state)
        found.apply(FindingRaised(at=AT, finding=replace(raised, history=(replace(said, pass_id=raised.pass_id),))))
    claim = Change(at=AT, what=What.CLAIM, who="fix", by=Actor.FINISH_TASK, word="fixed", note="closed it", run="r1")
    ruling = Change(at=AT, what=What.RULING, who="correctness", by=Actor.REVALIDATE, pass_id=passed.id, run="r1")
    refuted = replace(ruling, word="not_fixed", note=title, state=FindingState.REOPENED)
    gone = replace(ruling, word="fixed", note="gone", state=FindingState.VERIFIED_FIXED)
    for id, change in (
        ("fnd_grave", replace(claim, state=FindingState.FIX_CLAIMED)),
        ("fnd_grave", refuted),
        ("fnd_small", gone),
    ):
        found.apply(FindingChanged(id=FindingId(id), change=change))
    return found


def report_on(records: list[AnyRecord], review: ReviewSummary | None = None, *, driven: bool = False) -> RunReport:
    return build_report(RunHistory.read(records), review or ReviewSummary(), "", driven=driven)


def report(*, rounds: int = 1, review: ReviewSummary | None = None, **more: Any) -> RunReport:
    found = review if review is not None else summarize_review(ledger(), "r1")
    changes = "2 files changed, 10 insertions(+), 3 deletions(-)"
    return build_report(RunHistory.read(run_records(rounds, **more)), found, changes, driven=False)


def test_the_markdown(snapshot: SnapshotAssertion) -> None:
    """The page has the goal, the outcome, the path, the rounds, the findings and the cost."""
    assert render_markdown(report()) == snapshot


def test_the_html(snapshot: SnapshotAssertion) -> None:
    """The HTML has the same, with a chart of the rounds."""
    assert render_html(report()) == snapshot


def test_the_same_records_give_the_same_pages() -> None:
    """Nothing on a page comes from a clock or from where it was made."""
    assert (render_markdown(report()), render_html(report())) == (render_markdown(report()), render_html(report()))


def test_a_run_that_has_just_started_has_no_empty_sections() -> None:
    """A run that did nothing yet shows that it was interrupted, and no more."""
    page = render_markdown(report_on([created("")]))
    assert re.findall("^## .*", page, re.MULTILINE) == ["## Path", "## Time and cost"]
    assert "| build | 1 | interrupted |" in page
    assert "change" not in page
    assert "Goal" not in page
    assert "<svg" not in render_html(report_on([created("")]))


def test_an_unfinished_visit_is_running_while_the_run_is_driven() -> None:
    """Without a process, it would be interrupted."""
    assert report_on([created()], driven=True).steps[-1].status == "running"


def test_what_happened_between_visits_is_on_the_path() -> None:
    """Pausing and resuming have rows of their own."""
    paused = RunPaused(at=BEGAN, limit="max_visits", stage="check", count=1, allowed=1, reason="enough for now")
    records = [created(), done("build", 1, "check"), paused, RunResumed(at=BEGAN + 1, raised={"max_visits": 9})]
    page = render_markdown(report_on(records))
    assert "|  |  |  |  |  |  | paused: enough for now |" in page
    assert "resumed with max\\_visits=9" in page


@pytest.mark.parametrize(("rounds", "folded"), [(4, False), (5, True)])
def test_a_long_path_is_folded(rounds: int, *, folded: bool) -> None:
    """With more than a dozen steps, the table is folded away; the line above it shows what repeated."""
    made = report(rounds=rounds, review=ReviewSummary())
    assert len(made.steps) == 2 * rounds + 3
    for page in (render_markdown(made), render_html(made)):
        assert (f"All {len(made.steps)} steps" in page) is folded
        assert f"(build → check) × {rounds + 1} → exit" in page


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ("a", "a"),
        ("a a a b", "a × 3 → b"),
        ("a b a b c", "(a b) × 2 → c"),
        ("x a b a b a", "x → (a b) × 2 → a"),
        ("a b c", "a → b → c"),
    ],
)
def test_what_repeats_is_written_once(names: str, line: str) -> None:
    """The shortest cycle that covers most names is the one in parentheses."""
    steps = [PathStep("", name) for name in names.split()]
    assert content.path_line(steps) == line.replace("a b)", "a → b)")


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_the_path_line_can_be_read_back(names: list[str]) -> None:
    """No stage is lost on the line, whatever repeats."""
    read: list[str] = []
    for group, one, times in re.findall(
        r"(?:\(([^)]*)\)|(\w))(?: × (\d+))?", content.path_line([PathStep("", n) for n in names])
    ):
        read += (group.split(" → ") if group else [one]) * int(times or 1)
    assert read == names


def test_the_last_row_is_that_of_the_run() -> None:
    """Branches run side by side, so their times do not add up to that of the run."""
    run = report()
    last = content.totals_table(replace(run, seconds=1.0, overview=replace(run.overview, tokens=0, cost_usd=0.0))).rows[
        -1
    ]
    assert last == ("the run", "5", "", "1.0s", "", "")


def test_a_page_does_not_show_where_the_workflow_was() -> None:
    """Only the name of the file is shown: its directory is a detail of the machine."""
    assert ("workflow", "Ship (ship.awf.kdl)") in content.facts(replace(report(), file="/home/me/ship.awf.kdl"))


def test_branches_and_notes_are_not_on_the_line() -> None:
    """A branch is part of its parallel stage, and a note is not a stage."""
    assert content.path_line([PathStep("", "a", within="both"), PathStep("paused"), PathStep("", "both")]) == "both"


def test_lines_of_work_about_the_target_with_the_open_and_severe_ones_first() -> None:
    """Each member has a row below that of its line; a finding of another run in another file is not shown."""
    lines = summarize_review(ledger(), "r1").lines
    assert [(row[:4], row[5]) for row in content.findings_table(lines).rows] == [
        (("2", "high, must", "reopened", "src/app.py:5"), "correctness"),
        (("also 4", "medium", "open", "src/app.py:5"), "security"),
        (("1", "low", "verified fixed", ""), "correctness"),
    ]


def test_an_earlier_finding_in_a_file_of_the_change_is_shown() -> None:
    """It counts whoever found it and whenever, so that the page never says less than the verdict."""
    known = ledger()
    foreign = known.findings[FindingId("fnd_foreign")]
    known.findings[foreign.id] = replace(foreign, locations=(Location(path="src/app.py", start=9),))
    review = summarize_review(known, "r1")
    assert review.review is not None
    assert [line.number for line in review.lines] == [2, 3, 1]
    assert [line.number for line in review.review.open] == [2, 3]


def test_the_history_of_a_finding_says_who_said_what() -> None:
    """Reports, claims and rulings are lines of it, in their order."""
    (grave, _), (small, *_) = ([*line.members] for line in summarize_review(ledger("No"), "r1").lines)
    assert finding_history(grave)[1:] == [
        f"{AT} fix claim fixed, now fix_claimed: closed it",
        f"{AT} correctness ruling not_fixed, now reopened in REV-2-r1: No",
    ]
    assert finding_history(small)[-1] == f"{AT} correctness ruling fixed, now verified_fixed in REV-2-r1: gone"


def test_rounds_in_numbers() -> None:
    """Open is what a round carried over, found anew or brought back."""
    first, second = content.rounds_table(summarize_review(ledger(), "r1")).rows
    assert first == ("1", "3", "3", "0", "0", "0")
    assert second == ("2", "2", "0", "1", "2", "0")


def test_what_was_filtered_is_listed_with_what_is_only_suspected() -> None:
    """Nothing that a reviewer returned is dropped in silence."""
    rows = content.hidden_table(summarize_review(ledger("A leak"), "r1").hidden).rows
    assert rows == (("qa#3", "filtered", "A leak", "unsure"), ("", "risk", "A leak", ""))


def test_a_store_without_a_ledger() -> None:
    """Most runs have no findings that code can read."""
    assert read_review(MemoryJournal(), "r1") == ReviewSummary()


def test_many_findings_are_not_all_shown() -> None:
    """A page stays small enough to open, and says how many findings it left out."""
    (one, _) = summarize_review(ledger(), "r1").lines[0].members
    many = ReviewSummary(lines=tuple(Line(one.id, number, (one,)) for number in range(1, content.MAX_ROWS + 6)))
    for page in (render_markdown(report(review=many)), render_html(report(review=many))):
        assert "And 5 less important ones" in page
        assert str(content.MAX_ROWS + 1) not in page
    long = replace(one, history=one.history[:1] * (content.MAX_ROWS + 3))
    assert finding_history(long)[content.MAX_ROWS :] == ["and 3 more"]


class Shown(HTMLParser):
    """What a browser makes of a page: its tags and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def evil(text: str) -> RunReport:
    """A run with this text wherever a text can be."""
    made = report_on(run_records(reason=text, goal=text), summarize_review(ledger(text), "r1"))
    reports = ({"stage": text, "iteration": 1, "reason": text},)
    overview = replace(made.overview, workflow=text, reason=text, open_reports=reports)
    return replace(made, overview=overview, file=text)


@given(st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: bool(text.strip())) | st.just(EVIL))
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever a run said, the HTML has the same tags and attributes as for a harmless word."""
    page, harmless = Shown(render_html(evil(text))), Shown(render_html(evil("word")))
    assert {*page.tags} - {"br"} == {*harmless.tags} - {"br"}
    assert page.attributes == harmless.attributes
    assert not page.attributes & {"src", "onclick", "onload", "href"}


@given(st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: bool(text.strip())) | st.just(EVIL))
def test_no_text_becomes_markdown(text: str) -> None:
    """Whatever a run said, a reader of the Markdown sees the same headings, lists and tables as for a harmless word."""
    assert shape(render_markdown(evil(text))) == shape(render_markdown(evil("word")))


def test_control_characters_are_removed_or_replaced() -> None:
    """Terminal colors are gone, a change of direction is replaced, and the words are kept."""
    for page in (render_html(evil(EVIL)), render_markdown(evil(EVIL))):
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "\N{REPLACEMENT CHARACTER}f" in page
        assert "<script" not in page.replace("\\<script", "").partition("```text")[0]
    assert "<script>alert(1)</script>" in Shown(render_html(evil(EVIL))).text


def test_a_goal_cannot_leave_its_fence() -> None:
    """The fence is longer than any run of backticks in it."""
    page = render_markdown(evil("a\n````\n# heading"))
    assert "\n`````text\na\n````\n# heading\n`````\n" in page


def test_a_long_goal_is_shortened() -> None:
    """An ellipsis marks what is left out."""
    assert content.goal_lines(report(goal="x" * 5000))[-1] == "…"


def test_the_page_needs_no_other_resource() -> None:
    """No script, link, picture or font, and a policy that would refuse them."""
    page = render_html(report())
    assert not {"script", "link", "img", "iframe"} & {*Shown(page).tags}
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("rounds", [1, 2, 40])
def test_the_chart_stays_within_its_bounds(rounds: int) -> None:
    """However many rounds there are, even if every number is zero."""
    counts = tuple(Round(number) for number in range(1, rounds + 1))
    (picture,) = re.findall("<svg.*</svg>", render_html(report(review=ReviewSummary(counts))), re.DOTALL)
    across = [float(x) for x in re.findall(r' (?:x|x1|x2|cx)="([^"]*)"', picture)]
    assert 0 <= min(across) <= max(across) <= 640
    assert picture.count("<circle") == rounds
    assert picture.count('text-anchor="middle"') <= 16


def run_with_commits(base: str, tip: str | None, cwd: Path) -> RunHistory:
    operations = (("set", "workspace.base", base), ("set", "workspace.commit", tip))
    return RunHistory.read([created(cwd=str(cwd)), done("build", 1, "check", operations=operations)])


@pytest.mark.parametrize(
    ("base", "tip"),
    [("0" * 40, "1" * 40), ("--output=x", "1" * 40), ("0" * 40, None)],
)
def test_changes_that_git_cannot_tell_are_left_out(tmp_path: Path, base: str, tip: str | None) -> None:
    """Unknown commits, names that are not commits, and a run without a workspace have no changes to report."""
    history = run_with_commits(base, tip, tmp_path)
    assert describe_changes(history, {"PATH": "/usr/bin:/bin"}, tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_git_reports_no_changes(tmp_path: Path) -> None:
    """The report is written all the same."""
    history = run_with_commits("0" * 40, "1" * 40, tmp_path)
    assert describe_changes(history, {"PATH": str(tmp_path)}, tmp_path) == ""


def test_a_report_reads_its_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads every record once and folds it once, whatever the pages show of it."""
    records = run_records(rounds=3)
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.create("r1", records[0])
        for record in records[1:]:
            journal.append("r1", record)
    read, folded = list[str](), list[str]()
    entries, add = SqliteJournal.entries, HistoryBuilder.add

    def count_entries(journal: SqliteJournal, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        read.append(run_id)
        return entries(journal, run_id, after)

    def count_add(builder: HistoryBuilder, record: AnyRecord) -> None:
        folded.append(record.kind)
        add(builder, record)

    monkeypatch.setattr(SqliteJournal, "entries", count_entries)
    monkeypatch.setattr(HistoryBuilder, "add", count_add)
    done = CliRunner().invoke(command, ["r1", "--store", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (read, folded) == (["r1"], [record.kind for record in records[1:]])
