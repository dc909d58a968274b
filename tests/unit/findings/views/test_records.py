"""`.wystack/` has a file for each finding and each pass; what people change there comes back as events."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.findings.strategies import ledgers

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import FieldsEdited, FindingRaised, StateChanged
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState
from pipeline.findings.views.record_store import Trust
from pipeline.findings.views.records import SUGGESTION, RecordDirectory, render
from pipeline.findings.views.stamps import Stamps

AT = "2026-06-01T00:00:00Z"


def a_finding(number: int = 1, **fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": f"fnd_{number:08x}",
        "signature": f"sha256:{number}",
        "title": "A title",
        "impact": "It breaks.",
        "category": "bug",
        "severity": "high",
        "confidence": {"value": 75},
        "locations": [{"path": f"{number}.py", "start": 1}],
        "sources": ["qa"],
        "pass_id": "REV-1-abc",
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding.model_validate(known | fields)


def later(number: int = 1, **fields: Any) -> Finding:
    """A finding to which something happened."""
    return a_finding(number, history=[{"at": AT, "what": "edited"}], **fields)


def ledger_of(*found: Finding) -> Ledger:
    return Ledger(FindingRaised(at=AT, finding=finding) for finding in found)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".wystack").mkdir()
    return tmp_path


def file_of(root: Path, finding: Finding) -> Path:
    return root / ".wystack" / "findings" / f"{finding.id}.json"


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_without_a_workspace_nothing_is_written_and_that_is_said_once(tmp_path: Path) -> None:
    """000-03, 000-07: no directory, no file, and one line however often one writes."""
    workspace = RecordDirectory(tmp_path)
    assert workspace.read_edits(ledger_of(a_finding()), at=AT) == ViewEdits()
    first = workspace.write_findings([a_finding(1), a_finding(2)], at=AT)
    second = workspace.write_pass({"id": "REV-1-abc"})
    assert (first.suggestion, second.suggestion, workspace.suggestion()) == (SUGGESTION, "", "")
    assert "\n" not in SUGGESTION
    assert SUGGESTION.startswith("No workspace record store — review record skipped.")
    assert (first.paths, second.paths, list(tmp_path.iterdir())) == ((), (), [])


def test_every_finding_has_a_file_of_its_own(root: Path) -> None:
    """000-02, 000-53: a hundred and more findings are that many files, each named by its id, for git and for people."""
    workspace = RecordDirectory(root)
    written = workspace.write_findings([a_finding(number) for number in range(120)], at=AT)
    assert len(written.paths) == 120
    assert workspace.suggestion() == ""
    for path in written.paths:
        text = path.read_text()
        assert json.loads(text)["findingId"] == path.stem
        assert text.startswith('{\n  "schemaVersion": 1,\n')
        assert text.endswith("}\n")
    assert {path.parent for path in written.paths} == {root / ".wystack" / "findings"}


def test_only_what_changed_is_written(root: Path) -> None:
    """A second write of the same writes nothing."""
    workspace = RecordDirectory(root)
    workspace.write_findings([a_finding(1), a_finding(2)], at=AT)
    written = workspace.write_findings([a_finding(1), later(2, title="Another")], at=AT)
    assert written.paths == (file_of(root, a_finding(2)),)


@given(ledgers(4))
@settings(max_examples=25, deadline=None)
def test_what_is_left_alone_changes_nothing(found: list[Finding]) -> None:
    """GetPut through files: whatever the findings, and even when the ledger has moved on since."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".wystack").mkdir()
        workspace = RecordDirectory(Path(folder))
        ledger = ledger_of(*found)
        workspace.write_findings(ledger.findings.values(), at=AT)
        assert workspace.read_edits(ledger, at=AT) == ViewEdits()
        for finding in found:
            ledger.apply(StateChanged(at=AT, id=finding.id, state=FindingState.UNCERTAIN, by="user"))
            ledger.apply(FieldsEdited(at=AT, id=finding.id, by="user", changes={"title": "Another"}))
        assert workspace.read_edits(ledger, at=AT) == ViewEdits()
        assert len(workspace.write_findings(ledger.findings.values(), at=AT).paths) == len(found)


