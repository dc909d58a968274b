"""The verdict file, the records and the report of a review, through the commands and workflows that produce them."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_structured import CODE, REPAIRED, Project, found, item

MYPY = "app.py:5: error: Need type annotation  [var-annotated]\napp.py:9: error: Missing return  [return]\n"
GRAVE = item("The handle leaks on every call", severity="P0")
MINOR = item("Nothing tests the output", severity="P2", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
REVIEWERS = """
stage "code" kind="llm" findings="review" prompt="Review the code"
stage "tests" kind="llm" findings="review" lens="qa" prompt="Review the tests"
stage "product" kind="llm" findings="review" lens="pm" reviewer="owner" prompt="Review the product"
"""
LENSES = f"""{REVIEWERS}
stage "all" kind="parallel" {{ branch "code"; branch "tests"; branch "product" }}
transition from="all" to="end" on="always"
"""
IN_A_ROW = f"""{REVIEWERS}
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


def finding_paths(project: Project) -> list[Path]:
    return sorted((project.folder / ".wystack/findings").glob("*.json"))


def finding_records(project: Project) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in finding_paths(project)]


def verdict(project: Project, *options: str) -> tuple[int, dict[str, Any]]:
    done = project.awf("verdict", "--json", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def ruled(word: str, **more: str) -> str:
    """Return a review that rules on the first finding."""
    return found(rulings=[{"number": 1, "ruling": word, **more}])


def edit(project: Project, change: dict[int, dict[str, str]] | None = None, **top: Any) -> None:
    """Change findings of the verdict file by their positions, and its other fields."""
    document = project.verdict_file() | top
    for position, fields in (change or {}).items():
        document["findings"][position] |= fields
    (project.folder / ".code-review/review-latest.json").write_text(json.dumps(document))


def repair(project: Project) -> None:
    """Change the code: nothing can be called fixed while it is as it was."""
    (project.folder / "app.py").write_text(f"{CODE}# repaired\n")


# --- one verdict -----------------------------------------------------------------------------------------------------


def test_a_clean_import_ships_nothing_that_is_open(project: Project) -> None:
    """The file, the record of the pass and `awf verdict` are about everything that is open, whoever looked last."""
    take(project, MYPY, name="mypy.txt")
    take(project, found())
    shown = project.verdict_file()
    assert (shown["verdict"], len(shown["findings"]), shown["summary"]["high"]) == ("WARN", 2, 2)
    first, last = records(project)
    assert (len(first["finding_ids"]), first["verdict"]) == (2, "block-on-MUSTs")
    assert (last["finding_ids"], last["verdict"]) == ([], "block-on-MUSTs")
    code, answer = verdict(project, "--fail-on", "warn")
    assert (code, answer["verdict"], answer["ship"], len(answer["open"])) == (1, "WARN", False, 2)
    assert answer["review"]["id"] == shown["reviewId"]
    assert project.awf("verdict", "--at", "HEAD").returncode == 1


def test_reviewers_of_one_round_are_one_review(project: Project) -> None:
    """Parallel reviewers are one pass with one record; the next round has its own, and the first is archived."""
    fixed = found() + "\n[FINDING 1: fixed]\n[FINDING 2: fixed]"
    script = {"one": [found(GRAVE), fixed], "two": [found(MINOR), fixed], "fix": REPAIRED}
    ended = project.run(TOGETHER, script, start="reviews")
    assert ended["status"] == "success", ended
    first, second = records(project)
    assert [(one["verdict"], one["round"]) for one in (first, second)] == [("block-on-MUSTs", 1), ("ship", 2)]
    assert (len(first["finding_ids"]), first["x_review"] != second["x_review"]) == (2, True)
    archived = [json.loads(path.read_text()) for path in (project.folder / ".code-review").glob("review-*.json")]
    assert sorted(one["verdict"] for one in archived) == ["FAIL", "PASS"]
    assert max(len(one["findings"]) for one in archived) == 2


def test_the_verdict_of_a_run_is_about_its_change(project: Project) -> None:
    """An old finding in other files is elsewhere; in a file of the change it counts, whoever reported it."""
    take(project, found(GRAVE, reviewer="old"), "--reviewer", "old")
    ended = project.run(ALONE, {"rev": found()})
    answer = verdict(project)[1]
    assert (ended["status"], answer["verdict"], answer["open"], answer["elsewhere"]) == ("success", "PASS", [], 1)
    assert project.verdict_file()["verdict"] == project.context("review.verdict") == "PASS"
    repair(project)
    project.awf("run", "w.awf.kdl", "--backend", "scripted", "--script", "script.json", "--run-id", "two")
    code, answer = verdict(project)
    assert (code, answer["verdict"], answer["elsewhere"], answer["open"][0]["reviewers"]) == (1, "FAIL", 0, ["old"])
    assert project.verdict_file()["verdict"] == "FAIL"
    assert project.awf("context", "two", "review.verdict").stdout.strip() == "FAIL"


# --- the start of a review ------------------------------------------------------------------------------------


def test_a_pass_has_the_commit_and_the_base_of_its_start(project: Project) -> None:
    """A run is compared with the commit that it started at."""
    head = git(project, "rev-parse", "HEAD")
    project.run(ALONE, {"rev": found()})
    (record,) = records(project)
    assert (record["diff_sha"], record["base"], record["branch"], record["caller"]) == (head, head, "main", "awf run")


def test_files_that_change_during_a_review_are_the_reason_it_does_not_ship(project: Project) -> None:
    """Nobody rejected the change, and no verdict says so."""
    command = "printf '# x\\n' >> app.py; printf '{\\\"diagnostics\\\": []}'"
    project.run(
        f'stage "rev" kind="tool" findings="rdjson" command="{command}"\ntransition from="rev" to="end" on="always"\n'
    )
    (record,) = records(project)
    assert (record["x_tree_changed"], record["verdict"]) == (True, "block-on-rejection")
    answer = verdict(project)[1]
    assert (answer["ship"], answer["readiness"]) == (False, "Not ready")


# --- the report -----------------------------------------------------------------------------------------------


def test_a_report_has_the_id_of_its_verdict(project: Project) -> None:
    """Its name has the date, the scope and the id, and the verdict file names it."""
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
    """Nor for a quick review."""
    take(project, found(item()))
    assert take(project, found(item()), "--mode", "quick", "--report")["report"] == ""
    assert (project.verdict_file()["reportPath"], (project.folder / "docs").exists()) == ("", False)


def test_the_place_of_reports_is_a_setting(project: Project) -> None:
    """One outside of the repository is refused."""
    settings = project.folder / ".awf/config.kdl"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('review { reports "notes/reviews" }\n')
    assert take(project, found(), "--report")["report"].startswith("notes/reviews/")
    settings.write_text('review { reports "../elsewhere" }\n')
    done = project.awf("findings", "import", str(project.folder.parent / "review.json"), "--report")
    assert (done.returncode, (project.folder.parent / "elsewhere").exists()) == (2, False)


# --- modes ----------------------------------------------------------------------------------------------------


def test_a_quick_review_is_replaced_and_neither_archived_nor_shipped(project: Project) -> None:
    """Its file lists everything that is open, as any other; what it did not look at does not ship."""
    take(project, found(GRAVE, MINOR), "--mode", "quick")
    quick = project.verdict_file()
    assert (quick["mode"], quick["verdict"], quick["reportPath"]) == ("quick", "FAIL", "")
    assert quick["summary"] == {"blocker": 1, "high": 0, "medium": 1, "low": 0, "info": 0}
    project.awf("findings", "triage", "1", "2", "--as", "wont-fix", "--note", "fine")
    answer = verdict(project)[1]
    assert (answer["verdict"], answer["ship"]) == ("PASS", False)
    assert project.awf("verdict", "--at", "HEAD").returncode == 1
    take(project, found())
    assert [path.name for path in (project.folder / ".code-review").glob("*.json")] == ["review-latest.json"]
    assert project.awf("verdict", "--at", "HEAD").returncode == 0


def test_a_verification_without_a_claim_or_a_full_review_records_nothing(project: Project) -> None:
    """It is an error, with the exit code of wrong usage: a quick review is nothing that could be continued."""
    given = ("findings", "import", str(project.folder.parent / "review.json"), "--mode", "verify")
    take(project, found(item()))
    before = (project.verdict_file(), len(records(project)), len(project.ledger().passes))
    assert project.awf(*given).returncode == 2
    assert (project.verdict_file(), len(records(project)), len(project.ledger().passes)) == before
    take(project, found(item()), "--mode", "quick")
    edit(project, {0: {"status": "fixed"}})
    assert "--mode verify" not in project.awf("verdict").stdout, "it would be refused"
    assert [project.awf(*given).returncode, project.awf("review", "--mode", "verify").returncode] == [2, 2]
    assert (len(project.ledger().passes), project.verdict_file()["findings"][0]["status"]) == (2, "fixed")


def test_a_verification_rules_on_each_claim_by_its_number_and_changes_the_file_in_place(project: Project) -> None:
    """What is fixed becomes verified, what is not is reopened, under the same ids; a stage confirms nothing."""
    take(project, found(item(), MINOR, item("The name is never checked", severity="P2", line=4)))
    document = project.verdict_file()
    edit(project, {position: {"status": "fixed"} for position in range(3)})
    rulings = [{"number": 1, "ruling": "fixed"}, {"number": 2, "ruling": "not fixed", "reason": "it is still there"}]
    answer = found(rulings=rulings)
    file = project.folder.parent / "review.json"
    file.write_text(answer)
    repair(project)
    project.awf_anywhere("findings", "import", str(file), "--mode", "verify", cwd=project.folder, AWF_STAGE="fix")
    assert [one["status"] for one in project.verdict_file()["findings"]] == ["fixed", "fixed", "fixed"]
    take(project, answer, "--mode", "verify")
    after = project.verdict_file()
    statuses = {one["x_finding"]: one["status"] for one in after["findings"]}
    known = project.ledger()
    assert [statuses[id] for id in known.findings] == ["verified", "reopened", "fixed"]
    assert [one["id"] for one in after["findings"]] == [one["id"] for one in document["findings"]]
    assert (after["reviewId"], after["mode"], after["verdict"]) == (document["reviewId"], "verify", "WARN")
    assert len(list((project.folder / ".code-review").glob("review-*.json"))) == 1, "nothing is archived"
    assert [one["number"] for one in verdict(project)[1]["claimed"]] == [3]


def test_a_status_in_an_imported_file_closes_nothing(project: Project) -> None:
    """It names the reviewer of a finding and calls that settled; a stage of a run speaks for no reviewer at all."""
    take(project, found(GRAVE))
    repair(project)
    withdrawn = [{"number": 1, "ruling": "withdrawn", "reason": "I was wrong"}]
    take(project, found(rulings=withdrawn))
    (known,) = project.findings()
    assert known.state == "uncertain", "a person has to look"
    file = project.folder.parent / "settled.json"
    document = project.verdict_file() | {"reviewId": "0badcafe", "verdict": "PASS"}
    kept = {key: value for key, value in document["findings"][0].items() if not key.startswith("x_")}
    for status, who in (("wont_fix", {"AWF_STAGE": "fix"}), ("verified", {"AWF_STAGE": "fix"}), ("wont_fix", {})):
        file.write_text(json.dumps(document | {"findings": [kept | {"status": status}]}))
        project.awf_anywhere("findings", "import", str(file), cwd=project.folder, **who)
        assert project.findings()[0].state == "uncertain"
        assert verdict(project)[0] == 1


# --- lenses, verdicts and patterns ----------------------------------------------------------------------


def test_a_full_review_has_a_record_of_its_own(project: Project) -> None:
    """One for all lenses with all their findings, and one for each lens; all have the one verdict."""
    pattern = {"name": "Names say what is tested", "location": "tests", "rationale": "r", "destination": "CLAUDE.md"}
    ship = {"verdict": "SHIP-WITH-TICKETS", "argument": "only a name", "patterns": [pattern]}
    project.run(LENSES, {"code": found(MINOR, **ship), "tests": found(item()), "product": found()}, start="all")
    (whole,) = [one for one in records(project) if one["skill"] == "full-review"]
    inner = {one["x_lens"]: one for one in records(project) if one["skill"] == "code-review"}
    assert {lens: len(one["finding_ids"]) for lens, one in inner.items()} == {"code-review": 1, "qa": 1, "pm": 0}
    assert sorted(whole["finding_ids"]) == sorted(id for one in inner.values() for id in one["finding_ids"])
    assert (whole["must_count"], whole["suggest_count"]) == (1, 1)
    assert {one["verdict"] for one in records(project)} == {"block-on-MUSTs"}
    assert whole["patterns"] == [{"id": "P1", **pattern}]
    said = {"reviewer": "code", "verdict": "SHIP-WITH-TICKETS", "argument": "only a name"}
    assert whole["reviewer_verdicts"] == inner["code-review"]["reviewer_verdicts"] == [said]
    assert {one["lens"] for one in finding_records(project)} == {"code-review", "qa"}
    project.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "fine")
    assert len(records(project)) == 4, "a decision records no pass"


