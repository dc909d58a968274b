"""The verdict file, the records and the report of a review, through the commands and workflows that produce them."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_structured import Project, found, item

MYPY = "app.py:5: error: Need type annotation  [var-annotated]\napp.py:9: error: Missing return  [return]\n"
GRAVE = item("The handle leaks on every call", severity="P0")
MINOR = item("Nothing tests the output", severity="P2", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
LENSES = """
stage "code" kind="llm" findings="review" prompt="Review the code"
stage "tests" kind="llm" findings="review" lens="qa" prompt="Review the tests"
stage "product" kind="llm" findings="review" lens="pm" reviewer="owner" prompt="Review the product"
transition from="code" to="tests" on="always"
transition from="tests" to="product" on="always"
transition from="product" to="end" on="always"
"""
TOGETHER = """
stage "reviews" kind="parallel" { branch "one"; branch "two" }
stage "one" kind="llm" findings="review" prompt="Review it"
stage "two" kind="llm" findings="review" prompt="Review it"
stage "gate" kind="decision" {
  route when="verdict() == \\"PASS\\"" to="end"
  route when="true" to="fix"
}
stage "fix" kind="llm" prompt="Fix it"
transition from="reviews" to="gate" on="always"
transition from="fix" to="reviews"
"""
ALONE = """
stage "rev" kind="llm" findings="review" prompt="Review it"
transition from="rev" to="end" on="always"
"""


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project that keeps records."""
    project = Project(awf, tmp_path / "project")
    (project.folder / ".wystack").mkdir()
    return project


