"""What a command is told about the machine."""

import os
import pwd

import pytest

from pipeline.cli.location import home
from pipeline.errors import AwfError


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user may be nobody that the system knows: who it is, and what to set, is told."""

    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(AwfError, match=f"the home of user {os.getuid()} is not known") as told:
        home()
    assert "HOME" in str(told.value.help)
