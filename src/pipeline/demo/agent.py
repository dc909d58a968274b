"""The demo's agent: a prompt on standard input, work in the directory it stands in, an answer on standard output.

It needs the standard library and git only, and knows nothing but its prompt: a repair is made when, and only when, the
prompt's section of outstanding findings names what it repairs.
"""

import ast
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PAUSE = 0.05  # seconds before something is said, so that a person can follow
FINDINGS = "## Outstanding Review Findings"
FIX = "Fix all outstanding issues listed in the review findings"  # what follows the findings in a fix's prompt
RUNS_CODE = {"eval", "exec", "system", "popen"}
GIT = (
    *("git", "-c", "user.name=Demo Agent", "-c", "user.email=agent@localhost"),
    *("-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.autocrlf=false"),
)

REPORT = '''\
"""What the shop has in stock: page by page, its mean price, and what matches a condition."""


def pages(lines, size):
    """The lines in pages of at most `size`."""
    return [lines[start : start + size] for start in range(0, len(lines) - 1, size)]


def average(prices):
    """The mean of the prices; 0 when there are none."""
    return sum(prices) / len(prices)


def matching(stock, condition):
    """The articles for which a condition such as "price < 10" holds."""
    return [name for name, price in stock.items() if eval(condition, {"price": price})]
'''
SAFE_MATCHING = '''\
def matching(stock, condition):
    """The articles for which a condition such as "price < 10" holds."""
    found = re.fullmatch(r"price *([<>]) *([0-9.]+)", condition)
    if not found:
        raise ValueError(f"this is no condition: {condition}")
    limit = float(found[2])
    return [name for name, price in stock.items() if (price < limit if found[1] == "<" else price > limit)]
'''
TEST_OF_AVERAGE = """

class Average(unittest.TestCase):
    def test_it_is_the_mean(self):
        self.assertEqual(report.average([2, 4]), 3)
"""
TEST_OF_REFUSAL = """

class Refusal(unittest.TestCase):
    def test_what_is_no_condition_is_refused(self):
        with self.assertRaises(ValueError):
            report.matching({"pen": 2.0}, "__import__('os').getcwd()")
"""
Rewrite = Callable[[str], str]


def added(text: str) -> Rewrite:
    """The file with something at its end."""
    return lambda source: source if text in source else source + text


def replaced(old: str, new: str) -> Rewrite:
    """The file with one text in place of another."""
    return lambda source: source.replace(old, new)


def without_eval(source: str) -> str:
    """The module with a condition that is read instead of run."""
    head, found, _ = source.partition("def matching(")
    if not found or "eval(" not in source:
        return source
    return head.replace('condition."""\n', 'condition."""\n\nimport re\n', 1) + SAFE_MATCHING


# What a finding says, the file that is wrong, how it is repaired, and what the commit is called.
REPAIRS: tuple[tuple[str, str, Rewrite, str], ...] = (
    (
        r"FAIL: test_the_last_line_is_kept",
        "report.py",
        replaced("len(lines) - 1, size", "len(lines), size"),
        "Keep the line that is alone on the last page",
    ),
    (
        r"stock\.py:\d+: .* never closed",
        "stock.py",
        replaced(
            "    return dict(_article(line) for line in open(path))\n",
            "    with open(path) as file:\n        return dict(_article(line) for line in file)\n",
        ),
        "Close the stock file",
    ),
    (
        r"report\.py:\d+: average\(\) divides by zero",
        "report.py",
        replaced("sum(prices) / len(prices)\n", "sum(prices) / len(prices) if prices else 0\n"),
        "Give the mean of no prices",
    ),
    (r"report\.py:\d+: matching\(\) runs .* with eval", "report.py", without_eval, "Read a condition, never run it"),
    (r"nothing tests average\(\)", "test_report.py", added(TEST_OF_AVERAGE), "Test the mean"),
    (r"no test sees matching\(\) refuse", "test_report.py", added(TEST_OF_REFUSAL), "Test what is no condition"),
)


def main() -> None:
    """Answer the prompt on standard input."""
    prompt = sys.stdin.read()
    work = next((work for words, work in WORK.items() if words in prompt), None)
    if work is None:
        sys.exit("the demo's agent knows the prompts of quick-dev only")
    time.sleep(2 * PAUSE)
    work(prompt)


