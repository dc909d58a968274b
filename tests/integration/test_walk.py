"""`awf findings walk` at a real terminal, and with a file of answers."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.integration.conftest import COMMAND, Awf
from tests.integration.forking import ForkServer
from tests.integration.screen import QUESTION, run_on_screen, shown
from tests.unit.findings import reviews

FIXER = "import sys; sys.stdin.read(); open('fixed', 'a').write('x'); print('[FINDING 1: fixed]')"


def item(title: str, severity: str, line: int, **changes: Any) -> dict[str, Any]:
    """One item of a reviewer's return."""
    given = {
        "title": title,
        "severity": severity,
        "file": "cache.py",
        "why_it_matters": f"{title}, and people notice.",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "suggested_fix": "Check the id before the path is built.",
        "evidence": [f"cache.py:{line} -- line {line} of the cache"],
    }
    return reviews.item(line, **given) | changes


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Path:
    """A directory with a ledger of three findings, and advice."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "cache.py").write_text("".join(f"line {number} of the cache\n" for number in range(1, 10)))
    found = [
        item("Path traversal in loadUserFromCache", "P0", 2),
        item("Answers are kept forever", "P2", 4, suggested_fix=None, autofix_class="manual", owner="human"),
        item("Errors pass for \u202edata\x1b[31m", "P2", 6),
        item("Names are short", "P3", 8, autofix_class="advisory", owner="human", suggested_fix=None),
    ]
    (folder / "review.json").write_text(json.dumps(reviews.review(*found)))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    assert server.run("findings", "import", "review.json", cwd=folder, env=env).returncode == 0
    return folder


@pytest.fixture
def project(tmp_path: Path, imported: Path) -> Path:
    """The same in a directory of its own."""
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    return tmp_path


def answers(project: Path, *keys: str) -> tuple[str, str]:
    (project / "answers.json").write_text(json.dumps(keys))
    return "--answers", "answers.json"


def decided(awf: Awf) -> dict[int, list[tuple[str, str]]]:
    """The decisions in the ledger, by the finding's number."""
    found = json.loads(awf("findings", "export", "--format", "json").stdout)
    made = {one["number"]: [said for said in one["history"] if said["what"] == "decision"] for one in found}
    return {
        number: [(said["word"], said["ref"]) for said in decisions] for number, decisions in made.items() if decisions
    }


