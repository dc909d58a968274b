"""`awf why`: the path of a run, and why it took each transition."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeline.app.history import AttemptEnd, AttemptRecord, RunNote, VisitRecord, read_review, read_rounds
from pipeline.app.overview import view_notes
from pipeline.app.run_names import NEWEST
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_history_and_name, paint_status, print_json, stage_names
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.text import display_width, format_duration, one_line, plural, sanitize_line, truncate, visit_label

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
    """Explain the path of a run: the outcome of each visit, and why the run took each transition.

    RUN is the id of a run, the beginning of one, or "latest", the default. With STAGE, only visits of that stage are
    shown. With FINDING, an id or a number such as "#3", the history of that finding is shown.
    """
    if len(words) == 1 and words[0].startswith(_FINDING):
        words = (NEWEST[0], *words)
    with where.open() as store:
        history, name = load_history_and_name(store, words, stage_names)
        run_id = history.state.run_id
        driven = store.is_driven(run_id)
        rounds = [] if name or as_json else read_rounds(store.ledger(run_id), run_id)
        review = None if name or as_json else read_review(store.ledger(run_id), run_id)
    if name.startswith(_FINDING) and name not in stage_names(history.state):
        _explain_finding(name, run_id, where, as_json=as_json)
        return
    timeline, notes = history.visits_of(name) if name else history.timeline, view_notes(history.state)
    if as_json:
        print_json([as_object(entry, notes) for entry in timeline])
        return
    style, unfinished = Style.of(sys.stdout), "is running" if driven else "was interrupted"
    for entry in timeline:
        for line in _entry_lines(entry, notes, style, unfinished):
            click.echo(line)
    for line in _round_lines(rounds):
        click.echo(truncate(line, style.width - 1))
    if review and review.open:
        count = f"{plural(len(review.open), 'open line')} of work"
        click.echo("\n" + truncate(f"{count}: awf findings list --run {run_id}{where.end}", style.width - 1))


def as_object(entry: VisitRecord | RunNote, notes: Notes) -> dict[str, Any]:
    """An entry of the timeline as JSON."""
    if isinstance(entry, RunNote):
        return {"at": entry.at, "note": entry.text}
    outcome = entry.outcome or entry.error
    failure = outcome.failure if outcome else None
    return {
        "stage": entry.stage,
        "visit": entry.visit,
        "within": entry.within or None,
        "began": entry.began,
        "ended": entry.ended if entry.outcome else None,
        "status": outcome.status if outcome else None,
        "source": outcome.source if outcome else None,
        "reason": outcome.reason if outcome else None,
        "failure": failure.kind if failure else None,
        "error": failure.error if failure else None,
        "duration": outcome.duration if outcome else None,
        "option": entry.option or None,
        "notes": _visit_notes(entry, notes),
        "attempts": [
            {
                "attempt": attempt.number,
                "ended": attempt.end,
                "reason": attempt.outcome.reason if attempt.outcome and attempt.end is not AttemptEnd.DONE else None,
                "delay": attempt.delay if attempt.end is AttemptEnd.FAILED else None,
            }
            for attempt in entry.attempts
        ],
        "chosen": asdict(entry.chosen) if entry.chosen else None,
    }


def _visit_notes(visit: VisitRecord, notes: Notes) -> list[str]:
    """The notes of a visit's outcome, and what was restored in view files after it."""
    outcome = visit.outcome or visit.error
    restored = [note["note"] for note in notes if (note["stage"], note["visit"]) == (visit.stage, visit.visit)]
    return [*(outcome.notes if outcome else ()), *restored]


