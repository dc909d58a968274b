"""`awf resume`: take a run up again."""

from pathlib import Path

import click

from pipeline.app.check import check
from pipeline.app.runs import Resume, resume
from pipeline.cli.driving import drive
from pipeline.cli.here import catalog
from pipeline.cli.options import as_json_option, log_option, store_option
from pipeline.errors import AwfError


@click.command("resume")
@click.argument("run")
@click.option("--raise", "raised", multiple=True, metavar="LIMIT=VALUE", help="A limit's new value, such as +10.")
@click.option("--repeat", is_flag=True, help="Repeat an interrupted stage that may have acted outside the workspace.")
@click.option("--answers", type=FILE, help="Answers to human stages, from now on.")
@click.option("--auto-approve", is_flag=True, help="Take the approving option wherever a person would be asked.")
@click.option("--backend", help="Another agent for stages that name none.")
@click.option("--script", type=FILE, help="Other replies for the scripted backend.")
@click.option("--adopt", metavar="FILE|NAME", help="Go on with a changed workflow.")
@store_option
@log_option
@as_json_option
def command(
    run: str,
    raised: tuple[str, ...],
    adopt: str | None,
    store: Path,
    log: Path | None,
    *,
    repeat: bool,
    as_json: bool,
) -> int:
    """Take a run up again where its journal ends.

    No stage that was completed runs again; one that was interrupted does.
    """
    adopted = None
    if adopt is not None:
        entry = catalog().find(adopt)
        adopted = (entry, check(entry))
    how = Resume(raised=dict(map(_limit, raised)), repeat=repeat, adopt=adopted)
    return drive(lambda journal, around: resume(run, how, journal, around), store, as_json=as_json, log=log)


def _limit(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals:
        raise AwfError(f'"{written}" raises nothing', help="write --raise max_visits=+10")
    return name, value
