"""Which agent a stage gets: programs on a PATH made for the test, really run."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.stubs import asked, stub, was_run

from pipeline.app.settings import SettingLevel, Settings, read_settings
from pipeline.backends import select as module
from pipeline.backends.agents.scripted import ScriptedBackend
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import AGENT_OF_PROVIDER, AGENTS, BackendSelector
from pipeline.engine.ports import AgentRequest, AgentResult, Backend, ErrorKind
from pipeline.errors import AwfError
from pipeline.language.model import LlmStage, Workflow
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText


def settings(text: str) -> Settings:
    """The settings of a text."""
    found, hits = read_settings(SourceText("config.kdl", text), SettingLevel.USER)
    assert not hits
    return found


class Machine:
    """A machine with some agents on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.environ = {"PATH": str(self.bin)}

    def install(self, *names: str) -> None:
        for name in names:
            stub(self.bin, name)

    def backends(self, text: str = "", added: Sequence[Backend] = (), **options: Any) -> BackendSelector:
        processes = LocalProcesses("test", grace=0.2)
        return BackendSelector(options, processes, added, settings(text), self.environ, "test")

    def asked(self, backend: Backend) -> AgentResult:
        """The result of a request to a backend."""
        env = {"PATH": str(self.bin)}
        request = AgentRequest("s", 1, 1, "Do it.\n", self.folder, self.folder / "artifacts", env=env)
        return asyncio.run(backend.run(request, lambda _: None))

    def worker(self, backend: Backend) -> set[str]:
        """The programs that were run for a request to a backend."""
        self.asked(backend)
        return {path.name for path in self.bin.iterdir() if was_run(path)}

    def chosen(self, text: str = "", own: str | None = None, provider: str | None = None, **options: Any) -> str:
        """The name of the backend that a stage gets, which runs the program of that name and no other."""
        backend = self.backends(text, **options).choose(stage(backend=own), provider)
        assert self.worker(backend) == {backend.name}
        return backend.name


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without agents."""
    return Machine(tmp_path)


def stage(**attributes: Any) -> LlmStage:
    return LlmStage(id="build", prompt="x", **attributes)


def workflow(*stages: str, models: str = "") -> Workflow:
    body = "\n".join(f'stage "s{n}" kind="llm" prompt="x" {text}' for n, text in enumerate(stages))
    made = parse_workflow(
        SourceText("w", f'workflow "W" {{\nversion 2\nstart "s0"\n{models}\n{body}\nstage "end" kind="exit"\n}}')
    ).workflow
    assert made is not None
    return made


ALL = ("claude", "codex", "gemini", "opencode", "pi")


@pytest.mark.parametrize("first", range(5))
def test_the_first_agent_on_path_is_taken(machine: Machine, first: int) -> None:
    """In a fixed order, when nothing else decides."""
    machine.install(*reversed(ALL[first:]))
    assert machine.chosen() == ALL[first]


@pytest.mark.parametrize(
    ("provider", "agent"), [("anthropic", "claude"), ("openai", "codex"), ("google", "gemini"), ("Gemini", "gemini")]
)
def test_a_provider_has_its_agent(machine: Machine, provider: str, agent: str) -> None:
    """Before the settings' backend and before the order of PATH."""
    machine.install(*ALL)
    assert machine.chosen('backend "pi"', provider=provider) == agent


def test_a_provider_without_an_installed_agent_decides_nothing(machine: Machine) -> None:
    """The next rule applies: the settings, then PATH."""
    machine.install("claude", "pi")
    assert machine.chosen('backend "pi"', provider="openai") == "pi"
    machine.bin.joinpath("pi.ran").unlink()
    assert machine.chosen(provider="openai") == "claude"


def test_an_unknown_provider_decides_nothing(machine: Machine) -> None:
    """It may be one of an agent with many providers."""
    machine.install("opencode")
    assert machine.chosen(provider="mistral") == "opencode"


def test_the_option_precedes_provider_and_settings(machine: Machine) -> None:
    """The command line has the last word."""
    machine.install(*ALL)
    assert machine.chosen('backend "pi"', provider="anthropic", backend="codex") == "codex"


def test_a_stage_s_own_backend_precedes_everything(machine: Machine) -> None:
    """A workflow that names it depends on it."""
    machine.install(*ALL)
    assert machine.chosen('backend "pi"', own="gemini", provider="anthropic", backend="codex") == "gemini"


def test_the_settings_precede_path(machine: Machine) -> None:
    """When a stage has no provider."""
    machine.install(*ALL)
    assert machine.chosen('backend "opencode"') == "opencode"


