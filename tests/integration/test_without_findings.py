"""The engine without the findings plugin: reviews, tools and gates still work; what needs the plugin is refused."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from pipeline import backends, engine, handlers, journal, plugins, summary
from pipeline.app import runs
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.findings.keys import OWNED, ReviewKey
from pipeline.journal.memory import MemoryJournal
from pipeline.plugins.manager import PluginManager

WORKFLOW = """workflow "Quick" {
  version 2
  start "plan"
  stage "plan" kind="llm" prompt="Plan it"
  stage "build" kind="llm" prompt="Build it"
  stage "checks" kind="tool" command="true"
  stage "reviews" kind="parallel" {
    branch "style"
    branch "tests"
  }
  stage "style" kind="llm" auto_status=true prompt="Review the style"
  stage "tests" kind="llm" auto_status=true prompt="Review the tests"
  stage "approve" kind="human" prompt="Good?" {
    option "yes" label="Yes" to="end"
    option "no" label="No" to="build"
  }
  stage "end" kind="exit"
  transition from="plan" to="build"
  transition from="build" to="checks"
  transition from="checks" to="reviews"
  transition from="reviews" to="approve" on="success"
  transition from="reviews" to="build" on="fail"
}
"""
COUNTING = """workflow "Counting" {
  version 2
  start "a"
  stage "a" kind="llm" auto_status=true prompt="Review it"
  stage "end" kind="exit"
  transition from="a" to="end" when="findings() == 0"
  transition from="a" to="a"
}
"""
TRIAGE = """workflow "Triage" {
  version 2
  start "a"
  stage "a" kind="llm" auto_status=true prompt="Review it"
  stage "sort" kind="triage" {
    apply to="a"
    done to="end"
  }
  stage "end" kind="exit"
  transition from="a" to="sort"
}
"""
REPORT = """workflow "Report" {
  version 2
  start "a"
  stage "a" kind="tool" command="echo {}" findings="sarif"
  stage "end" kind="exit"
  transition from="a" to="end"
}
"""
SCRIPT = '{"style": ["Bad.\\n[STATUS: fail]\\n[FAILURE_REASON: names]", "Fine.\\n[STATUS: success]"]}'


@pytest.fixture(autouse=True)
def without_findings() -> Iterator[None]:
    """No registration of the plugin: everything else is put together as usual."""
    register = PluginManager.register

    def skip(self: PluginManager, plugin: object, name: str) -> None:
        if name != "findings":
            register(self, plugin, name)

    with mock.patch.object(PluginManager, "register", skip):
        yield


def run(folder: Path, source: str) -> tuple[runs.RunResult, MemoryJournal]:
    (folder / "w.awf.kdl").write_text(source)
    entry = Catalog(folder, folder, folder).find("w.awf.kdl")
    options = {"backend": "scripted", "script": SCRIPT, "auto_approve": True}
    journal = MemoryJournal()
    record = runs.build_record(entry, check(entry), "r", "a goal", options, folder, 0.0)
    runtime = Runtime(store=folder / ".awf", environ=dict(os.environ))
    result = asyncio.run(runs.start(record, journal, runtime))
    return result, journal


def test_a_workflow_with_reviews_tools_and_gates_runs_to_its_exit(tmp_path: Path) -> None:
    """A failed review leads back, and a later pass ends the run; nothing is accumulated."""
    result, journal = run(tmp_path, WORKFLOW)
    one_round = ("build", "checks", "style", "tests", "reviews")
    assert (result.status, result.path) == (RunStatus.SUCCESS, ("plan", *one_round, *one_round, "approve", "end"))
    state = load_state(journal, "r")
    assert not [key for key in state.context if key.startswith("review.")]
    assert list(journal.ledger()) == []


@pytest.mark.parametrize(("source", "named"), [(COUNTING, r"findings\(\)"), (TRIAGE, '"triage"')])
def test_a_workflow_that_needs_the_plugin_is_refused_before_it_starts(tmp_path: Path, source: str, named: str) -> None:
    """A condition without an answer must not pass for "no findings"."""
    with pytest.raises(AwfError, match=named):
        run(tmp_path, source)


def test_a_report_that_no_plugin_reads_is_an_error(tmp_path: Path) -> None:
    """A declared report that no plugin can read pauses the run; it never counts as a pass."""
    result, _ = run(tmp_path, REPORT)
    assert (result.status, result.path) == (RunStatus.PAUSED, ())
    assert "report" in result.reason


@pytest.mark.parametrize("word", ["finding", "verdict", "triage", "stall"])
def test_the_engine_does_not_mention_findings(word: str) -> None:
    """Neither a key, nor a branch, nor a comment: all it knows of them comes through hooks."""
    (folder,) = engine.__path__
    assert [path.name for path in Path(folder).glob("*.py") if word in path.read_text().lower()] == []


@pytest.mark.parametrize("name", [*OWNED.context_keys, *OWNED.files, ReviewKey.VERDICT, ReviewKey.NOTES])
@pytest.mark.parametrize(
    "package", [backends, engine, handlers, journal, plugins, summary], ids=lambda one: one.__name__
)
def test_no_other_package_knows_the_keys_and_files_of_the_plugin(package: ModuleType, name: str) -> None:
    """The plugin declares them, and others ask it."""
    (folder,) = package.__path__
    assert [path.name for path in Path(folder).rglob("*.py") if f'"{name}' in path.read_text()] == []
