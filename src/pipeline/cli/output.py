"""What the commands that show runs share: finding the run, tables, and printing texts as they are."""

import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pipeline.app.run_names import find_run, split_run
from pipeline.cli.terminal import UNLIMITED, Style
from pipeline.text import align_columns as align_columns  # noqa: PLC0414 - for the commands about findings
from pipeline.text import display_width, sanitize, truncate

if TYPE_CHECKING:
    from pipeline.app.history import RunHistory
    from pipeline.app.store import RunStore
    from pipeline.engine.state import State

_LINE_LIMIT = 64 * 1024
_NARROWEST = 8  # columns that the last column of a table keeps


def load_history(store: "RunStore", name: str) -> "RunHistory":
    """The history of the run that a name, the beginning of one, or "latest" means."""
    from pipeline.app.history import RunHistory  # noqa: PLC0415 - commands about findings save 20 ms

    run_id = find_run(name, store.journal.runs())
    return RunHistory.read(entry.record for entry in store.journal.entries(run_id))


def load_history_and_name(
    store: "RunStore", words: Sequence[str], names: "Callable[[State], Collection[str]]", *, needed: bool = False
) -> "tuple[RunHistory, str]":
    """The history of the run that arguments mean, and the name after it, such as a stage; empty when there is none.

    The run may be left out for the newest one. If the name may be left out as well, `names` lists what a single
    argument can mean in the newest run; any other argument is a run.
    """
    if len(words) > 2:
        raise click.UsageError(f"unexpected argument {words[2]!r}")

    @cache  # the newest run is read once, whether for its names or because it is meant
    def read(run_id: str) -> "RunHistory":
        return load_history(store, run_id)

    def newest_names(newest: str) -> Collection[str]:
        return names(read(newest).state)

    run_id, rest = split_run(words, store.journal.runs(), newest_names, least=int(needed), most=1)
    return read(run_id), next(iter(rest), "")


def stage_names(state: "State") -> Collection[str]:
    """The stages of a run's workflow, and those it visited before it adopted this workflow."""
    return {*state.workflow.by_id, *state.visits}


def terminal_width() -> int:
    """The columns of the terminal; plenty when the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def paint_status(status: str, style: Style) -> str:
    """A status in its color."""
    paints = {"success": style.good, "fail": style.error, "error": style.error, "running": style.name}
    return paints.get(status.strip(), style.warning)(status)


def table_lines(rows: Sequence[Sequence[str]], right: frozenset[int], status: int, style: Style) -> Iterator[str]:
    """The lines of a table with a header: statuses in their color, the last column cut to fit the terminal."""
    cells = align_columns(rows, right)
    room = style.width - 1 - sum(display_width(cell) + 2 for cell in cells[0][:-1])
    for number, row in enumerate(cells):
        row[-1] = truncate(row[-1].rstrip(), max(room, _NARROWEST))
        if number:
            row[status] = paint_status(row[status], style)
        line = "  ".join(row).rstrip()
        yield line if number else style.quiet(line)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def print_text(text: str) -> None:
    """Print a text, ending with a newline: unchanged into a pipe, sanitized on a terminal."""
    if sys.stdout.isatty():
        click.echo("\n".join(map(sanitize, text.splitlines())))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace") + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.buffer.flush()


def copy_to_stdout(file: BinaryIO) -> None:
    """Print the rest of a file: its bytes into a pipe, sanitized lines on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        while line := file.readline(_LINE_LIMIT):
            click.echo(sanitize(line.decode(errors="replace").removesuffix("\n").removesuffix("\r")))
    else:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
