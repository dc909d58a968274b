"""What `awf init` proposes for a project: its check, its review tools, and the files that tell awf about them.

Everything is found by looking at files and at the names of programs on PATH. Nothing is executed.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.app.catalog import CatalogEntry
from pipeline.app.preflight import SELF_CHECK
from pipeline.backends.select import AGENTS
from pipeline.errors import AwfError
from pipeline.files import NotAFile, create_file, is_inside, read_file
from pipeline.language.model import FindingsFormat, LlmStage

CONFIG = ".awf/config.kdl"
GITHUB = ".github/workflows/awf.yml"
Which = Callable[[str], str | None]  # the path of a program, as `shutil.which` finds it

_LARGEST = 1024 * 1024  # bytes of a file that is looked at
_CHECKS = "a Makefile with a check or test target, pytest, tox, nox, npm test, cargo, go, gradle, maven"
_TOOLS = "ruff, mypy, bandit, eslint, clippy, golangci-lint"
_IGNORES_STORE = re.compile(r"^(?:\*\*/|/)?\.awf/?\s*$", re.MULTILINE)
_IGNORES_FILES = re.compile(r"^/?\.awf/\*+\s*$(?!.*^!/?\.awf/self-check\s*$)", re.MULTILINE | re.DOTALL)
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "pytest.ini", "noxfile.py")
_RUNNERS = {"uv.lock": "uv", "poetry.lock": "poetry"}  # programs that run others in the project's environment
# By the files that tell of it: the program that may come with the project, the one on PATH, and what it is asked.
_BUILDS = (
    (("Cargo.toml",), "", "cargo", "test"),
    (("go.mod",), "", "go", "test ./..."),
    (("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"), "gradlew", "gradle", "check"),
    (("pom.xml",), "mvnw", "mvn", "--quiet verify"),
)
_NODE_MANAGERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}


@dataclass(frozen=True, slots=True)
class ReviewTool:
    """A linter or type checker of a project."""

    name: str
    command: str
    findings: FindingsFormat
    ci_install: str  # the command that installs it where only the languages are installed
    ci_command: str


@dataclass(frozen=True, slots=True)
class ProjectScan:
    """What was found in a project, and in words what was not."""

    checks: tuple[str, ...]  # the commands of its check, in their order
    tools: tuple[ReviewTool, ...]
    agent: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """A file that does not have to exist yet; its path is relative to the project."""

    path: str
    text: str
    executable: bool = False


class ProjectScanner:
    """Looks at the files of a project."""

    def __init__(self, root: Path, which: Which) -> None:
        self._root = root
        self._which = which
        self._notes: list[str] = []

    def scan(self, preferred_agent: str | None) -> ProjectScan:
        """What the project has; `preferred_agent` is the one of the settings."""
        checks = tuple(self._checks())
        tools = tuple(self._tools())
        agent = preferred_agent or next((name for name in AGENTS if self._which(name)), "")
        if not checks:
            self._notes.append(f"No check found: looked for {_CHECKS}.")
        if not tools:
            self._notes.append(f"No review tool found: looked for {_TOOLS}.")
        if not agent:
            self._notes.append(f"No agent found on PATH: looked for {', '.join(AGENTS)}.")
        ignored = self._text(".gitignore")
        if _IGNORES_STORE.search(ignored) or _IGNORES_FILES.search(ignored):
            lines = f'".awf/*", "!{SELF_CHECK}" and "!{CONFIG}"'
            self._notes.append(f".gitignore excludes .awf; to commit its settings and check, write the lines {lines}.")
        return ProjectScan(checks, tools, agent, tuple(dict.fromkeys(self._notes)))

    def _checks(self) -> Iterator[str]:
        """The project's own check: its make target, or else the tests of each language."""
        makefile = next(filter(None, map(self._text, ("GNUmakefile", "makefile", "Makefile"))), "")
        for target in ("check", "test"):
            if re.search(rf"^(?:[^\t#:=\n]* )?{target}(?: [^:=\n]*)?::?(?!=)", makefile, re.MULTILINE):
                yield f"{self._expect('make')} {target}"
                return
        python = next((name for name, uses in self._python_runners().items() if uses), "")
        if python:
            program = self._python_program(python) or self._expect(python)
            yield f"{program} -q" if python == "pytest" else program
        script = self._package().get("scripts", {})
        if isinstance(script, dict) and "no test specified" not in str(script.get("test", "no test specified")):
            yield f"{self._expect(self._node_manager())} test"
        for files, wrapper, program, arguments in _BUILDS:
            if self._has(*files):
                own = f"./{wrapper}" if wrapper and self._has(wrapper) else ""
                yield f"{own or self._expect(program)} {arguments}"

    def _python_runners(self) -> dict[str, bool]:
        """Return the programs that run Python tests, the preferred first, and whether the project uses them."""
        return {
            "pytest": self._uses_pytest(),
            "tox": self._has("tox.ini") or "tox" in self._pyproject_tools(),
            "nox": self._has("noxfile.py"),
        }

    def _tools(self) -> Iterator[ReviewTool]:
        """The tools that the project configures, and those that work without configuration and are installed."""
        if self._has(*_PYTHON) or any(self._root.glob("*.py")):
            yield from self._python_tools()
        if eslint := self._eslint():
            yield eslint
        if self._has("Cargo.toml") and self._which("cargo-clippy"):
            # As text: through the pipe to a converter, a cargo that cannot work would look like a clean report.
            command = "cargo clippy --quiet -- --deny warnings"
            yield ReviewTool("clippy", command, FindingsFormat.TEXT, "rustup component add clippy", command)
        if golangci := self._golangci():
            yield golangci

    def _golangci(self) -> ReviewTool | None:
        names = [f".golangci.{end}" for end in ("yml", "yaml", "toml", "json")]
        configured = next(filter(self._has, names), "")
        used = self._has("go.mod") or bool(configured)
        if not used or not self._installed("golangci-lint", configured=bool(configured)):
            return None
        form, module = "--show-stats=false --output.sarif.path=stdout", "golangci-lint/v2/cmd"
        if configured and not re.search(r"""version["']?\s*[:=]\s*["']?2""", self._text(configured)):
            # Version 1 has files without a version, and another option for the format.
            form, module = "--out-format sarif", "golangci-lint/cmd"
        install = f"go install github.com/golangci/{module}/golangci-lint@latest"
        command = f"golangci-lint run {form}"
        return ReviewTool("golangci-lint", command, FindingsFormat.SARIF, install, command)

    def _python_tools(self) -> Iterator[ReviewTool]:
        tools, sarif = self._pyproject_tools(), FindingsFormat.SARIF
        ruff = self._has("ruff.toml", ".ruff.toml") or "ruff" in tools
        if program := self._installed_python("ruff", configured=ruff):
            arguments = "check --output-format sarif ."
            yield ReviewTool("ruff", f"{program} {arguments}", sarif, "pip install ruff", f"ruff {arguments}")
        sections = {**self._ini("setup.cfg"), **self._ini(".mypy.ini"), **self._ini("mypy.ini"), **tools}
        if "mypy" in sections and (program := self._installed_python("mypy", configured=True)):
            arguments = "--no-pretty" if {"files", "packages", "modules"} & {*sections["mypy"]} else "--no-pretty ."
            package = self._has("setup.py") or re.search(r"^\[project\]", self._text("pyproject.toml"), re.MULTILINE)
            install = "pip install mypy ." if package else "pip install mypy"
            yield ReviewTool("mypy", f"{program} {arguments}", FindingsFormat.MYPY, install, f"mypy {arguments}")
        if program := self._installed_python("bandit", configured="bandit" in tools or self._has(".bandit")):
            own = " --configfile pyproject.toml" if "bandit" in tools else ""
            place = "src" if (self._root / "src").is_dir() else ". --exclude ./.venv,./venv,./node_modules"
            arguments = f"--quiet{own} --format sarif --recursive {place}"
            install = 'pip install "bandit[sarif]"'
            yield ReviewTool("bandit", f"{program} {arguments}", sarif, install, f"bandit {arguments}")

    def _eslint(self) -> ReviewTool | None:
        files = [path for pattern in ("eslint.config.*", ".eslintrc*") for path in self._root.glob(pattern)]
        if not files and "eslintConfig" not in self._package():
            return None
        local = self._has("node_modules/.bin/eslint")
        if not local and not self._installed("eslint", configured=True):
            return None
        install = "npm ci" if self._has("package-lock.json") else f"{self._node_manager()} install"
        arguments = "eslint --format json ."
        command = f"npx {arguments}" if local else arguments
        return ReviewTool("eslint", command, FindingsFormat.ESLINT, install, f"npx {arguments}")

    def _uses_pytest(self) -> bool:
        places = ("conftest.py", "test_*.py", "tests/**/test_*.py", "test/**/test_*.py")
        tests = (path for place in places for path in self._root.glob(place))
        configured = "pytest" in {**self._pyproject_tools(), **self._ini("tox.ini")}
        return self._has("pytest.ini") or configured or "tool:pytest" in self._ini("setup.cfg") or any(tests)

    def _installed(self, program: str, *, configured: bool) -> bool:
        """Whether a tool is on PATH; a note says so if the project configures it and it is not."""
        if not self._which(program) and configured:
            self._notes.append(f"{program} is configured here but was not found, so it is not proposed.")
        return bool(self._which(program))

    def _installed_python(self, name: str, *, configured: bool) -> str:
        return self._python_program(name) or (name if self._installed(name, configured=configured) else "")

    def _expect(self, program: str) -> str:
        """The program of a check, which is proposed even if it has yet to be installed."""
        if not self._which(program):
            self._notes.append(f"{program} was not found on PATH; the check needs it.")
        return program

    def _python_program(self, name: str) -> str:
        """How a Python program is started in the project's environment; empty if it is not known there."""
        for lock, runner in _RUNNERS.items():
            if self._has(lock) and self._which(runner) and re.search(rf"\b{name}\b", self._text("pyproject.toml")):
                return f"{runner} run {name}"
        if self._which(name):
            return name
        return f".venv/bin/{name}" if self._has(f".venv/bin/{name}") else ""

    def _node_manager(self) -> str:
        return next((manager for lock, manager in _NODE_MANAGERS.items() if self._has(lock)), "npm")

    def _package(self) -> Mapping[str, Any]:
        try:
            package = json.loads(self._text("package.json") or "{}")
        except (ValueError, RecursionError) as error:
            return self._unreadable("package.json", error)
        return package if isinstance(package, dict) else self._unreadable("package.json", "not an object")

    def _pyproject_tools(self) -> Mapping[str, Any]:
        try:
            tools = tomllib.loads(self._text("pyproject.toml")).get("tool", {})
        except (ValueError, RecursionError) as error:
            return self._unreadable("pyproject.toml", error)
        items = tools.items() if isinstance(tools, dict) else ()
        return {name: table for name, table in items if isinstance(table, dict)}

    def _ini(self, name: str) -> Mapping[str, Any]:
        parser = ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(self._text(name))
        except ConfigError as error:
            return self._unreadable(name, str(error).splitlines()[0])
        return {section: dict(parser.items(section)) for section in parser.sections()}

    def _has(self, *names: str) -> bool:
        return any((self._root / name).is_file() for name in names)

    def _text(self, name: str) -> str:
        try:
            return (read_file(self._root / name, _LARGEST) or b"").decode(errors="replace")
        except (NotAFile, OSError) as error:
            self._unreadable(name, error)
            return ""

    def _unreadable(self, name: str, why: object) -> Mapping[str, Any]:
        self._notes.append(f"{name} was not read ({why}).")
        return {}


