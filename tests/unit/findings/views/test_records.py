"""`.wystack/` has a record for each finding and each pass. Additions to a triage are read; the rest is put back."""

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
from tests.unit.findings.ledgers import AT, LATER, assessed, changed, finding, ledger_of, turned
from tests.unit.findings.strategies import ledgers

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged, Pass
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, PassId, What
from pipeline.findings.reviews import review
from pipeline.findings.triage import merge_lines, split_findings
from pipeline.findings.views import Views
from pipeline.findings.views.record_store import Trust
from pipeline.findings.views.records import SUGGESTION, RecordDirectory, render_file
from pipeline.findings.views.stamps import Copies, Stamps

ONE = finding().id
PASS = PassId("REV-1767322800-abc1234")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that keeps records, with a store."""
    (tmp_path / ".wystack").mkdir()
    (tmp_path / ".awf").mkdir()
    return tmp_path


def new(root: Path, store: str = ".awf", **more: Any) -> RecordDirectory:
    """The records as another process sees them."""
    return RecordDirectory(root, root / store, **more)


def save(root: Path, ledger: Ledger) -> None:
    """Write in a process of its own, which notes in the store what it wrote."""
    RecordDirectory(root, root / ".awf").write_findings(ledger)


def file_of(root: Path, number: int = 1) -> Path:
    return root / ".wystack" / "findings" / f"fnd_{number:08x}.json"


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def read(records: RecordDirectory, ledger: Ledger) -> ViewEdits:
    return records.read_edits(ledger, AT, "stage:fix")


def look(records: RecordDirectory, ledger: Ledger) -> ViewEdits:
    """What every command does: add what was said, and write the records again."""
    edits = read(records, ledger)
    for event in edits.events:
        ledger.apply(event)
    records.write_findings(ledger)
    return edits


def retitle(ledger: Ledger, *numbers: int) -> None:
    for number in numbers:
        ledger.apply(changed(number, What.SEEN, fields={"title": "Another"}))


def titles(root: Path) -> list[str]:
    return [json.loads(path.read_text())["title"] for path in sorted((root / ".wystack/findings").glob("fnd_*.json"))]


def a_pass(ledger: Ledger, id: str = PASS, **more: Any) -> Pass:
    """Add a pass to a ledger."""
    event = assessed(PassId(id), **more)
    ledger.apply(event)
    return event.assessment


def write_pass(records: RecordDirectory, ledger: Ledger, passed: Pass) -> list[str]:
    return records.write_pass(review(ledger, passed), passed) if records.lacks(passed) else []


def restored(root: Path) -> list[str]:
    copies = Copies(root / ".awf", root)
    problems = copies.find_edited()
    copies.restore()
    return list(problems)


def passes(root: Path) -> dict[str, Any]:
    """The records of passes by name."""
    return {path.stem: json.loads(path.read_text()) for path in (root / ".wystack/reviews").glob("*.json")}


def test_without_the_directory_nothing_is_written_and_a_suggestion_is_made_once(tmp_path: Path) -> None:
    """000-03, 000-07: no directory, no record, and one line however often one writes."""
    views, ledger = Views(tmp_path, tmp_path / "store"), ledger_of(finding(), id=PASS)
    assert [views.write(ledger, ledger.last).suggestion for _ in range(2)] == [SUGGESTION, ""]
    assert [path.name for path in tmp_path.iterdir()] == [".code-review"]
    assert "\n" not in SUGGESTION
    assert SUGGESTION.startswith("No workspace record store — review record skipped.")


# --- findings --------------------------------------------------------------------------------------------------------


def test_every_finding_has_a_file_of_its_own(root: Path) -> None:
    """000-02, 000-53: more than a hundred findings are that many files, each named by its id."""
    records = new(root)
    assert records.write_findings(ledger_of(*(finding(number) for number in range(120)))) == []
    paths = list((root / ".wystack/findings").iterdir())
    assert (len(paths), records.suggestion()) == (120, "")
    for path in paths:
        text = path.read_text()
        assert json.loads(text)["findingId"] == path.stem
        assert text.startswith('{\n  "schemaVersion": 1,\n')
        assert text.endswith("}\n")


def test_only_what_changed_is_written(root: Path) -> None:
    """A file whose finding did not change is not touched; a file that was removed is written again."""
    records, ledger = new(root), ledger_of(*map(finding, range(1, 4)))
    records.write_findings(ledger)
    before = file_of(root).stat()
    retitle(ledger, 2)
    file_of(root, 3).unlink()
    assert look(records, ledger) == ViewEdits()
    assert titles(root) == ["Defect 1", "Another", "Defect 3"]
    assert (file_of(root).stat().st_ino, file_of(root).stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@given(ledgers(4))
@settings(max_examples=25, deadline=None)
def test_what_is_left_alone_changes_nothing(found: list[Finding]) -> None:
    """GetPut through files: whatever the findings, also when the ledger has changed since, and whoever reads."""
    with tempfile.TemporaryDirectory() as folder:
        root, ledger = Path(folder), ledger_of(*found)
        (root / ".wystack").mkdir()
        (root / ".awf").mkdir()
        save(root, ledger)
        for one in found:
            change = turned(1, FindingState.UNCERTAIN).change
            ledger.apply(FindingChanged(id=one.id, change=change, fields={"title": "Another"}))
        assert read(new(root), ledger) == ViewEdits()
        save(root, ledger)
        for path in (root / ".wystack").glob("findings/fnd_*.json"):  # with its times changed, a file is read
            os.utime(path, (1, 1))
        assert read(new(root), ledger) == ViewEdits()
        assert titles(root) == ["Another"] * len(found)


def test_a_record_shows_its_line_of_work_as_it_is(root: Path) -> None:
    """It names the line and everybody who reported it, also after other members were merged, split or closed."""
    found = (finding(1), finding(2), finding(3, reviewer="qa"), finding(4, reviewer="security"))
    ledger = ledger_of(*found)

    def shown(number: int) -> tuple[list[str], str | None]:
        save(root, ledger)
        assert file_of(root, number).read_bytes() == render_file(ledger.findings[found[number - 1].id], ledger)
        record = json.loads(file_of(root, number).read_text())
        return record["sources"], record.get("x_line")

    assert shown(1) == (["correctness"], None)
    for others, sources in ((found[1:2], ["correctness"]), (found[2:], ["correctness", "qa", "security"])):
        for event in merge_lines(ledger, others, found[0], LATER):
            ledger.apply(event)
        assert shown(1) == (sources, ONE)
    ledger.apply(turned(1, FindingState.WONT_FIX, at=LATER))
    assert [shown(number)[0][0] for number in range(1, 5)] == ["correctness", "correctness", "qa", "security"]
    for event in split_findings(ledger, found[1:], LATER):
        ledger.apply(event)
    assert shown(1) == (["correctness"], None)


def test_a_record_of_an_earlier_moment_is_updated_and_not_an_edit(root: Path) -> None:
    """As after a checkout of an old branch: nothing in it is taken back, and one sentence for each file says so."""
    records, ledger = new(root), ledger_of(finding(1), finding(2))
    records.write_findings(ledger)
    old = {number: file_of(root, number).read_bytes() for number in (1, 2)}
    retitle(ledger, 1, 2)
    ledger.apply(turned(1, FindingState.WONT_FIX, at=LATER, note="no"))
    records.write_findings(ledger)
    for number, data in old.items():
        file_of(root, number).write_bytes(data)
    edits = look(new(root), ledger)
    assert (edits.events, len(edits.problems)) == ((), 2)
    assert titles(root) == ["Another", "Another"]
    assert json.loads(file_of(root).read_text())["status"] == "wont-fix"


def test_triage_in_a_file_is_an_event(root: Path) -> None:
    """000-42: what is added is said by whoever edited the file, and the record shows it so."""
    records, ledger = new(root), ledger_of(finding())
    records.write_findings(ledger)
    entry = {"at": LATER, "status": "false-positive", "note": "covered", "by": "user"}
    edit(file_of(root), status="false-positive", triage_history=[entry])
    edits = look(records, ledger)
    (event,) = edits.events
    assert isinstance(event, FindingChanged)
    assert (event.change.what, event.change.who, edits.problems) == (What.TRIAGE, "stage:fix", ())
    assert ledger.findings[ONE].state is FindingState.FALSE_POSITIVE
    shown = {**entry, "by": "orchestrator", "x_by": "stage:fix"}
    assert json.loads(file_of(root).read_text())["triage_history"] == [shown]
    assert look(records, ledger) == ViewEdits()


@pytest.mark.parametrize(
    "fields",
    [{"status": "fixed"}, {"title": "Nothing"}, {"severity": "low", "gate": "suggest"}, {"evidence": []}, {"jira": 1}],
)
def test_any_other_edit_is_put_back(root: Path, fields: dict[str, Any]) -> None:
    """000-43, 0-37: byte for byte, and one sentence says so, once."""
    records, ledger = new(root), ledger_of(finding())
    records.write_findings(ledger)
    before = file_of(root).read_bytes()
    edit(file_of(root), **fields)
    edits = look(records, ledger)
    assert (edits.events, len(edits.problems), file_of(root).read_bytes()) == ((), 1, before)
    assert look(records, ledger) == ViewEdits()


def test_one_sentence_is_enough_for_many_records(root: Path) -> None:
    """However many were edited, a command says a few sentences about them."""
    records, ledger = new(root), ledger_of(*map(finding, range(1, 21)))
    records.write_findings(ledger)
    for number in range(1, 21):
        edit(file_of(root, number), title="Nothing")
    assert len(look(records, ledger).problems) == 4
    assert "Nothing" not in titles(root)


def test_a_file_that_was_edited_meanwhile_is_not_written_over(root: Path) -> None:
    """An edit after the last look is left in the file until the next; other files are written."""
    records, ledger = new(root), ledger_of(finding(1), finding(2))
    records.write_findings(ledger)
    edit(file_of(root), triage_history=[{"at": LATER, "status": "wont-fix", "note": "no", "by": "user"}])
    edited = file_of(root).read_bytes()
    retitle(ledger, 1, 2)
    records.write_findings(ledger)
    assert (file_of(root).read_bytes(), titles(root)) == (edited, ["Defect 1", "Another"])
    look(records, ledger)
    assert ledger.findings[ONE].state is FindingState.WONT_FIX
    assert titles(root) == ["Another", "Another"]


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
    records, ledger = new(root), ledger_of(finding())
    records.write_findings(ledger)
    path = file_of(root)
    path.write_text(text)
    edits = look(records, ledger)
    assert (edits.events, len(edits.problems)) == ((), 1)
    assert path.read_bytes() == render_file(ledger.findings[ONE], ledger)
    assert path.with_name(f"{path.name}.unreadable-1").read_text() == text


@pytest.mark.parametrize("kind", ["link", "loop", "zero", "fifo", "directory"])
def test_what_is_not_a_file_is_moved_aside(root: Path, tmp_path: Path, kind: str) -> None:
    """000-37: neither read nor written through, wherever it leads."""
    records, path, ledger = new(root), file_of(root), ledger_of(finding())
    records.write_findings(ledger)
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
    edits = look(records, ledger)
    assert (edits.events, len(edits.problems)) == ((), 1)
    assert path.read_bytes() == render_file(ledger.findings[ONE], ledger)
    assert os.path.lexists(path.with_name(f"{path.name}.unreadable-1"))
    assert (tmp_path / "secret").read_text() == "{}"


@pytest.mark.parametrize("state", ["open", "false_positive", "wont_fix", "verified_fixed", "fix_claimed"])
def test_a_record_that_the_ledger_does_not_know_is_imported_as_open(root: Path, state: str) -> None:
    """000-06, 000-23, 0-37: after a fresh clone the files are all there is; nobody here knows what was done."""
    new(root).write_findings(ledger_of(finding(state=FindingState(state), severity="info", impact="It breaks.")))
    ledger = Ledger()
    assert look(new(root), ledger).problems == ()
    (known,) = ledger.findings.values()
    assert (known.id, known.state, known.severity, known.title) == (ONE, FindingState.OPEN, "low", "Defect 1")
    assert read(new(root), ledger) == ViewEdits()
    assert json.loads(file_of(root).read_text())["status"] == "open"


def test_records_of_one_line_of_work_are_imported_as_one(root: Path) -> None:
    """Each member has its record, which names the line; one whose line is not there is a line of its own."""
    members = (finding(1), finding(2, reviewer="qa", line=ONE), finding(3, reviewer="security", line=ONE))
    new(root).write_findings(ledger_of(*members))
    known = Ledger(read(new(root), Ledger()).events)
    assert [len(line.members) for line in known.lines()] == [3]
    file_of(root).unlink()
    known = Ledger(read(new(root), Ledger()).events)
    assert sorted(one.line for one in known.findings.values()) == [members[1].id, members[2].id]


def test_a_foreign_file_that_is_not_a_record_is_reported_and_left_alone(root: Path) -> None:
    """000-21: a file with another name is not looked at."""
    folder = root / ".wystack" / "findings"
    folder.mkdir()
    (folder / "fnd_1.json").write_text('{"findingId": "fnd_1"}')
    (folder / "README.json").write_text("{")
    (folder / ".fnd_2.json.tmp").write_text("{")
    edits = read(new(root), Ledger())
    (problem,) = edits.problems
    assert (edits.events, "fnd_1.json" in problem) == ((), True)
    assert (folder / "fnd_1.json").read_text() == '{"findingId": "fnd_1"}'


# --- stamps ----------------------------------------------------------------------------------------------------------


def test_files_that_nobody_touched_are_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0-38: another process compares times and sizes only, when reading and when writing."""
    ledger = ledger_of(*(finding(number) for number in range(1, 101)))
    save(root, ledger)
    opened: list[str] = []
    read_file = files.read_file

    def watched(path: Path, most: int = files.LARGEST) -> bytes | None:
        opened.append(path.name)
        return read_file(path, most)

    monkeypatch.setattr(files, "read_file", watched)
    again = new(root)
    retitle(ledger, 7)
    assert look(again, ledger) == ViewEdits()
    assert [name for name in opened if name.startswith("fnd_")] == []
    assert titles(root)[6] == "Another"


