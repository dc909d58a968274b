"""`awf findings walk`: a person decides on findings, at the keyboard or by a file of answers.

What was decided is recorded when all is: whoever stops before has decided nothing.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from pipeline.app.findings.books import iso, writing
from pipeline.cli.findings.asked import here, look, now, repo_option, warn
from pipeline.cli.looking import say_json
from pipeline.cli.options import as_json_option, store_option
from pipeline.cli.terminal import Style, inert
from pipeline.errors import AwfError
from pipeline.findings.answers import Answer, claims
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor
from pipeline.findings.showing import reshow
from pipeline.findings.trackers.chain import Chain
from pipeline.findings.trackers.registry import TRACKERS, Place
from pipeline.findings.walk.artifacts import read_artifacts
from pipeline.findings.walk.block import Block
from pipeline.findings.walk.detail import Artifact
from pipeline.findings.walk.effects import Question
from pipeline.findings.walk.entry import entry
from pipeline.findings.walk.fixer import Program
from pipeline.findings.walk.machine import begin, decisions
from pipeline.findings.walk.menu import Key, chosen
from pipeline.findings.walk.plain import plain, wrapped
from pipeline.findings.walk.report import Report
from pipeline.findings.walk.session import Session
from pipeline.findings.walk.sinks import NO_SINKS
from pipeline.findings.walk.state import Route, Step, Walk, around
from pipeline.findings.walk.telling import document, markdown

_WIDEST = 100  # columns in which text is easily read
_ASK = "ask"
_HELP = 'write a JSON list such as ["apply", "defer", "skip", "rest", "proceed"]'


@dataclass(slots=True)
class Screen:
    """Where a walk is shown: markdown as it is into a file or a pipe, set plainly on a terminal."""

    stream: TextIO
    begun: bool = False  # whether anything stands on it

    def show(self, text: str) -> None:
        """Show our markdown, with a line free before it."""
        self._part(plain(text, self.width, self.style.name) if self.stream.isatty() else text)

    def ask(self, question: Question) -> None:
        """Show a question with what belongs above it and its options below."""
        if isinstance(question.above, Block):
            self.show(str(question.above))
        elif question.above:
            self._part(question.above)
        self._part("\n".join(line for part in question.stem.split("\n") for line in wrapped(part, self.width)))
        for number, option in enumerate(question.options, 1):
            self.say("\n".join(wrapped(str(option), self.width, f"  {number}. ", "     ")))

    def say(self, text: str, *, nl: bool = True) -> None:
        """Say something as it is."""
        click.echo(text, file=self.stream, nl=nl)
        self.begun = True

    def _part(self, text: str) -> None:
        self.say(f"\n{text}" if self.begun else text)

    @property
    def style(self) -> Style:
        """Its colours."""
        return Style.of(self.stream)

    @property
    def width(self) -> int:
        """The columns of a terminal; in a pipe nothing is wrapped."""
        return min(shutil.get_terminal_size().columns, _WIDEST) if self.stream.isatty() else sys.maxsize


@dataclass(slots=True)
class Keyboard:
    """A person who types an answer: a key, its first letter or its number."""

    screen: Screen

    def choose(self, question: Question) -> Key:
        """Ask until the answer is one of the options."""
        self.screen.ask(question)
        while True:
            self.screen.say(f"Your choice ({'/'.join(option.key[0] for option in question.options)}): ", nl=False)
            typed = sys.stdin.readline()
            if not typed:
                raise AwfError("the input ended before all was decided", help="--answers takes answers from a file")
            if key := chosen(question.options, typed):
                return key
            if typed.strip():
                self.screen.say(f'"{inert(typed.strip())}" is none of the options.')

    def tell(self, line: str) -> None:
        """Say what was done."""
        self.screen.say(self.screen.style.good(line))


@dataclass(slots=True)
class Answers:
    """A person who wrote down all answers beforehand."""

    written: list[str]
    screen: Screen | None  # where what is asked and answered can be followed
    given: int = 0

    def choose(self, question: Question) -> Key:
        """The next answer; it must be one of the options."""
        keys = ", ".join(option.key for option in question.options)
        asked = question.stem.split("\n", 1)[0]
        if self.screen:
            self.screen.ask(question)
        if self.given == len(self.written):
            raise AwfError(f"the answers end after {self.given}, and more is asked: {asked}", help=f"add one of {keys}")
        word = self.written[self.given]
        self.given += 1
        if (key := chosen(question.options, word)) is None:
            raise AwfError(f'answer {self.given}, "{inert(word)}", is no answer to: {asked}', help=f"one of {keys}")
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
@click.option("--tracker", type=click.Choice([*TRACKERS]), help="Where tickets go; else to the first that works.")
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
    person = Keyboard(screen) if given is None else Answers(given, None if as_json else screen)
    repository, ledger = here(repo), look(store, repo).ledger
    chain = Chain(Place(repository.root, store, os.environ), tracker or "")
    known = read_artifacts(artifacts, ledger) if artifacts else {}
    walk = _begun(ledger, chain, known, route, advisory=advisory, confirms=given is None)
    program = Program(_words(fixer or ""), repository.root, repository.environment)
    session = Session(walk, person, chain, program)
    report = _decided(session)
    warn(_record(session.walk, program.said, store, repository.root))
    if as_json:
        say_json(document(report))
    else:
        screen.show(markdown(report))
    if isinstance(person, Answers) and person.given < len(person.written):
        warn((f"{len(person.written) - person.given} answers are left over: so many questions were not asked",))


def _begun(
    ledger: Ledger,
    chain: Chain,
    known: Mapping[str, Artifact],
    route: str,
    *,
    advisory: bool,
    confirms: bool,
) -> Walk:
    """A walk through what is open. No tracker is looked for when there is nothing to decide."""
    waiting = entry(ledger, NO_SINKS, advisory=advisory)
    sinks = chain.sinks() if waiting else NO_SINKS
    items = entry([item.finding for item in waiting], sinks, known, advisory=advisory)
    return begin(items, sinks, around(ledger), route=None if route == _ASK else Route(route), confirms=confirms)


def _decided(session: Session) -> Report:
    """Let a person decide; when they stop before the end, say what that means."""
    try:
        return session.run()
    except (KeyboardInterrupt, AwfError):
        click.echo("\nStopped: every decision is discarded, and nothing was recorded.", err=True)
        if session.walk.step is Step.FIXING:
            click.echo("The fixer was at work: look at what it has changed.", err=True)
        if session.tickets:
            click.echo("\n  ".join(["Tickets that were filed stay:", *map(inert, session.tickets)]), err=True)
        raise


def _record(walk: Walk, said: Sequence[Answer], store: Path, root: Path) -> tuple[str, ...]:
    """Enter what was decided and what the fixer claims, all at once; problems with the files that show it."""
    at = iso(now())
    if not walk.decided:
        return ()
    with writing(store, root, at) as open_book:
        claimed = claims([*said], open_book.book.ledger(), run="", round=1, by="fixer", at=at)
        open_book.book.enter([*decisions(walk, at, str(Actor.USER)), *claimed])
        return open_book.problems + reshow(root, open_book.book.ledger(), at)


def _words(command: str) -> tuple[str, ...]:
    """A program and its arguments."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise AwfError(f'"{inert(command)}" cannot be run as a fixer: {error}') from None


def _read(path: Path) -> list[str]:
    """The answers in a file."""
    try:
        written = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise AwfError(f'"{path}" cannot be read as answers: {error}', help=_HELP) from None
    if not isinstance(written, list) or not all(isinstance(one, str) for one in written):
        raise AwfError(f'"{path}" is no list of answers', help=_HELP)
    return written
