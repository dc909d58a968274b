"""`awf findings` and `awf verdict` as a person, a script and CI use them, without a run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.unit.findings import reviews as answers

CODE = """import os


def run(name):
    os.system("rm " + name)
    token = "abc-not-a-real-one"
    return token


def close(handle):
    handle.flush()
    handle.close()
"""
DISPOSITIONS = ("surviving", "merged", "demoted", "suppressed", "filtered", "rejected")
ROW = (
    *("id", "number", "title", "state", "severity", "gate", "confidence", "category", "file", "line", "end_line"),
    *("reviewers", "lens", "may_be", "members", "marks", "dismissed"),
)
VERDICT = (
    *("verdict", "ship", "readiness", "complete", "summary", "open", "claimed", "elsewhere"),
    *("gaps", "unruled", "unseen", "unshown", "dismissed", "review", "changed_since"),
)


def item(title: str, line: int, quote: str, severity: str = "P1", **more: Any) -> dict[str, Any]:
    evidence, why = [f"src/a.py:{line} -- {quote}"], "Anyone who names a file runs a command."
    return (
        answers.item(line, title=title, severity=severity, file="src/a.py", why_it_matters=why, evidence=evidence)
        | more
    )


INJECTION = item("Shell injection in run", 5, 'os.system("rm " + name)', "P0")
TOKEN = item("Token in the source", 6, 'token = "abc-not-a-real-one"')
FLUSH = item("Flush may fail", 11, "handle.flush()", "P2")


def review(path: Path, *items: dict[str, Any], reviewer: str = "security") -> str:
    path.write_text(json.dumps(answers.review(*items, reviewer=reviewer)))
    return path.name


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text(CODE)
    (tmp_path / ".gitignore").write_text("home/\n*.json\n.awf/\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "start")
    return tmp_path


def taken(awf: Awf, *arguments: str) -> dict[str, Any]:
    done = awf("findings", "import", *arguments, "--json")
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def listed(awf: Awf, *arguments: str) -> list[dict[str, Any]]:
    done = awf("findings", "list", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def titles(awf: Awf, *arguments: str) -> list[str]:
    return [row["title"] for row in listed(awf, *arguments)]


def verdict(awf: Awf, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = awf("verdict", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


def edit_status(project: Path, position: str, status: str) -> None:
    file = project / ".code-review/review-latest.json"
    document = json.loads(file.read_text())
    next(one for one in document["findings"] if one["id"].endswith(position))["status"] = status
    file.write_text(json.dumps(document))


def test_one_pass_of_several_reviewers(awf: Awf, project: Path) -> None:
    """Every item has one outcome, and the outcomes add up to the items; a defect that two report is one line."""
    first = review(project / "one.json", INJECTION, TOKEN, {"title": "cut off"})
    second = review(project / "two.json", INJECTION, reviewer="correctness")
    done = taken(awf, first, second)
    assert tuple(done)[:3] == ("pass", "inputs", "dispositions")
    assert tuple(done["dispositions"]) == DISPOSITIONS
    assert done["inputs"] == sum(done["dispositions"].values()) == 4
    assert done["dispositions"] | {"surviving": 2, "merged": 1, "rejected": 1} == done["dispositions"]
    assert len(done["new"]) == 4
    assert [len(row["members"]) for row in listed(awf, "--severity", "critical")] == [2]
    assert done["reviewers"] == {"correctness": "returned", "security": "partial"}
    assert done["verdicts"]["verdict"] == "FAIL"
    assert (project / ".code-review/review-latest.json").exists()
    assert not (project / ".wystack").exists()


def test_the_same_again_is_the_same(awf: Awf, project: Path) -> None:
    """Nothing is raised twice; a line that moved is the same finding on another line."""
    name = review(project / "one.json", INJECTION, TOKEN)
    first = taken(awf, name)
    again = taken(awf, name)
    assert (again["new"], again["known"]) == ([], first["new"])
    (project / "src/a.py").write_text(f"# a comment\n{CODE}")
    moved = taken(awf, review(project / "one.json", {**INJECTION, "line": 6}, {**TOKEN, "line": 7}))
    assert (moved["new"], moved["known"]) == ([], first["new"])
    assert [row["line"] for row in listed(awf)] == [6, 7]


def test_what_a_reviewer_leaves_out_stays_open(awf: Awf, project: Path) -> None:
    """Silence means nothing, even if the line changed: the change is a mark, and the finding counts as before."""
    first = taken(awf, review(project / "one.json", INJECTION, TOKEN))
    (project / "src/a.py").write_text(CODE.replace('os.system("rm " + name)', "os.unlink(name)"))
    second = taken(awf, review(project / "one.json", TOKEN))
    assert (second["known"], second["fixed"]) == (first["new"][1:], [])
    rows = {row["title"]: (row["state"], row["marks"]) for row in listed(awf)}
    assert rows == {"Shell injection in run": ("open", ["touched"]), "Token in the source": ("open", [])}
    code, said = verdict(awf)
    assert (code, said["verdict"], said["ship"]) == (1, "FAIL", False)
    found = json.loads(awf("findings", "diff", first["pass"], "-", "--json").stdout)
    assert (found["resolved"], found["claimed"], found["carried"]) == ([], [], first["new"])


def test_the_report_of_a_pass_for_a_person(awf: Awf, project: Path) -> None:
    """Short, with the one line about the workspace at its end."""
    done = awf("findings", "import", review(project / "one.json", INJECTION, {"title": "cut off"}))
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0].startswith("Pass REV-")
    assert lines[0].endswith(": 2 items from 1 reviewer")
    assert "  items:    1 surviving, 1 rejected" in lines
    assert "  findings: 2 new" in lines
    assert any(line.startswith("rejected: security#2: ") for line in lines)
    assert any(line.startswith("incomplete: security: ") for line in lines)
    assert any(line.startswith("Verdict: FAIL (1 critical, 1 high)") for line in lines)
    assert lines[-1].startswith("No workspace record store")
    assert done.stdout.count("No workspace record store") == 1


def test_with_a_workspace_every_finding_has_a_file(awf: Awf, project: Path) -> None:
    """The pass and its findings are on record, and nothing is suggested."""
    (project / ".wystack").mkdir()
    done = awf("findings", "import", review(project / "one.json", INJECTION, TOKEN), "--task", "7")
    assert "No workspace" not in done.stdout
    (passed,) = (project / ".wystack/reviews").iterdir()
    record = json.loads(passed.read_text())
    assert (record["task"], record["must_count"], record["branch"]) == ("TASK-7", 2, "main")
    assert {path.stem for path in (project / ".wystack/findings").glob("*.json")} == set(record["finding_ids"])


def test_an_unreadable_report_makes_the_pass_incomplete(awf: Awf, project: Path) -> None:
    """An incomplete pass is recorded, never passes, and says who did not answer."""
    good = review(project / "one.json", FLUSH)
    (project / "odd.txt").write_text("I looked at everything. It is fine.")
    (project / "cut.sarif").write_text('{"version": "2.1.0", "runs": [')
    done = awf("findings", "import", good, "odd.txt", "cut.sarif", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["reviewers"] == {"cut": "malformed", "odd": "malformed", "security": "returned"}
    assert len(answer["problems"]) == 2
    assert answer["verdicts"] | {"verdict": "FAIL", "complete": False, "ship": False} == answer["verdicts"]
    assert answer["verdicts"]["readiness"] == "Not ready"
    code, said = verdict(awf)
    assert (code, said["complete"]) == (1, False)
    text = awf("verdict").stdout
    assert text.startswith("FAIL (1 medium); ")
    assert "odd" in text


def test_a_missing_file_records_nothing(awf: Awf, project: Path) -> None:
    """A mistyped name is an error: no pass, no store, no file."""
    done = awf("findings", "import", review(project / "one.json", INJECTION), "nosuch.json")
    assert done.returncode == 2
    assert "nosuch.json" in done.stderr
    assert not (project / ".awf").exists()
    assert awf("findings", "import", "src").returncode == 2
    assert awf("findings", "import").returncode == 2


def test_standard_input_and_a_format_by_name(awf: Awf, project: Path) -> None:
    """The output of a tool can be piped in under any name."""
    text = "src/a.py:5: error: Bad thing  [misc]\nFound 1 error in 1 file (checked 1 source file)\n"
    done = subprocess.run(
        [COMMAND, "findings", "import", "-", "--format", "mypy", "--reviewer", "types", "--json"],
        cwd=project,
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(project)},
    )
    assert json.loads(done.stdout)["reviewers"] == {"types": "returned"}
    assert [row["reviewers"] for row in listed(awf)] == [["types"]]


def test_the_lens_is_that_of_the_assessment(awf: Awf, project: Path) -> None:
    """What quality assurance found is told apart."""
    taken(awf, review(project / "one.json", FLUSH), "--lens", "qa")
    assert [row["lens"] for row in listed(awf)] == ["qa"]


def test_two_imports_at_once_raise_a_defect_once(awf: Awf, project: Path) -> None:
    """Both passes are recorded, and one of them knows the findings of the other."""
    name = review(project / "one.json", INJECTION, TOKEN)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(project)}
    command = [COMMAND, "findings", "import", name, "--json"]
    both = [subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    done = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(len(one["new"]) for one in done) == [0, 2]
    assert len({one["pass"] for one in done}) == 2
    assert len(listed(awf)) == 2


def test_the_workspace_alone_is_enough_to_know_findings_again(awf: Awf, project: Path) -> None:
    """Another clone has the records and no store; all of them are open there, whatever they say."""
    (project / ".wystack").mkdir()
    name = review(project / "one.json", INJECTION, TOKEN)
    ids = taken(awf, name)["new"]
    awf("findings", "triage", ids[1], "--as", "wont-fix", "--note", "a test value")
    for directory in (".awf", ".code-review"):
        (project / directory).rename(project / f"home/{directory}")
    assert sorted(row["id"] for row in listed(awf)) == sorted(ids)
    again = taken(awf, name)
    assert (again["new"], again["dispositions"]["suppressed"]) == ([], 0)


def test_outside_of_git_everything_works(awf: Awf, tmp_path: Path) -> None:
    """A directory without a repository has passes without a commit."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text(CODE)
    assert taken(awf, review(tmp_path / "one.json", INJECTION))["pass"].endswith("-0000000")
    assert titles(awf) == ["Shell injection in run"]


