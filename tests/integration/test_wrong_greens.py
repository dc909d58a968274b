"""What was once green without a reason is not green any more, whichever command is asked.

`docs/wrong-greens.md` lists all of it; what other files of tests show is not tried here again.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.pages import DOCS, named_tests, table_rows

from pipeline.findings.ledger import LedgerStore
from pipeline.findings.model import Actor
from pipeline.findings.triage import decision
from pipeline.journal.sqlite import SqliteJournal

AGENT = r"""#!/bin/sh
here=${0%/*}
cat >>"$here/prompt-$AWF_STAGE"
set -- "$here/reply-$AWF_STAGE".*
if [ -e "$2" ]; then mv "$1" "$here/given-$AWF_STAGE"; set -- "$here/given-$AWF_STAGE"; fi
. "$1"
"""  # the replies of a stage in their order, of which the last is repeated
STRUCTURED, WORDS = 'findings="review"', "auto_status=true"
WORKFLOW = """workflow "Review" {{
  version 2
  goal "Review the change"
  start "reviews"
  input "fix" default="no"
  stage "reviews" kind="parallel" {{ {branches} }}
{reviewers}
  stage "gate" kind="decision" {{
    route when="findings() > 0 && input(\\"fix\\") == \\"all\\"" to="fix"
    route when="true" to="exit"
  }}
  stage "fix" kind="llm" prompt="Fix it."
  stage "exit" kind="exit"
  transition from="reviews" to="gate"
  transition from="fix" to="reviews"
  loop "rounds" {{ stages "reviews" "gate" "fix"; max_rounds 3; on "stalled" to="exit"; on "exhausted" to="exit"; }}
}}
"""
MERGING = """workflow "W" {
  version 2
  start "tree"
  stage "tree" kind="workspace.create"
  stage "code" kind="tool" command="echo 'half = 1 / 0' >> app.py"
  stage "alice" kind="llm" findings="review" access="read-only" prompt="Review."
  stage "merge" kind="workspace.merge"
  stage "end" kind="exit"
  transition from="tree" to="code"
  transition from="code" to="alice"
  transition from="alice" to="merge" on="always"
  transition from="merge" to="end"
}
"""
FUNCTIONS = (
    *("add", "sub", "mul", "div", "mod", "neg", "inv", "cat", "cut"),
    *("top", "low", "mid", "sum", "avg", "abs", "pow", "log", "exp"),
)
BASE = "import os\n"
CHANGE = BASE + "".join(
    f"\n\ndef {name}(left, right):\n    print({number})\n    return left - right - {number}\n"
    for number, name in enumerate(FUNCTIONS)
)


def workflow(*reviewers: str, kind: str = STRUCTURED, more: str = "") -> str:
    """A workflow for `awf review` with these reviewers beside each other."""
    stages = (f'  stage "{name}" kind="llm" {kind} access="read-only" prompt="Review." {more}' for name in reviewers)
    return WORKFLOW.format(
        branches="".join(f'branch "{name}"; ' for name in reviewers),
        reviewers="\n".join(stages),
    )


def answer(*items: dict[str, Any], **more: Any) -> str:
    """A whole answer of a reviewer."""
    return json.dumps({"findings": list(items), "reviewed": ["app.py: every line", "b.py: every line"], **more})


def defect(place: int = 0, **more: Any) -> dict[str, Any]:
    """What is wrong with one of the functions."""
    name, line = FUNCTIONS[place], 6 + 5 * place
    return {
        "title": f"{name}() has the wrong result",
        "severity": "P0",
        "file": "app.py",
        "line": line,
        "why_it_matters": f"Every caller of {name} computes with a number that is too small.",
        "evidence": [f"app.py:{line} -- return left - right - {place}"],
        "suggested_fix": f"Compute {name} as its name says.",
        "confidence": 100,
        "autofix_class": "gated_auto",
        "owner": "review-fixer",
        "requires_verification": True,
        "pre_existing": False,
        **more,
    }


def ruling(number: int, word: str, **more: Any) -> str:
    return answer(rulings=[{"number": number, "ruling": word, "reason": "I have read the function again.", **more}])


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=n", "-c", "user.email=e@example.invalid", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


class Project:
    """A branch with a commit, and reviewers that answer what they are told to."""

    def __init__(self, folder: Path, awf: Awf) -> None:
        self.folder, self._awf, self.agent = folder, awf, folder.parent / "agent"
        self.agent.mkdir()
        (self.agent / "agent.sh").write_text(AGENT)
        (self.agent / "agent.sh").chmod(0o755)
        self.use(workflow("alice", "bob"))

    def use(self, text: str) -> None:
        (self.folder / "workflows/review.awf.kdl").write_text(text)

    def commit(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-f", "--", *files)
        git(self.folder, "commit", "-qm", "more")

    def awf(self, *words: str, cwd: Path | None = None) -> tuple[int, Any]:
        done = self._awf(*words, "--json", cwd=cwd or self.folder)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout, done.stderr
        return done.returncode, json.loads(
            done.stdout.splitlines()[-1] if words[0] in ("run", "resume") else done.stdout
        )

    def screen(self, *words: str) -> str:
        return self._awf(*words, cwd=self.folder).stdout

    def refusal(self, *words: str) -> int:
        """The exit code of a command that does nothing."""
        done = self._awf(*words, cwd=self.folder)
        assert (done.stdout, done.stderr.count("error: ")) == ("", 1)
        return done.returncode

    def ask(self, *words: str, replies: dict[str, Any]) -> tuple[int, Any]:
        """Run a command that asks reviewers. A reply is a text, or several; one that begins with #! is a script."""
        return self.awf(*words, *self.prepare(replies))

    def prepare(self, replies: dict[str, Any]) -> list[str]:
        """Write the replies, and return the options of a command whose reviewers give them."""
        for old in self.agent.glob("reply-*"):
            old.unlink()
        for stage, said in ({"alice": answer(), "bob": answer()} | replies).items():
            for number, text in enumerate([said] if isinstance(said, str) else said):
                script = text if text.startswith("#!") else f"cat <<'END'\n{text}\nEND\n"
                (self.agent / f"reply-{stage}.{number}").write_text(script)
        return ["--backend", "command", "--agent-command", str(self.agent / "agent.sh")]

    @contextmanager
    def running(self, *words: str, **replies: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A command that asks reviewers in the background."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent / "home")}
        command = [COMMAND, *words, *self.prepare(replies)]
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            try:
                yield child
            finally:
                child.kill()

    def wait_until_ended(self, stage: str, run: str = "latest") -> None:
        """Wait until a stage of a run has given its answer, at most a minute."""
        deadline = time.monotonic() + 60
        while not re.search(rf"^{stage} #1  (success|fail)", self.screen("why", run), re.MULTILINE):
            assert time.monotonic() < deadline

    def review(self, *options: str, **replies: Any) -> tuple[int, Any]:
        return self.ask("review", *options, replies=replies)

    def greens(self, cwd: Path | None = None) -> list[str]:
        """The commands that say that the commit may be merged, by exit code or to a program."""
        told = {" ".join(words): self.awf(*words, cwd=cwd) for words in (("verdict",), ("verdict", "--at", "HEAD"))}
        return [name for name, (code, said) in told.items() if code == 0 or said["ship"]]

    def ships(self) -> bool:
        """Whether the last commit may be merged by the gate for commits."""
        code, said = self.awf("verdict", "--at", "HEAD")
        assert said["ship"] is (code == 0)
        return code == 0

    def claim(self) -> None:
        """Say in the verdict file that its first finding is fixed, as an agent does."""
        file = self.folder / ".code-review/review-latest.json"
        document = json.loads(file.read_text())
        document["findings"][0]["status"] = "fixed"
        file.write_text(json.dumps(document))

    def shown(self, stage: str) -> str:
        """All that a stage was told."""
        return (self.agent / f"prompt-{stage}").read_text()

    def findings(self) -> dict[int, dict[str, Any]]:
        rows = self.awf("findings", "list", "--state", "all")[1]
        return {member["number"]: member | {"gate": row["gate"]} for row in rows for member in row["members"]}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a branch of one commit."""
    folder = tmp_path_factory.mktemp("wrong-greens") / "project"
    (folder / "workflows").mkdir(parents=True)
    (folder / ".gitignore").write_text(".awf/\nworkflows/\n")
    (folder / "app.py").write_text(BASE)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    git(folder, "checkout", "-qb", "topic")
    (folder / "app.py").write_text(CHANGE)
    (folder / "b.py").write_text("x = 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "change")
    return folder


@pytest.fixture
def project(tmp_path: Path, template: Path, awf: Awf) -> Project:
    folder = tmp_path / "project"
    shutil.copytree(template, folder)
    return Project(folder, awf)


def blocking(result: dict[str, Any]) -> set[str]:
    """The reviewers of whom each alone keeps a change from passing."""
    unread = {text.partition(":")[0] for text in result["gaps"]}
    reported = {member["reviewer"] for row in result["open"] if row["gate"] == "must" for member in row["members"]}
    return unread | reported


def test_a_change_that_everybody_looked_at_is_green(project: Project) -> None:
    """Without this nothing below would show anything."""
    code, result = project.review()
    assert (code, result["verdict"], project.greens()) == (0, "PASS", ["verdict", "verdict --at HEAD"])
    assert blocking(result) == set()


# --- answers that are none --------------------------------------------------------------------------------------

BUG = "add() in app.py:6 returns left - right, which is the wrong result for every caller."
ANSWERS = {
    "nothing was examined": [
        answer(reviewed=said)
        for said in (
            [" "],
            ["none"],
            ["N/A"],
            "-",
            ["nothing: I could not open app.py"],
            ["app.py: not reviewed, out of budget", "b.py: not reviewed"],
            {"app.py": "not looked at"},
            {"app.py": False},
            {"app.py": None},
            ["app.py: could not be opened"],
            ["app.py: pending"],
            ["app.py: too large to read"],
            ["none of app.py"],
            ["I did not read app.py"],
            ["README.md: typos"],
            ["shop/cart.py: totals, rounding, an empty cart", "shop/checkout.py: what an error shows"],
        )
    ],
    "prose names a defect": [
        f"{BUG}\n\n{answer()}",
        f"{answer()}\n\nWait, I missed something: app.py:6 add() subtracts instead of adding. That is a severe bug.",
    ],
    "a rejection in other words": [
        answer(**more)
        for more in (
            {"verdict": "REJECT", "argument": "add subtracts"},
            {"verdict": "DO NOT SHIP"},
            {"verdict": "FAIL"},
            {"verdict": "request changes"},
            {"decision": "BLOCK"},
            {"approved": False},
            {"state": "failed"},
            {"total": 3},
            {"summary": {"critical": 1}},
            {"blockers": ["add subtracts in app.py:6"]},
            {"issues": ["add subtracts"]},
            {"must_fix": ["add subtracts"]},
            {"must_count": 2},
            {"lgtm": False},
            {"ship": False},
            {"blocked": True},
            {"conclusion": "failure"},
            {"recommendation": "do not merge"},
            {"approve": "no"},
        )
    ],
    "a rejection beside a minor finding": [
        answer(defect(severity="P3"), approved=False),
        answer(defect(1, severity="P3"), verdict="REJECT"),
        answer(defect(2, severity="P3"), summary={"blocker": 1}),
        f"P0: anybody can run code.\n{answer(defect(3, severity='P3'))}",
        f"The discount is taken off twice.\n{answer(defect(4, severity='P3'))}",
    ],
    "an item that says nothing": [
        json.dumps({"findings": [defect(file="elsewhere.py", severity="P3")]}),
        json.dumps({"findings": [defect(confidence=0, severity="P3", title="Nothing to report")]}),
    ],
    "a finding elsewhere than in the list": [
        answer().replace("[]", "[/* P0: add() subtracts */]", 1),
        answer(patterns=[defect()]),
        answer(reviewed=["app.py: every line", defect(1)]),
        answer(defect(2, severity="P3", related=[defect(3)])),
        answer(defect(4, severity="P3", priority="P0")),
    ],
    "a refusal beside a minor finding": [f"I could not access the repository.\n{answer(defect(severity='P3'))}"],
    "a defect in brackets of awf's own": [f"[FINDING: app.py:6 crashes for all callers]\n{answer()}"],
    "files that were left out": [answer(not_reviewed=["app.py"]), answer(skipped=["app.py"])],
    "a defect among the risks": [
        answer(residual_risks=[{"title": "add() seems to subtract", "severity": "P0"}]),
        answer(residual_risks=["P0: add() seems to subtract"]),
        answer(residual_risks=["Critical: data may be lost in cut()"]),
        answer(testing_gaps=["P0: cut() deletes anything; no test"]),
    ],
    "an answer that is quoted": [
        "The format you asked for is:\n" + "".join(f"> {line}\n" for line in ("```json", answer(), "```"))
    ],
    "an answer that is thought or an example": [
        f"For example, if there were nothing I would answer\n{answer()}\nbut I have not looked yet.",
        *(f"[THINK]\n{answer()}\n[/THINK]", f"<analysis>\n{answer()}\n</analysis>"),
    ],
    "a severity that is none": [
        answer(defect(severity={"level": "P0"})),
        answer(defect(1, severity=["P0", "P3"])),
        answer(defect(2, severity="catastrophic")),
        answer(defect(3, severity="P3", system_breaking=True)),
        answer(defect(4, severity="P2", confidence=20, system_breaking="yes")),
        answer(defect(5, severity=None, title="[P0] neg() has the wrong result")),
        answer(defect(6, severity="", impact="critical")),
        answer(defect(8, severity="P3") | {"Severity": "P0"}),
        answer(must_fix=[{key: value for key, value in defect(7).items() if key != "severity"}]),
    ],
    "older than the change, on a line that the change adds": [
        answer(defect(pre_existing=True)),
        answer(defect(1, pre_existing=True, line=1)),
        answer(defect(2, pre_existing=True, line=None)),
    ],
    "a ruling on a number that nobody gave": [
        ruling(99, "not fixed"),
        answer(rulings=[{"ruling": "not fixed", "reason": "it is still there"}]),
    ],
}


