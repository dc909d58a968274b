"""What the commands about findings do, without a terminal."""

import json
import os
import subprocess
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.findings.strategies import ledgers

from pipeline.app.findings.explanation import explain, last_seen
from pipeline.app.findings.intake import (
    ReportFile,
    decode_files,
    import_reports,
    number_items,
    pass_changes,
    read_files,
)
from pipeline.app.findings.ledger import Repository, find_finding, find_pass, find_repository, read_snapshot, timestamp
from pipeline.app.findings.queries import (
    ALL_STATES,
    FindingFilter,
    compare_passes,
    finding_row,
    parse_since,
    parse_states,
    select,
    summarize_verdict,
)
from pipeline.app.findings.triage import ChosenFindings, TriageRequest, apply_triage
from pipeline.cli.findings.lists import table
from pipeline.errors import AwfError
from pipeline.findings.events import (
    Coverage,
    Disposition,
    FindingRaised,
    FixAttempted,
    ItemOutcome,
    LinkAdded,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    StateChanged,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    GateDecision,
    Lens,
    Link,
    Location,
    Observed,
    Owner,
    PassId,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
    Strength,
    UnreadableItem,
    Vote,
)
from pipeline.findings.verdicts import Verdict
from pipeline.text import display_width

NOW = datetime(2026, 3, 1, 10, 0, 0, 5, tzinfo=UTC)
AT, LATER = "2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z"
FIRST, SECOND = PassId("REV-1-a"), PassId("REV-2-b")
ESLINT = b'[{"filePath": "a.js", "messages": [{"ruleId": "no-x", "severity": 2, "message": "No x.", "line": 1}]}]'
JUNIT = b'<testsuite><testcase name="t" classname="c"><failure message="no"/></testcase></testsuite>'


def finding(number: int = 1, **more: Any) -> Finding:
    id = f"fnd_{number:08x}"
    values: dict[str, Any] = {
        "id": FindingId(id),
        "number": number,
        "signature": f"sha256:{id}",
        "title": f"Defect {number}",
        "category": Category.BUG,
        "severity": Severity.MEDIUM,
        "confidence": Confidence(value=75),
        "locations": (Location(path="src/a.py", start=number),),
        "pass_id": FIRST,
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**values | more)


def vote(**more: Any) -> Vote:
    values: dict[str, Any] = {
        "reviewer": "lint",
        "severity": Severity.MEDIUM,
        "confidence": 50,
        "autofix_class": AutofixClass.MANUAL,
        "owner": Owner.HUMAN,
    }
    return Vote(**values | more)


def assessed(id: PassId = FIRST, at: str = AT, **more: Any) -> PassRecorded:
    return PassRecorded(at=at, assessment=Pass(id=id, started_at=at, **more))


def ledger_of(*findings: Finding, **more: Any) -> Ledger:
    return Ledger([assessed(**more), *(FindingRaised(at=AT, finding=one) for one in findings)])


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
def test_who_says_so(data: bytes, stem: str, name: str) -> None:
    """The name that a file gives, else the tool whose format it is, else that of the file."""
    assert named([ReportFile("f", stem, data)]) == [name]
    assert named([ReportFile("f", stem, data)], reviewer="me") == ["me"]


def test_an_unknown_format_is_an_answer_that_is_none() -> None:
    """It is counted as malformed, and says how to help."""
    (answer,) = decode_files([ReportFile("n.txt", "n", b"fine")], Path("/repo"), format="auto", reviewer="", lens=None)
    assert answer.status is ReportStatus.MALFORMED
    assert "the format of n.txt is not known; name it with --format sarif|" in answer.problem


def test_a_format_by_name_is_not_guessed() -> None:
    """A file that is not in that format is malformed."""
    (answer,) = decode_files([ReportFile("n", "n", ESLINT)], Path("/repo"), format="sarif", reviewer="", lens=None)
    assert (answer.status, answer.format) == (ReportStatus.MALFORMED, "sarif")


def test_the_lens_of_every_claim() -> None:
    """One assessment has one lens; without one the files decide."""
    (answer,) = decode_files([ReportFile("n", "n", ESLINT)], Path("/repo"), format="auto", reviewer="", lens=Lens.QA)
    assert {claim.lens for claim in answer.findings} == {Lens.QA}


