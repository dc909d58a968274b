"""Loops that end, as whole runs: each kind of trouble leaves by its own way, and honest work, however slow, by none.

Everything is real but the agents' words: the command, the repository, the ledger, and the files that a fix writes.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

LOOP = """
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "gate" kind="decision" {
  route when="outcome(\\"rev\\") == \\"success\\"" to="end"
  route when="true" to="fix"
}
stage "fix" kind="llm" prompt="Fix it"
stage "hopeless" kind="tool" command="true"
stage "tired" kind="tool" command="true"
stage "end" kind="exit"
transition from="rev" to="gate"
transition from="fix" to="rev"
transition from="hopeless" to="end"
transition from="tired" to="end"
loop "fixing" {
  stages "rev" "gate" "fix"
  max_rounds 6
  on "stalled" to="hopeless"
  on "exhausted" to="tired"
}
"""
OWN = """
stage "make" kind="workspace.create"
transition from="make" to="rev"
"""
PLACES = pytest.mark.parametrize("place", ["checkout", "workspace"])
LINES = 240
ROUND = ["rev", "gate", "fix"]
NAMED = re.compile(r"stalled|exhausted|#\d+|\d+ of \d+")
ROW = re.compile(r"(?: +\d+){7}")


def code(**changed: str) -> str:
    """A long file; `l7="..."` says what its seventh line is instead."""
    return "".join(f"{changed.get(f'l{number}', usual(number))}\n" for number in range(1, LINES + 1))


def usual(number: int) -> str:
    """A line of it, unlike any other."""
    return f"total_{number} = combine(part_{number * 7919 % 1000}, {number})"


def item(title: str, line: int, quote: str = "", **more: Any) -> dict[str, Any]:
    """A finding as a reviewer returns it."""
    return {
        "title": title,
        "severity": "P1",
        "file": "app.py",
        "line": line,
        "why_it_matters": "it goes wrong",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "suggested_fix": "write it otherwise",
        "confidence": 100,
        "evidence": [f"app.py:{line} -- {quote or usual(line)}"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any], answers: str = "") -> str:
    """A review's answer: what it found, and below it what it says of known findings."""
    whole = {"reviewer": "rev", "findings": list(items), "residual_risks": [], "testing_gaps": []}
    return f"```json\n{json.dumps(whole)}\n```\n{answers}"


def fix(text: str, *answers: str) -> dict[str, Any]:
    """A fixer that writes the file, and says what became of findings."""
    return {"write": {"app.py": text}, "reply": "\n".join(("Done.", *(f"[FINDING {answer}]" for answer in answers)))}


