"""The formats by name, and which one some bytes are in."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.formats import FORMATS, OUTPUTS, detect
from pipeline.findings.model import ReportStatus

SAMPLES = Path(__file__).parent / "samples"
OF = {".sarif": "sarif", ".xml": "junit", ".rdjson": "rdjson", ".txt": "mypy", ".jsonl": "mypy", ".json": "eslint"}


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_is_recognised_by_what_it_says(name: str) -> None:
    """Without its name, and also when the second half of it is gone."""
    data = (SAMPLES / name).read_bytes()
    assert detect(data) == OF[Path(name).suffix]
    assert detect(data[: len(data) // 2]) == OF[Path(name).suffix]


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b'{"reviewer": "a", "findings": []}', "", "review"),
        (b'{"reviewId": "1", "verdict": "PASS", "findings": []}', "", "verdict"),
        (b'{"message": "m", "location": {}}\n{"message": "n", "location": {}}\n', "", "rdjson"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- x --><testsuite/>", "", "junit"),
        (b"<html/>", "a.sarif", None),
        (b"Success: no issues found in 1 source file\n", "", "mypy"),
        (b"", "x.rdjsonl", "rdjson"),
        (b"", "", None),
        (b"{}", "a.json", None),
        (b"Everything is fine, I think.", "", None),
    ],
)
def test_formats_are_told_apart(data: bytes, name: str, kind: str | None) -> None:
    """By the names that only one of them has; by the file's name where there is nothing to go by."""
    assert detect(data, name) == kind


def test_a_large_file_is_recognised_by_its_ends() -> None:
    """The names that tell may stand behind everything else."""
    runs = [{"tool": {"driver": {"name": "X"}}, "results": [{"message": {"text": "x" * 1000}}] * 1500}]
    assert detect(json.dumps({"runs": runs, "version": "2.1.0"}).encode()) == "sarif"


@pytest.mark.parametrize("kind", ["sarif", "junit", "rdjson", "eslint", "mypy"])
def test_every_format_answers_for_anything(kind: str) -> None:
    """A reader is found by its name, and what is not its own is malformed."""
    found = FORMATS[kind](b"\x00", reviewer="r", root="")
    assert (found.reviewer, found.status, found.format) == ("r", ReportStatus.MALFORMED, kind)


def test_the_formats_that_are_written() -> None:
    """Each by its name, empty for no findings."""
    assert {name: write([]) for name, write in OUTPUTS.items()}.keys() == {"sarif", "rdjson", "github"}
    assert OUTPUTS["github"]([]) == ""


@given(st.binary(max_size=60), st.text(max_size=8))
def test_no_bytes_make_it_raise(data: bytes, name: str) -> None:
    """Whatever the bytes are, there is an answer."""
    assert detect(data, name) in {None, *FORMATS}
