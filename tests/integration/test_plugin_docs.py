"""The example in the documentation is a plugin that works; every hook is documented."""

import json
import re
from pathlib import Path

from tests.integration.conftest import Awf

from pipeline.plugins import hooks

PAGE = (Path(__file__).parents[2] / "docs/plugins.md").read_text()
WORKFLOW = """workflow "W" {
  version 2
  start "a"
  stage "a" kind="tool" command="test -e there || { touch there; false; }"
  stage "b" kind="llm" prompt="Fix it"
  stage "end" kind="exit"
  transition from="a" to="end" when="outcome(\\"a\\") == \\"success\\""
  transition from="a" to="b" when="outcome(\\"a\\") != \\"success\\""
  transition from="b" to="a"
}
"""


def test_the_example_plugin_runs(awf: Awf, tmp_path: Path) -> None:
    """Installed as a package with the entry point of the page, it counts, tells agents, and hears of the end."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    (site / "my_package/__init__.py").touch()
    (site / "my_package/failures.py").write_text(code)
    info = site / "my_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    (entry_point,) = re.findall(r'^failures = "(.*)"$', PAGE, re.MULTILINE)
    (info / "entry_points.txt").write_text(f"[awf.plugins]\nfailures = {entry_point}\n")
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "scripted", "--json", PYTHONPATH=str(site))
    assert done.returncode == 0, done.stdout
    assert json.loads(awf("context", "r", "failures", "--json").stdout) == {"a": 1}
    assert "a has failed 1 times in this run." in awf("prompt", "r", "b").stdout
    assert (tmp_path / "ended.txt").read_text() == "r: run_completed\n"


def test_every_hook_is_documented() -> None:
    """A hook that the page does not name cannot be found by anyone."""
    names = {name for name in vars(hooks) if hasattr(getattr(hooks, name), "awf_spec")}
    assert names == set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