def say(text: str) -> None:
    """One line of the answer, at a pace that can be read."""
    time.sleep(PAUSE)
    print(text, flush=True)  # noqa: T201 - its answer is its standard output


def plan(_: str) -> None:
    """Say what will be written."""
    say("Write report.py with pages(), average() and matching(); test_report.py says what they must do.")


def implement(_: str) -> None:
    """Write the module in one go, as one does, with what one overlooks."""
    say("Writing report.py")
    Path("report.py").write_text(REPORT, encoding="utf-8")
    commit("Add report.py: pages, mean price, conditions")
    say("report.py is written and committed.")


def fix(prompt: str) -> None:
    """Repair what the prompt's findings name, and nothing else."""
    _, section, after = prompt.rpartition(FINDINGS)
    named = after.partition(FIX)[0] if section else ""
    repairs = [repair for repair in REPAIRS if re.search(repair[0], named)]
    for _, name, rewrite, title in repairs:
        path = Path(name)
        path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
        if commit(title):
            say(f"Repaired: {title}")
    say("What no finding named was left alone.")


def commit(title: str) -> bool:
    """Commit what changed; whether anything did."""
    Path(".git/index.lock").unlink(missing_ok=True)  # a git that was killed leaves it, and nobody else works here
    subprocess.run([*GIT, "add", "--all"], check=True)
    if subprocess.run([*GIT, "diff", "--cached", "--quiet"], check=False).returncode == 0:
        return False
    subprocess.run([*GIT, "commit", "--quiet", "--message", title], check=True)
    return True


def review_code(_: str) -> None:
    """Look for divisions by a length that may be nothing."""
    verdict([found for path in sources() for found in divisions(path)])


def review_security(_: str) -> None:
    """Look for text that is run as a program."""
    verdict([found for path in sources() for found in code_from_outside(path)])


def review_tests(_: str) -> None:
    """Look for behaviour that no test would miss."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path().glob("test_*.py"))
    verdict([found for path in sources() for found in untested(path, tests)])


def verdict(findings: list[str]) -> None:
    """Report what was found, and the status."""
    for finding in findings:
        say(f"- {finding}")
    if not findings:
        say("Nothing has to change.\n\n[STATUS: success]")
        return
    say(f"\n[STATUS: fail]\n[FAILURE_REASON: {findings[0]}]")


def sources() -> list[Path]:
    """The modules of the project, without its tests and its checker."""
    return [path for path in sorted(Path().glob("*.py")) if not path.name.startswith(("test_", "check"))]


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    """The public functions of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def divisions(path: Path) -> Iterator[str]:
    """Divisions by a length that nothing asks about first."""
    for function in functions(path):
        asked = {ast.unparse(node.test) for node in ast.walk(function) if isinstance(node, ast.If | ast.IfExp)}
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                below = re.fullmatch(r"len\((\w+)\)", ast.unparse(node.right))
                if below and not any(below[1] in test for test in asked):
                    yield f"{path}:{node.lineno}: {function.name}() divides by zero when {below[1]} is empty"


def code_from_outside(path: Path) -> Iterator[str]:
    """Calls that run a text."""
    for function in functions(path):
        for node in ast.walk(function):
            name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in RUNS_CODE:
                given = ast.unparse(node.args[0])
                yield f"{path}:{node.lineno}: {function.name}() runs its {given}, a text from outside, with {name}"


def untested(path: Path, tests: str) -> Iterator[str]:
    """Functions that no test calls, and errors that no test waits for."""
    for function in functions(path):
        if f".{function.name}(" not in tests:
            yield f"{path}:{function.lineno}: nothing tests {function.name}()"
        elif any(isinstance(node, ast.Raise) for node in ast.walk(function)) and not re.search(
            rf"assertRaises\(\w+\):\s+\w+\.{function.name}\(", tests
        ):
            yield f"{path}:{function.lineno}: no test sees {function.name}() refuse what it cannot read"


# The agent is told nothing but its prompt, so that a task is known by the words it begins with.
WORK: dict[str, Callable[[str], None]] = {
    "Plan the smallest change that reaches this goal": plan,
    "Implement the plan above for this goal": implement,
    "as the engineer who will have to maintain it": review_code,
    "as someone who wants to misuse it": review_security,
    "Review the tests of the change made for this goal": review_tests,
    FIX: fix,
}

if __name__ == "__main__":
    main()
