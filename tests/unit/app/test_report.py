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
from pipeline.app.report.html import render_html
from pipeline.app.report.markdown import escape_markdown, render_markdown
from pipeline.cli.report import command
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.ports import JournalEntry
from pipeline.engine.records import AnyRecord, RunCreated, RunPaused, RunResumed, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.findings.events import FindingRaised, FixAttempted, Pass, PassRecorded, ReportedAgain, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    GateDecision,
    Location,
    Observed,
    PassId,
    Severity,
    Strength,
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
    """Two rounds: a severe finding that a fix missed, and a minor one that is fixed; and a finding of another run."""
    found = Ledger()
    for number, run in ((1, "r1"), (2, "r1"), (1, "other")):
        passed = Pass(id=PassId(f"REV-{number}-{run}"), started_at=AT, run=run, round=number)
        found.apply(PassRecorded(at=AT, assessment=passed))
    must = GateDecision(value=Gate.MUST)
    place = (Location(path="src/app.py", start=5),)
    for name, run, more in (
        (
            "small",
            "r1",
            {"severity": Severity.LOW, "title": "A word is misspelt", "gate": GateDecision(), "locations": ()},
        ),
        ("grave", "r1", {"severity": Severity.HIGH, "title": title, "gate": must, "locations": place}),
        ("foreign", "other", {"title": "Not of this run"}),
    ):
        raised = plain(id=FindingId(f"fnd_{name}"), signature=f"sha256:{name}", pass_id=f"REV-1-{run}", **more)
        found.apply(FindingRaised(at=AT, finding=raised))
    tried = FixAttempt(run="r1", round=1, by="fix", what="closed it", outcome="not_fixed")
    for event in (
        FixAttempted(at=AT, id=FindingId("fnd_grave"), attempt=tried),
        ReportedAgain(
            at=AT,
            id=FindingId("fnd_grave"),
            pass_id=PassId("REV-2-r1"),
            observed=Observed.UNCHANGED,
            strength=Strength.EXACT,
        ),
        StateChanged(at=AT, id=FindingId("fnd_small"), state=FindingState.VERIFIED_FIXED, by="revalidate", note="gone"),
    ):
        found.apply(event)
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


def test_findings_of_the_run_only_and_important_ones_first() -> None:
    """A finding of another run is not shown; active and severe ones come before closed ones."""
    findings = summarize_review(ledger(), "r1").findings
    assert [row[:4] for row in content.findings_table(findings).rows] == [
        ("2", "high, must", "open", "src/app.py:5"),
        ("1", "low", "verified fixed", ""),
    ]
    assert finding_history(findings[0])[-1] == "fix attempt: round 1, fix, not fixed, closed it"
    assert finding_history(findings[1])[-1] == f"{AT}: state verified fixed by revalidate (gone)"


def test_a_finding_that_the_run_only_tried_to_fix_is_shown() -> None:
    """What another run found and this one worked on is part of what it did."""
    both = ledger()
    both.apply(FixAttempted(at=AT, id=FindingId("fnd_foreign"), attempt=FixAttempt(run="r1")))
    foreign = next(one for one in summarize_review(both, "r1").findings if one.number == 3)
    assert finding_history(foreign)[-1] == "fix attempt: no details"


def test_rounds_in_numbers() -> None:
    """Outstanding is what a round carried over, found anew or brought back."""
    first, second = content.rounds_table(summarize_review(ledger(), "r1")).rows
    assert first[:4] == ("1", "2", "2", "0")
    assert second[:4] == ("2", "1", "0", "1")


def test_a_store_without_a_ledger() -> None:
    """Most runs have no findings that code can read."""
    assert read_review(MemoryJournal(), "r1") == ReviewSummary()


def test_many_findings_are_not_all_shown() -> None:
    """A page stays small enough to open, and says how many findings it left out."""
    one = summarize_review(ledger(), "r1").findings[0]
    many = ReviewSummary(findings=tuple(replace(one, number=number) for number in range(1, content.MAX_ROWS + 6)))
    for page in (render_markdown(report(review=many)), render_html(report(review=many))):
        assert "And 5 less important ones" in page
        assert str(content.MAX_ROWS + 1) not in page
    long = replace(one, history=one.history[:1] * (content.MAX_ROWS + 3), attempts=())
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a&#124;b"),
        ("`x` *y* _z_", r"\`x\` \*y\* \_z\_"),
        ("[a](b) <i> &amp; $x$ ~", r"\[a\](b) \<i\> \&amp; \$x\$ \~"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("12) item", r"12\) item"),
        ("1.5 a-b", "1.5 a-b"),
        ("https://x.invalid", r"https\://x.invalid"),
        ("WWW.x.invalid", r"WWW\.x.invalid"),
        ("@all #1", "@<!-- -->all #<!-- -->1"),
        ("\\|", "\\\\&#124;"),
    ],
)
def test_markdown_is_escaped(text: str, shown: str) -> None:
    """Markup is shown as it is; people and issues are not mentioned."""
    assert escape_markdown(text) == shown


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
