"""Holding claims against the real file: lines are corrected, and what the file does not say counts for less."""

import pytest

from pipeline.findings.events import Disposition
from pipeline.findings.evidence import Text, needle_of, read_lines
from pipeline.findings.merge import Policy
from pipeline.findings.model import Category, Evidence, FindingState, Location, Severity

from .conftest import MakeClaim, Run

CODE = "\n".join(
    ["import os", "", "def save(path):", "    handle = open(path,   'w')", "    handle.write(1)"] + ["pass"] * 60
)
FILES = {"src/a.py": CODE}
CRITICAL = Severity.CRITICAL


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
        (11, 12, None, (11, 12)),
    ],
)
def test_lines_make_sense_or_are_none(
    start: int | None, end: int | None, length: int | None, span: tuple[int, int] | None
) -> None:
    """000-37: both or neither, not inverted, within the file; line 0 is none."""
    lines = read_lines(start, end, length)
    assert lines.span == span
    assert lines.lost == (start == 11 and length == 10)


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
    assert Text(CODE.split("\n")).near(needle_of(quote), cited) == span


def test_the_nearest_of_equal_lines_is_taken() -> None:
    """Two lines before is closer than three lines after."""
    text = Text(["same text", "", "", "", "", "same text"])
    assert text.near("same text", (3, 3)) == (1, 1)
    assert text.near("same text", (4, 4)) == (6, 6)
    assert text.near("same text", (1, 6)) == (1, 1)


def test_a_very_long_line_or_range_costs_little() -> None:
    """Only the beginning of a line without end is looked at, and of a range without end as well."""
    assert Text(["x" * 10_000 + "needle"]).anywhere("needle") is None
    assert Text(["a b"] * 2000 + ["needle"]).near("needle", (1, 10**9)) is None


def test_a_wrong_line_is_corrected_and_noted(claim: MakeClaim, run: Run) -> None:
    """The finding and its evidence stand where the quoted text stands, and the entry says so."""
    done = run(claim(line=9, quote="handle = open(path, 'w')"), files=FILES)
    (draft,) = done.drafts
    assert draft.location == Location(path="src/a.py", start=4, end=4)
    assert draft.evidence[0].start == 4
    assert draft.confidence.value == 75
    assert draft.state is FindingState.OPEN
    assert "line 9 was corrected to 4" in done.entries[0].reason


def test_evidence_elsewhere_does_not_move_the_finding(claim: MakeClaim, run: Run) -> None:
    """A quotation from another line supports a claim; it is not where the claim is."""
    (draft,) = run(claim(line=4, evidence=(Evidence(path="src/a.py", start=2, quote="import os"),)), files=FILES).drafts
    assert draft.location == Location(path="src/a.py", start=4, end=4)
    assert draft.evidence[0].start == 1


def test_a_claim_without_line_gets_that_of_its_quotation(claim: MakeClaim, run: Run) -> None:
    """C-14: where only the evidence knows the line, it is the finding's; where the text stands twice, nobody knows."""
    (draft,) = run(claim(line=None, quote="handle.write(1)"), files=FILES).drafts
    assert draft.location == Location(path="src/a.py", start=5, end=5)
    (twice,) = run(claim(line=None, quote="pass"), files=FILES).drafts
    assert twice.location == Location(path="src/a.py")
    assert twice.state is FindingState.OPEN
    (told,) = run(claim(line=None, evidence=(Evidence(path="src/a.py", start=3),)), files=FILES).drafts
    assert told.location == Location(path="src/a.py", start=3, end=3)


def test_a_quotation_that_is_not_there_lowers_the_confidence(claim: MakeClaim, run: Run) -> None:
    """003-21: before promotion, to 50; the vote keeps what the reviewer said, and the finding is uncertain."""
    done = run(claim(line=4, quote="os.unlink(path)", severity=CRITICAL, confidence=100), files=FILES)
    (draft,) = done.drafts
    assert draft.confidence.value == 50
    assert draft.votes[0].confidence == 100
    assert draft.state is FindingState.UNCERTAIN
    assert "lowered from 100 to 50" in done.entries[0].reason
    assert run(claim(line=4, quote="os.unlink(path)"), files=FILES).entries[0].disposition is Disposition.FILTERED


def test_a_low_confidence_is_not_raised_to_the_limit(claim: MakeClaim, run: Run) -> None:
    """The limit takes away; it never gives."""
    done = run(claim(line=4, quote="os.unlink(path)", confidence=25, pre_existing=True), files=FILES)
    assert done.drafts[0].confidence.value == 25


