"""`awf findings walk`: a person decides on findings, at the keyboard or with a file of answers.

A triage stage of a run asks on the same screen.
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from pipeline.app.findings.ledger import open_ledger
from pipeline.cli.findings.options import FindingsSource, local_source_options, print_problems, utc_now
from pipeline.cli.options import as_json_option, split_command
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.findings.answers import fixer_events
from pipeline.findings.model import Actor
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import TrackerContext
from pipeline.findings.walk.machine import OptionKey, Route, Step, Walk
from pipeline.findings.walk.present import Question, parse_choice
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import Session, decision_events, open_walk, run_fixer
from pipeline.findings.walk.stage import RecordedAnswers
from pipeline.plugins.manager import PluginManager
from pipeline.text import display_width, plural

_ASK = "ask"
_ANSWERS_HELP = 'write a JSON list such as ["apply", "defer", "skip", "rest", "proceed"]'
_ESCAPE = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")
_TITLE = re.compile(r"^(## .*|\*\*.*\*\*)\n\n(?!## |\*\*)", re.MULTILINE)  # no blank line below it on a terminal
_INDENT = "  "
_MAX_WIDTH = 100  # columns in which text is easy to read


@dataclass(slots=True)
class Screen:
    """Shows a walk: as markdown in a file or a pipe, as plain text on a terminal."""

    stream: TextIO
    used: bool = False  # whether anything was shown

    def show_markdown(self, text: str) -> None:
        """Show a text after a blank line."""
        self._show(layout(text, self.width, self.style.name) if self.stream.isatty() else text)

    def ask(self, question: Question) -> None:
        """Show a question with what belongs above it and its options below."""
        if question.block:
            self.show_markdown(question.block)
        if question.plan:
            self._show(question.plan)
        self._show("\n".join(line for part in question.stem.split("\n") for line in wrap(part, self.width)))
        for number, option in enumerate(question.options, 1):
            self.say("\n".join(wrap(str(option), self.width, f"  {number}. ", "     ")))

    def prompt(self, question: Question) -> None:
        """Prompt for one of the options."""
        self.say(f"Your choice ({'/'.join(option.key[0] for option in question.options)}): ", nl=False)

    def parse(self, question: Question, typed: str) -> OptionKey | None:
        """Return the option that was typed: a key, its first letter or its number. Anything else is reported."""
        key = parse_choice(question.options, typed)
        if key is None and typed.strip():
            self.say(f'Unknown option "{sanitize(typed.strip())}".')
        return key

    def confirm(self, line: str) -> None:
        """Say what was done."""
        self.say(self.style.good(line))

    def say(self, text: str, *, nl: bool = True) -> None:
        """Show a text as it is."""
        click.echo(text, file=self.stream, nl=nl)
        self.used = True

    def _show(self, text: str) -> None:
        self.say(f"\n{text}" if self.used else text)

    @property
    def style(self) -> Style:
        """The colors of the stream."""
        return Style.of(self.stream)

    @property
    def width(self) -> int:
        """The columns of the terminal; nothing is wrapped in a pipe."""
        return min(shutil.get_terminal_size().columns, _MAX_WIDTH) if self.stream.isatty() else sys.maxsize


def layout(markdown: str, width: int, bold: Callable[[str], str]) -> str:
    """Return our own markdown as plain text in `width` columns.

    Everything but headings and labels is indented, so that no text of a finding can pass for one.
    """
    return "\n".join(_lines(markdown, width, bold))


def wrap(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines of at most `width` columns, indented; a longer word has a line of its own."""
    lines, line = [], first
    for word in text.split():
        if line.strip() and line not in (first, then) and display_width(f"{line} {word}") > width:
            lines.append(line)
            line = then
        line = f"{line}{word}" if line in (first, then) else f"{line} {word}"
    return [*lines, line]


def _lines(markdown: str, width: int, bold: Callable[[str], str]) -> Iterator[str]:
    code = False
    for line in _TITLE.sub(r"\1\n", markdown).split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield f"{_INDENT * 2}{line}"
        elif line.startswith("## "):
            yield from map(bold, wrap(line.removeprefix("## "), width))
        elif line.startswith("**") and line.endswith("**"):
            yield bold(line.strip("*"))
        elif line.startswith("- "):
            yield from wrap(line.removeprefix("- "), width, f"{_INDENT}- ", _INDENT * 2)
        else:
            yield from wrap(_ESCAPE.sub(r"\1", line), width, _INDENT, _INDENT) if line else [""]


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
    help="One by one, all as recommended, a ticket for each, only the report, or ask which.",
)
@click.option("--advisory", is_flag=True, help="Include findings with nothing to fix.")
@click.option("--tracker", metavar="NAME", help="Where tickets go, such as github. [default: the first that works]")
@click.option("--fixer", metavar="COMMAND", help="A program that reads the accepted findings and fixes them.")
@click.option(
    "--artifacts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of the reviewers' full returns, each as REVIEWER.json.",
)
@local_source_options
@as_json_option
def command(
    answers: Path | None,
    route: str,
    tracker: str | None,
    fixer: str | None,
    artifacts: Path | None,
    source: FindingsSource,
    *,
    advisory: bool,
    as_json: bool,
) -> None:
    """Decide on findings one by one: apply the fix, file a ticket, skip it, or accept the rest as recommended.

    Decisions are recorded and fixes made only at the end. Ctrl-C discards every decision; filed tickets stay.
    """
    recorded = RecordedAnswers(_read_answers(answers)) if answers else None
    screen = Screen(sys.stderr if as_json else sys.stdout)
    person = AnswerFile(recorded, None if as_json else screen) if recorded else Keyboard(screen)
    repository, ledger = source.repository, source.read()
    plugins = PluginManager(time.time)
    plugins.load_installed()
    context = TrackerContext(repository.root, source.store, os.environ)
    chain = TrackerChain(context, tracker or "", all_trackers(plugins.trackers()))
    chosen_route = None if route == _ASK else Route(route)
    walk = open_walk(ledger, chain, artifacts, route=chosen_route, advisory=advisory, confirms=recorded is None)
    fixer_command = split_command(fixer or "", "--fixer")
    fix = partial(run_fixer, fixer_command, repository.root, repository.environment, ledger.members)
    session = Session(walk, person.tell, chain, fix)
    _run(session, person.choose)
    print_problems(_record(session.walk, source))
    if as_json:
        print_json(report_data(session.walk))
    else:
        screen.show_markdown(render_report(session.walk))
    if recorded and recorded.remaining:
        print_problems((f"{plural(recorded.remaining, 'answer')} left over: fewer questions were asked",))


def _run(session: Session, choose: Callable[[Question], OptionKey]) -> None:
    """Let a person decide; if they stop before the end, say what that means."""
    try:
        session.run(choose)
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
        claimed = fixer_events(walk.fixes.answers, opened.ledger, run="", round=1, by="fixer", at=opened.at)
        return opened.problems + opened.record([*decision_events(walk, opened.at, str(Actor.USER)), *claimed])


def _read_answers(path: Path) -> list[str]:
    try:
        answers = json.loads(read_text(path, _ANSWERS_HELP))
    except (ValueError, RecursionError) as error:
        raise AwfError(f'"{path}" is not valid JSON: {error}', help=_ANSWERS_HELP) from None
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise AwfError(f'"{path}" is not a list of answers', help=_ANSWERS_HELP)
    return answers