def test_from_a_directory_below(awf: Awf, project: Path) -> None:
    """The repository around the current directory is the one that is meant, or the one given."""
    review(project / "one.json", INJECTION)
    done = awf("findings", "import", "../one.json", "--store", "../.awf", "--json", cwd=project / "src")
    assert json.loads(done.stdout)["dispositions"]["surviving"] == 1
    assert (project / ".code-review/review-latest.json").exists()
    away = awf("verdict", "--store", str(project / ".awf"), "--repo", str(project), cwd=project / "home")
    assert away.stdout.startswith("FAIL (1 critical)")


def test_the_list_has_the_documented_keys_in_order(awf: Awf, project: Path) -> None:
    """The most important comes first."""
    taken(awf, review(project / "one.json", FLUSH, TOKEN, INJECTION))
    rows = listed(awf)
    assert {tuple(row) for row in rows} == {ROW}
    assert [(row["gate"], row["severity"]) for row in rows] == [
        ("must", "critical"),
        ("must", "high"),
        ("suggest", "medium"),
    ]
    assert (rows[0]["file"], rows[0]["line"]) == ("src/a.py", 5)


def test_filters(awf: Awf, project: Path) -> None:
    """By state, severity, gate, category, file, stage and time; each narrows the list."""
    first = taken(awf, review(project / "one.json", INJECTION, TOKEN, FLUSH))
    assert awf("findings", "triage", first["new"][1], "--as", "wont-fix", "--note", "a test value").returncode == 0
    assert titles(awf) == ["Shell injection in run", "Flush may fail"]
    assert titles(awf, "--state", "wont-fix") == titles(awf, "--state", "dismissed") == ["Token in the source"]
    assert len(titles(awf, "--state", "all")) == 3
    assert titles(awf, "--severity", "medium") == titles(awf, "--gate", "suggest") == ["Flush may fail"]
    assert len(titles(awf, "--severity", "medium", "--severity", "critical")) == 2
    assert titles(awf, "--category", "bug") == []
    assert len(titles(awf, "--file", "src/")) == len(titles(awf, "--file", "*.py")) == 2
    assert titles(awf, "--file", "lib/") == titles(awf, "--stage", "review") == []
    assert titles(awf, "--limit", "1") == ["Shell injection in run"]
    assert titles(awf, "--since", "2100-01-01") == []
    assert len(titles(awf, "--since", first["pass"])) == 2
    wrong = awf("findings", "list", "--since", "lately")
    assert wrong.returncode == 2
    assert '"lately"' in wrong.stderr