def claim(input_id: str) -> RawFinding:
    return RawFinding(input_id, "lint", "t", Severity.LOW, Confidence(value=50), Category.BUG)


def test_two_files_of_one_reviewer_have_items_of_their_own() -> None:
    """C-11: no two items of a pass have one name."""
    one = ReviewerReport("lint", ReportStatus.RETURNED, (claim("lint#1"),), (UnreadableItem("lint#2", "odd"),))
    done = number_items([one, ReviewerReport("other", ReportStatus.RETURNED, (claim("other#1"),)), one])
    assert [one.input_id for answer in done for one in answer.findings] == ["lint#1", "other#1", "lint#3"]
    assert [one.input_id for answer in done for one in answer.unreadable] == ["lint#2", "lint#4"]


def test_files_are_read_up_to_a_size(tmp_path: Path) -> None:
    """One that is larger is no answer; one that nobody may read neither."""
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "fits").write_bytes(b"x" * 10)
    big, fits, piped = read_files([str(tmp_path / "big"), str(tmp_path / "fits"), "-"], BytesIO(b"y" * 11), largest=10)
    assert big.data == piped.data == b""
    assert big.problem == f"{tmp_path / 'big'} has more than 10 bytes; split it"
    assert piped.problem.startswith("standard input has more than")
    assert (fits.data, fits.problem, fits.stem) == (b"x" * 10, "", "fits")
    (answer,) = decode_files([big], tmp_path, format="auto", reviewer="", lens=None)
    assert (answer.reviewer, answer.status) == ("big", ReportStatus.MALFORMED)


def test_a_missing_file_stops_everything(tmp_path: Path) -> None:
    """So does a directory, and standard input named twice."""
    (tmp_path / "there").write_text("x")
    for names, words in (
        ([str(tmp_path / "there"), str(tmp_path / "not")], "there is no file"),
        ([str(tmp_path)], "is a directory"),
        (["-", "-"], "only once"),
    ):
        with pytest.raises(AwfError, match=words):
            read_files(names, BytesIO(b""))


def test_the_order_of_a_list() -> None:
    """Gate, severity, confidence, file, line."""
    must = GateDecision(value=Gate.MUST)
    expected = [
        finding(9, gate=must, severity=Severity.LOW),
        finding(8, severity=Severity.CRITICAL, confidence=Confidence(value=100)),
        finding(7, severity=Severity.CRITICAL, confidence=Confidence(value=50)),
        finding(6, locations=(Location(path="a.py", start=9),)),
        finding(5, locations=(Location(path="b.py", start=2),)),
        finding(4, locations=(Location(path="b.py", start=10),)),
    ]
    assert select(reversed(expected), FindingFilter()) == expected


def test_what_a_filter_takes() -> None:
    """Each condition narrows; several values of one widen."""
    open_, held, staged = finding(1), finding(2, state=FindingState.WONT_FIX), finding(3, votes=(vote(stage="review"),))
    found = [open_, held, staged]
    assert select(found, FindingFilter()) == [open_, staged]
    assert select(found, FindingFilter(states=ALL_STATES)) == found
    assert select(found, FindingFilter(stages=frozenset({"review"}))) == [staged]
    assert select(found, FindingFilter(files=("./src/",))) == [open_, staged]
    assert select(found, FindingFilter(files=("src/?.py",))) == [open_, staged]
    assert select(found, FindingFilter(files=("a.py",))) == []
    assert select([finding(locations=())], FindingFilter(files=("a",))) == []
    since = datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert select(found, FindingFilter(since=since)) == [open_, staged]
    assert (
        select([finding(updated_at="2026-02-28T23:59:59+00:00"), finding(updated_at="?")], FindingFilter(since=since))
        == []
    )


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
    """A date without a zone is meant in UTC."""
    ledger = ledger_of()
    assert parse_since("2026-03-01", ledger) == datetime(2026, 3, 1, tzinfo=UTC)
    assert (
        parse_since("2026-03-01T10:00:00+00:00", ledger) == parse_since(FIRST, ledger) == parse_since("latest", ledger)
    )