@pytest.mark.parametrize("answers", ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_that_is_none_keeps_the_change_from_passing(project: Project, answers: list[str]) -> None:
    """Each alone: its reviewer cannot be read, rejects the change, or has an open finding that blocks."""
    replies = {f"r{number}": text for number, text in enumerate(answers)}
    project.use(workflow(*replies, "bob"))
    code, result = project.review(**replies)
    green = replies.keys() - blocking(result)
    assert {name: replies[name] for name in green} == {}
    assert (code != 0, result["verdict"] in ("FAIL", "ABORT"), project.greens()) == (True, True, [])


@pytest.mark.parametrize(
    "words",
    [
        "P0: add() in app.py:6 subtracts, data is lost. Must be fixed.\n[STATUS: success]",
        "I will answer [STATUS: success] once I have looked.",
        "I could not access the repository.\n[STATUS: success]",
    ],
)
def test_words_that_contradict_their_status_do_not_pass(project: Project, words: str) -> None:
    """A reviewer that gives a status only is read like the others: the worse reading counts."""
    project.use(workflow("alice", "bob", kind=WORDS))
    code, result = project.review(alice=words, bob="Fine.\n[STATUS: success]")
    assert (code != 0, result["verdict"], project.greens()) == (True, "FAIL", [])


FAILS = f"#!\ncat <<'END'\n{answer(defect())}\nEND\nexit 1\n"


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("There is a P0: add subtracts in app.py:6", id="words"),
        pytest.param(f"There is a P0: add subtracts in app.py:6\n{answer()}", id="words beside an empty list"),
        pytest.param(answer(defect())[:-4], id="a list that is cut off"),
        pytest.param(FAILS, id="an attempt that fails"),
    ],
)
def test_what_a_first_answer_says_is_not_forgotten(project: Project, first: str) -> None:
    """Whether the agent is asked again or started again, a clean second answer takes nothing back."""
    project.use(workflow("alice", "bob", more="{ retry max_attempts=2; }"))
    code, result = project.review(alice=[first, answer()])
    assert (code != 0, result["verdict"], project.greens()) == (True, "FAIL", [])
    assert project.findings()