def test_the_table_fits_and_nothing_in_it_acts_on_a_terminal(awf: Awf, project: Path) -> None:
    """Escapes and line ends in titles are inert; every line has at most eighty columns."""
    deep = "src/" + "very-long-directory-name/" * 4 + "module.py"
    (project / deep).parent.mkdir(parents=True)
    (project / deep).write_text(CODE)
    evil = {**TOKEN, "title": "Token\x1b[2J\r\nand \u202ereversed", "file": deep, "evidence": [f"{deep}:6 -- token"]}
    taken(awf, review(project / "one.json", INJECTION, evil))
    shown = [
        awf("findings", *command).stdout
        for command in (["list"], ["list", "--state", "all"], ["show", "2"], ["why", "2"], ["diff", "latest", "latest"])
    ]
    for text in shown:
        assert text
        assert not set("\x1b\r\u202e") & set(text)
    for line in (*shown[0].splitlines(), *shown[1].splitlines()):
        assert len(line) <= 80
    assert "…" in shown[0]


def test_an_empty_store_is_an_empty_list_and_no_pass(awf: Awf, project: Path) -> None:
    """Reading creates nothing, and nothing passes that was not reviewed."""
    assert listed(awf) == []
    assert awf("findings", "list").stderr == "No findings: nothing was reviewed yet.\n"
    code, said = verdict(awf)
    assert (code, said["complete"], said["ship"]) == (1, False, False)
    assert not (project / ".awf").exists()


