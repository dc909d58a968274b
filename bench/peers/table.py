"""The figures as one table: a row for each measure, a column for each engine, the best of a row marked.

A row says what it is in words that stand alone, and nothing is left out because it is lost.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.kills import Trial
from bench.peers.measure import Measured
from bench.peers.protocol import stages

NOTHING = "–"
OURS = "awf"  # the titles of this engine's columns begin so
PER_STAGE = (  # name, counter, unit, digits
    ("time, ms", "seconds", 1e3, 2),
    ("CPU, ms", "cpu", 1e3, 2),
    ("to the kernel, KB", "handed", 1e-3, 1),
    ("to the disk, KB", "written", 1e-3, 1),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, as text and as what it is compared by."""

    text: str
    value: float | None = None  # None: it is not compared


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of all engines; of those that are compared, less is better."""

    name: str
    cells: tuple[Cell, ...]

    def best(self) -> float | None:
        """The least of what is compared, unless there is nothing to tell apart."""
        values = {cell.value for cell in self.cells if cell.value is not None}
        return min(values) if len(values) > 1 else None


def rows(rounds: Sequence[int], measured: Mapping[str, Measured], killed: Mapping[str, Sequence[Trial]]) -> list[Row]:
    """All rows."""
    everyone = list(measured.values())
    made = [
        Row(f"a stage: {name}, K={n}", tuple(_per_stage(known, n, counter, unit, digits) for known in everyone))
        for name, counter, unit, digits in PER_STAGE
        for n in rounds
    ]
    made.append(Row(f"growth of time, K={rounds[-1]} : {rounds[0]}", _each(everyone, lambda k: _growth(k, rounds))))
    made.append(Row("a stage: syncs", _each(everyone, _syncs)))
    made.append(Row("import, s", _each(everyone, lambda k: _figure(k.imported, 2))))
    made.append(Row("ready to begin, s", _each(everyone, lambda k: _ready(k, rounds[0]))))
    made.append(Row("ready to go on, s", _each(everyone, _resumed)))
    made.append(Row("ready to go on: after stages", _each(everyone, lambda k: Cell(f"{k.resumed_after:,}"))))
    made.append(Row("memory at the most, MB", _each(everyone, _memory)))
    made.append(Row("runs behind a figure", _each(everyone, lambda k: _counts(k, rounds))))
    return made + _kill_rows([killed.get(title, ()) for title in measured]) if killed else made


def _each(everyone: Sequence[Measured], cell: Callable[[Measured], Cell]) -> tuple[Cell, ...]:
    return tuple(map(cell, everyone))


def _figure(value: float, digits: int, mark: str = "") -> Cell:
    return Cell(f"{value:,.{digits}f}{mark}", None if mark else round(value, digits))


def _per_stage(known: Measured, rounds: int, name: str, unit: float, digits: int) -> Cell:
    runs = known.runs.get(rounds)
    if not runs:
        return Cell(NOTHING)
    value = statistics.median(run["work"][name] / run["stages"] for run in runs)
    mark = f" (of {runs[0]['stages']:,})" if known.capped(rounds) else ""
    return _figure(value * unit, digits, mark)


def _growth(known: Measured, rounds: Sequence[int]) -> Cell:
    if len(known.runs) < 2:
        return Cell(NOTHING)
    longest = max(known.runs)
    first, last = (
        statistics.median(run["work"]["seconds"] / run["stages"] for run in known.runs[n]) for n in (rounds[0], longest)
    )
    return _figure(last / first, 2, "+" if known.capped(longest) else "")


def _syncs(known: Measured) -> Cell:
    return Cell("no strace" if known.syncs is None else f"{known.syncs:.1f}")  # fewer is not better where none are safe


def _ready(known: Measured, rounds: int) -> Cell:
    return _figure(statistics.median(run["ready"]["seconds"] for run in known.runs[rounds]), 3)


def _resumed(known: Measured) -> Cell:
    if known.resumed is None:
        return Cell("refuses")
    return _figure(known.resumed, 3)


def _memory(known: Measured) -> Cell:
    longest = max(known.runs)
    mark = f" (of {known.runs[longest][0]['stages']:,})" if known.capped(longest) else ""
    return _figure(statistics.median(run["memory"] for run in known.runs[longest]) / 1e6, 0, mark)


def _counts(known: Measured, rounds: Sequence[int]) -> Cell:
    return Cell(", ".join(str(len(known.runs.get(n, ()))) for n in rounds))


def _kill_rows(killed: Sequence[Sequence[Trial]]) -> list[Row]:
    def row(name: str, count: Callable[[Sequence[Trial]], int], *, of: bool = False) -> Row:
        texts = [f"{count(found)}" + (f" of {len(found)}" if of else "") if found else NOTHING for found in killed]
        return Row(name, tuple(map(Cell, texts)))

    return [
        row("killed: completed", lambda found: sum(trial.completed for trial in found), of=True),
        row("killed: state as undisturbed", lambda found: sum(trial.correct for trial in found), of=True),
        row("killed: stages lost", lambda found: sum(trial.lost for trial in found)),
        row("killed: recorded stages run again", lambda found: sum(trial.again for trial in found)),
        row("killed: interrupted stages run again", lambda found: sum(trial.repeated for trial in found)),
    ]


def lost(made: Sequence[Row], titles: Sequence[str]) -> list[str]:
    """The rows in which neither of this engine's columns is the best."""
    ours = [index for index, title in enumerate(titles) if title.startswith(OURS)]
    compared = [row for row in made if row.best() is not None]
    return [row.name for row in compared if all(row.cells[index].value != row.best() for index in ours)]


def text(made: Sequence[Row], titles: Sequence[str]) -> str:
    """The table for a terminal; a star marks the best."""
    lines = [["", *titles]] + [[row.name, *(_starred(row, cell, "{}*") for cell in row.cells)] for row in made]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles) + 1)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def markdown(made: Sequence[Row], titles: Sequence[str]) -> str:
    """The table for a page; the best is bold."""
    lines = [["", *titles], ["---", *("--:" for _ in titles)]]
    lines += [[row.name, *(_starred(row, cell, "**{}**") for cell in row.cells)] for row in made]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _starred(row: Row, cell: Cell, mark: str) -> str:
    return mark.format(cell.text) if cell.value is not None and cell.value == row.best() else cell.text


def stages_of(rounds: Sequence[int]) -> str:
    """What K means, in stages."""
    return ", ".join(f"K={n}: {stages(n):,}" for n in rounds)
