"""`awf prompt`: what an agent was told."""

from contextlib import closing
from pathlib import Path

import click

from pipeline.app.artifacts import Artifacts, find_artifacts
from pipeline.cli.looking import read_run, say_json, say_whole
from pipeline.cli.options import as_json_option, attempt_option, store_option, visit_option
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import StageKind


@click.command("prompt")
@click.argument("run")
@click.argument("stage")
@visit_option
@attempt_option
@store_option
@as_json_option
def command(run: str, stage: str, visit: int | None, attempt: int | None, store: Path, *, as_json: bool) -> None:
    """Print the whole text that a stage's agent received, on its last visit or the given one.

    RUN is a run's id, the beginning of one, or "latest".
    """
    run_id, records = read_run(run, store)
    found = find_artifacts(store, records, stage, visit, attempt)
    text = _prompt(found, store)
    if not as_json:
        say_whole(text)
        return
    say_json({"run_id": run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt, "text": text})


def _prompt(found: Artifacts, store: Path) -> str:
    if found.kind not in (StageKind.LLM, ""):
        help = f"awf logs {found.run_id} {found.stage}" if found.kind == StageKind.TOOL else None
        raise AwfError(f'stage "{found.stage}" is a {found.kind} stage, and only an agent is given a prompt', help=help)
    text = ""
    if found.seq is not None:
        with closing(SqliteJournal(store)) as journal:
            text = journal.attached(found.run_id, found.seq)
    if not text:
        where = f'stage "{found.stage}", visit {found.visit}, attempt {found.attempt}'
        raise AwfError(f"no prompt is on record for {where}", help="it is recorded when the visit is completed")
    return text