def test_show_has_the_whole_record(awf: Awf, project: Path) -> None:
    """Reviewer, evidence and history, by id, number, beginning or alias."""
    (id,) = taken(awf, review(project / "one.json", INJECTION))["new"]
    record = json.loads(awf("findings", "show", id, "--json").stdout)
    assert (record["id"], record["reviewer"], record["input_id"]) == (id, "security", "security#1")
    assert record["evidence"][0]["quote"] == 'os.system("rm " + name)'
    assert [change["what"] for change in record["history"]] == ["raised"]
    for name in ("1", "#1", id[:8], record["aliases"][0]):
        assert json.loads(awf("findings", "show", name, "--json").stdout) == record
    assert "Anyone who names a file runs a command." in awf("findings", "show", id).stdout


def test_why_explains_a_finding_on_one_screen(awf: Awf, project: Path) -> None:
    """Who reported it, with whom it is one line of work, how it was recognised, who decided what."""
    one = review(project / "one.json", INJECTION)
    two = review(project / "two.json", INJECTION, reviewer="correctness")
    ids = taken(awf, one, two)["new"]
    taken(awf, one, two)
    awf("findings", "triage", ids[0], "--as", "false-positive", "--note", "only we name files")
    story = awf("findings", "why", "1").stdout
    assert len(story.splitlines()) <= 24
    for words in (ids[0], "#2", "security", "correctness", "Merged", "exact", "by user: only we name files"):
        assert words in story


