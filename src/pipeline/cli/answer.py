"""`awf answer`: see what a run asks, and answer it from another terminal than its own."""

import os
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import click

from pipeline.app.runs import ResumeRequest, load_state
from pipeline.app.store import (
    AlreadyAnswered,
    AnswerReceipt,
    Desk,
    NotWaiting,
    PendingQuestion,
    RunStore,
    answer,
    find_question,
    split_run,
)
from pipeline.cli.cluster_run import WatchOptions
from pipeline.cli.location import user_name
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.resume import resume_run
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, sanitize
from pipeline.cli.terminal_responder import show_question
from pipeline.engine.ports import HumanAnswer
from pipeline.language.model import HumanStage
from pipeline.redaction import redactor_of


@click.command("answer")
@click.argument("words", nargs=-1, metavar="[RUN] [STAGE] [OPTION]")
@click.option("--feedback", default="", help="What you have to say; some options need it.")
@click.option("--resume", "go_on", is_flag=True, help="Go on with the run right here, when no process is at it.")
@store_location_options
@as_json_option
def command(words: tuple[str, ...], feedback: str, where: StoreLocation, *, go_on: bool, as_json: bool) -> int:
    """Answer a run that waits for a person.

    A process that waits at the question takes the answer up by itself; otherwise `awf resume` does. Without an
    OPTION the question is shown. RUN is the newest by default, and STAGE the one it waits at. Of
    two answers the first counts, and the second exits with 1.
    """
    if len(words) > 3:
        raise click.UsageError('give a run, a stage and an option; feedback goes in quotes: --feedback "..."')
    with where.shelf() as shelf:
        desk = desk_of(shelf)
        run_id, rest = split_run(words, desk.journal.runs(), partial(_names, desk, len(words)), least=0, most=2)
        *stages, option = rest or ("",)
        if not option:
            return _show(desk, run_id, where.end, as_json=as_json)
        stage = stages[0] if stages else ""
        given = _given(where, desk, run_id, option, stage, feedback)
    if go_on and not given.driven:
        return resume_run(run_id, ResumeRequest(), where, WatchOptions(as_json=as_json))
    _tell(given, where.end, as_json=as_json)
    return 0


def _names(desk: Desk, count: int, run_id: str) -> Collection[str]:
    """What the first of so many arguments may be, if not a run: an option of what the run asks, or a human stage."""
    if count == 1:
        found = find_question(desk, run_id)
        return [option.key for option in found.question.options] if found else ()
    stages = load_state(desk.journal, run_id).workflow.stages
    return [stage.id for stage in stages if isinstance(stage, HumanStage)]


def desk_of(shelf: RunStore) -> Desk:
    """The desk of a place of runs, for a person at this machine."""
    return Desk(shelf.store, shelf.journal, shelf.letters, time.time, redactor_of(os.environ), shelf.driven)


def _given(where: StoreLocation, desk: Desk, run_id: str, option: str, stage: str, feedback: str) -> AnswerReceipt:
    """Answer; a cluster is told that there is one, also where somebody else was quicker and may not have.

    It takes up even a run that had stopped.
    """
    try:
        given = answer(desk, run_id, option, by=user_name(), stage=stage, feedback=feedback)
    except AlreadyAnswered as error:
        _wake(where, error.kept)
        raise
    _wake(where, given.answer)
    return replace(given, driven=True) if where.on else given


def _wake(where: StoreLocation, kept: HumanAnswer) -> None:
    if where.on:
        with where.remote() as remote:
            remote.call(remote.cluster.wake(kept.run_id, kept.stage, kept.visit))


def _show(desk: Desk, run_id: str, end: str, *, as_json: bool) -> int:
    found = find_question(desk, run_id)
    if found is None:
        raise NotWaiting(f"run {run_id} does not wait for a person", help=f"look with: awf status {run_id}")
    if as_json:
        print_json(_as_object(found))
        return 0
    show_question(found.question, sys.stdout)
    for line in _more(found, Style.of(sys.stdout), end):
        click.echo(line)
    return 0


def _more(found: PendingQuestion, style: Style, end: str) -> Iterator[str]:
    """What was said before, and what to do now."""
    for one in found.earlier:
        said = f": {sanitize(one.feedback)}" if one.feedback else ""
        yield style.quiet(f"{one.by or 'somebody'} chose {sanitize(one.option)} at visit {one.visit}{said}")
    question = found.question
    yield ""
    if found.answered:
        yield f"{found.answered.by} has answered: {found.answered.option}"
        yield f"resume with: awf resume {question.run_id}{end}"
        return
    needed = ", ".join(sorted(question.needs_feedback))
    also = f"   ({needed}: with --feedback TEXT)" if needed else ""
    yield f"answer with: awf answer {question.run_id} {question.stage} OPTION{end}{also}"


def _as_object(found: PendingQuestion) -> dict[str, Any]:
    question = found.question
    options = [
        {"option": one.key, "label": one.label, "needs_feedback": one.key in question.needs_feedback}
        | {"approves": one in question.approving}
        for one in question.options
    ]
    place = {"run_id": question.run_id, "stage": question.stage, "visit": question.visit, "question": question.text}
    said = {"details": dict(question.details), "earlier": [asdict(one) for one in found.earlier]}
    answered = asdict(found.answered) if found.answered else None
    return {**place, "options": options, **said, "answered": answered, "driven": found.driven}


def _tell(given: AnswerReceipt, end: str, *, as_json: bool) -> None:
    kept = given.answer
    if as_json:
        print_json({**asdict(kept), "driven": given.driven})
        return
    click.echo(f'run {kept.run_id}: "{kept.stage}" #{kept.visit} is answered: {kept.option}')
    if given.driven:
        click.echo("the process at the run goes on with it")
    else:
        click.echo(f"resume with: awf resume {kept.run_id}{end}")
