"""The shape of the source: sizes, names, and what one run touches. Usage: `bench/shape.py [CHECKOUT ...]`.

Prints one column for each checkout, so that two versions can be compared.
"""

import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Not part of the core: the findings plugin, the dashboard, the cluster, and the commands about findings.
REST = ("findings", "web", "cluster", "app/findings", "cli/findings")
FIELD_NOUNS = {"routing", "wiring"}  # words in -ing that are nouns of the field
ADVERBS = {"where", "here", "there", "elsewhere", "beside", "since", "earlier", "again", "together"}
TRACED_RUN = """
import json, os, sys, threading
root, seen = os.environ["SHAPE_ROOT"], {}  # whether a function was ever called by other than an import

def own(frame):
    return frame.f_code.co_filename.startswith(root)

def is_importing(frame):
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and own(frame):
            return True
    return False

def trace(frame, event, argument):
    code = frame.f_code
    if event == "call" and own(frame) and code.co_name[0] != "<" and not code.co_name.startswith("__"):
        if not seen.get(code):
            seen[code] = not is_importing(frame)

threading.setprofile(trace)
sys.setprofile(trace)
from pipeline.cli.main import main
try:
    main()
finally:
    sys.setprofile(None)
    touched = {(code.co_filename, code.co_qualname) for code, called in seen.items() if called}
    print(json.dumps([len({file for file, _ in touched}), len(touched)]), file=sys.stderr)
"""


@dataclass(frozen=True)
class SourceFile:
    """One module of the source, parsed."""

    name: str  # below src/pipeline, without the suffix
    lines: int
    tree: ast.Module

    @property
    def in_core(self) -> bool:
        return not any(self.name.startswith(f"{rest}/") or self.name == rest for rest in REST)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def read_source(checkout: Path) -> list[SourceFile]:
    """Parse every module of a checkout."""
    root = checkout / "src/pipeline"
    data = (root / "workflows", root / "demo/project")  # the demo's sample project is data
    paths = [path for path in sorted(root.rglob("*.py")) if not any(path.is_relative_to(folder) for folder in data)]
    texts = {path: path.read_text() for path in paths}
    return [
        SourceFile(str(path.relative_to(root).with_suffix("")), text.count("\n"), ast.parse(text))
        for path, text in texts.items()
    ]


def used_once(files: list[SourceFile]) -> tuple[int, int]:
    """Count the private functions that their module uses once, and all private functions."""
    once = total = 0
    for file in files:
        uses = Counter(node.id for node in ast.walk(file.tree) if isinstance(node, ast.Name))
        uses += Counter(node.attr for node in ast.walk(file.tree) if isinstance(node, ast.Attribute))
        private = [one.name for one in file.functions() if one.name.startswith("_") and not one.name.startswith("__")]
        once += sum(uses[name] <= 1 for name in private)
        total += len(private)
    return once, total


def duplicate_classes(files: list[SourceFile]) -> list[str]:
    """Return the public class names that several modules define."""
    modules = defaultdict(set)
    for file in files:
        for node in file.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(file.name)
    return sorted(name for name, found in modules.items() if len(found) > 1)


def odd_modules(files: list[SourceFile]) -> list[str]:
    """Return the modules named by a gerund or an adverb."""
    names = {file.name: file.name.rpartition("/")[2] for file in files}
    return [
        name for name, last in names.items() if last in ADVERBS or (last.endswith("ing") and last not in FIELD_NOUNS)
    ]


def touched_by_run(checkout: Path) -> tuple[int, int]:
    """Run quick-dev with a script; return how many files and functions of the package it executes after its imports."""
    with tempfile.TemporaryDirectory() as directory:
        replies = {
            stage: {"status": "success", "response": "Done."}
            for stage in ("plan", "implement", "review_code", "review_security", "review_tests", "fix")
        }
        Path(directory, "replies.json").write_text(json.dumps(replies))
        Path(directory, "Makefile").write_text("test lint check:\n\t@true\n")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "PYTHONPATH": str(checkout / "src"),
            "SHAPE_ROOT": str(checkout / "src/pipeline"),
        }
        command = [sys.executable, "-c", TRACED_RUN, "run", "quick-dev", "--goal", "Say hello"]
        done = subprocess.run(
            [*command, "--script", "replies.json"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    files, functions = json.loads(done.stderr.splitlines()[-1])
    if done.returncode:
        print(f"the run ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return files, functions


def measure(checkout: Path) -> dict[str, str]:
    """Measure one checkout; the keys are the rows of the table."""
    files = read_source(checkout)
    core = [file for file in files if file.in_core]
    rows = {}
    for package in sorted({file.name.partition("/")[0] if "/" in file.name else "." for file in files}):
        own = [file for file in files if (file.name.partition("/")[0] if "/" in file.name else ".") == package]
        rows[f"{package}: lines, files"] = f"{sum(file.lines for file in own):,} in {len(own)}"
    for name, part in (("core", core), ("all", files)):
        sizes = [one.end_lineno - one.lineno + 1 for file in part for one in file.functions() if one.end_lineno]
        once, total = used_once(part)
        rows[f"{name}: lines, files"] = f"{sum(file.lines for file in part):,} in {len(part)}"
        rows[f"{name}: median function, lines"] = f"{statistics.median(sizes):g}"
        rows[f"{name}: private functions used once"] = f"{once / total:.0%} of {total}"
        rows[f"{name}: modules in -ing, adverbs"] = str(len(odd_modules(part)))
    rows["all: duplicate public class names"] = str(len(duplicate_classes(files)))
    touched_files, touched_functions = touched_by_run(checkout)
    rows["awf run quick-dev --script: files, functions"] = f"{touched_files}, {touched_functions}"
    return rows


def main() -> None:
    """Print a table with a column for each checkout."""
    checkouts = [Path(argument).resolve() for argument in sys.argv[1:]] or [Path(__file__).resolve().parents[1]]
    columns = [measure(checkout) for checkout in checkouts]
    for row in dict.fromkeys(row for column in columns for row in column):
        print(f"{row:<48}", *(f"{column.get(row, '-'):>18}" for column in columns))


if __name__ == "__main__":
    main()
