"""`.wystack/` has a record for each finding and each pass; what people change there comes back as events."""

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
from tests.unit.findings.views.sample import AT, LATER, a_finding, a_pass, ledger_of

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import FieldsEdited, StateChanged
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState
from pipeline.findings.views.record_store import Trust
from pipeline.findings.views.records import SUGGESTION, RecordDirectory, render_file
from pipeline.findings.views.stamps import Stamps

ONE = FindingId("fnd_00000001")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".wystack").mkdir()
    return tmp_path


def file_of(root: Path, number: int = 1) -> Path:
    return root / ".wystack" / "findings" / f"fnd_{number:08x}.json"


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def read(records: RecordDirectory, ledger: Ledger) -> ViewEdits:
    return records.read_edits(ledger, AT, "file")


def write(records: RecordDirectory, ledger: Ledger) -> list[str]:
    return records.write_findings(ledger, AT, "file")


def save(store: Path, root: Path, ledger: Ledger) -> None:
    """Write, and note in the store what was written."""
    stamps = Stamps(store, root)
    write(RecordDirectory(root, stamps), ledger)
    stamps.save()


def retitle(ledger: Ledger, *numbers: int, at: str = LATER) -> None:
    for number in numbers:
        id = FindingId(f"fnd_{number:08x}")
        ledger.apply(FieldsEdited(at=at, id=id, by="user", changes={"title": "Another"}))


def titles(root: Path) -> list[str]:
    return [json.loads(path.read_text())["title"] for path in sorted((root / ".wystack/findings").glob("fnd_*.json"))]


def test_without_the_directory_nothing_is_written_and_a_suggestion_is_made_once(tmp_path: Path) -> None:
    """000-03, 000-07: no directory, no file, and one line however often one writes."""
    records, ledger = RecordDirectory(tmp_path), ledger_of(a_finding())
    assert read(records, ledger) == ViewEdits()
    assert (write(records, ledger), records.write_pass({"id": "REV-1-abc"})) == ([], [])
    assert (records.suggestion(), records.suggestion(), list(tmp_path.iterdir())) == (SUGGESTION, "", [])
    assert "\n" not in SUGGESTION
    assert SUGGESTION.startswith("No workspace record store — review record skipped.")


def test_every_finding_has_a_file_of_its_own(root: Path) -> None:
    """000-02, 000-53: more than a hundred findings are that many files, each named by its id."""
    records = RecordDirectory(root)
    assert write(records, ledger_of(*(a_finding(number) for number in range(120)))) == []
    paths = list((root / ".wystack/findings").iterdir())
    assert (len(paths), records.suggestion()) == (120, "")
    for path in paths:
        text = path.read_text()
        assert json.loads(text)["findingId"] == path.stem
        assert text.startswith('{\n  "schemaVersion": 1,\n')
        assert text.endswith("}\n")


