"""`awf context`: what a run keeps."""

import json
import sys
from typing import Any

import click

from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_run_and_name, print_json, print_text, terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.engine.state import replay
from pipeline.errors import AwfError
from pipeline.text import did_you_mean, display_width, sanitize_line, truncate

VALUE_WIDTH = 200  # columns of a value where no terminal says how many there are
_LEAST = 20


@click.command("context")
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]")
@store_location_options
@as_json_option
def command(words: tuple[str, ...], where: StoreLocation, *, as_json: bool) -> None:
    """Print what a run keeps: every key, or the whole value of one.

    RUN is a run's id, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        run_id, records, key = load_run_and_name(store, words, lambda state: state.context.values)
    values = replay(records).context.values
    if not key:
        _all(dict(values), as_json=as_json)
    elif key not in values:
        help = did_you_mean(key, values) or f'"awf context {run_id}" lists the keys'
        raise AwfError(f'run {run_id} keeps no "{key}"', help=help)
    else:
        _one(values[key], as_json=as_json)


def _all(values: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(values)
        return
    style = Style.of(sys.stdout)
    for key in sorted(values):
        room = min(terminal_width(), VALUE_WIDTH) - display_width(key) - 4
        click.echo(f"{style.name(sanitize_line(key))} = {_shown(values[key], room)}")


def _one(value: Any, *, as_json: bool) -> None:
    if isinstance(value, str) and not as_json:
        print_text(value)
    else:
        print_json(value)


def _shown(value: Any, room: int) -> str:
    """A value in one line; one that is cut says how long it is."""
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = sanitize_line(whole[: 2 * VALUE_WIDTH])
    if len(whole) <= 2 * VALUE_WIDTH and display_width(text) <= max(room, _LEAST):
        return text
    note = f" ({len(value)} entries)" if isinstance(value, list) else f" ({len(whole)} characters)"
    return truncate(f"{text} ", max(room, _LEAST) - len(note)) + note
