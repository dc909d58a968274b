"""What review agents really answer, in `sloppy/*.txt`, with what is to be read from it beside it.

Nothing readable is lost, nothing unreadable passes: through `awf findings import`, and through runs.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

ANSWERS = sorted((Path(__file__).parent / "sloppy").glob("*.txt"))
FILES = {
    "app.py": """import json
import sqlite3


def load(path):
    handle = open(path)
    return json.load(handle)


def find(db, name):
    return db.execute("SELECT * FROM users WHERE name = '" + name + "'")


def average(prices):
    return sum(prices) / len(prices)


def pages(lines, size):
    return [lines[i : i + size] for i in range(0, len(lines) - size, size)]
""",
    "src/cache.py": """CACHE = {}


def get(key):
    return CACHE[key]


def put(key, value):
    CACHE[key] = value
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with two files, beside the home."""
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def repository(project: Path) -> Path:
    """The same, committed to git."""
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=project, check=True, capture_output=True)
    return project


def place(row: dict[str, Any]) -> str:
    """Where a listed finding is, as one text."""
    lines = dict.fromkeys(str(line) for line in (row["line"], row["end_line"]) if line)
    return ":".join(filter(None, (row["file"], "-".join(lines))))


def expected(answer: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(answer.with_suffix(".json").read_text().replace("{name}", answer.stem))
    return {"partial": False, "uncertain": 0, **read}


def is_whole(want: dict[str, Any]) -> bool:
    """Whether all of an answer can be read."""
    return not (want["malformed"] or want["partial"] or want["unreadable"])


def is_clear(want: dict[str, Any]) -> bool:
    """Whether nothing in an answer is asked about again."""
    return is_whole(want) and not want["uncertain"]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.stem)
def test_a_sloppy_return_is_read_as_it_is_meant(awf: Awf, project: Path, answer: Path) -> None:
    """All it says is kept, with a note on what was guessed; what cannot be read blocks, whatever can be."""
    want = expected(answer)
    file = project.parent / answer.name
    file.write_bytes(answer.read_bytes().replace(b"{root}", str(project).encode()))
    done = awf("findings", "import", str(file), "--format", "review", "--reviewer", answer.stem, "--json", cwd=project)
    told = json.loads(done.stdout)
    rows = json.loads(awf("findings", "list", "--state", "all", "--json", cwd=project).stdout)
    gone = json.loads(awf("findings", "list", "--filtered", "--json", cwd=project).stdout)["filtered"]
    assert sorted([row["title"], row["severity"], row["confidence"], place(row)] for row in rows) == sorted(
        want["findings"]
    )
    assert sorted(one["title"] for one in gone) == sorted(want["filtered"])
    status = told["reviewers"][answer.stem]
    assert len(told["problems"]) == len(set(told["problems"]))
    assert (status == "malformed", told["dispositions"]["rejected"]) == (want["malformed"], want["unreadable"])
    assert (status == "partial") is (want["partial"] or want["unreadable"] > 0)
    states = [row["state"] for row in rows]
    assert (set(states) <= {"open", "uncertain"}, states.count("uncertain")) == (
        True,
        want["unreadable"] + want["uncertain"],
    )
    whole = is_whole(want)
    verdicts = told["verdicts"]
    assert (done.returncode, verdicts["complete"]) == (0 if whole else 1, whole)
    assert is_clear(want) or (verdicts["verdict"] != "PASS" and verdicts["readiness"] == "Not ready")
    if rows or gone:
        kept = awf("findings", "why", f"{answer.stem}#1", cwd=project).stdout.splitlines()[1]
        assert (";" in kept) == want["notes"], kept


IN_RUNS = (
    *("apology", "cut_off_after_an_item", "cut_off_in_the_second_object", "duplicate_keys", "empty_object"),
    *("json_inside_thinking", "error_and_no_findings", "incomplete_by_its_status", "no_access_and_no_findings"),
    *("defect_in_words_and_no_findings", "envelope_with_half_an_answer", "looks_good", "markdown_table", "prose"),
    *("quotes_inside_quotes", "failure_without_a_finding", "items_that_say_nothing", "path_outside"),
    *("success_beside_a_blocker", "grouped_by_severity", "answer_in_an_envelope"),
)
WORKFLOW = """workflow "W" {
  version 2
  start "rev"
  stage "rev" kind="llm" auto_status=true findings="review" reviewer="NAME" prompt="Review it"
  stage "end" kind="exit"
  transition from="rev" to="end"
}
"""
AGENT = '#!/bin/sh\ncat >"$(dirname "$0")/prompt"\necho asked >>"$(dirname "$0")/asked"\ncat "$(dirname "$0")/answer"\n'


@pytest.mark.parametrize("name", IN_RUNS)
def test_a_sloppy_return_in_a_run_is_asked_for_again_and_never_passes(awf: Awf, repository: Path, name: str) -> None:
    """What is then still unreadable is an uncertain finding, or an error of the stage, whatever status it gives."""
    answer = next(one for one in ANSWERS if one.stem == name)
    want, agent, asked = expected(answer), repository.parent / "agent.sh", repository.parent / "asked"
    (repository.parent / "answer").write_bytes(answer.read_bytes())
    agent.write_text(AGENT)
    agent.chmod(0o755)
    (repository / "w.awf.kdl").write_text(WORKFLOW.replace("NAME", name))
    given = ["--backend", "command", "--agent-command", str(agent), "--run-id", "r", "--json"]
    awf("run", "w.awf.kdl", *given, cwd=repository)
    (visit,) = json.loads(awf("why", "r", "rev", "--json", cwd=repository).stdout)
    rows = json.loads(awf("findings", "list", "--state", "all", "--json", cwd=repository).stdout)
    said = json.loads(awf("verdict", "--json", cwd=repository).stdout)
    whole = is_whole(want)
    in_words = "[STATUS: fail]" in answer.read_text()  # a failure is an answer, in whatever words
    assert len(asked.read_text().split()) == (1 if is_clear(want) else 2)
    prompt = (repository.parent / "prompt").read_text()
    listed = {row[0] for row in want["findings"]}
    kept = [row for row in rows if want["malformed"] and row["title"] not in listed]  # a blocker in words alone
    told = not (in_words and want["malformed"])  # which items cannot be read
    faulty = [row["title"] for row in rows if told and row["state"] == "uncertain" and row not in kept]
    assert len(re.findall(rf"{name}#\d+: ", prompt)) == max(len(faulty) - want["uncertain"], 0)
    assert visit["status"] == ("error" if want["malformed"] and not in_words else "fail")
    assert (said["verdict"] == "PASS", said["ship"]) == (False, False)
    assert said["complete"] is (whole or (in_words and want["malformed"]))
    if not told:  # its words are one failure
        return
    assert {row[0] for row in want["findings"]} <= {row["title"] for row in rows}
    assert (
        sum(row["state"] == "uncertain" and row not in kept for row in rows) == want["unreadable"] + want["uncertain"]
    )
