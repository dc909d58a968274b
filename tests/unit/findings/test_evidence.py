"""Lines and quotations checked against real files: wrong lines are corrected, missing quotations are noted."""

import os
from math import inf
from pathlib import Path

import pytest
from tests.unit.findings.passes import AT, draft, reports_of, run_pass

from pipeline.findings.events import Disposition, FindingRaised, Pass
from pipeline.findings.evidence import MAX_FILE, RepositoryFiles, SearchableText, search_text, valid_lines
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Category, Draft, Evidence, Finding, FindingState, Location, PassId, Severity
from pipeline.findings.taking import Taken, take_in

CODE = "\n".join(
    ["import os", "", "def save(path):", "    handle = open(path,   'w')", "    handle.write(1)"] + ["pass"] * 60
)
FILES = {"src/a.py": CODE}


def raised(taken: Taken) -> list[Finding]:
    """The findings that a pass raised."""
    return [event.finding for event in taken.events if isinstance(event, FindingRaised)]


def checked(item: Draft) -> Finding:
    """The finding that a pass makes of one item."""
    (found,) = raised(run_pass(item, files=FILES))
    return found


@pytest.mark.parametrize(
    ("start", "end", "length", "span"),
    [
        (5, 9, 10, (5, 9)),
        (5, None, 10, (5, 5)),
        (5, 0, 10, (5, 5)),
        (9, 5, 10, (5, 9)),
        (0, 5, 10, None),
        (None, 5, 10, None),
        (None, None, 10, None),
        (-3, None, 10, None),
        (8, 12, 10, (8, 10)),
        (10, 10, 10, (10, 10)),
        (11, 12, 10, None),
        (11, 12, inf, (11, 12)),
    ],
)
def test_invalid_lines_are_dropped(
    start: int | None, end: int | None, length: float, span: tuple[int, int] | None
) -> None:
    """000-37: both or neither, not inverted, within the file; line 0 is none."""
    assert valid_lines(start, end, length)[0] == span


@pytest.mark.parametrize(
    ("quote", "cited", "span"),
    [
        ("def save(path):", (3, 3), (3, 3)),
        ("handle   = open(path, 'w')", (4, 4), (4, 4)),
        ("def save(path):\n\n    handle = open(path, 'w')", (4, 4), (3, 4)),
        ("open(path,", (3, 3), (4, 4)),
        ("+    handle = open(path,   'w')\n+    handle.write(1)", (4, 4), (4, 5)),
        ("import os", (31, 31), (1, 1)),
        ("import os", (32, 32), None),
        ("handle.write(1)", (1, 2), (5, 5)),
        ("nothing like it", (3, 3), None),
    ],
)
def test_a_quotation_is_looked_for_around_its_line(
    quote: str, cited: tuple[int, int], span: tuple[int, int] | None
) -> None:
    """Exact, then with other spacing, then up to thirty lines away; over several lines, and out of a diff."""
    assert SearchableText(CODE.split("\n")).find_near(search_text(quote), cited) == span


def test_the_nearest_of_equal_lines_is_taken() -> None:
    """Two lines before is closer than three lines after."""
    text = SearchableText(["same text", "", "", "", "", "same text"])
    assert [text.find_near("same text", cited) for cited in ((3, 3), (4, 4), (1, 6))] == [(1, 1), (6, 6), (1, 1)]


def test_a_very_long_line_or_range_costs_little() -> None:
    """Only the beginning of an endless line or range is searched."""
    assert SearchableText(["x" * 10_000 + "needle"]).find_anywhere("needle") is None
    assert SearchableText(["a b"] * 2000 + ["needle"]).find_near("needle", (1, 10**9)) is None


def test_a_wrong_line_is_corrected_and_noted() -> None:
    """The finding and its evidence are where the quoted text is."""
    done = run_pass(draft(line=9, quote="handle = open(path, 'w')"), files=FILES)
    (finding,) = raised(done)
    assert finding.location == Location(path="src/a.py", start=4, end=4)
    assert (finding.evidence[0].start, finding.confidence.value, finding.state) == (4, 75, FindingState.OPEN)
    assert "line 9 " in done.passed.entries[0].reason


