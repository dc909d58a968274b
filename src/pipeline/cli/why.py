"""`awf why`: the path of a run, and why it took each transition."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeline.app.history import AttemptEnd, AttemptRecord, RunNote, VisitRecord, read_review, read_rounds
from pipeline.app.overview import error_kind, view_notes
from pipeline.app.run_names import NEWEST
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_history_and_name, paint_status, print_json, stage_names
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.engine.outcome import Outcome
from pipeline.engine.routing import Selection
from pipeline.text import display_width, format_duration, one_line, plural, sanitize_line, truncate, visit_label

if TYPE_CHECKING:
    from pipeline.engine.ports import Journal

Notes = Sequence[dict[str, Any]]

_INDENT = "    "
_FINDING = ("fnd_", "#")  # how the name of a finding begins
_TOLD_ALONE = (AttemptEnd.FAILED, AttemptEnd.INTERRUPTED, AttemptEnd.CANCELLED)  # even of a single attempt
_PLAIN_ROLES = ("", "transition", "route", "option")  # of an edge, which need no word


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
        if name.startswith(_FINDING) and name not in stage_names(history.state):
            _explain_finding(name, run_id, where, as_json=as_json)
            return
        timeline, notes = history.visits_of(name) if name else history.timeline, view_notes(history.state)
        if as_json:
            print_json([as_object(entry, notes) for entry in timeline])
            return
        unfinished = "is running" if store.is_driven(run_id) else "was interrupted"
        after = "" if name else _findings_after(store.ledger(run_id), run_id, where)
    style = Style.of(sys.stdout)
    for entry in timeline:
        for line in _entry_lines(entry, notes, style, unfinished):
            click.echo(line)
    for line in after.splitlines():
        click.echo(truncate(line, style.width - 1))


def as_object(entry: VisitRecord | RunNote, notes: Notes) -> dict[str, Any]:
    """Return an entry of the timeline as JSON."""
    if isinstance(entry, RunNote):
        return {"at": entry.at, "note": entry.text}
    return {
        "stage": entry.stage,
        "visit": entry.visit,
        "within": entry.within or None,
        "began": entry.began,
        "ended": entry.ended if entry.outcome else None,
        **_result_object(entry.result),
        "option": entry.option or None,
        "notes": _visit_notes(entry, notes),
        "attempts": [
            {
                "attempt": attempt.number,
                "ended": attempt.end,
                "reason": attempt.reason if attempt.end is not AttemptEnd.DONE else None,
                "delay": attempt.delay if attempt.end is AttemptEnd.FAILED else None,
            }
            for attempt in entry.attempts
        ],
        "chosen": asdict(entry.chosen) if entry.chosen else None,
    }


def _result_object(result: Outcome | None) -> dict[str, Any]:
    if result is None:
        return dict.fromkeys(("status", "source", "reason", "failure", "error", "duration"))
    return {
        "status": result.status,
        "source": result.source,
        "reason": result.reason,
        "failure": result.failure.kind if result.failure else None,
        "error": result.failure.error if result.failure else None,
        "duration": result.duration,
    }


def _visit_notes(visit: VisitRecord, notes: Notes) -> list[str]:
    """Return the notes of a visit's outcome, and what was restored in view files after it."""
    own = visit.result.notes if visit.result else ()
    restored = [note["note"] for note in notes if (note["stage"], note["visit"]) == (visit.stage, visit.visit)]
    return [*own, *restored]


def _entry_lines(entry: VisitRecord | RunNote, notes: Notes, style: Style, unfinished: str) -> Iterator[str]:
    if isinstance(entry, RunNote):
        yield style.warning(one_line(f"-- {entry.text}", style.width - 1))
        return

    def below(text: str) -> str:
        return _INDENT + one_line(text, style.width - len(_INDENT) - 1)

    yield _title(entry, style, unfinished)
    if entry.result and entry.result.reason:
        yield below(entry.result.reason)
    for note in _visit_notes(entry, notes):
        yield below(f"note: {note}")
    for attempt in entry.attempts:
        if len(entry.attempts) > 1 or attempt.end in _TOLD_ALONE:
            yield style.quiet(below(_attempt_text(attempt, unfinished)))
    if entry.chosen:
        yield from map(below, _choice_lines(entry.chosen))


def _choice_lines(chosen: Selection) -> Iterator[str]:
    if chosen.target is None:
        yield f"run ended: {chosen.reason}"
        return
    role = "" if chosen.role in _PLAIN_ROLES else f" ({chosen.role})"
    yield f"-> {chosen.target}{role}: {chosen.reason}"
    if chosen.when not in chosen.reason:
        yield f"   when {chosen.when}"


def _title(visit: VisitRecord, style: Style, unfinished: str) -> str:
    label = visit_label(visit.stage, visit.visit, min(40, style.width // 2))
    within = f"  (in {sanitize_line(visit.within)})" if visit.within else ""
    result = visit.result
    if result is None:
        return f"{style.name(label)}  {style.warning(unfinished)}{within}"
    failure = f", {error_kind(result.failure)}" if result.failure else ""
    rest = f" ({result.source}{failure})  {format_duration(result.duration)}{within}"
    room = style.width - display_width(label) - len(result.status) - 3
    return f"{style.name(label)}  {paint_status(result.status, style)}{truncate(rest, room)}"


def _attempt_text(attempt: AttemptRecord, unfinished: str) -> str:
    reason = attempt.reason or "no reason given"
    ended = {
        AttemptEnd.FAILED: f"failed, retried after {format_duration(attempt.delay)}: {reason}",
        AttemptEnd.ERRORED: f"could not run: {reason}",
        AttemptEnd.OPEN: unfinished,
        AttemptEnd.DONE: "had this outcome",
        AttemptEnd.INTERRUPTED: "was interrupted",
        AttemptEnd.CANCELLED: "was cancelled",
    }
    return f"attempt {attempt.number} {ended[attempt.end]}"


def _findings_after(journal: "Journal", run_id: str, where: StoreLocation) -> str:
    """Return the review rounds of a run as a table, and how much of what they found is left to do."""
    rows = [(one.number, (one.resolved, one.carried, one.new, one.regressed)) for one in read_rounds(journal, run_id)]
    lines = list[str]()
    if any(any(groups) for _, groups in rows):
        lines += ["", "round  resolved  carried  new  regressed"]
        for number, groups in rows:
            resolved, carried, new, regressed = map(len, groups)
            lines.append(f"{number:>5}  {resolved:>8}  {carried:>7}  {new:>3}  {regressed:>9}")
    review = read_review(journal, run_id)
    if review and review.open:
        count = plural(len(review.open), "open line of work", "open lines of work")
        lines += ["", f"{count}: awf findings list --run {run_id}{where.end}"]
    return "\n".join(lines)


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