def git(project: Project, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
    return subprocess.run(named, cwd=project.folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(project: Project) -> None:
    git(project, "add", "app.py")
    git(project, "add", "--force", *(name for name in ("w.awf.kdl", "script.json") if (project.folder / name).exists()))
    git(project, "commit", "-qm", "more")


def take(project: Project, text: str, *options: str, name: str = "review.json") -> dict[str, Any]:
    """Import one file from outside of the project."""
    file = project.folder.parent / name
    file.write_text(text)
    done = project.awf("findings", "import", str(file), "--json", *options)
    assert done.stdout, done.stderr
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


def records(project: Project) -> list[dict[str, Any]]:
    """The records of passes, oldest first."""
    paths = sorted((project.folder / ".wystack/reviews").glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def finding_records(project: Project) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (project.folder / ".wystack/findings").glob("*.json")]


def verdict(project: Project, *options: str) -> tuple[int, dict[str, Any]]:
    done = project.awf("verdict", "--json", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


# --- one review (0-30) -----------------------------------------------------------------------------------------------


def test_a_clean_import_passes_while_older_findings_are_open(project: Project) -> None:
    """0-30: the file and the record are of this review; `awf verdict` is of all, and says how they differ."""
    take(project, MYPY, name="mypy.txt")
    assert len(project.verdict_file()["findings"]) == 2
    take(project, found())
    shown = project.verdict_file()
    assert (shown["verdict"], shown["findings"], sum(shown["summary"].values())) == ("PASS", [], 0)
    assert [(one["verdict"], one["finding_ids"]) for one in records(project)[1:]] == [("ship", [])]
    code, answer = verdict(project, "--fail-on", "warn")
    assert (code, answer["verdict"], answer["ship"]) == (1, "WARN", False)
    assert (answer["review"]["verdict"], answer["review"]["ship"], len(answer["review"]["older"])) == ("PASS", True, 2)
    assert answer["review"]["id"] == shown["reviewId"]
    assert "PASS for this review; 2 older findings by mypy still open" in project.awf("verdict").stdout


def test_without_older_findings_nothing_differs(project: Project) -> None:
    """0-30: the line about the difference is left out when there is none."""
    take(project, found(item()))
    assert "this review" not in project.awf("verdict").stdout


def test_reviewers_of_one_round_are_one_review(project: Project) -> None:
    """0-30: parallel reviewers share a verdict; the next round has its own, and the first one is archived."""
    fixed = found() + "\n[FINDING 1: fixed]\n[FINDING 2: fixed]"
    script = {"one": [found(GRAVE), fixed], "two": [found(MINOR), fixed], "fix": "Done."}
    ended = project.run(TOGETHER, script, start="reviews")
    assert ended["status"] == "success", ended
    first, second, *later = records(project)
    assert {first["verdict"], second["verdict"]} == {"block-on-MUSTs"}, "a clean reviewer does not ship beside another"
    assert {one["verdict"] for one in later} == {"ship"}
    archived = [json.loads(path.read_text()) for path in (project.folder / ".code-review").glob("review-*.json")]
    assert sorted(one["verdict"] for one in archived) == ["FAIL", "PASS"]
    assert max(len(one["findings"]) for one in archived) == 2


def test_the_verdict_in_a_workflow_is_of_its_run(project: Project) -> None:
    """0-30: an old finding of another reviewer does not keep a run in its loop."""
    take(project, found(GRAVE, reviewer="old"), "--reviewer", "old")
    ended = project.run(TOGETHER, {"one": found(), "two": found()}, start="reviews")
    assert (ended["status"], ended["path"]) == ("success", ["one", "two", "reviews", "gate", "end"])
    assert project.context("review.verdict") == "PASS"
    assert verdict(project)[1]["verdict"] == "FAIL"


# --- the start of a review (0-31) ------------------------------------------------------------------------------------


def test_a_pass_has_the_commit_and_the_base_of_its_start(project: Project) -> None:
    """0-31: a run is compared with the commit that it started at."""
    head = git(project, "rev-parse", "HEAD")
    project.run(ALONE, {"rev": found()})
    (record,) = records(project)
    assert (record["diff_sha"], record["base"], record["branch"], record["caller"]) == (head, head, "main", "awf run")


def test_files_that_change_during_a_review_are_the_reason_it_does_not_ship(project: Project) -> None:
    """0-31: nobody rejected the change, and `awf verdict` does not say so."""
    command = "printf '# x\\n' >> app.py; printf '{\\\"diagnostics\\\": []}'"
    project.run(
        f'stage "rev" kind="tool" findings="rdjson" command="{command}"\ntransition from="rev" to="end" on="always"\n'
    )
    (record,) = records(project)
    assert (record["x_tree_changed"], record["verdict"]) == (True, "block-on-rejection")
    assert verdict(project)[1]["review"]["tree_changed"] is True
    said = project.awf("verdict").stdout
    assert "files changed while the reviewers worked" in said
    assert "rejects" not in said


# --- the report (0-32) -----------------------------------------------------------------------------------------------


def test_a_report_has_the_id_of_its_verdict(project: Project) -> None:
    """0-32: its name has the date, the scope and the id, and the verdict file names it."""
    taken = take(project, found(item()), "--report", "--base", "HEAD", "--scope", "package", "--task", "7")
    shown, (record,) = project.verdict_file(), records(project)
    date = record["started_at"][:10]
    assert shown["reportPath"] == taken["report"] == f"docs/code-reviews/{date}-package-{shown['reviewId']}.md"
    text = (project.folder / shown["reportPath"]).read_text()
    assert f"# Code review {shown['reviewId']}" in text
    assert "The handle is never closed" in text
    assert (shown["scope"], shown["target"]) == ("package", "HEAD..HEAD")
    assert (record["base"], record["task"], record["caller"]) == (record["diff_sha"], "TASK-7", "awf findings import")
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "fine")
    assert project.verdict_file()["reportPath"] == shown["reportPath"], "a decision keeps the report"


def test_no_report_is_written_unless_asked_for(project: Project) -> None:
    """0-32: nor for a quick review."""
    take(project, found(item()))
    assert take(project, found(item()), "--mode", "quick", "--report")["report"] == ""
    assert (project.verdict_file()["reportPath"], (project.folder / "docs").exists()) == ("", False)


def test_the_place_of_reports_is_a_setting(project: Project) -> None:
    """0-32: one outside of the repository is refused."""
    settings = project.folder / ".awf/config.kdl"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('review { reports "notes/reviews" }\n')
    assert take(project, found(), "--report")["report"].startswith("notes/reviews/")
    settings.write_text('review { reports "../elsewhere" }\n')
    done = project.awf("findings", "import", str(project.folder.parent / "review.json"), "--report")
    assert (done.returncode, (project.folder.parent / "elsewhere").exists()) == (2, False)


# --- modes (0-33) ----------------------------------------------------------------------------------------------------


def test_a_quick_review_lists_only_what_is_grave_and_is_not_archived(project: Project) -> None:
    """0-33: the next full review replaces it."""
    take(project, found(GRAVE, MINOR), "--mode", "quick")
    quick = project.verdict_file()
    assert (quick["mode"], quick["verdict"], [one["severity"] for one in quick["findings"]]) == (
        "quick",
        "FAIL",
        ["Blocker"],
    )
    assert quick["summary"] == {"blocker": 1, "high": 0, "medium": 0, "low": 0, "info": 0}
    take(project, found())
    assert [path.name for path in (project.folder / ".code-review").iterdir()] == ["review-latest.json"]
    assert len(project.ledger().findings) == 2


def test_a_verification_without_a_claim_records_nothing(project: Project) -> None:
    """0-33: it is an error, with the exit code of wrong usage."""
    take(project, found(item()))
    before = (project.verdict_file(), len(records(project)), len(project.ledger().passes))
    done = project.awf("findings", "import", str(project.folder.parent / "review.json"), "--mode", "verify")
    assert done.returncode == 2
    assert (project.verdict_file(), len(records(project)), len(project.ledger().passes)) == before


def test_a_verification_needs_a_full_review(project: Project) -> None:
    """0-33: a quick one is not enough; nothing is recorded."""
    take(project, found(item()), "--mode", "quick")
    project.awf("findings", "triage", "1", "--as", "fix-claimed")
    latest = project.folder / ".code-review/review-latest.json"
    document = project.verdict_file()
    document["findings"][0]["status"] = "fixed"
    latest.write_text(json.dumps(document))
    done = project.awf("findings", "import", str(project.folder.parent / "review.json"), "--mode", "verify")
    assert (done.returncode, len(project.ledger().passes)) == (2, 1)


def test_a_verification_changes_the_verdict_in_place(project: Project) -> None:
    """0-33: a claim that is refuted is reopened under the same id; nothing is archived."""
    take(project, found(item(), MINOR))
    latest, before = project.folder / ".code-review/review-latest.json", project.verdict_file()
    edited = project.verdict_file()
    edited["findings"][0]["status"] = "fixed"
    latest.write_text(json.dumps(edited))
    take(project, found(item()), "--mode", "verify")
    after = project.verdict_file()
    assert (after["reviewId"], after["mode"]) == (before["reviewId"], "verify")
    assert [one["status"] for one in after["findings"]] == ["reopened", "open"]
    assert len(list(latest.parent.glob("review-*.json"))) == 1


def test_a_verification_rules_on_each_claim_by_its_number(project: Project) -> None:
    """0-33: what is fixed becomes verified in place, what is not is reopened, and a stage confirms nothing."""
    take(project, found(item(), MINOR))
    document = project.verdict_file()
    for one in document["findings"]:
        one["status"] = "fixed"
    (project.folder / ".code-review/review-latest.json").write_text(json.dumps(document))
    rulings = [{"number": 1, "ruling": "fixed"}, {"number": 2, "ruling": "not fixed", "reason": "it is still there"}]
    answer = found(rulings=rulings)
    file = project.folder.parent / "review.json"
    file.write_text(answer)
    project.awf_anywhere("findings", "import", str(file), "--mode", "verify", cwd=project.folder, AWF_STAGE="fix")
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["fixed", "fixed"]
    take(project, answer, "--mode", "verify")
    after = project.verdict_file()
    assert [one["status"] for one in after["findings"]] == ["verified", "reopened"]
    assert (after["reviewId"], after["mode"], after["verdict"]) == (document["reviewId"], "verify", "PASS")


# --- lenses, verdicts and patterns (0-34, 0-36) ----------------------------------------------------------------------


def test_a_full_review_has_a_record_of_its_own(project: Project) -> None:
    """0-34: one record for each lens, and one for all of them with all their findings."""
    pattern = {"name": "Names say what is tested", "location": "tests", "rationale": "r", "destination": "CLAUDE.md"}
    ship = {"verdict": "SHIP-WITH-TICKETS", "argument": "only a name", "patterns": [pattern]}
    project.run(LENSES, {"code": found(MINOR, **ship), "tests": found(item()), "product": found()}, start="code")
    (whole,) = [one for one in records(project) if one["skill"] == "full-review"]
    inner = [one for one in records(project) if one["skill"] == "code-review"]
    assert len(inner) == 3
    assert sorted(whole["finding_ids"]) == sorted(id for one in inner for id in one["finding_ids"])
    assert whole["x_passes"] == [one["id"] for one in inner]
    assert (whole["verdict"], whole["must_count"], whole["suggest_count"]) == ("block-on-MUSTs", 1, 1)
    assert whole["patterns"] == [{"id": "P1", **pattern}]
    said = {"reviewer": "code", "verdict": "SHIP-WITH-TICKETS", "argument": "only a name"}
    assert whole["reviewer_verdicts"] == inner[0]["reviewer_verdicts"] == [said]
    assert {one["lens"] for one in finding_records(project)} == {"code-review", "qa"}
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "fine")
    assert len(records(project)) == 4, "a decision records no pass"


def test_a_full_review_that_stopped_early_has_no_record(project: Project) -> None:
    """0-34: what was not looked at through every lens is not a full review."""
    early = 'transition from="code" to="end" on="fail"\ntransition from="code" to="tests" on="success"'
    body = LENSES.replace('transition from="code" to="tests" on="always"', early)
    project.run(body, {"code": found(item())}, start="code")
    assert [one["skill"] for one in records(project)] == ["code-review"]


def test_a_rejection_without_findings_fails_the_stage_with_its_argument(project: Project) -> None:
    """0-34: it does not ship, it does not pass, and it holds until that reviewer answers again."""
    project.run(ALONE, {"rev": found(verdict="BLOCK", argument="the design is wrong")})
    (visit,) = project.why("rev")
    assert visit["status"] == "fail"
    assert "the design is wrong" in visit["reason"]
    (record,) = records(project)
    assert (record["verdict"], record["must_count"]) == ("block-on-rejection", 0)
    assert project.verdict_file()["verdict"] == project.context("review.verdict") == "FAIL"
    assert project.verdict_file()["x_rejected"] == [{"reviewer": "rev", "argument": "the design is wrong"}]
    take(project, found(), "--reviewer", "another")
    code, answer = verdict(project)
    assert (code, answer["ship"], answer["review"]["ship"]) == (1, False, True)
    assert "rev rejects the change: the design is wrong" in project.awf("verdict").stdout
    take(project, found(), "--reviewer", "rev")
    assert verdict(project)[0] == 0


def test_reviewers_of_several_stages_agree(project: Project) -> None:
    """0-36: what two stages of a run report is agreed upon, in one finding."""
    project.run(TOGETHER, {"one": found(item()), "two": found(item())}, start="reviews")
    assert [(one["agreement_count"], one["sources"]) for one in finding_records(project)] == [(2, ["one", "two"])]


def test_reviewers_of_stages_one_after_another_agree(project: Project) -> None:
    """0-36: the reviewer's name is the stage's `reviewer`."""
    project.run(LENSES, {"code": found(item()), "tests": found(), "product": found(item())}, start="code")
    (record,) = [one for one in finding_records(project) if one["status"] == "open"]
    assert (record["agreement_count"], sorted(record["sources"])) == (2, ["code", "owner"])


# --- the gate of a commit (0-35) -------------------------------------------------------------------------------------


def test_a_commit_ships_if_exactly_its_files_were_reviewed(project: Project) -> None:
    """0-35: what is reviewed before it is committed counts; any later change does not."""
    assert project.awf("verdict", "--at", "HEAD").returncode == 1, "nothing was reviewed"
    (project.folder / "app.py").write_text("print(1)\n")
    project.run(ALONE, {"rev": found()})
    assert verdict(project, "--at", "HEAD")[1] | {"ship": False, "passes": []} == verdict(project, "--at", "HEAD")[1]
    commit(project)
    code, answer = verdict(project, "--at", "HEAD")
    assert (code, answer["ship"], answer["verdict"], len(answer["passes"])) == (0, True, "ship", 1)
    git(project, "add", "--force", ".wystack")
    git(project, "commit", "-qm", "the records")
    assert project.awf("verdict", "--at", "HEAD").returncode == 0, "what awf writes does not count"
    (project.folder / "app.py").write_text("print(2)\n")
    commit(project)
    assert project.awf("verdict", "--at", "HEAD").returncode == 1
    assert project.awf("verdict", "--at", "HEAD~1").returncode == 0
    assert project.awf("verdict", "--at", "nowhere").returncode == 2


def test_a_report_does_not_change_what_was_reviewed(project: Project) -> None:
    """0-35: a commit that adds only the report of a review still ships."""
    take(project, found(), "--report")
    git(project, "add", "docs")
    git(project, "commit", "-qm", "the report")
    assert project.awf("verdict", "--at", "HEAD").returncode == 0


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (found(item()), "block-on-MUSTs"),
        (found(verdict="BLOCK"), "block-on-rejection"),
        ("[oops", "block-on-rejection"),
    ],
)
def test_a_commit_whose_review_does_not_ship_does_not(project: Project, answer: str, word: str) -> None:
    """0-35: the last review of its files decides."""
    take(project, found(), "--reviewer", "first")
    assert project.awf("verdict", "--at", "HEAD").returncode == 0
    take(project, answer, "--reviewer", "second", "--format", "review")
    code, said = verdict(project, "--at", "HEAD")
    assert (code, said["ship"], said["verdict"]) == (1, False, word)