def test_triage_in_a_file_is_an_event(root: Path) -> None:
    """000-42, 000-14: a person's triage comes back; the records of passes are not touched by it."""
    workspace, finding = RecordDirectory(root), a_finding()
    workspace.write_pass({"id": "REV-1-abc"})
    before = (root / ".wystack" / "reviews" / "REV-1-abc.json").read_bytes()
    workspace.write_findings([finding], at=AT)
    entry = {"at": AT, "status": "false-positive", "note": "covered", "by": "user"}
    edit(file_of(root, finding), status="false-positive", triage_history=[entry], scope="src")
    ledger = ledger_of(finding)
    edits = workspace.read_edits(ledger, at=AT)
    assert ([type(event) for event in edits.events], edits.problems) == ([FieldsEdited, StateChanged], ())
    assert {event.by for event in edits.events if isinstance(event, FieldsEdited | StateChanged)} == {"file"}
    for event in edits.events:
        ledger.apply(event)
    assert ledger.findings[finding.id].state is FindingState.FALSE_POSITIVE
    assert workspace.write_findings(ledger.findings.values(), at=AT).problems == ()
    assert workspace.read_edits(ledger, at=AT) == ViewEdits()
    told = {**entry, "by": "orchestrator", "x_by": "file"}
    assert json.loads(file_of(root, finding).read_text())["triage_history"] == [told]
    assert (root / ".wystack" / "reviews" / "REV-1-abc.json").read_bytes() == before


def test_unknown_keys_of_a_file_survive(root: Path) -> None:
    """Unknown keys survive: what somebody added stays in the file when the finding changes."""
    workspace, finding = RecordDirectory(root), a_finding()
    workspace.write_findings([finding], at=AT)
    edit(file_of(root, finding), jira="ABC-1")
    ledger = ledger_of(finding)
    for event in workspace.read_edits(ledger, at=AT).events:
        ledger.apply(event)
    ledger.apply(FieldsEdited(at=AT, id=finding.id, by="user", changes={"title": "Another"}))
    assert workspace.write_findings(ledger.findings.values(), at=AT).paths
    shown = json.loads(file_of(root, finding).read_text())
    assert (shown["jira"], shown["title"]) == ("ABC-1", "Another")
    assert workspace.read_edits(ledger, at=AT) == ViewEdits()


def test_a_file_that_somebody_changed_is_read_before_it_is_written(root: Path) -> None:
    """The edit is handed back, and the file is left until it was applied; other files are written."""
    workspace = RecordDirectory(root)
    workspace.write_findings([a_finding(1), a_finding(2)], at=AT)
    edit(file_of(root, a_finding(1)), scope="src/auth")
    edited = file_of(root, a_finding(1)).read_bytes()
    written = workspace.write_findings([later(1, title="New"), later(2, title="New")], at=AT)
    assert written.paths == (file_of(root, a_finding(2)),)
    assert [event.changes for event in written.events if isinstance(event, FieldsEdited)] == [{"scope": "src/auth"}]
    assert file_of(root, a_finding(1)).read_bytes() == edited


def test_an_illegal_edit_is_told_and_taken_back(root: Path) -> None:
    """000-43: what may not be is reported, and the file says again what is so."""
    workspace, finding = RecordDirectory(root), a_finding()
    workspace.write_findings([finding], at=AT)
    edit(file_of(root, finding), status="fixed")
    edits = workspace.read_edits(ledger_of(finding), at=AT)
    assert (edits.events, len(edits.problems), len(edits.told)) == ((), 1, 1)
    written = workspace.write_findings([finding], at=AT)
    assert (written.paths, written.problems) == ((file_of(root, finding),), ()), "it was reported once"
    assert file_of(root, finding).read_bytes() == render(finding)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schemaVersion": 1,', "cannot be read"),
        ("<<<<<<< HEAD\n{}\n", "cannot be read"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("9", "not a JSON object"),
        ('{"schemaVersion": 2, "findingId": "fnd_00000001"}', "newer"),
        ('{"schemaVersion": 1, "findingId": "fnd_other"}', "not its name"),
        ('{"title": "a", "title": "b"}', "duplicate"),
        ('{"a":' * 80 + "1" + "}" * 80, "deep"),
    ],
)
def test_a_file_that_cannot_be_read_is_moved_aside_and_put_back(root: Path, text: str, says: str) -> None:
    """The record says again what is so, and what somebody may want to fix is kept beside it."""
    workspace, finding = RecordDirectory(root), a_finding()
    workspace.write_findings([finding], at=AT)
    path = file_of(root, finding)
    path.write_text(text)
    edits = workspace.read_edits(ledger_of(finding), at=AT)
    assert (edits.events, says in edits.problems[0]) == ((), True)
    workspace.write_findings([finding], at=AT)
    assert path.read_bytes() == render(finding)
    assert path.with_name(f"{path.name}.unreadable-1").read_text() == text


