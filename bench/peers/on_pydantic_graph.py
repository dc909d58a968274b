"""The review loop on pydantic-graph 1 with `FileStatePersistence`; version 2 has no persistence any more."""

import asyncio
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peers.protocol import Engine, begun, main, review
from pydantic_graph import BaseNode, End, GraphRunContext
from pydantic_graph.graph import Graph
from pydantic_graph.persistence.file import FileStatePersistence


@dataclass
class State:
    """What the run accumulates."""

    findings: list[str] = field(default_factory=list)
    told: int = 0
    round: int = 0


Here = GraphRunContext[State, int]  # the dependency is the number of rounds


def reviewed(ctx: Here, name: str) -> None:
    """What a review stage does."""
    begun(f"review_{name}", ctx.state.round)
    if text := review(name, ctx.state.round, ctx.deps):
        ctx.state.findings.append(text)


@dataclass
class Code(BaseNode[State, int, int]):
    """The first stage."""

    async def run(self, ctx: Here) -> "ReviewA":
        begun("code", ctx.state.round)
        return ReviewA()


@dataclass
class ReviewA(BaseNode[State, int, int]):
    """A review stage."""

    async def run(self, ctx: Here) -> "ReviewB":
        reviewed(ctx, "a")
        return ReviewB()


@dataclass
class ReviewB(BaseNode[State, int, int]):
    """A review stage."""

    async def run(self, ctx: Here) -> "ReviewC":
        reviewed(ctx, "b")
        return ReviewC()


@dataclass
class ReviewC(BaseNode[State, int, int]):
    """A review stage."""

    async def run(self, ctx: Here) -> "Gate":
        reviewed(ctx, "c")
        return Gate()


@dataclass
class Gate(BaseNode[State, int, int]):
    """The decision."""

    async def run(self, ctx: Here) -> "Fix | End[int]":
        begun("gate", ctx.state.round)
        return Fix() if len(ctx.state.findings) > ctx.state.told else End(ctx.state.round)


@dataclass
class Fix(BaseNode[State, int, int]):
    """The stage that is told all findings."""

    async def run(self, ctx: Here) -> ReviewA:
        begun("fix", ctx.state.round)
        ctx.state.told, ctx.state.round = len(ctx.state.findings), ctx.state.round + 1
        return ReviewA()


GRAPH = Graph(nodes=(Code, ReviewA, ReviewB, ReviewC, Gate, Fix))


def run(folder: Path, rounds: int, _variant: str) -> None:
    """Run the loop."""
    asyncio.run(GRAPH.run(Code(), state=State(), deps=rounds, persistence=FileStatePersistence(folder / "run.json")))


async def _resume(folder: Path, rounds: int) -> None:
    async with GRAPH.iter_from_persistence(FileStatePersistence(folder / "run.json"), deps=rounds) as going_on:
        [_ async for _ in going_on]


def resume(folder: Path, rounds: int, variant: str) -> None:
    """Go on with `iter_from_persistence`, as the documentation says; begin where there is no file."""
    if (folder / "run.json").exists():
        asyncio.run(_resume(folder, rounds))
    else:
        run(folder, rounds, variant)


def final(folder: Path, _rounds: int, _variant: str) -> Any:
    """The state of the last snapshot."""
    saved = FileStatePersistence[State, int](folder / "run.json")
    saved.set_graph_types(GRAPH)
    last = asyncio.run(saved.load_all())[-1]
    return [last.kind, asdict(last.state)]


if __name__ == "__main__":
    main(Engine(run, resume, final))
