"""The file and shell tools of a model that is called directly."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.conftest import PATH, Bench, alive, eventually

from pipeline.backends.agents import api
from pipeline.backends.agents.api import (
    LONGEST_RESULT,
    FileTools,
    ShellTool,
    ToolFailure,
    tools_for,
    without_provider_keys,
)
from pipeline.engine.ports import AgentRequest
from pipeline.language.model import Access

READING = ["read_file", "list_files", "search"]
ESCAPES = ["../out.txt", "/etc/passwd", "link/out.txt", "link", "in/../../out.txt", "loop", "nul\0"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with links that lead out, and a file outside."""
    (tmp_path / "out.txt").write_text("secret")
    made = tmp_path / "home"
    (made / "in").mkdir(parents=True)
    (made / "link").symlink_to(tmp_path)
    (made / "loop").symlink_to("loop")
    (made / "leak").symlink_to(tmp_path / "out.txt")
    return made


def shell(bench: Bench, **options: Any) -> ShellTool:
    """A shell for a request."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": ""}
    there = {"cwd": bench.cwd, "artifacts": bench.artifacts, "env": {"PATH": PATH}}
    return ShellTool(AgentRequest(**{**defaults, **there, **options}), bench.processes, lambda: None)


def run(bench: Bench, command: str, seconds: float = 60, **options: Any) -> str:
    """What a model reads of a command."""
    return asyncio.run(shell(bench, **options).run_command(command, seconds))


@pytest.mark.parametrize("name", [*ESCAPES, "leak"])
def test_no_path_leads_out(home: Path, name: str) -> None:
    """Neither by dots nor whole nor by a link can a file outside be read, listed, searched, written or edited."""
    files = FileTools(home)
    uses: list[Callable[[], str]] = [
        lambda: files.read_file(name),
        lambda: files.list_files(name),
        lambda: files.search("secret", name),
        lambda: files.write_file(name, "bad"),
        lambda: files.edit_file(name, "secret", "bad"),
    ]
    for use in uses:
        with pytest.raises(ToolFailure, match=r"is outside|cannot be resolved"):
            use()
    assert files.denied == [name] * 5
    assert (home.parent / "out.txt").read_text() == "secret"


def test_a_search_skips_links_that_lead_out(home: Path) -> None:
    """What is linked from outside is listed by its name, but its content is not found."""
    (home / "in" / "a.txt").write_text("no\nthe secret is mine\n")
    (home / "binary").write_bytes(b"secret \xff")
    (home / ".git").mkdir()
    (home / ".git" / "config").write_text("secret")
    assert FileTools(home).search("secret") == "in/a.txt:2: the secret is mine"
    assert FileTools(home).list_files().split("\n") == ["binary", "leak", "loop", "in/a.txt"]
    assert FileTools(home).list_files("in") == "in/a.txt"
    assert FileTools(home).search("the", "in/a.txt") == "in/a.txt:2: the secret is mine"


def test_a_search_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge tree is not walked to its end."""
    monkeypatch.setattr(api, "_MOST_FILES", 3)
    for name in ("a", "in/b", "in/c"):
        (home / name).write_text("x")
    assert FileTools(home).list_files().split("\n") == ["a", "leak", "loop"]


def test_an_empty_result_is_readable(home: Path) -> None:
    """A model cannot read an empty answer."""
    assert FileTools(home).search("nowhere") == "[nothing found]"
    with pytest.raises(ToolFailure, match="empty"):
        FileTools(home).search("")


def test_long_results_are_shortened(home: Path) -> None:
    """A list says that there is more; a text keeps its beginning and its end."""
    for number in range(501):
        (home / "in" / f"{number:03}").write_text("")
    listed = FileTools(home).list_files("in").split("\n")
    assert (len(listed), listed[499], listed[500]) == (501, "in/499", "[more than 500; the rest is omitted]")
    (home / "long").write_text("a" * LONGEST_RESULT + "z")
    read = FileTools(home).read_file("long")
    assert (read[0], read[-1]) == ("a", "z")
    assert "\n[1 characters omitted]\n" in read


def test_part_of_a_file_is_read(home: Path) -> None:
    """Lines are counted from 1."""
    (home / "a").write_text("one\ntwo\nthree\n")
    assert FileTools(home).read_file("a") == "one\ntwo\nthree\n"
    assert FileTools(home).read_file("a", first_line=2, lines=1) == "two\n"
    assert FileTools(home).read_file("a", first_line=0, lines=-1) == ""


