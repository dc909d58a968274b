"""What cannot be read is never clean: through `awf findings import`, `list`, `triage`, `walk` and `awf verdict`."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.conftest import Awf
from tests.integration.forking import ForkServer
from tests.integration.test_findings_cli import (
    CODE,
    DISPOSITIONS,
    FLUSH,
    INJECTION,
    TOKEN,
    listed,
    project,
    review,
    verdict,
)

__all__ = ["project"]

UNREADABLE = {"title": INJECTION["title"], "severity": "P0"}  # it says neither where nor why
MINOR = {"message": "No idea where", "severity": "minor"}
EMPTY: dict[str, Any] = {
    "reviewer": "security",
    "findings": [],
    "reviewed": ["a.py: read"],
    "residual_risks": [],
    "testing_gaps": [],
}
SARIF = {
    "version": "2.1.0",
    "runs": [
        {
            "tool": {"driver": {"name": "lint"}},
            "results": [
                {
                    "ruleId": "L1",
                    "level": "error",
                    "message": {"text": "Line is too long"},
                    "locations": [
                        {"physicalLocation": {"artifactLocation": {"uri": "src/a.py"}, "region": {"startLine": 5}}}
                    ],
                }
            ],
        }
    ],
}


def imported(awf: Awf, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = awf("findings", "import", *arguments, "--json")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert tuple(answer["dispositions"]) == DISPOSITIONS
    assert sum(answer["dispositions"].values()) == answer["inputs"]
    return done.returncode, answer


def test_an_unreadable_item_is_a_finding_that_blocks(awf: Awf, project: Path) -> None:
    """It is uncertain, must be fixed, keeps its raw text, and the same item is the same finding."""
    outside = {**TOKEN, "file": "../../etc/passwd", "evidence": ["../../etc/passwd:1 -- x"]}
    bad: list[Any] = [UNREADABLE, MINOR, {"severity": "P2"}, "the whole thing is broken", 7, outside]
    code, first = imported(awf, review(project / "one.json", *bad))
    assert (code, first["inputs"], first["dispositions"]["rejected"], len(first["new"])) == (1, 6, 6, 6)
    assert first["reviewers"] == {"security": "partial"}
    rows = listed(awf)
    assert {(row["state"], row["gate"]) for row in rows} == {("uncertain", "must")}
    assert {(row["title"], row["severity"]) for row in rows} == {
        ("Shell injection in run", "critical"),
        ("No idea where", "low"),
        ("Unreadable finding 3 of security", "medium"),
        ("the whole thing is broken", "high"),
        ("Unreadable finding 5 of security", "high"),
        (TOKEN["title"], "high"),
    }
    assert json.loads(awf("findings", "show", "1", "--json").stdout)["impact"] != ""
    code, again = imported(awf, "one.json")
    assert (code, again["new"], set(again["known"])) == (1, [], set(first["new"]))


def test_a_minor_item_that_cannot_be_read_keeps_everything_from_passing(awf: Awf, project: Path) -> None:
    """The verdict, the readiness and the walk say so, whatever its severity, until somebody has looked."""
    imported(awf, review(project / "one.json", MINOR))
    code, said = verdict(awf)
    assert (code, said["complete"], said["ship"], said["verdict"]) == (1, False, False, "FAIL")
    assert said["readiness"] == "Not ready"
    assert "PASS" not in awf("verdict").stdout
    assert said["readiness"] in awf("findings", "walk", "--route", "report").stdout


def test_readable_items_next_to_an_unreadable_one_are_imported(awf: Awf, project: Path) -> None:
    """Every item has one fate, and what can be read is an ordinary finding."""
    code, done = imported(awf, review(project / "one.json", UNREADABLE, TOKEN, FLUSH))
    assert (code, done["dispositions"]["surviving"], done["dispositions"]["rejected"]) == (1, 2, 1)
    assert [row["state"] for row in listed(awf)].count("open") == 2


def test_two_unreadable_items_are_two_findings(awf: Awf, project: Path) -> None:
    """What nobody can read is not merged, however alike it begins; the very same text is one."""
    long = {**UNREADABLE, "note": "x" * 9000}
    items = [UNREADABLE, {**UNREADABLE, "line": 6}, long, {**long, "note": "x" * 9001}, UNREADABLE]
    _, done = imported(awf, review(project / "one.json", *items))
    assert (len(done["new"]), done["dispositions"]["merged"], done["dispositions"]["rejected"]) == (4, 1, 4)


def test_incompleteness_ends_with_a_complete_pass_of_the_same_reviewer(awf: Awf, project: Path) -> None:
    """Another reviewer's complete pass does not end it; and what could not be read blocks until somebody rules."""
    imported(awf, review(project / "one.json", UNREADABLE))
    code, _ = imported(awf, review(project / "other.json", FLUSH, reviewer="correctness"))
    assert "Incomplete" in awf("findings", "export", "--format", "markdown").stdout
    assert (code, verdict(awf)[1]["complete"]) == (1, False)
    code, again = imported(awf, review(project / "two.json", TOKEN))
    assert (code, len(again["new"]), again["fixed"]) == (0, 1, [])
    code, said = verdict(awf)
    assert (code, said["complete"], said["verdict"], said["ship"]) == (1, True, "FAIL", False)
    assert {row["title"]: row["state"] for row in listed(awf)} == {
        "Shell injection in run": "uncertain",
        "Flush may fail": "open",
        "Token in the source": "open",
    }