def _entry_lines(entry: VisitRecord | RunNote, notes: Notes, style: Style, unfinished: str) -> Iterator[str]:
    def fit(indent: str, text: str) -> str:
        return indent + one_line(text, style.width - len(indent) - 1)

    if isinstance(entry, RunNote):
        yield style.warning(fit("", f"-- {entry.text}"))
        return
    yield _title(entry, style, unfinished)
    outcome = entry.outcome or entry.error
    if outcome and outcome.reason:
        yield fit(_INDENT, outcome.reason)
    for note in _visit_notes(entry, notes):
        yield fit(_INDENT, f"note: {note}")
    for attempt in entry.attempts:
        if len(entry.attempts) > 1 or attempt.end in (AttemptEnd.FAILED, AttemptEnd.INTERRUPTED, AttemptEnd.CANCELLED):
            yield style.quiet(fit(_INDENT, _attempt_text(attempt, unfinished)))
    if chosen := entry.chosen:
        if chosen.target is None:
            yield fit(_INDENT, f"run ended: {chosen.reason}")
            return
        role = f" ({chosen.role})" if chosen.role not in ("", "transition", "route", "option") else ""
        yield fit(_INDENT, f"-> {chosen.target}{role}: {chosen.reason}")
        if chosen.when and chosen.when not in chosen.reason:
            yield fit(_INDENT, f"   when {chosen.when}")


def _title(visit: VisitRecord, style: Style, unfinished: str) -> str:
    label = visit_label(visit.stage, visit.visit, min(40, style.width // 2))
    within = f"  (in {sanitize_line(visit.within)})" if visit.within else ""
    outcome = visit.outcome or visit.error
    if outcome is None:
        return f"{style.name(label)}  {style.warning(unfinished)}{within}"
    failure = f", {outcome.failure.error or outcome.failure.kind}" if outcome.failure else ""
    rest = f" ({outcome.source}{failure})  {format_duration(outcome.duration)}{within}"
    room = style.width - display_width(label) - len(outcome.status) - 3
    return f"{style.name(label)}  {paint_status(outcome.status, style)}{truncate(rest, room)}"


def _attempt_text(attempt: AttemptRecord, unfinished: str) -> str:
    reason = (attempt.outcome.reason if attempt.outcome else "") or "no reason given"
    match attempt.end:
        case AttemptEnd.FAILED:
            return f"attempt {attempt.number} failed, retried after {format_duration(attempt.delay)}: {reason}"
        case AttemptEnd.ERRORED:
            return f"attempt {attempt.number} could not run: {reason}"
        case AttemptEnd.OPEN:
            return f"attempt {attempt.number} {unfinished}"
        case AttemptEnd.DONE:
            return f"attempt {attempt.number} had this outcome"
        case _:
            return f"attempt {attempt.number} was {attempt.end}"


def _round_lines(rounds: "list[Round]") -> Iterator[str]:
    """Yield the review rounds as a table; nothing for a run without findings."""
    rows = [(one.number, one.resolved, one.carried, one.new, one.regressed) for one in rounds]
    if not any(any(groups) for _, *groups in rows):
        return
    yield ""
    yield "round  resolved  carried  new  regressed"
    for number, *groups in rows:
        cells = (f"{len(group):>{width}}" for group, width in zip(groups, (8, 7, 3, 9), strict=True))
        yield f"{number:>5}  {'  '.join(cells)}"


def _explain_finding(name: str, run_id: str, where: StoreLocation, *, as_json: bool) -> None:
    # These take as long to load as the whole command, and few ask about a finding.
    from pipeline.app.findings.lookup import find_finding  # noqa: PLC0415
    from pipeline.cli.findings.options import FindingsSource  # noqa: PLC0415
    from pipeline.cli.findings.show import explanation_lines  # noqa: PLC0415
    from pipeline.findings.explanation import explain  # noqa: PLC0415

    ledger = FindingsSource(where, run_id).read()
    finding = find_finding(name, ledger)
    if as_json:
        print_json([{"title": title, "lines": lines} for title, lines in explain(finding, ledger).items()])
        return
    for line in explanation_lines(finding, ledger, Style.of(sys.stdout)):
        click.echo(line)