def test_why_explains_an_item_of_a_pass(awf: Awf, project: Path) -> None:
    """What became of it, by its name in the pass."""
    taken(awf, review(project / "one.json", INJECTION, {"title": "cut off"}))
    told = awf("findings", "why", "security#2").stdout
    assert "cut off" in told
    assert "rejected: " in told
    (row,) = (row for row in listed(awf) if row["title"] == INJECTION["title"])
    assert f" #{row['number']} {row['id']} " in awf("findings", "why", "security#1").stdout


def test_an_unknown_name_has_suggestions(awf: Awf, project: Path) -> None:
    """An error with the ids that may be meant."""
    (id,) = taken(awf, review(project / "one.json", INJECTION))["new"]
    for command in ("show", "why"):
        done = awf("findings", command, f"{id[:-1]}~")
        assert done.returncode == 2
        assert id in done.stderr


def test_every_export(awf: Awf, project: Path) -> None:
    """The same to the output and to a file; SARIF, Markdown and JSON keep what was dismissed."""
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))["new"]
    awf("findings", "triage", ids[1], "--as", "wont-fix", "--note", "a test value")
    for form in ("sarif", "rdjson", "github", "markdown", "json", "review"):
        done = awf("findings", "export", "--format", form)
        assert (done.returncode, done.stderr) == (0, ""), form
        assert awf("findings", "export", "--format", form, "-o", "out.txt").returncode == 0
        assert (project / "out.txt").read_text() == done.stdout
        assert "Shell injection in run" in done.stdout
        assert ("Token in the source" in done.stdout) is (form in ("sarif", "markdown", "json")), form
        only = awf("findings", "export", "--format", form, "--state", "all", "--severity", "high").stdout
        assert "Shell injection in run" not in only


def test_sarif_suppresses_what_was_dismissed(awf: Awf, project: Path) -> None:
    """A dismissal is in the file with its reason, and is not left out."""
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))["new"]
    awf("findings", "triage", ids[1], "--as", "false-positive", "--note", "a test value")
    (run,) = json.loads(awf("findings", "export", "--format", "sarif").stdout)["runs"]
    assert [len(result["suppressions"]) for result in run["results"]] == [0, 1]
    assert run["results"][1]["suppressions"][0]["justification"].endswith("a test value")


@pytest.mark.parametrize("form", ["sarif", "review", "rdjson"])
def test_an_export_round_trips(awf: Awf, project: Path, form: str) -> None:
    """An export that is imported again raises no new line of work: it repeats what is known, in another name."""
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))["new"]
    assert awf("findings", "export", "--format", form, "-o", "back.out").returncode == 0
    assert taken(awf, "back.out", "--format", form)["dispositions"]["merged"] == 2
    assert {row["id"]: row["reviewers"] for row in listed(awf)} == {id: ["security", "awf"] for id in ids}


def test_an_export_overwrites_only_files(awf: Awf, project: Path) -> None:
    """A directory or a device is left alone."""
    (project / "target").mkdir()
    assert awf("findings", "export", "--format", "json", "-o", "target").returncode == 2
    assert awf("findings", "export", "--format", "json", "-o", "/dev/null").returncode == 2
    assert awf("findings", "export", "--format", "json", "-o", "nosuch/out.json").returncode == 2
    assert Path("/dev/null").is_char_device()


def test_a_dismissed_finding_stays_dismissed(awf: Awf, project: Path) -> None:
    """Reported again it is suppressed; once its code has changed the dismissal does not hold any more."""
    name = review(project / "one.json", TOKEN)
    (id,) = taken(awf, name)["new"]
    assert awf("findings", "triage", id, "--as", "wont-fix", "--note", "a test value").returncode == 0
    again = taken(awf, name)
    assert (again["new"], again["reopened"], again["dispositions"]["suppressed"]) == ([], [], 1)
    assert (listed(awf), verdict(awf)[0]) == ([], 0)
    changed = 'token = os.environ["TOKEN"] + "xyz"'
    (project / "src/a.py").write_text(CODE.replace('token = "abc-not-a-real-one"', changed))
    back = taken(awf, review(project / "one.json", {**TOKEN, "evidence": [f"src/a.py:6 -- {changed}"]}))
    assert (back["new"], back["reopened"]) == ([], [id])
    assert [(row["id"], row["state"]) for row in listed(awf)] == [(id, "reopened")]


