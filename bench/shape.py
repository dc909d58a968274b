"""The shape of the source: sizes, names, and what one run touches. Usage: `bench/shape.py [--walk] [CHECKOUT ...]`.

Prints one column for each checkout, so that two versions can be compared. `--walk` follows the answer of a reviewer,
with one finding, to the prompt of the fixer, counts how often a round of three reviewers is taken in, and how dense the
source is: the branch points of `findings/` and of everything, the hooks of plugins, and the lines that call them.
"""

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Not part of the core: the findings plugin, the dashboard, the cluster, and the commands about findings.
REST = ("findings", "web", "cluster", "app/findings", "cli/findings")
SMALLEST = ("findings", "plugins")  # packages
FIELD_NOUNS = {"routing", "wiring"}  # words in -ing that are nouns of the field
ADVERBS = {"where", "here", "there", "elsewhere", "beside", "since", "earlier", "again", "together"}
TRACED_COMMAND = """
# Runs `awf` and notes which functions of the package it calls, other than to import itself. With
# SHAPE_BETWEEN="a,b" it notes only what happens from the answer of the agent of stage a to the prompt of stage b.
import json, os, sys, threading
root = os.environ["SHAPE_ROOT"]
first, last = os.environ["SHAPE_BETWEEN"].split(",")
seen, counted = {}, 0  # by code, whether other than an import called it
noting = not first

def is_own(frame):
    return frame.f_code.co_filename.startswith(root)

def is_importing(frame):
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and is_own(frame):
            return True
    return False

def note_agent(frame, event):
    global noting, first
    stage = frame.f_locals["request"].stage
    if event == "return" and stage == first:
        noting = True
    if event == "call" and noting and stage == last:
        noting, first = False, None

def trace(frame, event, argument):
    global counted
    code = frame.f_code
    if code.co_name == "run" and code.co_qualname == "ScriptedBackend.run":
        note_agent(frame, event)
    if event != "call" or not noting:
        return
    if is_own(frame) and code.co_name[0] != "<" and not code.co_name.startswith("__"):
        if f"{code.co_filename}:{code.co_name}" == os.environ["SHAPE_COUNTED"]:
            counted += 1
        if not seen.get(code):
            seen[code] = not is_importing(frame)

threading.setprofile(trace)
sys.setprofile(trace)
from pipeline.cli.main import main
try:
    main()
finally:
    sys.setprofile(None)
    used = {(code.co_filename, code.co_qualname) for code, called in seen.items() if called}
    with open(os.environ["SHAPE_RESULT"], "w") as file:
        json.dump({"functions": [(file[len(root):], name) for file, name in used], "calls": counted}, file)
"""
INTAKES = ("findings.taking:take_in", "findings.ingest:ingest")  # what takes a pass in, by the age of the checkout
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.Assert)
CODE = "def half(a, b):\n    return a / b\n"
FIXED = "def half(a, b):\n    return a / b if b else 0\n"
REVIEWED = """workflow "Reviewed" {
  version 2
  start "review"
  stage "review" kind="llm" findings="review" access="read-only" prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix what was found"
  stage "exit" kind="exit"
  transition from="review" to="gate"
  transition from="fix" to="review"
}
"""
ROUND = """workflow "Round" {
  version 2
  start "reviews"
  stage "reviews" kind="parallel" {
    branch "a"
    branch "b"
    branch "c"
  }
  stage "a" kind="llm" findings="review" access="read-only" prompt="Review it"
  stage "b" kind="llm" findings="review" access="read-only" prompt="Review it"
  stage "c" kind="llm" findings="review" access="read-only" prompt="Review it"
  stage "exit" kind="exit"
  transition from="reviews" to="exit" on="always"
}
"""


@dataclass(frozen=True)
class Touched:
    """What a traced command called of the package, and how often it called the function that was counted."""

    functions: frozenset[tuple[str, str]]  # file below src/pipeline, and qualified name
    calls: int

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file for file, _ in self.functions)

    @property
    def classes(self) -> frozenset[tuple[str, str]]:
        """Those that a method was called of."""
        owners = {(file, name.rpartition(".")[0]) for file, name in self.functions}
        return frozenset((file, owner) for file, owner in owners if owner and not owner.endswith(">"))

    def within(self, package: str) -> "Touched":
        """Return what lies in a package."""
        return Touched(frozenset(one for one in self.functions if one[0].startswith(f"{package}/")), self.calls)

    def __str__(self) -> str:
        return f"{len(self.files)}, {len(self.functions)}, {len(self.classes)}"


