"""`awf validate`, `explain`, `workflows` and `show` on the command line."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen, shown

ROOT = Path(__file__).parents[2]
SHIPPED = ("implement-plan", "planning", "quick-dev", "review")
GOOD = 'workflow "W" {\n  version 2\n  start "end"\n  stage "end" kind="exit"\n}\n'
BAD = """workflow "Release" {
  version 2
  start "biuld"

  stage "build" kind="tool" command="make | tee build.log" timeout="ten minutes"
  stage "review" kind="llm" prompt="Review 変更 now" auto_staus=true
  stage "gate" kind="decision" {
    route when="outcome(\\"review\\") == \\"sucess\\"" to="done"
    route when="findings() > 0 && visits(\\"fix\\") < \\"3\\"" to="build"
  }
  stage "done" kind="exit"

  transition from="build" to="review"
  transition from="review" to="gate"
}
"""
"""A file with many kinds of mistakes."""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_workflows_are_clean(awf: Awf, name: str) -> None:
    """Found by name from anywhere, without an error or a warning."""
    result = awf("validate", name)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 workflow checked, no problems.\n", "")


def test_the_report_for_a_person(awf: Awf, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Every problem has its line, a caret, a message and help."""
    (tmp_path / "release.awf.kdl").write_text(BAD)
    result = awf("validate", "release.awf.kdl")
    assert result.returncode == 2
    assert result.stdout == snapshot
    assert result.stderr == ""


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_the_report_for_a_program(awf: Awf, tmp_path: Path, snapshot: SnapshotAssertion, form: str) -> None:
    """The same problems as JSON, as GitHub annotations and as SARIF."""
    (tmp_path / "release.awf.kdl").write_text(BAD)
    result = awf("validate", "release.awf.kdl", "--format", form)
    assert result.returncode == 2
    assert result.stdout == snapshot


def test_json_has_the_documented_keys(awf: Awf, tmp_path: Path) -> None:
    """One array of objects with code, severity, file, line, column, message, help and stage."""
    (tmp_path / "release.awf.kdl").write_text(BAD)
    rows = json.loads(awf("validate", "--json", "release.awf.kdl").stdout)
    assert {tuple(row) for row in rows} == {("code", "severity", "file", "line", "column", "message", "help", "stage")}
    assert {row["severity"] for row in rows} == {"error", "warning"}
    assert [(row["line"], row["column"]) for row in rows] == sorted((row["line"], row["column"]) for row in rows)


def test_nothing_wrong_is_an_empty_array(awf: Awf, tmp_path: Path) -> None:
    """A script always gets JSON."""
    (tmp_path / "w.awf.kdl").write_text(GOOD)
    assert json.loads(awf("validate", "w.awf.kdl", "--format", "json").stdout) == []


def test_warnings_alone_do_not_fail(awf: Awf, tmp_path: Path) -> None:
    """Exit code 0 with the warning shown."""
    text = GOOD.replace('start "end"', 'start "a"\n  stage "a" kind="tool" command="make | tee log"')
    (tmp_path / "w.awf.kdl").write_text(text.replace("\n}", '\n  transition from="a" to="end"\n}'))
    result = awf("validate", "w.awf.kdl")
    assert result.returncode == 0
    assert "warning[AWF105]" in result.stdout
    assert "1 workflow checked, 1 warning found." in result.stdout