def test_a_tools_unreadable_item_is_fixed_by_its_next_whole_report(awf: Awf, project: Path) -> None:
    """A deterministic tool that gives a whole report without it has verified it, and history says so."""
    broken = json.loads(json.dumps(SARIF))
    broken["runs"][0]["results"].append({"message": {"text": "Odd"}, "level": "loud"})
    (project / "lint.sarif").write_text(json.dumps(broken))
    assert imported(awf, "lint.sarif")[0] == 1
    (project / "lint.sarif").write_text(json.dumps(SARIF))
    assert imported(awf, "lint.sarif")[0] == 0
    rows = {row["title"]: row for row in listed(awf, "--state", "all")}
    assert {title: row["state"] for title, row in rows.items()} == {"Line is too long": "open", "Odd": "verified_fixed"}
    history = json.loads(awf("findings", "show", rows["Odd"]["id"], "--json").stdout)["history"]
    assert (history[-1]["what"], history[-1]["word"], history[-1]["state"]) == ("ruling", "fixed", "verified_fixed")


def test_a_person_may_dismiss_what_cannot_be_read(awf: Awf, project: Path) -> None:
    """It is triaged like any other finding; dismissed, the same text is suppressed and the pass is complete."""
    name = review(project / "one.json", UNREADABLE)
    imported(awf, name)
    dismissal = ("--as", "false-positive", "--note", "the agent made it up")
    assert awf("findings", "triage", "1", *dismissal, "--by", "user").returncode == 0
    assert verdict(awf)[1]["complete"] is False
    assert json.loads((project / ".code-review/review-latest.json").read_text())["verdict"] == "FAIL"
    code, again = imported(awf, name)
    assert (code, again["dispositions"]["suppressed"], again["reviewers"]) == (0, 1, {"security": "returned"})
    code, said = verdict(awf)
    assert (code, said["complete"]) == (0, True)
    (told,) = said["dismissed"]
    assert (told["number"], told["title"], told["by"]) == (1, "Shell injection in run", "user")
    assert told["note"] == "the agent made it up"
    text = awf("verdict").stdout
    assert all(part in text for part in ("#1 Shell injection in run", "user", "the agent made it up"))


def test_results_that_say_nothing_is_wrong_are_no_gap(awf: Awf, project: Path) -> None:
    """A SARIF result of the kind `pass` is read, and is neither a finding nor a gap."""
    passing = json.loads(json.dumps(SARIF))
    passing["runs"][0]["results"].append({"kind": "pass", "message": {"text": "Checked"}})
    (project / "lint.sarif").write_text(json.dumps(passing))
    code, done = imported(awf, "lint.sarif")
    assert (code, done["dispositions"]["filtered"], len(done["new"])) == (0, 1, 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   \n",
        b"not json",
        b'{"reviewer": "security", "findings": [{"title":',
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"<a/>",
    ],
)
def test_a_malformed_file_is_never_clean(awf: Awf, project: Path, content: bytes) -> None:
    """Alone it is an incomplete pass with exit code 1; beside a readable one that is taken in all the same."""
    (project / "bad.json").write_bytes(content)
    code, alone = imported(awf, "bad.json")
    assert (code, alone["verdicts"]["complete"], alone["verdicts"]["verdict"]) == (1, False, "FAIL")
    assert alone["problems"] != []
    code, both = imported(awf, "bad.json", review(project / "good.json", FLUSH, reviewer="correctness"))
    assert (code, len(both["new"]), both["verdicts"]["complete"]) == (1, 1, False)
    assert verdict(awf)[0] == 1
    review(project / "bad.json", FLUSH)
    assert imported(awf, "bad.json")[0] == 0
    assert verdict(awf)[0] == 0


def test_a_directory_is_not_a_clean_review(awf: Awf, project: Path) -> None:
    """Alone it is a mistake, beside files it is a gap."""
    assert awf("findings", "import", "src").returncode == 2
    assert awf("verdict").returncode == 1
    code, done = imported(awf, "src", review(project / "good.json", FLUSH))
    assert (code, len(done["new"]), done["verdicts"]["complete"]) == (1, 1, False)