REJECTED = json.dumps({"verdict": "BLOCK", "argument": "data is lost"})


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("I found a P0: add() in app.py:6 subtracts. Critical!", id="words"),
        pytest.param(f"#!\ncat <<'END'\n{REJECTED}\nEND\nexit 1\n", id="a rejection, and a crash"),
        pytest.param(answer(defect(), defect(1))[:-300], id="a list that is cut off"),
    ],
)
def test_what_was_said_in_a_visit_that_ends_with_an_error_is_not_forgotten(project: Project, said: str) -> None:
    """The reviewer says it each time that it is asked; the run pauses, and is resumed with a clean list."""
    assert project.review(alice=said)[0] == 3
    code, _ = project.ask("resume", replies={})
    assert (code != 0, project.greens()) == (True, [])
    assert project.findings()


def test_of_two_answers_the_graver_counts(project: Project) -> None:
    """A reviewer that is asked again to complete one finding is no longer sure of another, which is critical."""
    unread = {"title": "sub() has the wrong result", "severity": "P2"}
    again = answer(defect(confidence=0), defect(1, severity="P2"))
    code, result = project.review(alice=[answer(defect(), unread), again])
    assert (code != 0, result["verdict"], project.greens()) == (True, "FAIL", [])


def test_two_items_with_one_title_keep_their_words(project: Project) -> None:
    """They have no line, and may be two defects: whoever rules on the one number has to know of both."""
    whole = defect()
    del whole["line"], whole["evidence"]
    project.review(alice=answer(whole | {"why_it_matters": "add() fails."}, whole | {"why_it_matters": "top() fails."}))
    (found,) = project.findings().values()
    story = project.screen("findings", "show", str(found["number"]))
    assert ("add() fails." in story, "top() fails." in story) == (True, True)


def test_another_reviewers_word_makes_a_finding_graver(project: Project) -> None:
    """A reviewer that is asked about a minor finding of another one says that it is critical."""
    project.review(alice=answer(defect(severity="P3")))
    project.commit({"c.py": "c = 1\n"})
    said = answer(rulings=[{"number": 1, "ruling": "upheld", "severity": "P0", "reason": "anybody can run code"}])
    code, result = project.review(bob=said, alice=ruling(1, "not fixed"))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


def test_a_file_in_words_names_a_blocker(project: Project) -> None:
    """It cannot be imported as a review; the next file of its reviewer is clean."""
    for text in ("P0: add() in app.py:6 loses data.", answer()):
        (project.folder.parent / "alice.txt").write_text(text)
        project.awf("findings", "import", "../alice.txt", "--format", "review", "--reviewer", "alice")
    assert (len(project.findings()), project.greens()) == (1, [])


def test_a_dismissal_covers_no_other_function(project: Project) -> None:
    """The function whose finding was dismissed is gone, and the same code of another one stands at its line."""
    one, two = "def a(p):\n    return 1 / p\n", "def b(p):\n    return 1 / p\n"
    item: dict[str, Any] = {
        "title": "Division by zero",
        "file": "n.py",
        "line": 2,
        "evidence": ["n.py:2 -- return 1 / p"],
    }
    project.commit({"n.py": f"{one}\n\n{two}"})
    project.review(alice=answer(defect(**item, symbol="a")))
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "a() is never called with 0")
    project.commit({"n.py": two})
    code, result = project.review(alice=answer(defect(**item, symbol="b")))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


def test_an_export_is_never_milder(project: Project, tmp_path: Path) -> None:
    """What is critical here is critical where the file is imported."""
    project.review(alice=answer(defect()))
    (tmp_path / "out.sarif").write_text(project.screen("findings", "export", "--format", "sarif"))
    git(tmp_path, "clone", "-q", str(project.folder), "clone")
    project.awf("findings", "import", "../out.sarif", cwd=tmp_path / "clone")
    assert project.awf("verdict", cwd=tmp_path / "clone")[1]["verdict"] == "FAIL"


def test_a_first_answer_in_words_is_shown_to_its_reviewer_again(project: Project) -> None:
    """An agent without a memory is asked to report what it said, and not only to use the format."""
    project.review(alice=["I reject this: add() subtracts.", answer()])
    assert project.shown("alice").count("I reject this: add() subtracts.") == 1


def test_a_rejection_that_is_withdrawn_on_another_branch_holds_here(project: Project) -> None:
    """There it is about other files: its reviewer has to say so of this branch as well."""
    project.review(alice=answer(verdict="BLOCK", argument="the design is wrong"))
    git(project.folder, "checkout", "-q", "-b", "other", "main")
    project.commit({"z.py": "z = 1\n"})
    said = answer(reviewed=["z.py: all"], rulings=[{"number": 1, "ruling": "withdrawn", "reason": "z.py is fine"}])
    project.review(alice=said, bob=answer(reviewed=["z.py: all"]))
    git(project.folder, "checkout", "-q", "topic")
    code, result = project.review()
    assert (code != 0, result["verdict"], project.greens()) == (True, "FAIL", [])
    assert project.review(alice=ruling(1, "withdrawn", reason="the design is as agreed"))[0] == 0