def test_a_program_of_another_name_can_be_the_agent(machine: Machine) -> None:
    """It is found where the settings say, and started with what they add."""
    path = stub(machine.folder / "opt", "my-pi", of="pi")
    backends = machine.backends(f'agent "pi" {{ program "{path}" "--fast"; extra "-x"; pass "MY" }}')
    backend = backends.choose(stage(), None)
    assert machine.worker(backend) == set()
    (line,) = path.with_name("my-pi.ran").read_text().splitlines()
    assert line.startswith("--fast --print ")
    assert line.endswith(" -x")
    assert "MY" in backend.variables(None)
    machine.install("pi")
    with pytest.raises(AwfError, match='the agent "/gone/pi" was not found'):
        machine.backends('agent "pi" { program "/gone/pi"; }').get("pi")


def test_a_program_without_a_needed_flag_is_not_started(machine: Machine) -> None:
    """The missing flag is named instead; a flag that is not used may be missing."""
    path = stub(machine.folder / "opt", "old-pi", of="pi", without="--no-approve")
    backend = machine.backends(f'agent "pi" {{ program "{path}"; }}').get("pi")
    error = machine.asked(backend).error
    assert error is not None
    assert error.kind is ErrorKind.BAD_FLAG
    assert error.message.startswith(f'the installed "{path}" does not support --no-approve;')
    fine = stub(machine.folder / "opt", "other-pi", of="pi", without="--thinking")
    machine.asked(machine.backends(f'agent "pi" {{ program "{fine}"; }}').get("pi"))
    assert (was_run(path), was_run(fine)) == (False, True)


def test_a_flag_error_makes_the_program_be_asked_again(machine: Machine) -> None:
    """Its file may be a wrapper that is the same as before, while the program behind it is another."""
    path = stub(machine.folder / "opt", "pi", without="--no-approve")
    backend = machine.backends(f'agent "pi" {{ program "{path}"; }}').get("pi")
    machine.asked(backend)
    before = asked(path)
    machine.asked(backend)
    assert asked(path) == before + 2
    fine = stub(machine.folder / "bin2", "pi")
    rejects = "echo \"error: unknown option '--mode'\" >&2; exit 1; while read"
    fine.write_text(fine.read_text().replace("while read", rejects))
    backend = machine.backends(f'agent "pi" {{ program "{fine}"; }}').get("pi")
    for times in (1, 2):
        error = machine.asked(backend).error
        assert error is not None
        assert (error.kind, asked(fine)) == (ErrorKind.BAD_FLAG, 2 * times)


def test_no_agent_is_an_error_that_says_what_was_looked_for(machine: Machine) -> None:
    """The scripted one is not used instead; a file that cannot be run is not an agent."""
    (machine.bin / "claude").write_text("not a program")
    with pytest.raises(AwfError) as caught:
        machine.backends().choose(stage(), None)
    assert caught.value.message == "no agent found: looked for claude, codex, gemini, opencode, pi on PATH"
    assert '"awf doctor"' in (caught.value.help or "")


@pytest.mark.parametrize("text", ["", 'backend "codex"'])
def test_a_named_agent_is_never_replaced(machine: Machine, text: str) -> None:
    """Another one would be a surprise."""
    machine.install("claude")
    options: dict[str, Any] = {} if text else {"backend": "codex"}
    with pytest.raises(AwfError) as caught:
        machine.backends(text, **options).choose(stage(), None)
    assert caught.value.message == 'the agent "codex" was not found'
    assert caught.value.help == "install codex: npm install -g @openai/codex"


def test_an_unknown_backend_is_an_error(machine: Machine) -> None:
    """With the name that was probably meant, or all names."""
    with pytest.raises(AwfError) as caught:
        machine.backends(backend="cluade").choose(stage(), None)
    assert (caught.value.message, caught.value.help) == ('unknown backend "cluade"', 'did you mean "claude"?')
    with pytest.raises(AwfError) as caught:
        machine.backends(backend="zzz").choose(stage(), None)
    assert caught.value.help == "the backends are acp, api, claude, codex, command, gemini, opencode, pi, scripted"


def test_a_choice_is_made_once(machine: Machine) -> None:
    """For each backend and provider that stages ask for; after that PATH is not looked at."""
    machine.install("claude", "codex")
    backends = machine.backends()
    first, second = backends.choose(stage(), None), backends.choose(stage(), "openai")
    for path in machine.bin.iterdir():
        path.unlink()
    assert backends.choose(stage(model="other"), None) is first
    assert backends.choose(stage(), "openai") is second
    assert backends.choose(stage(backend="claude"), "openai") is first


