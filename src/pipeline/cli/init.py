"""`awf init`: look at a project, and propose the files that awf works with there."""

import os
import shutil
import sys

import click

from pipeline.app.catalog import CatalogEntry
from pipeline.app.init import (
    CONFIG,
    ProjectScanner,
    ProposedFile,
    github_file,
    self_check_file,
    settings_file,
    workflow_files,
    write_proposed,
)
from pipeline.cli.location import catalog, project
from pipeline.cli.options import settings_files, settings_or_defaults
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.text import did_you_mean, sanitize

_WITHOUT_AGENT = ("awf doctor", "awf demo")  # the next commands where no agent was found


@click.command("init")
@click.option("--workflow", metavar="NAME", help="Also copy this shipped workflow and its prompts into workflows/.")
@click.option("--github", is_flag=True, help="Also propose a GitHub workflow that runs the review tools.")
@click.option("--yes", is_flag=True, help="Write the files without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the files.")
def command(workflow: str | None, *, github: bool, yes: bool, dry_run: bool) -> None:
    """Propose the settings and the check of this project.

    Looks for the project's check, review tools and an agent, by files and by programs on PATH; executes nothing. Shows
    each file, and writes it if you agree. Files that exist are never changed.
    """
    if yes and dry_run:
        raise click.UsageError("--yes and --dry-run cannot be combined")
    root, style = project(), Style.of(sys.stdout)
    scan = ProjectScanner(root, shutil.which).scan(settings_or_defaults().backend)
    groups = [[file] for file in (settings_file(scan), self_check_file(scan)) if file]
    if workflow:
        groups.append(list(workflow_files(_shipped(workflow))))
    if github and (file := github_file(scan)):
        groups.append([file])
    proposed = [file for group in groups for file in group]
    kept = [file.path for file in proposed if os.path.lexists(root / file.path)]

    click.echo(f"{style.name('Project')} {sanitize(str(root))}")
    tools = [tool.name for tool in scan.tools]
    for title, found in (("check", scan.checks), ("tools", tools), ("agent", [scan.agent] if scan.agent else [])):
        click.echo(f"  {title:<7}{sanitize(', '.join(found)) or style.warning('not found')}")
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    chosen = list[ProposedFile]()
    for group in groups:
        new = [file for file in group if file.path not in kept]
        for file in new:
            _show(file, style)
        if new and (yes or (asks and not dry_run and _agreed(new))):
            chosen += new
    # Nothing is written before every question is answered: Ctrl-D and Ctrl-C leave the project as it was.
    written = [file.path for file in chosen if write_proposed(root, file)]
    kept += [file.path for file in chosen if file.path not in written]

    click.echo()
    notes = [*scan.notes, *(["No tools, so no GitHub workflow is proposed."] if github and not tools else [])]
    lines = [("kept", f"{path} (it exists)") for path in kept] + [("written", path) for path in written]
    for title, text in (*lines, *(("note", note) for note in notes)):
        click.echo(f"{title:<9}{sanitize(text)}")
    if not written:
        click.echo("Nothing was written.")
    if len(kept) < len(proposed) and not (yes or asks or dry_run):
        raise AwfError("there is no terminal to ask on", help="add --yes to write these files, or --dry-run")
    if tools and CONFIG in written:
        files = settings_files()
        trust = sanitize(f'trust {{ project "{root.resolve()}" }}')
        click.echo(f"To let awf run these tools, add {trust} to {sanitize(files.display(files.user))}.")
    runs = ("awf review", f'awf run {workflow or "quick-dev"} --goal "..."')
    click.echo("\n".join(["", style.name("Next"), *(f"  {line}" for line in (runs if scan.agent else _WITHOUT_AGENT))]))


def _shipped(name: str) -> CatalogEntry:
    found = catalog()
    entries = {
        entry.name: entry for _, entry in found.entries() if entry.path.resolve().parent == found.shipped.resolve()
    }
    if name not in entries:
        help = did_you_mean(name, entries) or f"the shipped workflows are {', '.join(entries)}"
        raise AwfError(f'unknown shipped workflow "{name}"', help=help)
    return entries[name]


def _show(file: ProposedFile, style: Style) -> None:
    click.echo(f"\n{style.name(file.path)}" + (style.quiet("  (executable)") if file.executable else ""))
    for line in file.text.splitlines():
        click.echo(f"  {sanitize(line)}".rstrip())


def _agreed(files: list[ProposedFile]) -> bool:
    """Ask until the answer is yes or no; the end of the input raises click.Abort."""
    what = files[0].path if len(files) == 1 else f"these {len(files)} files"
    while True:
        click.echo(f"Write {what} (y/n): ", nl=False)
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        if (answer := line.strip().lower()) in ("y", "yes", "n", "no"):
            return answer.startswith("y")
