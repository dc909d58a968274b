"""What the findings commands do, without a terminal."""

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import (
    AT,
    FIRST,
    REVIEW,
    SECOND,
    assessed,
    changed,
    finding,
    ledger_of,
    look,
    seen,
    turned,
)
from tests.unit.findings.strategies import ledgers

from pipeline.app.findings.intake import ReportFile, decode_files, import_reports, pass_changes, read_files
from pipeline.app.findings.ledger import Repository, find_repository, read_snapshot, timestamp
from pipeline.app.findings.lookup import find_finding, find_pass
from pipeline.app.findings.queries import (
    ALL_STATES,
    FindingFilter,
    is_failing,
    line_row,
    parse_since,
    parse_states,
    review_json,
    select,
)
from pipeline.app.findings.triage import ChosenFindings, TriageRequest, apply_triage
from pipeline.cli.findings.lists import table
from pipeline.errors import AwfError
from pipeline.findings.events import Coverage, FindingRaised
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    Category,
    Finding,
    FindingId,
    FindingState,
    Location,
    ReportStatus,
    Severity,
    What,
)
from pipeline.findings.reviews import review
from pipeline.findings.verdicts import Verdict
from pipeline.language.model import Lens
from pipeline.text import display_width

NOW = datetime(2026, 3, 1, 10, 0, 0, 5, tzinfo=UTC)
ESLINT = b'[{"filePath": "a.js", "messages": [{"ruleId": "no-x", "severity": 2, "message": "No x.", "line": 1}]}]'
JUNIT = b'<testsuite><testcase name="t" classname="c"><failure message="no"/></testcase></testsuite>'


def named(sources: list[ReportFile], **more: Any) -> list[str]:
    told: dict[str, Any] = {"format": "auto", "reviewer": "", "lens": None} | more
    return [answer.reviewer for answer in decode_files(sources, Path("/repo"), **told)]


@pytest.mark.parametrize(
    ("data", "stem", "name"),
    [
        (b'{"reviewer": "qa", "findings": [], "residual_risks": [], "testing_gaps": []}', "x", "qa"),
        (b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "Ruff"}}, "results": []}]}', "x", "ruff"),
        (b'{"version": "2.1.0", "runs": [', "cut", "cut"),
        (ESLINT, "report", "eslint"),
        (JUNIT, "unit-tests", "unit-tests"),
        (JUNIT, "", "junit"),
        (b"I saw nothing.", "notes", "notes"),
        (b"I saw nothing.", "", "stdin"),
    ],
)
def test_the_name_of_a_reviewer(data: bytes, stem: str, name: str) -> None:
    """It is what the file says, else the tool whose format it is, else the name of the file."""
    assert named([ReportFile("f", stem, data)]) == [name]
    assert named([ReportFile("f", stem, data)], reviewer="me") == ["me"]


def test_an_unknown_format_is_a_malformed_report() -> None:
    """The problem says how to name the format."""
    (answer,) = decode_files([ReportFile("n.txt", "n", b"fine")], Path("/repo"), format="auto", reviewer="", lens=None)
    assert answer.status is ReportStatus.MALFORMED
    assert "--format" in answer.problem


def test_a_format_by_name_is_not_guessed() -> None:
    """A file that is not in the named format is malformed."""
    (answer,) = decode_files([ReportFile("n", "n", ESLINT)], Path("/repo"), format="sarif", reviewer="", lens=None)
    assert (answer.status, answer.format) == (ReportStatus.MALFORMED, "sarif")


def test_the_lens_of_an_assessment() -> None:
    """It applies to every finding of every file."""
    (answer,) = decode_files([ReportFile("n", "n", ESLINT)], Path("/repo"), format="auto", reviewer="", lens=Lens.QA)
    assert {draft.lens for draft in answer.drafts} == {Lens.QA}


def test_two_files_of_one_reviewer_have_items_of_their_own() -> None:
    """No two items of a pass have the same id."""
    files = [ReportFile("a", "a", ESLINT), ReportFile("b", "b", JUNIT), ReportFile("c", "c", ESLINT)]
    reports = decode_files(files, Path("/repo"), format="auto", reviewer="", lens=None)
    ids = [draft.input_id for report in reports for draft in report.drafts]
    assert ids == ["eslint#1", "b#1", "eslint#2"]