@pytest.mark.parametrize("left", ["nothing", "directory", "link"])
def test_stamps_are_written_anew(tmp_path: Path, left: str) -> None:
    """0-38: whatever becomes of the saved stamps meanwhile, the next process knows all of them; no link is followed."""
    stamps, other = Stamps(tmp_path, tmp_path), tmp_path / "other"
    stamps.record("fnd_1.json", (1, 2, 3), "1")
    stamps.save()
    (index,) = tmp_path.glob("views/*/written.json")
    index.rename(other)
    content = other.read_bytes()
    if left == "directory":
        index.mkdir()
    elif left == "link":
        index.symlink_to(other)
    stamps.record("fnd_2.json", (4, 5, 6), "1")
    stamps.save()
    assert sorted(Stamps(tmp_path, tmp_path).files) == ["fnd_1.json", "fnd_2.json"]
    assert other.read_bytes() == content


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 2}', "forged", "cut off", "removed"])
def test_without_sound_stamps_files_are_read_in_full(root: Path, damage: str) -> None:
    """0-38: stamps are a cache; an edit is found and judged the same without them."""
    ledger = ledger_of(finding())
    save(root, ledger)
    (index,) = (root / ".awf").glob("views/*/written.json")
    if damage == "forged":
        index.write_text(index.read_text().replace('"1.', '"9.'))
    elif damage == "cut off":
        index.write_bytes(index.read_bytes()[:-9])
    elif damage == "removed":
        index.unlink()
    else:
        index.write_text(damage)
    entry = {"at": LATER, "status": "wont-fix", "note": "by design", "by": "user"}
    edit(file_of(root), title="Nothing", status="wont-fix", triage_history=[entry])
    edits = look(new(root), ledger)
    assert (len(edits.events), len(edits.problems), titles(root)) == (1, 1, ["Defect 1"])


