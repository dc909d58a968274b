"""What the formats promise, each through the command that produces it. docs/conformance.md lists them."""

import json
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.pages import DOCS, named_tests, table_rows
from tests.integration.test_structured import LOOP, Project, found, item

PAGE = DOCS / "conformance.md"
LEAK = item()
PRINT = item("Nothing tests the output", severity="P2", line=9, evidence=["app.py:9 -- print(load(os.devnull))"])
GRAVE = item("The path is never checked", severity="P0", line=4, evidence=["app.py:4 -- def load(path):"])
PASS_KEYS = (
    *("schemaVersion", "id", "type", "task", "skill", "branch", "base", "diff_sha", "started_at", "verdict"),
    *("must_count", "suggest_count", "caller", "round", "finding_ids", "patterns", "reviewer_verdicts"),
)
FINDING_KEYS = (
    *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "task", "scope", "title"),
    *("category", "gate", "severity", "confidence", "evidence", "reasoning", "reproduction", "recommendation"),
    *("min_fix_scope", "suggested_regression_tests", "status", "triage_history", "signature", "sources", "lens"),
    *("agreement_count", "createdAt", "updatedAt"),
)
LABELS = {
    "Bug": "bug",
    "Security": "security",
    "Performance": "performance",
    "Concurrency": "concurrency",
    "Design / API": "api-contract",
    "Data loss": "data-loss",
    "Coverage": "test-gap",
    "Doc": "docs-gap",
    "Build / release": "build-release",
    "Maintainability / Style": "maintainability",
    "Product": "product",
    "Requirement": "requirement",
}


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project that keeps records."""
    project = Project(awf, tmp_path / "project")
    (project.folder / ".wystack").mkdir()
    return project


def take(project: Project, *items: dict[str, Any], options: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Import a review as one pass."""
    return take_text(project, found(*items, **more), *options)


def take_text(project: Project, text: str, *options: str) -> dict[str, Any]:
    file = project.folder.parent / "review.json"
    file.write_text(text)
    done = project.awf("findings", "import", str(file), "--json", *options)
    assert done.stdout, done.stderr
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


def passes(project: Project) -> list[dict[str, Any]]:
    """The records of passes, oldest first."""
    return [json.loads(path.read_text()) for path in sorted((project.folder / ".wystack/reviews").glob("*.json"))]


def records(project: Project) -> dict[str, dict[str, Any]]:
    """The records of findings, by title."""
    read = (json.loads(path.read_text()) for path in (project.folder / ".wystack/findings").glob("*.json"))
    return {record["title"]: record for record in read}


def triage(project: Project, number: int, state: str) -> None:
    done = project.awf("findings", "triage", str(number), "--as", state, "--note", "a person looked", "--yes")
    assert done.returncode == 0, done.stderr


def git(project: Project, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
    return subprocess.run(named, cwd=project.folder, check=True, capture_output=True, text=True).stdout.strip()


# --- run record and finding records ----------------------------------------------------------------------------------


def test_a_pass_has_one_record_with_its_keys_in_order(project: Project) -> None:
    """Its id is its file's name, made of the second and the commit; its counts are those of its findings' gates."""
    take(project, LEAK, PRINT, options=("--task", "7", "--base", "HEAD"))
    (path,) = (project.folder / ".wystack/reviews").iterdir()
    record = json.loads(path.read_text())
    head = git(project, "rev-parse", "HEAD")
    assert tuple(key for key in record if not key.startswith("x_")) == PASS_KEYS
    stamp = re.fullmatch(r"REV-(\d{10})-([0-9a-f]{7,})", path.stem)
    assert stamp is not None
    assert (record["id"], head.startswith(stamp[2])) == (path.stem, True)
    assert (record["schemaVersion"], record["type"], record["task"]) == (1, "review", "TASK-7")
    assert (record["skill"], record["branch"], record["base"], record["diff_sha"]) == (
        "code-review", "main", head, head
    )  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["started_at"])
    gates = [one["gate"] for one in records(project).values()]
    assert (record["must_count"], record["suggest_count"]) == (gates.count("must"), gates.count("suggest")) == (1, 1)
    assert set(record["finding_ids"]) == {one["findingId"] for one in records(project).values()}


def test_a_clean_pass_links_no_finding_and_ships(project: Project) -> None:
    """Two passes of one commit, within a second or not, are two records, and the first is not touched."""
    take(project)
    (first,) = (project.folder / ".wystack/reviews").iterdir()
    before = first.read_bytes()
    take(project)
    assert [(one["finding_ids"], one["must_count"], one["verdict"]) for one in passes(project)] == [([], 0, "ship")] * 2
    assert (first.read_bytes(), len({one["id"] for one in passes(project)})) == (before, 2)


