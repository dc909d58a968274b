"""`awf review` in real repositories with scripted reviewers: what is reviewed, by whom, and how it ends."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.pages import DOCS, follow

CODE_REVIEWERS = ["correctness", "security", "tests", "maintainability"]
DIVIDES = "def f(x):\n    return x / 0\n"
FIXED = "def f(x):\n    return x / 1\n"


def item(title: str = "Division by zero", **more: Any) -> dict[str, Any]:
    """One finding as a reviewer returns it."""
    return {
        "title": title,
        "severity": "P0",
        "file": "a.py",
        "line": 2,
        "why_it_matters": "every call raises",
        "autofix_class": "gated_auto",
        "owner": "review-fixer",
        "requires_verification": True,
        "suggested_fix": "divide by one",
        "confidence": 100,
        "evidence": ["return x / 0"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any], **more: Any) -> str:
    """A whole answer of a reviewer."""
    return json.dumps(
        {"findings": list(items), "reviewed": ["all files: read"], "residual_risks": [], "testing_gaps": [], **more}
    )


def git(folder: Path, *arguments: str) -> str:
    """Run git, and return what it prints."""
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a branch that changes a file and adds one, both uncommitted."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("def f(x):\n    return x\n")
    (folder / ".gitignore").write_text(".awf/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "checkout", "-qb", "topic")
    (folder / "a.py").write_text(DIVIDES)
    (folder / "pkg").mkdir()
    (folder / "pkg/new.py").write_text("fresh = True\n")
    return folder


class Reviewing:
    """Runs `awf review` with replies for its stages."""

    def __init__(self, awf: Awf, project: Path) -> None:
        self.awf = awf
        self.project = project
        self.script = project.parent / "script.json"

    def __call__(self, *arguments: str, **replies: Any) -> tuple[int, dict[str, Any]]:
        """The exit code and the result."""
        self.script.write_text(json.dumps(replies))
        done = self.awf("review", "--script", str(self.script), "--json", *arguments, cwd=self.project)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def error(self, *arguments: str, cwd: Path | None = None) -> str:
        """What a review that does not start prints, on one line of its own."""
        done = self.awf("review", "--backend", "scripted", *arguments, cwd=cwd or self.project)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("error: ") == 1
        return done.stderr

    def prompt(self, stage: str, *arguments: str) -> str:
        """The prompt of a stage of the newest run."""
        return self.awf("prompt", "latest", stage, *arguments, cwd=self.project).stdout

    def path(self) -> list[str]:
        """The stages of the newest run, in order."""
        visits = json.loads(self.awf("why", "latest", "--json", cwd=self.project).stdout)
        return [visit["stage"] for visit in visits if "stage" in visit]

    def findings(self, *arguments: str) -> list[dict[str, Any]]:
        """What the ledger lists."""
        listed = self.awf("findings", "list", "--json", *arguments, cwd=self.project)
        rows: list[dict[str, Any]] = json.loads(listed.stdout)
        return rows


@pytest.fixture
def review(awf: Awf, project: Path) -> Reviewing:
    return Reviewing(awf, project)


def test_a_review_that_finds_nothing_passes(review: Reviewing, project: Path) -> None:
    """It exits with 0, and its verdict file, record and report say PASS."""
    code, result = review()
    assert (code, result["verdict"], result["complete"], result["open"]) == (0, "PASS", True, [])
    assert (result["base"], result["target"]) == (git(project, "rev-parse", "main"), "main..HEAD")
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (latest["verdict"], latest["mode"], latest["target"]) == ("PASS", "full", "main..HEAD")
    assert latest["reportPath"] == result["report"]
    assert latest["reviewId"] in (project / result["report"]).read_text()


def test_reviewers_are_given_the_change(review: Reviewing, project: Path) -> None:
    """The base, the files and the diff, with what is not committed."""
    review()
    prompt = review.prompt("security")
    assert f"Base commit: {git(project, 'rev-parse', 'main')[:12]} (main..HEAD)." in prompt
    assert "Uncommitted changes are included, new files too: 2 files." in prompt
    assert "+    return x / 0\n" in prompt
    assert "+fresh = True\n" in prompt


def test_a_finding_fails_the_review(review: Reviewing, awf: Awf, project: Path) -> None:
    """The screen starts with the verdict; findings of two reviewers are one line, and a second review knows it."""
    code, result = review(correctness=found(item()), security=found(item("Division by zero crashes", severity="P1")))
    assert (code, result["verdict"], result["summary"]["blocker"], result["summary"]["high"]) == (1, "FAIL", 1, 0)
    (row,) = result["open"]
    assert (row["number"], row["file"], row["line"], row["severity"]) == (1, "a.py", 2, "critical")
    assert {(one["reviewer"], one["severity"]) for one in row["members"]} == {
        ("correctness", "critical"),
        ("security", "high"),
    }
    screen = awf("review", "--script", str(review.script), cwd=project)
    assert screen.returncode == 1
    first, *others = screen.stdout.splitlines()
    assert first == "FAIL (1 critical): main..HEAD"
    (line,) = (line for line in others if "#1" in line)
    assert "a.py:2" in line
    assert line.endswith("; known]")


@pytest.mark.parametrize(
    ("severity", "fail_on", "code", "verdict"), [("P0", "abort", 0, "FAIL"), ("P1", "warn", 1, "WARN")]
)
def test_the_verdict_that_fails_the_command_is_chosen(
    review: Reviewing, severity: str, fail_on: str, code: int, verdict: str
) -> None:
    """A milder verdict passes."""
    done, result = review("--fail-on", fail_on, correctness=found(item(severity=severity)))
    assert (done, result["verdict"], result["fail_on"]) == (code, verdict, fail_on)


def test_a_finding_that_endangers_the_system_aborts(review: Reviewing) -> None:
    """The run is held for a person, and the command fails: nothing is incomplete."""
    code, result = review(correctness=found(item(system_breaking=True)))
    assert (code, result["verdict"], result["complete"]) == (1, "ABORT", True)
    assert result["status"] == "paused"


def test_a_reviewer_that_cannot_work_makes_the_review_incomplete(review: Reviewing, awf: Awf, project: Path) -> None:
    """It exits with 3 and is never a pass; resuming asks only that reviewer and ends like the review."""
    down = {"error": "auth", "message": "not logged in"}
    code, result = review("--fail-on", "warn", security=down)
    assert (code, result["complete"], result["verdict"]) == (3, False, "FAIL")
    assert [gap.partition(":")[0] for gap in result["incomplete"]] == ["security"]
    assert result["next"][0].startswith("awf resume ")
    up = project.parent / "up.json"
    up.write_text(json.dumps({"security": found(item(severity="P1"))}))
    resumed = awf("resume", "--script", str(up), "--json", cwd=project)
    last = json.loads(resumed.stdout.splitlines()[-1])
    assert (resumed.returncode, last["verdict"], last["complete"]) == (1, "WARN", True)
    assert review.path().count("correctness") == 1
    assert "## The change" in review.prompt("security")


def test_a_reviewer_that_answers_later_is_part_of_the_same_review(review: Reviewing, awf: Awf, project: Path) -> None:
    """What the others said before the pause counts: in the verdict file, the records, the report and for the commit."""
    (project / ".wystack").mkdir()
    git(project, "add", "a.py", "pkg")
    git(project, "commit", "-qm", "two")
    code, _ = review(tests={"error": "quota"}, security=found(verdict="BLOCK", argument="no threat model"))
    assert code == 3
    up = project.parent / "up.json"
    up.write_text("{}")
    assert awf("resume", "--script", str(up), "--json", cwd=project).returncode == 1
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (latest["verdict"], len(list((project / "docs/code-reviews").iterdir()))) == ("FAIL", 1)
    assert awf("verdict", "--at", "HEAD", cwd=project).returncode == 1
    shown = [json.loads(path.read_text()) for path in (project / ".wystack/reviews").iterdir()]
    assert {one["verdict"] for one in shown} == {"block-on-rejection"}


def test_the_report_names_every_reviewer_and_what_was_filtered(review: Reviewing, project: Path) -> None:
    """It is the permanent record: a reader sees who looked and what the gate kept out."""
    _, result = review(correctness=found(item("Slow in theory", severity="P2", confidence=50)))
    text = (project / result["report"]).read_text()
    looks = text.partition("\n## Reviewers\n")[2].partition("\n## ")[0]
    assert all(f"\n| {name} |" in looks for name in ("correctness", "security", "testing", "maintainability"))
    assert "Slow in theory" in text.partition("\n## Filtered or demoted\n")[2]


def test_a_review_with_every_lens_has_a_record_of_the_whole_and_one_for_each_lens(
    review: Reviewing, project: Path
) -> None:
    """Each has an id of its own, and all belong to one review."""
    (project / ".wystack").mkdir()
    review("--lens", "all", qa=found(item("No test divides", severity="P1", line=1, evidence=["def f(x):"])))
    assert {*review.path()} >= {*CODE_REVIEWERS, "qa", "product"}
    shown = [json.loads(path.read_text()) for path in (project / ".wystack/reviews").iterdir()]
    by_lens = {one.get("x_lens"): one for one in shown}
    assert {lens: one["skill"] for lens, one in by_lens.items()} == {
        None: "full-review",
        "code-review": "code-review",
        "qa": "code-review",
        "pm": "code-review",
    }
    assert len({one["id"] for one in shown}) == len(shown)
    assert len({one["x_review"] for one in shown}) == 1
    assert by_lens[None]["finding_ids"] == by_lens["qa"]["finding_ids"] != by_lens["pm"]["finding_ids"] == []


def test_a_reviewer_that_cannot_work_is_named_once(review: Reviewing) -> None:
    """It is named as its findings are, also if its stage is called otherwise."""
    code, result = review(tests={"error": "auth"})
    assert (code, [gap.partition(":")[0] for gap in result["incomplete"]]) == (3, ["testing"])


def test_outside_a_repository_nothing_is_reviewed(review: Reviewing, tmp_path: Path) -> None:
    """One error, exit code 2, and no store."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "not a git repository" in review.error(cwd=elsewhere)
    assert list(elsewhere.iterdir()) == []