def test_several_files_are_checked_at_once(awf: Awf, tmp_path: Path) -> None:
    """Files, names and directories together; what cannot be found does not hide the rest."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/good.awf.kdl").write_text(GOOD)
    (tmp_path / "bad.awf.kdl").write_text(BAD)
    result = awf("validate", "flows", "bad.awf.kdl", "quick-dev", "nosuch", "--json")
    assert result.returncode == 2
    assert {row["file"] for row in json.loads(result.stdout)} == {"bad.awf.kdl", "nosuch"}


def special_files(folder: Path) -> dict[str, str]:
    """Files that are not workflows, with the diagnostic of each."""
    (folder / "empty.awf.kdl").write_bytes(b"")
    (folder / "binary.awf.kdl").write_bytes(bytes(range(256)))
    (folder / "folder.awf.kdl").mkdir()
    (folder / "latin.awf.kdl").write_bytes(b'workflow "caf\xe9" {\n}\n')
    with (folder / "huge.awf.kdl").open("wb") as huge:
        huge.truncate(100_000_000)
    (folder / "words.awf.kdl").write_text("not a workflow at all\n")
    return {
        "empty.awf.kdl": "empty.awf.kdl:1:1: error[AWF004]",
        "binary.awf.kdl": "error[AWF001]",
        "folder.awf.kdl": "error[AWF001]",
        "missing.awf.kdl": "error[AWF001]",
        "latin.awf.kdl": "latin.awf.kdl:1:14: error[AWF001]",
        "huge.awf.kdl": "error[AWF003]",
        "words.awf.kdl": "words.awf.kdl:1:5: error[AWF002]",
    }


def test_a_file_that_is_not_a_workflow_is_an_error(awf: Awf, tmp_path: Path) -> None:
    """Empty, binary, missing, a directory, 100 MB, not UTF-8: a diagnostic, exit code 2, no traceback."""
    for name, expected in special_files(tmp_path).items():
        result = awf("validate", name)
        assert (result.returncode, result.stderr) == (2, ""), name
        assert expected in result.stdout, name
        assert "Traceback" not in result.stdout


@pytest.mark.parametrize(("file", "folder"), [(0o000, 0o755), (0o644, 0o700)])
def test_a_file_without_permission_is_an_error(file: int, folder: int) -> None:
    """Neither the file nor its directory may be readable by the user."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user to lack a permission")
    with TemporaryDirectory() as place:  # of its own: other tests close the one that they share
        path = Path(place, "secret.awf.kdl")
        path.write_text(GOOD)
        path.chmod(file)
        path.parent.chmod(folder)
        code = (
            "import os, sys; from pipeline.cli.main import exit_code, awf; os.setuid(65534);"
            f"sys.exit(exit_code(lambda: awf.main(['validate', {str(path)!r}], standalone_mode=False)))"
        )
        loaded = "from pipeline.app import check; from pipeline.cli import diagnostics"
        result = subprocess.run(
            [sys.executable, "-c", f"{loaded}; {code}"], cwd="/", capture_output=True, text=True, check=False
        )
    assert result.returncode == 2, result.stderr
    assert "error[AWF001]" in result.stdout
    assert "permission" in result.stdout


def test_help_loads_nothing_heavy() -> None:
    """`awf --help` and `awf --version` import none of the four packages, nor rich."""
    code = (
        "import sys; from pipeline.cli.main import awf, exit_code;"
        "exit_code(lambda: awf.main(['--help'], standalone_mode=False));"
        "print('loaded', sorted({'networkx', 'kdl', 'pydantic', 'structlog', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("loaded []\n")
    assert "validate" in result.stdout


def test_version(awf: Awf) -> None:
    """One line with the program's name."""
    assert awf("--version").stdout.startswith("awf 0.")


def test_colors_only_on_a_terminal(tmp_path: Path) -> None:
    """A pipe gets none, a terminal does, and NO_COLOR turns them off."""
    (tmp_path / "bad.awf.kdl").write_text(BAD)

    def on_terminal(**environment: str) -> bytes:
        ours, theirs = pty.openpty()
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", **environment}
        child = subprocess.Popen([COMMAND, "validate", "bad.awf.kdl"], cwd=tmp_path, env=env, stdout=theirs)
        os.close(theirs)
        seen = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # how Linux says that the other side has closed
                break
            if not chunk:
                break
            seen += chunk
        os.close(ours)
        assert child.wait() == 2
        return seen

    assert b"\x1b[1;31merror" in on_terminal()
    assert b"\x1b" not in on_terminal(NO_COLOR="1")


def test_text_from_a_file_cannot_act_on_the_terminal(awf: Awf, tmp_path: Path) -> None:
    """Escapes and direction marks in a workflow are not printed."""
    text = GOOD.replace('"end"', '"e\x1b[2J\u202end"')
    (tmp_path / "w.awf.kdl").write_text(text)
    result = awf("validate", "w.awf.kdl")
    assert result.returncode == 2
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


def test_explain_prints_the_page_of_a_rule(awf: Awf, snapshot: SnapshotAssertion) -> None:
    """By code in any case, or by name."""
    result = awf("explain", "awf105")
    assert result.stdout == snapshot
    assert awf("explain", "piped-exit-code").stdout == result.stdout
    assert json.loads(awf("explain", "AWF105", "--json").stdout)["name"] == "piped-exit-code"


def test_explain_lists_the_rules(awf: Awf, snapshot: SnapshotAssertion) -> None:
    """Without a code, one line for each."""
    assert awf("explain").stdout == snapshot


def test_explain_refuses_an_unknown_code(awf: Awf) -> None:
    """The error says what to do."""
    result = awf("explain", "AWF999")
    assert result.returncode == 2
    assert 'error: unknown rule "AWF999"' in result.stderr


def test_workflows_lists_what_is_found_where(awf: Awf, tmp_path: Path) -> None:
    """Shipped workflows are found from an empty directory; a project's own shadow them."""
    rows = json.loads(awf("workflows", "--json").stdout)
    assert [(row["name"], row["from"]) for row in rows] == [(name, "shipped") for name in SHIPPED]
    assert all(row["description"] for row in rows)
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows/quick-dev.awf.kdl").write_text(GOOD)
    rows = json.loads(awf("workflows", "--json").stdout)
    assert [(row["from"], row["shadowed"]) for row in rows if row["name"] == "quick-dev"] == [
        ("project", False),
        ("shipped", True),
    ]
    assert "shadowed" in awf("workflows").stdout


@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "svg"])
def test_show_draws_in_every_format(awf: Awf, form: str) -> None:
    """Every stage of the workflow is in the drawing."""
    result = awf("show", "quick-dev", "--format", form)
    assert result.returncode == 0
    for stage in ("plan", "implement", "selfci", "review_security", "gate", "fix"):
        assert stage in result.stdout