def test_a_rejection_without_findings_is_a_finding(project: Project) -> None:
    """It does not ship, it does not pass, and only a ruling on its number by that reviewer takes it back."""
    project.run(ALONE, {"rev": found(verdict="BLOCK", argument="the design is wrong")})
    (outcome,) = project.outcomes("rev")
    assert outcome.status == "fail"
    (record,) = records(project)
    assert record["verdict"] == "block-on-rejection"
    assert project.verdict_file()["verdict"] == project.context("review.verdict") == "FAIL"
    (row,) = json.loads(project.awf("findings", "list", "--json").stdout)
    assert (row["state"], "the design is wrong" in row["title"]) == ("uncertain", True)
    take(project, found(), "--reviewer", "another")
    code, answer = verdict(project)
    assert (code, answer["verdict"], answer["ship"]) == (1, "FAIL", False)
    for said in (found(), found(verdict="SHIP"), ruled("fixed"), ruled("withdrawn")):
        take(project, said, "--reviewer", "rev")
        assert verdict(project)[0] == 1, "it did not take that back"
    take(project, ruled("withdrawn", reason="the design is as agreed"), "--reviewer", "rev")
    assert verdict(project)[0] == 0


def test_reviewers_who_report_one_defect_are_named_in_the_record_of_each(project: Project) -> None:
    """Each has its finding and its record; both are one line of work, in parallel stages and one after another."""
    project.run(TOGETHER, {"one": found(item()), "two": found(item())}, start="reviews")
    named = {tuple(one["sources"]): (one["agreement_count"], one["x_line"]) for one in finding_records(project)}
    (line,) = project.ledger().lines()
    assert named == {("one", "two"): (2, line.id), ("two", "one"): (2, line.id)}
    passed = records(project)[0]
    assert len(project.verdict_file()["findings"]) == len(passed["finding_ids"]) == 2
    (row,) = json.loads(project.awf("findings", "list", "--json").stdout)
    assert [one["id"] for one in row["members"]] == passed["finding_ids"]


