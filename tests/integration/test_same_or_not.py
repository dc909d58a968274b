"""Same or not, and whose word counts: through `awf findings import` with small reports of several sources."""

import json
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.conftest import Awf
from tests.integration.forking import ForkServer
from tests.integration.test_findings_cli import CODE, item, listed, project, review, taken, verdict

__all__ = ["project"]
LINE = 'os.system("rm " + name)'


def sarif(path: Path, message: str, line: int = 5, tool: str = "lint", **more: Any) -> str:
    place = {"artifactLocation": {"uri": "src/a.py"}, "region": {"startLine": line, "snippet": {"text": LINE}}}
    result = {"ruleId": "R1", "level": "error", "message": {"text": message}, **more}
    run = {
        "tool": {"driver": {"name": tool}},
        "results": [{**result, "locations": [{"physicalLocation": place}]}] if message else [],
    }
    path.write_text(json.dumps({"version": "2.1.0", "runs": [run]}))
    return path.name


def junit(path: Path, message: str, line: int = 5) -> str:
    case = f'<testcase classname="t" name="check" file="src/a.py" line="{line}">'
    failure = f"<failure message={quoteattr(message)}>{'assertion'}</failure>"
    path.write_text(f'<testsuite name="s" tests="1" failures="1">{case}{failure}</testcase></testsuite>')
    return path.name


def mypy(path: Path, message: str, line: int = 5) -> str:
    path.write_text(f"src/a.py:{line}: error: {message}  [misc]\nFound 1 error in 1 file (checked 1 source file)\n")
    return path.name


def reviewed(path: Path, message: str, line: int = 5, **more: Any) -> str:
    return review(path, item(message, line, LINE, **more), reviewer="correctness")


SOURCES = {"sarif": sarif, "mypy": mypy, "junit": junit, "review": reviewed}
FILES = {"sarif": "lint.sarif", "mypy": "types.txt", "junit": "tests.xml", "review": "review.json"}


@pytest.mark.parametrize("first", SOURCES)
@pytest.mark.parametrize("second", SOURCES)
def test_different_sources_on_one_line_are_different_findings(awf: Awf, project: Path, first: str, second: str) -> None:
    """0-21: without a word in common the same line is no evidence, in one pass or in two."""
    if first == second:
        return
    one = SOURCES[first](project / FILES[first], "Unused variable shadowed")
    two = SOURCES[second](project / FILES[second], "Argument has incompatible type")
    taken(awf, one)
    assert len(taken(awf, two)["new"]) == 1
    assert {row["state"] for row in listed(awf, "--state", "all")} == {"open"}
    assert len(listed(awf, "--state", "all")) == 2
    assert len(taken(awf, one, two, "--store", "both")["new"]) == 2


def test_the_fingerprint_of_a_line_makes_two_tools_no_one(awf: Awf, project: Path) -> None:
    """0-21: a hash of the line that two tools give is the same line, and no more."""
    same: dict[str, Any] = {"partialFingerprints": {"primaryLocationLineHash": "abc:1"}}
    taken(awf, sarif(project / "a.sarif", "Unused variable shadowed", tool="one", **same))
    assert len(taken(awf, sarif(project / "b.sarif", "Command built from input", tool="two", **same))["new"]) == 1


def test_one_source_may_report_two_defects_on_one_line(awf: Awf, project: Path) -> None:
    """0-21: nor do the same line and the default category make one source's reports one."""
    taken(awf, reviewed(project / "review.json", "Unused variable shadowed"))
    assert len(taken(awf, reviewed(project / "review.json", "Argument has incompatible type"))["new"]) == 1


def test_the_same_defect_by_two_sources_is_one(awf: Awf, project: Path) -> None:
    """0-21: what two sources say in much the same words of one line is recognised."""
    taken(awf, sarif(project / "lint.sarif", "Shell command injection from user input"))
    again = taken(awf, reviewed(project / "review.json", "User input allows shell command injection"))
    assert (again["new"], len(listed(awf))) == ([], 1)


@pytest.mark.parametrize("off", [0, 1])
def test_an_edited_line_keeps_its_finding(awf: Awf, project: Path, off: int) -> None:
    """0-24: the file was edited, the defect is still there; the report is reworded, and may be a line off."""
    (old,) = taken(awf, reviewed(project / "review.json", "Command injection in remove"))["new"]
    changed = ["import shlex", *CODE.replace(LINE, 'os.system("rm -f " + name)').splitlines()]
    (project / "src/a.py").write_text("\n".join(changed) + "\n")
    told = item("Unsafe command injection", 6 + off, changed[5 + off].strip())
    again = taken(awf, review(project / "review.json", told, reviewer="correctness"))
    assert (again["new"], [row["id"] for row in listed(awf)]) == ([], [old])