def test_a_file_of_answers(project: Path, awf: Awf) -> None:
    """Questions are answered in order; at the end there is the report, and the ledger has the decisions."""
    done = awf("findings", "walk", *answers(project, "apply", "defer", "skip"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n\ncache.py:") == 3
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    ledger = decided(awf)
    assert {number: action for number, [(action, _)] in ledger.items()} == {1: "apply", 2: "defer", 3: "skip"}
    assert (project / ledger[2][0][1]).is_file()


def test_a_rejection_and_a_claimed_fix_are_not_resolved(tmp_path: Path, awf: Awf) -> None:
    """A reviewer that rejects the change, and a fix that nobody has verified, keep the verdict at not ready."""
    (tmp_path / "cache.py").write_text("line 1\nline 2\n")
    rejected = tmp_path / "rejected.json"
    rejected.write_text(json.dumps({**reviews.review(), "verdict": "BLOCK", "argument": "no design"}))
    awf("findings", "import", str(rejected))
    first = json.loads(awf("verdict", "--json").stdout)
    awf("findings", "triage", "1", "--as", "wont-fix", "--note", "the design is as agreed")
    accepted, claimed = tmp_path / "accepted.json", tmp_path / "claimed.json"
    accepted.write_text(json.dumps(reviews.review()))
    claimed.write_text(json.dumps(reviews.review(item("Path traversal", "P0", 2))))
    awf("findings", "import", str(accepted), "--reviewer", reviews.review()["reviewer"])
    awf("findings", "import", str(claimed))
    shown = tmp_path / ".code-review/review-latest.json"
    shown.write_text(shown.read_text().replace('"status": "open"', '"status": "fixed"'))
    second = json.loads(awf("findings", "walk", "--json").stdout)
    assert (first["readiness"], second["verdict"]) == ("Not ready", "Not ready")
    assert "resolved" not in second["summary"]


def test_the_report_covers_every_reviewer(tmp_path: Path, awf: Awf) -> None:
    """Risks and gaps are those of all reviewers of the last run, not only of the one that answered last."""
    (tmp_path / "w.awf.kdl").write_text(
        'workflow "W" {\n version 2\n start "one"\n stage "one" kind="llm" findings="review" prompt="Look"\n'
        ' stage "two" kind="llm" findings="review" prompt="Look"\n stage "end" kind="exit"\n'
        ' transition from="one" to="two"\n transition from="two" to="end"\n}\n'
    )
    risky = json.dumps(
        {
            "findings": [],
            "reviewed": ["a.py: read"],
            "residual_risks": ["Sums are rounded"],
            "testing_gaps": ["Nothing tests it"],
        }
    )
    (tmp_path / "script.json").write_text(json.dumps({"one": risky}))
    assert awf("run", "w.awf.kdl", "--script", "script.json").returncode == 0
    coverage = json.loads(awf("findings", "walk", "--json").stdout)["coverage"]
    assert (coverage["residual_risks"], coverage["testing_gaps"]) == (["Sums are rounded"], ["Nothing tests it"])


def test_what_was_decided_earlier_is_not_undecided(project: Path, awf: Awf) -> None:
    """The report of a fix says what was decided about the findings that it was not given."""
    awf("findings", "walk", *answers(project, "apply", "defer", "skip"))
    (project / "script.json").write_text("{}")
    done = awf("findings", "fix", "--script", "script.json", "--json")
    assert json.loads(done.stdout)["not_asked"] == {"advisory": 1, "deferred": 1, "skipped": 1}


def test_programs_read_the_report(project: Path, awf: Awf) -> None:
    """With --json nothing but JSON is on standard output."""
    done = awf(
        "findings", "walk", "--json", "--advisory", *answers(project, "rest", "cancel", "skip", "rest", "proceed")
    )
    told = json.loads(done.stdout)
    counted = {"accepted": 1, "deferred": 1, "skipped": 1, "acknowledged": 1}
    assert {bucket: count for bucket, count in told["counts"].items() if count} == counted
    assert told["verdict"] == "Not ready"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("keys", "named"),
    [(["apply"], "Finding 2 of 3"), (["apply", "dance"], '"dance"'), (["apply", "acknowledge"], '"acknowledge"')],
)
def test_after_a_wrong_answer_nothing_is_recorded(project: Path, awf: Awf, keys: list[str], named: str) -> None:
    """No question is skipped, and an unfinished walk has decided nothing."""
    done = awf("findings", "walk", *answers(project, *keys))
    assert done.returncode == 2
    assert named in done.stderr
    assert decided(awf) == {}


def test_answers_that_are_left_over_are_reported(project: Path, awf: Awf) -> None:
    """They may have been meant for other findings."""
    done = awf("findings", "walk", *answers(project, "skip", "skip", "skip", "apply"))
    assert done.returncode == 0
    assert "1 answer" in done.stderr


@pytest.mark.parametrize("text", ["{", '{"a": "apply"}', "[1]"])
def test_a_file_without_answers_is_refused(project: Path, awf: Awf, text: str) -> None:
    """The error says what to write instead."""
    (project / "answers.json").write_text(text)
    done = awf("findings", "walk", "--answers", "answers.json")
    assert done.returncode == 2
    assert '["apply", ' in done.stderr
    assert decided(awf) == {}


def test_the_fixer_runs_once_after_the_last_answer(project: Path, awf: Awf) -> None:
    """One run for all findings; what it fixed is claimed, and what it did not mention failed: exit code 1."""
    fixer = f'{sys.executable} -c "{FIXER}"'
    done = awf("findings", "walk", "--json", "--fixer", fixer, *answers(project, "apply", "skip", "apply"))
    assert (project / "fixed").read_text() == "x"
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert (report["counts"]["applied"], report["counts"]["failed"]) == (1, 1)
    assert [one["finding_id"] for one in report["failures"]] == [finding(awf, 3)["id"]]
    assert (finding(awf, 1)["state"], finding(awf, 3)["state"]) == ("fix_claimed", "open")
    again = awf("findings", "walk", "--fixer", f"{sys.executable} -c 1/0", *answers(project, "skip", "apply"))
    assert again.returncode == 1
    assert again.stdout.partition("**Failures**")[2].count(" — fix failed: ") == 1


def test_safe_fixes_are_made_before_the_first_question(project: Path, awf: Awf) -> None:
    """Nobody is asked about them. One that failed is in the report and in the exit code, even if nothing is asked."""
    safe = [item(f"Unused import {number}", "P2", number, autofix_class="safe_auto") for number in (7, 9)]
    (project / "safe.json").write_text(json.dumps(reviews.review(*safe, reviewer="style")))
    assert awf("findings", "import", "safe.json").returncode == 0
    fixer = f"{sys.executable} -c \"print('[FINDING 5: fixed]')\""
    done = awf("findings", "walk", "--json", "--fixer", fixer, *answers(project, "skip", "skip", "skip"))
    report = json.loads(done.stdout)
    assert (done.returncode, len(report["findings"]), report["not_asked"]["safe_auto"]) == (1, 3, 1)
    assert [one["finding_id"] for one in report["failures"]] == [finding(awf, 6)["id"]]
    assert (finding(awf, 5)["state"], finding(awf, 6)["state"]) == ("fix_claimed", "open")
    none_asked = awf("findings", "walk", "--fixer", fixer, "--file", "other/", *answers(project))
    assert (none_asked.returncode, none_asked.stdout.count("— fix failed: ")) == (1, 1)
    fixer = fixer.replace("5", "6")
    stopped = awf("findings", "walk", "--fixer", fixer)  # the input ends before everything is decided
    assert (stopped.returncode, finding(awf, 6)["state"]) == (2, "fix_claimed")
    assert "nothing was recorded" not in stopped.stderr
    assert awf("findings", "walk", "--fixer", fixer, "--file", "other/", *answers(project)).returncode == 0


def finding(awf: Awf, number: int) -> dict[str, Any]:
    """Everything that is known about a finding."""
    record: dict[str, Any] = json.loads(awf("findings", "show", str(number), "--json").stdout)
    return record


def said(record: dict[str, Any], what: str) -> list[tuple[str, str]]:
    """Who said what of a kind about a finding, in their roles."""
    return [(change["word"], change["by"]) for change in record["history"] if change["what"] == what]


def scripted(project: Path, **said: list[str]) -> tuple[str, str]:
    (project / "script.json").write_text(json.dumps(said))
    return "--script", "script.json"


def test_findings_are_validated_before_all_are_applied(project: Path, awf: Awf) -> None:
    """What the validator refuses is dropped; a severe one without an answer stays, and the report says so."""
    script = scripted(
        project,
        validate=["I cannot tell.", '{"validated": false, "reason": "the caller checks"}', '{"validated": true}'],
    )
    done = awf("findings", "walk", "--json", "--validate", *script, *answers(project, "rest", "proceed"))
    report = json.loads(done.stdout)
    assert {one["number"]: one["action"] for one in report["findings"]} == {1: "accepted", 2: "dropped", 3: "accepted"}
    assert [one["number"] for one in report["findings"] if "not validated" in one["note"]] == [1]
    assert decided(awf).keys() == {1, 3}
    kept = list((project / ".awf" / "validations").glob("*/*/question.md"))
    assert len(kept) == 3


def test_at_most_fifteen_findings_are_validated(project: Path, awf: Awf) -> None:
    """The most severe ones; the others stay in the plan, flagged."""
    (project / "many.txt").write_text("".join(f"line {number} of many\n" for number in range(1, 90)))
    far_apart = [item(f"Defect number {n}", "P2", 4 * n, file="many.txt", evidence=["x"]) for n in range(1, 21)]
    (project / "many.json").write_text(json.dumps(reviews.review(*far_apart, reviewer="many")))
    assert awf("findings", "import", "many.json").returncode == 0
    script = scripted(project, validate=['{"validated": true}'])
    done = awf(
        *("findings", "walk", "--json", "--validate", "--file", "many.txt", *script),
        *answers(project, "rest", "proceed"),
    )
    report = json.loads(done.stdout)
    assert [one["action"] for one in report["findings"]] == ["accepted"] * 20
    assert len([one for one in report["findings"] if "not validated" in one["note"]]) == 5
    assert len(list((project / ".awf" / "validations").glob("*/*/question.md"))) == 15


def test_what_must_be_fixed_is_accepted_at_once(project: Path, awf: Awf) -> None:
    """Whatever is recommended for it; nothing else is decided."""
    gates = {one["number"]: one["gate"] for one in json.loads(awf("findings", "list", "--format", "json").stdout)}
    done = awf("findings", "walk", "--json", "--route", "must", *answers(project, "proceed"))
    assert [one["action"] for one in json.loads(done.stdout)["findings"]] == ["accepted"]
    assert decided(awf).keys() == {number for number, gate in gates.items() if gate == "must"} == {1}


def test_safe_fixes_are_made_by_the_fix_command(project: Path, awf: Awf) -> None:
    """They need no decision: the walk names the command, and that takes them besides what was accepted."""
    safe = item("Names are wrong", "P2", 9, autofix_class="safe_auto")
    (project / "safe.json").write_text(json.dumps(reviews.review(safe, reviewer="style")))
    assert awf("findings", "import", "safe.json").returncode == 0
    awf("findings", "walk", *answers(project, "skip", "skip", "skip"))
    done = awf("findings", "fix", "--json", *scripted(project, fix=["[FINDING 5: fixed]"]))
    assert (done.returncode, json.loads(done.stdout)["counts"]["applied"]) == (0, 1), done.stderr
    record = finding(awf, 5)
    assert (record["state"], said(record, "decision")) == ("fix_claimed", [("apply", "orchestrator")])


def test_what_was_accepted_is_fixed_later(project: Path, awf: Awf) -> None:
    """One agent gets all accepted findings; what it fixed is claimed, what it does not mention is an attempt."""
    walked = awf("findings", "walk", *answers(project, "apply", "skip", "apply"))
    assert "2 accepted, not applied yet; apply them with: awf findings fix" in walked.stdout
    done = awf("findings", "fix", "--json", *scripted(project, fix=["[FINDING 1: fixed]"]))
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert (report["counts"]["applied"], report["counts"]["failed"]) == (1, 1)
    assert [one["reason"] for one in report["failures"]] == ["not fixed, the fixer did not mention it"]
    records = {number: finding(awf, number) for number in (1, 2, 3)}
    assert {number: one["state"] for number, one in records.items()} == {1: "fix_claimed", 2: "open", 3: "open"}
    assert said(records[3], "claim") == [("not_fixed", "finish-task")]
    (prompt,) = (project / ".awf" / "fixes").glob("*/all/question.md")
    assert re.findall(r"^- #(\d+) ", prompt.read_text(), re.MULTILINE) == ["1", "3"]


def test_a_named_finding_is_fixed_without_a_walk(project: Path, awf: Awf) -> None:
    """Naming it accepts its fix; one that is not open, or nothing to fix, starts no agent."""
    assert "awf findings walk" in awf("findings", "fix", *scripted(project)).stdout
    fixer = f"{sys.executable} -c \"print('[FINDING 2: fixed]')\""
    assert awf("findings", "fix", "2", "--agent-command", fixer).returncode == 0
    assert decided(awf) == {2: [("apply", "")]}
    assert awf("findings", "fix", "2", *scripted(project)).returncode == 2
    assert awf("findings", "fix", "1", *scripted(project), AWF_STAGE="fix").returncode == 2


def test_a_malformed_fixer_command_is_an_error_before_the_first_question(project: Path, awf: Awf) -> None:
    """Nothing is shown."""
    done = awf("findings", "walk", "--fixer", "'", *answers(project))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--fixer" in done.stderr


def test_without_a_review_the_verdict_is_not_ready(tmp_path: Path, awf: Awf) -> None:
    """Nothing is called resolved unless something was reviewed."""
    assert json.loads(awf("findings", "walk", "--json").stdout)["verdict"] == "Not ready"
    assert not (tmp_path / ".awf").exists()
    clean = {
        "reviewer": "security",
        "findings": [],
        "reviewed": ["a.py: read"],
        "residual_risks": [],
        "testing_gaps": [],
    }
    (tmp_path / "clean.json").write_text(json.dumps(clean))
    assert awf("findings", "import", "clean.json").returncode == 0
    assert json.loads(awf("findings", "walk", "--json").stdout)["verdict"] == "Ready to merge"


@pytest.mark.usefixtures("project")
def test_an_input_that_ends_early_decides_nothing(awf: Awf) -> None:
    """The end of the input is not an answer."""
    done = awf("findings", "walk")
    assert done.returncode == 2
    assert "--answers" in done.stderr
    assert decided(awf) == {}


def test_full_returns_explain_what_short_ones_leave_out(project: Path, awf: Awf) -> None:
    """Without them there is a gap in the report."""
    review = json.loads((project / "review.json").read_text())
    (project / "runs").mkdir()
    (project / "runs" / "correctness.json").write_text(json.dumps(review))
    short = [{k: v for k, v in one.items() if k not in ("why_it_matters", "evidence")} for one in review["findings"]]
    (project / "short.json").write_text(json.dumps({**review, "findings": short[:1]}))
    assert awf("findings", "import", "short.json", "--store", "other").returncode == 0
    bare = awf("findings", "walk", "--store", "other", *answers(project, "skip"))
    assert "**What's wrong**" not in bare.stdout
    assert "gaps: 1 (correctness)" in bare.stdout
    told = awf("findings", "walk", "--store", "other", "--artifacts", "runs", *answers(project, "skip"))
    assert "**What's wrong**" in told.stdout
    assert "gaps:" not in told.stdout


def test_a_person_at_a_terminal(project: Path, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """Block, question, answers by letter, number or word, confirmations, and the report."""
    typed = ["x", "a", "2", "p", "Skip", "1"]
    written = run_on_screen([COMMAND, "findings", "walk", "--advisory"], project, typed=typed)
    screen = shown(written)
    assert max(map(len, screen)) <= 80
    start = screen.index("  cache.py:2") - 1
    assert screen[start : start + 20] == snapshot
    assert {number: action for number, [(action, _)] in decided(awf).items()} == {
        1: "apply", 2: "defer", 3: "skip", 4: "acknowledge"
    }  # fmt: skip


def test_enter_agrees_and_every_key_works(project: Path, awf: Awf) -> None:
    """Enter accepts the recommendation; v shows the fix, the evidence and the code; ? lists the keys."""
    typed = ["?", "v", "", "", "p", "s"]
    screen = shown(run_on_screen([COMMAND, "findings", "walk"], project, lines=60, typed=typed))
    keys = [line.split()[0].rstrip(",") for line in screen if line.startswith("  ") and "  " in line.strip()]
    assert {"a", "d", "s", "r", "Enter", "v", "?", "q"} <= set(keys)
    assert " " * 21 + "recommended" in screen, "a long line is wrapped between words"
    assert "    >    2  line 2 of the cache" in screen
    assert {number: action for number, [(action, _)] in decided(awf).items()} == {1: "apply", 2: "defer", 3: "skip"}


def test_q_stops(project: Path, awf: Awf) -> None:
    """Every decision is discarded, as after Ctrl-C."""
    screen = shown(run_on_screen([COMMAND, "findings", "walk"], project, typed=["a", "q"]))
    assert any(line.startswith("Stopped: ") for line in screen)
    assert decided(awf) == {}


def test_nothing_scrolls_away_before_the_question(tmp_path: Path, awf: Awf) -> None:
    """At 80 by 24 the heading of a finding is on the screen with its question, however long its texts are."""
    (tmp_path / "cache.py").write_text("".join(f"line {number} of the cache\n" for number in range(1, 60)))
    long = {
        "why_it_matters": "It breaks for many reasons, and this is one of them. " * 20,
        "suggested_fix": "Check the id first, in every caller that there is, and then again. " * 20,
        "why_it_works": "Every other cache checks its ids, as anybody can see. " * 5,
        "owner": "review-fixer",
    }
    found = [item(f"Defect number {number} of them all", "P1", 10 * number, **long) for number in range(1, 5)]
    (tmp_path / "review.json").write_text(json.dumps(reviews.review(*found)))
    (tmp_path / "other.json").write_text(
        json.dumps(reviews.review(*(one | {"recommendation": "skip"} for one in found), reviewer="security"))
    )
    assert awf("findings", "import", "review.json", "other.json").returncode == 0
    screen = shown(run_on_screen([COMMAND, "findings", "walk"], tmp_path, typed=["a", "v", "v", "", "r", "p"]))
    assert max(map(len, screen)) <= 80
    asked = [number for number, line in enumerate(screen) if line.startswith("Your choice (")]
    assert len(asked) == 6
    headings = [number for number, line in enumerate(screen) if re.match(r"Finding \d of 4 — P1 Defect", line)]
    assert len(headings) == 3
    for heading in headings:
        assert next(number for number in asked if number > heading) - heading < 24
    for before, after in itertools.pairwise([headings[1], *asked[1:]]):  # with what was shown between two questions
        assert after - before <= 24
    assert any("recommends Skip" in line for line in screen)


def test_filters_narrow_the_walk(project: Path, awf: Awf) -> None:
    """Only what they select is asked about; that the rest is undecided is not called resolved."""
    done = awf("findings", "walk", "--json", "--severity", "critical", *answers(project, "skip"))
    assert [one["severity"] for one in json.loads(done.stdout)["findings"]] == ["P0"]
    done = awf("findings", "walk", "--json", "--file", "other/", *answers(project))
    report = json.loads(done.stdout)
    assert (report["findings"], report["verdict"]) == ([], "Not ready")
    assert "resolved" not in report["summary"]


def test_a_named_tracker_has_to_work(project: Path, awf: Awf) -> None:
    """It is an error before the first question."""
    done = awf("findings", "walk", "--tracker", "github", *answers(project, "skip", "skip", "skip"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "github" in done.stderr


def test_the_original_wording(project: Path, awf: Awf) -> None:
    """On request the option is called LFG the rest; both names are understood."""
    done = awf("findings", "walk", "--seed-wording", *answers(project, "lfg the rest", "proceed"))
    assert "4. LFG the rest" in done.stdout
    assert "4. LFG the rest" not in awf("findings", "walk", *answers(project, "lfg", "proceed")).stdout


def test_the_plan_is_shown_before_it_is_carried_out(project: Path, snapshot: SnapshotAssertion) -> None:
    """Cancel asks about the same finding again."""
    screen = shown(run_on_screen([COMMAND, "findings", "walk"], project, typed=["s", "r", "c", "r", "p"]))
    plan = screen.index("Applying (1):") - 2
    assert screen[plan : plan + 9] == snapshot
    assert screen.count("  cache.py:4") == 2


def test_an_interruption_discards_everything_but_tickets(project: Path, awf: Awf) -> None:
    """No decision is recorded, and the tickets are named."""
    ours, theirs = os.openpty()
    argv = [COMMAND, "findings", "walk"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(project), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        argv, cwd=project, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    ) as program:
        os.close(theirs)
        for typed in (b"d\n", b"p\n"):
            _until_asked(ours)
            os.write(ours, typed)
        _until_asked(ours)
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        told = program.stderr.read().decode()
        assert program.wait(60) == 130
    os.close(ours)
    [ticket] = (project / ".awf" / "tickets").glob("*.md")
    assert f".awf/tickets/{ticket.name}" in told
    assert decided(awf) == {}


def _until_asked(descriptor: int) -> None:
    """Read up to the next question."""
    gathered = b""
    while not gathered.endswith(QUESTION):
        gathered += os.read(descriptor, 65536)


def test_a_tracker_of_a_plugin(project: Path, awf: Awf) -> None:
    """It is tried before ours, and can be named; an unknown name is an error with a suggestion."""
    site = project / "site"
    info = site / "mine-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[awf.plugins]\nmine = mine\n")
    (site / "mine.py").write_text(TRACKER)
    done = awf("findings", "walk", *answers(project, "defer", "skip", "skip"), PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert decided(awf)[1] == [("defer", "PAPER-1")]
    named = awf("findings", "walk", "--tracker", "paper", *answers(project, "defer", *"ss"), PYTHONPATH=str(site))
    assert "Paper" in named.stdout
    unknown = awf("findings", "walk", "--tracker", "papier", *answers(project, "skip"), PYTHONPATH=str(site))
    assert unknown.returncode == 2
    assert "papier" in unknown.stderr
    assert '"paper"' in unknown.stderr


TRACKER = """
from pipeline.findings.trackers.ticket import Filed
from pipeline.plugins import hookimpl

class Paper:
    name = "Paper"
    def file(self, finding):
        return Filed(f"PAPER-{finding.number}")

@hookimpl
def trackers():
    return {"paper": lambda place: Paper()}
"""
