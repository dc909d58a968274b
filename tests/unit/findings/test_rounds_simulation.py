"""Two hundred simulated loops that make progress, with the real ledger, matcher and stall signals: none is stalled.

Progress is slow and inexact: reviewers overlook defects and cite a neighbouring line; fixers postpone fixes, claim once
that a defect is fixed when it is not, move lines, and sometimes break something. No fix fails twice, no defect comes
back, and no two rounds in a row break something.
"""

import difflib
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.findings.passes import raw

from pipeline.findings import ingest as taking
from pipeline.findings.answers import drop_conflicting_rulings, fixer_events, reviewer_events
from pipeline.findings.events import LedgerEvent, Pass
from pipeline.findings.ingest import IngestResult, ingest, new_pass_id
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import LineMap, parse_diff
from pipeline.findings.model import Answer, RawFinding, ReportStatus, ReviewerReport
from pipeline.findings.rounds import rounds, stall_reason

SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu")
LOOPS = 200
LONGEST = 40  # rounds, by which the slowest is done
FILE = "app.py"
WORDS = (
    "lock",
    "handle",
    "cursor",
    "buffer",
    "socket",
    "ticket",
    "header",
    "window",
    "packet",
    "signal",
    "budget",
    "record",
)


@dataclass
class Past:
    """Every version of the file by a name like git's: a history without git."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    asked: dict[tuple[str, str], LineMap] = field(default_factory=dict)

    def keep(self, lines: Sequence[str]) -> str:
        """Keep a version and return its name."""
        name = f"{len(self.texts) + 1:040x}"
        self.texts[name] = list(lines)
        return name

    def lines(self, path: str, commit: str = "") -> Sequence[str] | None:
        del path, commit
        return next(reversed(self.texts.values()))

    def changes(self, old: str, new: str = "", keep: Collection[str] | None = None) -> LineMap | None:
        del keep
        if (old, new) not in self.asked:
            texts = self.texts[old], self.texts[new]
            diff = difflib.unified_diff(*texts, f"a/{FILE}", f"b/{FILE}", lineterm="", n=0)
            self.asked[old, new] = parse_diff("\n".join((f"diff --git a/{FILE} b/{FILE}", *diff)))
        return self.asked[old, new]


@dataclass
class Defect:
    """A line that is wrong, known by its text."""

    text: str
    title: str
    number: int = 0  # of its finding, once it is reported
    botched: bool = False  # a fix was claimed once and did not hold
    claimed: bool = False


@dataclass
class Loop:
    """One loop: the file, its defects and the ledger."""

    chance: random.Random
    root: Path
    past: Past
    ledger: Ledger = field(default_factory=Ledger)
    lines: list[str] = field(default_factory=list)
    wrong: list[Defect] = field(default_factory=list)
    fixed: list[Defect] = field(default_factory=list)
    made: int = 0
    broke: bool = False  # whether the last round of fixes broke something

    def __post_init__(self) -> None:
        self.lines = [self._line() for _ in range(self.chance.randint(30, 90))]
        for text in self.chance.sample(self.lines, self.chance.randint(1, 6)):
            self.wrong.append(self._defect(text))

    def _line(self) -> str:
        self.made += 1
        words = self.chance.choices(WORDS, k=4)
        return f"{words[0]}_{self.made} = {words[1]}({words[2]}_{self.chance.randint(0, 99)}, {words[3]!r})"

    def _defect(self, text: str) -> Defect:
        return Defect(text, " ".join("".join(self.chance.choices(SYLLABLES, k=4)) for _ in range(5)))

    def review(self, number: int) -> bool:
        """One round of review; whether anything was reported."""
        (self.root / FILE).write_text("".join(f"{line}\n" for line in self.lines))
        id, tree = new_pass_id(self.ledger, number, ""), self.past.keep(self.lines)
        passed = Pass(id=id, started_at=_at(number), run="r", stage="rev", round=number, tree=tree)
        told = [one for one in self.wrong if self.chance.random() < 0.7] or self.wrong[:1]
        items = tuple(self._claim(n, defect) for n, defect in enumerate(told, 1))
        returned = ReviewerReport("rev", ReportStatus.RETURNED if items else ReportStatus.EMPTY, items)
        said = list(self._answers(told))

        def respond(ledger: Ledger, reported: frozenset[str]) -> Iterator[LedgerEvent]:
            answers = drop_conflicting_rulings(said, ledger, reported)
            return reviewer_events(answers, ledger, run="r", round=number, by="rev", at=_at(number))

        taken = ingest([returned], self.ledger, passed, self.root, {}, _at(number), respond)
        self._apply(taken.events)
        self._number(told, taken)
        return bool(told)

    def _number(self, told: Sequence[Defect], taken: IngestResult) -> None:
        """Give each defect the number of its finding."""
        for finding in taken.findings:
            for vote in finding.votes:
                told[int(vote.input_id.partition("#")[2]) - 1].number = self.ledger.findings[finding.id].number

    def _answers(self, told: Sequence[Defect]) -> Iterator[Answer]:
        """The reviewer's answers: confirms most fixes that hold, refutes some that do not."""
        for one in self.fixed:
            if one.number and one.claimed and self.chance.random() < 0.7:
                yield Answer(one.number, "fixed")
        for one in told:
            if one.number and one.claimed and self.chance.random() < 0.5:
                yield Answer(one.number, "not_fixed", "it is still there")

    def _claim(self, n: int, defect: Defect) -> RawFinding:
        line = self.lines.index(defect.text) + 1
        beside = max(1, min(len(self.lines), line + self.chance.choice((0, 0, 0, -1, 1))))
        title = f"perhaps {defect.title}" if self.chance.random() < 0.3 else defect.title
        return raw("rev", beside, n=n, title=title, path=FILE, quote=defect.text, confidence=100)

    def fix(self, number: int) -> None:
        """One round of fixes."""
        before = set(self.lines)
        answers = [self._fix_one(one) for one in list(self.wrong) if one.number]
        self._apply(fixer_events(answers, self.ledger, run="r", round=number, by="fix", at=_at(number)))
        written = [line for line in self.lines if line not in before]
        self.broke = bool(written) and not self.broke and self.chance.random() < 0.4
        if self.broke:
            self.wrong.append(self._defect(self.chance.choice(written)))
        for _ in range(self.chance.randint(0, 3)):  # unrelated edits
            self.lines.insert(self.chance.randint(0, len(self.lines)), f"# {self._line()}")

    def _fix_one(self, defect: Defect) -> Answer:
        assert defect.number
        if self.chance.random() < 0.4:
            return Answer(defect.number, "not_fixed", "one comes after the other")
        defect.claimed = True
        if not defect.botched and self.chance.random() < 0.2:
            defect.botched = True
            return Answer(defect.number, "fixed")
        at = self.lines.index(defect.text)
        self.lines[at : at + 1] = [self._line() for _ in range(self.chance.randint(0, 4))]
        self.wrong.remove(defect)
        self.fixed.append(defect)
        return Answer(defect.number, "fixed")

    def _apply(self, events: Iterator[LedgerEvent] | Sequence[LedgerEvent]) -> None:
        for event in list(events):
            self.ledger.apply(event)


def _at(number: int) -> str:
    return f"2026-01-02T03:{number:02}:00Z"


@pytest.mark.parametrize("batch", range(4))
def test_a_loop_that_makes_progress_is_not_stalled(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop is called stalled, and each one ends."""
    for seed in range(batch * LOOPS // 4, (batch + 1) * LOOPS // 4):
        loop = Loop(random.Random(seed), tmp_path, Past())  # noqa: S311 - the same loops every time
        monkeypatch.setattr(taking, "GitHistory", lambda *_, past=loop.past: past)
        number = 1
        while loop.review(number):
            assert stall_reason(loop.ledger, "r") == "", f"loop {seed}, round {number}"
            loop.fix(number)
            number += 1
            assert number < LONGEST, f"loop {seed} does not end"
        assert rounds(loop.ledger, "r")[-1].outstanding == frozenset(), f"loop {seed}"