def test_only_text_is_read(home: Path) -> None:
    """A directory, a missing file and a binary file are errors."""
    (home / "binary").write_bytes(b"\xff")
    for name in ("in", "missing", "binary"):
        with pytest.raises(ToolFailure, match=f'"{name}" '):
            FileTools(home).read_file(name)
    with pytest.raises(ToolFailure, match="not a directory"):
        FileTools(home).list_files("binary")


def test_a_file_is_written_as_given(home: Path) -> None:
    """Directories are made, and line ends stay."""
    FileTools(home).write_file("new/deep/a.txt", "one\r\ntwo\n")
    assert (home / "new" / "deep" / "a.txt").read_bytes() == b"one\r\ntwo\n"
    with pytest.raises(ToolFailure, match="cannot write"):
        FileTools(home).write_file("in", "bad")
    with pytest.raises(ToolFailure, match="cannot write"):
        FileTools(home).write_file("odd", "\ud800")


def test_an_edit_changes_one_place(home: Path) -> None:
    """A text that does not occur exactly once is not edited, and the rest of the file is unchanged."""
    (home / "a").write_bytes(b"x = 1\r\ny = 1\n")
    FileTools(home).edit_file("a", "y = 1", "y = 2")
    assert (home / "a").read_bytes() == b"x = 1\r\ny = 2\n"
    for old, times in (("=", 2), ("z", 0), ("", 0)):
        with pytest.raises(ToolFailure, match=f"occurs {times} times"):
            FileTools(home).edit_file("a", old, "w")
    assert (home / "a").read_bytes() == b"x = 1\r\ny = 2\n"


@pytest.mark.parametrize(
    ("access", "names"),
    [
        (Access.NONE, []),
        (Access.READ_ONLY, READING),
        (Access.CODING, [*READING, "write_file", "edit_file", "run_command"]),
    ],
)
def test_the_tools_go_by_access(bench: Bench, access: Access, names: list[str]) -> None:
    """Read-only access has no tool that writes; without access there is none."""
    request = AgentRequest("s", 1, 1, "", bench.cwd, bench.artifacts, access=access)
    tools = tools_for(access, FileTools(bench.cwd), ShellTool(request, bench.processes, lambda: None))
    assert [tool.__name__ for tool in tools] == names


def test_a_command_runs_in_the_directory(bench: Bench) -> None:
    """Its exit code and all it printed come back, and each command keeps its own logs."""
    one = shell(bench)
    assert asyncio.run(one.run_command("pwd; echo bad >&2; exit 3")) == f"exit code 3\n{bench.cwd}\nbad\n"
    assert asyncio.run(one.run_command("echo two")) == "exit code 0\ntwo\n"
    assert (bench.artifacts / "command-2" / "stdout.log").read_text() == "two\n"


def test_a_command_that_takes_too_long_is_stopped(bench: Bench) -> None:
    """With all that it started."""
    report = run(bench, "setsid sleep 1000 & echo $! >pid; echo on; wait", 1.0)
    assert report == "stopped: it took too long\non\n"
    assert not alive(bench.pid())


def test_a_killed_command_names_the_signal(bench: Bench) -> None:
    """The signal is named."""
    assert run(bench, "kill -9 $$") == "SIGKILL\n"


def test_a_command_gets_no_key(bench: Bench) -> None:
    """Not under its own name, nor under another, nor a provider's address."""
    keys = {"OPENAI_API_KEY": "sk-planted-1", "MY_COPY": "sk-planted-1", "OTHER_API_KEY": "sk-planted-2"}
    addresses = {"OPENAI_BASE_URL": "http://planted", "GOOGLE_APPLICATION_CREDENTIALS": "/planted.json"}
    env = {"PATH": PATH, "GREETING": "hello", **keys, **addresses}
    printed = run(bench, "env", provider="openai", env=env)
    assert "planted" not in printed
    assert "GREETING=hello" in printed


def test_the_key_of_an_unknown_provider_is_taken_out_too() -> None:
    """By the name that the provider's key would have; values too short for a key are kept elsewhere."""
    left = {"PATH": PATH, "EMPTY": "", "MY_REGION": "eu-1"}
    env = {"MINE_BASE_URL": "x", "MINE_API_KEY": "y", "AWS_REGION": "eu-1", "OPENAI_API_KEY": "", **left}
    assert without_provider_keys(env, "mine") == left


def test_a_cancelled_command_leaves_no_process(bench: Bench) -> None:
    """What left its session is gone when the cancellation is raised."""

    async def cancel() -> None:
        going = asyncio.create_task(shell(bench).run_command("setsid sleep 1000 & echo $! >p; mv p pid; wait"))
        await asyncio.to_thread(eventually, (bench.cwd / "pid").exists)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        assert not bench.left()

    asyncio.run(cancel())
