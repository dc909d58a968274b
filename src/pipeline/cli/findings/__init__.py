"""`awf findings`: what reviewers and tools found, and what became of it. No run is needed."""

from typing import ClassVar

import click

from pipeline.cli.main import Commands, LazyGroup

_HERE = "pipeline.cli.findings"


class Findings(LazyGroup):
    """The commands about findings."""

    lazy_commands: ClassVar[Commands] = {
        "diff": (f"{_HERE}.lists:diff_command", "Show what became of findings between two passes."),
        "export": (f"{_HERE}.lists:export_command", "Export findings in the format of another program."),
        "fix": (f"{_HERE}.fix:command", "Apply the fixes that were accepted, with an agent."),
        "import": (f"{_HERE}.import_:command", "Import the reports of reviewers and tools as one pass."),
        "list": (f"{_HERE}.lists:list_command", "List findings, the most important first."),
        "merge": (f"{_HERE}.triage:merge_command", "Make findings one line of work: the same defect."),
        "show": (f"{_HERE}.show:show_command", "Show a finding and its evidence."),
        "split": (f"{_HERE}.triage:split_command", "Make findings lines of work of their own."),
        "triage": (f"{_HERE}.triage:command", "Decide about findings: open, fixed or dismissed."),
        "walk": (f"{_HERE}.walk:command", "Go through findings one by one and decide about each."),
        "why": (f"{_HERE}.show:why_command", "Explain who reported a finding and who decided what."),
    }


@click.command("findings", cls=Findings)
def command() -> None:
    """What reviewers and tools found, and what became of it.

    Reports that are imported together are one pass. A finding keeps its identity from pass to pass, when lines move and
    when it is described in other words. Findings of several reviewers about one defect are one line of work.
    """
