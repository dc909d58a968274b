"""What looked at one tree together is taken in once, whatever kills the process; and git is asked little."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_structured import CODE, LOOP, found, item

from pipeline.app import runs
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus
from pipeline.findings import reviews, taking
from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.model import Report, What
from pipeline.journal.memory import MemoryJournal

REVIEWS = """
stage "reviews" kind="parallel" { branch "rev"; branch "qa"; branch "lint" }
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "qa" kind="llm" auto_status=true prompt="Review it"
stage "lint" kind="tool" findings="sarif" command="cat clean.sarif"
stage "gate" kind="decision" {
  route when="findings() > 0" to="fix"
  route when="true" to="end"
}
stage "fix" kind="llm" prompt="Fix it"
transition from="reviews" to="gate"
transition from="fix" to="reviews"
"""
CLEAN = '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]}'
WORSE = item("Descriptors leak", severity="P0", line=6, evidence=["app.py:6 -- return handle.read()"])
REPAIR = {"write": {"app.py": f"{CODE}# repaired\n"}, "reply": "Done.\n[FINDING 1: fixed]"}
ALL_FIXED = f"{found()}\n[FINDING 1: fixed]\n[FINDING 2: fixed]"
SCRIPT = {"rev": [found(item()), ALL_FIXED], "qa": [found(WORSE), ALL_FIXED], "fix": REPAIR}
LOOPED = {
    "rev": [found(item()), f"{found()}\n[FINDING 1: not fixed]", f"{found()}\n[FINDING 1: fixed]"],
    "fix": [REPAIR, {**REPAIR, "write": {"app.py": f"{CODE}# repaired again\n"}}],
}


class Killed(BaseException):
    """The process is gone."""


class MortalJournal(MemoryJournal):
    """A journal whose process is killed once, right before or right after one of its records is added."""

    def __init__(self, at: int = 0, *, after: bool = False) -> None:
        super().__init__()
        self.added = 0
        self.with_lines: set[int] = set()  # the records that were added together with lines of the ledger
        self._at, self._after = at, after

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        self.added += 1
        if lines:
            self.with_lines.add(self.added)
        dies = self.added == self._at
        if dies and not self._after:
            raise Killed
        number = super().append(run_id, record, attached=attached, lines=lines)
        if dies:
            raise Killed
        return number


class Trial:
    """A run in this process, which may be resumed."""

    def __init__(self, folder: Path, body: str, script: Any, start: str = "rev") -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.journal = folder, MortalJournal()
        self.environ = dict(os.environ)
        (folder / "app.py").write_text(CODE)
        (folder / "clean.sarif").write_text(CLEAN)
        head = f'workflow "W" {{\nversion 2\nstart "{start}"\nsettings {{ max_visits 4; }}\n'
        (folder / "w.awf.kdl").write_text(f'{head}{body}\nstage "end" kind="exit"\n}}\n')
        self._options = {"backend": "scripted", "script": json.dumps(script), "auto_approve": True}

    def in_git(self) -> None:
        """Put the files under version control."""
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
            subprocess.run(named, cwd=self.folder, check=True, capture_output=True)

    def run(self) -> runs.RunResult:
        entry = Catalog(self.folder, self.folder, self.folder).find("w.awf.kdl")
        record = runs.build_record(entry, check(entry), "r", "a goal", self._options, self.folder, 0.0)
        return asyncio.run(runs.start(record, self.journal, self._runtime()))

    def resume(self) -> runs.RunResult:
        return asyncio.run(runs.resume("r", runs.ResumeRequest(), self.journal, self._runtime()))

    def _runtime(self) -> Runtime:
        return Runtime(store=self.folder / ".awf", environ=self.environ)

    def ledger(self) -> Ledger:
        return LedgerStore(self.journal).ledger()

    def left_behind(self) -> tuple[list[str], dict[str, Any], str]:
        """The ledger, what conditions read of it, and the verdict file; without times and what is made from them."""
        context = load_state(self.journal, "r").context
        told = {key: context.get(key) for key in context if key.startswith("review.")}
        lines = [_timeless(line) for _, line in self.journal.ledger()]
        file = (self.folder / ".code-review/review-latest.json").read_text()
        return lines, json.loads(_timeless(json.dumps(told))), _timeless(file)


def _timeless(text: str) -> str:
    """A text without times and what is made from them: the ids of passes and reviews."""
    text = re.sub(r'"(reviewId|review)": ?"[0-9a-f]{8}"', r'"\1": "-"', text)
    return re.sub(r"REV-\d+-[0-9a-f]+|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)", "-", text)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, tuple[str, ...]]]:
    """What was taken in: the stage, its visit, and the reviewers."""
    done: list[tuple[str, int, tuple[str, ...]]] = []

    def counted(reports: Sequence[Report], ledger: Ledger, passed: Pass, *more: Any) -> taking.Taken:
        done.append((passed.stage, passed.visit, tuple(report.reviewer for report in reports)))
        return taking.take_in(reports, ledger, passed, *more)

    monkeypatch.setattr("pipeline.findings.run_findings.take_in", counted)
    return done


def test_reviews_one_after_the_other_are_a_pass_each(tmp_path: Path, taken: list[Any]) -> None:
    """With the rulings of a visit, and with the claims of the fixer before them."""
    trial = Trial(tmp_path, LOOP, LOOPED)
    assert trial.run().status is RunStatus.SUCCESS
    assert taken == [("rev", visit, ("rev",)) for visit in (1, 2, 3)]
    (finding,) = trial.ledger().findings.values()
    assert (finding.state, len(trial.ledger().passes)) == ("verified_fixed", 3)
    said = [(change.what, change.word) for change in finding.history if change.what in (What.CLAIM, What.RULING)]
    assert said == [("claim", "fixed"), ("ruling", "not_fixed"), ("claim", "fixed"), ("ruling", "fixed")]


def test_branches_are_taken_in_once_when_they_are_joined(tmp_path: Path, taken: list[Any]) -> None:
    """A round of several reviewers and tools is one pass, with one line of work for what two of them describe."""
    trial = Trial(tmp_path, REVIEWS, SCRIPT, "reviews")
    assert trial.run().status is RunStatus.SUCCESS
    assert taken == [("reviews", visit, ("rev", "qa", "lint")) for visit in (1, 2)]
    ledger = trial.ledger()
    assert [passed.round for passed in ledger.passes.values()] == [1, 2]
    assert {look.reviewer for look in next(iter(ledger.passes.values())).coverage.looks} == {"rev", "qa", "lint"}
    assert [len(line.members) for line in ledger.lines()] == [2]
    assert {finding.state for finding in ledger.findings.values()} == {"verified_fixed"}


def test_a_failure_that_no_finding_explains_is_taken_in_with_the_report(tmp_path: Path, taken: list[Any]) -> None:
    """The agent says that the review fails, and lists nothing: asked again it says so again, and that blocks."""
    body = 'stage "rev" kind="llm" auto_status=true prompt="x"\ntransition from="rev" to="end"\n'
    answer = f"{found()}\n[STATUS: fail]\n[FAILURE_REASON: it does not build]"
    trial = Trial(tmp_path, body, {"rev": [answer]})
    trial.run()
    assert taken == [("rev", 1, ("rev",))]
    assert [(one.title, one.state) for one in trial.ledger().findings.values()] == [("it does not build", "uncertain")]


CHECKED = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "ci" kind="tool" command="test $AWF_VISIT = 2"
stage "gate" kind="decision" {
  route when="reports() > 0" to="fix"
  route when="true" to="end"
}
stage "fix" kind="llm" prompt="Fix it"
transition from="rev" to="ci"
transition from="ci" to="gate" on="always"
transition from="fix" to="rev"
"""


