"""`awf findings walk`: a person decides on findings, at the keyboard or with a file of answers.

A triage stage of a run asks on the same screen.
"""

import asyncio
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from pipeline.app.findings.ledger import open_ledger
from pipeline.app.findings.queries import ALL_STATES, FindingFilter
from pipeline.cli.findings.options import (
    FindingsSource,
    changed_text,
    file_option,
    local_source_options,
    print_problems,
    severity_option,
    utc_now,
)
from pipeline.cli.findings.screen import Screen
from pipeline.cli.location import user_name
from pipeline.cli.options import (
    agent_command_option,
    as_json_option,
    current_settings,
    read_agent_options,
    script_option,
    split_command,
)
from pipeline.cli.output import print_json
from pipeline.cli.terminal_responder import TerminalResponder
from pipeline.errors import AwfError, ExitCode
from pipeline.files import read_text
from pipeline.findings.events import FindingChanged
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Severity
from pipeline.findings.reviews import review
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import TrackerContext
from pipeline.findings.walk.fixing import fix_events, run_fixer
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import Session, decide, decision_events, open_walk
from pipeline.findings.walk.state import Fixes, Route, Walk, safe_lines
from pipeline.findings.walk.validation import Validator, no_validator
from pipeline.handlers.questions import Question, RecordedAnswers, Reply, Responder, Silent
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import redactor_of
from pipeline.text import plural, sanitize

FIX_COMMAND = "awf findings fix"
_ANSWERS_HELP = 'write a JSON list such as ["apply", "defer", "skip", "rest", "proceed"]'


@dataclass(slots=True)
class AnswerFile(Silent):
    """Answers that were written down beforehand. It is an error if there are not enough."""

    answers: RecordedAnswers
    screen: Screen  # to follow what is asked and answered

    async def ask(self, question: Question) -> Reply | None:
        """Return the next answer."""
        self.screen.ask(question)
        reply = await self.answers.ask(question)
        if reply is None:
            message = f"no answer after {self.answers.given} to: {question.first_line}"
            raise AwfError(message, help=f"add one of {', '.join(question.keys)}")
        self.tell(f"Your choice: {reply.option}")
        return reply

    def tell(self, line: str) -> None:
        """Say what was done."""
        self.screen.say(line)


@click.command("walk")
@click.option("--answers", type=click.Path(dir_okay=False, path_type=Path), help="A JSON list of answers, in order.")
@click.option(
    "--route",
    type=click.Choice([str(route) for route in Route]),
    default=str(Route.EACH),
    show_default=True,
    help="One by one, all as recommended, what must be fixed, a ticket for each, only the report, or ask which.",
)
@click.option("--validate", is_flag=True, help="Let a read-only agent check findings before all are applied at once.")
@click.option("--backend", help="The agent that validates. [default: the one that a run would use]")
@script_option
@agent_command_option
@severity_option
@file_option
@click.option("--advisory", is_flag=True, help="Include findings with nothing to fix.")
@click.option("--tracker", metavar="NAME", help="Where tickets go, such as github. [default: the first that works]")
@click.option("--fixer", metavar="COMMAND", help="A program that reads the accepted findings and fixes them.")
@click.option(
    "--artifacts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of the reviewers' full returns, each as REVIEWER.json.",
)
@click.option("--seed-wording", is_flag=True, help='Label options as "LFG the rest" and "LFG".')
@local_source_options
@as_json_option
def command(
    answers: Path | None,
    route: str,
    backend: str | None,
    script: Path | None,
    agent_command: str | None,
    severities: tuple[str, ...],
    files: tuple[str, ...],
    tracker: str | None,
    fixer: str | None,
    artifacts: Path | None,
    source: FindingsSource,
    *,
    validate: bool,
    advisory: bool,
    seed_wording: bool,
    as_json: bool,
) -> int:
    """Decide on findings one by one: apply the fix, file a ticket, skip it, or accept the rest as recommended.

    Enter accepts the recommendation, v shows the whole fix with the evidence and the code, ? lists the keys. Decisions
    are recorded and fixes made only at the end: q and Ctrl-C discard every decision; filed tickets stay.

    The exit code is 1 if a fix failed.
    """
    recorded = RecordedAnswers(_read_answers(answers)) if answers else None
    screen = Screen(sys.stderr if as_json else sys.stdout)
    person = TerminalResponder(user_name(), screen.stream)
    responder: Responder = person
    if recorded:
        responder = AnswerFile(recorded, Screen(io.StringIO()) if as_json else screen)
    repository, ledger = source.repository, source.read()
    fixer_command = split_command(fixer or "", "--fixer")
    fix = partial(run_fixer, fixer_command, repository.root, repository.environment)
    plugins = PluginManager(time.time)
    plugins.load_installed()
    context = TrackerContext(repository.root, source.store, os.environ)
    chain = TrackerChain(context, tracker or "", all_trackers(dict(plugins.collect("trackers"))))
    safe_fixes = fix(safe_lines(ledger.lines()))  # nobody needs to decide on those
    if safe_fixes.said:
        ledger = _record(source, partial(fix_events, safe_fixes))
    begun = open_walk(
        ledger,
        chain,
        artifacts,
        route=Route(route),
        wanted=FindingFilter(ALL_STATES, frozenset(map(Severity, severities)), files=files).matches,
        follow=lambda lines: source.current_lines(lines, ledger),
        advisory=advisory,
        validates=validate,
        confirms=recorded is None,
        seed_wording=seed_wording,
    )
    excerpts = partial(read_excerpts, root=repository.root, redactor=redactor_of(os.environ))
    session = Session(replace(begun, safe_fixes=safe_fixes), chain, responder.tell, excerpts)
    options = read_agent_options(backend or ("command" if agent_command else None), script, agent_command)
    validator = _validator(source, ledger, options) if validate else no_validator
    done = _walk(session, responder, validator, fix)
    if done is None:
        if person.stopped:
            raise KeyboardInterrupt
        raise AwfError("the input ended before everything was decided", help="use --answers for a file")
    if done.choices:
        done = replace(done, ledger=_record(source, partial(_walk_events, done)))
    unseen = "" if done.fixes.made else changed_text(source.changed_since(review(done.ledger)))
    if as_json:
        print_json(report_data(done, FIX_COMMAND, unseen))
    else:
        screen.show_markdown(render_report(done, FIX_COMMAND, unseen))
    if recorded and recorded.remaining:
        print_problems((f"{plural(recorded.remaining, 'answer')} left over: fewer questions were asked",))
    return ExitCode.RUN_FAILED if done.failed_fixes else ExitCode.SUCCESS


