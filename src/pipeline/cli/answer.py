"""`awf answer` and `awf cancel`: answer what a run asks, or stop it, from another terminal."""

import sys
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import click

from pipeline.app.run_names import NEWEST, find_run, split_run
from pipeline.app.runs import ResumeRequest
from pipeline.app.store import NotWaiting, PendingQuestion, load_state
from pipeline.cli.location import user_name
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.run import WatchOptions, resume_run
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.cli.terminal_responder import show_question
from pipeline.errors import AwfError
from pipeline.findings.untaken import answered
from pipeline.language.model import HumanStage
from pipeline.text import sanitize


@click.command("answer")
@click.argument("words", nargs=-1, metavar="[RUN] [STAGE] [OPTION]")
@click.option("--feedback", default="", help="Your feedback; some options need it.")
@click.option("--resume", "resumes", is_flag=True, help="Resume the run here if no process is running it.")
@store_location_options
@as_json_option
def answer_command(words: tuple[str, ...], feedback: str, where: StoreLocation, *, resumes: bool, as_json: bool) -> int:
    """Answer a run that waits for a person.

    Without an OPTION the question is shown. RUN is the newest by default, and STAGE the one that waits. A process that
    waits at the question picks the answer up; otherwise `awf resume` does. The first answer counts: a second one exits
    with 1.
    """
    if len(words) > 3:
        raise click.UsageError('give a run, a stage and an option; feedback goes in quotes: --feedback "..."')
    with where.open() as store:

        def names(run_id: str) -> Collection[str]:
            """What the first argument may be if it is not a run: an option of the question, or a human stage."""
            if len(words) == 1:
                asked = store.question(run_id)
                return [option.key for option in asked.question.options] if asked else ()
            stages = load_state(store.journal, run_id).workflow.stages
            return [stage.id for stage in stages if isinstance(stage, HumanStage)]

        run_id, rest = split_run(words, store.journal.runs(), names, least=0, most=2)
        *stages, option = rest or ("",)
        if not option:
            pending = store.question(run_id)
            if pending is None:
                raise NotWaiting(f"run {run_id} is not waiting for a person", help=f"see: awf status {run_id}")
            if as_json:
                print_json(_as_object(pending) | {"driven": store.is_driven(run_id)})
            else:
                _show(pending, where)
            return 0
        stage = stages[0] if stages else ""
        given = store.answer(run_id, option, by=user_name(), stage=stage, feedback=feedback)
    kept = given.answer
    if resumes and not given.driven:
        return resume_run(run_id, ResumeRequest(), where, WatchOptions(as_json=as_json))
    if as_json:
        print_json({**asdict(kept), "driven": given.driven})
        return 0
    click.echo(f'run {run_id}: answered "{kept.stage}" #{kept.visit} with {kept.option}')
    click.echo("the run continues" if given.driven else f"resume with: awf resume {run_id}{where.end}")
    return 0


def _show(pending: PendingQuestion, where: StoreLocation) -> None:
    """Print the question, what was answered before, and what to do next."""
    question, style = pending.question, Style.of(sys.stdout)
    show_question(question, sys.stdout)
    for one in pending.earlier:
        feedback = f": {sanitize(one.feedback)}" if one.feedback else ""
        click.echo(style.quiet(f"{one.by or 'somebody'} chose {sanitize(one.option)} at visit {one.visit}{feedback}"))
    if pending.answered:
        click.echo(f"\n{pending.answered.by} has answered: {pending.answered.option}")
        click.echo(f"resume with: awf resume {question.run_id}{where.end}")
        return
    needed = ", ".join(option.key for option in question.options if option.needs_feedback)
    also = f"   ({needed}: with --feedback TEXT)" if needed else ""
    click.echo(f"\nanswer with: awf answer {question.run_id} {question.stage} OPTION{where.end}{also}")


def _as_object(pending: PendingQuestion) -> dict[str, Any]:
    question = pending.question
    return {
        "run_id": question.run_id,
        "stage": question.stage,
        "visit": question.visit,
        "question": question.text,
        "options": [
            {
                "option": option.key,
                "label": option.label,
                "needs_feedback": option.needs_feedback,
                "approves": option.approves,
            }
            for option in question.options
        ],
        "details": dict(question.values),
        "earlier": [
            {"visit": one.visit, "option": one.option, "feedback": one.feedback, "by": one.by, "at": one.at}
            for one in pending.earlier
        ],
        "answered": asdict(pending.answered) if pending.answered else None,
    }


@click.command("cancel")
@click.argument("run", required=False)
@click.option("--reason", default="", help="Why; recorded with the run.")
@store_location_options
@as_json_option
def cancel_command(run: str | None, reason: str, where: StoreLocation, *, as_json: bool) -> None:
    """Cancel RUN, or the newest run if that loses nothing.

    Its process stops at once, whatever it is doing. A run without a process is recorded as cancelled. `awf resume`
    continues it and repeats the interrupted stage. What its reviewers found in an unfinished round is dropped until
    then.
    """
    with where.open() as store:
        run_id = find_run(run or NEWEST[0], store.journal.runs())
        lost = () if run or store.is_driven(run_id) else answered(load_state(store.journal, run_id))
        if lost:
            drops = f"cancelling run {run_id} drops what {', '.join(lost)} found"
            raise AwfError(drops, help=f"continue it with awf resume, or name it: awf cancel {run_id}{where.end}")
        recorded = store.cancel(run_id, by=user_name(), reason=reason, wait=True)
        dropped = answered(load_state(store.journal, run_id))
    if as_json:
        print_json({"run_id": run_id, "status": "cancelled", "reason": recorded, "dropped": dropped})
        return
    click.echo(f"run {run_id}: cancelled ({sanitize(recorded or '')})")
    if dropped:
        click.echo(f"dropped, unless you resume it: what {', '.join(map(sanitize, dropped))} found")
    click.echo(f"resume with: awf resume {run_id}{where.end}")
