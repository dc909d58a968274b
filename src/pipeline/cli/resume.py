"""`awf resume`: take a run up again."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from pipeline.app.check import check
from pipeline.app.lookup import find_run
from pipeline.app.runs import Resume, RunResult, resume
from pipeline.app.wiring import Surroundings
from pipeline.cli.driving import drive
from pipeline.cli.here import catalog
from pipeline.cli.options import as_json_option, detach_option, log_option, wait_option
from pipeline.cli.starting import who_works, working_options
from pipeline.cli.watching import Watching, resume_there
from pipeline.cli.where import Where, where_option
from pipeline.engine.ports import Journal
from pipeline.errors import AwfError


@click.command("resume")
@click.argument("run")
@click.option("--raise", "raised", multiple=True, metavar="LIMIT=VALUE", help="A limit's new value, such as +10.")
@click.option("--repeat", is_flag=True, help="Repeat an interrupted stage that may have acted outside the workspace.")
@who_works
@click.option("--adopt", metavar="FILE|NAME", help="Go on with a changed workflow.")
@wait_option
@detach_option
@where_option
@log_option
@as_json_option
def command(
    run: str,
    raised: tuple[str, ...],
    adopt: str | None,
    where: Where,
    log: Path | None,
    *,
    repeat: bool,
    stay: bool,
    detach: bool,
    as_json: bool,
    **who: Any,
) -> int:
    """Take a run up again where its journal ends.

    No stage that was completed runs again; one that was interrupted does.
    """
    adopted = None
    if adopt is not None:
        entry = catalog().find(adopt)
        adopted = (entry, check(entry))
    how = Resume(dict(map(_limit, raised)), working_options(**who), repeat=repeat, adopt=adopted)
    return take_up(run, how, where, Watching(as_json=as_json, log=log, stay=stay, detach=detach))


def take_up(run: str, how: Resume, where: Where, watching: Watching) -> int:
    """Have a run go on where it is kept, and watch it until it stops."""
    if where.on:
        with where.shelf() as shelf:
            run_id = find_run(run, shelf.journal.runs())
        return resume_there(where, run_id, how, watching)
    if watching.detach:
        raise click.UsageError("--detach is for runs on a cluster; name one with --on")

    def work(journal: Journal, around: Surroundings) -> Coroutine[Any, Any, RunResult]:
        return resume(find_run(run, journal.runs()), how, journal, around)

    return drive(work, where, as_json=watching.as_json, log=watching.log, stay=watching.stay)


def _limit(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals:
        raise AwfError(f'"{written}" does not say which limit becomes what', help="write --raise max_visits=+10")
    return name, value