@pytest.mark.parametrize(("status", "state"), [("wont-fix", "wont_fix"), ("fixed", "verified_fixed")])
def test_a_guess_inherits_nothing_and_reopens_nothing(awf: Awf, project: Path, status: str, state: str) -> None:
    """0-22: what may be a settled finding is new, names it wherever it is shown, and leaves it alone."""
    (old,) = taken(awf, reviewed(project / "review.json", "Command injection in remove"))["new"]
    assert awf("findings", "triage", "1", "--as", status, "--note", "looked").returncode == 0
    changed = CODE.replace(LINE, 'subprocess.run("rm " + name)')
    (project / "src/a.py").write_text(changed)
    quote: dict[str, Any] = {"evidence": ['src/a.py:5 -- subprocess.run("rm " + name)']}
    done = taken(awf, reviewed(project / "review.json", "Command is built by hand", **quote))
    (new,) = done["new"]
    assert (done["reopened"], done["dispositions"]["suppressed"]) == ([], 0)
    rows = {row["id"]: row for row in listed(awf, "--state", "all")}
    assert (rows[old]["state"], rows[new]["state"], rows[new]["may_be"]) == (state, "open", [old])
    assert verdict(awf, "--fail-on", "warn")[0] == 1
    for shown in (["list"], ["show", "2"], ["why", "2"], ["walk", "--route", "each", "--answers", "skip.json"]):
        (project / "skip.json").write_text('["skip"]')
        assert "#1" in awf("findings", *shown).stdout, shown


@pytest.mark.parametrize(("status", "state"), [("wont-fix", "wont_fix"), ("fixed", "verified_fixed")])
def test_another_defect_on_a_settled_line_is_new(awf: Awf, project: Path, status: str, state: str) -> None:
    """0-21, 0-22: two tools in two passes on one line are two findings, also after somebody settled the first."""
    (old,) = taken(awf, sarif(project / "lint.sarif", "Unused variable shadowed"))["new"]
    assert awf("findings", "triage", "1", "--as", status, "--note", "looked").returncode == 0
    done = taken(awf, mypy(project / "types.txt", "Argument has incompatible type"))
    (new,) = done["new"]
    assert (done["reopened"], done["dispositions"]["suppressed"]) == ([], 0)
    rows = {row["id"]: row["state"] for row in listed(awf, "--state", "all")}
    assert rows == {old: state, new: "open"}


THREE = {
    "security": "Command injection through the name",
    "correctness": "Command built from the name allows injection",
    "performance": "Injection: the name is part of the command",
}


def reported_by_three(project: Path, *names: str) -> list[str]:
    """A review of each of three reviewers, who put one defect in other words."""
    return [
        review(project / f"{name}.json", item(title, 5, LINE), reviewer=name)
        for name, title in THREE.items()
        if not names or name in names
    ]


def test_three_reviewers_of_one_defect_are_one_line_of_work(awf: Awf, project: Path) -> None:
    """0-20: one line in the list with three reviewers, each with its own text; the same pass again adds nothing."""
    done = taken(awf, *reported_by_three(project))
    assert (done["dispositions"]["surviving"], done["dispositions"]["merged"]) == (1, 2)
    (row,) = listed(awf)
    assert (sorted(row["sources"]), row["agreement"]) == (sorted(THREE), 3)
    assert len(row["members"]) == 2
    shown = json.loads(awf("findings", "show", str(row["number"]), "--json").stdout)
    assert {shown["title"], *(member["title"] for member in shown["members"])} == set(THREE.values())
    taken(awf, *reported_by_three(project))
    assert [again["id"] for again in listed(awf)] == [row["id"]]


@pytest.mark.parametrize("format", ["sarif", "rdjson", "github", "markdown", "json"])
def test_an_export_has_one_entry_for_a_cluster_and_the_words_of_each_member(
    awf: Awf, project: Path, format: str
) -> None:
    """0-20: nothing is lost by clustering, whichever program reads the findings next."""
    taken(awf, *reported_by_three(project))
    text = awf("findings", "export", "--format", format).stdout
    assert [title for title in THREE.values() if title not in text] == []
    if format in ("sarif", "rdjson"):
        (project / "export.json").write_text(text)
        done = taken(awf, "export.json", "--store", "fresh")
        assert (done["inputs"], len(done["new"])) == (1, 1)


def test_what_a_person_split_stays_split(awf: Awf, project: Path) -> None:
    """0-20: a member that was separated is a line of work of its own, also when all three report again."""
    taken(awf, *reported_by_three(project))
    (row,) = listed(awf)
    assert awf("findings", "split", row["members"][0]).returncode == 0
    assert len(listed(awf)) == 2
    taken(awf, *reported_by_three(project))
    assert len(listed(awf)) == 2


def test_why_does_not_say_that_reviewers_agree_once_they_are_separated(awf: Awf, project: Path) -> None:
    """0-20: the reason for a raised confidence is told only while it holds."""
    names = [
        review(project / f"{name}.json", item(title, 5, LINE, confidence=75), reviewer=name)
        for name, title in THREE.items()
    ]
    taken(awf, *names)
    (row,) = listed(awf)
    assert "raised from 75: 3 independent" in awf("findings", "why", row["id"]).stdout
    assert awf("findings", "split", *row["members"]).returncode == 0
    assert "raised from" not in awf("findings", "why", row["id"]).stdout


