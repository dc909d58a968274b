"""The findings file holds exactly what is outstanding, however it came about."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Append, Discard, Set
from pipeline.findings.file import FindingsFile


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.text(max_size=5)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_file_follows_the_context(steps: list[tuple[bool, str, str]]) -> None:
    """Reports added and cleared in any order: the file is the same list, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = FindingsFile(Path(folder) / "runs" / "findings.json")
        context = EMPTY
        for adds, stage, text in steps:
            operation = Append("f", {"stageId": stage, "text": text}) if adds else Discard("f", {"stageId": stage})
            context = context.apply([operation])
            assert json.loads(file.current(context.list_at("f")).read_text()) == context.list_at("f")


def test_a_file_somebody_removed_comes_back(tmp_path: Path) -> None:
    """It is a copy, and is made again."""
    file = FindingsFile(tmp_path / "findings.json")
    reports = [{"stageId": "a"}]
    file.current(reports).unlink()
    assert json.loads(file.current(reports).read_text()) == reports


def test_a_report_that_is_replaced_among_others_is_not_missed(tmp_path: Path) -> None:
    """A plugin may set the whole list, with the same first and last report."""
    file = FindingsFile(tmp_path / "findings.json")
    context = EMPTY.apply([Append("f", {"stageId": stage}) for stage in "abc"])
    file.current(context.list_at("f"))
    first, _, last = context.get("f")
    after = context.apply([Set("f", [first, {"stageId": "other"}, last])])
    assert json.loads(file.current(after.list_at("f")).read_text()) == after.get("f")