def test_names_of_findings_and_passes() -> None:
    """The beginning is enough while it is the only one; what is near is suggested."""
    ledger = ledger_of(finding(1), finding(2))
    assert find_finding("fnd_00000002", ledger).number == 2
    for name, help in (("fnd_0", "2 ids begin so: fnd_00000001, fnd_00000002"), ("fnd_00000x02", "did you mean fnd_")):
        with pytest.raises(AwfError) as caught:
            find_finding(name, ledger)
        assert help in str(caught.value.help)
    with pytest.raises(AwfError, match='no finding ""'):
        find_finding("", ledger)
    with pytest.raises(AwfError, match="no passes yet"):
        find_pass("latest", Ledger())
    ledger.apply(assessed(SECOND))
    assert (find_pass("-", ledger).id, find_pass("REV-1", ledger).id, find_pass("2-b", ledger).id) == (
        SECOND,
        FIRST,
        SECOND,
    )
    with pytest.raises(AwfError, match="2 passes begin with"):
        find_pass("REV", ledger)


def turned(number: int, state: FindingState, pass_id: str = "", at: str = AT) -> StateChanged:
    return StateChanged(at=at, id=finding(number).id, state=state, by="user", pass_id=pass_id)


def seen(number: int, at: str = LATER, observed: Observed = Observed.UNCHANGED) -> ReportedAgain:
    return ReportedAgain(at=at, id=finding(number).id, pass_id=SECOND, observed=observed, strength=Strength.EXACT)


def became(*events: Any) -> dict[str, Any]:
    """What a comparison of both passes tells, with these events after the first one raised finding 1."""
    ledger = ledger_of(finding(1))
    for event in events:
        ledger.apply(event)
    found = compare_passes(ledger, ledger.passes[FIRST], ledger.passes[SECOND]).as_json()
    assert (found.pop("from"), found.pop("to")) == (FIRST, SECOND)
    return {name: ids for name, ids in found.items() if ids}


ID = finding(1).id
PASSED = assessed(SECOND, LATER)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([PASSED, seen(1)], {"carried": [ID]}),
        ([PASSED], {"carried": [ID]}),  # not looked at
        ([PASSED, NotReported(at=LATER, id=ID, pass_id=SECOND)], {"carried": [ID]}),  # absence is no proof
        ([turned(1, FindingState.VERIFIED_FIXED), PASSED], {"resolved": [ID]}),
        ([turned(1, FindingState.WONT_FIX), PASSED, seen(1)], {"resolved": [ID]}),
        ([PASSED, turned(1, FindingState.FIX_CLAIMED, SECOND, LATER)], {"resolved": [ID], "claimed": [ID]}),
        (
            [turned(1, FindingState.VERIFIED_FIXED), PASSED, turned(1, FindingState.REOPENED, SECOND, LATER)],
            {"regressed": [ID]},
        ),
        (
            [turned(1, FindingState.FIX_CLAIMED), PASSED, turned(1, FindingState.REOPENED, SECOND, LATER)],
            {"carried": [ID]},
        ),
        ([PASSED, seen(1), turned(1, FindingState.VERIFIED_FIXED, at=LATER)], {"carried": [ID]}),  # decided after both
        ([PASSED, turned(1, FindingState.VERIFIED_FIXED, at="2026-03-03T10:00:00Z")], {"carried": [ID]}),
        ([turned(1, FindingState.VERIFIED_FIXED, FIRST), PASSED], {}),  # settled before either
    ],
)
def test_what_became_of_a_finding_between_passes(events: list[Any], expected: dict[str, Any]) -> None:
    """By what it was right after each pass, to the second: a decision between them counts for the later one."""
    assert became(*events) == expected


def test_a_finding_of_the_second_pass_is_new() -> None:
    """And one that was dismissed in the same pass is nothing to tell."""
    second = finding(2, pass_id=SECOND)
    assert became(PASSED, FindingRaised(at=LATER, finding=second)) == {"carried": [ID], "new": [second.id]}


def test_what_a_pass_did() -> None:
    """Each finding once in each list; how it was observed and that it came back are told apart."""
    changes = pass_changes(
        [
            FindingRaised(at=AT, finding=finding(1)),
            seen(2),
            seen(2),
            seen(3, observed=Observed.MOVED),
            seen(4, observed=Observed.UPDATED),
            turned(3, FindingState.REOPENED, SECOND),
            turned(4, FindingState.FIX_CLAIMED, SECOND),
            NotReported(at=AT, id=finding(5).id, pass_id=SECOND),
        ]
    )
    ids = [finding(number).id for number in range(6)]
    assert changes.new == (ids[1],)
    assert changes.unchanged == (ids[2],)
    assert changes.moved == changes.reopened == (ids[3],)
    assert changes.updated == (ids[4],)
    assert changes.absent == (ids[5],)


