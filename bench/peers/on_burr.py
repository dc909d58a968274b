"""The review loop on Burr with its SQLite persister, which saves the state after every action.

The variant `wal` puts its database into write-ahead logging, as durable and quicker; Burr leaves it as SQLite has it.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.peers.protocol import REVIEWERS, Engine, begun, main, review
from burr.core import Application, ApplicationBuilder, Result, State, action, default, expr
from burr.core.persistence import SQLitePersister

START_STATE = {"findings": [], "told": 0, "round": 0}


@action(reads=["round"], writes=[])
def code(state: State) -> State:
    """The first stage."""
    begun("code", state["round"])
    return state


@action(reads=["round"], writes=["findings"])
def reviewer(state: State, name: str, rounds: int) -> State:
    """A review stage."""
    begun(f"review_{name}", state["round"])
    text = review(name, state["round"], rounds)
    return state.append(findings=text) if text else state


@action(reads=["round"], writes=[])
def gate(state: State) -> State:
    """The decision, as a stage of its own."""
    begun("gate", state["round"])
    return state


@action(reads=["findings", "round"], writes=["told", "round"])
def fix(state: State) -> State:
    """The stage that is told all findings."""
    begun("fix", state["round"])
    return state.update(told=len(state["findings"]), round=state["round"] + 1)


def application(folder: Path, rounds: int, variant: str) -> Application:
    """The loop, from where its database says that it stands."""
    persister = SQLitePersister.from_values(db_path=str(folder / "burr.db"))
    if variant == "wal":
        persister.connection.execute("PRAGMA journal_mode=WAL")
    persister.initialize()
    reviews = {f"review_{name}": reviewer.bind(name=name, rounds=rounds) for name in REVIEWERS}
    order = ["code", *reviews, "gate"]
    return (
        ApplicationBuilder()
        .with_actions(code=code, gate=gate, fix=fix, exit=Result("findings"), **reviews)
        .with_transitions(
            *pairwise(order),
            ("gate", "fix", expr("len(findings) > told")),
            ("gate", "exit", default),
            ("fix", "review_a"),
        )
        .with_identifiers(app_id="bench")
        .initialize_from(persister, resume_at_next_action=True, default_state=START_STATE, default_entrypoint="code")
        .with_state_persister(persister)
        .build()
    )


def run(folder: Path, rounds: int, variant: str) -> None:
    """Run the loop; a database that holds it already is gone on from."""
    application(folder, rounds, variant).run(halt_after=["exit"])


def final(folder: Path, _rounds: int, _variant: str) -> Any:
    """The last state that was saved."""
    saved = SQLitePersister.from_values(db_path=str(folder / "burr.db")).load(None, "bench")
    state = saved["state"]
    return [saved["position"], *(state[name] for name in START_STATE)]


if __name__ == "__main__":
    main(Engine(run, run, final))