def test_reviews_one_after_another_are_a_pass_each_of_one_round(project: Project) -> None:
    """The reviewer's name is the stage's `reviewer`; both findings are one line of work."""
    project.run(IN_A_ROW, {"code": found(item()), "tests": found(), "product": found(item())}, start="code")
    assert [(one["skill"], one["round"]) for one in records(project)] == [("code-review", 1)] * 3
    assert len({one["x_review"] for one in records(project)}) == 1
    assert sorted(one["sources"] for one in finding_records(project)) == [["code", "owner"], ["owner", "code"]]


# --- the gate of a commit -------------------------------------------------------------------------------------


def test_a_commit_ships_if_exactly_its_files_were_reviewed(project: Project) -> None:
    """What is reviewed before it is committed counts; any later change does not."""
    assert project.awf("verdict", "--at", "HEAD").returncode == 1, "nothing was reviewed"
    (project.folder / "app.py").write_text("print(1)\n")
    project.run(ALONE, {"rev": found()})
    assert verdict(project, "--at", "HEAD")[1] | {"ship": False, "pass": None} == verdict(project, "--at", "HEAD")[1]
    commit(project)
    code, answer = verdict(project, "--at", "HEAD")
    assert (code, answer["ship"], answer["verdict"], answer["unseen"]) == (0, True, "ship", [])
    assert answer["pass"] == records(project)[0]["id"]
    git(project, "add", "--force", ".wystack")
    git(project, "commit", "-qm", "the records")
    assert project.awf("verdict", "--at", "HEAD").returncode == 0, "what awf writes does not count"
    (project.folder / "app.py").write_text("print(2)\n")
    commit(project)
    assert project.awf("verdict", "--at", "HEAD").returncode == 1
    assert project.awf("verdict", "--at", "HEAD~1").returncode == 0
    assert project.awf("verdict", "--at", "nowhere").returncode == 2