def test_without_a_workspace_nothing_is_written_and_one_line_says_so(awf: Awf, tmp_path: Path) -> None:
    """The line is in the footer of the report, once, however many findings there are."""
    project = Project(awf, tmp_path / "project")
    (tmp_path / "review.json").write_text(found(LEAK, PRINT))
    done = project.awf("findings", "import", str(tmp_path / "review.json"))
    assert done.stdout.count("No workspace record store") == 1
    assert not (project.folder / ".wystack").exists()


def test_a_finding_record_has_its_keys_in_order(project: Project) -> None:
    """It holds all that is needed to fix, defer or revalidate the finding."""
    more = {"symbol": "load", "reproduction": "load(p)", "min_fix_scope": "load", "regression_tests": ["it closes"]}
    take(project, {**LEAK, **more, "category": "performance"}, options=("--task", "7", "--lens", "qa"))
    (record,) = records(project).values()
    assert tuple(key for key in record if not key.startswith("x_")) == FINDING_KEYS
    assert (record["kind"], record["role"], record["authority"], record["type"]) == (
        "entity", "claim", "computed", "review.finding"
    )  # fmt: skip
    assert record["signature"].startswith("sha256:")
    assert record["findingId"] == f"fnd_{record['signature'].removeprefix('sha256:')[:8]}"
    assert (record["reviewId"], record["task"], record["lens"]) == (passes(project)[0]["id"], "TASK-7", "qa")
    assert (record["category"], record["gate"], record["severity"], record["confidence"]) == (
        "performance", "must", "high", "high"
    )  # fmt: skip
    assert (record["status"], record["triage_history"], record["sources"]) == ("open", [], ["rev"])
    (evidence,) = record["evidence"]
    assert (evidence["path"], evidence["startLine"], evidence["endLine"]) == ("app.py", 5, 5)
    assert evidence["quote"] == "handle = open(path)"
    assert (record["reproduction"], record["suggested_regression_tests"]) == ("load(p)", ["it closes"])
    assert (record["reasoning"], record["recommendation"]) == ("descriptors run out under load", "use a with block")


def test_every_label_of_a_report_is_a_category(project: Project) -> None:
    """The labels that people read and the slugs of the record name the same twelve categories."""
    items = [item(f"Defect of kind {slug}", category=label, line=5) for label, slug in LABELS.items()]
    take(project, *items)
    assert {one["title"]: one["category"] for one in records(project).values()} == {
        f"Defect of kind {slug}": slug for slug in LABELS.values()
    }


def test_severity_and_confidence_have_the_words_of_the_record(project: Project) -> None:
    """The reviewer's own severity, and how well the evidence supports it."""
    given = (("P0", 50), ("P1", 100), ("P2", 75))
    cases = [item(f"Case {severity}", severity=severity, confidence=sure) for severity, sure in given]
    take(project, *cases, item("Case P3", severity="P3", confidence=25, pre_existing=True))
    told = {title: (one["severity"], one["confidence"]) for title, one in records(project).items()}
    assert told == {
        "Case P0": ("critical", "medium"),
        "Case P1": ("high", "high"),
        "Case P2": ("medium", "high"),
        "Case P3": ("low", "low"),
    }


def test_a_reason_is_not_the_title_again_and_a_quotation_is_short(project: Project) -> None:
    """What restates the title is left out; a quotation has at most 240 characters."""
    long = "x" * 500
    (project.folder / "app.py").write_text(f"{long}\n" * 9)
    take(project, {**LEAK, "why_it_matters": LEAK["title"] + ".", "evidence": [f"app.py:5 -- {long}"]})
    (record,) = records(project).values()
    assert record["reasoning"].strip(". ") != record["title"]
    assert [len(one["quote"]) for one in record["evidence"]] == [240]


def test_a_claim_about_code_without_an_anchor_is_uncertain(project: Project) -> None:
    """One about a requirement names its work item instead of a file."""
    nowhere = item("Errors are swallowed", file="", line=None, evidence=["somewhere"])
    wanted = item(
        "The export is missing", category="requirement", file="TASK-7", line=1, evidence=["AC 2: users export"]
    )
    take(project, nowhere, wanted, options=("--task", "7"))
    told = records(project)
    assert told["Errors are swallowed"]["status"] == "uncertain"
    assert (told["The export is missing"]["status"], told["The export is missing"]["evidence"][0]["path"]) == (
        "open", "TASK-7"
    )  # fmt: skip


def test_every_state_has_its_word_and_history_only_grows(project: Project) -> None:
    """Each decision adds an entry with time, status, note and author; older entries stay as they were."""
    take(project, LEAK)
    seen: list[list[dict[str, Any]]] = [[]]
    for state, word in (("false-positive", "false-positive"), ("open", "open"), ("wont-fix", "wont-fix")):
        triage(project, 1, state)
        (record,) = records(project).values()
        assert (record["status"], tuple(record["triage_history"][-1])) == (word, ("at", "status", "note", "by"))
        assert record["triage_history"][-1]["by"] == "user"
        assert record["triage_history"][: len(seen[-1])] == seen[-1]
        seen.append(record["triage_history"])
    assert [len(history) for history in seen] == [0, 1, 2, 3]