def test_triage_refuses_one_by_one(awf: Awf, project: Path) -> None:
    """What is not allowed is refused with a reason; the rest is applied."""
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))["new"]
    done = awf("findings", "triage", *ids, "nope", "--as", "fixed", "--by", "user", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    applied = {one["id"]: (one["from"], one["state"]) for one in answer["applied"]}
    assert applied == dict.fromkeys(ids, ("open", "verified_fixed"))
    assert list(answer["refused"]) == ["nope"]
    agent = awf("findings", "triage", ids[0], "--as", "fixed", "--by", "orchestrator")
    assert (agent.returncode, agent.stdout) == (1, "")
    assert agent.stderr.startswith(f"refused: {ids[0]}: ")
    assert awf("findings", "triage", ids[0], "--as", "wont-fix").returncode == 1


def test_triage_touches_no_pass(awf: Awf, project: Path) -> None:
    """The file of the finding and the verdict change, the record of the pass does not."""
    (project / ".wystack").mkdir()
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))["new"]
    (passed,) = (project / ".wystack/reviews").iterdir()
    before = passed.read_bytes()
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert awf("findings", "triage", ids[0], "--as", "wont-fix", "--note", "so be it").returncode == 0
    assert list((project / ".wystack/reviews").iterdir()) == [passed]
    assert passed.read_bytes() == before
    record = json.loads((project / f".wystack/findings/{ids[0]}.json").read_text())
    assert (record["status"], record["triage_history"][-1]["by"]) == ("wont-fix", "user")
    now = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (now["reviewId"], now["mode"], now["verdict"]) == (latest["reviewId"], "full", "WARN")
    assert [path.name for path in (project / ".code-review").glob("*.json")] == ["review-latest.json"]
    assert taken(awf, review(project / "one.json", INJECTION, TOKEN))["problems"] == []


def test_claimed_is_not_verified(awf: Awf, project: Path) -> None:
    """A fix that an agent claims in the verdict file counts there alone: the verdict waits for a reviewer."""
    (id,) = taken(awf, review(project / "one.json", INJECTION))["new"]
    edit_status(project, "-5", "fixed")
    code, said = verdict(awf)
    assert (said["verdict"], said["ship"], code) == ("FAIL", False, 1)
    assert [one["id"] for one in said["claimed"]] == [id]
    assert [row["state"] for row in listed(awf)] == ["fix_claimed"]
    file = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (file["verdict"], file["summary"]["blocker"], file["findings"][0]["status"]) == ("PASS", 0, "fixed")
    shown = awf("verdict").stdout
    assert shown.startswith("FAIL (1 critical); 1 claimed fix is not verified yet\n")
    assert "FAIL until 1 claimed fix is verified (#1)" in shown
    back = taken(awf, review(project / "one.json", INJECTION))
    assert (back["reopened"], [row["state"] for row in listed(awf)]) == ([id], ["reopened"])


def test_an_edit_that_is_not_allowed_is_reported_and_not_applied(awf: Awf, project: Path) -> None:
    """A team cannot verify its own fix: the next command says so, once, and puts the file back."""
    taken(awf, review(project / "one.json", INJECTION))
    edit_status(project, "-5", "verified")
    done = awf("verdict")
    assert done.stdout.startswith("FAIL (1 critical)")
    assert "open→verified" in done.stderr
    file = json.loads((project / ".code-review/review-latest.json").read_text())
    assert [one["status"] for one in file["findings"]] == ["open"]
    assert awf("verdict").stderr == ""
    edit_status(project, "-5", "verified")
    (problem,) = taken(awf, review(project / "one.json", INJECTION))["problems"]
    assert "open→verified" in problem