# --- edits and places (0-37, 0-38) -----------------------------------------------------------------------------------


def test_an_agent_cannot_dismiss_what_must_be_fixed_in_either_file(project: Project) -> None:
    """0-37: both files are put back exactly as they were, and the reason is reported."""
    take(project, found(item()))
    (path,) = (project.folder / ".wystack/findings").glob("*.json")
    latest = project.folder / ".code-review/review-latest.json"
    take(project, found(item(), MINOR))
    before = (path.read_bytes(), latest.read_bytes())
    record, document = json.loads(before[0]), json.loads(before[1])
    entry = {"at": record["createdAt"], "status": "wont-fix", "note": "it is fine", "by": "user"}
    path.write_text(json.dumps({**record, "status": "wont-fix", "triage_history": [*record["triage_history"], entry]}))
    document["findings"][0] |= {"status": "wont_fix", "note": "it is fine"}
    latest.write_text(json.dumps(document))
    done = project.awf("findings", "triage", "9", "--as", "fixed", "--json")
    problems = json.loads(done.stdout)["problems"]
    assert len(problems) == 2
    assert all("must be fixed" in problem for problem in problems)
    assert latest.read_bytes() == before[1]
    assert path.read_bytes() == before[0]
    assert [finding.state for finding in project.ledger()] == ["open", "open"]