def test_a_run_in_its_own_worktree_does_not_close_what_another_one_found(project: Project) -> None:
    """The second run never had the code; the first one may not merge it because of that."""
    text = MERGING.replace('  start "tree"', '  start "tree"\n  input "name"').replace("half", "$input.name")
    (project.folder / "w.awf.kdl").write_text(text)
    found = answer(defect(file="app.py", line=3, evidence=["app.py:3 -- one = 1 / 0"]))
    one = project.ask("run", "w.awf.kdl", "--run-id", "one", "--input", "name=one", replies={"alice": found})
    assert one[0] == 3
    project.ask("run", "w.awf.kdl", "--run-id", "two", "--input", "name=two", replies={"alice": ruling(1, "fixed")})
    project.ask("resume", "one", replies={})
    assert "one = 1 / 0" not in git(project.folder, "show", "HEAD:app.py")


def test_a_fixer_outside_of_a_run_decides_nothing(project: Project) -> None:
    """The agent of `awf findings fix` calls `awf` itself to tick off what it was given."""
    project.review(alice=answer(defect()))
    tick = f"{COMMAND} findings triage 1 --as false-positive --note done >/dev/null 2>&1"
    fixer = project.folder.parent / "fixer.sh"
    fixer.write_text(f"#!/bin/sh\ncat >/dev/null\n{tick}\necho '[FINDING 1: not fixed]'\n")
    fixer.chmod(0o755)
    project.awf("findings", "fix", "1", "--agent-command", str(fixer))
    assert (project.findings()[1]["state"], project.greens()) == ("open", [])


def test_what_is_uncertain_is_so_in_a_clone(project: Project, tmp_path: Path) -> None:
    """A rejection is in the committed records, and nobody in the clone has ruled on it."""
    (project.folder / ".wystack").mkdir()
    project.review(alice=answer(verdict="BLOCK", argument="the design is wrong"))
    git(project.folder, "add", "-A", ".wystack")
    git(project.folder, "commit", "-qm", "records")
    git(tmp_path, "clone", "-q", str(project.folder), "clone")
    clone = tmp_path / "clone"
    project.awf("verdict", cwd=clone)
    listed = project.awf("findings", "list", cwd=clone)[1]
    assert ([row["state"] for row in listed], project.greens(clone)) == (["uncertain"], [])


def test_a_dismissal_of_a_minor_finding_covers_no_critical_one(project: Project) -> None:
    """Its reviewer rules by its number that it is critical."""
    project.review(alice=answer(defect(severity="P3")))
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "minor")
    project.commit({"c.py": "c = 1\n"})
    project.review(alice=ruling(1, "not fixed", severity="P0"))
    assert (project.findings()[1]["state"], project.greens()) == ("reopened", [])


@pytest.mark.parametrize("how", ["dismissed", "withdrawn"])
def test_a_rejection_that_is_repeated_counts_again(project: Project, how: str) -> None:
    """With the same words as one that a person dismissed, or that its reviewer took back: it is about other files."""
    reject = answer(verdict="BLOCK", argument="the design is wrong")
    project.review(alice=reject)
    if how == "dismissed":
        project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "only a prototype")
    else:
        project.review(alice=ruling(1, "withdrawn", reason="the design is as agreed"))
    project.commit({"c.py": "import os\nos.system(input())\n"})
    code, result = project.review(alice=reject)
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


def test_a_rejection_that_is_opened_again_is_uncertain(project: Project) -> None:
    """A person dismisses it, and changes her mind."""
    project.review(alice=answer(verdict="BLOCK", argument="the design is wrong"))
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "only a prototype")
    project.awf("findings", "triage", "1", "--as", "open", "--note", "it is none")
    assert (project.findings()[1]["state"], project.awf("verdict")[1]["verdict"]) == ("uncertain", "FAIL")


def test_no_finding_stands_for_a_rejection(project: Project) -> None:
    """A reviewer rejects the change and lists a critical finding, which is dismissed or fixed: the rejection stays."""
    project.review(alice=answer(defect(), verdict="BLOCK", argument="balances can go negative"))
    number = next(number for number, one in project.findings().items() if one["title"] == defect()["title"])
    project.awf("findings", "triage", str(number), "--as", "false-positive", "--note", "the form checks it")
    assert project.greens() == []
    project.commit({"c.py": "c = 1\n"})
    code, result = project.review()
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


def test_a_list_of_a_tool_is_about_one_branch(project: Project) -> None:
    """A clean list on a branch without the file closes nothing on the branch that has it."""
    place = {"physicalLocation": {"artifactLocation": {"uri": "app.py"}, "region": {"startLine": 6}}}
    found = {"ruleId": "eval", "level": "error", "message": {"text": "Bad."}, "locations": [place]}
    for branch, results in (("topic", [found]), ("main", [])):
        git(project.folder, "checkout", "-q", branch)
        runs = [{"tool": {"driver": {"name": "scan"}}, "results": results}]
        (project.folder.parent / "scan.sarif").write_text(json.dumps({"version": "2.1.0", "runs": runs}))
        project.awf("findings", "import", "../scan.sarif", "--complete")
    assert [one["state"] for one in project.findings().values()] == ["open"]


def test_an_answer_about_another_branch_settles_nothing_here(project: Project) -> None:
    """There the file does not exist: what is open here is not asked about, and what is owed here stays owed."""
    code = "def new():\n    return 1 / 0\n"
    project.commit({"new.py": code})
    project.review(alice=answer(defect(file="new.py", line=2, evidence=["new.py:2 -- return 1 / 0"])))
    git(project.folder, "checkout", "-q", "-b", "other", "main")
    project.commit({"z.py": "z = 1\n"})
    seen = answer(reviewed=["z.py: all"], rulings=[{"number": 1, "ruling": "fixed"}])
    project.review(alice=seen, bob=answer(reviewed=["z.py: all"]))
    git(project.folder, "checkout", "-q", "topic")
    project.commit({"new.py": f"{code}# more\n"})
    assert (project.review()[0], project.greens()) == (1, [])


def test_what_is_owed_on_one_branch_is_not_paid_on_another(project: Project) -> None:
    """A second look at one branch ends without an answer; the same reviewer is content with another branch."""
    assert project.review()[0] == 0
    assert project.review("--whole", alice="no")[0] == 3
    project.screen("cancel", "--reason", "busy")
    git(project.folder, "checkout", "-q", "-b", "other", "main")
    project.commit({"z.py": "z = 1\n"})
    seen = answer(reviewed=["z.py: all"])
    assert project.review(alice=seen, bob=seen)[0] == 0
    git(project.folder, "checkout", "-q", "topic")
    assert project.awf("verdict", "--at", "topic")[0] == 1


def test_code_that_comes_back_is_asked_about(project: Project) -> None:
    """A fix is verified and then reverted, with another change to the file: silence does not mean that all is well."""
    project.review(alice=answer(defect()))
    project.commit({"app.py": CHANGE.replace("return left - right - 0", "return left + right")})
    assert project.review(alice=ruling(1, "fixed"))[0] == 0
    project.commit({"app.py": f"{CHANGE}# more\n"})
    project.review()
    assert project.greens() == []


def test_what_is_said_about_another_change_lifts_no_rejection(project: Project) -> None:
    """A reviewer rejects one branch, accepts another, and has nothing to add when it looks at the first again."""
    assert project.review(alice=answer(verdict="BLOCK", argument="the design is wrong"))[0] == 1
    git(project.folder, "checkout", "-q", "-b", "other", "main")
    project.commit({"z.py": "z = 1\n"})
    project.review(alice=answer(verdict="SHIP", reviewed=["z.py: all"]), bob=answer(reviewed=["z.py: all"]))
    git(project.folder, "checkout", "-q", "topic")
    code, result = project.review()
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


