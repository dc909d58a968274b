"""Groups of commands that are listed without being imported, so that help is quick."""

import importlib
from collections.abc import Mapping
from typing import ClassVar

import click

from pipeline.language.names import did_you_mean

Commands = Mapping[str, tuple[str, str]]  # the module whose `command` it is, and what it is for


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are used."""

    commands_known: ClassVar[Commands] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(self.commands_known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.commands_known:
            return None
        found: click.Command = importlib.import_module(self.commands_known[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(sorted((name, purpose) for name, (_, purpose) in self.commands_known.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], self.commands_known)
            raise click.UsageError(f"{error.message.rstrip('.')}; {hint}" if hint else error.message, ctx) from None
