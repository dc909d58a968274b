"""`awf findings walk`: a person decides on findings, at the keyboard or by a file of answers.

What was decided is recorded when all is: whoever stops before has decided nothing.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from pipeline.app.findings.ledger import Repository, open_ledger, timestamp
from pipeline.cli.findings.options import current_repository, load_snapshot, print_problems, repo_option, utc_now
from pipeline.cli.findings.screen import Screen
from pipeline.cli.options import as_json_option, split_command, store_option
from pipeline.cli.output import print_json
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.findings.answers import Answer, fixer_events
from pipeline.findings.model import Actor
from pipeline.findings.trackers import OpenTracker, TrackerContext, all_trackers
from pipeline.findings.trackers.chain import Chain
from pipeline.findings.walk.machine import Question, decisions
from pipeline.findings.walk.present import OptionKey, Route, Step, Walk, read_artifacts
from pipeline.findings.walk.report import WalkReport, document, markdown
from pipeline.findings.walk.session import Choose, FixerProgram, Session, open_walk
from pipeline.findings.walk.stage import RecordedAnswers
from pipeline.plugins.manager import PluginManager

_ASK = "ask"
_HELP = 'write a JSON list such as ["apply", "defer", "skip", "rest", "proceed"]'


@dataclass(slots=True)
class Keyboard:
    """A person who types an answer."""

    screen: Screen

    def choose(self, question: Question) -> OptionKey:
        """Ask until the answer is one of the options."""
        self.screen.ask(question)
        while True:
            self.screen.prompt(question)
            typed = sys.stdin.readline()
            if not typed:
                raise AwfError("the input ended before all was decided", help="--answers takes answers from a file")
            if key := self.screen.understood(question, typed):
                return key

    def tell(self, line: str) -> None:
        """Say what was done."""
        self.screen.good(line)


@dataclass(slots=True)
class Answers:
    """A person who wrote down all answers beforehand."""

    written: RecordedAnswers
    screen: Screen | None  # where what is asked and answered can be followed

    def choose(self, question: Question) -> OptionKey:
        """The next answer; there must be one."""
        if self.screen:
            self.screen.ask(question)
        if (key := self.written.choose(question)) is None:
            asked, keys = question.stem.split("\n", 1)[0], ", ".join(option.key for option in question.options)
            message = f"the answers end after {self.written.given}, and more is asked: {asked}"
            raise AwfError(message, help=f"add one of {keys}")
        self.tell(f"Your choice: {key}")
        return key

    def tell(self, line: str) -> None:
        """Say what was done."""
        if self.screen:
            self.screen.say(line)


@click.command("walk")
@click.option("--answers", type=click.Path(dir_okay=False, path_type=Path), help="A JSON list of answers, as asked.")
@click.option(
    "--route",
    type=click.Choice([*map(str, Route), _ASK]),
    default=str(Route.EACH),
    show_default=True,
    help="One by one, all as recommended, a ticket for each, nothing at all, or as you say then.",
)
@click.option("--advisory", is_flag=True, help="Ask about findings with nothing to fix, too.")
@click.option("--tracker", metavar="NAME", help="Where tickets go, such as github; else to the first that works.")
@click.option("--fixer", metavar="COMMAND", help="A program that makes the accepted fixes; it reads them as text.")
@click.option(
    "--artifacts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where reviewers' whole returns lie, each as REVIEWER.json.",
)
@store_option
@repo_option
@as_json_option
def command(
    answers: Path | None,
    route: str,
    tracker: str | None,
    fixer: str | None,
    artifacts: Path | None,
    store: Path,
    repo: Path | None,
    *,
    advisory: bool,
    as_json: bool,
) -> None:
    """Decide on findings one by one: apply the fix, file a ticket, skip it, or leave the rest to what is recommended.

    Nothing is recorded before the end, and no fix is made before it. Ctrl-C discards every decision; tickets stay.
    """
    given = _read(answers) if answers else None
    screen = Screen(sys.stderr if as_json else sys.stdout)
    person = Keyboard(screen) if given is None else Answers(RecordedAnswers(given), None if as_json else screen)
    repository, ledger = current_repository(repo), load_snapshot(store, repo).ledger
    chain = Chain(TrackerContext(repository.root, store, os.environ), tracker or "", all_trackers(_brought()))
    known = read_artifacts(artifacts, ledger) if artifacts else {}
    way = None if route == _ASK else Route(route)
    walk = open_walk(ledger, chain, known, route=way, advisory=advisory, confirms=given is None)
    program = FixerProgram(split_command(fixer or "", "--fixer"), repository.root, repository.environment)
    session = Session(walk, person.tell, chain, program)
    report = _decided(session, person.choose)
    print_problems(_record(session.walk, program.said, store, repository))
    if as_json:
        print_json(document(report))
    else:
        screen.show(markdown(report))
    if isinstance(person, Answers) and (left := person.written.left):
        print_problems((f"{left} answers are left over: so many questions were not asked",))


def _brought() -> dict[str, OpenTracker]:
    """The trackers that installed plugins bring."""
    plugins = PluginManager(time.time)
    plugins.load_installed()
    return plugins.trackers()


def _decided(session: Session, choose: Choose) -> WalkReport:
    """Let a person decide; when they stop before the end, say what that means."""
    try:
        return session.run(choose)
    except (KeyboardInterrupt, AwfError):
        click.echo("\nStopped: every decision is discarded, and nothing was recorded.", err=True)
        if session.walk.step is Step.FIXING:
            click.echo("The fixer was at work: look at what it has changed.", err=True)
        if session.tickets:
            click.echo("\n  ".join(["Tickets that were filed stay:", *map(sanitize, session.tickets)]), err=True)
        raise


def _record(walk: Walk, said: Sequence[Answer], store: Path, repository: Repository) -> tuple[str, ...]:
    """Enter what was decided and what the fixer claims, all at once; problems with the files that show it."""
    at = timestamp(utc_now())
    if not walk.decided:
        return ()
    with open_ledger(store, repository.root, at, repository.trust) as opened:
        claimed = fixer_events([*said], opened.ledger, run="", round=1, by="fixer", at=at)
        return opened.problems + opened.record([*decisions(walk, at, str(Actor.USER)), *claimed])


def _read(path: Path) -> list[str]:
    """The answers in a file."""
    try:
        written = json.loads(read_text(path, _HELP))
    except (ValueError, RecursionError) as error:
        raise AwfError(f'"{path}" is no JSON: {error}', help=_HELP) from None
    if not isinstance(written, list) or not all(isinstance(one, str) for one in written):
        raise AwfError(f'"{path}" is no list of answers', help=_HELP)
    return written
