"""Finding and reading workflow files."""

from pathlib import Path

import pytest

from pipeline.app.catalog import Catalog
from pipeline.errors import AwfError

WORKFLOW = 'workflow "W" {\n  version 2\n  start "end"\n  stage "end" kind="exit"\n}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a directory inside it."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/.git/HEAD").touch()
    (tmp_path / "repo/sub").mkdir()
    return tmp_path / "repo"


def catalog(cwd: Path) -> Catalog:
    base = cwd
    while base.name != "repo":
        base = base.parent
    return Catalog(cwd, base.parent / "home", base.parent / "shipped")


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(WORKFLOW)
    return path


def test_a_name_is_looked_up_in_order(project: Path) -> None:
    """The directory, its .awf, the repository's root, its .awf, the home, the package: the first match wins."""
    folders = [
        project / "sub/workflows",
        project / "sub/.awf/workflows",
        project / "workflows",
        project / ".awf/workflows",
        project.parent / "home/.config/awf/workflows",
        project.parent / "shipped",
    ]
    for directory in reversed(folders):
        expected = put(directory / "w.awf.kdl")
        assert catalog(project / "sub").find("w").path == expected
    found = [entry.path.parent for _, entry in catalog(project / "sub").entries()]
    assert found == folders


def test_a_path_is_used_as_it_is(project: Path) -> None:
    """A path is not looked up, even if nothing exists there."""
    path = put(project / "sub/mine.awf.kdl")
    assert catalog(project).find("sub/mine.awf.kdl").path == path
    assert catalog(project).find("missing.awf.kdl").path == project / "missing.awf.kdl"


def test_a_directory_means_every_workflow_in_it(project: Path) -> None:
    """Including its subdirectories, except those of tools."""
    put(project / "flows/b.awf.kdl")
    put(project / "flows/deep/a.awf.kdl")
    put(project / "flows/node_modules/c.awf.kdl")
    assert [entry.name for entry in catalog(project).expand("flows")] == ["b", "a"]


def test_an_unknown_name_is_answered_with_the_nearest(project: Path) -> None:
    """The error suggests what was probably meant."""
    put(project / "workflows/quick-dev.awf.kdl")
    with pytest.raises(AwfError, match='unknown workflow "quikdev"') as caught:
        catalog(project).find("quikdev")
    assert caught.value.help == 'did you mean "quick-dev"?'


def test_a_partial_or_mistyped_file_name_has_a_hint(project: Path) -> None:
    """The full name of the file is suggested."""
    put(project / "fix.awf.kdl")
    with pytest.raises(AwfError, match='unknown workflow "fix"') as caught:
        catalog(project).find("fix")
    assert caught.value.help == 'use the full name of the file: "fix.awf.kdl"'
    ((rule, problem),) = catalog(project).find("fxi.awf.kdl").read().hits
    assert (rule.code, problem.help) == ("AWF001", 'did you mean "fix.awf.kdl"?')


def test_an_empty_directory_is_an_error(project: Path) -> None:
    """Checking nothing must not look like success."""
    with pytest.raises(AwfError, match="no workflow in directory"):
        catalog(project).expand("sub")


def test_prompts_are_looked_for_in_the_repository_then_beside_the_workflow(project: Path) -> None:
    """A shipped workflow's prompts are its own, whatever repository it is installed in."""
    local = put(project / "workflows/w.awf.kdl")
    assert catalog(project).find("w").prompt_roots == (project, local.parent)
    shipped = put(project.parent / "shipped/s.awf.kdl")
    assert catalog(project).find("s").prompt_roots == (shipped.parent,)
