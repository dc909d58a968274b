"""What the commands that look at runs have in common: finding the run, fitting the terminal, writing texts whole."""

import json
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, BinaryIO

import click

from pipeline.app.lookup import find_run, split_run
from pipeline.app.shelf import Shelf
from pipeline.cli.terminal import UNLIMITED, Style, inert
from pipeline.engine.fold import replay
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State
from pipeline.observe.text import columns, padded

_LONGEST_LINE = 64 * 1024


def run_on(shelf: Shelf, name: str) -> tuple[str, list[AnyRecord]]:
    """The id of the run that is meant, and its records."""
    run_id = find_run(name, shelf.journal.runs())
    return run_id, [entry.record for entry in shelf.journal.entries(run_id)]


def run_and_name(
    shelf: Shelf, words: Sequence[str], names: Callable[[State], Collection[str]], *, needed: bool = False
) -> tuple[str, list[AnyRecord], str]:
    """The run that arguments mean, its records, and the name after it, such as a stage; empty when there is none.

    The run may be left out for the newest, whose `names` tell the two apart where the name may be left out as well.
    """
    if len(words) > 2:
        raise click.UsageError(f"unexpected argument {words[2]!r}")

    def known(newest: str) -> Collection[str]:
        return names(replay(entry.record for entry in shelf.journal.entries(newest)))

    run_id, rest = split_run(words, shelf.journal.runs(), known, least=int(needed), most=1)
    return *run_on(shelf, run_id), next(iter(rest), "")


def stages_of(state: State) -> Collection[str]:
    """The stages that a run's workflow has now, and those it visited before it adopted another one."""
    return {*state.workflow.by_id, *state.visits}


def width() -> int:
    """The columns there are: those of the terminal, and plenty where nothing wraps."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def painted(status: str, style: Style) -> str:
    """A status in its colour."""
    paints = {"success": style.good, "fail": style.error, "error": style.error, "running": style.name}
    return paints.get(status.strip(), style.warning)(status)


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int]) -> list[list[str]]:
    """The cells of a table, each padded to the width of its column; those in `right` end at the same place."""
    widths = [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [[_cell(cell, widths[n], right=n in right) for n, cell in enumerate(row)] for row in rows]


def _cell(text: str, room: int, *, right: bool) -> str:
    return " " * (room - columns(text)) + text if right else padded(text, room)


def say_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def say_whole(text: str) -> None:
    """Print a text: as it is into a pipe, inert on a terminal, always with an end to its last line."""
    if sys.stdout.isatty():
        click.echo("\n".join(map(inert, text.splitlines())))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace") + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.buffer.flush()


def pour(file: BinaryIO) -> None:
    """Print what is left of a file: its bytes into a pipe, inert lines on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        while line := file.readline(_LONGEST_LINE):
            click.echo(inert(line.decode(errors="replace").removesuffix("\n").removesuffix("\r")))
    else:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