def test_a_plain_tool_that_failed_once_does_not_keep_a_change_from_shipping(tmp_path: Path) -> None:
    """Its success closes what it failed for. That is a pass over the same change, which everybody has looked at."""
    trial = Trial(tmp_path, CHECKED, {"rev": [found()], "fix": REPAIR})
    trial.in_git()
    assert trial.run().path.count("ci") == 2
    first, *_, last = trial.ledger().passes.values()
    assert (first.stage, last.stage, last.tree != "", last.paths) == ("rev", "ci", True, ("app.py",))
    known = reviews.review(trial.ledger())
    assert (known.verdict, known.unseen, known.shipping) == ("PASS", (), "ship")


def test_a_kill_at_any_record_changes_nothing(tmp_path: Path) -> None:
    """Answers that were recorded with their branches are taken in exactly once, whichever process joins them."""
    undisturbed = Trial(tmp_path / "undisturbed", REVIEWS, SCRIPT, "reviews")
    assert undisturbed.run().status is RunStatus.SUCCESS
    expected = undisturbed.left_behind()
    deaths = [(at, False) for at in range(1, undisturbed.journal.added + 1)]
    for at, after in [*deaths, *((at, True) for at in undisturbed.journal.with_lines)]:
        trial = Trial(tmp_path / f"{at}-{after}", REVIEWS, SCRIPT, "reviews")
        trial.journal = MortalJournal(at, after=after)
        with pytest.raises((Killed, BaseExceptionGroup), match=r"^$|unhandled"):
            trial.run()
        assert trial.resume().status is RunStatus.SUCCESS
        assert trial.left_behind() == expected, (at, after)


def test_git_is_asked_little(tmp_path: Path) -> None:
    """One snapshot when a review starts and one when it ends serve all who ask: at most 31 processes for each visit."""
    log, git = tmp_path / "log", shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {git} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    trial = Trial(tmp_path / "project", LOOP, LOOPED)
    trial.in_git()
    trial.environ["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert trial.run().path.count("rev") == 3
    asked = log.read_text().splitlines()
    assert len([line for line in asked if " add --all " in line]) == 6, Counter(asked)
    assert len(asked) <= 93, Counter(asked)