def test_a_finding_reported_again_keeps_its_file(project: Project) -> None:
    """The last pass that reported it is named; fixed and reported again it is open, and its history says so."""
    take(project, LEAK)
    (first,) = records(project).values()
    take(project, LEAK)
    (second,) = records(project).values()
    assert (second["findingId"], second["createdAt"]) == (first["findingId"], first["createdAt"])
    assert second["reviewId"] == passes(project)[-1]["id"]
    triage(project, 1, "fixed")
    assert [one["status"] for one in records(project).values()] == ["fixed"]
    assert take(project, LEAK)["reopened"] == [first["findingId"]]
    (third,) = records(project).values()
    assert (third["status"], [entry["status"] for entry in third["triage_history"]][-2:]) == ("open", ["fixed", "open"])


def test_patterns_and_reviewers_verdicts_are_on_the_pass_record_only(project: Project) -> None:
    """They are neither findings nor counted."""
    pattern = {"name": "Tests name rules", "location": "a_test.py", "rationale": "found fast", "destination": "docs"}
    take(project, PRINT, patterns=[pattern], verdict="SHIP-WITH-TICKETS", argument="one suggestion")
    (record,) = passes(project)
    assert record["patterns"] == [{"id": "P1", **pattern}]
    assert record["reviewer_verdicts"] == [
        {"reviewer": "rev", "verdict": "SHIP-WITH-TICKETS", "argument": "one suggestion"}
    ]
    assert (len(record["finding_ids"]), list(records(project))) == (1, [PRINT["title"]])


def test_a_wrong_line_is_corrected_by_its_quotation(project: Project) -> None:
    """A quotation that is nowhere in the file is noted, and neither filters the finding nor lowers its confidence."""
    elsewhere = item("Nothing is returned", line=2, evidence=["app.py:2 -- return nothing.at_all()"])
    take(project, {**LEAK, "line": 8, "evidence": ["app.py:8 -- handle = open(path)"]}, elsewhere)
    rows = {row["title"]: row for row in json.loads(project.awf("findings", "list", "--json").stdout)}
    assert (rows[LEAK["title"]]["line"], rows["Nothing is returned"]["confidence"]) == (5, 100)
    assert "quot" in project.awf("findings", "why", "rev#2").stdout


def test_every_one_of_many_findings_has_a_file(project: Project) -> None:
    """However few of them a report shows."""
    (project.folder / "app.py").write_text("".join(f"value_{n} = compute({n})\n" for n in range(120)))
    names = [f"Number{n} overflows register{n}" for n in range(120)]
    items = [
        item(name, line=n + 1, evidence=[f"app.py:{n + 1} -- value_{n} = compute({n})"]) for n, name in enumerate(names)
    ]
    take(project, *items)
    assert set(records(project)) == set(names)
    assert len(passes(project)[0]["finding_ids"]) == 120


def test_a_revalidation_asks_who_reported_a_finding_and_changes_no_pass(project: Project) -> None:
    """Nothing starts it: open findings are asked about on request. Its ruling is in the history, and `fixed` then."""
    git(project, "checkout", "-qb", "topic")
    app, stages = project.folder / "app.py", ("correctness", "security", "tests", "maintainability")
    app.write_text(app.read_text().replace("return handle.read()", "return handle.read(9)"))
    clean = found(reviewed=["app.py: read"])
    assert review(project, dict.fromkeys(stages, clean) | {"correctness": found(LEAK)})["verdict"] == "WARN"
    kept = {path: path.read_bytes() for path in (project.folder / ".wystack/reviews").iterdir()}
    app.write_text(app.read_text().replace("handle = open(path)", "handle = opened(path)"))
    assert project.awf("review", "--mode", "verify", "--backend", "scripted").returncode == 2
    done = review(project, {"correctness": f"{clean}\n\n[FINDING 1: fixed]"}, "--mode", "verify", "--open")
    assert (done["complete"], done["open"]) == (True, [])
    (record,) = records(project).values()
    assert (record["status"], record["triage_history"][-1]["by"]) == ("fixed", "revalidate")
    assert {path: path.read_bytes() for path in kept} == kept
    assert [one["x_mode"] for one in passes(project)] == ["full", "verify"]
    asked = json.loads(project.awf("why", "latest", "--json").stdout)
    assert [visit["stage"] for visit in asked if visit.get("stage") in stages] == ["correctness"]


def review(project: Project, replies: dict[str, str], *options: str) -> dict[str, Any]:
    """What a review with these answers says."""
    script = project.folder.parent / "script.json"
    script.write_text(json.dumps(replies))
    done = project.awf("review", "--script", str(script), "--json", *options)
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