def _validator(source: FindingsSource, ledger: Ledger, options: Mapping[str, Any]) -> Validator:
    """Return what asks the agent that the options name, or the one that a run would use."""
    from pipeline.app.findings.validation import open_validator  # noqa: PLC0415 - agents take 0.3 s to load
    from pipeline.app.wiring import Runtime  # noqa: PLC0415 - as above

    runtime = Runtime(store=source.store, environ=dict(os.environ), settings=current_settings())
    base = ledger.last.base if ledger.last else ""
    return open_validator(source.repository.root, runtime, utc_now(), options, base)


def _walk(
    session: Session, responder: Responder, validate: Validator, fix: Callable[[Sequence[Line]], Fixes]
) -> Walk | None:
    """Let a person decide, and a fixer make all accepted fixes; if they stop before the end, say what that means."""
    done, fixing = None, False
    try:
        decided = asyncio.run(decide(session, responder, validate))
        if decided:
            fixing = bool(decided.accepted)
            done = replace(decided, fixes=fix(decided.accepted))
    finally:
        if done is None:
            lines = [*session.discarded(), *(["The fixer was running: check what it has changed."] if fixing else [])]
            click.echo("\n" + "\n".join(map(sanitize, lines)), err=True)
    return done


def _walk_events(done: Walk, ledger: Ledger, at: str) -> list[FindingChanged]:
    """Return what was decided, and what the fixer claims."""
    decided = decision_events(done, at, who=user_name(), by=Actor.USER)
    return [*decided, *fix_events(done.fixes, ledger, at)]


def _record(source: FindingsSource, events: Callable[[Ledger, str], list[FindingChanged]]) -> Ledger:
    """Record events, all at once, and return the ledger after them."""
    with open_ledger(source.store, source.repository, utc_now()) as opened:
        print_problems(opened.problems + opened.record(events(opened.ledger, opened.at)))
        return opened.ledger.copy()


def _read_answers(path: Path) -> list[str]:
    try:
        answers = json.loads(read_text(path, _ANSWERS_HELP))
    except (ValueError, RecursionError) as error:
        raise AwfError(f'"{path}" is not valid JSON: {error}', help=_ANSWERS_HELP) from None
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise AwfError(f'"{path}" is not a list of answers', help=_ANSWERS_HELP)
    return answers
