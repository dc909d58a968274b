"""mypy's output: what was cut off is not taken for less, and silence not for a clean run."""

from pathlib import Path

import pytest
from tests.unit.findings.drafts import readable, unreadable

from pipeline.findings.formats import FORMATS
from pipeline.findings.model import Category, ReportStatus, Severity

SAMPLES = Path(__file__).parent / "samples"
TEXT, JSON = (SAMPLES / "mypy.txt").read_bytes(), (SAMPLES / "mypy.jsonl").read_bytes()
read = FORMATS["mypy"].read


@pytest.mark.parametrize("data", [TEXT, JSON, JSON.rstrip(), JSON + TEXT.splitlines(keepends=True)[-1]])
def test_text_and_json_give_the_same_findings(data: bytes) -> None:
    """Six errors with their hints, in either shape, or in JSON with the summary after it."""
    found = read(data)
    assert (found.reviewer, found.status, len(found.drafts)) == ("mypy", ReportStatus.RETURNED, 6)
    places = [(finding.locations[0].path, finding.locations[0].start) for finding in readable(found)]
    assert places == [("src/names.py", 6)] * 2 + [("src/orders.py", line) for line in (10, 10, 13, 25)]
    assert readable(found)[5].title.endswith('(got "float", expected "str")')
    assert readable(found)[3].impact
    assert readable(found)[5].ext == {"mypy": {"ruleId": "return-value"}}
    assert {(finding.category, finding.severity) for finding in readable(found)} == {(Category.BUG, Severity.HIGH)}
    assert [finding.input_id for finding in readable(found)] == [f"mypy#{number}" for number in range(1, 7)]


def test_success_is_clean_and_empty_output_is_not() -> None:
    """Only mypy's own summary makes a run clean."""
    assert read(b"Success: no issues found in 3 source files\n").status is ReportStatus.EMPTY
    assert read(b"Success: no issues found in 1 source file\r\n").status is ReportStatus.EMPTY
    assert {read(data).status for data in (b"", b"\n\n")} == {ReportStatus.MALFORMED}


@pytest.mark.parametrize(
    "data",
    [
        b"\n".join([*TEXT.split(b"\n")[:2], TEXT.split(b"\n")[-2], b""]),
        b"Found 2 errors in 1 file\nSuccess: no issues found in 1 source file\n",
        b"a.py:1: error: Bad\nFound 1 error in 1 file\nFound 1 error in 1 file\n",
        b"  Found 1 error in 1 file\n",
        TEXT[:200],
        JSON[:-20],
        (SAMPLES / "mypy-pretty.txt").read_bytes(),
    ],
)
def test_output_that_contradicts_itself_or_was_cut_off_is_malformed(data: bytes) -> None:
    """Wherever mypy counts errors, all of them must be listed; pretty output is refused as a whole."""
    found = read(data)
    assert (found.status, len(found.drafts)) == (ReportStatus.MALFORMED, 0)


@pytest.mark.parametrize(
    "line",
    [
        "warning: something",
        "mypy: Found 2 errors",
        "Success: no issues found, Found 2 errors",
        "\x1b[1mFound 1 error in 1 file\x1b[m",
        f"Found {'9' * 5000} errors in 1 file",
        "a.py:1: error: ",
        "a.py:1: warning: mypy has none",
        "Found 0 errors in 1 file",
        '{"file": "a.py", "line": true, "message": "m", "severity": "error"}',
    ],
)
def test_a_line_that_is_not_a_message_is_unreadable(line: str) -> None:
    """Nothing in the output is dropped."""
    found = read(f"src/a.py:3: error: Bad  [misc]\n{line}\n".encode())
    assert [finding.title for finding in readable(found)] == ["Bad"]
    assert [(item.input_id, item.impact) for item in unreadable(found)] == [("mypy#2", line.rstrip())]


def test_a_note_is_information_unless_it_belongs_to_an_error() -> None:
    """A note about the same line is a hint, as in JSON; any other is a finding of its own."""
    found = read(
        b'a.py:1: error: Bad  [misc]\na.py:1: note: Because\nb.py:7: note: "f" defined here\n'
        b'a.py:9: note: Revealed type is "int"\nb.py: error: No module\n'
    )
    severities = [finding.severity for finding in readable(found)]
    assert severities == [Severity.HIGH, Severity.INFO, Severity.INFO, Severity.HIGH]
    assert readable(found)[0].impact == "Because"
    assert readable(found)[3].locations[0].start is None


def test_paths_are_made_relative_to_the_root() -> None:
    """An absolute path below the root loses the root; another is kept, and refused on ingest."""
    found = read(b"/srv/shop/a.py:1: error: Bad\n/etc/b.py:1: error: Bad\n", root="/srv/shop", reviewer="types")
    assert [finding.locations[0].path for finding in readable(found)] == ["a.py", "/etc/b.py"]
    assert readable(found)[0].reviewer == "types"