def test_only_what_changed_is_written(root: Path) -> None:
    """A file whose finding did not change is not touched; one that was removed is written again."""
    records, ledger = RecordDirectory(root), ledger_of(*map(a_finding, range(1, 4)))
    write(records, ledger)
    before = file_of(root).stat()
    retitle(ledger, 2)
    file_of(root, 3).unlink()
    assert read(records, ledger) == ViewEdits()
    write(records, ledger)
    assert titles(root) == ["A title", "Another", "A title"]
    assert (file_of(root).stat().st_ino, file_of(root).stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@given(ledgers(4))
@settings(max_examples=25, deadline=None)
def test_what_is_left_alone_changes_nothing(found: list[Finding]) -> None:
    """GetPut through files: whatever the findings, also when the ledger has changed since, and whoever reads."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".wystack").mkdir()
        (store := Path(folder, ".awf")).mkdir()
        root, ledger = Path(folder), ledger_of(*found)
        save(store, root, ledger)
        for finding in found:
            ledger.apply(StateChanged(at=AT, id=finding.id, state=FindingState.UNCERTAIN, by="user"))
            ledger.apply(FieldsEdited(at=AT, id=finding.id, by="user", changes={"title": "Another"}))
        for touch in (False, True):  # with its times changed, a file is read, and has the known content
            for path in (root / ".wystack").glob("findings/fnd_*.json") if touch else ():
                os.utime(path, (1, 1))
            records = RecordDirectory(root, Stamps(store, root))
            assert read(records, ledger) == ViewEdits()
        write(records, ledger)
        assert titles(root) == ["Another"] * len(found)


def test_a_file_of_an_earlier_moment_is_updated_and_not_an_edit(root: Path) -> None:
    """As after a checkout of an old branch: nothing in it is taken back, and one line says so."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding(1), a_finding(2))
    write(records, ledger)
    old = {number: file_of(root, number).read_bytes() for number in (1, 2)}
    retitle(ledger, 1, 2)
    ledger.apply(StateChanged(at=LATER, id=ONE, state=FindingState.WONT_FIX, by="user", note="no"))
    write(records, ledger)
    for number, data in old.items():
        file_of(root, number).write_bytes(data)
    edits = read(RecordDirectory(root), ledger)
    assert (edits.events, len(edits.problems), edits.notes) == ((), 1, ())
    write(RecordDirectory(root), ledger)
    assert titles(root) == ["Another", "Another"]
    assert json.loads(file_of(root).read_text())["status"] == "wont-fix"


def test_triage_in_a_file_is_an_event(root: Path) -> None:
    """000-42, 000-14: a person's triage comes back; the records of passes are not touched by it."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding())
    records.write_pass({"id": "REV-1-abc"})
    before = (root / ".wystack" / "reviews" / "REV-1-abc.json").read_bytes()
    write(records, ledger)
    entry = {"at": AT, "status": "false-positive", "note": "covered", "by": "user"}
    edit(file_of(root), status="false-positive", triage_history=[entry], scope="src")
    edits = read(records, ledger)
    assert ([type(event) for event in edits.events], edits.problems) == ([FieldsEdited, StateChanged], ())
    assert {event.by for event in edits.events if isinstance(event, FieldsEdited | StateChanged)} == {"file"}
    for event in edits.events:
        ledger.apply(event)
    assert ledger.findings[ONE].state is FindingState.FALSE_POSITIVE
    assert write(records, ledger) == []
    assert read(records, ledger) == ViewEdits()
    shown = {**entry, "by": "orchestrator", "x_by": "file"}
    assert json.loads(file_of(root).read_text())["triage_history"] == [shown]
    assert (root / ".wystack" / "reviews" / "REV-1-abc.json").read_bytes() == before


def test_unknown_keys_of_a_file_survive(root: Path) -> None:
    """What somebody added stays in the file when the finding changes."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding())
    write(records, ledger)
    edit(file_of(root), jira="ABC-1")
    for event in read(records, ledger).events:
        ledger.apply(event)
    retitle(ledger, 1)
    write(records, ledger)
    shown = json.loads(file_of(root).read_text())
    assert (shown["jira"], shown["title"]) == ("ABC-1", "Another")
    assert read(records, ledger) == ViewEdits()


def test_a_file_that_was_edited_meanwhile_is_not_written_over(root: Path) -> None:
    """An edit after the last reading is left in the file until it is read; other files are written."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding(1), a_finding(2))
    write(records, ledger)
    edit(file_of(root), scope="src/auth")
    edited = file_of(root).read_bytes()
    retitle(ledger, 1, 2, at=AT)
    write(records, ledger)
    assert (file_of(root).read_bytes(), titles(root)) == (edited, ["A title", "Another"])
    changes = [event.changes for event in read(records, ledger).events if isinstance(event, FieldsEdited)]
    assert changes == [{"scope": "src/auth"}]


def test_an_illegal_edit_is_reported_once_and_put_back(root: Path) -> None:
    """000-43, 0-37: byte for byte, and the finding's history says so."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding())
    write(records, ledger)
    before = file_of(root).read_bytes()
    edit(file_of(root), status="fixed")
    edits = read(records, ledger)
    assert (edits.events, len(edits.problems), len(edits.notes)) == ((), 1, 1)
    assert read(records, ledger) == ViewEdits()
    assert (write(records, ledger), file_of(root).read_bytes()) == ([], before)


@pytest.mark.parametrize(
    "text",
    [
        '{"schemaVersion": 1,',
        "<<<<<<< HEAD\n{}\n",
        *("[]", "null", "9"),
        '{"schemaVersion": 2, "findingId": "fnd_00000001"}',
        '{"schemaVersion": 1, "findingId": "fnd_other"}',
        '{"title": "a", "title": "b"}',
        '{"a":' * 80 + "1" + "}" * 80,
    ],
)
def test_a_file_that_is_not_a_record_is_moved_aside(root: Path, text: str) -> None:
    """The record is written again, and what somebody may want to fix is kept beside it."""
    records, ledger = RecordDirectory(root), ledger_of(a_finding())
    write(records, ledger)
    path = file_of(root)
    path.write_text(text)
    edits = read(records, ledger)
    assert (edits.events, len(edits.problems), len(edits.notes)) == ((), 1, 1)
    write(records, ledger)
    assert path.read_bytes() == render_file(ledger.findings[ONE])
    assert path.with_name(f"{path.name}.unreadable-1").read_text() == text


@pytest.mark.parametrize("kind", ["link", "loop", "zero", "fifo", "directory"])
def test_what_is_not_a_file_is_moved_aside(root: Path, tmp_path: Path, kind: str) -> None:
    """000-37: neither read nor written through, wherever it leads."""
    records, path, ledger = RecordDirectory(root), file_of(root), ledger_of(a_finding())
    write(records, ledger)
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
    edits = read(records, ledger)
    assert (edits.events, len(edits.problems), len(edits.notes)) == ((), 1, 1)
    write(records, ledger)
    assert path.read_bytes() == render_file(ledger.findings[ONE])
    assert os.path.lexists(path.with_name(f"{path.name}.unreadable-1"))
    assert (tmp_path / "secret").read_text() == "{}"


@pytest.mark.parametrize("state", ["open", "false_positive", "wont_fix", "verified_fixed", "fix_claimed"])
def test_a_record_that_the_ledger_does_not_know_is_imported_as_open(root: Path, state: str) -> None:
    """000-06, 000-23, 0-37: after a fresh clone the files are all there is; nobody here knows what was done."""
    write(RecordDirectory(root), ledger_of(a_finding(state=state, severity="info")))
    (event,) = read(RecordDirectory(root), Ledger()).events
    ledger = Ledger([event])
    known = ledger.findings[ONE]
    assert (known.state, known.severity, known.title) == (FindingState.OPEN, "info", "A title")
    write(RecordDirectory(root), ledger)
    assert read(RecordDirectory(root), ledger) == ViewEdits()
    assert json.loads(file_of(root).read_text())["status"] == "open"


def test_a_foreign_file_that_is_not_a_record_is_reported_and_left_alone(root: Path) -> None:
    """000-21: a file with another name is not looked at."""
    folder = root / ".wystack" / "findings"
    folder.mkdir()
    (folder / "fnd_1.json").write_text('{"findingId": "fnd_1"}')
    (folder / "README.json").write_text("{")
    (folder / ".fnd_2.json.tmp").write_text("{")
    edits = read(RecordDirectory(root), Ledger())
    (problem,) = edits.problems
    assert (edits.events, "fnd_1.json" in problem) == ((), True)
    assert (folder / "fnd_1.json").read_text() == '{"findingId": "fnd_1"}'


def test_files_that_nobody_touched_are_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0-38: another process compares times and sizes only, when reading and when writing."""
    store, ledger = root / ".awf", ledger_of(*(a_finding(number) for number in range(100)))
    store.mkdir()
    save(store, root, ledger)
    opened: list[str] = []
    read_file = files.read_file

    def watched(path: Path, most: int = files.LARGEST) -> bytes | None:
        opened.append(path.name)
        return read_file(path, most)

    monkeypatch.setattr(files, "read_file", watched)
    again = RecordDirectory(root, Stamps(store, root))
    retitle(ledger, 7)
    assert read(again, ledger) == ViewEdits()
    write(again, ledger)
    assert [name for name in opened if name.startswith("fnd_")] == ["fnd_00000007.json"]


def test_what_changed_is_added_to_the_stamps_until_most_of_them_are_outdated(root: Path) -> None:
    """0-38: a stage with one changed record adds a line to the saved stamps, which do not grow without bound."""
    store, ledger = root / ".awf", ledger_of(*(a_finding(number) for number in range(100)))
    store.mkdir()
    sizes = []
    for number in range(250):
        retitle(ledger, 7)
        save(store, root, ledger)
        (index,) = store.glob("views/*/written.jsonl")
        sizes.append(len(index.read_bytes().splitlines()))
        assert read(RecordDirectory(root, Stamps(store, root)), ledger) == ViewEdits(), number
    assert sizes[:3] == [101, 102, 103]
    assert max(sizes) <= 301
    assert sizes[-1] < 200


@pytest.mark.parametrize("left", ["nothing", "directory", "link"])
def test_stamps_that_cannot_be_added_to_are_written_anew(tmp_path: Path, left: str) -> None:
    """0-38: whatever becomes of the saved stamps meanwhile, the next process knows all of them; no link is followed."""
    stamps, other = Stamps(tmp_path, tmp_path), tmp_path / "other"
    stamps.record("fnd_1.json", (1, 2, 3), "1", "a")
    stamps.save()
    (index,) = tmp_path.glob("views/*/written.jsonl")
    index.rename(other)
    content = other.read_bytes()
    if left == "directory":
        index.mkdir()
    elif left == "link":
        index.symlink_to(other)
    stamps.record("fnd_2.json", (4, 5, 6), "1", "b")
    stamps.save()
    assert sorted(Stamps(tmp_path, tmp_path).files) == ["fnd_1.json", "fnd_2.json"]
    assert other.read_bytes() == content


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 2}', "forged", "cut off", "removed"])
def test_without_sound_stamps_files_are_read_in_full(root: Path, damage: str) -> None:
    """0-38: stamps are a cache; an edit is found and judged the same without them."""
    (store := root / ".awf").mkdir()
    ledger = ledger_of(a_finding())
    save(store, root, ledger)
    (index,) = store.glob("views/*/written.jsonl")
    if damage == "forged":
        index.write_text(index.read_text().replace('"1.', '"9.'))
    elif damage == "cut off":
        index.write_bytes(index.read_bytes()[:-9])
    elif damage == "removed":
        index.unlink()
    else:
        index.write_text(damage)
    edit(file_of(root), status="wont-fix", scope="src")
    edits = read(RecordDirectory(root, Stamps(store, root)), ledger)
    assert ([type(event) for event in edits.events], len(edits.problems)) == ([FieldsEdited], 1)


def test_a_pass_is_written_once(root: Path) -> None:
    """000-01, 000-14, 000-16: named by its id; another pass of the same second and commit gets the next second."""
    records = RecordDirectory(root)
    for round in (1, 1, 2):
        assert records.write_pass({"id": "REV-1767322800-abc1234", "round": round}) == []
    written = [json.loads(path.read_text()) for path in sorted((root / ".wystack/reviews").iterdir())]
    assert [(record["id"], record["round"]) for record in written] == [
        ("REV-1767322800-abc1234", 1),
        ("REV-1767322801-abc1234", 2),
    ]
    assert not records.has_pass(a_pass())


@pytest.mark.parametrize("id", ["../REV-1-a", "REV-1", "REV-x-abc", "REV-1-../../a", ""])
def test_an_id_that_is_not_a_name_is_refused(root: Path, id: str) -> None:
    """000-01: no id leads out of the directory."""
    with pytest.raises(AwfError):
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
    records = RecordDirectory(root)
    if name != "reviews":
        assert read(records, Ledger()).problems
    problems = write(records, ledger_of(a_finding())) + records.write_pass({"id": "REV-1-abc"})
    assert (len(problems), list(away.rglob("*"))) == (1, [])
    assert file_of(root).is_file()
    assert (root / ".wystack/reviews/REV-1-abc.json").is_file()


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
    """000-04: the file is written as well; what did not change is not handed over."""
    records, ledger = RecordDirectory(root, trust=bind(root, COPY)), ledger_of(a_finding())
    assert write(records, ledger) + records.write_pass({"id": "REV-1-abc"}) == []
    assert json.loads((root / "store-fnd_00000001.json").read_text()) == []
    assert json.loads((root / "store-REV-1-abc.json").read_text()) == [".wystack/findings/fnd_00000001.json"]
    assert file_of(root).read_bytes() == render_file(ledger.findings[ONE])
    (root / "store-fnd_00000001.json").unlink()
    write(records, ledger)
    assert not (root / "store-fnd_00000001.json").exists()


def test_a_program_that_the_user_did_not_name_is_not_run(root: Path) -> None:
    """0-39: not with other words either; it is reported once, and the files are written."""
    trust = bind(root, [*COPY, "and", "more"])
    bind(root, COPY)
    records = RecordDirectory(root, trust=trust)
    (problem,) = write(records, ledger_of(a_finding()))
    assert (records.write_pass({"id": "REV-1-abc"}), "record-write" in problem) == ([], True)
    assert file_of(root).is_file()
    assert not list(root.glob("store-*"))


def test_a_trusted_program_gets_no_keys(root: Path) -> None:
    """0-39: it runs in a cleaned environment."""
    code = "import os, pathlib, sys; sys.stdin.read(); pathlib.Path('env').write_text(' '.join(os.environ))"
    write(RecordDirectory(root, trust=bind(root, [sys.executable, "-c", code])), ledger_of(a_finding()))
    names = (root / "env").read_text().split()
    assert ("PATH" in names, "SECRET_TOKEN" in names) == (True, False)


CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no room')"], "no room"),
        (["/no/such/program"], "could not be run"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "0.5 seconds"),
        ([sys.executable, "-c", CHILD], "0.5 seconds"),
        *(("rm -rf /", "record.write"), ([], "record.write"), ([1], "record.write")),
    ],
)
def test_a_store_that_fails_is_reported_once_and_the_files_are_written(root: Path, command: Any, says: str) -> None:
    """000-04b: the fallback is recorded with its reason, nothing is lost, and no child is waited for."""
    trust = bind(root, command)
    started = time.monotonic()
    records = RecordDirectory(root, trust=trust, timeout=0.5)
    (problem,) = write(records, ledger_of(*(a_finding(number) for number in range(5))))
    assert time.monotonic() - started < 20
    assert (problem.startswith("fallback.used: "), says in problem) == (True, True)
    assert len(titles(root)) == 5


@pytest.mark.parametrize(
    ("text", "problems"),
    [*(("{", 1), ('{"record.write": 3}', 1), ("{}", 0), ("[]", 0)), ('{"bindings": {"record.read": ["x"]}}', 0)],
)
def test_only_a_binding_of_ours_is_looked_at(root: Path, text: str, problems: int) -> None:
    """000-04, 000-04b: one that cannot be read is one that failed; without one there is nothing to report."""
    (root / ".wystack" / "storage.json").write_text(text)
    assert len(write(RecordDirectory(root), ledger_of(a_finding()))) == problems
    assert file_of(root).is_file()


def test_two_processes_at_once_lose_nothing(root: Path) -> None:
    """Passes of the same second from several processes are all there."""
    code = (
        "import sys; from pathlib import Path; from pipeline.findings.views.records import RecordDirectory\n"
        "records = RecordDirectory(Path(sys.argv[1]))\n"
        "for number in range(8): records.write_pass({'id': 'REV-5-abc', 'who': sys.argv[2], 'number': number})"
    )
    programs = [subprocess.Popen([sys.executable, "-c", code, str(root), who]) for who in "ab"]
    assert [program.wait(60) for program in programs] == [0, 0]
    records = [json.loads(path.read_text()) for path in (root / ".wystack" / "reviews").glob("*.json")]
    assert {(one["who"], one["number"]) for one in records} == {(who, number) for who in "ab" for number in range(8)}
    assert len(records) == 16
