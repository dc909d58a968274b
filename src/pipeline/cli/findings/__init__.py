"""`awf findings`: what reviewers and tools found, and what became of it. No run is needed."""

import importlib

import click

from pipeline.language.names import did_you_mean

# What each command is for, and the module of this package that holds it.
COMMANDS = {
    "diff": ("diff", "Tell what became of findings between two passes."),
    "export": ("exporting", "Write findings in the format of another program."),
    "import": ("importing", "Take in what reviewers and tools returned: one pass."),
    "list": ("listing", "List findings, what must be fixed first."),
    "show": ("showing", "Print all that is known of a finding."),
    "triage": ("triaging", "Decide about findings: not a defect, not to be fixed, fixed, open."),
    "why": ("why", "Tell who said it, how it was recognised, and who decided what."),
}


class LazyFindings(click.Group):
    """Lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"{__name__}.{COMMANDS[cmd_name][0]}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(sorted((name, purpose) for name, (_, purpose) in COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"{error.message.rstrip('.')}; {hint}" if hint else error.message, ctx) from None


@click.command("findings", cls=LazyFindings)
def command() -> None:
    """What reviewers and tools found, and what became of it.

    What is taken in together is one pass. A finding keeps its identity from pass to pass, when lines move and
    when it is told in other words.
    """
