"""`awf init`: what it finds in projects of several languages, what it writes, and what it never touches."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen

from pipeline.app.settings import SettingLevel, ToolSettings, read_settings
from pipeline.language.source import SourceText

Init = Callable[..., subprocess.CompletedProcess[str]]
SELF_CHECK, CONFIG, GITHUB = ".awf/self-check", ".awf/config.kdl", ".github/workflows/awf.yml"
BANDIT = "--recursive . --exclude ./.venv,./venv,./node_modules"
GO_SARIF = "golangci-lint run --show-stats=false --output.sarif.path=stdout"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty repository, and beside it a directory for programs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "project").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path / "project"], check=True)
    return tmp_path / "project"


@pytest.fixture
def init(awf: Awf, project: Path) -> Init:
    """Run `awf init` in the project with nothing on PATH but the programs of the test."""
    return lambda *arguments: awf("init", *arguments, cwd=project, PATH=str(project.parent / "bin"))


def install(project: Path, *programs: str) -> None:
    """Make programs that write down how they are called."""
    for program in programs:
        path = project.parent / "bin" / program
        path.write_text(f'#!/bin/sh\necho "{program} $*" >>"{project.parent}/ran.txt"\n')
        path.chmod(0o755)


def add(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


def contents(project: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a project with its time, except git's."""
    files = (path for path in project.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {str(path.relative_to(project)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def tools(project: Path) -> tuple[ToolSettings, ...]:
    """The tools of the settings that were written, which must have no errors."""
    settings, hits = read_settings(SourceText(CONFIG, (project / CONFIG).read_text()), SettingLevel.PROJECT)
    assert hits == []
    return settings.review_tools


NO_TOOLS = dict[str, str]()
CASES: dict[str, tuple[dict[str, str], str, list[str], dict[str, str]]] = {
    "make check": ({"Makefile": "all:\n\nlint check: all\n", "go.mod": ""}, "make", ["make check"], NO_TOOLS),
    "make test": ({"GNUmakefile": "check := no\ntest:\n"}, "make", ["make test"], NO_TOOLS),
    "other targets": ({"Makefile": "checks:\n# check: no\n", "tox.ini": "[tox]\n"}, "tox", ["tox"], NO_TOOLS),
    "pytest": (
        {"tests/unit/test_a.py": "", "setup.cfg": "[mypy]\nfiles = src\n"},
        "pytest ruff mypy bandit",
        ["pytest -q"],
        {
            "ruff": "ruff check --output-format sarif .",
            "mypy": "mypy --no-pretty",
            "bandit": f"bandit --quiet --format sarif {BANDIT}",
        },
    ),
    "pyproject": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n[tool.bandit]\n[tool.mypy]\n", "src/a.py": ""},
        "pytest mypy bandit",
        ["pytest -q"],
        {
            "mypy": "mypy --no-pretty .",
            "bandit": "bandit --quiet --configfile pyproject.toml --format sarif --recursive src",
        },
    ),
    "uv": (
        {"pyproject.toml": '[dependency-groups]\ndev = ["pytest", "ruff"]\n', "uv.lock": "", "conftest.py": ""},
        "uv bandit",
        ["uv run pytest -q"],
        {"ruff": "uv run ruff check --output-format sarif .", "bandit": f"bandit --quiet --format sarif {BANDIT}"},
    ),
    "virtual environment": (
        {".venv/bin/pytest": "", ".venv/bin/ruff": "", "pytest.ini": ""},
        "",
        [".venv/bin/pytest -q"],
        {"ruff": ".venv/bin/ruff check --output-format sarif ."},
    ),
    "nox": ({"noxfile.py": ""}, "nox", ["nox"], NO_TOOLS),
    "npm": (
        {"package.json": '{"scripts": {"test": "jest"}}', "eslint.config.mjs": "", "node_modules/.bin/eslint": ""},
        "npm",
        ["npm test"],
        {"eslint": "npx eslint --format json ."},
    ),
    "pnpm": (
        {"package.json": '{"scripts": {"test": "jest"}, "eslintConfig": {}}', "pnpm-lock.yaml": ""},
        "pnpm eslint",
        ["pnpm test"],
        {"eslint": "eslint --format json ."},
    ),
    "cargo": (
        {"Cargo.toml": ""},
        "cargo cargo-clippy",
        ["cargo test"],
        {"clippy": "cargo clippy --quiet -- --deny warnings"},
    ),
    "go": ({"go.mod": ""}, "go golangci-lint", ["go test ./..."], {"golangci-lint": GO_SARIF}),
    "go, configured": (
        {"go.mod": "", ".golangci.yml": 'version: "2"\n'},
        "go golangci-lint",
        ["go test ./..."],
        {"golangci-lint": GO_SARIF},
    ),
    "go, version 1": (
        {"go.mod": "", ".golangci.yml": "linters:\n"},
        "go golangci-lint",
        ["go test ./..."],
        {"golangci-lint": "golangci-lint run --out-format sarif"},
    ),
    "gradle": ({"build.gradle.kts": "", "gradlew": ""}, "", ["./gradlew check"], NO_TOOLS),
    "maven": ({"pom.xml": ""}, "mvn", ["mvn --quiet verify"], NO_TOOLS),
    "two languages": (
        {"package.json": '{"scripts": {"test": "jest"}}', "pytest.ini": ""},
        "pytest npm",
        ["pytest -q", "npm test"],
        NO_TOOLS,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_check_and_the_tools_of_a_project(
    init: Init, project: Path, case: tuple[dict[str, str], str, list[str], dict[str, str]]
) -> None:
    """The files have the commands of its languages, the settings are valid, and no program is started."""
    files, programs, checks, commands = case
    add(project, files)
    install(project, *programs.split(), "claude")
    done = init("--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / SELF_CHECK).read_text().splitlines()[-len(checks) - 1 :] == ['cd "$(dirname "$0")/.."', *checks]
    assert {tool.name: tool.command for tool in tools(project)} == commands
    assert 'backend "claude"' in (project / CONFIG).read_text()
    notes = [line for line in done.stdout.splitlines() if line.startswith("note")]
    assert [("No review tool found" in note) for note in notes] == ([] if commands else [True])
    assert not (project.parent / "ran.txt").exists()


def test_the_check_runs(init: Init, project: Path) -> None:
    """From any directory, every command in order; the first that fails ends it."""
    add(project, {"package.json": '{"scripts": {"test": "jest"}}', "pytest.ini": ""})
    install(project, "pytest", "npm")
    init("--yes")
    environment = {"PATH": f"{project.parent / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run([project / SELF_CHECK], cwd="/", env=environment, check=False)
    assert done.returncode == 0
    assert (project.parent / "ran.txt").read_text() == "pytest -q\nnpm test\n"
    (project.parent / "bin/pytest").write_text("#!/bin/sh\nexit 7\n")
    (project.parent / "ran.txt").unlink()
    done = subprocess.run([project / SELF_CHECK], cwd="/", env=environment, check=False)
    assert (done.returncode, (project.parent / "ran.txt").exists()) == (7, False)


def test_a_second_run_changes_nothing(init: Init, project: Path) -> None:
    """It says what it kept."""
    add(project, {"pytest.ini": ""})
    install(project, "pytest", "ruff", "codex")
    options = ("--workflow", "quick-dev", "--github")
    init("--yes", *options)
    before = contents(project)
    for more in ((), ("--yes",), ("--dry-run",)):
        done = init(*options, *more)
        assert done.returncode == 0
        for path in (CONFIG, SELF_CHECK, GITHUB, "workflows/quick-dev.awf.kdl", "workflows/prompts/plan.md"):
            assert f"kept     {path}" in done.stdout
        assert "Nothing was written." in done.stdout
    assert contents(project) == before


def test_nothing_is_overwritten(init: Init, project: Path) -> None:
    """Neither a file nor a broken link; what is missing is written."""
    add(project, {"pytest.ini": "", CONFIG: 'backend "pi"\n'})
    install(project, "pytest", "claude")
    (project / SELF_CHECK).symlink_to("nowhere")
    done = init("--yes", "--workflow", "planning")
    assert done.returncode == 0
    assert (project / CONFIG).read_text() == 'backend "pi"\n'
    assert (project / SELF_CHECK).readlink() == Path("nowhere")
    assert (project / "workflows/planning.awf.kdl").is_file()


def test_nothing_is_written_outside_of_the_project(init: Init, project: Path) -> None:
    """A link in the repository does not lead the files elsewhere."""
    add(project, {"pytest.ini": ""})
    install(project, "pytest", "claude")
    (project.parent / "elsewhere").mkdir()
    (project / ".awf").symlink_to("../elsewhere")
    done = init("--yes")
    assert done.returncode == 2
    assert list((project.parent / "elsewhere").iterdir()) == []


def test_a_file_in_the_way_is_an_error(init: Init, project: Path) -> None:
    """Where the directory should be; it stays as it is."""
    add(project, {"pytest.ini": "", ".awf": "mine"})
    install(project, "pytest")
    done = init("--yes")
    assert (done.returncode, SELF_CHECK in done.stderr) == (2, True)
    assert (project / ".awf").read_text() == "mine"


@pytest.mark.parametrize("typed", [["n", "n"], ["\x04"], ["y", "\x04"], ["what?", "no", "N"]])
def test_no_writes_nothing(project: Path, typed: list[str]) -> None:
    """Neither does the end of the input, even after a yes."""
    add(project, {"Makefile": "check:\n", CONFIG: ""})
    text = run_on_screen([COMMAND, "init", "--workflow", "quick-dev"], project, typed=typed)
    assert f"Write {SELF_CHECK} (y/n): " in text
    assert set(contents(project)) == {"Makefile", CONFIG}


def test_yes_writes_what_was_shown(project: Path) -> None:
    """Each question is for the files shown before it."""
    add(project, {"Makefile": "check:\n", CONFIG: ""})
    text = run_on_screen([COMMAND, "init", "--workflow", "quick-dev"], project, typed=["y", "n"])
    assert text.index("make check") < text.index(f"Write {SELF_CHECK}") < text.index("Write these ")
    assert set(contents(project)) == {"Makefile", CONFIG, SELF_CHECK}
    assert os.access(project / SELF_CHECK, os.X_OK)


@pytest.mark.parametrize(("options", "code"), [(["--dry-run"], 0), ([], 2), (["--yes", "--dry-run"], 2)])
def test_nothing_is_written_without_consent(init: Init, project: Path, options: list[str], code: int) -> None:
    """A dry run succeeds; without a terminal and without --yes it is an error."""
    add(project, {"pytest.ini": ""})
    install(project, "pytest")
    done = init(*options)
    assert done.returncode == code
    assert set(contents(project)) == {"pytest.ini"}
    if "--yes" not in options:
        assert "  pytest -q" in done.stdout


def test_an_empty_directory(init: Init, project: Path) -> None:
    """It says what was looked for and not found, and writes nothing."""
    done = init("--yes", "--github")
    assert (done.returncode, done.stdout.count("not found")) == (0, 3)
    for name in ("Makefile", "pytest", "tox", "npm", "cargo", "gradle", "ruff", "eslint", "clippy", "claude", "pi"):
        assert name in done.stdout
    assert "Nothing was written." in done.stdout
    assert [line.strip() for line in done.stdout.splitlines()[-2:]] == ["awf doctor", "awf demo"]
    assert contents(project) == {}


def test_missing_programs_are_named(init: Init, project: Path) -> None:
    """A tool that is configured but not installed is not proposed; a check is, and says what it needs."""
    add(project, {"pyproject.toml": "[tool.ruff]\n[tool.pytest]\n", ".eslintrc.json": ""})
    done = init("--yes")
    notes = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("note") and "No " not in line]
    assert notes == ["pytest", "ruff", "eslint"]
    assert (project / SELF_CHECK).is_file()
    assert not (project / CONFIG).exists()


@pytest.mark.parametrize("data", ["{", "[]", "[" * 100_000, "\0", '{"scripts": 3}'])
def test_files_that_cannot_be_read_are_named(init: Init, project: Path, data: str) -> None:
    """Broken files are not understood, and do not end in a traceback."""
    add(project, dict.fromkeys(("package.json", "pyproject.toml", "setup.cfg", "Makefile"), data))
    (project / ".gitignore").mkdir()
    done = init("--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "pyproject.toml was not read" in done.stdout
    assert ".gitignore was not read" in done.stdout


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (".awf\n", True),
        ("*.o\n/.awf/\n", True),
        (".awf/*\n", True),
        (".awf/*\n!.awf/self-check\n!.awf/config.kdl\n", False),
        (".awf-other\n", False),
    ],
)
def test_an_ignored_store_hides_the_files(init: Init, project: Path, lines: str, *, hint: bool) -> None:
    """Then it says which lines would not; with those, git sees the files."""
    add(project, {".gitignore": lines, "pytest.ini": ""})
    install(project, "pytest")
    done = init("--yes")
    assert ('"!.awf/self-check"' in done.stdout) is hint
    seen = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    assert (SELF_CHECK not in seen) is hint


def test_the_root_of_the_repository_is_the_project(awf: Awf, project: Path) -> None:
    """Wherever the command is run."""
    add(project, {"Makefile": "check:\n", "src/deep/a.c": ""})
    assert awf("init", "--yes", cwd=project / "src/deep").returncode == 0
    assert (project / SELF_CHECK).is_file()
    assert not (project / "src/deep/.awf").exists()


def test_the_tools_are_used_once_the_project_is_trusted(init: Init, awf: Awf, project: Path, home: Path) -> None:
    """The line that it prints is what the user's settings need."""
    add(project, {"a.py": ""})
    install(project, "ruff")
    trust = init("--yes").stdout.partition("add ")[2].partition(" to ~")[0]
    assert "review.tool.ruff.command" not in awf("config", cwd=project).stdout
    add(home, {".config/awf/config.kdl": trust})
    assert "review.tool.ruff.command" in awf("config", cwd=project).stdout


def test_a_review_runs_the_proposed_tools(awf: Awf, project: Path, home: Path) -> None:
    """What they report is in the ledger."""
    add(project, {"pyproject.toml": "[tool.mypy]\n[tool.ruff]\n"})
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("add", "-A"), (*author, "commit", "-qm", "a"), ("checkout", "-qb", "change")):
        subprocess.run(["git", *words], cwd=project, check=True)
    add(project, {"a.py": "import os\n\nx: int = ''\n"})
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    awf("init", "--yes", cwd=project, PATH=path)
    add(home, {".config/awf/config.kdl": f'trust {{ project "{project.resolve()}" }}\n'})
    options = ("--only", "ruff", "--only", "mypy", "--backend", "scripted", "--base", "HEAD", "--fail-on", "warn")
    done = awf("review", *options, cwd=project, PATH=path)
    assert done.returncode == 1, done.stderr
    listed = awf("findings", "list", cwd=project).stdout
    assert "imported but unused" in listed
    assert "Incompatible types" in listed


def test_a_shipped_workflow_is_copied_whole(init: Init, awf: Awf, project: Path) -> None:
    """The copy is valid, has its prompts, and is what its name means here."""
    install(project, "claude")
    names = [entry["name"] for entry in json.loads(awf("workflows", "--json", cwd=project).stdout)]
    assert "quick-dev" in names
    for name in names:
        done = init("--yes", "--workflow", name)
        assert f"awf run {name}" in done.stdout
    assert awf("validate", "workflows", cwd=project).returncode == 0
    listed = awf("workflows", "--json", cwd=project).stdout
    assert listed.count('"from": "project"') == len(names)


def test_an_unknown_workflow_is_an_error(init: Init, project: Path) -> None:
    """A name that is nearly right is suggested."""
    done = init("--yes", "--workflow", "quick-devv")
    assert done.returncode == 2
    assert 'did you mean "quick-dev"?' in done.stderr
    assert contents(project) == {}


def test_the_github_workflow_has_no_secrets(init: Init, project: Path) -> None:
    """It can only read, and never runs code of a fork with the repository's rights."""
    add(project, {"Cargo.toml": "", "go.mod": "", "a.py": "", "package.json": "{}", ".eslintrc": ""})
    install(project, "cargo-clippy", "golangci-lint", "ruff", "bandit", "eslint")
    init("--yes", "--github")
    text = (project / GITHUB).read_text()
    job = yaml.safe_load(text)
    assert job["permissions"] == {"contents": "read"}
    assert job[True] == ["push", "pull_request"]  # the key `on`, as YAML 1.1 reads it
    assert "secrets" not in text
    assert job["jobs"]["tools"]["steps"][0]["with"] == {"persist-credentials": False}
    commands = "\n".join(step["run"] for step in job["jobs"]["tools"]["steps"] if "run" in step)
    for tool in tools(project):
        assert shlex.split(tool.command)[0] in commands


@pytest.mark.parametrize(("source", "code"), [("x: int = 1\n", 0), ("import os\n\nx: int = ''\n", 1), (None, 1)])
def test_the_github_workflow_gates(awf: Awf, project: Path, home: Path, source: str | None, code: int) -> None:
    """Run as a runner does: clean files pass, findings fail, and so does a tool that cannot work."""
    add(project, {"pyproject.toml": "[tool.mypy]\n[tool.ruff]\n", "a.py": source or "x = 1\n"})
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    assert awf("init", "--yes", "--github", cwd=project, PATH=path).returncode == 0
    if source is None:
        add(project, {"ruff.toml": "no settings\n"})
    steps = yaml.safe_load((project / GITHUB).read_text())["jobs"]["tools"]["steps"]
    commands = [step["run"] for step in steps if "run" in step and step["name"] != "Install"]
    environment = {"PATH": path, "HOME": str(home)}
    codes = [
        subprocess.run(["bash", "-e", "-c", run], cwd=project, env=environment, capture_output=True, check=False)
        for run in commands
    ]
    assert len(codes) == 4
    assert codes[-1].returncode == code, codes
