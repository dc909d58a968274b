"""`awf context`: the key-value store of a run."""

import json
import sys
from typing import Any

import click

from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_history_and_name, print_json, print_text
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.text import did_you_mean, display_width, sanitize_line, truncate

MAX_WIDTH = 200  # columns of a line when the output is not a terminal
_NARROWEST = 20


@click.command("context")
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]")
@store_location_options
@as_json_option
def command(words: tuple[str, ...], where: StoreLocation, *, as_json: bool) -> None:
    """Print the context of a run: every key, or the whole value of one.

    RUN is the id of a run, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        history, key = load_history_and_name(store, words, lambda state: state.context.values)
    run_id, values = history.state.run_id, dict(history.state.context.values)
    if key and key not in values:
        help = did_you_mean(key, values) or f'"awf context {run_id}" lists the keys'
        raise AwfError(f'the context of run {run_id} has no key "{key}"', help=help)
    if as_json or (key and not isinstance(values[key], str)):
        print_json(values[key] if key else values)
    elif key:
        print_text(values[key])
    else:
        style = Style.of(sys.stdout)
        for name in sorted(values):
            room = min(style.width, MAX_WIDTH) - display_width(name) - 4
            click.echo(f"{style.name(sanitize_line(name))} = {_preview(values[name], max(room, _NARROWEST))}")


def _preview(value: Any, room: int) -> str:
    """A value on one line; a truncated one is followed by its length."""
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = sanitize_line(whole[: 2 * MAX_WIDTH])
    if len(whole) <= 2 * MAX_WIDTH and display_width(text) <= room:
        return text
    note = f" ({len(value)} entries)" if isinstance(value, list) else f" ({len(whole)} characters)"
    return truncate(f"{text} ", room - len(note)) + note