@pytest.mark.parametrize(
    ("items", "word", "code", "strict"),
    [
        ([FLUSH], "PASS", 0, 0),
        ([TOKEN], "WARN", 0, 1),
        ([INJECTION], "FAIL", 1, 1),
        ([{**INJECTION, "x_system_breaking": True}], "ABORT", 1, 1),
    ],
)
def test_the_verdict_and_its_exit_code(
    awf: Awf, project: Path, items: list[dict[str, Any]], word: str, code: int, strict: int
) -> None:
    """By the worst that counts; `--fail-on warn` tightens it."""
    taken(awf, review(project / "one.json", *items))
    found, said = verdict(awf)
    assert tuple(said) == VERDICT
    assert tuple(said["summary"]) == ("blocker", "high", "medium", "low", "info")
    assert (found, said["verdict"], said["complete"]) == (code, word, True)
    assert verdict(awf, "--fail-on", "warn")[0] == strict
    assert awf("verdict").stdout.startswith(word)


def test_diff_of_two_passes(awf: Awf, project: Path) -> None:
    """Resolved, carried, new and regressed, by what each finding was after either pass."""
    ids = taken(awf, review(project / "one.json", INJECTION, TOKEN))
    injection, token = ids["new"]
    awf("findings", "triage", token, "--as", "fixed")
    second = taken(awf, review(project / "one.json", INJECTION, FLUSH))
    (flush,) = second["new"]
    assert json.loads(awf("findings", "diff", ids["pass"], second["pass"], "--json").stdout) == {
        "from": ids["pass"],
        "to": second["pass"],
        "resolved": [token],
        "carried": [injection],
        "new": [flush],
        "regressed": [],
        "claimed": [],
    }
    third = taken(awf, review(project / "one.json", INJECTION, TOKEN, FLUSH))
    found = json.loads(awf("findings", "diff", second["pass"], "latest", "--json").stdout)
    assert (found["to"], found["regressed"], found["carried"]) == (third["pass"], [token], [injection, flush])
    text = awf("findings", "diff", second["pass"], third["pass"]).stdout
    assert text.startswith("0 resolved, 2 carried, 0 new, 1 regressed\n")
    assert awf("findings", "diff", third["pass"], ids["pass"]).returncode == 2
    assert awf("findings", "diff", "nope", "latest").returncode == 2


def test_help_of_the_group_loads_nothing_heavy() -> None:
    """`awf findings --help` lists its commands without importing them."""
    code = (
        "import sys; from pipeline.cli.main import awf, exit_code;"
        "exit_code(lambda: awf.main(['findings', '--help'], standalone_mode=False));"
        "print('loaded', sorted({'networkx', 'kdl', 'pydantic', 'structlog', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("loaded []\n")
    for name in ("import", "list", "show", "why", "export", "diff", "triage", "merge", "split"):
        assert f"  {name} " in result.stdout


def test_a_mistyped_command_has_a_suggestion(awf: Awf) -> None:
    """The nearest name is suggested."""
    done = awf("findings", "lst")
    assert done.returncode == 2
    assert '"list"' in done.stderr


def test_a_finding_without_a_quote_keeps_its_line_after_a_fresh_clone(awf: Awf, project: Path) -> None:
    """What is known from the files alone has no line of code with it: a blank line nearby is not taken for that."""
    (project / ".wystack").mkdir()
    place = {"path": "src/a.py", "range": {"start": {"line": 1}, "end": {"line": 1}}}
    told = {"source": {"name": "lint"}, "diagnostics": [{"message": "os is not used", "location": place}]}
    (project / "lint.rdjson").write_text(json.dumps(told))
    for _ in range(2):
        assert awf("findings", "import", "lint.rdjson").returncode == 0
        (row,) = json.loads(awf("findings", "list", "--json").stdout)
        assert (row["line"], row["end_line"]) == (1, 1)
        shutil.rmtree(project / ".awf")
