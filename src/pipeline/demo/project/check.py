"""This project's own checker: every file must be opened in a `with` statement."""

import ast
import pathlib
import sys


def unclosed(path):
    """Yield the lines of a module that open a file outside a `with`."""
    tree = ast.parse(path.read_text())
    managed = {id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open" and id(node) not in managed:
            yield f"{path}:{node.lineno}: this file is opened and never closed"


problems = [problem for path in sorted(pathlib.Path().glob("*.py")) for problem in unclosed(path)]
print("\n".join(problems) or "check.py: no problems")
sys.exit(1 if problems else 0)