def test_a_report_does_not_change_what_was_reviewed(project: Project) -> None:
    """A commit that adds only the report of a review still ships."""
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
    """The last review of its files decides."""
    take(project, found(), "--reviewer", "first")
    assert project.awf("verdict", "--at", "HEAD").returncode == 0
    take(project, answer, "--reviewer", "second", "--format", "review")
    code, said = verdict(project, "--at", "HEAD")
    assert (code, said["ship"], said["verdict"]) == (1, False, word)


# --- edits and places -----------------------------------------------------------------------------------


def test_an_agent_claims_and_disputes_by_a_status_and_closes_nothing(project: Project) -> None:
    """Without a note as with one, in either file: it is shown, and every other verdict still counts the findings."""
    other = item("The name is never checked", severity="P0", line=4, evidence=["app.py:4 -- def load(path):"])
    take(project, found(item(), other, MINOR))
    numbers = {str(id): number for number, id in enumerate(project.ledger().findings, 1)}
    positions = {numbers[one["x_finding"]]: at for at, one in enumerate(project.verdict_file()["findings"])}
    edit(project, {positions[1]: {"status": "wont_fix"}, positions[2]: {"status": "fixed"}})
    (path,) = [path for path in finding_paths(project) if json.loads(path.read_text())["title"] == MINOR["title"]]
    record = json.loads(path.read_text())
    entry = {"at": record["createdAt"], "status": "fixed", "note": "a test was added", "by": "user"}
    path.write_text(json.dumps({**record, "status": "fixed", "triage_history": [entry]}))
    code, answer = verdict(project)
    assert (code, answer["verdict"], len(answer["open"])) == (1, "FAIL", 3)
    assert [one["number"] for one in answer["claimed"]] == [2, 3]
    shown = project.verdict_file()
    said = {numbers[one["x_finding"]]: one["status"] for one in shown["findings"]}
    assert said == {1: "wont_fix", 2: "fixed", 3: "fixed"}
    assert (shown["verdict"], sum(shown["summary"].values())) == ("PASS", 0), "by the rule of the file"
    assert [one.disputed for one in project.ledger().findings.values()] == [True, False, False]
    assert all(one.state.is_open for one in project.ledger().findings.values())
    assert json.loads(path.read_text())["status"] == "uncertain", "`fixed` is what somebody has verified"
    assert project.awf("verdict", "--at", "HEAD").returncode == 1