# --- passes ----------------------------------------------------------------------------------------------------------


def test_a_pass_is_written_once(root: Path) -> None:
    """000-01, 000-14, 000-16: it is named by its id, whatever becomes of its findings, and after a kill as well."""
    ledger = ledger_of(finding(gate="must"), id=PASS)
    passed = ledger.passes[PASS]
    assert write_pass(new(root), ledger, passed) == []
    (path,) = (root / ".wystack/reviews").iterdir()
    before = path.read_bytes()
    ledger.apply(turned(1, FindingState.VERIFIED_FIXED, at=LATER))
    assert write_pass(new(root), ledger, passed) == []
    assert restored(root) == []
    assert (list(passes(root)), path.read_bytes()) == ([PASS], before)


@pytest.mark.parametrize("text", ['{"id": "another"}', "no JSON", "[]"])
def test_a_record_of_another_store_with_the_same_name_is_left_alone(root: Path, text: str) -> None:
    """000-16: the next second is taken, and nothing is written over."""
    (root / ".wystack/reviews").mkdir()
    theirs = root / f".wystack/reviews/{PASS}.json"
    theirs.write_text(text)
    ledger = Ledger()
    write_pass(new(root), ledger, a_pass(ledger))
    assert theirs.read_text() == text
    own = json.loads((root / ".wystack/reviews/REV-1767322801-abc1234.json").read_text())
    assert own["id"] == "REV-1767322801-abc1234"


