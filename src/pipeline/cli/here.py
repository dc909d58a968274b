"""What a command is told about the machine: the working directory, the home, the shipped workflows, the user."""

import os
import pwd
from pathlib import Path

import pipeline
from pipeline.app.catalog import Catalog
from pipeline.errors import AwfError


def catalog() -> Catalog:
    """The workflows that can be named from here."""
    return Catalog(cwd=Path.cwd(), home=home(), shipped=Path(pipeline.__file__).parent / "workflows")


def home() -> Path:
    """The user's home; raises AwfError where nobody knows it."""
    try:
        return Path.home()
    except RuntimeError:  # as in a container
        raise AwfError(f"the home of {user_name()} is not known", help="set HOME to a directory") from None


def user_name() -> str:
    """Who is at the keyboard, as the system knows them."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        return f"user {os.getuid()}"
