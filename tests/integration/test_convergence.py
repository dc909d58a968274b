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
LINES = 240
ROUND = ["rev", "gate", "fix"]
NAMED = re.compile(r"stalled|exhausted|#\d+|\d+ of \d+")
ROW = re.compile(r"(?: +\d+){5}")


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
    """A review's answer: what it found, and below it what it rules on known findings."""
    whole = {
        "reviewer": "rev",
        "findings": list(items),
        "reviewed": ["app.py, script.json: read"],
        "residual_risks": [],
        "testing_gaps": [],
    }
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
        """The table of rounds that `awf why` ends with: resolved, carried, new, regressed."""
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


@pytest.mark.parametrize("place", ["checkout", "workspace"])
def test_a_finding_that_is_not_fixed_twice_takes_the_stalled_transition(project: Project, place: str) -> None:
    """The reviewer says so by its number, then reports it again: after the second time nothing is fixed any more."""
    leak = item("The handle leaks", 100)
    refuted = "[FINDING 1: not fixed, because the handle still leaks]\n"
    script = {
        "rev": [found(leak), found(answers=refuted), found(leak)],
        "fix": [fix(code(l90="# closer now"), "1: fixed"), fix(code(l90="# closer still"), "1: fixed")],
    }
    ended = project.run(script, place)
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]
    assert project.rounds() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]]


def test_a_regression_takes_the_stalled_transition(project: Project) -> None:
    """What one fix mends the next one breaks again: it is seen the first time it comes back."""
    leak, race = item("The handle leaks", 100), item("Two threads may start at once", 20)
    repaired = {"l100": "with opened(path) as handle: pass"}
    script = {
        "rev": [found(leak), found(race, answers="[FINDING 1: fixed]\n"), found(leak, answers="[FINDING 2: fixed]\n")],
        "fix": [fix(code(**repaired), "1: fixed"), fix(code(l20="with lock: start()"), "2: fixed")],
    }
    ended = project.run(script)
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]
    assert project.rounds() == [[0, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]]


def test_findings_without_end_are_bounded_by_the_rounds(project: Project) -> None:
    """Each fix is verified and something else is found: no signal, and after the last round no other begins."""
    places = [20 * number for number in range(1, 7)]
    texts = [code(**{f"l{line}": f"checked_{line} = sure({line})" for line in places[:done]}) for done in range(1, 7)]
    reviews = [
        found(item(f"Case {line} is forgotten", line), answers=f"[FINDING {done}: fixed]\n" if done else "")
        for done, line in enumerate(places)
    ]
    script = {"rev": reviews, "fix": [fix(text, f"{number}: fixed") for number, text in enumerate(texts, 1)]}
    ended = project.run(script)
    assert ended["path"] == [*ROUND * 6, "tired", "end"]
    assert project.left_because() == ["exhausted", "6 of 6"]
    assert project.rounds() == [[0, 0, 1, 0], *[[1, 0, 1, 0]] * 5]


def test_five_rounds_with_progress_succeed(project: Project) -> None:
    """One defect is repaired in each round, and the fixer says of all others that they are not yet: no alarm."""
    places = [25 * number for number in range(1, 6)]
    items = [item(f"Case {line} is forgotten", line) for line in places]

    def repaired(count: int) -> dict[str, Any]:
        text = code(**{f"l{line}": f"checked_{line} = sure({line})" for line in places[:count]})
        rest = [f"{number}: not fixed, because one comes after the other" for number in range(count + 1, 6)]
        return fix(text, f"{count}: fixed", *rest)

    reviews = [found(*items[done:], answers=f"[FINDING {done}: fixed]\n" if done else "") for done in range(6)]
    ended = project.run({"rev": reviews, "fix": [repaired(count) for count in range(1, 6)]})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 5, "rev", "gate", "end"])
    assert project.left_because() == []
    assert project.rounds() == [[0, 0, 5, 0], *[[1, left, 0, 0] for left in range(4, -1, -1)]]


LEAK = item("The handle leaks", 100)
VERIFIED = found(answers="[FINDING 1: fixed]")
DELTA = "## What changed since your last look"


