"""Real runs in the store of a test, for the pages that show them."""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.runs import build_record, start
from pipeline.app.wiring import Runtime
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal

GATE = """
workflow "Release" {
  version 2
  goal "Release it"
  start "build"
  stage "build" kind="tool" command="echo built"
  stage "approve" kind="human" prompt="Release this?" require_feedback_on="revise" details_from="build.response" {
    option "approve" label="Approve it" to="release"
    option "revise" label="Send back" to="build"
  }
  stage "release" kind="tool" command="echo released"
  stage "exit" kind="exit"
  transition from="build" to="approve"
  transition from="release" to="exit"
}
"""
TOOL = """
workflow "One tool" {
  version 2
  start "build"
  stage "build" kind="tool" command="COMMAND"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
SIDE_BY_SIDE = """
workflow "Side by side" {
  version 2
  start "checks"
  stage "checks" kind="parallel" { branch "unit"; branch "style"; }
  stage "unit" kind="tool" command="true"
  stage "style" kind="tool" command="echo untidy; false"
  stage "exit" kind="exit"
  transition from="checks" to="exit"
}
"""
LOOP = """
workflow "Round and round" {
  version 2
  settings { max_visits LIMIT }
  start "work"
  stage "work" kind="decision" { route when="true" to="look"; }
  stage "look" kind="decision" {
    route when="visits(\\"work\\") >= TIMES" to="exit" priority=2
    route when="true" to="work"
  }
  stage "exit" kind="exit"
}
"""


def run_workflow(
    store: Path, source: str, run_id: str = "r1", goal: str = "", options: Mapping[str, Any] | None = None
) -> None:
    """Run a workflow until it stops by itself."""
    project = store.parent
    project.mkdir(parents=True, exist_ok=True)
    path = project / f"{run_id}.awf.kdl"
    path.write_text(source)
    entry = Catalog(cwd=project, home=project, shipped=project).find(str(path))
    record = build_record(entry, check(entry), run_id, goal, options or {}, project, time.time())
    around = Runtime(store, {"PATH": os.environ["PATH"]}, mailbox=SqliteMailbox(store))
    with closing(SqliteJournal(store)) as journal:
        asyncio.run(start(record, journal, around))