LOOKS = (("verdict",), ("findings", "list"), ("findings", "show", "1"), ("findings", "why", "1"))


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_the_next_command_puts_back_whatever_else_was_edited(project: Project, words: tuple[str, ...]) -> None:
    """Commands that only read do as well: byte for byte, with one sentence for each file, said once."""
    take(project, found(item(), MINOR))
    take(project, found())
    latest, *paths = [project.folder / ".code-review/review-latest.json", *finding_paths(project)]
    (archived,) = latest.parent.glob("review-[0-9a-f]*.json")
    passed = project.folder / f".wystack/reviews/{records(project)[0]['id']}.json"
    views = [latest, archived, paths[0], passed]
    before = [path.read_bytes() for path in views]
    edit(project, {0: {"severity": "Info", "status": "verified"}}, verdict="PASS", summary={})
    record = json.loads(paths[0].read_text())
    paths[0].write_text(json.dumps({**record, "gate": "suggest", "severity": "low", "status": "wont-fix"}))
    passed.write_text(passed.read_text().replace("block-on-MUSTs", "ship"))
    archived.write_text(archived.read_text().replace("WARN", "PASS"))
    done = project.awf(*words)
    assert [path.read_bytes() for path in views] == before
    assert [done.stderr.count(path.name) for path in views] == [1, 1, 1, 1]
    assert [finding.state for finding in project.ledger().findings.values()] == ["open", "open"]
    assert [project.awf(*words).stderr.count(path.name) for path in views] == [0, 0, 0, 0]
    latest.unlink()
    paths[0].unlink()
    project.awf(*words)
    assert [path.read_bytes() for path in views] == before