def test_evidence_on_another_line_does_not_move_the_finding() -> None:
    """A quotation from another line supports a finding; it is not where the finding is."""
    found = checked(draft(line=4, evidence=(Evidence(path="src/a.py", start=2, quote="import os"),)))
    assert found.location == Location(path="src/a.py", start=4, end=4)
    assert found.evidence[0].start == 1


def test_a_few_letters_move_nothing() -> None:
    """A quotation that could be anywhere says nothing about where a finding is."""
    assert checked(draft(line=9, quote="os")).location == Location(path="src/a.py", start=9, end=9)


def test_a_finding_without_a_line_gets_that_of_its_quotation() -> None:
    """C-14: where only the evidence knows the line, it is the finding's; a text that is there twice names none."""
    assert checked(draft(line=None, quote="handle.write(1)")).location == Location(path="src/a.py", start=5, end=5)
    twice = checked(draft(line=None, quote="pass"))
    assert (twice.location, twice.state) == (Location(path="src/a.py"), FindingState.OPEN)
    cited = checked(draft(line=None, evidence=(Evidence(path="src/a.py", start=3),)))
    assert cited.location == Location(path="src/a.py", start=3, end=3)


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("confidence", [25, 75, 100])
def test_a_missing_quotation_is_only_noted(severity: Severity, confidence: int) -> None:
    """It lowers no confidence, filters nothing, and raises no doubt about a line that exists."""
    quoting = run_pass(draft(line=4, quote="os.unlink(path)", severity=severity, confidence=confidence), files=FILES)
    silent = run_pass(draft(line=4, severity=severity, confidence=confidence), files=FILES)
    assert quoting.passed.entries[0].reason != silent.passed.entries[0].reason
    assert quoting.passed.entries[0].disposition is silent.passed.entries[0].disposition
    assert [(one.confidence, one.gate, one.state) for one in raised(quoting)] == [
        (one.confidence, one.gate, one.state) for one in raised(silent)
    ]


def test_one_quotation_that_is_found_points_at_code() -> None:
    """000-52: where the line does not exist, a finding is uncertain unless one of its quotations is in the file."""
    true = Evidence(path="src/a.py", start=3, quote="def save(path):")
    false = Evidence(path="src/a.py", start=3, quote="def load(path):")
    words = Evidence(quote="it said: boom")
    gone = Evidence(path="src/gone.py", start=3, quote="def load(path):")
    for evidence, state in (
        ((false, true), FindingState.OPEN),
        ((words, true), FindingState.OPEN),
        ((gone, true), FindingState.OPEN),
        ((false,), FindingState.UNCERTAIN),
        ((words, gone), FindingState.UNCERTAIN),
    ):
        assert checked(draft(line=900, evidence=evidence)).state is state


def test_words_without_a_file_get_one_if_they_are_in_it() -> None:
    """A quotation that names no file, and is in the file of its finding, is evidence from there."""
    found = checked(draft(line=3, evidence=(Evidence(quote="def save(path):"),)))
    assert found.evidence == (Evidence(path="src/a.py", start=3, end=3, quote="def save(path):"),)


@pytest.mark.parametrize(
    ("line", "path", "state"),
    [
        (3, "src/a.py", FindingState.OPEN),
        (None, "src/a.py", FindingState.OPEN),
        (900, "src/a.py", FindingState.UNCERTAIN),
        (3, "src/gone.py", FindingState.UNCERTAIN),
        (3, "", FindingState.UNCERTAIN),
    ],
)
def test_a_finding_that_no_code_supports_is_uncertain(line: int | None, path: str, state: FindingState) -> None:
    """000-52, 000-35: no such file, no such line or no place at all: kept, and uncertain."""
    found = checked(draft(line=line, path=path))
    assert (found.state, found.confidence.value) == (state, 75)


