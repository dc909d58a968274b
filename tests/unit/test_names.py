"""Names are unambiguous: one public class name means one class."""

import ast
from collections import Counter
from pathlib import Path

import pipeline

SOURCE = Path(pipeline.__file__).parent


def test_a_public_class_name_is_used_once() -> None:
    """A name that several modules define sends a reader to the wrong one."""
    data = (SOURCE / "workflows", SOURCE / "demo/project")
    modules = [path for path in SOURCE.rglob("*.py") if not any(path.is_relative_to(folder) for folder in data)]
    assert modules
    names = Counter(
        node.name
        for path in modules
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
