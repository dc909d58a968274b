"""`awf demo`: a run to watch, on a project made for it."""

import shutil
import tempfile
from pathlib import Path

import click
from rich.console import Console

from pipeline.demo.story import Story


@click.command("demo")
@click.option("--crash", is_flag=True, help="Kill the run in the middle and resume it.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Where the project is made, a directory that is empty or not there yet; a temporary one by default.",
)
@click.option("--keep/--discard", default=True, show_default=True, help="What becomes of the project in the end.")
def command(directory: Path | None, *, crash: bool, keep: bool) -> int:
    """Watch findings reach an agent: a small project with defects, repaired in rounds by quick-dev.

    Needs git and nothing else: no key and no network. The agent is a small program that repairs only what it is told.
    """
    project = (directory or Path(tempfile.mkdtemp(prefix="awf-demo-"))).resolve()
    console = Console(highlight=False, soft_wrap=True)
    code = Story(project, console).tell(crash=crash, keep=keep)
    if not keep:
        shutil.rmtree(project)
        click.echo(f"{project} is removed.")
    return code