def test_a_work_item_needs_no_file() -> None:
    """000-36: a requirement refers to its work item and quotes it; nothing is looked for in the code."""
    found = checked(draft(path="AC-3", line=None, category=Category.REQUIREMENT, quote="must log out"))
    assert found.state is FindingState.OPEN
    assert found.evidence == (Evidence(path="AC-3", quote="must log out"),)


def test_a_tool_needs_no_file() -> None:
    """A failing test is certain, wherever its file is."""
    for path in ("", "tests.test_gone"):
        assert checked(draft(path=path)).state is FindingState.UNCERTAIN
        assert checked(draft(path=path, scale="junit")).state is FindingState.OPEN


def test_every_location_has_evidence() -> None:
    """000-35, C-12: where no evidence names the file, one piece refers to the location; the others stay beside it."""
    found = checked(draft(line=3, evidence=(Evidence(raw="as seen"),)))
    assert found.evidence == (Evidence(path="src/a.py", start=3, end=3), Evidence(raw="as seen"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / ".git/config").write_text("password\n")
    (tmp_path / "secret").write_text("password\n")
    (tmp_path / "repository-2").mkdir()
    (tmp_path / "repository-2" / "x").write_text("beside\n")
    (root / "a.py").write_text("one\r\ntwo\x0cstill two\nthree")
    (root / "good").symlink_to(root / "a.py")
    (root / "bad").symlink_to(tmp_path / "secret")
    (root / "beside").symlink_to(tmp_path / "repository-2")
    (root / "git").symlink_to(root / ".git")
    (root / "loop").symlink_to(root / "loop")
    return root


def test_only_files_of_the_repository_are_read(root: Path) -> None:
    """000-37: a link inside is followed; one that leads out, or to git's own files, is never opened."""
    files = RepositoryFiles(root)
    assert files.lines("a.py") == ("one", "two\x0cstill two", "three")
    assert files.lines("good") == files.lines("a.py")
    refused = ("bad", "beside/x", "../secret", "a.py\0", "loop", ".", "none", "x" * 300, ".git/config", "git/config")
    for path in refused:
        assert files.lines(path) is None, path
    assert all(files.is_outside(path) for path in ("bad", "beside/x", "../secret", "a.py\0"))
    assert not any(files.is_outside(path) for path in ("good", "none", ".", "a.py"))


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a\0b", "bad"])
def test_a_finding_outside_is_rejected_and_others_stay(root: Path, path: str) -> None:
    """000-37: each by itself, with the reason."""
    reports = reports_of([draft("a", 1, path=path, quote="password"), draft("a", 1, n=2, path="a.py", quote="one")])
    passed = Pass(id=PassId("REV-1"), started_at=AT, review="0badcafe")
    done = take_in(reports, Ledger(), passed, root, {}, AT)
    assert [one.disposition for one in done.passed.entries] == [Disposition.REJECTED, Disposition.SURVIVING]
    assert "path" in done.passed.entries[0].reason


def test_a_pipe_or_a_huge_file_is_not_read(root: Path) -> None:
    """A named pipe would wait for ever, and an endless file would fill the memory."""
    os.mkfifo(root / "pipe")
    for name, size in (("huge", MAX_FILE + 1), ("large", MAX_FILE)):
        with (root / name).open("wb") as file:
            file.truncate(size)
    files = RepositoryFiles(root)
    assert [files.lines(name) is None for name in ("pipe", "huge", "large")] == [True, True, False]


def test_a_file_of_any_bytes_has_lines(root: Path) -> None:
    """What is not text is decoded as far as possible, and an empty file has no lines."""
    (root / "bytes").write_bytes(b"\xff\xfe\n\n")
    (root / "empty").write_bytes(b"")
    files = RepositoryFiles(root)
    assert files.lines("bytes") == ("��", "")
    assert files.lines("empty") == ()
