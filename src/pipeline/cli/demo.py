"""`awf demo`: a run to watch, on a sample project."""

import shutil
import tempfile
from pathlib import Path

import click
from rich.console import Console

from pipeline.demo.scenario import Demo


@click.command("demo")
@click.option("--crash", is_flag=True, help="Kill the run in the middle and resume it.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Create the project in this new or empty directory. [default: a temporary one]",
)
@click.option("--keep/--discard", default=True, show_default=True, help="Keep or delete the project afterwards.")
def command(directory: Path | None, *, crash: bool, keep: bool) -> int:
    """Watch a sample project being reviewed and fixed.

    Runs the quick-dev workflow on a small project with defects. Needs git, but no API key and no network: the agent
    is a small program that fixes only what the findings in its prompt name.
    """
    project = (directory or Path(tempfile.mkdtemp(prefix="awf-demo-"))).resolve()
    code = Demo(project, Console(highlight=False, soft_wrap=True)).run(crash=crash, keep=keep)
    if not keep:
        shutil.rmtree(project)
        click.echo(f"Deleted {project}.")
    return code