@pytest.mark.parametrize("state", ["open", "false_positive", "wont_fix", "verified_fixed", "fix_claimed"])
def test_a_record_that_the_ledger_does_not_know_is_taken_in_as_open(root: Path, state: str) -> None:
    """000-06, 000-23, 0-37: after a fresh clone the files are all there is; what was done nobody here knows."""
    finding = a_finding(state=state, severity="info")
    RecordDirectory(root).write_findings([finding], at=AT)
    (event,) = RecordDirectory(root).read_edits(Ledger(), at=AT).events
    ledger = Ledger([event])
    known = ledger.findings[FindingId("fnd_00000001")]
    assert (known.state, known.severity, known.title) == (FindingState.OPEN, "info", "A title")
    RecordDirectory(root).write_findings(ledger.findings.values(), at=AT)
    assert RecordDirectory(root).read_edits(ledger, at=AT) == ViewEdits()
    assert json.loads(file_of(root, finding).read_text())["status"] == "open"


def test_a_foreign_file_that_is_no_record_is_told(root: Path) -> None:
    """000-21: what cannot be taken in is named; a file with another name is nobody's."""
    folder = root / ".wystack" / "findings"
    folder.mkdir()
    (folder / "fnd_1.json").write_text('{"findingId": "fnd_1"}')
    (folder / "README.json").write_text("{")
    (folder / ".fnd_2.json.tmp").write_text("{")
    edits = RecordDirectory(root).read_edits(Ledger(), at=AT)
    assert edits.events == ()
    (problem,) = edits.problems
    assert "fnd_1.json" in problem


def test_a_pass_is_written_once(root: Path) -> None:
    """000-01, 000-14, 000-16: named by its id; another pass of the same second and commit takes the next second."""
    workspace = RecordDirectory(root)
    first = workspace.write_pass({"id": "REV-1767322800-abc1234", "round": 1})
    again = workspace.write_pass({"id": "REV-1767322800-abc1234", "round": 1})
    other = workspace.write_pass({"id": "REV-1767322800-abc1234", "round": 2})
    assert [path.name for path in first.paths] == ["REV-1767322800-abc1234.json"]
    assert again.paths == first.paths
    assert [path.name for path in other.paths] == ["REV-1767322801-abc1234.json"]
    assert [json.loads(path.read_text())["round"] for path in (*first.paths, *other.paths)] == [1, 2]
    assert json.loads(other.paths[0].read_text())["id"] == "REV-1767322801-abc1234"


@pytest.mark.parametrize("id", ["../REV-1-a", "REV-1", "REV-x-abc", "REV-1-../../a", ""])
def test_an_id_that_is_no_name_is_refused(root: Path, id: str) -> None:
    """000-01: no id leads out of the directory."""
    with pytest.raises(AwfError, match="no id of a pass"):
        RecordDirectory(root).write_pass({"id": id})