@pytest.mark.parametrize(
    ("findings", "told", "failing"),
    [
        ([], "PASS", False),
        ([finding(severity=Severity.HIGH)], "WARN (1 high)", False),
        ([finding(severity=Severity.CRITICAL)], "FAIL (1 blocker)", True),
        (
            [
                finding(1, severity=Severity.CRITICAL, state=FindingState.FIX_CLAIMED),
                finding(2),
                finding(3, state=FindingState.FIX_CLAIMED, pre_existing=True),
            ],
            "PASS as claimed (1 medium); FAIL until 1 claimed fix is verified",
            True,
        ),
        (
            [finding(number, severity=Severity.HIGH, state=FindingState.FIX_CLAIMED) for number in (1, 2)],
            "PASS as claimed; WARN until 2 claimed fixes are verified",
            False,
        ),
        ([finding(state=FindingState.FIX_CLAIMED)], "PASS", False),
        ([finding(severity=Severity.CRITICAL, pre_existing=True)], "PASS", False),
    ],
)
def test_how_findings_stand(findings: list[Finding], told: str, *, failing: bool) -> None:
    """C-06: what is claimed and what holds after verification are told apart where they differ."""
    standing = summarize_verdict(ledger_of(*findings))
    assert (standing.told(), standing.failing()) == (told, failing)


def test_a_gap_is_never_clean() -> None:
    """A reviewer that did not answer keeps everything from passing, and is named."""
    coverage = Coverage(
        reviewers={"a": ReportStatus.RETURNED, "b": ReportStatus.MALFORMED, "c": ReportStatus.MISSING},
        problems={"b": "cut off"},
    )
    standing = summarize_verdict(ledger_of(coverage=coverage))
    assert standing.gaps == ["b is malformed: cut off", "c is missing: it gave no answer"]
    assert standing.failing(Verdict.ABORT)
    assert standing.told() == "FAIL; the review is incomplete"
    assert (standing.as_json()["verdict"], standing.as_json()["after_verification"]) == ("FAIL", "FAIL")
    assert not summarize_verdict(Ledger()).complete


def test_the_story_of_a_finding() -> None:
    """Promotion, merges, attempts, links in both directions; a long history is shortened in its middle."""
    entries = (ItemOutcome(input_id="sec#1", disposition=Disposition.MERGED, reason="same line", into="lint#1"),)
    votes = (vote(input_id="lint#1", pass_id=FIRST, title="One"), vote(input_id="sec#1", pass_id=FIRST, title="Two"))
    ledger = ledger_of(finding(1, votes=votes, agreement=2), finding(2), entries=entries)
    ledger.apply(FixAttempted(at=AT, id=ID, attempt=FixAttempt(round=2, by="fix", what="a guard", outcome="not_fixed")))
    ledger.apply(LinkAdded(at=AT, id=finding(2).id, link=Link(kind="caused_by", to=ID)))
    ledger.apply(LinkAdded(at=AT, id=ID, link=Link(kind="related", to=finding(2).id, note="close by")))
    ledger.apply(assessed(SECOND, LATER))
    for _ in range(20):
        ledger.apply(seen(1))
    parts = {part.title: part.lines for part in explain(ledger.findings[ID], ledger)}
    assert parts["Said by"] == ("lint#1, REV-1-a: medium at 50: One", "sec#1, REV-1-a: medium at 50: Two")
    assert parts["Merged"] == ("sec#1 into lint#1: same line",)
    assert parts["Gate"][1] == "confidence 75, from 50: 2 independent reviewers agree"
    assert parts["Attempts"] == ("round 2, fix: not_fixed, a guard",)
    assert parts["Links"] == ("related fnd_00000002, Defect 2 (close by)", "fnd_00000002 is caused_by this: Defect 2")
    assert len(parts["History"]) == 13
    assert parts["History"][6] == "... 11 more ..."
    assert sum(len(lines) + 1 for lines in parts.values()) <= 40


