"""`awf init`: look at a project, and propose the files that awf works with there."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pipeline.app.catalog import CatalogEntry
from pipeline.app.init import (
    CONFIG,
    ProjectScan,
    ProjectScanner,
    ProposedFile,
    github_file,
    self_check_file,
    settings_file,
    workflow_files,
    write_proposed,
)
from pipeline.cli.location import catalog, project, settings_paths
from pipeline.cli.options import settings_or_defaults
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.text import did_you_mean, sanitize

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
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
    groups = _proposals(scan, workflow, github=github)
    proposed = [file for group in groups for file in group]
    existing = {file.path for file in proposed if os.path.lexists(root / file.path)}
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()

    for line in _found_lines(root, scan, style):
        click.echo(line)
    chosen = list[ProposedFile]()
    for group in groups:
        new = [file for file in group if file.path not in existing]
        for file in new:
            _show(file, style)
        if new and (yes or (has_terminal and not dry_run and _agreed(new))):
            chosen += new
    # Nothing is written before every question is answered: Ctrl-D and Ctrl-C leave the project as it was.
    written = [file.path for file in chosen if write_proposed(root, file)]
    existing |= {file.path for file in chosen} - {*written}

    notes = list(scan.notes)
    if github and not scan.tools:
        notes.append("No tools, so no GitHub workflow is proposed.")
    click.echo()
    _echo_all("kept     ", (f"{file.path} (it exists)" for file in proposed if file.path in existing))
    _echo_all("written  ", written)
    _echo_all("note     ", notes)
    if not written:
        click.echo("Nothing was written.")
    if len(existing) < len(proposed) and not (yes or has_terminal or dry_run):
        raise AwfError("there is no terminal to ask on", help="add --yes to write these files, or --dry-run")
    if scan.tools and CONFIG in written:
        files = settings_paths()
        trust = sanitize(f'trust {{ project "{root.resolve()}" }}')
        click.echo(f"To let awf run these tools, add {trust} to {sanitize(files.display(files.user))}.")
    click.echo(f"\n{style.name('Next')}")
    _echo_all("  ", ("awf review", f'awf run {workflow or "quick-dev"} --goal "..."') if scan.agent else _WITHOUT_AGENT)


def _echo_all(title: str, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{title}{sanitize(line)}")


def _proposals(scan: ProjectScan, workflow: str | None, *, github: bool) -> list[list[ProposedFile]]:
    """Return the files to propose; those of a group are written together or not at all."""
    files = [settings_file(scan), self_check_file(scan), github_file(scan) if github else None]
    groups = [[file] for file in files if file]
    if workflow:
        groups.append(list(workflow_files(_shipped(workflow))))
    return groups


def _found_lines(root: Path, scan: ProjectScan, style: Style) -> Iterator[str]:
    yield f"{style.name('Project')} {sanitize(str(root))}"
    found = {
        "check": ", ".join(scan.checks),
        "tools": ", ".join(tool.name for tool in scan.tools),
        "agent": scan.agent,
    }
    for title, names in found.items():
        yield f"  {title:<7}{sanitize(names) or style.warning('not found')}"


def _shipped(name: str) -> CatalogEntry:
    shipped = catalog().shipped.resolve()
    entries = {entry.name: entry for _, entry in catalog().entries() if entry.path.resolve().parent == shipped}
    if name not in entries:
        help = did_you_mean(name, entries) or f"the shipped workflows are {', '.join(entries)}"
        raise AwfError(f'unknown shipped workflow "{name}"', help=help)
    return entries[name]


def _show(file: ProposedFile, style: Style) -> None:
    executable = style.quiet("  (executable)") if file.executable else ""
    click.echo(f"\n{style.name(file.path)}{executable}")
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
        answer = line.strip().lower()
        if answer in _ANSWERS:
            return _ANSWERS[answer]
