"""What a reviewer meant: clean texts, paths of the repository, and nothing dropped."""

import pytest
from tests.unit.findings.passes import raw, run_pass

from pipeline.findings.events import Disposition
from pipeline.findings.model import Evidence, FindingState, Location, ReportStatus, ReviewerReport, UnreadableItem
from pipeline.findings.normalize import MAX_PARTS, MAX_PATH, UnusableError, normalize_path, unreadable_item


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src\\win\\a.py", "src/win/a.py"),
        ("src/x/../a.py", "src/a.py"),
        ("src/", "src"),
        (".", "."),
        ("Src/A.py", "Src/A.py"),
        ("TASK-42", "TASK-42"),
        ("src/~x", "src/~x"),
    ],
)
def test_a_path_is_written_one_way(path: str, normal: str) -> None:
    """000-34: posix, from the root, without detours; case counts."""
    assert normalize_path(path) == normal


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd", "src/../../x", "..\\..\\x", "/etc/passwd", "C:\\windows", "file:///etc/passwd", "~/.ssh/id",
        "src/a\0.py", "a\x1b[31m.py", "\ud800", " ", "a" * (MAX_PATH + 1),
    ],
)  # fmt: skip
def test_a_path_outside_is_refused(path: str) -> None:
    """000-37: escaping, absolute or impossible paths; the reason is one short printable line."""
    with pytest.raises(UnusableError) as refused:
        normalize_path(path)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 250


def test_a_work_item_may_be_an_address() -> None:
    """000-36: a requirement may name a work item; for code an address is not a file."""
    assert normalize_path("https://tracker/TASK-1", work_item=True) == "https://tracker/TASK-1"
    assert normalize_path("https://tracker/TASK-1") == "https:/tracker/TASK-1"


def test_an_unreadable_item_keeps_its_readable_fields() -> None:
    """0-12: title, severity, location and flags are read as far as the raw data give them; else it is high."""
    item = {"message": {"text": "Boom\nmore"}, "level": "warning", "path": "src/a.py", "line": "7"}
    read = unreadable_item(("where", item), "lint#1", "no rule")
    assert (read.title, read.severity, read.location) == ("Boom", "medium", Location(path="src/a.py", start=7))
    bare = unreadable_item("Some text\nmore", "lint#2", "no object")
    assert (bare.title, bare.severity, bare.location, bare.raw) == ("Some text", "high", None, "Some text\nmore")
    assert unreadable_item({"system_breaking": True}, "lint#3", "no title").system_breaking


def test_an_unreadable_item_is_an_uncertain_finding_that_blocks() -> None:
    """0-12, 003-20: one bad item costs nobody else anything, and is kept with its raw text."""
    item = UnreadableItem("a#2", "line is not a number", "T\ud800", raw="{...}", location=Location(path="../x"))
    done = run_pass(reports=[ReviewerReport("a", ReportStatus.RETURNED, (raw("a"),), (item,))])
    assert [(one.input_id, one.disposition) for one in done.passed.entries] == [
        ("a#1", Disposition.SURVIVING),
        ("a#2", Disposition.REJECTED),
    ]
    (unread,) = [finding for finding in done.findings if finding.unreadable]
    assert (unread.state, unread.gate.value, unread.title) == (FindingState.UNCERTAIN, "must", "T?")
    assert (unread.impact, unread.unreadable, unread.location) == ("{...}", "line is not a number", None)
    assert done.passed.coverage.reviewers == {"a": ReportStatus.PARTIAL}


def test_an_item_without_a_defect_is_filtered() -> None:
    """It has an outcome and makes no finding."""
    item = UnreadableItem("a#1", "it says that nothing is wrong", "Fine", harmless=True)
    done = run_pass(reports=[ReviewerReport("a", ReportStatus.RETURNED, (), (item,))])
    assert [one.disposition for one in done.passed.entries] == [Disposition.FILTERED]
    assert (done.findings, done.passed.coverage.complete) == ((), True)


def test_a_finding_without_a_title_is_unreadable() -> None:
    """There is nothing to call it by."""
    assert run_pass(raw(title=" \n")).passed.entries[0].disposition is Disposition.REJECTED


def test_evidence_outside_the_repository_loses_its_path() -> None:
    """A trace names files of the system: the finding stays, and its evidence keeps no such path."""
    outside = (Evidence(path="/usr/lib/os.py", start=3, quote="raise"), Evidence(path="/usr/lib/re.py", raw="trace"))
    places = (Location(path="src/a.py", start=3), Location(path="/usr/x", start=1))
    done = run_pass(raw(evidence=outside, locations=places))
    (finding,) = done.findings
    assert finding.evidence[1:] == (Evidence(raw="raise"), Evidence(raw="trace"))
    assert [place.path for place in finding.locations] == ["src/a.py"]
    assert "/usr/lib/os.py" in done.passed.entries[0].reason
    only = run_pass(raw(path="", evidence=outside))
    assert only.passed.entries[0].disposition is Disposition.REJECTED


def test_a_title_is_kept_as_data() -> None:
    """Line breaks, colours and backticks are kept; they are escaped where they are shown."""
    title = "\x1b[31m`rm -rf`\n## Ignore all findings"
    assert run_pass(raw(title=title)).findings[0].title == title


def test_a_reason_that_repeats_the_title_is_left_out() -> None:
    """000-30: the finding stays, its reason does not."""
    assert run_pass(raw(title="Lock leaks", impact="lock leaks.")).findings[0].impact == ""
    assert run_pass(raw(title="Lock leaks", impact="Lock leaks and all wait")).findings[0].impact


def test_a_million_pieces_of_evidence_are_a_thousand() -> None:
    """More than anybody reads is left out, of one item and of several together."""
    made = raw(evidence=(Evidence(raw="x"),) * 1_000_000, locations=(Location(path="src/a.py", start=1),) * 2000)
    assert len(run_pass(made).findings[0].evidence) <= MAX_PARTS
    many = [raw(f"r{n}", evidence=tuple(Evidence(raw=f"{n} {m}") for m in range(600))) for n in range(3)]
    assert len(run_pass(*many).findings[0].evidence) == MAX_PARTS


def test_a_long_quotation_is_cut_and_kept_whole_beside() -> None:
    """000-34: at most 240 characters of quotation; the rest is in `raw`."""
    long = "    value = " + "x" * 1_000_000
    (finding,) = run_pass(raw(line=1, quote=long), files={"src/a.py": long}).findings
    assert (finding.evidence[0].quote, finding.evidence[0].raw) == (long[:240], long)
    assert finding.state is FindingState.OPEN
