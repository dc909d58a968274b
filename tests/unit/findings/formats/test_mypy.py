"""mypy's output: what was cut off is not taken for less."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.formats.mypy import decode
from pipeline.findings.model import Category, ReportStatus, Severity

SAMPLES = Path(__file__).parent / "samples"
NAMES = ("mypy.txt", "mypy-pretty.txt", "mypy.jsonl")
TEXT = (SAMPLES / "mypy.txt").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_three_shapes_say_the_same(name: str) -> None:
    """Six errors, their notes with them, whichever way mypy was asked to write."""
    found = decode((SAMPLES / name).read_bytes())
    assert (found.reviewer, found.status, found.inputs, len(found.findings)) == ("mypy", ReportStatus.RETURNED, 6, 6)
    places = [(claim.locations[0].path, claim.locations[0].start) for claim in found.findings]
    assert places == [("src/names.py", 6)] * 2 + [("src/orders.py", line) for line in (10, 10, 13, 25)]
    assert found.findings[5].title == 'Incompatible return value type (got "float", expected "str")'
    assert found.findings[3].impact == "Both left and right operands are unions"
    assert found.findings[5].ext == {"mypy": {"code": "return-value"}}
    assert {claim.category for claim in found.findings} == {Category.BUG}
    assert {claim.severity for claim in found.findings} == {Severity.HIGH}
    assert [claim.input_id for claim in found.findings] == [f"mypy#{number}" for number in range(1, 7)]


def test_the_pretty_shape_gives_the_line_of_code() -> None:
    """The source that mypy shows is evidence."""
    found = decode((SAMPLES / "mypy-pretty.txt").read_bytes())
    assert found.findings[0].evidence[0].quote == "return l + 1"
    assert (found.findings[4].locations[0].start, found.findings[4].locations[0].end) == (13, 15)


def test_success_is_clean_and_silence_is_not() -> None:
    """Only mypy's own word makes a run clean."""
    assert decode(b"Success: no issues found in 3 source files\n").status is ReportStatus.EMPTY
    for data in (b"", b"\n \n"):
        found = decode(data)
        assert (found.status, found.inputs) == (ReportStatus.MALFORMED, 0)
        assert "says nothing" in found.problem


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_fewer_errors_than_counted_is_malformed(keep: int) -> None:
    """An output that lost lines is refused as a whole, not read as fewer errors."""
    lines = TEXT.split(b"\n")
    found = decode(b"\n".join([*lines[:keep], lines[-2], b""]))
    assert (found.status, found.inputs) == (ReportStatus.MALFORMED, 0)
    assert "counts 6 errors" in found.problem


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Found 2 errors in 1 file\nSuccess: no issues found in 1 source file\n", ReportStatus.MALFORMED),
        ("Success: no issues found in 1 source file\nmypy: Found 2 errors\n", ReportStatus.MALFORMED),
        ("a.py:1: error: Bad\nFound 1 error in 1 file\nFound 1 error in 1 file\n", ReportStatus.MALFORMED),
        ("  Found 1 error in 1 file\n", ReportStatus.MALFORMED),
        ("\x1b[1mFound 1 error in 1 file\x1b[m\n", ReportStatus.MALFORMED),
        ("mypy crashed. Found 0 errors\n", ReportStatus.MALFORMED),
        ("Success: no issues found, Found 2 errors\n", ReportStatus.MALFORMED),
        (f"Found {'9' * 5000} errors in 1 file\n", ReportStatus.MALFORMED),
        ("a.py:1: error: Bad\nFound 1 error in 1 file\nb.py:1: error: Bad\nFound 1 error\n", ReportStatus.RETURNED),
        ('a.py:1: error: Bad\n    print("Found 3 errors")\n    ^\nFound 1 error in 1 file\n', ReportStatus.RETURNED),
        ("a.py:1: error: Found 3 errors\nFound 1 error in 1 file\n", ReportStatus.RETURNED),
        ("Success: no issues found in 1 source file\r\n", ReportStatus.EMPTY),
    ],
)
def test_every_count_is_believed(text: str, status: ReportStatus) -> None:
    """0-12: wherever mypy counts errors, all of them must be shown."""
    assert decode(text.encode()).status is status


def test_a_cut_in_the_middle_of_a_line_is_malformed() -> None:
    """The last line must end, in JSON too."""
    assert decode(TEXT[:200]).status is ReportStatus.MALFORMED
    found = decode((SAMPLES / "mypy.jsonl").read_bytes()[:-20])
    assert (found.status, "line 6" in found.problem) == (ReportStatus.MALFORMED, True)


def test_a_line_that_is_not_mypys_is_rejected_with_its_text() -> None:
    """Nothing in the output goes without a fate."""
    found = decode(b"warning: something\nsrc/a.py:3: error: Bad  [misc]\n")
    assert [(item.input_id, item.title) for item in found.unreadable] == [("mypy#1", "warning: something")]
    assert [claim.title for claim in found.findings] == ["Bad"]
    wrong = decode(b'{"file": "a.py", "line": true, "message": "m", "severity": "error"}\n')
    assert (len(wrong.findings), "line" in wrong.unreadable[0].reason) == (0, True)


def test_a_note_of_its_own_is_for_information() -> None:
    """A revealed type belongs to no error."""
    found = decode(b'a.py:1: error: Bad  [misc]\na.py:9: note: Revealed type is "int"\nb.py: error: No module\n')
    assert [claim.severity for claim in found.findings] == [Severity.HIGH, Severity.INFO, Severity.HIGH]
    assert found.findings[2].locations[0].start is None


def test_paths_are_made_relative_to_the_root() -> None:
    """An absolute path below the root loses the root; another is kept, for the intake to refuse."""
    found = decode(b"/srv/shop/a.py:1: error: Bad\n/etc/b.py:1: error: Bad\n", root="/srv/shop", reviewer="types")
    assert [claim.locations[0].path for claim in found.findings] == ["a.py", "/etc/b.py"]
    assert found.findings[0].reviewer == "types"


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    """Whatever the bytes are, there is a return."""
    assert decode(data).reviewer == "mypy"