# --- rulings ----------------------------------------------------------------------------------------------------

RULINGS: dict[str, dict[str, Any]] = {
    "fixed: no": {"ruling": "fixed: no"},
    "came back": {"ruling": "was fixed, came back"},
    "later": {"ruling": "fixed in a later PR"},
    "in another language": {"ruling": "fixed: nein"},
    "in part": {"ruling": "fixed(1/2)"},
    "elsewhere": {"ruling": "addressed in follow-up"},
    "only claimed": {"ruling": "fixed (claimed by the fixer, not checked)"},
    "contradicts its status": {"ruling": "fixed", "status": "not fixed"},
    "contradicts its check": {"ruling": "fixed", "verified": False},
    "says what remains": {"ruling": "fixed", "remaining": "one caller still subtracts"},
    "is not sure": {"ruling": "fixed", "confidence": 20},
    "contradicts its reason": {"ruling": "fixed", "reason": "it is not fixed: still subtracts, still present"},
    "withdrawn without a reason": {"ruling": "withdrawn", "reason": "-"},
    "lowered to nothing": {"ruling": "lowered", "severity": "none"},
    "lowered to minor": {"ruling": "lowered", "severity": "P3"},
    "withdrawn": {"ruling": "withdrawn"},
    "silent": {},
    "fixed": {"ruling": "fixed"},
}


def test_only_a_clear_ruling_closes_what_blocks(project: Project) -> None:
    """Of eighteen reviewers that rule on what they found, one says that it is fixed, and nothing else beside it."""
    names = [f"r{number}" for number in range(len(RULINGS))]
    project.use(workflow(*names))
    unreasoned = list(RULINGS).index("withdrawn without a reason")
    severities = ["P1" if place == unreasoned else "P0" for place in range(len(names))]
    project.review(**{name: answer(defect(at, severity=severities[at])) for at, name in enumerate(names)})
    mine = {found["reviewer"]: number for number, found in project.findings().items()}
    assert len(mine) == len(names)
    project.commit({"app.py": CHANGE.replace("left", "first")})
    second = {
        name: answer(rulings=[{"number": mine[name], "reason": "I have read it.", **said}] if said else [])
        for name, said in zip(names, RULINGS.values(), strict=True)
    }
    code, _ = project.review(**second)
    found = project.findings()
    closed = {
        case
        for case, name in zip(RULINGS, names, strict=True)
        if found[mine[name]]["state"] not in ("open", "reopened", "uncertain") or found[mine[name]]["gate"] != "must"
    }
    assert (closed, code != 0, project.greens()) == ({"fixed"}, True, [])


def test_a_verification_of_one_finding_passes_nothing_while_another_is_open(project: Project) -> None:
    """The verdict is about everything that is open, not about what was asked this time."""
    project.review(alice=answer(defect(), defect(5)))
    project.claim()
    project.commit({"app.py": CHANGE.replace("left - right - 0", "left + right")})
    code, result = project.review("--mode", "verify", alice=ruling(1, "fixed"))
    assert (code, result["verdict"], len(result["open"])) == (1, "FAIL", 1)
    assert project.findings()[1]["state"] == "verified_fixed"
    assert json.loads((project.folder / ".code-review/review-latest.json").read_text())["verdict"] == "FAIL"
    assert project.greens() == []


def test_what_nobody_called_fixed_is_open_while_its_reviewer_is_silent(project: Project) -> None:
    """Others who rule on it, whatever they say, do not close it, and neither does a status in words."""
    project.use(workflow("alice", "bob", kind=WORDS))
    project.review(alice=answer(defect()))
    project.commit({"app.py": CHANGE.replace("left", "first")})
    code, _ = project.review(alice="Looks good now.\n[STATUS: success]", bob=ruling(1, "not fixed"))
    assert (code != 0, project.greens()) == (True, [])
    code, _ = project.review(bob=ruling(1, "fixed"))
    assert (code != 0, project.greens(), project.findings()[1]["state"]) == (True, [], "open")


LOOKING = """workflow "W" {
  version 2
  start "alice"
  settings { max_visits 2; }
  stage "alice" kind="llm" auto_status=true access="read-only" prompt="Review."
  stage "fix" kind="llm" prompt="Fix it."
  stage "end" kind="exit"
  transition from="alice" to="end" on="success"
  transition from="alice" to="fix" on="fail"
  transition from="fix" to="alice"
}
"""


def test_a_stage_with_an_open_finding_does_not_pass_in_words(project: Project) -> None:
    """A fix is claimed, and the reviewer says that it looks good: the run does not take the way of a success."""
    (project.folder / "w.awf.kdl").write_text(LOOKING)
    fix = "#!\necho '# repaired' >>app.py\necho '[FINDING 1: fixed]'\n"
    replies = {"alice": [answer(defect()), "Looks good now.\n[STATUS: success]"], "fix": fix}
    assert project.ask("run", "w.awf.kdl", "--run-id", "r", replies=replies)[0] != 0
    visits = [visit for visit in project.awf("why", "r")[1] if visit.get("stage") == "alice"]
    assert [visit["status"] for visit in visits] == ["fail", "fail"]
    assert project.greens() == []


def test_not_fixed_wins_whoever_says_it_and_when(project: Project) -> None:
    """Of two stages of one reviewer, and of a reviewer that did not report the finding and looks later."""
    project.review(alice=answer(defect()))
    project.commit({"app.py": CHANGE.replace("left - right - 0", "left + right")})
    assert project.review(alice=ruling(1, "fixed"))[0] == 0
    project.commit({"b.py": "x = 2\n"})
    code, result = project.review(bob=ruling(1, "not fixed"))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])
    project.commit({"b.py": "x = 3\n"})
    project.use(workflow("one", "two", kind=f'{STRUCTURED} reviewer="alice"'))
    code, result = project.review(one=ruling(1, "fixed"), two=ruling(1, "not fixed"))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


# --- who looked at what -----------------------------------------------------------------------------------------

NARROW = {
    "one of two reviewers": ("--only", "alice"),
    "one path": ("--scope", "b.py"),
    "the worst only": ("--mode", "quick"),
    "the last commit": ("--base", "HEAD~1"),
}


@pytest.mark.parametrize("options", NARROW.values(), ids=list(NARROW))
def test_a_look_at_less_than_the_change_ships_nothing(project: Project, options: tuple[str, ...]) -> None:
    """Neither here nor in a clone that has the record of it."""
    (project.folder / ".wystack").mkdir()
    project.commit({"b.py": "x = 2\n"})
    project.review(*options)
    here = project.greens()
    words = {json.loads(path.read_text())["verdict"] for path in project.folder.glob(".wystack/reviews/*.json")}
    git(project.folder, "add", "-f", ".wystack")
    git(project.folder, "commit", "-qm", "records")
    clone = project.folder.parent / "clone"
    git(project.folder.parent, "clone", "-q", "project", "clone")
    git(clone, "remote", "set-head", "origin", "main")
    assert (here, project.greens(clone)) == ([], [])
    assert "ship" not in words or "--base" in options  # such a record is about the change since its own base