def test_a_dismissed_cluster_stays_dismissed(awf: Awf, project: Path) -> None:
    """0-20, 0-22: a dismissal of a cluster covers its members, and nothing else."""
    taken(awf, *reported_by_three(project))
    (row,) = listed(awf)
    triage = ("findings", "triage", str(row["number"]), "--as", "false-positive", "--note", "looked")
    assert awf(*triage).returncode == 0
    for name in THREE:
        done = taken(awf, *reported_by_three(project, name))
        assert (done["new"], done["reopened"], done["dispositions"]["suppressed"]) == ([], [], 1), name
    assert listed(awf) == []


# --- whose word counts -------------------------------------------------------------------------------------------


def test_the_worse_rating_of_two_sources_is_kept(awf: Awf, project: Path) -> None:
    """0-04, 4.3: a reviewer makes a tool's rating neither milder nor a mere suggestion; the tool itself may."""
    taken(awf, sarif(project / "lint.sarif", "Command injection in os.system call"))
    milder: dict[str, Any] = {"severity": "P3", "autofix_class": "advisory", "pre_existing": True}
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call", **milder))
    (row,) = listed(awf)
    assert (row["severity"], row["gate"], row["sources"]) == ("high", "must", ["lint", "correctness"])
    assert verdict(awf)[1]["verdict"] == "WARN"
    worse: dict[str, Any] = {"severity": "P0"}
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call", **worse))
    assert [(row["severity"], row["gate"]) for row in listed(awf)] == [("critical", "must")]


def test_a_clean_review_does_not_close_what_a_tool_reports(awf: Awf, project: Path) -> None:
    """0-04: a reviewer who saw it too and is silent now makes it neither absent nor fixed, though its line changed."""
    taken(awf, sarif(project / "lint.sarif", "Command injection in os.system call"))
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call"))
    (project / "src/a.py").write_text(CODE.replace(LINE, "pass"))
    done = taken(awf, review(project / "review.json", reviewer="correctness"))
    assert done["absent"] == []
    assert [row["state"] for row in listed(awf)] == ["open"]
    assert taken(awf, sarif(project / "lint.sarif", ""), "review.json")["absent"] != []


@pytest.mark.parametrize("word", ["fixed", "wrong, it is harmless"])
def test_a_fresh_look_closes_nothing_that_a_tool_still_reports(awf: Awf, project: Path, word: str) -> None:
    """0-04: a reviewer's word counts only once the tool has looked again and no longer reports the finding."""
    taken(awf, sarif(project / "lint.sarif", "Command injection in os.system call"))
    (project / "script.json").write_text(json.dumps({"revalidate": [f"[FINDING 1: {word}]"]}))
    look = ("findings", "revalidate", "1", "--script", "script.json", "--json")
    assert awf(*look).stdout
    assert [row["state"] for row in listed(awf)] == ["uncertain"]
    taken(awf, sarif(project / "lint.sarif", ""))
    assert awf(*look).stdout
    (row,) = listed(awf, "--state", "all")
    assert row["state"] == ("verified_fixed" if word == "fixed" else "false_positive")


WORDS = st.text("bcdfghklmnprstvw", min_size=5, max_size=9)


@st.composite
def strangers(draw: st.DrawFn) -> tuple[str, str]:
    """Two titles whose words do not even begin alike."""
    words = draw(st.lists(WORDS, min_size=4, max_size=8, unique_by=lambda word: word[:5]))
    return " ".join(words[::2]), " ".join(words[1::2])


@given(
    titles=strangers(),
    kinds=st.permutations(sorted(SOURCES)),
    lines=st.tuples(st.integers(1, 8), st.integers(0, 3)),
    apart=st.booleans(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_strangers_are_never_fewer_than_two(
    server: ForkServer, titles: tuple[str, str], kinds: list[str], lines: tuple[int, int], *, apart: bool
) -> None:
    """0-21: two findings of different sources with no content word in common stay two, in one pass or in two."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "src").mkdir()
        (root / "src/a.py").write_text(CODE)
        at = (lines[0], lines[0] + lines[1])
        told = zip(kinds[:2], titles, at, strict=True)
        files = [SOURCES[kind](root / FILES[kind], title, line) for kind, title, line in told]
        for given_files in [[one] for one in files] if apart else [files]:
            done = server.run("findings", "import", *given_files, cwd=root, env={"PATH": "/usr/bin:/bin", "HOME": name})
            assert done.returncode == 0, done.stdout
        listing = server.run("findings", "list", "--json", cwd=root, env={"PATH": "/usr/bin:/bin", "HOME": name})
        assert len(json.loads(listing.stdout)) >= 2