@dataclass(frozen=True)
class SourceFile:
    """One module of the source, parsed."""

    name: str  # below src/pipeline, without the suffix
    lines: int
    tree: ast.Module
    nodes: tuple[ast.AST, ...]  # all of the tree

    @property
    def in_core(self) -> bool:
        return not any(self.name.startswith(f"{rest}/") or self.name == rest for rest in REST)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def read_source(checkout: Path, packages: Sequence[str] = ()) -> list[SourceFile]:
    """Parse every module of a checkout, or of some of its packages."""
    root = checkout / "src/pipeline"
    data = (root / "workflows", root / "demo/project")  # the demo's sample project is data
    paths = [path for path in sorted(root.rglob("*.py")) if not any(path.is_relative_to(folder) for folder in data)]
    files = []
    for path in paths:
        name = str(path.relative_to(root).with_suffix(""))
        if packages and name.partition("/")[0] not in packages:
            continue
        text = path.read_text()
        tree = ast.parse(text)
        files.append(SourceFile(name, text.count("\n"), tree, tuple(ast.walk(tree))))
    return files


def used_once(files: list[SourceFile]) -> tuple[int, int]:
    """Count the private functions that their module uses once, and all private functions."""
    once = total = 0
    for file in files:
        uses = Counter(node.id for node in file.nodes if isinstance(node, ast.Name))
        uses += Counter(node.attr for node in file.nodes if isinstance(node, ast.Attribute))
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


