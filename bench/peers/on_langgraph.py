"""The review loop on LangGraph with its SQLite saver, `durability="sync"`: a step begins when the last one is saved.

The variant `delta` keeps the findings in a `DeltaChannel` (beta), which saves what a step added; without it the channel
is the usual list with a reducer, saved whole at every step.
"""

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.peers.protocol import REVIEWERS, Engine, begun, main, review, stages
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

START_STATE = {"findings": [], "told": 0, "round": 0}
Values = dict[str, Any]  # what a node is given, whichever of the two states the graph has


def extended(findings: list[str], added: Sequence[list[str]]) -> list[str]:
    """The reducer of a delta channel."""
    return [*findings, *(text for texts in added for text in texts)]


class Whole(TypedDict):
    """The state, its findings saved whole."""

    findings: Annotated[list[str], operator.add]
    told: int
    round: int


class Delta(TypedDict):
    """The state, its findings saved as what was added."""

    findings: Annotated[list[str], DeltaChannel(extended)]
    told: int
    round: int


def code(state: Values) -> Values:
    """The first stage."""
    begun("code", state["round"])
    return {}


def reviewer(name: str, rounds: int) -> Any:
    """A review stage."""

    def stage(state: Values) -> Values:
        begun(f"review_{name}", state["round"])
        text = review(name, state["round"], rounds)
        return {"findings": [text]} if text else {}

    return stage


def gate(state: Values) -> Values:
    """The decision, as a stage of its own."""
    begun("gate", state["round"])
    return {}


def fix(state: Values) -> Values:
    """The stage that is told all findings."""
    begun("fix", state["round"])
    return {"told": len(state["findings"]), "round": state["round"] + 1}


def way(state: Values) -> str:
    """Where the gate leads."""
    return "fix" if len(state["findings"]) > state["told"] else END


@contextmanager
def compiled(folder: Path, rounds: int, variant: str) -> Iterator[tuple[CompiledStateGraph, dict[str, Any]]]:
    """The graph on its database, and the configuration of its one thread."""
    builder = StateGraph(Delta if variant == "delta" else Whole)
    builder.add_node("code", code)
    for name in REVIEWERS:
        builder.add_node(f"review_{name}", reviewer(name, rounds))
    builder.add_node("gate", gate)
    builder.add_node("fix", fix)
    order = [START, "code", *(f"review_{name}" for name in REVIEWERS), "gate"]
    for before, after in [*pairwise(order), ("fix", "review_a")]:
        builder.add_edge(before, after)
    builder.add_conditional_edges("gate", way, ["fix", END])
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": stages(rounds) + 10}
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield builder.compile(checkpointer=saver), config


def run(folder: Path, rounds: int, variant: str) -> None:
    """Run the loop."""
    with compiled(folder, rounds, variant) as (graph, config):
        graph.invoke(START_STATE, config, durability="sync")


def resume(folder: Path, rounds: int, variant: str) -> None:
    """Invoke the thread again without input, as the documentation says; with input when it has no checkpoint."""
    with compiled(folder, rounds, variant) as (graph, config):
        saved = graph.checkpointer.get_tuple(config)
        graph.invoke(None if saved else START_STATE, config, durability="sync")


def final(folder: Path, rounds: int, variant: str) -> Any:
    """The values of the last checkpoint, and what would come next."""
    with compiled(folder, rounds, variant) as (graph, config):
        snapshot = graph.get_state(config)
        return [snapshot.values, snapshot.next]


if __name__ == "__main__":
    main(Engine(run, resume, final))
