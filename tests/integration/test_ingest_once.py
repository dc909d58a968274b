"""What a review costs: its report is taken in once, and git is asked little, however often the findings are needed."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_structured import CODE, LOOP, found, item

from pipeline.app import runs
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.wiring import Runtime
from pipeline.engine.state import RunStatus
from pipeline.findings.ingest import ingest
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.journal.memory import MemoryJournal

SCRIPT = {
    "rev": [found(item()), f"{found(item())}\n[FINDING 1: not fixed]", f"{found()}\n[FINDING 1: fixed]"],
    "fix": ["Done.\n[FINDING 1: fixed]", "Done.\n[FINDING 1: fixed]"],
}


def run(folder: Path, environ: dict[str, str], body: str = LOOP, script: Any = SCRIPT) -> tuple[runs.RunResult, Ledger]:
    """Run a workflow with this body in a repository, in this process."""
    (folder / "app.py").write_text(CODE)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=folder, check=True, capture_output=True)
    head = 'workflow "W" {\nversion 2\nstart "rev"\nsettings { max_visits 4; }\n'
    (folder / "w.awf.kdl").write_text(f'{head}{body}\nstage "end" kind="exit"\n}}\n')
    entry = Catalog(folder, folder, folder).find("w.awf.kdl")
    options = {"backend": "scripted", "script": json.dumps(script), "auto_approve": True}
    record = runs.build_record(entry, check(entry), "r", "a goal", options, folder, 0.0)
    journal = MemoryJournal()
    result = asyncio.run(runs.start(record, journal, Runtime(store=folder / ".awf", environ=environ)))
    return result, LedgerStore(journal).ledger()


@pytest.fixture
def ingests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The visits whose reports are taken in, as often as they are."""
    done: list[tuple[str, int]] = []

    def counted(reports: Any, ledger: Any, info: Any, *more: Any) -> Any:
        done.append((info.stage, info.visit))
        return ingest(reports, ledger, info, *more)

    monkeypatch.setattr("pipeline.findings.run_findings.ingest", counted)
    return done


def test_a_report_is_ingested_once_per_visit(tmp_path: Path, ingests: list[tuple[str, int]]) -> None:
    """Reading a review decides its status, and the same result is committed with what it says by numbers."""
    result, ledger = run(tmp_path, dict(os.environ))
    assert result.status is RunStatus.SUCCESS
    assert ingests == [("rev", 1), ("rev", 2), ("rev", 3)]
    (finding,) = ledger
    assert (finding.state, len(ledger.passes)) == ("verified_fixed", 3)
    assert [attempt.outcome for attempt in finding.attempts] == ["claimed", "not_fixed", "claimed"]


def test_a_failure_that_no_finding_explains_is_ingested_with_the_report(
    tmp_path: Path, ingests: list[tuple[str, int]]
) -> None:
    """The agent's own status is known only after its report was read: then the report is taken in again with it."""
    body = 'stage "rev" kind="llm" auto_status=true prompt="x"\ntransition from="rev" to="end"\n'
    answer = f"{found()}\n[STATUS: fail]\n[FAILURE_REASON: it does not build]"
    _, ledger = run(tmp_path, dict(os.environ), body, {"rev": [answer]})
    assert ingests == [("rev", 1), ("rev", 1)]
    assert [(finding.title, finding.state) for finding in ledger] == [("it does not build", "uncertain")]
    assert len(ledger.passes) == 1


def test_git_is_asked_little(tmp_path: Path) -> None:
    """One snapshot when a review starts and one when it ends serve all who ask: at most 22 processes for each visit."""
    log, git = tmp_path / "log", shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {git} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    (tmp_path / "project").mkdir()
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    result, _ = run(tmp_path / "project", environ)
    assert result.path.count("rev") == 3
    asked = log.read_text().splitlines()
    assert len([line for line in asked if " add --all " in line]) == 6
    assert len(asked) <= 66
