"""`awf findings`: what reviewers and tools found, and what became of it. No run is needed."""

from typing import ClassVar

import click

from pipeline.cli.main import Commands, LazyGroup

_HERE = "pipeline.cli.findings"


class Findings(LazyGroup):
    """The commands about findings."""

    lazy_commands: ClassVar[Commands] = {
        "diff": (f"{_HERE}.lists:diff_command", "Tell what became of findings between two passes."),
        "export": (f"{_HERE}.lists:export_command", "Write findings in the format of another program."),
        "import": (f"{_HERE}.import_:command", "Take in what reviewers and tools returned: one pass."),
        "list": (f"{_HERE}.lists:list_command", "List findings, what must be fixed first."),
        "revalidate": (f"{_HERE}.revalidate:command", "Look again at findings that are said to be fixed."),
        "show": (f"{_HERE}.show:show_command", "Print all that is known of a finding."),
        "triage": (f"{_HERE}.triage:command", "Decide about findings: not a defect, not to be fixed, fixed, open."),
        "walk": (f"{_HERE}.walk:command", "Go through findings one by one and decide about each."),
        "why": (f"{_HERE}.show:why_command", "Tell who said it, how it was recognised, and who decided what."),
    }


@click.command("findings", cls=Findings)
def command() -> None:
    """What reviewers and tools found, and what became of it.

    What is taken in together is one pass. A finding keeps its identity from pass to pass, when lines move and
    when it is told in other words.
    """