def test_files_are_read_up_to_a_size(tmp_path: Path) -> None:
    """A larger one is a malformed report."""
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "fits").write_bytes(b"x" * 10)
    big, fits, piped = read_files([str(tmp_path / "big"), str(tmp_path / "fits"), "-"], BytesIO(b"y" * 11), largest=10)
    assert big.data == piped.data == b""
    assert str(tmp_path / "big") in big.problem
    assert "standard input" in piped.problem
    assert (fits.data, fits.problem, fits.stem) == (b"x" * 10, "", "fits")
    (answer,) = decode_files([big], tmp_path, format="auto", reviewer="", lens=None)
    assert (answer.reviewer, answer.status) == ("big", ReportStatus.MALFORMED)


def test_a_missing_file_stops_everything(tmp_path: Path) -> None:
    """So does a directory, and standard input named twice."""
    (tmp_path / "there").write_text("x")
    for names in ([str(tmp_path / "there"), str(tmp_path / "not")], [str(tmp_path)], ["-", "-"]):
        with pytest.raises(AwfError):
            read_files(names, BytesIO(b""))


def lines(*findings: Finding) -> list[Line]:
    """The findings of a ledger as lines of work."""
    return list(ledger_of(*findings).lines())


def test_what_a_filter_matches() -> None:
    """Each condition narrows; several values of one widen."""
    open_, held, staged = lines(finding(1), finding(2, state=FindingState.WONT_FIX), finding(3, stage="review"))
    found = [open_, held, staged]
    assert select(found, FindingFilter()) == [open_, staged]
    assert select(found, FindingFilter(states=ALL_STATES)) == found
    assert select(found, FindingFilter(stages=frozenset({"review"}))) == [staged]
    assert select(found, FindingFilter(files=("./src/",))) == [open_, staged]
    assert select(found, FindingFilter(files=("src/?.py",))) == [open_, staged]
    assert select(found, FindingFilter(files=("a.py",))) == []
    assert select(lines(finding(locations=())), FindingFilter(files=("a",))) == []
    since = FindingFilter(since=datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert select(found, since) == [open_, staged]
    assert select(lines(finding(1, updated_at="2026-02-28T23:59:59+00:00"), finding(2, updated_at="?")), since) == []


def test_a_filter_takes_a_line_of_work_as_a_list_shows_it() -> None:
    """Its state and severity are the worst of what is open; reviewers, files and words are those of any member."""
    minor = finding(1, severity=Severity.LOW, category=Category.DOCS_GAP)
    severe = finding(2, severity=Severity.HIGH, reviewer="security", line=minor.id)
    (line,) = both = lines(minor, severe)
    assert (line.number, line.severity) == (1, Severity.HIGH)
    assert select(both, FindingFilter(severities=frozenset({Severity.LOW}))) == []
    assert select(both, FindingFilter(severities=frozenset({Severity.HIGH}))) == both
    assert select(both, FindingFilter(reviewers=frozenset({"security"}), words=("#2",))) == both
    assert select(both, FindingFilter(reviewers=frozenset({"security"}), words=("#1",))) == []
    fixed = lines(replace(minor, state=FindingState.VERIFIED_FIXED), severe)
    assert select(fixed, FindingFilter(states=parse_states(["outstanding"]))) == fixed
    assert select(fixed, FindingFilter(states=frozenset({FindingState.VERIFIED_FIXED}))) == []


def test_states_by_name() -> None:
    """A state in either spelling, or a group."""
    assert parse_states(["wont-fix"]) == parse_states(["wont_fix"]) == {FindingState.WONT_FIX}
    assert parse_states(["dismissed", "open"]) == {
        FindingState.WONT_FIX,
        FindingState.FALSE_POSITIVE,
        FindingState.OPEN,
    }
    assert FindingState.FIX_CLAIMED in parse_states(["outstanding"]) - parse_states(["active"])


def test_since_a_date_a_time_or_a_pass() -> None:
    """A date without a time zone is in UTC."""
    ledger = ledger_of()
    assert parse_since("2026-03-01", ledger) == datetime(2026, 3, 1, tzinfo=UTC)
    assert (
        parse_since("2026-03-01T10:00:00+00:00", ledger) == parse_since(FIRST, ledger) == parse_since("latest", ledger)
    )


def test_names_of_findings_and_passes() -> None:
    """An unambiguous prefix is enough; similar names are suggested."""
    ledger = ledger_of(finding(1), finding(2))
    assert find_finding("fnd_00000002", ledger).number == 2
    for name in ("fnd_0", "fnd_00000x02"):
        with pytest.raises(AwfError) as caught:
            find_finding(name, ledger)
        assert "fnd_00000002" in str(caught.value.help)
    with pytest.raises(AwfError):
        find_finding("", ledger)
    with pytest.raises(AwfError):
        find_pass("latest", Ledger())
    ledger.apply(assessed(SECOND))
    assert (find_pass("-", ledger).id, find_pass("REV-1", ledger).id, find_pass("2-b", ledger).id) == (
        SECOND,
        FIRST,
        SECOND,
    )
    with pytest.raises(AwfError):
        find_pass("REV", ledger)


def test_what_a_pass_did() -> None:
    """Each finding is in one list at most once, whatever was said about it."""
    changes = pass_changes(
        [
            FindingRaised(at=AT, finding=finding(1)),
            seen(2),
            seen(2),
            seen(3, state=FindingState.REOPENED),
            changed(4, What.RULING, word="fixed", state=FindingState.VERIFIED_FIXED),
            changed(5, What.RULING, word="not_fixed", pass_id=SECOND),
            changed(6, What.RULING, word="not_fixed", state=FindingState.REOPENED),
        ]
    )
    ids = [finding(number).id for number in range(7)]
    assert changes == {"new": [ids[1]], "known": [ids[2], ids[5]], "reopened": [ids[3], ids[6]], "fixed": [ids[4]]}


def test_an_incomplete_review_fails_every_gate() -> None:
    """A reviewer that did not answer is named, and nothing passes; neither does anything before the first look."""
    looks = (look("a"), look("b", ReportStatus.MALFORMED, problem="cut off"), look("c", ReportStatus.MISSING))
    found = review(ledger_of(coverage=Coverage(looks=looks)))
    shown = review_json(found)
    assert [gap.partition(":")[0] for gap in shown["gaps"]] == ["b", "c"]
    assert (shown["verdict"], shown["complete"], shown["ship"]) == ("FAIL", False, False)
    assert is_failing(found, Verdict.ABORT)
    assert is_failing(review(Ledger()), Verdict.ABORT)
    severe = review(ledger_of(finding(severity=Severity.HIGH)))
    assert (is_failing(severe), is_failing(severe, Verdict.WARN)) == (False, True)


def test_a_review_for_a_program() -> None:
    """It lists what is open about the target, whoever reported it, the claims among that, and dismissed blockers."""
    first = finding(1, severity=Severity.CRITICAL)
    second = finding(2, severity=Severity.LOW, reviewer="security", line=first.id, state=FindingState.FIX_CLAIMED)
    other = finding(3, locations=(Location(path="src/b.py"),))
    dismissed = finding(4, severity=Severity.HIGH)
    ledger = ledger_of(first, second, other, dismissed, finding(5, pre_existing=True), paths=("src/a.py",), target="m")
    ledger.apply(turned(4, FindingState.FALSE_POSITIVE, note="a test double"))
    ledger.apply(assessed(SECOND, paths=("src/a.py",), target="m"))
    shown = review_json(review(ledger))
    assert [(row["number"], [one["number"] for one in row["members"]]) for row in shown["open"]] == [
        (1, [1, 2]),
        (5, [5]),
    ]
    assert [row["number"] for row in shown["claimed"]] == [2]
    assert (shown["verdict"], shown["ship"], shown["elsewhere"]) == ("FAIL", False, 1)
    assert shown["summary"] == {"blocker": 1, "high": 0, "medium": 0, "low": 0, "info": 0}
    (row,) = shown["dismissed"]
    assert (row["number"], row["by"], row["note"]) == (4, "anna", "a test double")
    assert shown["review"] == {"id": REVIEW, "passes": [FIRST, SECOND], "target": "m", "mode": "full"}


def test_a_line_of_work_for_a_program() -> None:
    """A list has one row for it, with the worst open finding and all members; a record names the members as well."""
    first = finding(1, severity=Severity.LOW)
    second = finding(2, reviewer="security", severity=Severity.HIGH, line=first.id)
    ledger = ledger_of(first, second)
    (line,) = select(ledger.lines(), FindingFilter())
    row = line_row(line)
    assert (row["number"], row["title"], row["severity"]) == (1, "Defect 2", "high")
    assert row["reviewers"] == ["security", "correctness"]
    assert row["members"] == finding_record(ledger.findings[second.id], ledger)["members"]
    assert [member["reviewer"] for member in row["members"]] == ["correctness", "security"]


def test_the_repository_around_a_directory(tmp_path: Path) -> None:
    """A directory that was given is the root itself; without git, and before a commit, there is no head."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    below = tmp_path / "top/below"
    below.mkdir(parents=True)
    assert find_repository(None, below, environment) == Repository(below, environment)
    assert find_repository(None, below, {"PATH": str(tmp_path)}).head == ""
    git = ["git", "-C", str(tmp_path / "top"), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    assert find_repository(None, below, environment) == Repository(tmp_path / "top", environment, "", "main")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    here = find_repository(below, tmp_path, environment)
    assert (here.root, here.branch, len(here.head)) == (below, "main", 40)
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert find_repository(None, below, environment).branch == ""


def test_reading_writes_nothing(tmp_path: Path) -> None:
    """A missing store is not created."""
    assert read_snapshot(tmp_path / ".awf", tmp_path, AT).ledger.findings == {}
    assert list(tmp_path.iterdir()) == []


def test_a_pass_and_a_decision_without_a_command_line(tmp_path: Path) -> None:
    """Both take the time from the caller; a dismissed finding that is imported again stays dismissed."""
    (tmp_path / "a.js").write_text("x;\n")
    here = find_repository(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})
    returns = list(decode_files([ReportFile("r", "r", ESLINT)], tmp_path, format="auto", reviewer="", lens=None))
    done = import_reports(returns, tmp_path / ".awf", here, NOW)
    assert done.passed.id == f"REV-{int(NOW.timestamp())}-0000000"
    assert (done.passed.started_at, done.passed.caller) == (AT, "awf findings import")
    assert timestamp(NOW) == AT
    (id,) = done.changes["new"]
    wish = TriageRequest("wont-fix", Actor.USER, note="so", expires="2026-04-01")
    held = apply_triage(lambda _: ChosenFindings((id,)), wish, tmp_path / ".awf", here, NOW)
    assert held.changes == [(id, FindingState.OPEN, FindingState.WONT_FIX)]
    again = import_reports(returns, tmp_path / ".awf", here, NOW)
    assert again.passed.id == f"REV-{int(NOW.timestamp()) + 1}-0000000"  # 000-16
    assert again.dispositions["suppressed"] == 1
    (back,) = read_snapshot(tmp_path / ".awf", tmp_path, AT).ledger.findings.values()
    assert back.suppression is not None
    assert (back.suppression.expires, back.state) == ("2026-04-01", FindingState.WONT_FIX)


def test_a_verdict_file_that_cannot_be_read_is_reported_and_put_back(tmp_path: Path) -> None:
    """A decision is recorded, and the broken file is moved aside."""
    (tmp_path / "a.js").write_text("x;\n")
    here = find_repository(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})
    returns = list(decode_files([ReportFile("r", "r", ESLINT)], tmp_path, format="auto", reviewer="", lens=None))
    done = import_reports(returns, tmp_path / ".awf", here, NOW)
    latest = tmp_path / ".code-review/review-latest.json"
    latest.write_text("{ broken")
    chosen, fixed = ChosenFindings(tuple(done.changes["new"])), TriageRequest("fixed", Actor.USER)
    held = apply_triage(lambda _: chosen, fixed, tmp_path / ".awf", here, NOW)
    assert len(held.moves) == 1
    assert any("review-latest.json.unreadable-1" in problem for problem in held.problems)
    assert json.loads(latest.read_text())["findings"][0]["status"] == "verified"
    assert latest.with_name("review-latest.json.unreadable-1").read_text() == "{ broken"


def piped(shown: Sequence[Line]) -> list[str]:
    """The table in a pipe: eighty columns, no colors."""
    with redirect_stdout(StringIO()):
        return list(table(shown))


def test_a_row_without_a_place() -> None:
    """A finding without a location has a row too."""
    (nowhere,) = lines(finding(locations=()))
    row = line_row(nowhere)
    assert (row["file"], row["line"], row["end_line"]) == (None, None, None)
    assert piped([nowhere])[1].split()[-3:] == ["-", "Defect", "1"]


@settings(deadline=None)
@given(ledgers(), st.booleans())
def test_every_row_of_the_table_fits(findings: list[Finding], together: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever titles and paths contain, a row is one line of at most eighty columns without control characters."""
    one_line = findings[0].id if together and findings else FindingId("")
    shown = lines(*(replace(one, severity=Severity.CRITICAL, line=one_line) for one in findings))
    rows = piped(shown)
    assert len(rows) == len(shown) + 1
    for row in rows:
        assert display_width(row) <= 80
        assert "\n" not in row
        assert "\x1b" not in row