def settings_file(scan: ProjectScan) -> ProposedFile | None:
    """The project's settings; None if nothing was found for them."""
    lines = ["// Settings of this project. `awf config` shows the ones in force and where each was set."]
    if scan.agent:
        lines.append(f"backend {json.dumps(scan.agent, ensure_ascii=False)}  // for stages where nothing else decides")
    if scan.tools:
        lines += ["", "review {  // what runs beside the reviewers"]
        for tool in scan.tools:
            lines.append(f'  tool "{tool.name}" command="{tool.command}" findings="{tool.findings}"')
        lines.append("}")
    return ProposedFile(CONFIG, "\n".join([*lines, ""])) if len(lines) > 1 else None


def self_check_file(scan: ProjectScan) -> ProposedFile | None:
    """The program that workflows run as the project's check; None if no check was found."""
    if not scan.checks:
        return None
    lines = [
        "#!/bin/sh",
        "# The check of this project. Workflows run it before they review; exit code 0 means that it passed.",
        "set -e",
        'cd "$(dirname "$0")/.."',
        *scan.checks,
    ]
    return ProposedFile(SELF_CHECK, "\n".join([*lines, ""]), executable=True)


def github_file(scan: ProjectScan) -> ProposedFile | None:
    """A GitHub workflow that runs the review's tools without any secrets; None if there are no tools."""
    if not scan.tools:
        return None
    reports, plain = dict[str, ReviewTool](), list[ReviewTool]()
    for tool in scan.tools:
        if tool.findings is FindingsFormat.TEXT:
            plain.append(tool)
        else:
            reports[f"{tool.name}.{'sarif' if tool.findings is FindingsFormat.SARIF else 'txt'}"] = tool
    install = ['pip install "$AWF"', *dict.fromkeys(tool.ci_install for tool in scan.tools)]
    lines = [
        "name: awf",
        "on: [push, pull_request]  # not pull_request_target: code of a fork never runs with this repository's rights",
        "permissions:",
        "  contents: read",
        "env:",
        "  AWF: awf-pipeline  # or any address that pip understands",
        "jobs:",
        "  tools:",
        "    runs-on: ubuntu-latest",
        "    steps:",
        "      - uses: actions/checkout@v4",
        "        with:",
        "          persist-credentials: false",
        "      - uses: actions/setup-python@v5",
        "        with:",
        '          python-version: "3.12"',
        *_step("Install", install),
    ]
    for tool in plain:
        lines += _step(tool.name, [tool.ci_command])
    if reports:  # a tool may fail here: its report decides, and an empty or missing one is an error
        lines += _step("Run the tools", [f"{tool.ci_command} >{name} || true" for name, tool in reports.items()])
        lines += _step("Import their reports", [f"awf findings import {' '.join(reports)}"])
        lines += _step("Annotate the lines", ["awf findings list --format github"])
        lines += _step("Gate", ["awf verdict --fail-on warn"])
    return ProposedFile(GITHUB, "\n".join([*lines, ""]))


