"""What a command is told about the machine: the working directory, the home, the shipped workflows."""

from pathlib import Path

import pipeline
from pipeline.app.catalog import Catalog


def catalog() -> Catalog:
    """The workflows that can be named from here."""
    return Catalog(cwd=Path.cwd(), home=Path.home(), shipped=Path(pipeline.__file__).parent / "workflows")