def traced(
    checkout: Path, directory: Path, *arguments: str, between: tuple[str, str] | None = None, counted: str = ""
) -> Touched:
    """Run `awf` of a checkout in a directory; return what it used, or used between the agents of two stages."""
    package = checkout / "src/pipeline"
    module, _, function = counted.partition(":")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "PYTHONPATH": str(checkout / "src"),
        "SHAPE_ROOT": f"{package}/",
        "SHAPE_RESULT": str(directory / "shape.json"),
        "SHAPE_BETWEEN": ",".join(between or ("", "")),
        "SHAPE_COUNTED": f"{package / module.replace('.', '/')}.py:{function}",
    }
    command = [sys.executable, "-c", TRACED_COMMAND, *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: awf ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    noted = json.loads((directory / "shape.json").read_text())
    return Touched(frozenset((file, name) for file, name in noted["functions"]), noted["calls"])


def touched_by_run(checkout: Path) -> dict[str, str]:
    """Run quick-dev with a script, and count what it calls of the package after its imports."""
    stages = ("plan", "implement", "review_code", "review_security", "review_tests", "fix")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        replies = {stage: {"status": "success", "response": "Done."} for stage in stages}
        (directory / "replies.json").write_text(json.dumps(replies))
        (directory / "Makefile").write_text("test lint check:\n\t@true\n")
        touched = traced(checkout, directory, "run", "quick-dev", "--goal", "Say hello", "--script", "replies.json")
    return {"quick-dev, scripted: files, functions, classes": str(touched)}


def answer(*titles: str) -> str:
    """Return the answer of a reviewer that has findings with these titles."""
    findings = [
        {
            "title": title,
            "severity": "P1",
            "file": "half.py",
            "line": 2,
            "why_it_matters": "the program ends with a traceback",
            "autofix_class": "gated_auto",
            "owner": "review-fixer",
            "requires_verification": True,
            "suggested_fix": "refuse a divisor of zero",
            "confidence": 100,
            "evidence": ["return a / b"],
            "pre_existing": False,
        }
        for title in titles
    ]
    return json.dumps(
        {
            "findings": findings,
            "reviewed": ["half.py: what it divides by"],
            "residual_risks": [],
            "testing_gaps": [],
        }
    )


def repository(folder: Path, workflow: str, script: dict[str, list[Any]]) -> Path:
    """Make a repository with one module, and a workflow with its script beside it."""
    folder.mkdir()
    (folder / "half.py").write_text(CODE)
    (folder / ".gitignore").write_text(".awf/\n*.json\n*.kdl\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "walk.awf.kdl").write_text(workflow)
    (folder / "script.json").write_text(json.dumps(script))
    return folder


def walk(checkout: Path, intakes: Sequence[str]) -> dict[str, str]:
    """Follow one answer to the fix prompt, and count how often a round of three reviewers is taken in."""
    source = checkout / "src/pipeline"
    intake = next(
        (name for name in intakes if (source / f"{name.partition(':')[0].replace('.', '/')}.py").exists()), ""
    )
    defect = "Division by zero"
    fix = {"write": {"half.py": FIXED}, "reply": "[FINDING 1: fixed]"}
    loop: dict[str, list[Any]] = {"review": [answer(defect), f"[FINDING 1: fixed]\n\n{answer()}"], "fix": [fix]}
    parallel = {"a": [answer(defect)], "b": [answer(defect)], "c": [answer("No test divides by zero")]}
    with tempfile.TemporaryDirectory() as name:
        command = ("run", "walk.awf.kdl", "--script", "script.json")
        folder = repository(Path(name, "walk"), REVIEWED, loop)
        path = traced(checkout, folder, *command, between=("review", "fix"))
        folder = repository(Path(name, "round"), ROUND, parallel)
        taken = traced(checkout, folder, *command, counted=intake)
    return {
        "answer to fix prompt: files, functions, classes": str(path),
        "  of them in findings/": str(path.within("findings")),
        "a round of three reviewers: calls of the intake": f"{taken.calls} {intake.rpartition(':')[2]}",
    }


def branch_points(file: SourceFile) -> int:
    """Count the places in a module where the next step depends on something.

    `a and b and c` are two, since each operand after the first may or may not be evaluated.
    """
    count = 0
    for node in file.nodes:
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += len(node.ifs)
    return count


def density(files: list[SourceFile]) -> dict[str, str]:
    """Count branch points, hooks and the lines that call them."""
    points = {file.name: branch_points(file) for file in files}
    plugin = [file for file in files if file.name.startswith("findings/")]
    hooks = next(file for file in files if file.name == "plugins/hooks")
    declared = [one for one in hooks.functions() if any(ast.unparse(mark) == "hookspec" for mark in one.decorator_list)]
    contract = ("plugins/__init__", "plugins/hooks")
    callers = [file for file in files if file.name.startswith("plugins/") and file.name not in contract]
    own = sum(points[file.name] for file in plugin)
    return {
        "findings/: branch points": f"{own:,}",
        "findings/: branch points per 100 lines": f"{100 * own / sum(file.lines for file in plugin):.1f}",
        "all: branch points per 100 lines": f"{100 * sum(points.values()) / sum(file.lines for file in files):.1f}",
        "hooks; lines that call them": f"{len(declared)}; {sum(file.lines for file in callers)}",
    }


def sizes_and_names(files: list[SourceFile]) -> dict[str, str]:
    """Measure the sizes and the names of a source; the keys are the rows of the table."""
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
    return rows


def measure(checkout: Path, given: argparse.Namespace) -> dict[str, str]:
    """Measure one checkout; the keys are the rows of the table."""
    intakes = (given.intake,) if given.intake else INTAKES
    files = read_source(checkout, SMALLEST if given.smallest else ())
    if given.smallest:
        return sizes_and_names(files) | density(files) | walk(checkout, intakes)
    if given.walk:
        return walk(checkout, intakes) | density(files)
    return sizes_and_names(files) | touched_by_run(checkout)


def main() -> None:
    """Print a table with a column for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="by default this one")
    parser.add_argument("--walk", action="store_true", help="follow one answer from its reviewer to the fix prompt")
    parser.add_argument("--intake", metavar="MODULE:FUNCTION", help="what takes a pass in, below src/pipeline")
    parser.add_argument("--smallest", action="store_true", help="both tables, of little, to see that it works")
    given = parser.parse_args()
    checkouts = [path.resolve() for path in given.checkouts] or [Path(__file__).resolve().parents[1]]
    columns = [measure(checkout, given) for checkout in checkouts]
    for row in dict.fromkeys(row for column in columns for row in column):
        print(f"{row:<48}", *(f"{column.get(row, '-'):>18}" for column in columns))


if __name__ == "__main__":
    main()