def _step(name: str, commands: Sequence[str]) -> list[str]:
    return [f"      - name: {name}", "        run: |", *(f"          {command}" for command in commands)]


def workflow_files(entry: CatalogEntry) -> Iterator[ProposedFile]:
    """A workflow and its prompt files, to be copied into `workflows/`."""
    draft = entry.read()
    if draft.workflow is None:
        raise AwfError(f'the workflow "{entry.name}" cannot be read', help=f"see awf validate {entry.name}")
    yield ProposedFile(f"workflows/{entry.path.name}", draft.source.text)
    stages = [stage for stage in draft.workflow.stages if isinstance(stage, LlmStage)]
    for path in dict.fromkeys(path for stage in stages for path in stage.prompt_file):
        if found := entry.prompt(path):
            yield ProposedFile(f"workflows/{path}", found.read_text(encoding="utf-8"))


def write_proposed(root: Path, file: ProposedFile) -> bool:
    """Create a file of the project; return False, and change nothing, if it exists. Raises AwfError."""
    path = root / file.path
    if not is_inside(root, path):
        raise AwfError(f'"{file.path}" leads out of the project', help="remove the link that does")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not create_file(path, file.text.encode()):
            return False
        if file.executable:
            path.chmod(path.stat().st_mode | 0o111)
    except OSError as error:
        help = "check what is there and its permissions"
        raise AwfError(f'cannot write "{file.path}": {error.strerror or error}', help=help) from None
    return True