@pytest.mark.parametrize("damage", ["forged", "removed", "link"])
def test_the_record_of_a_pass_is_put_back(root: Path, damage: str) -> None:
    """000-14: nothing in it may be edited; an edit is reported, and the copy in the store has what it said."""
    ledger = Ledger()
    write_pass(new(root), ledger, a_pass(ledger))
    (path,) = (root / ".wystack/reviews").iterdir()
    before = path.read_bytes()
    path.unlink()
    if damage == "forged":
        path.write_bytes(before.replace(b'"verdict": "', b'"verdict": "not '))
    elif damage == "link":
        path.symlink_to("/etc/passwd")
    assert [path.name in problem for problem in restored(root)] == [True] * (damage != "removed")
    assert (path.read_bytes(), path.is_symlink()) == (before, False)
    assert restored(root) == []


@pytest.mark.parametrize("id", ["../REV-1-a", "REV-1", "REV-x-abc", "REV-1-../../a"])
def test_an_id_that_is_not_a_name_is_refused(root: Path, id: str) -> None:
    """000-01: no id leads out of the directory."""
    ledger = Ledger()
    with pytest.raises(AwfError):
        write_pass(new(root), ledger, a_pass(ledger, id))


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
    records, ledger = new(root), ledger_of(finding(), id=PASS)
    if name != "reviews":
        assert read(records, Ledger()).problems
    problems = records.write_findings(ledger) + write_pass(records, ledger, ledger.passes[PASS])
    assert (len(problems), list(away.rglob("*"))) == (1, [])
    assert file_of(root).is_file()
    assert list(passes(root)) == [PASS]


