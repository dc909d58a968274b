"""Same or not, one line of work or two, and whose word counts: small reports of several sources, imported."""

import json
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.conftest import Awf
from tests.integration.forking import ForkServer
from tests.integration.test_findings_cli import CODE, edit_status, item, listed, project, review, taken, verdict

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


def members(row: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The reviewers of a line of work, with the severity and the state of what each reported."""
    return {member["reviewer"]: (member["severity"], member["state"]) for member in row["members"]}


def test_different_sources_on_one_line_are_different_findings(awf: Awf, project: Path) -> None:
    """Without a word in common the same line is no evidence, in one pass or in several."""
    titles = ("Unused variable shadowed", "Argument has incompatible type", "Expected list", "Command built by hand")
    told = zip(SOURCES, titles, strict=True)
    files = [SOURCES[kind](project / FILES[kind], title) for kind, title in told]
    for store, passes in (("several", [[name] for name in files]), ("one", [files])):
        for names in passes:
            taken(awf, *names, "--store", store)
        rows = listed(awf, "--state", "all", "--store", store)
        assert [(len(row["members"]), row["state"]) for row in rows] == [(1, "open")] * len(SOURCES)


def test_the_fingerprint_of_a_line_makes_two_tools_no_one(awf: Awf, project: Path) -> None:
    """A hash of the line that two tools give is the same line, and no more."""
    same: dict[str, Any] = {"partialFingerprints": {"primaryLocationLineHash": "abc:1"}}
    taken(awf, sarif(project / "a.sarif", "Unused variable shadowed", tool="one", **same))
    taken(awf, sarif(project / "b.sarif", "Command built from input", tool="two", **same))
    assert [len(row["members"]) for row in listed(awf)] == [1, 1]


def test_one_source_may_report_two_defects_on_one_line(awf: Awf, project: Path) -> None:
    """Nor do the same line and the default category make one source's reports one."""
    taken(awf, reviewed(project / "review.json", "Unused variable shadowed"))
    assert len(taken(awf, reviewed(project / "review.json", "Argument has incompatible type"))["new"]) == 1
    assert len(listed(awf)) == 2


def test_the_same_defect_by_two_sources_is_one_line_of_work(awf: Awf, project: Path) -> None:
    """What two sources say in much the same words of one line is recognised, also in two passes."""
    taken(awf, sarif(project / "lint.sarif", "Shell command injection from user input"))
    taken(awf, reviewed(project / "review.json", "User input allows shell command injection"))
    (row,) = listed(awf)
    assert (row["reviewers"], len(row["members"])) == (["lint", "correctness"], 2)


@pytest.mark.parametrize("off", [0, 1])
def test_an_edited_line_keeps_its_finding(awf: Awf, project: Path, off: int) -> None:
    """The file was edited, the defect is still there; the report is reworded, and may be a line off."""
    (old,) = taken(awf, reviewed(project / "review.json", "Command injection in remove"))["new"]
    changed = ["import shlex", *CODE.replace(LINE, 'os.system("rm -f " + name)').splitlines()]
    (project / "src/a.py").write_text("\n".join(changed) + "\n")
    told = item("Unsafe command injection", 6 + off, changed[5 + off].strip())
    again = taken(awf, review(project / "review.json", told, reviewer="correctness"))
    assert (again["new"], [row["id"] for row in listed(awf)]) == ([], [old])


@pytest.mark.parametrize(("status", "state"), [("wont-fix", "wont_fix"), ("fixed", "verified_fixed")])
def test_a_guess_inherits_nothing_and_reopens_nothing(awf: Awf, project: Path, status: str, state: str) -> None:
    """What may be a settled finding is new, names it wherever it is shown, and leaves it alone."""
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
    """Two tools in two passes on one line are two findings, also after somebody settled the first."""
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
    """One line in the list with three reviewers, each with its own text; the same pass again adds nothing."""
    done = taken(awf, *reported_by_three(project))
    assert (done["dispositions"]["surviving"], done["dispositions"]["merged"]) == (1, 2)
    (row,) = listed(awf)
    assert (sorted(row["reviewers"]), len(row["members"])) == (sorted(THREE), 3)
    shown = json.loads(awf("findings", "show", str(row["number"]), "--json").stdout)
    assert {member["title"] for member in shown["members"]} == set(THREE.values())
    assert taken(awf, *reported_by_three(project))["new"] == []
    assert [again["id"] for again in listed(awf)] == [row["id"]]


def test_an_export_has_the_words_of_every_member(awf: Awf, project: Path) -> None:
    """Nothing is lost in a line of work, whichever program reads the findings next."""
    taken(awf, *reported_by_three(project))
    for form in ("sarif", "rdjson", "github", "markdown", "json", "review"):
        text = unquote(awf("findings", "export", "--format", form).stdout)
        assert [title for title in THREE.values() if title not in text] == [], form


def test_what_a_person_split_stays_split(awf: Awf, project: Path) -> None:
    """What was separated is a line of work of its own, also when all three report again."""
    taken(awf, *reported_by_three(project))
    (row,) = listed(awf)
    assert awf("findings", "split", row["members"][-1]["id"]).returncode == 0
    assert sorted(len(line["members"]) for line in listed(awf)) == [1, 2]
    assert taken(awf, *reported_by_three(project))["new"] == []
    assert sorted(len(line["members"]) for line in listed(awf)) == [1, 2]


def test_a_dismissed_line_of_work_stays_dismissed(awf: Awf, project: Path) -> None:
    """A person's decision on the number covers all its members, and nothing else."""
    taken(awf, *reported_by_three(project))
    (row,) = listed(awf)
    triage = ("findings", "triage", str(row["number"]), "--as", "false-positive", "--note", "looked")
    assert awf(*triage).returncode == 0
    for name in THREE:
        done = taken(awf, *reported_by_three(project, name))
        assert (done["new"], done["reopened"], done["dispositions"]["suppressed"]) == ([], [], 1), name
    assert listed(awf) == []


# --- whose word counts -------------------------------------------------------------------------------------------


def test_a_line_of_work_is_as_bad_as_its_worst_open_member(awf: Awf, project: Path) -> None:
    """A reviewer makes what a tool reports neither milder nor a mere suggestion; its own finding may become worse."""
    taken(awf, sarif(project / "lint.sarif", "Command injection in os.system call"))
    milder: dict[str, Any] = {"severity": "P3", "autofix_class": "advisory", "pre_existing": True}
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call", **milder))
    (row,) = listed(awf)
    assert (row["severity"], row["gate"]) == ("high", "must")
    assert members(row) == {"lint": ("high", "open"), "correctness": ("info", "open")}
    assert verdict(awf)[1]["verdict"] == "WARN"
    worse: dict[str, Any] = {"severity": "P0"}
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call", **worse))
    assert [(row["severity"], row["gate"]) for row in listed(awf)] == [("critical", "must")]


def test_each_source_closes_only_what_it_reported(awf: Awf, project: Path) -> None:
    """A reviewer's silence closes nothing; the clean list of a tool closes what the tool reported, and not the line."""
    taken(awf, sarif(project / "lint.sarif", "Command injection in os.system call"))
    taken(awf, reviewed(project / "review.json", "Command injection in os.system call"))
    (project / "src/a.py").write_text(CODE.replace(LINE, "pass"))
    assert taken(awf, review(project / "review.json", reviewer="correctness"))["fixed"] == []
    (row,) = listed(awf)
    assert members(row) == {"lint": ("high", "open"), "correctness": ("high", "open")}
    assert len(taken(awf, sarif(project / "lint.sarif", ""), "review.json")["fixed"]) == 1
    (row,) = listed(awf)
    assert members(row) == {"lint": ("high", "verified_fixed"), "correctness": ("high", "open")}
    assert verdict(awf)[1]["verdict"] == "WARN"


def test_a_reviewer_closes_nothing_that_a_tool_reports(awf: Awf, project: Path) -> None:
    """Its "fixed" alone is no ruling; it confirms a claimed fix once the code has changed and the tool is not asked."""
    name = sarif(project / "lint.sarif", "Command injection in os.system call")
    taken(awf, name)
    (project / "src/a.py").write_text(f"{CODE}# changed\n")
    ruling = {"number": 1, "ruling": "fixed", "reason": "it looks fine"}
    given = json.loads((project / review(project / "review.json", reviewer="correctness")).read_text())
    (project / "review.json").write_text(json.dumps({**given, "rulings": [ruling], "reviewed": ["src/a.py: run"]}))
    assert taken(awf, "review.json")["fixed"] == []
    assert [row["state"] for row in listed(awf)] == ["open"]
    edit_status(project, "-5", "fixed")
    assert taken(awf, name, "review.json", "--mode", "verify")["reopened"] == [listed(awf)[0]["id"]]
    edit_status(project, "-5", "fixed")
    taken(awf, "review.json", "--mode", "verify")
    assert [row["state"] for row in listed(awf)] == ["fix_claimed"]  # nothing has changed since the tool listed it
    (project / "src/a.py").write_text(CODE.replace(LINE, "pass"))
    taken(awf, "review.json", "--mode", "verify")  # the tool takes no part in it
    assert [row["state"] for row in listed(awf, "--state", "all")] == ["verified_fixed"]


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
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_strangers_are_never_fewer_than_two(
    server: ForkServer, titles: tuple[str, str], kinds: list[str], lines: tuple[int, int], *, apart: bool
) -> None:
    """Two findings of different sources with no content word in common stay two, in one pass or in two."""
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