def test_a_program_that_a_repository_names_runs_only_if_the_user_allows_it(project: Project, home: Path) -> None:
    """0-39: otherwise one note says so, and the files are written; it gets no keys."""
    command = [sys.executable, "-c", "import os; open('given', 'a').write(' '.join(os.environ))"]
    (project.folder / ".wystack/storage.json").write_text(json.dumps({"record.write": command}))
    problems = take(project, found(item()))["problems"]
    assert (len(problems), (project.folder / "given").exists(), len(records(project))) == (1, False, 1)
    settings = home / ".config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"trust {{ record-write {json.dumps(shlex.join(command))} }}\n")
    (project.folder.parent / "review.json").write_text(found(MINOR))
    file = str(project.folder.parent / "review.json")
    done = project.awf_anywhere("findings", "import", file, cwd=project.folder, MY_API_KEY="secret")
    assert done.returncode == 0, done.stderr
    assert "MY_API_KEY" not in (project.folder / "given").read_text()


def test_a_run_in_a_worktree_shows_its_findings_in_the_main_checkout(project: Project) -> None:
    """0-38: the worktree stays clean."""
    elsewhere = project.folder.parent / "elsewhere"
    git(project, "worktree", "add", "-q", str(elsewhere))
    file = project.folder.parent / "review.json"
    file.write_text(found(item()))
    done = project.awf_anywhere("findings", "import", str(file), "--store", str(project.folder / ".awf"), cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert project.verdict_file()["verdict"] == "WARN"
    assert subprocess.run(["git", "status", "--short"], cwd=elsewhere, check=True, capture_output=True).stdout == b""


def test_what_was_reviewed_in_a_workspace_ships_once_it_is_merged(project: Project) -> None:
    """0-35, 0-38: the files are in the main checkout, and neither block the merge nor count as a change."""
    body = """
stage "make" kind="workspace.create"
stage "work" kind="tool" command="echo 'print(1)' > app.py"
stage "rev" kind="llm" findings="review" prompt="Review it"
stage "merge" kind="workspace.merge"
stage "clean" kind="workspace.cleanup"
transition from="make" to="work"
transition from="work" to="rev"
transition from="rev" to="merge" on="success"
transition from="rev" to="clean" on="fail"
transition from="merge" to="clean"
transition from="clean" to="end"
"""
    start = git(project, "rev-parse", "HEAD")
    ended = project.run(body, {"rev": found()}, start="make")
    assert ended["status"] == "success", ended
    (record,) = records(project)
    assert (record["base"], record["verdict"]) == (start, "ship")
    assert project.verdict_file()["verdict"] == "PASS"
    assert git(project, "rev-parse", "HEAD") != start
    assert project.awf("verdict", "--at", "HEAD").returncode == 0
    assert project.awf("verdict", "--at", start).returncode == 1


@pytest.mark.parametrize("by", ["a person", "an agent"])
def test_the_record_of_a_pass_cannot_be_edited(project: Project, by: str) -> None:
    """000-14: it is reported, the verdict does not follow it, and the next command that writes puts it back."""
    project.run(ALONE, {"rev": found(GRAVE)})
    (path,) = (project.folder / ".wystack/reviews").glob("*.json")
    before = path.read_bytes()
    assert b"block-on-MUSTs" in before
    forged = before.replace(b"block-on-MUSTs", b"ship")
    if by == "a person":
        path.write_bytes(forged)
        done = project.awf("verdict")
        assert (done.returncode, path.name in done.stderr) == (1, True)
        project.awf("findings", "triage", "1", "--as", "fixed", "--note", "looked", "--yes")
    else:
        write = {"write": {str(path.relative_to(project.folder)): forged.decode()}, "reply": "Done."}
        work = 'stage "work" kind="llm" prompt="Work"\ntransition from="work" to="end"\n'
        (project.folder / "script.json").write_text(json.dumps({"work": write}))
        (project.folder / "work.awf.kdl").write_text(
            f'workflow "W" {{\nversion 2\nstart "work"\n{work}stage "end" kind="exit"\n}}\n'
        )
        project.awf("run", "work.awf.kdl", "--backend", "scripted", "--script", "script.json", "--run-id", "two")
        assert path.name in project.awf("context", "two", "review.notes").stdout
    assert path.read_bytes() == before
