"""The review loop on DBOS with its SQLite system database: a workflow whose stages are steps, each recorded.

The variant `wal` puts it into write-ahead logging, as durable and quicker; DBOS leaves it as SQLite has it.
"""

import sqlite3
from pathlib import Path
from typing import Any

from bench.peers.protocol import REVIEWERS, Engine, begun, main, review
from dbos import DBOS, SetWorkflowID

RUN = "bench"


@DBOS.step()
def code() -> None:
    """The first stage."""
    begun("code", 0)


@DBOS.step()
def reviewed(name: str, round_: int, rounds: int) -> str:
    """A review stage."""
    begun(f"review_{name}", round_)
    return review(name, round_, rounds)


@DBOS.step()
def gate(round_: int, found: int, told: int) -> str:
    """The decision, as a stage of its own."""
    begun("gate", round_)
    return "fix" if found > told else "exit"


@DBOS.step()
def fix(round_: int, findings: list[str]) -> int:
    """The stage that is told all findings."""
    begun("fix", round_)
    return len(findings)


@DBOS.workflow()
def loop(rounds: int) -> list[str]:
    """The loop: its state is what its steps returned."""
    findings: list[str] = []
    told = round_ = 0
    code()
    while True:
        answers = [reviewed(name, round_, rounds) for name in REVIEWERS]
        findings += filter(None, answers)
        if gate(round_, len(findings), told) == "exit":
            return findings
        told, round_ = fix(round_, findings), round_ + 1


def launched(folder: Path, variant: str) -> None:
    """Start DBOS on the folder's database; it takes up by itself what a dead process left."""
    database = folder / "dbos.sqlite"
    if variant == "wal":
        sqlite3.connect(database).execute("PRAGMA journal_mode=WAL")  # the file remembers it
    DBOS(config={"name": RUN, "system_database_url": f"sqlite:///{database}", "log_level": "ERROR"})
    DBOS.launch()


def run(folder: Path, rounds: int, variant: str) -> None:
    """Run the loop."""
    launched(folder, variant)
    with SetWorkflowID(RUN):
        loop(rounds)


def resume(folder: Path, rounds: int, variant: str) -> None:
    """Launch again and wait for the workflow; start it when it was never recorded."""
    launched(folder, variant)
    if DBOS.get_workflow_status(RUN) is None:
        with SetWorkflowID(RUN):
            loop(rounds)
    else:
        DBOS.retrieve_workflow(RUN).get_result()


def final(folder: Path, _rounds: int, variant: str) -> Any:
    """What the workflow returned, and its status."""
    launched(folder, variant)
    return [DBOS.get_workflow_status(RUN).status, DBOS.retrieve_workflow(RUN).get_result()]


if __name__ == "__main__":
    main(Engine(run, resume, final))
