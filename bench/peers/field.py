"""Who takes part, each with the environment it lives in, and how one of its processes is started.

An engine never shares a process or an environment with another: what is measured is a fresh process each time.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".bench"
KILL_ROUNDS = 30
PATIENCE = 600.0  # seconds: a process that takes longer hangs


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine, set in one way."""

    title: str
    module: str
    variant: str = ""
    environment: str = ""  # its name under `.bench`; without one it is this project's own
    packages: tuple[str, ...] = ()
    kill_rounds: int = KILL_ROUNDS  # 0: SIGKILL cannot tell it from the same engine set otherwise

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(PLACE / self.environment / "bin/python") if self.environment else sys.executable

    def command(self, verb: str, folder: Path, rounds: int, **limits: float) -> list[str]:
        """The command line of one of its processes."""
        given = [word for name, value in limits.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        module = f"bench.peers.{self.module}"
        return [self.python, "-m", module, "--variant", self.variant, verb, str(folder), str(rounds), *given]

    def versions(self) -> dict[str, str]:
        """Its packages, and the Python and the SQLite that it runs on."""
        code = (
            "import json, platform, sqlite3, sys; from importlib.metadata import version;"
            "print(json.dumps({'Python': platform.python_version(), 'SQLite': sqlite3.sqlite_version,"
            "**{name: version(name) for name in sys.argv[1:]}}))"
        )
        return dict(answer([self.python, "-c", code, *self.packages]))


class Failed(Exception):
    """A process ended in a way that was not asked for."""


def answer(command: list[str], *, may_die: bool = False) -> Any:
    """The JSON that a process prints last; with `may_die` it may be killed, but not fail otherwise."""
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    lines = done.stdout.splitlines()
    if not lines or done.returncode not in ((0, -9) if may_die else (0,)):
        raise Failed(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(lines[-1])


def surroundings() -> dict[str, str]:
    """The environment of the processes: this one's, without what would make an engine report to its maker."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("LANGSMITH", "LANGCHAIN", "DBOS"))
    }


FIELD = (
    Contestant("awf engine", "on_awf", "engine", packages=("awf-pipeline",)),
    Contestant("awf", "on_awf", packages=("awf-pipeline",)),
    Contestant(
        "langgraph",
        "on_langgraph",
        "",
        "langgraph",
        ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint"),
    ),
    Contestant("langgraph delta", "on_langgraph", "delta", "langgraph", ("langgraph", "langgraph-checkpoint-sqlite")),
    Contestant("burr", "on_burr", "", "burr", ("apache-burr",)),
    Contestant("burr WAL", "on_burr", "wal", "burr", ("apache-burr",), kill_rounds=0),
    Contestant("dbos", "on_dbos", "", "dbos", ("dbos", "SQLAlchemy")),
    Contestant("dbos WAL", "on_dbos", "wal", "dbos", ("dbos", "SQLAlchemy"), kill_rounds=0),
    Contestant(  # each stage rewrites all there is four times: more rounds would take a minute a run
        "pydantic-graph", "on_pydantic_graph", "", "pydantic-graph", ("pydantic-graph", "pydantic"), kill_rounds=10
    ),
)