@pytest.mark.parametrize("name", ["", "findings", "reviews"])
def test_a_directory_that_leads_out_of_the_repository_is_moved_aside(tmp_path: Path, name: str) -> None:
    """000-37: a link out is neither read nor written through; it makes way for a directory."""
    root, away = tmp_path / "repo", tmp_path / "away"
    away.mkdir()
    root.mkdir()
    if name:
        (root / ".wystack").mkdir()
        (root / ".wystack" / name).symlink_to(away)
    else:
        (root / ".wystack").symlink_to(away)
    workspace = RecordDirectory(root)
    if name != "reviews":
        assert workspace.read_edits(Ledger(), at=AT).problems
    written = [workspace.write_findings([a_finding()], at=AT), workspace.write_pass({"id": "REV-1-abc"})]
    assert sum(len(one.problems) for one in written) == 1
    assert list(away.rglob("*")) == []
    assert [path.name for one in written for path in one.paths] == ["fnd_00000001.json", "REV-1-abc.json"]


@pytest.mark.parametrize("kind", ["link", "loop", "zero", "fifo", "directory"])
def test_what_is_not_a_file_is_moved_aside(root: Path, tmp_path: Path, kind: str) -> None:
    """000-37: neither read nor written through, wherever it leads."""
    workspace, path = RecordDirectory(root), file_of(root, a_finding())
    workspace.write_findings([a_finding()], at=AT)
    path.unlink()
    (tmp_path / "secret").write_text("{}")
    made: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "secret"),
        "loop": lambda: path.symlink_to(path),
        "zero": lambda: path.symlink_to("/dev/zero"),
        "fifo": lambda: os.mkfifo(path),
        "directory": path.mkdir,
    }
    made[kind]()
    edits = workspace.read_edits(ledger_of(a_finding()), at=AT)
    assert (edits.events, len(edits.problems), len(edits.told)) == ((), 1, 1)
    workspace.write_findings([a_finding()], at=AT)
    assert path.read_bytes() == render(a_finding())
    assert os.path.lexists(path.with_name(f"{path.name}.unreadable-1"))
    assert (tmp_path / "secret").read_text() == "{}"


