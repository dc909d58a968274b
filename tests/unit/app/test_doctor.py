"""Checks of a machine that the command line cannot show."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.app.stubs import ANSWERED, SETTLED, stub
from tests.unit.backends.test_select import settings

from pipeline.app.doctor import EXTRAS, AgentCheck, Diagnosis, Doctor, SystemCheck
from pipeline.backends.agents.scripted import ScriptedBackend, load_script
from pipeline.backends.process import LocalProcesses


class Named(ScriptedBackend):
    """A backend of a plugin."""

    name = "mine"


def examine(tmp_path: Path, text: str = "", *, call: bool = False, **environ: str) -> Diagnosis:
    """Examine a machine with one plugin that adds a backend."""
    added = Named(load_script('{"doctor": "Here."}'))
    given = {"PATH": str(tmp_path), **environ}
    doctor = Doctor(settings(text), given, tmp_path / "store", LocalProcesses("test", grace=0.2), None, [added])
    return asyncio.run(doctor.examine(call=call))


def agent(diagnosis: Diagnosis, name: str) -> AgentCheck:
    (found,) = [one for one in diagnosis.agents if one.name == name]
    return found


def test_a_plugin_s_backend_is_an_agent(tmp_path: Path) -> None:
    """It works without a program, and is asked like the others."""
    found = agent(examine(tmp_path, call=True), "mine")
    assert (found.path, found.works) == ("a plugin", True)
    assert found.call is not None
    assert found.call.text == "Here."


def test_a_missing_program_does_not_work(tmp_path: Path) -> None:
    """It is reported without starting it."""
    found = agent(examine(tmp_path, 'acp { command "/gone/agent" "acp"; }'), "acp")
    assert (found.works, '"/gone/agent"' in found.problem) == (False, True)


def test_the_model_of_the_settings_is_for_their_agent_alone(tmp_path: Path) -> None:
    """Another one would be asked for a model that it does not know; its provider's key is passed by its name."""
    for name in ("pi", "opencode"):
        stub(tmp_path, name, prints=(ANSWERED, SETTLED))
    text = 'backend "pi"\nmodel "m"\nprovider "mistral"\n'
    found = examine(tmp_path, text, call=True, MISTRAL_API_KEY="planted-0123456789")
    assert "--provider mistral --model m" in (tmp_path / "pi.ran").read_text()
    assert "mistral" not in (tmp_path / "opencode.ran").read_text()
    assert agent(found, "pi").keys == ("MISTRAL_API_KEY",)
    assert (agent(found, "opencode").keys, agent(found, "pi").advice) == ((), "")


def test_an_unneeded_part_may_be_missing(tmp_path: Path) -> None:
    """Git is needed, an extra is not."""
    parts = {part.name: part for part in examine(tmp_path).parts}
    assert (parts["git"].ok, parts["git"].needed, parts["extra api"].needed) == (False, True, False)
    assert not examine(tmp_path).healthy


def test_a_missing_extra_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every extra has its line; one that lacks a single module is not installed, and not needed."""
    monkeypatch.setitem(EXTRAS, "web", ("json", "no_such_module"))
    parts = {part.name: part for part in examine(tmp_path).parts}
    assert {f"extra {name}" for name in ("api", "cluster", "web")} <= parts.keys()
    words = 'not installed (optional): pip install "awf-pipeline[web]"'
    assert parts["extra web"] == SystemCheck("extra web", words, ok=False, needed=False)