# --- verdict file ----------------------------------------------------------------------------------------------------


def latest(project: Project) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((project.folder / ".code-review/review-latest.json").read_text())
    return read


def test_a_verdict_file_has_its_keys_and_git_ignores_it(project: Project) -> None:
    """Scope, target and mode are those of the command; the counts are those of the open findings."""
    long = item("t" * 130, severity="P3", confidence=75, line=1, evidence=["app.py:1 -- import os"])
    take(project, LEAK, long, options=("--scope", "package", "--target", "packages/api"))
    told = latest(project)
    assert tuple(told) == (
        *("reviewId", "timestamp", "scope", "target", "mode", "verdict", "summary", "reportPath", "findings"),
    )
    assert re.fullmatch(r"[0-9a-f]{8}", told["reviewId"])
    assert (told["scope"], told["target"], told["mode"], told["verdict"], told["reportPath"]) == (
        "package", "packages/api", "full", "WARN", ""
    )  # fmt: skip
    assert told["summary"] == {"blocker": 0, "high": 1, "medium": 0, "low": 1, "info": 0}
    for one in told["findings"]:
        assert tuple(key for key in one if not key.startswith("x_")) == (
            *("id", "domain", "severity", "confidence", "file", "lineRange", "title", "recommendation", "status"),
        )
        assert (len(one["title"]) <= 120, 0.5 <= one["confidence"] <= 1, one["status"]) == (True, True, "open")
    assert ".code-review" not in git(project, "status", "--porcelain", "--untracked-files=all")
    assert git(project, "check-ignore", ".code-review/review-latest.json")


def test_an_id_in_a_verdict_file_is_made_of_domain_file_and_lines(project: Project) -> None:
    """It is deterministic; without a line it ends in 0, and equal ends are one line."""
    (project.folder / "src/api").mkdir(parents=True)
    (project.folder / "src/api/routes.ts").write_text("".join(f"line {n}\n" for n in range(1, 61)))
    place = {"file": "src/api/routes.ts", "evidence": []}
    take(
        project,
        item("Routes clash", line=45, end_line=50, **place),
        item("Handlers leak", line=10, end_line=10, **place),
        item("Everything is public", line=None, **place),
        reviewer="api-patterns",
    )
    assert {record["scope"] for record in records(project).values()} == {"src/api"}
    digest = sha256(b"src/api/routes.ts").hexdigest()[:8]
    assert {one["id"] for one in latest(project)["findings"]} == {
        "api-patterns-69bbc8bb-45-50", f"api-patterns-{digest}-10", f"api-patterns-{digest}-0"
    }  # fmt: skip


def test_two_findings_with_one_id_are_one_entry(project: Project) -> None:
    """The graver one is listed and names the other."""
    other = item("Encoding is guessed", severity="P2")
    take(project, LEAK, other)
    (one,) = latest(project)["findings"]
    assert (one["title"], len(one["x_shadowed"])) == (LEAK["title"], 1)
    assert len(records(project)) == 2


def test_findings_in_a_verdict_file_are_sorted(project: Project) -> None:
    """By severity, then by confidence."""
    less_sure = item("Reads are not buffered", line=6, confidence=75, evidence=["app.py:6 -- return handle.read()"])
    take(project, PRINT, less_sure, LEAK, GRAVE)
    assert [one["severity"] for one in latest(project)["findings"]] == ["Blocker", "High", "High", "Medium"]
    assert [one["confidence"] for one in latest(project)["findings"]][1:3] == [1.0, 0.75]


def test_a_full_review_archives_the_last_one_and_starts_open(project: Project) -> None:
    """What was dismissed is not listed again; an archive is never overwritten."""
    take(project, LEAK, PRINT)
    first = latest(project)
    triage(project, 2, "false-positive")
    kept = (project.folder / ".code-review/review-latest.json").read_bytes()
    take(project, LEAK, PRINT)
    archive = project.folder / f".code-review/review-{first['reviewId']}.json"
    assert archive.read_bytes() == kept
    assert [(one["title"], one["status"]) for one in latest(project)["findings"]] == [(LEAK["title"], "open")]
    other = project.folder / f".code-review/review-{latest(project)['reviewId']}.json"
    other.write_text("mine")
    take(project, LEAK)
    assert other.read_text() == "mine"


def test_an_abort_has_its_reason_beside_it_until_it_is_over(project: Project) -> None:
    """The file is there exactly as long as the verdict is ABORT."""
    reason = project.folder / ".code-review/abort-reason.md"
    take(project, LEAK)
    assert not reason.exists()
    take(project, {**GRAVE, "system_breaking": True})
    assert (latest(project)["verdict"], GRAVE["title"] in reason.read_text()) == ("ABORT", True)
    triage(project, 2, "wont-fix")
    assert (latest(project)["verdict"] != "ABORT", reason.exists()) == (True, False)


