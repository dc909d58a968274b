"""The formats by name, and which one some bytes are in."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.formats import EXPORT_FORMATS, FORMATS, IMPORT_FORMATS, detect
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import ReportStatus
from pipeline.language.model import FindingsFormat

SAMPLES = Path(__file__).parent / "samples"
OF = {".sarif": "sarif", ".xml": "junit", ".rdjson": "rdjson", ".txt": "mypy", ".jsonl": "mypy", ".json": "eslint"}


def detected(data: bytes, name: str = "") -> str | None:
    found = detect(data, name)
    return found.name if found else None


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_is_recognised_by_its_content(name: str) -> None:
    """Without its name, and also when its second half is missing."""
    data = (SAMPLES / name).read_bytes()
    assert detected(data) == OF[Path(name).suffix]
    assert detected(data[: len(data) // 2]) == OF[Path(name).suffix]


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b'{"reviewer": "a", "findings": []}', "", "review"),
        (b'{"reviewId": "1", "verdict": "PASS", "findings": []}', "", "verdict"),
        (b'{"message": "m", "location": {}}\n{"message": "n", "location": {}}\n', "", "rdjson"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- x --><testsuite/>", "", "junit"),
        (b"<html/>", "a.sarif", "sarif"),
        (b"Success: no issues found in 1 source file\n", "", "mypy"),
        (b"", "x.rdjsonl", "rdjson"),
        (b"", "", None),
        (b"{}", "a.json", None),
        (b"Everything is fine, I think.", "", None),
    ],
)
def test_formats_are_distinguished(data: bytes, name: str, kind: str | None) -> None:
    """By the names that only one of them has; by the file's name where there is nothing to go by."""
    assert detected(data, name) == kind


def test_a_large_file_is_recognised_by_its_ends() -> None:
    """The names that tell may stand behind everything else."""
    runs = [{"tool": {"driver": {"name": "X"}}, "results": [{"message": {"text": "x" * 1000}}] * 1500}]
    assert detected(json.dumps({"runs": runs, "version": "2.1.0"}).encode()) == "sarif"


@pytest.mark.parametrize("name", IMPORT_FORMATS)
def test_every_reader_reports_a_file_that_is_not_its_own(name: str) -> None:
    """Such a file is malformed, never empty."""
    found = FORMATS[name].read(b"\x00", reviewer="r")
    assert (found.reviewer, found.status, found.format) == ("r", ReportStatus.MALFORMED, name)


@pytest.mark.parametrize("name", IMPORT_FORMATS)
@given(st.binary(max_size=100))
def test_no_bytes_make_a_reader_raise(name: str, data: bytes) -> None:
    """Whatever the bytes are, there is a report, and it is not a clean one."""
    assert FORMATS[name].read(data).status is not ReportStatus.EMPTY


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_every_writer_writes_an_empty_ledger(name: str) -> None:
    """No findings is something to write, too."""
    text = FORMATS[name].write([], Ledger())
    assert text == "" or text.endswith("\n")


def test_a_tool_stage_takes_every_format_that_can_be_imported() -> None:
    """The language has its own list, for it knows nothing of findings: it must not fall behind."""
    assert list(FindingsFormat) == ["text", *IMPORT_FORMATS]


@given(st.binary(max_size=60), st.text(max_size=8))
def test_no_bytes_make_it_raise(data: bytes, name: str) -> None:
    """Whatever the bytes are, there is an answer."""
    assert detected(data, name) in {None, *IMPORT_FORMATS}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ITEMS: dict[str, Callable[[Any], int]] = {
    "ruff.sarif": lambda whole: sum(len(run["results"]) for run in whole["runs"]),
    "bandit.sarif": lambda whole: sum(len(run["results"]) for run in whole["runs"]),
    "eslint.json": lambda whole: sum(len(file["messages"]) for file in whole),
    "ruff.rdjson": lambda whole: len(whole["diagnostics"]),
}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(ITEMS)), st.randoms(use_true_random=False), JSON)
def test_a_damaged_file_loses_no_item(name: str, chance: random.Random, other: Any) -> None:
    """Any part of a real file replaced by anything: each item is read or unreadable, or the file is malformed."""
    whole = json.loads((SAMPLES / name).read_bytes())
    replace_one_part(whole, chance, other)
    format = FORMATS[OF[Path(name).suffix]]
    found = format.read(json.dumps(whole).encode())
    if len(found.drafts):
        assert len(found.drafts) >= ITEMS[name](whole)
    else:
        assert found.status in (ReportStatus.MALFORMED, ReportStatus.EMPTY)


def replace_one_part(value: Any, chance: random.Random, other: Any) -> None:
    key = chance.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
    inner = value[key]
    if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
        replace_one_part(inner, chance, other)
    else:
        value[key] = other
