"""`awf context`: what a run keeps."""

import json
import sys
from typing import Any

import click

from pipeline.cli.looking import run_and_name, say_json, say_whole, width
from pipeline.cli.options import as_json_option
from pipeline.cli.terminal import Style
from pipeline.cli.where import Where, where_option
from pipeline.engine.fold import replay
from pipeline.errors import AwfError
from pipeline.language.names import did_you_mean
from pipeline.observe.text import calm, columns, cut

VALUE_WIDTH = 200  # columns of a value where no terminal says how many there are
_LEAST = 20


@click.command("context")
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]")
@where_option
@as_json_option
def command(words: tuple[str, ...], where: Where, *, as_json: bool) -> None:
    """Print what a run keeps: every key, or the whole value of one.

    RUN is a run's id, the beginning of one, or "latest", the default.
    """
    with where.shelf() as shelf:
        run_id, records, key = run_and_name(shelf, words, lambda state: state.context.values)
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
        say_json(values)
        return
    style = Style.of(sys.stdout)
    for key in sorted(values):
        click.echo(f"{style.name(calm(key))} = {_shown(values[key], min(width(), VALUE_WIDTH) - columns(key) - 4)}")


def _one(value: Any, *, as_json: bool) -> None:
    if isinstance(value, str) and not as_json:
        say_whole(value)
    else:
        say_json(value)


def _shown(value: Any, room: int) -> str:
    """A value in one line; one that is cut says how long it is."""
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = calm(whole[: 2 * VALUE_WIDTH])
    if len(whole) <= 2 * VALUE_WIDTH and columns(text) <= max(room, _LEAST):
        return text
    note = f" ({len(value)} entries)" if isinstance(value, list) else f" ({len(whole)} characters)"
    return cut(f"{text} ", max(room, _LEAST) - len(note)) + note
