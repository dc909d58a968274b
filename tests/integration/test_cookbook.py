"""Each recipe of the cookbook is a workflow without a fault, and comes to the end that the page shows."""

import subprocess
from pathlib import Path

import pytest
from tests.integration.conftest import Awf
from tests.integration.pages import DOCS, files, follow, sections, steps

RECIPES = sections((DOCS / "cookbook.md").read_text())
EACH = pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    here = tmp_path / "project"
    here.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-qm", "start", "--allow-empty"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=here, check=True, capture_output=True)
    return here


@EACH
def test_a_recipe_ends_as_the_page_shows(recipe: str, repository: Path, home: Path) -> None:
    """Its commands, with its replies and answers, print what stands below them."""
    follow(recipe, repository, home)


@EACH
def test_a_recipe_has_nothing_to_be_said_against_it(recipe: str, awf: Awf, tmp_path: Path) -> None:
    """Not even a warning."""
    (name,) = [name for name in files(recipe) if name.endswith(".awf.kdl")]
    (tmp_path / name).write_text(files(recipe)[name])
    assert awf("validate", name).stdout == "1 workflow checked, no problems.\n"


def test_there_are_six() -> None:
    """A page that is read wrongly would pass by having no recipes."""
    assert len(RECIPES) == 6
    assert all(steps(recipe) for recipe in RECIPES.values())