def test_when_a_finding_was_seen() -> None:
    """The pass that did not report it is not the one that saw it last."""
    assert last_seen(finding()) == "new in REV-1-a"
    assert last_seen(finding(observed=Observed.MOVED, strength=Strength.MAPPED)) == "moved in REV-1-a, mapped match"
    assert (
        last_seen(finding(observed=Observed.ABSENT, absent_passes=2)) == "last seen in REV-1-a, absent since: 2 passes"
    )


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


def test_looking_writes_nothing(tmp_path: Path) -> None:
    """A store that is not there is not made."""
    assert list(read_snapshot(tmp_path / ".awf", tmp_path, AT).ledger) == []
    assert list(tmp_path.iterdir()) == []


def test_a_pass_and_a_decision_without_a_command_line(tmp_path: Path) -> None:
    """C-11: import and triage are use cases of their own, with the time passed in."""
    (tmp_path / "a.js").write_text("x;\n")
    here = find_repository(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})
    returns = decode_files([ReportFile("r", "r", ESLINT)], tmp_path, format="auto", reviewer="", lens=None)
    done = import_reports(returns, tmp_path / ".awf", here, NOW)
    assert done.passed.id == f"REV-{int(NOW.timestamp())}-0000000"
    assert (done.passed.started_at, done.passed.caller) == (AT, "awf findings import")
    assert timestamp(NOW) == AT
    (id,) = done.changes.new
    wish = TriageRequest("wont-fix", "user", note="so", expires="2026-04-01")
    held = apply_triage(lambda _: ChosenFindings((id,)), wish, tmp_path / ".awf", tmp_path, NOW)
    assert held.told == [(id, FindingState.OPEN, FindingState.WONT_FIX)]
    again = import_reports(returns, tmp_path / ".awf", here, NOW)
    assert again.passed.id == f"REV-{int(NOW.timestamp()) + 1}-0000000"  # 000-16
    assert again.dispositions["suppressed"] == 1
    (back,) = read_snapshot(tmp_path / ".awf", tmp_path, AT).ledger
    assert back.suppression is not None
    assert (back.suppression.expires, back.state) == ("2026-04-01", FindingState.WONT_FIX)


def test_a_verdict_file_that_cannot_be_read_is_reported_and_put_back(tmp_path: Path) -> None:
    """001-23: a decision is recorded, and the broken file is moved aside."""
    (tmp_path / "a.js").write_text("x;\n")
    here = find_repository(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})
    returns = decode_files([ReportFile("r", "r", ESLINT)], tmp_path, format="auto", reviewer="", lens=None)
    done = import_reports(returns, tmp_path / ".awf", here, NOW)
    latest = tmp_path / ".code-review/review-latest.json"
    latest.write_text("{ broken")
    held = apply_triage(
        lambda _: ChosenFindings(done.changes.new), TriageRequest("fixed", "user"), tmp_path / ".awf", tmp_path, NOW
    )
    assert len(held.moves) == 1
    assert any("cannot be read" in problem for problem in held.problems)
    assert json.loads(latest.read_text())["findings"][0]["status"] == "verified"
    assert latest.with_name("review-latest.json.unreadable-1").read_text() == "{ broken"


def piped(findings: list[Finding]) -> list[str]:
    """The table as a pipe gets it: in eighty columns, without colours."""
    with redirect_stdout(StringIO()):
        return list(table(findings))


def test_a_row_without_a_place() -> None:
    """A finding that is nowhere has no file, and still has its line in the table."""
    nowhere = finding(locations=())
    assert (finding_row(nowhere)["file"], finding_row(nowhere)["line"], finding_row(nowhere)["end_line"]) == (
        None,
        None,
        None,
    )
    assert piped([nowhere])[1].split()[-3:] == ["-", "Defect", "1"]


@settings(deadline=None)
@given(ledgers())
def test_every_line_of_the_table_fits(findings: list[Finding]) -> None:
    """Whatever titles and paths hold, a line is one line of at most eighty columns that cannot act."""
    shown = [replace(one, severity=Severity.CRITICAL) for one in findings]
    lines = piped(shown)
    assert len(lines) == len(findings) + 1
    for line in lines:
        assert display_width(line) <= 80
        assert "\n" not in line
        assert "\x1b" not in line
