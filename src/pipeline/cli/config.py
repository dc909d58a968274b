"""`awf config`: the effective settings, and where each was set."""

import sys
from datetime import timedelta

import click

from pipeline.app.setting_table import BY_NAME, DECLARATIONS
from pipeline.app.settings import Setting, SettingLevel, SettingOrigin
from pipeline.cli.location import settings_paths
from pipeline.cli.options import as_json_option, current_settings
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style
from pipeline.language.model import write_duration
from pipeline.text import align_columns, display_width, sanitize_line, truncate

_UNSET = Setting(None, SettingOrigin(SettingLevel.DEFAULT))
_MIN_COLUMNS = 20  # of a value on a narrow terminal


@click.command("config")
@click.option("--backend", help="Show the settings of a run with this option.")
@as_json_option
def command(backend: str | None, *, as_json: bool) -> None:
    """Print the effective settings and where each was set.

    A project's file (.awf/config.kdl) overrides the user's (~/.config/awf/config.kdl), and options override both.
    """
    entries = current_settings().with_option("backend", "--backend", backend).entries
    always = [declared.name for declared in DECLARATIONS if "*" not in declared.name]
    names = (*always, *sorted(entries.keys() - set(always)))
    settings = {name: entries.get(name, _UNSET) for name in names}
    if as_json:
        print_json({name: _as_object(setting) for name, setting in settings.items()})
        return
    style = Style.of(sys.stdout)
    origins = [sanitize_line(str(setting.origin)) for setting in settings.values()]
    room = terminal_width() - max(map(display_width, settings)) - max(map(display_width, origins)) - 4
    values = [truncate(_display(name, setting.value), max(room, _MIN_COLUMNS)) for name, setting in settings.items()]
    rows = list(zip(settings, values, origins, strict=True))
    for name, value, origin in align_columns(rows, frozenset()):
        click.echo(f"{style.name(name)}  {value}  {style.quiet(origin.rstrip())}")
    click.echo()
    files = settings_paths()
    for title, path in (("user", files.user), ("project", files.project)):
        missing = "" if path.exists() else " (not found)"
        display_path = truncate(sanitize_line(files.display(path)), terminal_width() - 22)
        click.echo(style.quiet(f"{title:<8}") + display_path + missing)


def _as_object(setting: Setting) -> dict[str, object]:
    value, origin = setting.value, setting.origin
    if isinstance(value, timedelta):
        value = write_duration(value)
    return {"value": value, "from": origin.level, "name": origin.name or None, "line": origin.line or None}


def _display(name: str, value: object) -> str:
    match value:
        case None:
            return str(BY_NAME[name].default or BY_NAME[name].without)
        case timedelta():
            return write_duration(value)
        case tuple():
            words = [sanitize_line(str(word)) for word in value]
            return " ".join(f'"{word}"' if " " in word or not word else word for word in words)
        case float():
            return f"{value:g}"
        case _:
            return sanitize_line(str(value))
