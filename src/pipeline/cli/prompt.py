"""`awf prompt`: what an agent was told."""

import click

from pipeline.app.artifacts import AttemptArtifacts, find_artifacts
from pipeline.cli.options import as_json_option, attempt_option, visit_option
from pipeline.cli.output import load_run_and_name, print_json, print_text, stage_names
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.engine.ports import Journal
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
    """Print the whole text that a stage's agent received, on its last visit or the given one.

    RUN is a run's id, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        run_id, records, stage = load_run_and_name(store, words, stage_names, needed=True)
        found = find_artifacts(where.store, records, stage, visit, attempt)
        text = _prompt(found, store.journal)
    if not as_json:
        print_text(text)
        return
    print_json({"run_id": run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt, "text": text})


def _prompt(found: AttemptArtifacts, journal: Journal) -> str:
    if found.kind not in (StageKind.LLM, ""):
        command = "logs" if found.kind == StageKind.TOOL else "why"
        help = f"see what it did with: awf {command} {found.run_id} {found.stage}"
        raise AwfError(f'stage "{found.stage}" is a {found.kind} stage, and only an agent is given a prompt', help=help)
    text = journal.attached(found.run_id, found.seq) if found.seq is not None else ""
    if not text:
        where = f'stage "{found.stage}", visit {found.visit}, attempt {found.attempt}'
        raise AwfError(f"no prompt is on record for {where}", help="it is recorded when the visit is completed")
    return text
