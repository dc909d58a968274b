"""What the commands that look at runs have in common: finding the run, fitting the terminal, writing texts whole."""

import json
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, BinaryIO

import click

from pipeline.app.store import RunStore, find_run, split_run
from pipeline.cli.terminal import UNLIMITED, Style, sanitize
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State, replay
from pipeline.text import display_width, pad

_LONGEST_LINE = 64 * 1024


def load_run(store: RunStore, name: str) -> tuple[str, list[AnyRecord]]:
    """The id of the run that is meant, and its records."""
    run_id = find_run(name, store.journal.runs())
    return run_id, [entry.record for entry in store.journal.entries(run_id)]


def load_run_and_name(
    store: RunStore, words: Sequence[str], names: Callable[[State], Collection[str]], *, needed: bool = False
) -> tuple[str, list[AnyRecord], str]:
    """The run that arguments mean, its records, and the name after it, such as a stage; empty when there is none.

    The run may be left out for the newest, whose `names` tell the two apart where the name may be left out as well.
    """
    if len(words) > 2:
        raise click.UsageError(f"unexpected argument {words[2]!r}")

    def known(newest: str) -> Collection[str]:
        return names(replay(entry.record for entry in store.journal.entries(newest)))

    run_id, rest = split_run(words, store.journal.runs(), known, least=int(needed), most=1)
    return *load_run(store, run_id), next(iter(rest), "")


def stage_names(state: State) -> Collection[str]:
    """The stages that a run's workflow has now, and those it visited before it adopted another one."""
    return {*state.workflow.by_id, *state.visits}


def terminal_width() -> int:
    """The columns there are: those of the terminal, and plenty where nothing wraps."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def paint_status(status: str, style: Style) -> str:
    """A status in its colour."""
    paints = {"success": style.good, "fail": style.error, "error": style.error, "running": style.name}
    return paints.get(status.strip(), style.warning)(status)


def align_columns(rows: Sequence[Sequence[str]], right: frozenset[int]) -> list[list[str]]:
    """The cells of a table, each padded to the width of its column; those in `right` end at the same place."""
    widths = [max(display_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [[_cell(cell, widths[n], right=n in right) for n, cell in enumerate(row)] for row in rows]


def _cell(text: str, room: int, *, right: bool) -> str:
    return " " * (room - display_width(text)) + text if right else pad(text, room)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def print_text(text: str) -> None:
    """Print a text: as it is into a pipe, inert on a terminal, always with an end to its last line."""
    if sys.stdout.isatty():
        click.echo("\n".join(map(sanitize, text.splitlines())))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace") + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.buffer.flush()


def copy_to_stdout(file: BinaryIO) -> None:
    """Print what is left of a file: its bytes into a pipe, inert lines on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        while line := file.readline(_LONGEST_LINE):
            click.echo(sanitize(line.decode(errors="replace").removesuffix("\n").removesuffix("\r")))
    else:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