def test_without_a_default_branch_the_base_has_to_be_named(project: Project) -> None:
    """Only the last of two commits is looked at, on a branch of which git does not know where it began."""
    project.commit({"c.py": "x = 1\n"})
    git(project.folder, "branch", "-m", "main", "develop")
    code, _ = project.review("--base", "HEAD~1")
    assert (code, project.greens()) == (0, [])
    assert project.review("--base", "develop")[0] == 0
    assert [project.awf("verdict", *more, "--base", "develop")[0] for more in ((), ("--at", "HEAD"))] == [0, 0]


def test_looks_one_after_another_cover_the_change_unless_a_commit_is_between_them(project: Project) -> None:
    """Each begins where everybody had looked before; a commit that nobody was shown breaks the chain."""
    project.review()
    project.commit({"b.py": "x = 2\n"})
    project.review("--base", "HEAD~1")
    assert project.greens() == ["verdict", "verdict --at HEAD"]
    project.commit({"c.py": "evil = 1\n"})
    project.commit({"b.py": "x = 3\n"})
    project.review("--base", "HEAD~1")
    assert project.greens() == []


def test_what_is_changed_afterwards_was_looked_at_by_nobody(project: Project) -> None:
    """Committed or not, wherever the file is."""
    project.review()
    (project.folder / "b.py").write_text("x = 2\n")
    code, told = project.awf("verdict")
    assert (code, told["readiness"], project.awf("findings", "walk")[1]["verdict"]) == (1, "Not ready", "Not ready")
    greens = {}
    for name in ("docs/code-reviews/evil.py", "pkg/.wystack/evil.py", "pkg/.code-review/evil.py", "new.py"):
        project.commit({name: "evil = True\n"})
        greens[name] = project.greens()
        git(project.folder, "reset", "-q", "--hard", "HEAD~1")
    assert [name for name, green in greens.items() if green] == []


HIDDEN = {
    "src/evil.py": "evil = 1\n",
    "pkg/.wystack/evil.py": "evil = 2\n",
    "pkg/.code-review/evil.py": "evil = 3\n",
    "docs/code-reviews/evil.py": "evil = 4\n",
    "kept.txt": "evil = 5\n",
    "kept.js": "evil = 6\n",
}


def test_reviewers_are_shown_everything_that_a_commit_contains(project: Project) -> None:
    """Neither settings nor attributes of the repository hide a file, nor does a name that looks like one of awf's."""
    hiding = {".awf/config.kdl": 'review { reports "src" }\n', ".gitattributes": "*.txt -diff\n"}
    project.commit(HIDDEN | hiding)
    (project.folder / ".git/info/attributes").write_text("*.js -diff\n")
    project.review()
    assert {name for name, text in HIDDEN.items() if text not in project.shown("alice")} == set()
    project.commit({"src/evil.py": "evil = 7\n"})
    assert project.greens() == []


@pytest.mark.parametrize("name", ["nul.py", "wide.py", "lib"])
def test_what_reviewers_cannot_be_shown_is_named(project: Project, name: str) -> None:
    """A file that is no text and a repository within the repository: whoever is told of the change is told of them."""
    if name == "lib":
        (project.folder / name).mkdir()
        git(project.folder / name, "init", "-q")
        git(project.folder / name, "commit", "-q", "--allow-empty", "-m", "evil = 1")
    else:
        (project.folder / name).write_bytes(b"evil = 1\n\0" if name == "nul.py" else "evil = 1\n".encode("utf-16"))
    git(project.folder, "add", name)
    git(project.folder, "commit", "-qm", "more")
    project.review()
    assert name in project.shown("alice")
    assert "evil = 1" in project.shown("alice") or name in project.screen("verdict") or project.greens() == []


def test_an_import_is_no_look_of_a_reviewer(project: Project) -> None:
    """Neither the clean list of a tool nor a file in the name of one reviewer ships what others have not seen."""
    tool = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]}
    file = project.folder.parent / "file.json"
    file.write_text(json.dumps(tool))
    project.awf("findings", "import", str(file))
    assert not project.ships()
    assert project.review()[0] == 0
    project.commit({"b.py": "x = 2\n"})
    file.write_text(answer(reviewer="alice"))
    project.awf("findings", "import", str(file))
    assert project.greens() == []


def test_what_an_import_alone_ships_names_who_looked(project: Project) -> None:
    """Two reviewers are imported without a base; what is committed then is imported for one of them."""
    files = [project.folder.parent / f"{name}.json" for name in ("security", "style")]
    for file in files:
        file.write_text(answer(reviewer=file.stem))
    project.awf("findings", "import", *map(str, files))
    project.commit({"b.py": "x = 2\n"})
    project.awf("findings", "import", str(files[1]))
    told = project.screen("verdict", "--at", "HEAD")
    assert ("style" in told, "security" in told) == (True, False)


def test_an_imported_verification_is_about_claims_and_no_look_at_the_change(project: Project) -> None:
    """What comes before it was limited to a package."""
    file = project.folder.parent / "file.json"
    file.write_text(answer(defect(), reviewer="alice"))
    project.awf("findings", "import", str(file), "--scope", "package")
    project.claim()
    project.commit({"app.py": CHANGE.replace("left - right - 0", "left + right")})
    file.write_text(json.dumps(json.loads(ruling(1, "fixed")) | {"reviewer": "alice"}))
    project.awf("findings", "import", str(file), "--mode", "verify")
    assert project.greens() == []


def test_a_narrower_look_hides_nothing_that_is_open(project: Project) -> None:
    """An import about something else, a review of the last commit, and one of a path."""
    assert project.review(alice=answer(defect()))[0] == 1
    file = project.folder.parent / "file.json"
    file.write_text(answer(reviewer="zed"))
    project.awf("findings", "import", str(file), "--target", "another", "--base", "HEAD")
    assert project.greens() == []
    project.commit({"b.py": "x = 2\n"})
    for options in (("--base", "HEAD~1"), ("--scope", "b.py")):
        project.review(*options)
        assert project.greens() == [], options
        assert project.findings()[1]["state"] == "open"


def test_a_record_that_somebody_committed_is_no_review(project: Project) -> None:
    """It names the commit and says ship; nobody has ever looked."""
    head = git(project.folder, "rev-parse", "HEAD")
    id = f"REV-1795060310-{head[:7]}"
    record = {"schemaVersion": 1, "id": id, "type": "review", "task": "T", "skill": "code-review", "branch": "topic"}
    record |= {"base": git(project.folder, "rev-parse", "main"), "diff_sha": head, "started_at": "2026-01-01T00:00:00Z"}
    record |= {"verdict": "ship", "must_count": 0, "suggest_count": 0, "caller": "awf review", "round": 1}
    record |= {"finding_ids": [], "patterns": [], "reviewer_verdicts": []}
    project.commit({f".wystack/reviews/{id}.json": json.dumps(record)})
    assert project.greens() == []


def test_what_a_fixer_hides_in_the_checkout_is_looked_at(project: Project) -> None:
    """Git is told to take a tracked file for unchanged."""
    hide = "git update-index --assume-unchanged app.py; echo 'evil = 1' >>app.py"
    fix = f"#!\n{hide}\necho 'z = 1' >>b.py; echo '[FINDING 1: fixed]'\n"
    project.review("--apply", "all", alice=[answer(defect()), ruling(1, "fixed")], fix=fix)
    assert "evil = 1" in project.shown("alice")