class Project:
    """A repository with a long file in it, and one run there."""

    def __init__(self, awf: Awf, folder: Path) -> None:
        self._awf = awf
        self.folder = folder
        folder.mkdir()
        (folder / "app.py").write_text(code())
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")

    def git(self, *words: str) -> str:
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        return subprocess.run(named, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def run(
        self,
        script: dict[str, Any],
        place: str = "checkout",
        most: int = 30,
        *,
        run: str = "r",
        loop: str = LOOP,
        backend: tuple[str, ...] = ("--backend", "scripted", "--script", "script.json"),
    ) -> dict[str, Any]:
        """A whole run, in the checkout or in a workspace of its own."""
        start, own = ("make", OWN) if place == "workspace" else ("rev", "")
        head = f'workflow "W" {{\nversion 2\nstart "{start}"\nsettings {{ max_visits {most}; }}\n'
        (self.folder / "w.awf.kdl").write_text(f"{head}{own}{loop}\n}}\n")
        (self.folder / "script.json").write_text(json.dumps(script))
        given = [*backend, "--run-id", run, "--json"]
        done = self.awf("run", "w.awf.kdl", *given)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events, done.stderr
        assert not [event for event in events if event.get("event") == "plugin_failed"], done.stdout
        ended: dict[str, Any] = events[-1]
        return {**ended, "path": [stage for stage in ended["path"] if stage != "make"]}

    def awf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._awf(*arguments, cwd=self.folder)

    def left_because(self) -> list[str]:
        """What a loop's reason for being left names: its end, and a finding or a number of rounds."""
        told = json.loads(self.awf("why", "r", "--json").stdout)
        chosen = [part["chosen"] for part in told if part.get("chosen")]
        reasons = [one["reason"] for one in chosen if one["role"] == "loop"]
        return [named for reason in reasons for named in NAMED.findall(reason)]

    def rounds(self) -> list[list[int]]:
        """The table of rounds that `awf why` ends with: resolved, carried, new, regressed, late, caused by a fix."""
        lines = self.awf("why", "r").stdout.splitlines()
        rows = [[int(cell) for cell in line.split()] for line in lines if ROW.fullmatch(line)]
        assert [row[0] for row in rows] == [*range(1, len(rows) + 1)]
        return [row[1:] for row in rows]

    def prompt(self, stage: str, visit: int, run: str = "r") -> str:
        return self.awf("prompt", run, stage, "--visit", str(visit)).stdout


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project of its own."""
    return Project(awf, tmp_path / "project")


@PLACES
@pytest.mark.parametrize(
    "ruling", ["", "[FINDING 1: not fixed, because the handle still leaks]\n"], ids=["again", "said"]
)
def test_a_finding_that_is_not_fixed_twice_takes_the_stalled_transition(
    project: Project, place: str, ruling: str
) -> None:
    """The reviewer reports it again, or says so by its number: after the second time nothing is fixed any more."""
    leak = item("The handle leaks", 100)
    script = {
        "rev": [found(leak), found(leak, answers=ruling)],
        "fix": [fix(code(l90="# closer now"), "1: fixed"), fix(code(l90="# closer still"), "1: fixed")],
    }
    ended = project.run(script, place)
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]


@PLACES
def test_a_regression_takes_the_stalled_transition(project: Project, place: str) -> None:
    """What one fix mends the next one breaks again: it is seen the first time it comes back."""
    leak, race = item("The handle leaks", 100), item("Two threads may start at once", 20)
    repaired = {"l100": "with opened(path) as handle: pass"}
    script = {
        "rev": [found(leak), found(race, answers="[FINDING 1: fixed]\n"), found(leak, answers="[FINDING 2: fixed]\n")],
        "fix": [fix(code(**repaired), "1: fixed"), fix(code(l20="with lock: start()"), "2: fixed")],
    }
    ended = project.run(script, place)
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0]]


@PLACES
def test_fixes_that_make_findings_go_to_the_way_for_it(project: Project, place: str) -> None:
    """Each fix writes lines that have a defect of their own: in two rounds one after the other that is enough."""
    first = {f"l{line}": f"handle.step_{line}(retries=forever)" for line in range(100, 114)}
    second = first | {f"l{line}": f"signal.alarm(limit_of(step_{line}))" for line in range(108, 124)}
    script = {
        "rev": [
            found(item("The handle leaks", 100)),
            found(item("The loop waits without end", 110, first["l110"])),
            found(item("An alarm ends other work too", 120, second["l120"])),
        ],
        "fix": [fix(code(**first), "1: fixed"), fix(code(**second), "2: fixed")],
    }
    ended = project.run(script, place)
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#3"]
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1], [1, 0, 1, 0, 0, 1]]


@PLACES
def test_findings_without_end_are_bounded_by_the_rounds(project: Project, place: str) -> None:
    """Always something else, far from what was fixed: no signal, and after the last round no other begins."""
    places = [20 * number for number in range(1, 7)]
    texts = [code(**{f"l{line}": f"checked_{line} = sure({line})" for line in places[:done]}) for done in range(1, 7)]
    script = {
        "rev": [found(item(f"Case {line} is forgotten", line)) for line in places],
        "fix": [fix(text, f"{number}: fixed") for number, text in enumerate(texts, 1)],
    }
    ended = project.run(script, place)
    assert ended["path"] == [*ROUND * 6, "tired", "end"]
    assert project.left_because() == ["exhausted", "6 of 6"]
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], *[[1, 0, 1, 0, 1, 0]] * 5]


@PLACES
def test_five_rounds_with_progress_succeed(project: Project, place: str) -> None:
    """One defect is repaired in each round, and the fixer says of all others that they are not yet: no alarm."""
    places = [25 * number for number in range(1, 6)]
    items = [item(f"Case {line} is forgotten", line) for line in places]

    def repaired(count: int) -> dict[str, Any]:
        text = code(**{f"l{line}": f"checked_{line} = sure({line})" for line in places[:count]})
        rest = [f"{number}: not fixed, because one comes after the other" for number in range(count + 1, 6)]
        return fix(text, f"{count}: fixed", *rest)

    reviews = [found(*items[done:], answers=f"[FINDING {done}: fixed]\n" if done else "") for done in range(6)]
    ended = project.run({"rev": reviews, "fix": [repaired(count) for count in range(1, 6)]}, place)
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 5, "rev", "gate", "end"])
    assert project.left_because() == []
    assert project.rounds() == [[0, 0, 5, 0, 0, 0], *[[1, left, 0, 0, 0, 0] for left in range(4, -1, -1)]]


@PLACES
def test_what_a_fix_did_not_write_is_not_blamed_on_it(project: Project, place: str) -> None:
    """Late findings right beside each fix, on lines that nobody committed and nobody fixed, are no signal."""
    draft = {f"l{line}": f"draft_{line} = first_try({line})" for line in range(90, 150)}
    (project.folder / "app.py").write_text(code(**draft))
    if place == "workspace":  # which begins from a commit
        project.git("commit", "-qam", "draft")
    places = [100, 108, 116, 124]
    texts = [code(**(draft | {f"l{line}": f"sure_{line} = 1" for line in places[:done]})) for done in range(1, 5)]
    script = {
        "rev": [*(found(item(f"Case {line} is forgotten", line, draft[f"l{line}"])) for line in places), found()],
        "fix": [fix(text, f"{number}: fixed") for number, text in enumerate(texts, 1)],
    }
    ended = project.run(script, place)
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 4, "rev", "gate", "end"])
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], *[[1, 0, 1, 0, 1, 0]] * 3, [1, 0, 0, 0, 0, 0]]


LEAK = item("The handle leaks", 100)
TOLD = "## What changed since your last review (visit {visit})"


@PLACES
def test_a_review_prompt_has_what_was_tried_and_what_changed(project: Project, place: str) -> None:
    """4.3, 0-52: from the second visit on; every third visit is a full look at the whole change."""
    fixes = [
        fix(code(l90="# with a \N{WARNING SIGN}"), "1: fixed, by closing it"),
        fix(code(l90="# with a \N{WARNING SIGN}", l7="# second"), "1: not fixed, because it is hard"),
        fix(code(l90="# with a \N{WARNING SIGN}", l7="# third"), "1: fixed"),
    ]
    script = {"rev": [found(LEAK), found(LEAK), found(LEAK), found()], "fix": fixes}
    assert project.run(script, place)["status"] == "success"
    first, second, third, fourth = (project.prompt("rev", visit) for visit in (1, 2, 3, 4))
    assert TOLD.format(visit=1) in second
    assert "\n+# with a \N{WARNING SIGN}\n" in second
    assert "fix_claimed, tried 1 time" in second
    assert "tried: claimed" in second
    assert all(f"[FINDING N: {word}" in second for word in ("upheld", "withdrawn", "lowered to P2"))
    assert "What changed since" not in third
    assert "\n+# with a \N{WARNING SIGN}\n" in third
    assert "\n+# second\n" in third
    assert "tried: not_fixed fix because it is hard" in third
    assert TOLD.format(visit=3) in fourth
    assert "\n-# second\n" in fourth
    assert "WARNING SIGN" not in fourth
    assert not [text for text in (first, project.prompt("fix", 2)) if "What changed since" in text]
    assert "## Known findings" not in first
    assert "## Known findings" not in project.prompt("fix", 2)


def test_the_checkout_is_left_as_it_was(project: Project) -> None:
    """A run in the checkout touches neither the index nor the branches, and lets go of what it named at its end."""
    (project.folder / "staged.py").write_text("staged = 1\n")
    project.git("add", "staged.py")
    (project.folder / "staged.py").write_text("staged = 2\n")
    before = (project.folder / ".git/index").read_bytes()
    script = {"rev": [found(LEAK), found()], "fix": fix(code(l100="# repaired"), "1: fixed")}
    assert project.run(script)["status"] == "success"
    assert (project.folder / ".git/index").read_bytes() == before
    assert project.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_the_next_process_knows_what_was_reviewed(project: Project) -> None:
    """What a review looked at is on record with it, and git keeps it: a resumed run tells the next one."""
    script = {"rev": [found(LEAK), found()], "fix": fix(code(l100="# repaired"), "1: fixed")}
    stopped = project.run(script, most=1)
    assert stopped["status"] == "paused"
    project.git("gc", "-q", "--prune=now")
    done = project.awf("resume", "r", "--raise", "max_visits=+5", "--json")
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "success", done.stdout
    assert "\n+# repaired\n" in project.prompt("rev", 2)


def test_outside_a_repository_the_prompt_has_no_diff(project: Project) -> None:
    """There is nothing to compare with, and nothing fails."""
    (project.folder / ".git").rename(project.folder.parent / "git")
    script = {"rev": [found(LEAK), found()], "fix": fix(code(l100="# repaired"), "1: fixed")}
    assert project.run(script)["status"] == "success"
    assert "What changed" not in project.prompt("rev", 2)


def test_a_report_has_the_diff_size_of_the_run(project: Project) -> None:
    """From the commit that the run began with, new files and all; the page says until when."""
    repaired = fix(code(l100="# repaired"), "1: fixed")
    repaired["write"]["new.py"] = "one = 1\ntwo = 2\n"
    project.run({"rev": [found(LEAK), found()], "fix": repaired})
    for name in ("w.awf.kdl", "script.json"):
        (project.folder / name).unlink()
    assert project.awf("report", "r").returncode == 0
    page = (project.folder / ".awf/reports/r.md").read_text()
    assert "2 files changed, 3 insertions(+), 1 deletion(-)" in page
