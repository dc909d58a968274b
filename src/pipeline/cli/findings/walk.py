"""`awf findings walk`: a person decides on findings, at the keyboard or with a file of answers.

A triage stage of a run asks on the same screen.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from pipeline.app.findings.ledger import open_ledger
from pipeline.app.findings.queries import ALL_STATES, FindingFilter
from pipeline.cli.findings.options import (
    FindingsSource,
    file_option,
    local_source_options,
    print_problems,
    severity_option,
    utc_now,
)
from pipeline.cli.findings.screen import Screen, stops
from pipeline.cli.options import (
    agent_command_option,
    as_json_option,
    current_settings,
    read_agent_options,
    script_option,
    split_command,
)
from pipeline.cli.output import print_json
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Severity
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import TrackerContext
from pipeline.findings.walk.machine import OptionKey, Route, Step, Walk
from pipeline.findings.walk.present import Question
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import (
    Session,
    decision_events,
    fix_events,
    open_walk,
    run_fixer,
    safe_findings,
)
from pipeline.findings.walk.stage import RecordedAnswers
from pipeline.findings.walk.validation import Validate
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import redactor_of
from pipeline.text import plural

_ASK = "ask"
FIX_COMMAND = "awf findings fix"
_ANSWERS_HELP = 'write a JSON list such as ["apply", "defer", "skip", "rest", "proceed"]'


@dataclass(slots=True)
class Keyboard:
    """A person who types answers."""

    screen: Screen

    def choose(self, question: Question) -> OptionKey:
        """Ask until the answer is one of the options."""
        self.screen.ask(question)
        while True:
            self.screen.prompt(question)
            typed = sys.stdin.readline()
            if not typed:
                raise AwfError("the input ended before everything was decided", help="use --answers for a file")
            if stops(typed):
                raise KeyboardInterrupt
            if key := self.screen.parse(question, typed):
                return key

    def tell(self, line: str) -> None:
        """Say what was done."""
        self.screen.confirm(line)


@dataclass(slots=True)
class AnswerFile:
    """Answers that were written down beforehand."""

    answers: RecordedAnswers
    screen: Screen | None  # to follow what is asked and answered

    def choose(self, question: Question) -> OptionKey:
        """Return the next answer; it is an error if there is none."""
        if self.screen:
            self.screen.ask(question)
        key = self.answers.next_answer(question)
        if key is None:
            asked, keys = question.stem.split("\n", 1)[0], ", ".join(option.key for option in question.options)
            message = f"no answer after {self.answers.given} to: {asked}"
            raise AwfError(message, help=f"add one of {keys}")
        self.tell(f"Your choice: {key}")
        return key

    def tell(self, line: str) -> None:
        """Say what was done."""
        if self.screen:
            self.screen.say(line)


@click.command("walk")
@click.option("--answers", type=click.Path(dir_okay=False, path_type=Path), help="A JSON list of answers, in order.")
@click.option(
    "--route",
    type=click.Choice([*map(str, Route), _ASK]),
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
) -> None:
    """Decide on findings one by one: apply the fix, file a ticket, skip it, or accept the rest as recommended.

    Enter accepts the recommendation, v shows the whole fix with the evidence and the code, ? lists the keys. Decisions
    are recorded and fixes made only at the end: q and Ctrl-C discard every decision; filed tickets stay.
    """
    recorded = RecordedAnswers(_read_answers(answers)) if answers else None
    screen = Screen(sys.stderr if as_json else sys.stdout)
    person = AnswerFile(recorded, None if as_json else screen) if recorded else Keyboard(screen)
    repository, ledger = source.repository, source.read()
    fixer_command = split_command(fixer or "", "--fixer")
    fix = partial(run_fixer, fixer_command, repository.root, repository.environment, ledger.members)
    plugins = PluginManager(time.time)
    plugins.load_installed()
    context = TrackerContext(repository.root, source.store, os.environ)
    chain = TrackerChain(context, tracker or "", all_trackers(plugins.trackers()))
    if fixer_command and (safe := safe_findings(ledger)):  # nobody needs to decide on those
        with open_ledger(source.store, repository, utc_now()) as opened:
            print_problems(opened.record(list(fix_events(fix(safe), opened.ledger, opened.at))))
        ledger = source.read()
    walk = open_walk(
        ledger,
        chain,
        artifacts,
        route=None if route == _ASK else Route(route),
        wanted=FindingFilter(ALL_STATES, frozenset(map(Severity, severities)), files=files).matches,
        advisory=advisory,
        validates=validate,
        confirms=recorded is None,
        seed_wording=seed_wording,
    )
    excerpts = partial(read_excerpts, root=repository.root, redactor=redactor_of(os.environ))
    session = Session(walk, person.tell, chain, fix, excerpts)
    options = read_agent_options(backend or ("command" if agent_command else None), script, agent_command)
    _run(session, person.choose, _validator(source, ledger, options) if validate else None)
    print_problems(_record(session.walk, source))
    if as_json:
        print_json(report_data(session.walk, FIX_COMMAND))
    else:
        screen.show_markdown(render_report(session.walk, FIX_COMMAND))
    if recorded and recorded.remaining:
        print_problems((f"{plural(recorded.remaining, 'answer')} left over: fewer questions were asked",))


def _validator(source: FindingsSource, ledger: Ledger, options: Mapping[str, Any]) -> Validate:
    """What asks the agent that the options name, or the one that a run would use."""
    from pipeline.app.findings.validation import open_validator  # noqa: PLC0415 - agents take 0.3 s to load
    from pipeline.app.wiring import Runtime  # noqa: PLC0415 - as above

    runtime = Runtime(store=source.store, environ=dict(os.environ), settings=current_settings())
    base = ledger.last.base if ledger.last else ""
    return open_validator(source.repository.root, runtime, utc_now(), options, base)


def _run(session: Session, choose: Callable[[Question], OptionKey], validate: Validate | None) -> None:
    """Let a person decide; if they stop before the end, say what that means."""
    try:
        session.run(choose, validate)
    except (KeyboardInterrupt, AwfError):
        click.echo("\nStopped: every decision is discarded, and nothing was recorded.", err=True)
        if session.walk.step is Step.FIXING:
            click.echo("The fixer was running: check what it has changed.", err=True)
        if session.tickets:
            click.echo("\n  ".join(["Tickets that were filed stay:", *map(sanitize, session.tickets)]), err=True)
        raise


def _record(walk: Walk, source: FindingsSource) -> tuple[str, ...]:
    """Record the decisions and what the fixer claims, all at once; return problems with the views."""
    if not walk.decisions:
        return ()
    with open_ledger(source.store, source.repository, utc_now()) as opened:
        claimed = fix_events(walk.fixes, opened.ledger, opened.at)
        return opened.problems + opened.record([*decision_events(walk, opened.at, str(Actor.USER)), *claimed])


def _read_answers(path: Path) -> list[str]:
    try:
        answers = json.loads(read_text(path, _ANSWERS_HELP))
    except (ValueError, RecursionError) as error:
        raise AwfError(f'"{path}" is not valid JSON: {error}', help=_ANSWERS_HELP) from None
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise AwfError(f'"{path}" is not a list of answers', help=_ANSWERS_HELP)
    return answers