@pytest.mark.parametrize("name", ["mine", "claude"])
def test_a_plugin_s_backend_is_chosen_by_its_name(machine: Machine, name: str) -> None:
    """Even if it has the name of a built-in one; of two with the same name the later counts."""
    first, second = ScriptedBackend({}), ScriptedBackend({})
    first.name = second.name = name
    assert machine.backends(added=[first, second]).choose(stage(backend=name), None) is second


def test_any_program_can_be_set_as_the_agent(machine: Machine) -> None:
    """The option's program precedes the settings'; none at all is an error."""
    mine = stub(machine.bin, "mine")
    text = 'backend "command"\nagent "command" { program "mine" "-a"; arguments "-b"; extra "-c"; pass "MY"; }'
    backend = machine.backends(text).choose(stage(), None)
    assert machine.worker(backend) == {"mine"}
    assert mine.with_name("mine.ran").read_text() == "-a -b -c\n"
    assert backend.variables(None) == ("MY",)
    machine.worker(machine.backends(text, agent_command=["mine", "-z"]).choose(stage(), None))
    assert mine.with_name("mine.ran").read_text() == "-a -b -c\n-z\n"
    with pytest.raises(AwfError, match='the backend "command" needs a program'):
        machine.backends(backend="command").choose(stage(), None)
    with pytest.raises(AwfError, match='the program "gone" of the backend "command" was not found on PATH'):
        machine.backends(backend="command", agent_command=["gone"]).choose(stage(), None)


def test_an_acp_agent_is_started_by_its_command(machine: Machine) -> None:
    """From the settings, or from the command line; no secret of ours gets into its log."""
    mine = stub(machine.bin, "mine", version="planted-0123456789")
    machine.environ["MY_API_KEY"] = "planted-0123456789"
    backend = machine.backends('acp { command "mine" "--version"; pass "MY"; }').get("acp")
    machine.worker(backend)
    assert asked(mine) == 1  # it went away at once, having spoken no protocol
    log = (machine.folder / "artifacts/stdout.log").read_text()
    assert log.startswith("mine version ")
    assert "planted" not in log
    assert "MY" in backend.variables(None)
    assert machine.backends(agent_command=["mine"]).get("acp").name == "acp"
    with pytest.raises(AwfError, match='the backend "acp" needs a program'):
        machine.backends().get("acp")


def test_the_api_backend_needs_its_library(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the error says how to install it, before anything runs."""
    monkeypatch.setattr(module, "find_spec", lambda name: name == "pydantic_ai" or None)
    assert machine.backends(backend="api").choose(stage(), None).name == "api"
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(AwfError) as caught:
        machine.backends(backend="api").choose(stage(), None)
    assert caught.value.help == 'pip install "awf-pipeline[api]"'


def test_a_workflow_is_checked_before_it_runs(machine: Machine) -> None:
    """Each stage's agent must be installed; the first that is not is named, with the stage."""
    machine.install("claude")
    backends = machine.backends()
    backends.check(workflow("", 'provider="openai"', 'backend="claude"'))
    with pytest.raises(AwfError) as caught:
        backends.check(workflow("", 'backend="codex"'))
    assert caught.value.message == 'stage "s1" cannot run: the agent "codex" was not found'
    assert caught.value.help == "install codex: npm install -g @openai/codex"


def test_the_check_knows_the_provider_of_a_profile(machine: Machine) -> None:
    """The stage gets what was checked: by the profile, else by the settings' model."""
    machine.install("claude", "codex", "gemini")
    backends = machine.backends('model "g"\nprovider "google"')
    backends.check(workflow('model_profile="fast"', models='models { profile "fast" model="m" provider="openai"; }'))
    backends.check(workflow(""))
    for path in machine.bin.iterdir():
        path.unlink()
    assert backends.choose(stage(), "openai").name == "codex"
    assert backends.choose(stage(), "google").name == "gemini"


def test_a_workflow_without_agents_needs_none(machine: Machine) -> None:
    """Tools and people run without one."""
    machine.backends().check(workflow())


def test_the_api_s_library_is_not_loaded() -> None:
    """It takes a second, so it is loaded by the first request."""
    code = "import sys, pipeline.backends.select; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_has_the_name_of_its_program(name: str) -> None:
    """And says which flags it needs and how to install it."""
    agent = AGENTS[name]
    assert (agent.name, bool(agent.flags), bool(agent.install)) == (name, True, True)


def test_a_provider_s_agent_is_an_agent() -> None:
    """Each provider leads to a known one."""
    assert set(AGENT_OF_PROVIDER.values()) <= set(AGENTS)
