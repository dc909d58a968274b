"""Where a command runs."""

import os
import pwd

import pytest

from pipeline.cli.location import home
from pipeline.errors import AwfError


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a container may be unknown to the system: the error says who it is and what to set."""

    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(AwfError, match=f"user {os.getuid()}") as refused:
        home()
    assert "HOME" in str(refused.value.help)
