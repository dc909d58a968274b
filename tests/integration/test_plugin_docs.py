"""The example in the documentation is a plugin that works; every hook is documented."""

import json
import re
from pathlib import Path

import pytest
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


def installed(site: Path, code: str) -> str:
    """Install a plugin as a package with the entry point of the page; where it is found."""
    (site / "my_package").mkdir(parents=True)
    (site / "my_package/__init__.py").touch()
    (site / "my_package/failures.py").write_text(code)
    info = site / "my_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    (entry_point,) = re.findall(r'^failures = "(.*)"$', PAGE, re.MULTILINE)
    (info / "entry_points.txt").write_text(f"[awf.plugins]\nfailures = {entry_point}\n")
    return str(site)


def test_the_example_plugin_runs(awf: Awf, tmp_path: Path) -> None:
    """Installed as a package with the entry point of the page, it counts, tells agents, and hears of the end."""
    (code, _) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    site = installed(tmp_path / "site", code)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "scripted", "--json", PYTHONPATH=site)
    assert done.returncode == 0, done.stdout
    assert json.loads(awf("context", "r", "failures", "--json").stdout) == {"a": 1}
    assert "a has failed 1 times in this run." in awf("prompt", "r", "b").stdout
    assert (tmp_path / "ended.txt").read_text() == "r: run_completed\n"


def test_the_rule_of_a_plugin_is_one_of_the_rules(awf: Awf, tmp_path: Path) -> None:
    """The second example of the page: `awf validate` applies it, `awf explain` has its page, and a run is warned."""
    (_, code) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    site = installed(tmp_path / "site", code)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    checked = awf("validate", "w.awf.kdl", PYTHONPATH=site)
    assert 'warning[OUR001]: workflow "W" has no description' in checked.stdout
    assert checked.returncode == 0
    assert "A workflow does not say what it is for." in awf("explain", "OUR001", PYTHONPATH=site).stdout
    assert "OUR001" in awf("run", "w.awf.kdl", "--backend", "scripted", PYTHONPATH=site).stderr
    assert "OUR001" not in awf("validate", "w.awf.kdl").stdout


@pytest.mark.parametrize(
    ("right", "wrong", "raised"),
    [
        ("if not workflow.description", "if workflow.nothing", "AttributeError"),
        ("Problem(", "print(", "None"),
    ],
)
def test_a_rule_that_raises_is_named(awf: Awf, tmp_path: Path, right: str, wrong: str, raised: str) -> None:
    """What it would have said is unknown, so nothing is called fine; nor where it says what is no problem."""
    (_, code) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    site = installed(tmp_path / "site", code.replace(right, wrong))
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    checked = awf("validate", "w.awf.kdl", PYTHONPATH=site)
    assert checked.returncode == 2
    assert "the rule OUR001 of a plugin" in checked.stderr
    assert raised in checked.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_this_name", 'plugin "failures" (my_package.failures) cannot be loaded'),
        ("from pipeline.plugins import hookimpl\n@hookimpl\ndef conclde(visits): ...", "conclde"),
        ("from pipeline.plugins import hookimpl\n@hookimpl\ndef on_event(evnt): ...", "evnt"),
        ("import sys\nsys.exit()", "SystemExit"),
        (
            "from pipeline.plugins import hookimpl\n@hookimpl\ndef agent_backends():\n    return ['mine']",
            "failed in agent_backends: TypeError: it returned 'mine': Input should be an instance of Backend",
        ),
    ],
    ids=["an import", "a hook", "an argument", "an exit", "a backend"],
)
def test_an_installed_plugin_that_is_wrong_is_named(awf: Awf, tmp_path: Path, code: str, said: str) -> None:
    """With what is wrong in it, before anything runs."""
    site = installed(tmp_path / "site", code)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    done = awf("run", "w.awf.kdl", "--backend", "scripted", PYTHONPATH=site)
    assert done.returncode == 2
    assert 'plugin "failures"' in done.stderr
    assert said in done.stderr


def test_every_hook_is_documented() -> None:
    """A hook that the page does not name cannot be found by anyone."""
    names = {name for name in vars(hooks) if hasattr(getattr(hooks, name), "awf_spec")}
    assert names == set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
