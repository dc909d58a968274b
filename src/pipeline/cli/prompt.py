"""`awf prompt`: what an agent was told."""

from pathlib import Path

import click

from pipeline.app.artifacts import Artifacts, find_artifacts
from pipeline.cli.looking import read_run, say_json, say_whole
from pipeline.cli.options import as_json_option, attempt_option, store_option, visit_option
from pipeline.errors import AwfError
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
    found = find_artifacts(store, run_id, records, stage, visit, attempt)
    path = _prompt(found)
    text = path.read_text(encoding="utf-8", errors="replace")
    if not as_json:
        say_whole(text)
        return
    where = {"run_id": run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt}
    say_json({**where, "path": str(path), "text": text})


def _prompt(found: Artifacts) -> Path:
    if found.kind not in (StageKind.LLM, ""):
        help = f"awf logs {found.run_id} {found.stage}" if found.kind == StageKind.TOOL else None
        raise AwfError(f'stage "{found.stage}" is a {found.kind} stage, and only an agent is given a prompt', help=help)
    if path := found.file("prompt.md"):
        return path
    missing = found.directory / "prompt.md"
    raise AwfError(f'the prompt of stage "{found.stage}", visit {found.visit}, is gone: there is no {missing}')
