"""`awf prompt`: what an agent was told."""

import click

from pipeline.app.history import find_artifacts
from pipeline.cli.options import as_json_option, attempt_option, visit_option
from pipeline.cli.output import load_history_and_name, print_json, print_text, stage_names
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.errors import AwfError
from pipeline.language.model import StageKind


@click.command("prompt")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] STAGE")
@visit_option
@attempt_option
@store_location_options
@as_json_option
def command(
    words: tuple[str, ...], visit: int | None, attempt: int | None, where: StoreLocation, *, as_json: bool
) -> None:
    """Print the whole prompt that a stage's agent received.

    RUN is the id of a run, the beginning of one, or "latest", the default. The last visit and attempt are shown unless
    others are given.
    """
    with where.open() as store:
        history, stage = load_history_and_name(store, words, stage_names, needed=True)
        found = find_artifacts(where.store, history, stage, visit, attempt)
        if found.kind not in (StageKind.LLM, ""):
            command = "logs" if found.kind == StageKind.TOOL else "why"
            message = f'stage "{stage}" is a {found.kind} stage; only an agent gets a prompt'
            raise AwfError(message, help=f"see what it did with: awf {command} {found.run_id} {stage}")
        text = store.journal.attached(found.run_id, found.seq) if found.seq is not None else ""
    if not text:
        attempted = f'stage "{stage}", visit {found.visit}, attempt {found.attempt}'
        raise AwfError(f"no prompt is recorded for {attempted}", help="a prompt is recorded when its attempt has ended")
    if as_json:
        visited = {"run_id": found.run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt}
        print_json({**visited, "text": text})
    else:
        print_text(text)