def test_two_processes_at_once_lose_nothing(root: Path) -> None:
    """Passes of the same second from several stores are all there."""
    code = (
        "import sys; from pathlib import Path\n"
        "from pipeline.findings.events import Pass; from pipeline.findings.ledger import Ledger\n"
        "from pipeline.findings.reviews import review\n"
        "from pipeline.findings.views.records import RecordDirectory\n"
        "root, who = Path(sys.argv[1]), sys.argv[2]\n"
        "records = RecordDirectory(root, root / who)\n"
        "for number in range(8):\n"
        "    passed = Pass(id=f'REV-{number}-abc', started_at='', review='', task=who, round=number)\n"
        "    records.write_pass(review(Ledger(), passed), passed)"
    )
    programs = [subprocess.Popen([sys.executable, "-c", code, str(root), who]) for who in "ab"]
    assert [program.wait(60) for program in programs] == [0, 0]
    written = [(record["task"], record["round"]) for record in passes(root).values()]
    assert sorted(written) == sorted((f"TASK-{who}", number) for who in "ab" for number in range(8))


# --- a store of the project's own ------------------------------------------------------------------------------------


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
    records, ledger = new(root, trust=bind(root, COPY)), ledger_of(finding(), id=PASS)
    assert records.write_findings(ledger) + write_pass(records, ledger, ledger.passes[PASS]) == []
    assert json.loads((root / "store-fnd_00000001.json").read_text()) == []
    assert json.loads((root / "store-REV-1767322800-abc1234.json").read_text()) == [
        ".wystack/findings/fnd_00000001.json"
    ]
    assert file_of(root).read_bytes() == render_file(ledger.findings[ONE], ledger)
    (root / "store-fnd_00000001.json").unlink()
    records.write_findings(ledger)
    assert not (root / "store-fnd_00000001.json").exists()


def test_a_program_that_the_user_did_not_name_is_not_run(root: Path) -> None:
    """0-39: not with other words either; it is reported once, and the files are written."""
    trust = bind(root, [*COPY, "and", "more"])
    bind(root, COPY)
    records = new(root, trust=trust)
    ledger = ledger_of(finding(), id=PASS)
    (problem,) = records.write_findings(ledger)
    assert (write_pass(records, ledger, ledger.passes[PASS]), "record-write" in problem) == ([], True)
    assert file_of(root).is_file()
    assert not list(root.glob("store-*"))


def test_a_trusted_program_gets_no_keys(root: Path) -> None:
    """0-39: it runs in a cleaned environment."""
    code = "import os, pathlib, sys; sys.stdin.read(); pathlib.Path('env').write_text(' '.join(os.environ))"
    new(root, trust=bind(root, [sys.executable, "-c", code])).write_findings(ledger_of(finding()))
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
    records = new(root, trust=trust, timeout=0.5)
    (problem,) = records.write_findings(ledger_of(*(finding(number) for number in range(5))))
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
    assert len(new(root).write_findings(ledger_of(finding()))) == problems
    assert file_of(root).is_file()
