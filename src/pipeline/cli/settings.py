"""The settings as every command meets them: read once, and refused with all their errors."""

import os
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import click

from pipeline.app.settings import NOTHING_SET, Places, Settings, load_settings
from pipeline.cli.formats import block
from pipeline.cli.here import home, store
from pipeline.cli.terminal import Style, inert
from pipeline.errors import AwfError


def places() -> Places:
    """Where the settings files are for this user and the project around this directory."""
    project = Path(os.path.normpath(Path.cwd() / store() / "config.kdl"))
    return replace(Places.of(Path.cwd(), home(), os.environ), project=project)


def settings_if_sound() -> Settings:
    """The settings in force here, for a command that only looks: what has errors says nothing."""
    loaded = load_settings(places())
    _tell(loaded.ignored)
    return loaded.settings if not loaded.wrong else NOTHING_SET


def settings_here() -> Settings:
    """The settings in force here; a file with errors stops the command, whatever it was to do."""
    loaded = load_settings(places())
    if not loaded.wrong:
        _tell(loaded.ignored)
        return loaded.settings
    style = Style.of(sys.stderr)
    for source, diagnostics in loaded.wrong:
        click.echo("\n".join(block(one, source, style) for one in diagnostics), err=True)
    names = " and ".join(f'"{source.name}"' for source, _ in loaded.wrong)
    raise AwfError(f"the settings in {names} have errors", help="mend them, or move the file away")


@cache  # a command may ask for its settings more than once
def _tell(ignored: str) -> None:
    if ignored:
        click.echo(f"note: {inert(ignored)}", err=True)