def test_an_agent_changes_only_the_status(project: Project) -> None:
    """Anything else is put back by the next command, which says so; a suggestion is dismissed with a note."""
    take(project, LEAK, PRINT)
    told = latest(project)
    told["findings"][0] |= {"title": "Nothing", "severity": "Info"}
    told["findings"][1] |= {"status": "wont_fix", "note": "the output is for people"}
    (project.folder / ".code-review/review-latest.json").write_text(json.dumps(told))
    done = project.awf("findings", "list", "--state", "all", "--json")
    assert all(word in done.stderr for word in ("`title`", "`severity`"))
    rows = {row["title"]: (row["severity"], row["state"]) for row in json.loads(done.stdout)}
    assert rows == {LEAK["title"]: ("high", "open"), PRINT["title"]: ("medium", "wont_fix")}
    back = {one["title"]: (one["severity"], one["status"]) for one in latest(project)["findings"]}
    assert back == {LEAK["title"]: ("High", "open"), PRINT["title"]: ("Medium", "wont_fix")}


# --- walk-through ----------------------------------------------------------------------------------------------------


ADVICE = item("Names are short", severity="P3", line=1, autofix_class="advisory", owner="human", suggested_fix=None,
              evidence=["app.py:1 -- import os"])  # fmt: skip
WHY = item(why_it_works="The block closes it on every path.")
HUMAN = item("Nothing tests the output", severity="P2", line=9, owner="human", suggested_fix=None,
             autofix_class="manual", evidence=["app.py:9 -- print(load(os.devnull))"])  # fmt: skip
APPLY, DEFER, SKIP = "Apply the proposed fix", "Defer — file a ticket", "Skip — don't apply, don't track"
ACKNOWLEDGE = "Acknowledge — mark as reviewed"
REST = "LFG the rest — apply the agent's best judgment to this and remaining findings"


