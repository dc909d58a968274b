"""`awf why`: the way a run took, and the reasons that were recorded when it took it."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeline.app.history import AttemptEnd, AttemptRecord, RunNote, VisitRecord, story_of, unknown_stage_error
from pipeline.app.overview import view_notes
from pipeline.app.rounds import rounds_of
from pipeline.app.store import NEWEST
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_run_and_name, paint_status, print_json, stage_names, terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.engine.state import replay
from pipeline.text import display_width, format_duration, sanitize_line, truncate, visit_label

if TYPE_CHECKING:
    from pipeline.findings.rounds import Round

Notes = Sequence[dict[str, Any]]

_INDENT = "    "
_FINDING = ("fnd_", "#")  # how the name of a finding begins


@click.command("why")
@click.argument("words", nargs=-1, metavar="[RUN] [STAGE|FINDING]")
@store_location_options
@as_json_option
def command(words: tuple[str, ...], where: StoreLocation, *, as_json: bool) -> None:
    """Tell why a run went where it went: each visit, its outcome and where that came from, and the way taken.

    RUN is a run's id, the beginning of one, or "latest", the default. With STAGE only the visits of that stage are
    shown, with FINDING, an id or a number such as "#3", who reported it, how it was recognised and who decided what.
    """
    if len(words) == 1 and words[0].startswith(_FINDING):
        words = (NEWEST[0], *words)
    with where.open() as store:
        run_id, records, stage = load_run_and_name(store, words, stage_names)
        driven = store.is_driven(run_id)
        rounds = [] if stage or as_json else rounds_of(store.ledger(run_id), run_id)
    story, notes = story_of(records), view_notes(replay(records))
    if stage:
        visited = {part.stage for part in story if isinstance(part, VisitRecord)}
        story = [part for part in story if isinstance(part, VisitRecord) and part.stage == stage]
        if not story and stage.startswith(_FINDING):
            _tell_finding(stage, run_id, where, as_json=as_json)
            return
        if not story:
            raise unknown_stage_error(replay(records), stage, visited)
    if as_json:
        print_json([as_object(part, notes) for part in story])
        return
    open_word = "is running" if driven else "was interrupted"
    for part in story:
        for line in _lines(part, notes, Style.of(sys.stdout), open_word):
            click.echo(line)
    for line in _rounds(rounds):
        click.echo(line)


def _tell_finding(name: str, run_id: str, where: StoreLocation, *, as_json: bool) -> None:
    # few ask for it, and it takes a while
    from pipeline.app.findings.lookup import find_finding  # noqa: PLC0415
    from pipeline.app.findings.story import story  # noqa: PLC0415
    from pipeline.cli.findings.asked import look_at  # noqa: PLC0415
    from pipeline.cli.findings.why import story_lines  # noqa: PLC0415

    ledger = look_at(where, run_id, None).ledger
    finding = find_finding(name, ledger)
    if as_json:
        print_json([asdict(part) for part in story(finding, ledger)])
        return
    for line in story_lines(finding, ledger, Style.of(sys.stdout)):
        click.echo(line)


def _rounds(done: "list[Round]") -> Iterator[str]:
    """The rounds of reviews as a table, where the run had findings that code can read."""
    rows = [
        (one.number, one.resolved, one.carried, one.new, one.regressed, one.late, one.caused_by_fix) for one in done
    ]
    if not any(any(counts) for _, *counts in rows):
        return
    yield ""
    yield "round  resolved  carried  new  regressed  late  caused by a fix"
    for number, *counts in rows:
        cells = (f"{len(count):>{wide}}" for count, wide in zip(counts, (8, 7, 3, 9, 4, 15), strict=True))
        yield f"{number:>5}  {'  '.join(cells)}"


def _lines(part: VisitRecord | RunNote, notes: Notes, style: Style, open_word: str) -> Iterator[str]:
    if isinstance(part, RunNote):
        yield style.warning(_fitted("", f"-- {part.text}"))
        return
    yield _title(part, style, open_word)
    outcome = part.outcome or part.error
    if outcome and outcome.reason:
        yield _fitted(_INDENT, outcome.reason)
    for note in (*(outcome.notes if outcome else ()), *_notes(part, notes)):
        yield _fitted(_INDENT, f"note: {note}")
    for attempt in part.attempts:
        if len(part.attempts) > 1 or attempt.ended not in (AttemptEnd.DONE, AttemptEnd.OPEN, AttemptEnd.ERRORED):
            yield style.quiet(_fitted(_INDENT, _attempt(attempt, open_word)))
    if part.chosen:
        yield from (_fitted(_INDENT, line) for line in _way(part))


def _notes(visit: VisitRecord, notes: Notes) -> list[str]:
    """What was put back in view files after a visit."""
    return [note["note"] for note in notes if (note["stage"], note["visit"]) == (visit.stage, visit.visit)]


def _title(visit: VisitRecord, style: Style, open_word: str) -> str:
    plain = visit_label(visit.stage, visit.visit, min(40, terminal_width() // 2))
    within = f"  (in {sanitize_line(visit.within)})" if visit.within else ""
    if (outcome := visit.outcome or visit.error) is None:
        return f"{style.name(plain)}  {style.warning(open_word)}{within}"
    failure = f", {outcome.failure.error or outcome.failure.kind}" if outcome.failure else ""
    status = outcome.status
    rest = f" ({outcome.source}{failure})  {format_duration(outcome.duration)}{within}"
    room = terminal_width() - display_width(plain) - len(status) - 3
    return f"{style.name(plain)}  {paint_status(status, style)}{truncate(rest, room)}"


def _attempt(attempt: AttemptRecord, open_word: str) -> str:
    match attempt.ended:
        case AttemptEnd.FAILED:
            reason = (attempt.outcome.reason if attempt.outcome else "") or "no reason given"
            return f"attempt {attempt.number} failed, tried again after {format_duration(attempt.delay)}: {reason}"
        case AttemptEnd.ERRORED:
            reason = attempt.outcome.reason if attempt.outcome else ""
            return f"attempt {attempt.number} could not run: {reason}"
        case AttemptEnd.OPEN:
            return f"attempt {attempt.number} {open_word}"
        case AttemptEnd.DONE:
            return f"attempt {attempt.number} gave this outcome"
        case _:
            return f"attempt {attempt.number} was {attempt.ended}"


def _way(visit: VisitRecord) -> Iterator[str]:
    """The way taken with its reason; a condition that the reason does not quote gets a line of its own."""
    chosen = visit.chosen
    if chosen is None:
        return
    if chosen.target is None:
        yield f"the run ends: {chosen.reason}"
        return
    role = f" ({chosen.role})" if chosen.role not in ("", "transition", "route", "option") else ""
    yield f"-> {chosen.target}{role}: {chosen.reason}"
    if chosen.when and chosen.when not in chosen.reason:
        yield f"   when {chosen.when}"


def _fitted(indent: str, text: str) -> str:
    return indent + truncate(sanitize_line(text[:4000]), terminal_width() - len(indent) - 1)


def as_object(part: VisitRecord | RunNote, notes: Notes) -> dict[str, Any]:
    """A part of a run's story as JSON has it."""
    if isinstance(part, RunNote):
        return {"at": part.at, "note": part.text}
    outcome, chosen = part.outcome or part.error, part.chosen
    return {
        "stage": part.stage,
        "visit": part.visit,
        "within": part.within or None,
        "began": part.began,
        "ended": part.ended,
        "status": outcome.status if outcome else None,
        "source": outcome.source if outcome else None,
        "reason": outcome.reason if outcome else None,
        "failure": outcome.failure.kind if outcome and outcome.failure else None,
        "error": outcome.failure.error if outcome and outcome.failure else None,
        "duration": outcome.duration if outcome else None,
        "option": part.option or None,
        "notes": [*(outcome.notes if outcome else ()), *_notes(part, notes)],
        "attempts": [_attempt_object(attempt) for attempt in part.attempts],
        "chosen": asdict(chosen) if chosen else None,
    }


def _attempt_object(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "ended": attempt.ended,
        "reason": attempt.outcome.reason if attempt.outcome else None,
        "delay": attempt.delay if attempt.ended is AttemptEnd.FAILED else None,
    }
