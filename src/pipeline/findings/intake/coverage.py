"""Who answered in a pass, and what was looked at. Silence is never counted as a look."""

from collections.abc import Collection, Container, Iterable, Sequence

from pipeline.findings.claims import Return, Returned
from pipeline.findings.intake.gate import Fate
from pipeline.findings.intake.wording import legible
from pipeline.findings.passes import Coverage

_WORST = (Returned.MISSING, Returned.MALFORMED, Returned.PARTIAL, Returned.RETURNED, Returned.EMPTY)


def coverage(
    returns: Sequence[Return], unread: Container[str], fates: Sequence[Fate], changed: Collection[str] | None
) -> Coverage:
    """What all returns together cover. `unread` are the inputs that cannot be read: their reviewer answered in part."""
    reviewers: dict[str, Returned] = {}
    problems: dict[str, list[str]] = {}
    whole: list[str] = []
    for answer in sorted(returns, key=lambda answer: (answer.reviewer, answer.problem)):
        name, lost = legible(answer.reviewer), _count(answer, unread)
        status = Returned.PARTIAL if lost and answer.status.answered else answer.status
        reviewers[name] = min(status, reviewers.get(name, status), key=_WORST.index)
        told = (answer.problem, f"{lost} of {answer.inputs} items cannot be read" if lost else "")
        problems.setdefault(name, []).extend(legible(text) for text in told if text)
        whole += [legible(answer.file)] if answer.file and status.answered else []
    return Coverage(
        reviewers=reviewers,
        problems={name: "; ".join(texts) for name, texts in problems.items() if texts},
        testing_gaps=_notes((answer.testing_gaps for answer in returns), (fate.gap for fate in fates if fate.gap)),
        residual_risks=_notes(
            (answer.residual_risks for answer in returns), (fate.risk for fate in fates if fate.risk)
        ),
        paths=_paths(returns, changed),
        files=tuple(sorted(set(whole) - {legible(one.file) for one in returns if not one.status.answered})),
        unnamed=tuple(sorted({legible(one.file) for one in returns if one.file == one.reviewer and one.problem})),
    )


def _count(answer: Return, unread: Container[str]) -> int:
    ids = [*(claim.input_id for claim in answer.findings), *(item.input_id for item in answer.unreadable)]
    return sum(id in unread for id in ids)


def _notes(told: Iterable[Iterable[str]], demoted: Iterable[str]) -> tuple[str, ...]:
    """Every note once, in an order that does not depend on who answered first."""
    return tuple(sorted({legible(note) for notes in told for note in notes} | {legible(note) for note in demoted}))


def _paths(returns: Sequence[Return], changed: Collection[str] | None) -> tuple[str, ...] | None:
    """What was looked at; None is everything. Who does not say looked at the change, where it is known."""
    looked = [answer.covered for answer in returns if answer.status.answered]
    if any(paths is None for paths in looked) and changed is None:
        return None
    return tuple(sorted({path for paths in looked for path in (changed or () if paths is None else paths)}))