def test_the_first_quotation_that_can_be_checked_decides(claim: MakeClaim, run: Run) -> None:
    """003-21: a true second quotation does not make up for a false first one; words without a file are no quotation."""
    true = Evidence(path="src/a.py", start=3, quote="def save(path):")
    false = Evidence(path="src/a.py", start=3, quote="def load(path):")
    words = Evidence(quote="it said: boom")
    gone = Evidence(path="src/gone.py", start=3, quote="def load(path):")
    for evidence, left in (((false, true), 50), ((true, false), 75), ((words, true), 75), ((gone, true), 75)):
        done = run(claim(line=3, evidence=evidence, severity=CRITICAL), files=FILES)
        assert done.drafts[0].confidence.value == left


def test_words_without_a_file_get_one_when_they_stand_in_it(claim: MakeClaim, run: Run) -> None:
    """A quotation that names no file, and is in the file of its claim, is evidence from there."""
    (draft,) = run(claim(line=3, evidence=(Evidence(quote="def save(path):"),)), files=FILES).drafts
    assert draft.evidence == (Evidence(path="src/a.py", start=3, end=3, quote="def save(path):"),)


def test_whoever_asks_for_the_line_gets_it(claim: MakeClaim, run: Run) -> None:
    """003-21: by policy, a first evidence that is only described lowers the confidence; a line as raw text does not."""
    policy = Policy(quote_the_line=True)
    for raw, left in (("the handle stays open", 50), ("def save(path):", 75)):
        critical = claim(line=3, evidence=(Evidence(raw=raw),), severity=CRITICAL)
        assert run(critical, files=FILES, policy=policy).drafts[0].confidence.value == left
        assert run(critical, files=FILES).drafts[0].confidence.value == 75
    none = claim(line=3, severity=CRITICAL)
    assert run(none, files=FILES, policy=policy).drafts[0].confidence.value == 50
    assert run(none, files={}, policy=policy).drafts[0].confidence.value == 75
    tool = claim(line=3, severity=CRITICAL, scale="sarif")
    assert run(tool, files=FILES, policy=policy).drafts[0].confidence.value == 75


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
def test_code_without_a_hold_is_uncertain(
    claim: MakeClaim, run: Run, line: int | None, path: str, state: FindingState
) -> None:
    """000-52, 000-35: no such file, no such line or no place at all: kept, and uncertain."""
    (draft,) = run(claim(line=line, path=path), files=FILES).drafts
    assert draft.state is state
    assert draft.confidence.value == 75


def test_a_work_item_needs_no_file(claim: MakeClaim, run: Run) -> None:
    """000-36: a requirement refers to its work item and quotes it; nothing is looked for in the code."""
    (draft,) = run(
        claim(path="AC-3", line=None, category=Category.REQUIREMENT, quote="must log out"), files=FILES
    ).drafts
    assert (draft.state, draft.confidence.value) == (FindingState.OPEN, 75)
    assert draft.evidence == (Evidence(path="AC-3", quote="must log out"),)


def test_a_tool_needs_no_file(claim: MakeClaim, run: Run) -> None:
    """A failing test is certain, wherever its file is."""
    for path in ("", "tests.test_gone"):
        assert run(claim(path=path), files=FILES).drafts[0].state is FindingState.UNCERTAIN
        assert run(claim(path=path, scale="junit"), files=FILES).drafts[0].state is FindingState.OPEN


def test_every_place_has_evidence(claim: MakeClaim, run: Run) -> None:
    """000-35, C-12: where the evidence names no file, one piece refers to the place; the others stay beside it."""
    (draft,) = run(claim(line=3, evidence=(Evidence(raw="as seen"),)), files=FILES).drafts
    assert draft.evidence == (Evidence(path="src/a.py", start=3, end=3), Evidence(raw="as seen"))


def test_a_long_quotation_is_cut_and_kept_whole_beside(claim: MakeClaim, run: Run) -> None:
    """000-34: at most 240 characters of quotation; the rest is in `raw`."""
    long = "    value = " + "x" * 10_000_000
    (draft,) = run(claim(line=1, quote=long), files={"src/a.py": long}).drafts
    assert draft.confidence.value == 75
    assert draft.evidence[0].quote == long[:240]
    assert draft.evidence[0].raw == long