# --- reviews that stop ------------------------------------------------------------------------------------------


def test_what_was_found_before_a_review_paused_is_not_lost(project: Project) -> None:
    """One reviewer reports a blocker, the other cannot be read: no review starts anew until that is taken in."""
    assert project.review(alice=answer(defect()), bob="no")[0] == 3
    assert (project.refusal("review", "--backend", "scripted"), project.greens()) == (2, [])
    code, _ = project.ask("resume", replies={})
    assert (code != 0, len(project.findings()), project.greens()) == (True, 1, [])
    code, result = project.review()
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


def test_what_was_found_before_ctrl_c_is_not_lost(project: Project) -> None:
    """One reviewer has reported a blocker, the other still looks: only somebody who cancels the review drops that."""
    with project.running("review", alice=answer(defect()), bob="#!\nexec sleep 300\n") as child:
        project.wait_until_ended("alice")
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    assert (project.refusal("review", "--backend", "scripted"), project.greens()) == (2, [])
    assert project.refusal("cancel") == 2
    stopped = project.awf("runs")[1][0]["run_id"]
    assert project.awf("cancel", stopped)[1]["dropped"] == ["alice"]
    code, result = project.review()
    assert (code, result["verdict"]) == (0, "PASS")


def test_reviewers_of_a_resumed_review_look_at_the_same_files(project: Project) -> None:
    """The tree changes while the review is paused: who looked before either looks again, or nothing passes."""
    assert project.review(alice="no")[0] == 3
    project.commit({"b.py": "evil = 1\n"})
    code, _ = project.ask("resume", replies={})
    assert "evil = 1" in project.shown("bob") or (code != 0 and project.greens() == [])


def alike(words: str, **more: Any) -> dict[str, Any]:
    """Another defect on the line of the first, in nearly the same words."""
    return defect(title=f"add() has the wrong {words}", why_it_matters=f"Its {words} is wrong.", **more)


def test_likeness_neither_overwrites_nor_dismisses(project: Project) -> None:
    """On one line, two defects in nearly the same words are two: after a ruling, and after a dismissal."""
    project.review(alice=answer(alike("result for everybody")))
    project.commit({"b.py": "x = 2\n"})
    again = json.loads(ruling(1, "not fixed")) | {"findings": [alike("result for strangers")]}
    project.review(alice=json.dumps(again))
    assert [one["title"] for one in project.findings().values()] == [
        "add() has the wrong result for everybody",
        "add() has the wrong result for strangers",
    ]
    project.awf("findings", "triage", "1", "2", "--as", "wont-fix", "--note", "it is meant so")
    project.commit({"b.py": "x = 3\n"})
    code, result = project.review(alice=answer(alike("result for children")))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


@pytest.mark.parametrize("place", ["b.py", "app.py"])
def test_new_evidence_ends_a_dismissal(project: Project, place: str) -> None:
    """It was dismissed because of what its callers do; a caller is now quoted that does otherwise."""
    project.review(alice=answer(defect()))
    project.awf("findings", "triage", "1", "--as", "false-positive", "--note", "nobody calls it with strings")
    before = CHANGE if place == "app.py" else ""
    project.commit({place: f"{before}add('1', '2')\n"})
    quoted = defect()["evidence"] + [f"{place}:{before.count(chr(10)) + 1} -- add('1', '2')"]
    code, result = project.review(alice=answer(defect(evidence=quoted)))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


@pytest.mark.parametrize("days", [1, -1])
def test_a_dismissal_ends_with_its_last_day(project: Project, days: int) -> None:
    """Nobody has to look at the change again for that: the day passes, and the finding is open."""
    project.review(alice=answer(defect()))
    until = datetime.now(UTC) + timedelta(days=days)
    with closing(SqliteJournal(project.folder / ".awf")) as journal:
        store = LedgerStore(journal)
        (finding,) = store.ledger().findings.values()
        at, until_day = f"{until:%Y-%m-%dT%H:%M:%SZ}", f"{until:%Y-%m-%d}"
        store.append([decision(finding, "wont-fix", at=at, by=Actor.USER, note="until then", expires=until_day)])
    assert project.greens() == (["verdict", "verdict --at HEAD"] if days > 0 else [])


def test_what_is_older_than_one_change_may_be_part_of_another(project: Project) -> None:
    """A review of the last commit alone calls a P0 older than that; the whole branch adds its line."""
    project.commit({"b.py": "x = 2\n"})
    project.review("--base", "HEAD~1", alice=answer(defect(pre_existing=True)))
    code, result = project.review("--whole", alice=ruling(1, "not fixed"))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])


@pytest.mark.parametrize("command", ["run", "review"])
def test_what_a_stopped_run_was_told_keeps_everything_from_being_green(project: Project, command: str) -> None:
    """Whichever command asked: no other review, no import and no verdict passes before it is taken in or dropped."""
    project.review()
    project.commit({"b.py": "x = 2\n"})
    workflow_file = ("workflows/review.awf.kdl",) if command == "run" else ()
    code, _ = project.ask(command, *workflow_file, replies={"alice": answer(defect()), "bob": "no"})
    assert (code, project.greens()) == (3, [])
    (project.folder / "clean.json").write_text(answer())
    for name in ("alice", "bob"):
        project.awf("findings", "import", "clean.json", "--format", "review", "--reviewer", name)
    assert project.greens() == []
    if command == "run":
        code, result = project.review()
        assert (code != 0, result["verdict"], project.greens()) == (True, "FAIL", [])
    stopped = next(run for run in project.awf("runs")[1] if run["status"] == "paused")
    project.screen("cancel", stopped["run_id"])
    assert project.review()[0] == 0


def test_what_a_stopped_run_was_told_in_words_counts_as_well(project: Project) -> None:
    """A reviewer without a list has its status; nobody but a person approves another run of the store meanwhile."""
    project.review()
    project.use(workflow("alice", "bob", kind=WORDS))
    run = ("run", "workflows/review.awf.kdl")
    words = "P0: add() subtracts.\n[STATUS: fail]"
    with project.running(*run, "--run-id", "r", alice=words, bob="#!\nexec sleep 300\n") as child:
        project.wait_until_ended("alice", "r")
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    assert project.greens() == []
    options = 'option "yes" label="Yes" to="exit" approves=true; option "no" label="No" to="fix";'
    asks = workflow("carol", "dave").replace('when="true" to="exit"', 'when="true" to="ask"')
    project.use(asks.replace("  loop ", f'  stage "ask" kind="human" prompt="Merge?" {{ {options} }}\n  loop '))
    assert project.ask(*run, "--auto-approve", replies={"carol": answer(), "dave": answer()})[0] in (1, 3)


@pytest.mark.parametrize("changed", [workflow("bob", "carol"), workflow("alice", "bob", kind=WORDS)])
def test_a_workflow_that_loses_an_answer_is_not_adopted(project: Project, changed: str) -> None:
    """A reviewer whose answer is not taken in yet has another stage in the changed file, or is asked otherwise."""
    assert project.review(alice=answer(defect()), bob="no")[0] == 3
    project.use(changed)
    adopted = ("resume", "--adopt", "workflows/review.awf.kdl")
    assert (project.refusal(*adopted), project.greens()) == (2, [])