def test_show_writes_a_picture_to_a_file(awf: Awf, tmp_path: Path) -> None:
    """`-o` writes the file and nothing to the terminal."""
    result = awf("show", "quick-dev", "--format", "svg", "-o", "picture.svg")
    assert (result.returncode, result.stdout) == (0, "")
    assert ET.fromstring((tmp_path / "picture.svg").read_text()).tag.endswith("svg")  # noqa: S314 - our own file
    failed = awf("show", "quick-dev", "-o", "no/such/folder/x")
    assert (failed.returncode, failed.stderr.startswith("error: ")) == (2, True)


def test_show_fits_eighty_columns(awf: Awf) -> None:
    """The shipped workflows read well in a plain terminal."""
    for name in SHIPPED:
        assert max(map(len, awf("show", name).stdout.splitlines())) <= 80, name


def test_show_refuses_what_is_wrong(awf: Awf, tmp_path: Path) -> None:
    """The problems go to standard error, and nothing is drawn."""
    (tmp_path / "bad.awf.kdl").write_text(BAD)
    result = awf("show", "bad.awf.kdl")
    assert (result.returncode, result.stdout) == (2, "")
    assert "error[AWF020]" in result.stderr


def test_a_mistyped_command_is_answered(awf: Awf) -> None:
    """As git does."""
    result = awf("valdate")
    assert result.returncode == 2
    assert 'did you mean "validate"?' in result.stderr


def test_shell_completion_works(awf: Awf) -> None:
    """As click provides it."""
    assert "_awf_completion" in awf(_AWF_COMPLETE="bash_source").stdout


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """`awf explain | head -1` ends quietly."""
    script = f"{COMMAND} explain | head -1"
    pipe = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (pipe.stdout.startswith("AWF001"), pipe.stderr) == (True, "")


def test_the_picture_in_the_readme_is_up_to_date(awf: Awf) -> None:
    """`docs/quick-dev.svg` is what `awf show` draws of the shipped workflow."""
    assert awf("show", "quick-dev", "--format", "svg").stdout == (ROOT / "docs/quick-dev.svg").read_text()


def test_an_excerpt_fits_a_narrow_terminal(tmp_path: Path) -> None:
    """No line wraps, so that the caret stays in place."""
    (tmp_path / "bad.awf.kdl").write_text(BAD)
    lines = shown(run_on_screen([COMMAND, "validate", "bad.awf.kdl"], tmp_path, columns=60))
    excerpts = [line for line in lines if line.lstrip("0123456789 ").startswith("|")]
    assert any("…" in line for line in excerpts)
    assert max(map(len, excerpts)) < 60
    place = next(number for number, line in enumerate(lines) if "AWF007" in line)
    code, carets = lines[place + 2 : place + 4]
    assert code[carets.index("^") - 2 :].startswith("auto_staus")  # two wide characters stand before it


def test_a_run_parses_each_file_once(tmp_path: Path) -> None:
    """The workflow and both settings files, however many parts of the command need them."""
    (tmp_path / "w.awf.kdl").write_text(GOOD)
    (tmp_path / ".awf").mkdir()
    (tmp_path / ".awf/config.kdl").write_text('backend "scripted"\n')
    (tmp_path / ".config/awf").mkdir(parents=True)
    (tmp_path / ".config/awf/config.kdl").write_text('reasoning_effort "low"\n')
    code = """if True:
        import sys
        from pipeline.language import kdl, reader
        parsed = []
        def counted(source):
            parsed.append(source.name)
            return kdl.parse_kdl(source)
        reader.parse_kdl = counted
        from pipeline.cli.main import main
        try:
            main()
        finally:
            print("parsed", sorted(parsed), file=sys.stderr)
    """
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-c", code, "run", "w.awf.kdl"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "parsed ['.awf/config.kdl', '.config/awf/config.kdl', 'w.awf.kdl']" in result.stderr