def test_a_truncated_review_names_its_reviewer(awf: Awf, project: Path) -> None:
    """The gap is that reviewer's, and ends with its next complete answer, whatever the file is called."""
    review(project / "one.json", TOKEN)
    (project / "cut.json").write_bytes((project / "one.json").read_bytes()[:-40])
    assert imported(awf, "cut.json")[1]["reviewers"] == {"security": "malformed"}
    assert imported(awf, "one.json")[0] == 0


@pytest.mark.parametrize("broken", ["a.json", "z.json"])
def test_one_unreadable_answer_of_a_reviewer_is_not_made_good_by_its_other_one(
    awf: Awf, project: Path, broken: str
) -> None:
    """In whichever order they are read: what it owes is owed until all that it answers can be read."""
    review(project / "one.json", TOKEN)
    (project / broken).write_bytes((project / "one.json").read_bytes()[:-40])
    (project / "fine.json").write_text(json.dumps(EMPTY))
    assert imported(awf, "fine.json", broken)[0] == 1
    code, said = verdict(awf)
    assert (code, said["complete"], said["verdict"], said["ship"]) == (1, False, "FAIL", False)
    assert imported(awf, "fine.json")[0] == 0


def test_the_readable_half_of_a_tools_list_closes_nothing(awf: Awf, project: Path) -> None:
    """What it does not list may be in the half that cannot be read."""
    two = json.loads(json.dumps(SARIF))
    two["runs"][0]["results"].append({"message": {"text": "Odd"}, "level": "error", "ruleId": "L2"})
    (project / "lint.sarif").write_text(json.dumps(two))
    imported(awf, "lint.sarif")
    (project / "more.sarif").write_text(json.dumps(two)[:-40])
    (project / "lint.sarif").write_text(json.dumps(SARIF))
    code, done = imported(awf, "lint.sarif", "more.sarif", "--reviewer", "lint")
    assert (code, done["fixed"], done["reopened"]) == (1, [], [])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A review or a SARIF file with some values replaced or left out, perhaps cut off."""
    whole: Any = json.loads(json.dumps(draw(st.sampled_from([{**EMPTY, "findings": [INJECTION, TOKEN]}, SARIF]))))
    for _ in range(draw(st.integers(0, 4))):
        at = whole
        while isinstance(at, dict | list) and at:
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
            if draw(st.integers(0, 3)) == 0 or not isinstance(at[key], dict | list):
                at[key] = draw(VALUES)
                break
            at = at[key]
    data = json.dumps(whole).encode()
    return data if draw(st.booleans()) else data[: draw(st.integers(0, len(data)))]


COMMANDS = [
    *(["list"], ["list", "--json", "--state", "all"], ["why", "1"]),
    *(["walk", "--route", "report"], ["walk", "--answers", "in.json"]),
    *(["export", "--format", format] for format in ("sarif", "markdown", "rdjson", "review", "json", "github")),
]


@given(st.binary(max_size=200) | mutated(), st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=2))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_gives_a_traceback_and_no_gap_passes(
    server: ForkServer, data: bytes, commands: list[list[str]]
) -> None:
    """Whatever a file holds, commands answer plainly, fates add up, and a gap never ends in success."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "src").mkdir()
        (root / "src/a.py").write_text(CODE)
        (root / "in.json").write_bytes(data)

        def awf(*arguments: str) -> Any:
            done = server.run(*arguments, cwd=root, env={"PATH": "/usr/bin:/bin", "HOME": name})
            assert "Traceback" not in done.stderr
            assert done.returncode in (0, 1, 2)
            return done

        done = awf("findings", "import", "in.json", "--json")
        answer = json.loads(done.stdout)
        said = json.loads(awf("verdict", "--json").stdout)
        assert sum(answer["dispositions"].values()) == answer["inputs"]
        assert said["complete"] is (done.returncode == 0)
        assert not said["ship"] or (said["complete"] and said["verdict"] in ("PASS", "WARN"))
        if answer["dispositions"]["rejected"] or (answer["reviewers"] and "malformed" in answer["reviewers"].values()):
            assert (done.returncode, said["verdict"] in ("FAIL", "ABORT")) == (1, True)
        for command in commands:
            awf("findings", *command)


def test_a_file_of_another_reviewer_closes_no_gap(awf: Awf, project: Path) -> None:
    """What a reviewer owes is owed by its name, whatever the file of somebody else is called."""
    (project / "broken.json").write_text(json.dumps(EMPTY)[:-20])
    assert imported(awf, "broken.json")[0] == 1
    (project / "security.json").write_text(json.dumps({**EMPTY, "reviewer": "style"}))
    imported(awf, "security.json")
    assert verdict(awf)[1]["complete"] is False
    (project / "fine.json").write_text(json.dumps(EMPTY))
    imported(awf, "fine.json")
    assert verdict(awf)[1]["complete"] is True