def test_a_critical_finding_that_was_taken_back_is_not_fixed_by_a_word(project: Project) -> None:
    """Nor is one whose severity nobody understood taken back by its reviewer alone: a person decides."""
    project.review(alice=answer(defect()), bob=answer(defect(1, severity="catastrophic")))
    project.commit({"b.py": "x = 2\n"})
    project.review(alice=ruling(1, "withdrawn"), bob=ruling(2, "withdrawn"))
    project.commit({"b.py": "x = 3\n"})
    code, result = project.review(alice=ruling(1, "fixed"), bob=ruling(2, "fixed"))
    states = {one["state"] for one in project.findings().values()}
    assert (code, result["verdict"], states, project.greens()) == (1, "FAIL", {"uncertain"}, [])


def test_another_list_of_a_tool_closes_nothing_on_unchanged_files(project: Project) -> None:
    """The tool looked at another directory, and its list does not say what it covers."""
    place = {"physicalLocation": {"artifactLocation": {"uri": "app.py"}, "region": {"startLine": 6}}}
    found = {"ruleId": "eval", "level": "error", "message": {"text": "Bad."}, "locations": [place]}
    for number, results in enumerate(([found], [], [])):
        runs = [{"tool": {"driver": {"name": "scan"}}, "results": results}]
        (project.folder.parent / "scan.sarif").write_text(json.dumps({"version": "2.1.0", "runs": runs}))
        project.awf("findings", "import", "../scan.sarif")
        project.commit({"other.py": f"x = {number}\n"})
        assert [one["state"] for one in project.findings().values()] == ["open"]
    project.awf("findings", "import", "../scan.sarif", "--complete")
    assert [one["state"] for one in project.findings().values()] == ["verified_fixed"]


def test_a_run_does_not_succeed_with_a_change_that_fails(project: Project) -> None:
    """Its workflow leads to the exit; the command fails, and says why, unless a person approved the change."""
    reviews = ("run", "workflows/review.awf.kdl")
    code, result = project.ask(*reviews, replies={"alice": answer(defect())})
    assert (code, result["status"], "FAIL" in result["objection"]) == (1, "success", True)
    assert project.ask(*reviews, replies={"alice": ruling(1, "withdrawn", reason="it is right")})[0] != 0


TRIAGING = """workflow "W" {
  version 2
  start "alice"
  stage "alice" kind="llm" findings="review" access="read-only" prompt="Review."
  stage "walk" kind="triage" { apply to="fix"; done to="end"; }
  stage "fix" kind="llm" prompt="Fix it."
  stage "end" kind="exit"
  transition from="alice" to="walk" on="always"
  transition from="fix" to="end"
}
"""


def test_to_accept_a_fix_is_not_to_approve_the_change(project: Project) -> None:
    """A person says that a fix shall be applied, and the fixer changes nothing."""
    (project.folder / "w.awf.kdl").write_text(TRIAGING)
    (project.folder.parent / "answers.json").write_text('{"walk": [["apply", "proceed"]]}')
    replies = {"alice": answer(defect()), "fix": "I could not do it."}
    code, result = project.ask("run", "w.awf.kdl", "--answers", "../answers.json", replies=replies)
    assert (code, result["status"], "FAIL" in result["objection"]) == (1, "success", True)


def test_nothing_is_merged_while_the_change_fails(project: Project) -> None:
    """The run pauses before the merge, however often it is resumed; once a person has decided, it merges."""
    (project.folder / "w.awf.kdl").write_text(MERGING)
    before = git(project.folder, "rev-parse", "HEAD")
    code, result = project.ask("run", "w.awf.kdl", "--run-id", "one", replies={"alice": answer(defect())})
    assert (code, result["status"]) == (3, "paused")
    assert project.ask("resume", "one", replies={})[0] == 3
    assert git(project.folder, "rev-parse", "HEAD") == before
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "callers never pass it")
    assert project.ask("resume", "one", replies={})[0] == 0
    assert "half" in git(project.folder, "show", "HEAD:app.py")


def test_a_dismissal_covers_nothing_else(project: Project) -> None:
    """The same title and the same line of code in another function, and in another file, is another defect."""
    twice = "\n\ndef one():\n    return 1 / 0\n\n\ndef two():\n    return 1 / 0\n"
    project.commit({"app.py": CHANGE + twice})
    last = len((CHANGE + twice).splitlines())

    def item(file: str, line: int) -> dict[str, Any]:
        quotation = f"{file}:{line} -- return 1 / 0"
        return defect(title="Wrong for all callers", file=file, line=line, evidence=[quotation])

    project.review(alice=answer(item("app.py", last)))
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "two() must raise")
    project.commit({"b.py": "x = 2\n"})
    code, result = project.review(alice=answer(item("app.py", last - 4)))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])
    number = max(project.findings())
    project.awf("findings", "triage", str(number), "--as", "wont-fix", "--note", "so must one()")
    project.commit({"c.py": "def three():\n    return 1 / 0\n"})
    code, result = project.review(alice=answer(item("c.py", 2), reviewed=["c.py: all"]))
    assert (code, result["verdict"], project.greens()) == (1, "FAIL", [])
    assert project.findings()[1]["state"] == "wont_fix"


# --- people who are not there -----------------------------------------------------------------------------------

ASKING = """workflow "W" {
  version 2
  start "alice"
  stage "alice" kind="llm" findings="review" access="read-only" prompt="Review."
  stage "ask" kind="human" prompt="Accept it?" %s {
    option "accept" label="Accept it" to="end" approves=true
    option "again" label="Again" to="alice"
  }
  stage "end" kind="exit"
  transition from="alice" to="ask" on="always"
}
"""


@pytest.mark.parametrize(
    ("more", "options"), [("", ["--auto-approve"]), ('timeout="1ms" default="accept"', [])], ids=["option", "timeout"]
)
def test_nothing_is_approved_for_a_person_while_something_blocks(
    project: Project, more: str, options: list[str]
) -> None:
    """The run waits, with exit code 3, and goes on waiting when it is resumed; without a finding it ends."""
    (project.folder / "w.awf.kdl").write_text(ASKING % more)
    for name, said, end in (("clean", answer(), 0), ("found", answer(defect()), 3)):
        code, _ = project.ask("run", "w.awf.kdl", "--run-id", name, *options, replies={"alice": said})
        assert code in (3, end)
        if code:
            assert project.ask("resume", name, replies={})[0] == end
    assert project.greens() == []


# --- the page ---------------------------------------------------------------------------------------------------


def test_every_row_names_tests_that_exist() -> None:
    """What happened, what holds now, and at least one test that shows it; each test of this file has a row."""
    named = set()
    for happened, holds, tests in table_rows(DOCS / "wrong-greens.md"):
        assert happened.endswith(".")
        assert holds.endswith(".")
        assert named_tests(tests), happened
        named |= set(named_tests(tests))
    own = {name for name in globals() if name.startswith("test_")}
    assert own - named == {"test_every_row_names_tests_that_exist", "test_a_change_that_everybody_looked_at_is_green"}