def test_a_program_that_a_repository_names_runs_only_if_the_user_allows_it(project: Project, home: Path) -> None:
    """Otherwise one note says so, and the files are written; it gets no keys."""
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
    """The worktree stays clean."""
    elsewhere = project.folder.parent / "elsewhere"
    git(project, "worktree", "add", "-q", str(elsewhere))
    file = project.folder.parent / "review.json"
    file.write_text(found(item()))
    done = project.awf_anywhere("findings", "import", str(file), "--store", str(project.folder / ".awf"), cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert project.verdict_file()["verdict"] == "WARN"
    assert subprocess.run(["git", "status", "--short"], cwd=elsewhere, check=True, capture_output=True).stdout == b""


def test_what_was_reviewed_in_a_workspace_ships_once_it_is_merged(project: Project) -> None:
    """The files are in the main checkout, and neither block the merge nor count as a change."""
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


def test_what_was_said_in_a_file_before_a_run_is_given_to_its_reviewer(project: Project, home: Path) -> None:
    """It is nobody's in the run, and the reviewer rules on it with its reason."""
    prompts, answer, agent = (project.folder.parent / name for name in ("prompts", "answer", "agent"))
    agent.write_text(f"#!/bin/sh\ncat > {prompts}\ncat {answer}\n")
    agent.chmod(0o755)
    settings = home / ".config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'agent "command" {{ program "{agent}"; }}\n')
    (project.folder / "w.awf.kdl").write_text(
        f'workflow "W" {{\nversion 2\nstart "rev"\n{ALONE}stage "end" kind="exit"\n}}\n'
    )
    run = ("run", "w.awf.kdl", "--backend", "command", "--run-id")
    answer.write_text(found(item()))
    project.awf(*run, "one")
    edit(project, {0: {"status": "wont_fix", "note": "the caller closes it"}})
    repair(project)
    answer.write_text(found() + "\n[FINDING 1: upheld, because nobody closes it]")
    project.awf(*run, "two")
    assert "the caller closes it" in prompts.read_text()
    (finding,) = project.findings()
    assert [(one.what, one.word, one.who) for one in finding.history[1:]] == [
        ("claim", "wrong", "file"),
        ("ruling", "upheld", "rev"),
    ]


def test_what_an_agent_edits_in_a_run_is_put_back_and_noted(project: Project) -> None:
    """The record of a pass is written once: it is noted in the run, and no verdict follows it."""
    project.run(ALONE, {"rev": found(GRAVE)})
    (path,) = (project.folder / ".wystack/reviews").glob("*.json")
    before = path.read_bytes()
    forged = before.replace(b"block-on-MUSTs", b"ship")
    assert forged != before
    write = {"write": {str(path.relative_to(project.folder)): forged.decode()}, "reply": "Done."}
    work = 'stage "work" kind="llm" prompt="Work"\ntransition from="work" to="end"\n'
    (project.folder / "script.json").write_text(json.dumps({"work": write}))
    (project.folder / "work.awf.kdl").write_text(
        f'workflow "W" {{\nversion 2\nstart "work"\n{work}stage "end" kind="exit"\n}}\n'
    )
    project.awf("run", "work.awf.kdl", "--backend", "scripted", "--script", "script.json", "--run-id", "two")
    assert path.name in project.awf("context", "two", "review.notes").stdout
    assert path.read_bytes() == before
