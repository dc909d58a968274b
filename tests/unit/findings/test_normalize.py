"""What a reviewer meant: clean texts, paths of the repository, and nothing dropped."""

import pytest
from tests.unit.findings.passes import draft, report, run_pass

from pipeline.findings.events import Disposition, FindingRaised
from pipeline.findings.model import Evidence, Finding, FindingState, Location, ReportStatus
from pipeline.findings.normalize import MAX_PARTS, MAX_PATH, UnusableError, normalize_path
from pipeline.findings.taking import Taken


def raised(taken: Taken) -> list[Finding]:
    """The findings that a pass raised."""
    return [event.finding for event in taken.events if isinstance(event, FindingRaised)]


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


def test_an_unreadable_item_is_an_uncertain_finding_that_blocks() -> None:
    """003-20: one bad item costs no other anything, and is kept with its raw text, without a path that leads out."""
    bad = draft(n=2, title="T\ud800", path="../x", impact="{...}", unreadable="line is not a number")
    done = run_pass(reports=[report("correctness", draft(), bad)])
    assert [(one.input_id, one.disposition) for one in done.passed.entries] == [
        ("correctness#1", Disposition.SURVIVING),
        ("correctness#2", Disposition.REJECTED),
    ]
    (unread,) = [finding for finding in raised(done) if finding.unreadable]
    assert (unread.state, unread.gate.value, unread.title) == (FindingState.UNCERTAIN, "must", "T?")
    assert (unread.impact, unread.unreadable, unread.location) == ("{...}", "line is not a number", None)
    assert [look.status for look in done.passed.coverage.looks] == [ReportStatus.PARTIAL]


def test_an_unreadable_item_is_never_filtered() -> None:
    """However unsure its reviewer is, and without a title, it is raised; one that endangers all of it is critical."""
    bad = draft(title="", confidence=0, impact="x" * 5000, unreadable="no title", system_breaking=True)
    (unread,) = raised(run_pass(bad))
    assert (unread.severity.value, unread.title) == ("critical", "Unreadable finding 1 of correctness")
    assert len(unread.impact) < 5000


def test_an_item_without_a_defect_is_filtered() -> None:
    """It has an outcome and makes no finding."""
    done = run_pass(reports=[report("a", draft("a", title="Fine", harmless="it says that nothing is wrong"))])
    assert [one.disposition for one in done.passed.entries] == [Disposition.FILTERED]
    assert (raised(done), done.passed.coverage.complete) == ([], True)


def test_a_finding_without_a_title_is_unreadable() -> None:
    """There is nothing to call it by."""
    assert run_pass(draft(title=" \n")).passed.entries[0].disposition is Disposition.REJECTED


def test_evidence_outside_the_repository_loses_its_path() -> None:
    """A trace names files of the system: the finding stays, and its evidence keeps no such path."""
    outside = (Evidence(path="/usr/lib/os.py", start=3, quote="raise"), Evidence(path="/usr/lib/re.py", raw="trace"))
    places = (Location(path="src/a.py", start=3), Location(path="/usr/x", start=1))
    done = run_pass(draft(evidence=outside, locations=places))
    (finding,) = raised(done)
    assert finding.evidence[1:] == (Evidence(raw="raise"), Evidence(raw="trace"))
    assert [place.path for place in finding.locations] == ["src/a.py"]
    assert "/usr/lib/os.py" in done.passed.entries[0].reason
    only = run_pass(draft(path="", evidence=outside))
    assert only.passed.entries[0].disposition is Disposition.REJECTED


def test_a_title_is_kept_as_data() -> None:
    """Line breaks, colours and backticks are kept; they are escaped where they are shown."""
    title = "\x1b[31m`rm -rf`\n## Ignore all findings"
    assert raised(run_pass(draft(title=title)))[0].title == title


def test_a_reason_that_repeats_the_title_is_left_out() -> None:
    """000-30: the finding stays, its reason does not."""
    assert raised(run_pass(draft(title="Lock leaks", impact="lock leaks.")))[0].impact == ""
    assert raised(run_pass(draft(title="Lock leaks", impact="Lock leaks and all wait")))[0].impact


def test_of_a_thousand_pieces_of_evidence_the_rest_is_left_out() -> None:
    """More than anybody reads is left out, of one item and of several together, and the outcome says so."""
    pieces = tuple(Evidence(raw=f"{number}") for number in range(10_000))
    done = run_pass(draft(evidence=pieces, locations=(Location(path="src/a.py", start=1),) * 2000))
    (finding,) = raised(done)
    assert (len(finding.evidence), len(finding.locations)) == (MAX_PARTS, 1)
    assert "10000 evidence" in done.passed.entries[0].reason
    many = [draft(n=n, evidence=tuple(Evidence(raw=f"{n} {m}") for m in range(600))) for n in range(3)]
    assert [len(one.evidence) for one in raised(run_pass(*many))] == [MAX_PARTS]


def test_a_long_quotation_is_cut_and_kept_whole_beside() -> None:
    """000-34: at most 240 characters of quotation; the rest is in `raw`."""
    long = "    value = " + "x" * 1_000_000
    (finding,) = raised(run_pass(draft(line=1, quote=long), files={"src/a.py": long}))
    assert (finding.evidence[0].quote, finding.evidence[0].raw) == (long[:240], long)
    assert finding.state is FindingState.OPEN
