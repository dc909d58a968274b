"""`awf config`: the settings in force, and where each was set."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from pipeline.app.settings import Setting, SettingLevel, SettingOrigin, Settings, SettingsPaths
from pipeline.cli.options import as_json_option, current_settings, settings_files
from pipeline.cli.output import align_columns, print_json, terminal_width
from pipeline.cli.terminal import Style
from pipeline.language.model import write_duration
from pipeline.text import display_width, sanitize_line, truncate

# What holds where nothing is set, in the order in which it is shown.
DEFAULTS = {
    "backend": "the first agent on PATH",
    "model": "the agent's own",
    "provider": "the agent's own",
    "reasoning_effort": "the agent's own",
    "environment": "no more than every program needs",
    "on": "this machine",
    "artefacts": "none",
    "queue": "awf",
    "remote": "none",
    "limits.max_cost_usd": "no limit",
    "limits.timeout": "no limit",
    "limits.idle": "no limit",
}
_UNSET = SettingOrigin(SettingLevel.DEFAULT)
_LEAST = 20  # columns of a value on a narrow terminal


@click.command("config")
@click.option("--backend", help="What the run would be started with.")
@as_json_option
def command(backend: str | None, *, as_json: bool) -> None:
    """Print the settings in force, and where each was set.

    A project's file (.awf/config.kdl) goes before the user's (~/.config/awf/config.kdl), an option before both.
    """
    settings = current_settings().with_option("backend", "--backend", backend)
    if as_json:
        print_json({name: as_object(setting) for name, setting in effective(settings)})
    else:
        for line in _lines(settings, settings_files(), Style.of(sys.stdout)):
            click.echo(line)


def effective(settings: Settings) -> Iterator[tuple[str, Setting]]:
    """Every setting there is with its value, the unset ones too."""
    for name in (*DEFAULTS, *sorted(settings.entries.keys() - DEFAULTS.keys())):
        yield name, settings.entries.get(name, Setting(None, _UNSET))


def as_object(setting: Setting) -> dict[str, Any]:
    """A setting as JSON has it."""
    origin = setting.origin
    value = write_duration(setting.value) if isinstance(setting.value, timedelta) else setting.value
    return {"value": value, "from": origin.level, "name": origin.name or None, "line": origin.line or None}


def _lines(settings: Settings, where: SettingsPaths, style: Style) -> Iterator[str]:
    said = [
        (name, _shown(name, setting.value), sanitize_line(str(setting.origin))) for name, setting in effective(settings)
    ]
    taken = max(display_width(name) for name, _, _ in said) + max(display_width(origin) for _, _, origin in said) + 4
    rows = [(name, truncate(value, max(terminal_width() - taken, _LEAST)), origin) for name, value, origin in said]
    for name, value, origin in align_columns(rows, frozenset()):
        yield f"{style.name(name)}  {value}  {style.quiet(origin.rstrip())}"
    yield ""
    for title, path in (("user", where.user), ("project", where.project)):
        missing = "" if path.exists() else " (not there)"
        yield style.quiet(f"{title:<8}") + truncate(sanitize_line(where.display(path)), terminal_width() - 22) + missing


def _shown(name: str, value: object) -> str:
    match value:
        case None:
            return DEFAULTS[name]
        case timedelta():
            return write_duration(value)
        case tuple():
            return " ".join(_quoted(sanitize_line(str(word))) for word in value)
        case float():
            return f"{value:g}"
        case _:
            return sanitize_line(str(value))


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word or not word else word