def test_many_records_that_nobody_touched_are_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0-38: another process looks at times and sizes alone."""
    store, found = root / ".awf", [a_finding(number) for number in range(100)]
    store.mkdir()
    RecordDirectory(root, Stamps(store, root)).write_findings(found, at=AT)
    read = files.read_file

    def watched(path: Path, most: int = files.LARGEST) -> bytes | None:
        assert not path.name.startswith("fnd_")
        return read(path, most)

    monkeypatch.setattr(files, "read_file", watched)
    again = RecordDirectory(root, Stamps(store, root))
    assert again.read_edits(ledger_of(*found), at=AT) == ViewEdits()


COPY = [
    sys.executable,
    "-c",
    "import json, sys, pathlib\n"
    "record = json.load(sys.stdin)\n"
    "name = record.get('findingId') or record['id']\n"
    "there = sorted(str(p) for p in pathlib.Path('.wystack').glob('*/*.json'))\n"
    "pathlib.Path('store-' + name + '.json').write_text(json.dumps(there))",
]


def bind(root: Path, command: Any) -> Trust:
    """Bind a command, and trust it."""
    (root / ".wystack" / "storage.json").write_text(json.dumps({"bindings": {"record.write": command}}))
    words = shlex.join(command) if isinstance(command, list) and all(isinstance(one, str) for one in command) else ""
    return Trust((words,), {**os.environ, "SECRET_TOKEN": "s3cr3t-s3cr3t"})


def test_a_project_s_own_store_gets_every_record_first(root: Path) -> None:
    """000-04: through the binding first, and the file is kept as well; what did not change is not handed over."""
    workspace = RecordDirectory(root, trust=bind(root, COPY))
    findings = workspace.write_findings([a_finding()], at=AT)
    passed = workspace.write_pass({"id": "REV-1-abc"})
    assert (findings.problems, passed.problems) == ((), ())
    assert json.loads((root / "store-fnd_00000001.json").read_text()) == []
    assert json.loads((root / "store-REV-1-abc.json").read_text()) == [".wystack/findings/fnd_00000001.json"]
    assert file_of(root, a_finding()).read_bytes() == render(a_finding())
    (root / "store-fnd_00000001.json").unlink()
    workspace.write_findings([a_finding()], at=AT)
    assert not (root / "store-fnd_00000001.json").exists()


def test_a_program_that_the_user_did_not_name_is_not_run(root: Path) -> None:
    """0-39: not with other words either; it is reported once, and the files are written."""
    trust = bind(root, [*COPY, "and", "more"])
    bind(root, COPY)
    workspace = RecordDirectory(root, trust=trust)
    first = workspace.write_findings([a_finding()], at=AT)
    second = workspace.write_pass({"id": "REV-1-abc"})
    assert (len(first.paths), len(second.paths)) == (1, 1)
    assert [len(first.problems), len(second.problems)] == [1, 0]
    assert "record-write" in first.problems[0]
    assert not list(root.glob("store-*"))


def test_a_trusted_program_gets_no_keys(root: Path) -> None:
    """0-39: it runs in a cleaned environment."""
    code = "import os, pathlib, sys; sys.stdin.read(); pathlib.Path('env').write_text(' '.join(os.environ))"
    RecordDirectory(root, trust=bind(root, [sys.executable, "-c", code])).write_findings([a_finding()], at=AT)
    names = (root / "env").read_text().split()
    assert "PATH" in names
    assert "SECRET_TOKEN" not in names


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no room')"], "no room"),
        (["/no/such/program"], "could not be started"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "longer than 0.5 seconds"),
        ("rm -rf /", "list of texts"),
        ([], "list of texts"),
        ([1], "list of texts"),
    ],
)
def test_a_store_that_fails_is_told_once_and_the_files_are_written(root: Path, command: Any, says: str) -> None:
    """000-04b: the fallback is recorded with its reason, and nothing is lost."""
    trust = bind(root, command)
    started = time.monotonic()
    written = RecordDirectory(root, trust=trust, timeout=0.5).write_findings(
        [a_finding(number) for number in range(5)], at=AT
    )
    assert time.monotonic() - started < 20
    assert len(written.paths) == 5
    (problem,) = written.problems
    assert problem.startswith("fallback.used: ")
    assert says in problem


def test_what_a_slow_store_started_is_ended_with_it(root: Path) -> None:
    """A program that hangs with a child of its own keeps nobody waiting."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    trust = bind(root, [sys.executable, "-c", code])
    started = time.monotonic()
    assert RecordDirectory(root, trust=trust, timeout=0.5).write_pass({"id": "REV-1-abc"}).problems
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("text", ["{", '{"record.write": 3}'])
def test_settings_that_make_no_sense_are_told(root: Path, text: str) -> None:
    """000-04b: a binding that cannot be read is one that failed."""
    (root / ".wystack" / "storage.json").write_text(text)
    written = RecordDirectory(root).write_findings([a_finding()], at=AT)
    assert (len(written.paths), len(written.problems)) == (1, 1)


@pytest.mark.parametrize("text", ["{}", "[]", '{"bindings": {"record.read": ["x"]}}'])
def test_other_settings_are_not_ours(root: Path, text: str) -> None:
    """000-04: without the binding there is nothing to tell."""
    (root / ".wystack" / "storage.json").write_text(text)
    assert RecordDirectory(root).write_findings([a_finding()], at=AT).problems == ()


def test_two_processes_at_once_lose_nothing(root: Path) -> None:
    """Passes of the same second from several processes are all there."""
    code = (
        "import sys; from pathlib import Path; from pipeline.findings.views.records import RecordDirectory\n"
        "workspace = RecordDirectory(Path(sys.argv[1]))\n"
        "for number in range(8): workspace.write_pass({'id': 'REV-5-abc', 'who': sys.argv[2], 'number': number})"
    )
    programs = [subprocess.Popen([sys.executable, "-c", code, str(root), who]) for who in "ab"]
    assert [program.wait(60) for program in programs] == [0, 0]
    records = [json.loads(path.read_text()) for path in (root / ".wystack" / "reviews").glob("*.json")]
    assert {(one["who"], one["number"]) for one in records} == {(who, number) for who in "ab" for number in range(8)}
    assert len(records) == 16