def test_without_a_change_nothing_is_reviewed(review: Reviewing, project: Path) -> None:
    """The report of an earlier review is not a change."""
    git(project, "checkout", "-q", "--", ".")
    (project / "pkg/new.py").unlink()
    reports = project / "docs/code-reviews"
    reports.mkdir(parents=True)
    (reports / "2026-01-31-changeset-0a1b2c3d.md").write_text("x")
    assert "nothing to review" in review.error()
    assert not (project / ".awf/runs").exists()


def test_a_repository_without_a_commit_has_nothing_to_compare_with(review: Reviewing, tmp_path: Path) -> None:
    """One error, exit code 2."""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    assert "no commit" in review.error(cwd=fresh)


def test_an_unknown_ref_is_refused(review: Reviewing) -> None:
    """Also one that looks like an option of git."""
    assert '"nope"' in review.error("--base", "nope")
    assert '"--output=x"' in review.error("--base=--output=x")


def test_a_given_base_is_compared_where_the_branch_left_it(review: Reviewing, project: Path) -> None:
    """What the base gained since is not part of the change."""
    git(project, "stash", "-q", "-u")
    git(project, "checkout", "-q", "main")
    (project / "other.txt").write_text("later\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    git(project, "checkout", "-q", "topic")
    git(project, "stash", "pop", "-q")
    _, result = review("--base", "main")
    assert result["base"] == git(project, "rev-parse", "main~1")
    assert "other.txt" not in review.prompt("correctness")


def test_a_scope_limits_the_change(review: Reviewing, project: Path) -> None:
    """Paths are relative to the current directory, and outside the repository there are none."""
    review("--scope", "pkg")
    prompt = review.prompt("correctness")
    assert "Only this part of it is to be reviewed: pkg." in prompt
    assert "+fresh = True" in prompt
    assert "a.py" not in prompt
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert latest["scope"] == "package"
    assert "nothing to review" in review.error("--scope", "docs")
    assert "outside the repository" in review.error("--scope", "..")


def test_a_review_of_a_scope_says_nothing_about_the_rest(review: Reviewing) -> None:
    """What is open outside is counted, and given to nobody; what is fixed inside closes nothing outside."""
    inside = item("Fresh is never read", file="pkg/new.py", line=1, evidence=["fresh = True"])
    review(correctness=found(item(), inside))
    code, result = review("--scope", "pkg")
    assert ([row["number"] for row in result["open"]], result["elsewhere"]) == ([2], 1)
    assert (code, result["unruled"] != [], result["verdict"]) == (1, True, "FAIL")
    assert "Division by zero" not in review.prompt("correctness")
    fix = {"write": {"pkg/new.py": "fresh = False\n"}, "reply": "[FINDING 2: fixed]"}
    answers = [f"[FINDING 2: not fixed]\n\n{found()}", f"[FINDING 2: fixed]\n\n{found()}"]
    code, result = review("--scope", "pkg", "--apply", "all", correctness=answers, fix=fix)
    assert (code, result["open"], result["elsewhere"]) == (0, [], 1)
    states = {row["file"]: row["state"] for row in review.findings("--state", "all")}
    assert states == {"a.py": "open", "pkg/new.py": "verified_fixed"}


def test_a_review_of_a_scope_ships_no_commit(review: Reviewing, project: Path) -> None:
    """It passes, and `awf verdict --at` still waits for a review of the whole change."""
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    at_head = ("verdict", "--at", "HEAD", "--json")
    assert review("--scope", "pkg")[0] == 0
    done = review.awf(*at_head, cwd=project)
    assert (done.returncode, json.loads(done.stdout)["ship"]) == (1, False)
    assert review()[0] == 0
    assert review.awf(*at_head, cwd=project).returncode == 0


def test_a_second_review_rules_on_what_the_first_one_found(review: Reviewing, project: Path) -> None:
    """Its reviewer gets it by number; while that one does not rule on it, it fails the review, which says so."""
    review(correctness=found(item()))
    code, result = review()
    assert "- #1 (must, critical, open" in review.prompt("correctness")
    assert "- #1 (" in review.prompt("security")  # for it to know
    assert (code, result["verdict"], [row["number"] for row in result["open"]]) == (1, "FAIL", [1])
    assert [text.partition(" ")[0] for text in result["unruled"]] == ["correctness"]
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (latest["verdict"], len(latest["findings"])) == ("FAIL", 1)

    fixed = f"[FINDING 1: fixed]\n\n{found()}"
    assert review(correctness=fixed)[1]["verdict"] == "FAIL"  # no file has changed
    (project / "a.py").write_text(FIXED)
    assert review(security=fixed)[1]["verdict"] == "FAIL"  # it did not report it
    code, result = review(correctness=fixed)
    assert (code, result["verdict"], result["open"]) == (0, "PASS", [])
    assert [row["state"] for row in review.findings("--state", "all")] == ["verified_fixed"]


def test_what_an_earlier_review_found_is_fixed_like_the_rest(review: Reviewing, project: Path) -> None:
    """A known finding that nobody rules on goes to the fix stage, with `--apply all` without asking."""
    review(correctness=found(item()))
    fix = {"write": {"a.py": FIXED}, "reply": "[FINDING 1: fixed]"}
    code, result = review("--apply", "all", correctness=[found(), f"[FINDING 1: fixed]\n\n{found()}"], fix=fix)
    assert (code, result["verdict"]) == (0, "PASS")
    assert "Division by zero" in review.prompt("fix")
    assert "triage" not in review.path()
    assert (project / "a.py").read_text() == FIXED


def test_a_review_says_what_else_is_open(review: Reviewing, awf: Awf, project: Path) -> None:
    """Findings in files that the change does not touch are counted, and do not fail it."""
    elsewhere = project.parent / "elsewhere.json"
    elsewhere.write_text(found(item(file=".gitignore", line=1, evidence=[".awf/"]), reviewer="audit"))
    assert awf("findings", "import", str(elsewhere), cwd=project).returncode == 0
    code, result = review()
    assert (code, result["verdict"], result["open"], result["elsewhere"]) == (0, "PASS", [], 1)
    screen = awf("review", "--script", str(review.script), cwd=project).stdout
    assert "Elsewhere: 1 open line of work: awf findings list" in screen.splitlines()


def test_a_review_that_was_interrupted_is_one_review(review: Reviewing, awf: Awf, project: Path) -> None:
    """One reviewer rejects the change, another has no quota at first: after the resume the rejection still counts."""
    agent, quota = project.parent / "agent", project.parent / "quota"
    blocks = found(verdict="BLOCK", argument="It must not ship.")
    agent.write_text(
        "#!/bin/sh\ncat >/dev/null\ncase $AWF_STAGE in\n"
        f"  correctness) echo '{blocks}' ;;\n"
        f"  security) test -e {quota} || {{ echo 'Usage limit reached.' >&2; exit 1; }}; echo '{found()}' ;;\n"
        f"  *) echo '{found()}' ;;\nesac\n"
    )
    agent.chmod(0o755)
    assert awf("review", "--backend", "command", "--agent-command", str(agent), cwd=project).returncode == 3
    quota.touch()
    assert awf("resume", "--now", cwd=project).returncode == 1
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert latest["verdict"] == "FAIL"
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    assert review.awf("verdict", "--at", "HEAD", cwd=project).returncode == 1
    rounds = json.loads(awf("why", "latest", "--json", cwd=project).stdout)
    assert [part["number"] for part in rounds if "resolved" in part] in ([], [1])


def test_only_some_reviewers_run(review: Reviewing) -> None:
    """By the name of the stage or the reviewer; a resumed run has no others, and a typo is refused."""
    review("--only", "correctness", "--only", "testing")
    assert [stage for stage in review.path() if stage in CODE_REVIEWERS] == ["correctness", "tests"]
    _, result = review("--only", "qa")
    assert "qa" in review.path()
    recorded = review.awf("show", result["run_id"], cwd=review.project).stdout
    assert "qa" in recorded
    assert "correctness" not in recorded
    assert '"security"' in review.error("--only", "securty")


@pytest.mark.parametrize(
    ("lens", "reviewers"),
    [("code-review", CODE_REVIEWERS), ("pm", ["product"])],
)
def test_a_lens_selects_reviewers(review: Reviewing, lens: str, reviewers: list[str]) -> None:
    """By default only the code is reviewed; the lens `all` has every reviewer."""
    review("--lens", lens)
    path = review.path()
    assert [stage for stage in path if stage not in ("reviews", "gate", "exit")] == reviewers


def test_tools_of_the_settings_run_beside_the_reviewers(review: Reviewing, home: Path) -> None:
    """Their findings count, and the recorded workflow contains them, so that it can be resumed."""
    config = home / ".config/awf/config.kdl"
    config.parent.mkdir(parents=True)
    report = json.dumps({"findings": [item("Unsafe division", severity="P1")], "reviewer": "lint"})
    config.write_text(
        f'review {{\n  tool "lint" command={json.dumps(f"echo {json.dumps(report)}")} findings="review"\n}}\n'
    )
    code, result = review("--fail-on", "warn")
    assert (code, [row["title"] for row in result["open"]]) == (1, ["Unsafe division"])
    assert "lint" in review.path()
    review("--only", "lint")
    assert [stage for stage in review.path() if stage not in ("reviews", "gate", "exit")] == ["lint"]


def test_a_tool_that_fails_in_words_fails_the_review(review: Reviewing, home: Path) -> None:
    """Without a format its findings cannot be read, and it is never taken for a pass."""
    config = home / ".config/awf/config.kdl"
    config.parent.mkdir(parents=True)
    config.write_text('review { tool "lint" command="echo bad; exit 1"; }\n')
    code, result = review("--fail-on", "warn")
    assert code == 1
    assert result["verdict"] in ("WARN", "FAIL")


def test_the_report_says_what_is_open_after_a_triage_as_well(review: Reviewing, project: Path) -> None:
    """It is one document for each review, and written again whenever the ledger says something else."""
    _, result = review(correctness=found(item()))
    report = project / result["report"]
    assert "FAIL" in report.read_text()
    review.awf("findings", "triage", "1", "--as", "wont-fix", "--note", "it is meant to raise", cwd=project)
    assert ("FAIL" in report.read_text(), "it is meant to raise" in report.read_text()) == (False, True)


def test_a_report_that_cannot_be_written_is_said(review: Reviewing, project: Path) -> None:
    """The review is recorded, and ends with its own exit code."""
    (project / "docs").write_text("a file")
    review.script.write_text("{}")
    done = review.awf("review", "--script", str(review.script), cwd=project)
    assert done.returncode == 0
    assert done.stdout.startswith("PASS")
    assert "docs/code-reviews" in done.stderr


def test_tools_of_a_project_that_is_not_trusted_do_not_run(review: Reviewing, project: Path) -> None:
    """Its settings name a program, and the note says how to allow it."""
    (project / ".awf").mkdir()
    (project / ".awf/config.kdl").write_text('review { tool "lint" command="touch ran"; }\n')
    review.script.write_text("{}")
    done = review.awf("review", "--script", str(review.script), cwd=project)
    assert done.returncode == 0
    assert "review.tool.lint.command ignored" in done.stderr
    assert not (project / "ran").exists()


def test_a_quick_review_asks_for_the_worst_only(review: Reviewing, project: Path) -> None:
    """It writes a verdict file and neither a report nor an archive."""
    _, result = review("--mode", "quick")
    assert result["report"] == ""
    assert "report only P0 and P1" in review.prompt("correctness")
    assert not (project / "docs").exists()
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (latest["mode"], latest["reportPath"]) == ("quick", "")
    review("--mode", "quick")
    assert [path.name for path in (project / ".code-review").glob("review-*.json")] == ["review-latest.json"]


def claim_fixed(project: Path) -> None:
    """Claim every finding to be fixed, as an agent does in the verdict file."""
    file = project / ".code-review/review-latest.json"
    document = json.loads(file.read_text())
    for finding in document["findings"]:
        finding["status"] = "fixed"
    file.write_text(json.dumps(document, indent=2))


def test_a_verification_without_a_claim_is_refused(review: Reviewing) -> None:
    """Neither before any review nor with open findings only is there something to verify."""
    assert "no fix to verify" in review.error("--mode", "verify")
    review(correctness=found(item()))
    assert "no fix to verify" in review.error("--mode", "verify")


@pytest.mark.parametrize(
    ("ruling", "state", "code"),
    [("fixed", "verified_fixed", 0), ("not fixed, because it still divides", "reopened", 1)],
)
def test_a_verification_rules_on_claims_by_number(
    review: Reviewing, project: Path, ruling: str, state: str, code: int
) -> None:
    """Only the reviewer that raised a finding is asked, and the verdict file is changed in place."""
    review(correctness=found(item()))
    id = json.loads((project / ".code-review/review-latest.json").read_text())["reviewId"]
    claim_fixed(project)
    (project / "a.py").write_text(FIXED)
    done, result = review("--mode", "verify", correctness=f"[FINDING 1: {ruling}]\n\n{found()}")
    assert (done, result["complete"]) == (code, True)
    prompt = review.prompt("correctness")
    assert "Division by zero" in prompt.partition("## Known findings")[2]
    assert "## The change" not in prompt
    assert [stage for stage in review.path() if stage in CODE_REVIEWERS] == ["correctness"]
    assert [row["state"] for row in review.findings("--state", "all")] == [state]
    latest = json.loads((project / ".code-review/review-latest.json").read_text())
    assert (latest["reviewId"], latest["mode"]) == (id, "verify")


@pytest.mark.parametrize("said", ["", "[FINDING 1: fixed]"])
def test_a_claim_without_a_ruling_stays_one(review: Reviewing, project: Path, said: str) -> None:
    """A reviewer that says nothing about it, or calls it fixed although no file has changed, has not verified it."""
    review(correctness=found(item()))
    claim_fixed(project)
    code, result = review("--mode", "verify", correctness=f"{said}\n\n{found()}")
    assert (code, result["verdict"], [row["state"] for row in result["claimed"]]) == (1, "FAIL", ["fix_claimed"])
    assert [text.partition(" ")[0] for text in result["unruled"]] == ["correctness"]


def test_fixes_are_chosen_by_a_person(review: Reviewing, awf: Awf, project: Path) -> None:
    """Without one the run waits; the answer leads to the fix and to another look, which gets the delta only.

    The screen at the end names what is in the working tree.
    """
    (project / "pkg/new.py").write_text("fresh = True\n" * 9)
    fix = {"write": {"a.py": FIXED}, "reply": "[FINDING 1: fixed]"}
    code, result = review("--fix", correctness=[found(item()), f"[FINDING 1: fixed]\n\n{found()}"], fix=fix)
    assert (code, result["status"], "changed" in result) == (3, "waiting", False)
    answers = project.parent / "answers.json"
    answers.write_text(json.dumps({"triage": ["apply"]}))
    resumed = awf("resume", "--answers", str(answers), cwd=project)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert resumed.stdout.startswith("PASS")
    assert "Applied (1)" in resumed.stdout, "the completion report, after the fix"
    assert (project / "a.py").read_text() == FIXED
    assert resumed.stdout.count("working tree") == resumed.stdout.count(": a.py (not committed)") == 1
    second = review.prompt("correctness")
    assert "## What changed since your last look" in second
    assert "## The change" not in second


def test_what_must_be_fixed_is_fixed_without_asking(review: Reviewing) -> None:
    """Suggestions stay, and nobody is asked."""
    minor = item("Naming", severity="P3", line=1, evidence=["def f(x):"], suggested_fix="call it g")
    fix = {"write": {"a.py": FIXED}, "reply": "[FINDING 2: fixed]"}
    ruled = f"[FINDING 1: not fixed]\n[FINDING 2: fixed]\n\n{found()}"
    code, result = review("--apply", "must", correctness=[found(item(), minor), ruled], fix=fix)
    assert (code, result["verdict"], [row["title"] for row in result["open"]]) == (0, "PASS", ["Naming"])
    assert review.path().count("fix") == 1
    assert "Naming" not in review.prompt("fix").partition("Not to be changed")[0]


def test_a_projects_own_workflow_is_used(review: Reviewing, project: Path) -> None:
    """Its reviewers replace the shipped ones; without a parallel stage `reviews` it cannot be used."""
    own = project / "workflows/review.awf.kdl"
    own.parent.mkdir()
    source = """workflow "Mine" {
  version 2
  start "reviews"
  stage "reviews" kind="parallel" { branch "style"; branch "speed" }
  stage "style" kind="llm" findings="review" prompt="Review the style"
  stage "speed" kind="llm" findings="review" prompt="Review the speed"
  stage "exit" kind="exit"
  transition from="reviews" to="exit" on="always"
}
"""
    own.write_text(source)
    code, _ = review(style=found(item(severity="P1")))
    assert code == 0
    assert review.path() == ["style", "speed", "reviews", "exit"]
    own.write_text(source.replace('"reviews"', '"all"'))
    assert '"reviews"' in review.error()


def test_a_run_of_any_workflow_gives_its_reviews_the_change(awf: Awf, project: Path) -> None:
    """The base is the commit at which the run started."""
    (project / "flow.awf.kdl").write_text("""workflow "W" {
  version 2
  start "rev"
  stage "rev" kind="llm" auto_status=true prompt="Review it"
  stage "exit" kind="exit"
  transition from="rev" to="exit"
}
""")
    assert awf("run", "flow.awf.kdl", "--backend", "scripted", cwd=project).returncode == 0
    prompt = awf("prompt", "latest", "rev", cwd=project).stdout
    assert f"Base commit: {git(project, 'rev-parse', 'HEAD')[:12]}." in prompt
    assert "+    return x / 0" in prompt


def test_a_reviewer_is_told_what_the_change_is_for_and_by_which_rules(review: Reviewing, project: Path) -> None:
    """Commit messages, and of each kind the rules nearest to a changed file; a second look is not told again."""
    rules = {
        "AGENTS.md": "Root rules.",
        "api/AGENTS.md": "Rules of the API.",
        "CLAUDE.md": "Use tabs.",
        "x/AGENTS.md": "X.",
    }
    for name, text in {**rules, "api/new.py": "y = 2\n"}.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "add y\n\nIt is two because of the protocol.")
    review()
    prompt = review.prompt("correctness")
    assert "It is two because of the protocol." in prompt
    assert [text in prompt for text in ("Rules of the API.", "Use tabs.", "CLAUDE.md (part of this change)")] == [
        True
    ] * 3
    (project / "api/new.py").write_text("y = 3\n")
    review()
    assert not any(text in review.prompt("correctness") for text in ("because of the protocol", "Use tabs."))


def test_a_long_diff_is_in_a_file_that_the_prompt_names(review: Reviewing, project: Path) -> None:
    """It is in the reviewers' checkout, which a paused review keeps: a reviewer can read all of it without git."""
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(5_000)))
    assert review(security="I have not looked.")[0] == 3
    prompt = review.prompt("correctness")
    (file,) = project.glob(".awf/checkouts/*/.awf/*.diff")
    assert os.fspath(file) in prompt
    assert "+line 4999\n" in file.read_text()
    assert "+    return x / 0" in prompt


def test_the_page_shows_what_happens(tmp_path: Path, home: Path) -> None:
    """Its commands print what is shown."""
    here = tmp_path / "here"
    here.mkdir()
    git(here, "init", "-q", "-b", "main")
    git(here, "commit", "-qm", "start", "--allow-empty")
    follow((DOCS / "review.md").read_text(), here, home)