def walk(project: Project, *keys: str, options: tuple[str, ...] = ()) -> str:
    """What a walk with these answers prints."""
    file = project.folder.parent / "answers.json"
    file.write_text(json.dumps(keys))
    done = project.awf("findings", "walk", "--answers", str(file), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def menus(printed: str) -> list[list[str]]:
    """The options of each question about a finding, as printed."""
    groups: list[list[str]] = []
    for line in printed.splitlines():
        if option := re.fullmatch(r"  (\d)\. (.*)", line):
            groups += [[]] if option[1] == "1" else []
            groups[-1].append(option[2])
    return groups


def test_a_block_and_its_question(project: Project) -> None:
    """The block explains in Markdown; the question is plain, asks about one action, and a line confirms the answer."""
    take(project, GRAVE, WHY)
    printed = walk(project, "skip", "apply")
    block = """## Finding 2 of 2 — P1 The handle is never closed

app.py:5

**What's wrong**

descriptors run out under load

**Proposed fix**

use a with block

**Why it works**

The block closes it on every path.

Finding 2 of 2 — P1 the handle is never closed.
"""
    assert block in printed
    stem = printed.partition(block)[2].splitlines()
    assert (stem[0].endswith("?"), "`" in stem[0]) == (True, False)
    assert "\n→ Skipped.\n" in printed
    assert "\n→ Applied. Fix staged at app.py:5.\n" in printed


@pytest.mark.parametrize(
    ("title", "plain", "shown"),
    [
        ("Missing userId validation on line 36", "Path traversal in loadUserFromCache", "Path traversal in load"),
        ("Unchecked index on line 5", "", "Unchecked index"),
    ],
)
def test_a_heading_is_in_plain_words(project: Project, title: str, plain: str, shown: str) -> None:
    """The reviewer's plain title, or its title without the line."""
    take(project, item(title, plain_title=plain))
    heading = next(line for line in walk(project, "skip").splitlines() if line.startswith("## "))
    assert heading.startswith(f"## P1 {shown}")
    assert not re.search(r"\d", heading.removeprefix("## P1"))


def test_findings_are_asked_about_by_severity_and_advice_on_request(project: Project) -> None:
    """What the gate filtered is not asked about."""
    take(project, ADVICE, HUMAN, LEAK, GRAVE, item("Reads may be slow", line=6, confidence=50))
    headings = re.findall(r"^## Finding \d of \d — (P\d)", walk(project, "skip", "skip", "skip"), re.MULTILINE)
    assert headings == ["P0", "P1", "P2"]
    with_advice = walk(project, *("skip",) * 4, options=("--advisory",))
    assert re.findall(r"^## Finding \d of \d — (P\d)", with_advice, re.MULTILINE) == ["P0", "P1", "P2", "P3"]


@pytest.mark.parametrize("sink", [True, False], ids=["sink", "no sink"])
@pytest.mark.parametrize("advisory", [True, False], ids=["advisory", "actionable"])
@pytest.mark.parametrize("many", [True, False], ids=["many", "one"])
def test_every_menu(project: Project, *, many: bool, advisory: bool, sink: bool) -> None:
    """The options are in their order, exactly one is recommended, and Defer and the rest are there only if possible."""
    first = {**ADVICE, "severity": "P3"} if advisory else LEAK
    take(project, first, *([{**ADVICE, "title": "Lines are short", "line": 9, "evidence": []}] if many else []))
    keys = ["skip"] * (1 + many)
    if not sink:  # the last tracker fails, and is given up for the session
        (project.folder / ".awf/tickets").write_text("not a directory")
        keys = ["defer", "fallback", *keys]
    printed = walk(project, *keys, options=("--advisory", "--seed-wording"))
    about = [menu for menu in menus(printed) if menu[0].startswith(("Apply the", "Acknowledge"))]
    menu = about[0 if sink else 1]
    expected = [ACKNOWLEDGE if advisory else APPLY, *([DEFER] if sink else []), SKIP, *([REST] if many else [])]
    assert [option.removesuffix(" (recommended)") for option in menu] == expected
    assert [sum(option.endswith(" (recommended)") for option in one) for one in about] == [1] * len(about)
    assert (about[-1][-1] == REST) is many  # the last of many has the rest, too
    assert ("## Finding 1 of 2 — " in printed, "Defer unavailable" in printed) == (many, not sink)
    assert ("Finding 1 of " in printed) is many


def test_a_recommendation_to_defer_becomes_skip_without_a_tracker(project: Project) -> None:
    """The conflict line says so, and the marker is on an option that is offered."""
    take(project, HUMAN)
    (project.folder / ".awf/tickets").write_text("not a directory")
    printed = walk(project, "defer", "fallback", "skip")
    assert menus(printed)[-1] == [APPLY, f"{SKIP} (recommended)"]
    assert "downgraded to Skip" in printed


def test_a_named_tracker_is_in_the_label_and_gets_the_ticket(project: Project) -> None:
    """The ticket says what is wrong, and carries severity, confidence, reviewers and the finding's id."""
    take(project, LEAK)
    printed = walk(project, "defer", options=("--tracker", "folder"))
    assert "Defer — file a local folder ticket" in menus(printed)[0]
    (ticket,) = (project.folder / ".awf/tickets").glob("*.md")
    text = ticket.read_text()
    assert all(part in text for part in ("Severity:", "Confidence:", "Reviewer(s):", "Finding ID:", ticket.stem))
    assert (LEAK["title"] in text, LEAK["why_it_matters"] in text, LEAK["suggested_fix"] in text) == (True,) * 3
    assert f"→ Deferred. Ticket filed: .awf/tickets/{ticket.name}." in printed


def test_a_failed_ticket_keeps_the_position(project: Project) -> None:
    """It can be tried again or be converted to a skip; the failure comes first in the report, with its reason."""
    take(project, LEAK, HUMAN)
    (project.folder / ".awf/tickets").write_text("not a directory")
    printed = walk(project, "defer", "retry", "convert", "skip")
    questions = [menu for menu in menus(printed) if any(option.startswith("Convert") for option in menu)]
    assert len(questions) == 2
    report = printed.partition("## Completion report")[2]
    assert report.lstrip().startswith("**Failures")
    assert ".awf/tickets" in report.split("**Skipped")[0]


def test_reviewers_who_disagree_are_named(project: Project) -> None:
    """The most conservative action wins, and one line says who recommends what."""
    second = project.folder.parent / "second.json"
    second.write_text(found({**LEAK, "recommendation": "skip"}, reviewer="testing"))
    take(project, LEAK, options=(str(second),))
    printed = walk(project, "skip")
    assert "Rev recommends Apply; Testing recommends Skip. Agent's recommendation: Skip." in printed
    assert menus(printed)[0][2] == f"{SKIP} (recommended)"


@pytest.mark.parametrize(
    ("fix", "shown"),
    [
        ("Throw on non-2xx response before parsing JSON.", "Throw on non-2xx response before parsing JSON."),
        ("Replace `==` with `===` on line 42.", "Replace `==` with `===` on line 42."),
        (
            "Add `if (!ok) throw new Error(x);` after `await fetch(u)` and `await y`. Then test it.",
            "Add if (!ok) throw new Error(x); after await fetch(u) and await y.",
        ),
    ],
)
def test_a_fix_is_shown_as_prose(project: Project, fix: str, shown: str) -> None:
    """At most two short code spans; otherwise the first sentence without them, and where the whole fix is."""
    take(project, {**LEAK, "suggested_fix": fix})
    block = walk(project, "skip").partition("**Proposed fix**\n\n")[2]
    assert block.splitlines()[0].startswith(shown)
    assert ("Full fix:" in block) is (fix != shown)


def test_the_completion_report(project: Project) -> None:
    """Groups in their order with reasons and references, then counts, coverage, and a verdict on what remains."""
    text = json.loads(found(LEAK, HUMAN, {**PRINT, "title": "Output is unbuffered", "line": 6, "evidence": []}, ADVICE))
    take_text(project, json.dumps({**text, "residual_risks": ["Rounding"], "testing_gaps": ["No unhappy path"]}))
    printed = walk(project, "apply", "defer", "skip", "acknowledge", options=("--advisory",))
    report = printed.partition("## Completion report")[2]
    parts = [
        *(
            "not applied yet (1)",
            "**Deferred (1)**",
            "**Skipped (1)**",
            "**Acknowledged (1)**",
            "1 deferred, 1 skipped",
        ),
        *("**Coverage**", "Rounding", "No unhappy path", "Verdict: Ready with fixes"),
    ]
    assert sorted(report.find(part) for part in parts) == [report.find(part) for part in parts]
    assert -1 not in [report.find(part) for part in parts]


def test_nothing_to_decide_asks_nothing(project: Project) -> None:
    """The report says what remains, and resolved without reserve only if nothing does."""
    take(project)
    assert "All findings resolved" in walk(project)
    take(project, ADVICE)
    printed = walk(project)
    assert ("?" in printed, "1 advisory" in printed, "All actionable findings resolved" in printed) == (
        False, True, True
    )  # fmt: skip


def test_the_routing_question(project: Project) -> None:
    """Each finding, all as recommended, a ticket each, or the report alone."""
    take(project, LEAK, HUMAN)
    printed = walk(project, "report", options=("--route", "ask", "--seed-wording"))
    assert printed.startswith("What should the agent do with the remaining 2 findings?\n")
    assert menus(printed)[0] == [
        "Review each finding one by one — accept the recommendation or choose another action",
        "LFG. Apply the agent's best-judgment action per finding",
        "File an issue per finding without applying fixes",
        "Report only — take no further action",
    ]
    filed = walk(project, "proceed", options=("--route", "file"))
    assert ("Filing tickets (2):" in filed, len(list((project.folder / ".awf/tickets").glob("*.md")))) == (True, 2)


# --- review format ---------------------------------------------------------------------------------------------------


def test_a_finding_is_kept_by_its_confidence(project: Project) -> None:
    """Below 75 it is only noted, except a P0 at 50; each item has one outcome."""
    items = [
        item(f"Case {severity} {confidence}", severity=severity, confidence=confidence, line=5)
        for severity in ("P0", "P1", "P3")
        for confidence in (0, 25, 50, 75, 100)
    ]
    taken = take(project, *items)
    rows = json.loads(project.awf("findings", "list", "--json").stdout)
    assert {row["title"] for row in rows} == {
        *("Case P0 50", "Case P0 75", "Case P0 100", "Case P1 75", "Case P1 100", "Case P3 75", "Case P3 100"),
    }
    assert sum(taken["dispositions"].values()) == taken["inputs"] == 15
    hidden = json.loads(project.awf("findings", "list", "--filtered", "--json").stdout)["filtered"]
    assert len(hidden) == 8


def test_what_two_reviewers_report_needs_less_confidence(project: Project) -> None:
    """One reviewer who says it twice does not make it surer."""
    second = project.folder.parent / "second.json"
    second.write_text(found({**LEAK, "confidence": 50}, reviewer="testing"))
    twice = {**PRINT, "title": "The output is never tested", "line": 8}
    take(project, *({**one, "confidence": 50} for one in (LEAK, PRINT, twice)), options=(str(second),))
    (row,) = json.loads(project.awf("findings", "list", "--json").stdout)
    assert (row["title"], row["confidence"]) == (LEAK["title"], 50)
    assert sorted(row["reviewers"]) == ["rev", "testing"]


def test_unknown_keys_survive_an_export(project: Project) -> None:
    """So do class, owner, verification, origin and evidence; an export is a valid return."""
    given = {**LEAK, "rule": "R-1", "autofix_class": "safe_auto", "owner": "release", "requires_verification": True}
    take(project, given, residual_risks=["Rounding"], testing_gaps=["No unhappy path"])
    exported = json.loads(project.awf("findings", "export", "--format", "review").stdout)
    (back,) = exported["findings"]
    assert {key: back[key] for key in given} == given
    assert (exported["residual_risks"], exported["testing_gaps"]) == (["Rounding"], ["No unhappy path"])


def test_existing_defects_are_kept_apart(project: Project) -> None:
    """They neither fail a review nor disappear, whatever their confidence."""
    taken = take(project, {**GRAVE, "pre_existing": True})
    assert (taken["verdicts"]["verdict"], len(records(project))) == ("PASS", 1)


def test_the_format_is_given_to_reviewers_and_to_people(project: Project) -> None:
    """The prompt of a structured review ends with what `awf explain review-format` prints."""
    body = 'stage "rev" kind="llm" findings="review" prompt="Review it"\ntransition from="rev" to="end" on="always"\n'
    project.run(body, {"rev": found()})
    text = project.awf("explain", "review-format").stdout.strip()
    assert text in project.awf("prompt", "r", "rev").stdout
    required = [key for key in LEAK if key != "suggested_fix"] + ["reviewer", "residual_risks", "testing_gaps"]
    assert [key for key in required if f"`{key}`" not in text and f'"{key}"' not in text] == []


# --- accumulated reports ---------------------------------------------------------------------------------------------


def test_a_report_has_its_fields_and_the_whole_response(project: Project) -> None:
    """Nothing of a long answer is cut off in the data; the fix prompt may show less."""
    long = "".join(f"Point {n} is wrong.\n" for n in range(9000))
    body = LOOP.replace('auto_status=true prompt="Review it"', 'auto_status="true" prompt="Review it"')
    project.run(body, {"rev": [f"{long}[STATUS: fail]\n[FAILURE_REASON: much is wrong]"]})
    report = project.context("review.findings")[0]
    assert set(report) >= {"stageId", "iteration", "status", "failureReason", "response", "timestamp"}
    assert (report["stageId"], report["iteration"], report["status"], report["failureReason"]) == (
        "rev", 1, "fail", "much is wrong"
    )  # fmt: skip
    assert report["response"].startswith(long)
    assert len(project.awf("prompt", "r", "fix").stdout) < len(long)


def test_only_reviews_and_tools_report(project: Project) -> None:
    """A stage without `auto_status`, or with a false one, reports nothing; `response_key_base` names the response."""
    body = """
stage "rev" kind="llm" auto_status=true response_key_base="plan" prompt="Review it"
stage "plain" kind="llm" prompt="Write it"
stage "off" kind="llm" auto_status=false prompt="Write it"
stage "lint" kind="tool" command="echo bad line; exit 1"
transition from="rev" to="plain" on="always"
transition from="plain" to="off" on="always"
transition from="off" to="lint" on="always"
transition from="lint" to="end" on="always"
"""
    fail = "It is bad.\n[STATUS: fail]\n[FAILURE_REASON: bad]"
    project.run(body, {"rev": fail, "plain": fail, "off": fail})
    reports = {one["stageId"]: one for one in project.context("review.findings")}
    assert set(reports) == {"rev", "lint"}
    assert "It is bad." in reports["rev"]["response"]
    assert "It is bad." in project.context("plan.response")
    assert "bad line" in reports["lint"]["response"]


def test_the_shipped_fix_stage_is_asked_to_fix_everything(project: Project) -> None:
    """Its prompt asks for every finding, below all open reports; the reviews run again after it."""
    (project.folder / ".awf").mkdir()
    (project.folder / ".awf/self-check").write_text("#!/bin/sh\n")
    (project.folder / ".awf/self-check").chmod(0o755)
    claims = "[FINDING 1: fixed]\n[FINDING 2: fixed]"
    script = {
        "review_code": [found(LEAK), f"{found()}\n\n{claims}"],
        "review_tests": [found(PRINT), f"{found()}\n\n{claims}"],
        "fix": {"write": {"fixed.txt": "yes\n"}, "reply": claims},
    }
    (project.folder / "script.json").write_text(json.dumps(script))
    given = ("--goal", "Read files", "--backend", "scripted", "--script", "script.json", "--run-id", "r", "--json")
    project.awf("run", "quick-dev", *given)
    prompt = project.awf("prompt", "r", "fix").stdout
    section = prompt.index("## Outstanding Review Findings")
    wish = "Fix all outstanding issues listed in the review findings below. Address every finding. Commit your fixes"
    assert section < prompt.index(wish)
    assert (LEAK["title"] in prompt, PRINT["title"] in prompt) == (True, True)
    for stage in ("review_code", "review_tests"):
        assert len(json.loads(project.awf("why", "r", stage, "--json").stdout)) == 2


# --- the page --------------------------------------------------------------------------------------------------------


def test_every_row_names_commands_and_tests_that_exist(awf: Awf) -> None:
    """Each test is a function in the file that is named, and each command and option has its help."""
    helps: dict[str, str] = {}
    for promise, how, tests in table_rows(PAGE):
        named = re.findall(r"`awf (findings [a-z]+|[a-z]+)", how)
        assert named, promise
        assert named_tests(tests), promise
        for command in set(named) - set(helps):
            done = awf(*command.split(), "--help")
            assert done.returncode == 0, command
            helps[command] = done.stdout
        for option in re.findall(r"--[a-z-]+", how):
            assert any(option in helps[command] for command in named), f"{promise}: {option}"
