"""ESLint's JSON: every message is read or unreadable, those that were suppressed too."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.drafts import readable, unreadable

from pipeline.findings.formats import FORMATS
from pipeline.findings.model import AutofixClass, ReportStatus, Severity

read = FORMATS["eslint"].read


SAMPLE = (Path(__file__).parent / "samples" / "eslint.json").read_bytes()


def of(*messages: object) -> bytes:
    return json.dumps([{"filePath": "/srv/shop/a.js", "messages": list(messages)}]).encode()


def test_the_sample_has_ten_messages_in_two_files() -> None:
    """Eight lints, one that is suppressed in the source, one file that cannot be parsed."""
    found = read(SAMPLE, root="/srv/shop")
    assert (found.reviewer, found.status, len(readable(found)), len(found.drafts)) == (
        "eslint",
        ReportStatus.RETURNED,
        10,
        10,
    )
    assert found.covered == ("web/app.js",)
    assert sum(bool(raw.suppressed) for raw in readable(found)) == 1
    assert [raw.severity for raw in readable(found)].count(Severity.MEDIUM) == 1
    first = readable(found)[0]
    assert first.title.startswith("Unexpected var")
    assert first.fix is not None
    assert first.fix.endswith(": let")
    assert (first.locations[0].path, first.locations[0].start, first.locations[0].end) == ("web/app.js", 1, 1)
    assert first.autofix_class is AutofixClass.MANUAL
    assert first.ext["eslint"]["ruleId"] == "no-var"


def test_a_file_without_messages_is_clean_and_no_file_is_not() -> None:
    """An empty list says that no file was looked at."""
    assert read(of()).status is ReportStatus.EMPTY
    for data in (b"[]", b"{}", b'[{"filePath": 1, "messages": []}]', b'[{"filePath": "a"}]', SAMPLE[:-5], b""):
        found = read(data)
        assert (found.status, len(found.drafts), bool(found.problem)) == (ReportStatus.MALFORMED, 0, True)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"severity": 2}, "message"),
        ({"severity": 2, "message": ""}, "message"),
        ({"severity": 3, "message": "m"}, "severity"),
        ({"severity": True, "message": "m"}, "severity"),
        ({"severity": 2, "message": "m", "line": True}, "line"),
        ({"severity": 2, "message": "m", "line": -1}, "line"),
        ({"severity": 2, "message": "m", "line": 9, "endLine": 3}, "line 3"),
        ("text", ""),
    ],
)
def test_one_bad_message_is_unreadable_and_the_others_stay(message: Any, field: str) -> None:
    """An item that cannot be read is kept as such, with the field that is wrong."""
    found = read(of({"severity": 1, "message": "good", "line": 0}, message))
    assert (found.status, [raw.title for raw in readable(found)]) == (ReportStatus.RETURNED, ["good"])
    assert readable(found)[0].locations[0].start is None
    assert [item.input_id for item in unreadable(found)] == ["eslint#2"]
    assert field in unreadable(found)[0].unreadable


@pytest.mark.parametrize(
    ("counts", "rejected"),
    [
        ({"errorCount": 1, "warningCount": 1, "fatalErrorCount": 0}, 0),
        ({"errorCount": 3}, 1),
        ({"errorCount": 3, "fatalErrorCount": 1, "warningCount": 2}, 3),
        ({"warningCount": None, "errorCount": True, "fatalErrorCount": -1}, 3),
    ],
)
def test_a_count_above_the_messages_is_rejected_for_its_file(counts: dict[str, Any], rejected: int) -> None:
    """0-12: the messages that are listed stay; counts may be left out."""
    file = {"filePath": "a.js", "messages": [{"severity": 1, "message": "w"}, {"severity": 2, "message": "e"}]}
    found = read(json.dumps([{**file, **counts}]).encode())
    assert (len(readable(found)), len(unreadable(found))) == (2, rejected)
    assert {item.location.path for item in unreadable(found) if item.location} == ({"a.js"} if rejected else set())


def test_a_justification_is_the_reason_of_a_suppression() -> None:
    """What was written beside the directive is kept."""
    message = {"severity": 1, "message": "m", "suppressions": [{"kind": "directive", "justification": "legacy"}]}
    assert readable(read(of(message)))[0].suppressed == "legacy"


def test_unknown_fields_are_kept() -> None:
    """Fields of a newer ESLint are kept in `ext`."""
    (raw,) = readable(read(of({"severity": 1, "message": "m", "news": {"a": [1]}})))
    assert raw.ext["eslint"]["news"] == {"a": [1]}