@pytest.mark.parametrize("place", ["checkout", "workspace"])
def test_a_review_prompt_has_what_was_tried_and_what_changed(project: Project, place: str) -> None:
    """From the second visit on: the findings by number, and the changes since the reviewer's last look.

    It is given the whole change while more than half of that is new, as after the first fix in a workspace.
    """
    fixes = [
        fix(code(l90="# with a \N{WARNING SIGN}"), "1: fixed, by closing it"),
        fix(code(l90="# with a \N{WARNING SIGN}", l7="# second"), "1: not fixed, because it is hard"),
        fix(code(l90="# with a \N{WARNING SIGN}", l7="# third"), "1: fixed"),
    ]
    assert project.run({"rev": [found(LEAK), found(LEAK), found(LEAK), VERIFIED], "fix": fixes}, place)["path"] == [
        *ROUND * 3,
        *("rev", "gate", "end"),
    ]
    first, second, third, fourth = (project.prompt("rev", visit) for visit in (1, 2, 3, 4))
    assert [DELTA in text for text in (first, second, third, fourth)] == [False, place == "checkout", True, True]
    assert "\n+# with a \N{WARNING SIGN}\n" in second
    assert "fix_claimed, tried 1 time" in second
    assert "tried: fix: fixed, by closing it" in second
    assert all(
        f"[FINDING N: {word}" in second for word in ("fixed", "not fixed", "upheld", "withdrawn", "lowered to P2")
    )
    assert "\n+# second\n" in third
    assert "tried: fix: not fixed, because it is hard" in third
    assert "\n-# second\n" in fourth
    assert not [text for text in (third, fourth) if "WARNING SIGN" in text]
    fixing = project.prompt("fix", 2)
    assert not [text for text in (first, fixing) if DELTA in text or "## Known findings" in text]


def test_the_checkout_is_left_as_it_was(project: Project) -> None:
    """A run in the checkout touches neither the index nor the branches; it names only the trees that were reviewed."""
    (project.folder / "staged.py").write_text("staged = 1\n")
    project.git("add", "staged.py")
    (project.folder / "staged.py").write_text("staged = 2\n")
    before = (project.folder / ".git/index").read_bytes()
    ended = project.run({"rev": [found(LEAK), VERIFIED], "fix": fix(code(l100="# repaired"), "1: fixed")})
    assert ended["path"] == [*ROUND, "rev", "gate", "end"]
    assert (project.folder / ".git/index").read_bytes() == before
    named = project.git("for-each-ref", "--format=%(refname)").split()
    assert sorted(name.partition("REV-")[0] for name in named) == [
        "refs/awf/trees/",
        "refs/awf/trees/",
        "refs/heads/main",
    ]


def test_the_next_process_knows_what_was_reviewed(project: Project) -> None:
    """What a review looked at is on record with it, and git keeps it: a resumed run tells the next one."""
    script = {"rev": [found(LEAK), VERIFIED], "fix": fix(code(l100="# repaired"), "1: fixed")}
    stopped = project.run(script, most=1)
    assert stopped["status"] == "paused"
    project.git("gc", "-q", "--prune=now")
    done = project.awf("resume", "r", "--raise", "max_visits=+5", "--json")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["status"], ended["path"]) == ("success", [*ROUND, "rev", "gate", "end"])
    second = project.prompt("rev", 2)
    assert DELTA in second
    assert "\n+# repaired\n" in second


def test_outside_a_repository_the_prompt_has_no_diff(project: Project) -> None:
    """There is nothing to compare with, and nothing fails."""
    (project.folder / ".git").rename(project.folder.parent / "git")
    script = {"rev": [found(LEAK), VERIFIED], "fix": fix(code(l100="# repaired"), "1: fixed")}
    assert project.run(script)["path"] == [*ROUND, "rev", "gate", "end"]
    assert "What changed" not in project.prompt("rev", 2)


def test_a_report_has_the_diff_size_of_the_run(project: Project) -> None:
    """From the commit that the run began with, new files and all; the page says until when."""
    repaired = fix(code(l100="# repaired"), "1: fixed")
    repaired["write"]["new.py"] = "one = 1\ntwo = 2\n"
    project.run({"rev": [found(LEAK), VERIFIED], "fix": repaired})
    for name in ("w.awf.kdl", "script.json"):
        (project.folder / name).unlink()
    assert project.awf("report", "r").returncode == 0
    page = (project.folder / ".awf/reports/r.md").read_text()
    assert "2 files changed, 3 insertions(+), 1 deletion(-)" in page
